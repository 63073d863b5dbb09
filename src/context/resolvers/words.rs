//! Lowest trust of the texts that a run has read, and whether they were addressed to it: by
//! letters, by tool results, and by the thread's past.

use crate::domain::Trust;
use serde::{Deserialize, Serialize};

/// Texts read, as far as they decide on a run's permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WordsRead {
    /// Lowest trust of their authors; `None`: the run's own readers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest: Option<Trust>,
    /// `true`: mail is included that the run's own readers may not have seen.
    #[serde(default)]
    pub of_others: bool,
}

impl WordsRead {
    /// Lowest trust and mail of others: for texts that cannot be read any more.
    pub const UNKNOWN: Self = Self {
        lowest: Some(Trust::Unauthenticated),
        of_others: true,
    };

    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the value of a letter in the run's own thread, whose readers it is addressed to:
    /// only an unauthenticated sender counts.
    pub fn of_past_letter(trust: Trust) -> Self {
        Self {
            lowest: (trust == Trust::Unauthenticated).then_some(trust),
            of_others: false,
        }
    }

    /// Returns the value of letters that were put into a prompt; `lowest`: lowest trust of their
    /// senders.
    pub fn of_others_letters(lowest: &str) -> Self {
        Self {
            lowest: Some(Trust::of_stored(lowest)),
            of_others: true,
        }
    }

    /// Combines both.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        let lowest = self.lowest.into_iter().chain(more.lowest).min();
        Self {
            lowest,
            of_others: self.of_others || more.of_others,
        }
    }
}
