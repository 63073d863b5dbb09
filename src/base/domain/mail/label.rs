//! Label of a text: the lowest trust of its authors, and who may read it.

use super::address::Address;
use super::email::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Addresses that may read a text. Owners may read everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Readers {
    /// Whomever the persona may write to.
    #[default]
    Everyone,
    /// These addresses, in [`Address::key`] form, and the owners.
    Only(BTreeSet<String>),
}

impl Readers {
    /// The owners alone.
    pub const OWNERS: Self = Self::Only(BTreeSet::new());

    /// Returns the readers of both texts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Everyone, readers) | (readers, Self::Everyone) => readers,
            (Self::Only(mine), Self::Only(theirs)) => {
                Self::Only(mine.intersection(&theirs).cloned().collect())
            }
        }
    }

    /// Reports whether an address that is no owner's may read the text.
    pub fn permit(&self, address: &Address) -> bool {
        match self {
            Self::Everyone => true,
            Self::Only(readers) => readers.contains(&address.key()),
        }
    }

    /// Reports whether everybody of an audience may read the text. Owners may read everything.
    pub fn include(&self, audience: &Self, owners: &[Address]) -> bool {
        let is_owner = |key: &String| owners.iter().any(|owner| owner.key() == *key);
        match (self, audience) {
            (Self::Everyone, _) => true,
            (Self::Only(_), Self::Everyone) => false,
            (Self::Only(readers), Self::Only(audience)) => audience
                .iter()
                .all(|key| readers.contains(key) || is_owner(key)),
        }
    }

    pub fn is_everyone(&self) -> bool {
        *self == Self::Everyone
    }
}

/// Label of texts that a run has read: it decides what the run may do, and to whom it may write.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(from = "RecordedLabel")]
pub struct TextLabel {
    /// Lowest trust of the authors; `None`: no other than the run's own sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lowest: Option<Trust>,
    #[serde(skip_serializing_if = "Readers::is_everyone")]
    pub readers: Readers,
}

/// A label as recorded; `of_others` is of records before D-75.
#[derive(Deserialize, JsonSchema)]
struct RecordedLabel {
    lowest: Option<Trust>,
    #[serde(default)]
    readers: Readers,
    #[serde(default)]
    of_others: bool,
}

impl From<RecordedLabel> for TextLabel {
    fn from(recorded: RecordedLabel) -> Self {
        let readers = match recorded.of_others {
            true => Readers::OWNERS,
            false => recorded.readers,
        };
        Self {
            lowest: recorded.lowest,
            readers,
        }
    }
}

impl TextLabel {
    /// Lowest trust, for the owners alone: for texts of which nothing is known.
    pub const UNKNOWN: Self = Self {
        lowest: Some(Trust::Unauthenticated),
        readers: Readers::OWNERS,
    };

    /// Texts for the owners alone, by authors whose trust limits nothing.
    pub const PRIVATE: Self = Self {
        lowest: None,
        readers: Readers::OWNERS,
    };

    /// Describes the label in a word or two; empty when it limits nothing.
    pub fn described(&self) -> String {
        let lowest = self.lowest.map(Trust::as_str);
        let private = (!self.readers.is_everyone()).then_some("private");
        lowest
            .into_iter()
            .chain(private)
            .collect::<Vec<_>>()
            .join(", ")
    }

    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the label of a letter in the run's own thread, whose readers it is addressed to: only an unauthenticated
    /// sender counts.
    pub fn for_past_letter(trust: Trust) -> Self {
        Self {
            lowest: (trust == Trust::Unauthenticated).then_some(trust),
            readers: Readers::Everyone,
        }
    }

    /// Returns the label of letters of others that were put into a prompt; `lowest`: lowest trust of their senders.
    pub fn for_letters_of_others(lowest: &str) -> Self {
        Self {
            lowest: Some(Trust::parse_stored(lowest)),
            readers: Readers::OWNERS,
        }
    }

    /// Returns the label of both texts together.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self {
            lowest: self.lowest.into_iter().chain(more.lowest).min(),
            readers: self.readers.and(more.readers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_label() -> impl Strategy<Value = TextLabel> {
        let trust = prop::sample::select(vec![
            None,
            Some(Trust::Unauthenticated),
            Some(Trust::Contact),
            Some(Trust::Owner),
        ]);
        let some = prop::collection::btree_set("[a-c]@x\\.test", 0..3).prop_map(Readers::Only);
        let readers = prop_oneof![Just(Readers::Everyone), some];
        (trust, readers).prop_map(|(lowest, readers)| TextLabel { lowest, readers })
    }

    proptest! {
        #[test]
        fn a_label_only_goes_down(a in any_label(), b in any_label(), c in any_label()) {
            let both = a.clone().and(b.clone());
            prop_assert_eq!(both.clone(), b.clone().and(a.clone()));
            prop_assert_eq!(both.clone().and(c.clone()), a.clone().and(b.clone().and(c)));
            prop_assert_eq!(both.clone().and(a.clone()), both.clone());
            for text in ["a@x.test", "b@x.test", "d@x.test"] {
                let Ok(address) = Address::parse(text) else { continue };
                let each = a.readers.permit(&address) && b.readers.permit(&address);
                prop_assert_eq!(both.readers.permit(&address), each);
            }
        }

        #[test]
        fn a_recorded_label_is_read_back(label in any_label()) {
            let json = serde_json::to_string(&label).unwrap_or_default();
            prop_assert_eq!(serde_json::from_str::<TextLabel>(&json).ok(), Some(label));
        }
    }

    #[test]
    fn an_old_record_of_others_mail_is_for_the_owners_alone() {
        let read = |json| serde_json::from_str::<TextLabel>(json).ok();
        assert_eq!(
            read(r#"{"lowest":"contact","of_others":true}"#),
            Some(TextLabel::for_letters_of_others("contact"))
        );
        assert_eq!(read(r#"{"of_others":false}"#), Some(TextLabel::default()));
    }
}
