//! Visibility of messages to a run: whose view of the mail it has, and the label of what it reads there.

use crate::domain::{Address, Readers, TextLabel, Trust};
use crate::mutants::is_off;
use crate::store::{FoundMessage, OpenedMessage};
use crate::text::truncated;
use crate::tools::contract::*;
use std::collections::BTreeSet;

/// Most characters of a subject, an address list or a snippet in an answer.
const FIELD_CHARS_MAX: usize = 400;

/// `scope` of a result that holds only what every reader of the thread may see.
pub const SCOPE_OF_THREAD: &str = "what the people of this thread may see";
const SCOPE_OF_ALL: &str = "all mail";

/// The fields of a message by which its label is found.
#[derive(Debug, Clone, Copy)]
pub struct MessagePeople<'a> {
    /// `inbound` or `outbound`.
    pub direction: &'a str,
    /// A word of [`Trust`].
    pub trust: &'a str,
    /// The From header in its display form.
    pub sender: &'a str,
    /// `{"to": [..], "cc": [..], "reply_to": [..]}`
    pub recipients_json: &'a str,
    pub disposition: &'a str,
}

impl MessagePeople<'_> {
    /// Reports whether it is a text of the persona's that a rule kept from being sent.
    pub fn is_withheld(&self) -> bool {
        self.direction == "outbound" && self.disposition.starts_with("withheld:")
    }
}

impl<'a> From<&'a FoundMessage> for MessagePeople<'a> {
    fn from(found: &'a FoundMessage) -> Self {
        Self {
            direction: &found.direction,
            trust: &found.trust,
            sender: &found.sender,
            recipients_json: &found.recipients_json,
            disposition: &found.disposition,
        }
    }
}

impl<'a> From<&'a OpenedMessage> for MessagePeople<'a> {
    fn from(opened: &'a OpenedMessage) -> Self {
        Self {
            direction: &opened.direction,
            trust: &opened.trust,
            sender: &opened.sender,
            recipients_json: &opened.recipients_json,
            disposition: &opened.disposition,
        }
    }
}

/// Returns the addresses whose view of the mail this run has; `None` sees all. A run's reads can
/// end in its answer, and its answer can reach every reader of the thread: so a run sees what all
/// of them could read themselves, and an owner's whole view only while the thread has no other
/// reader and an authenticated owner asks: otherwise that address sees its own mail.
pub fn whoever_may_see(mail: &MailPolicy) -> Result<Option<Vec<Address>>, ToolError> {
    let Some(answered) = &mail.answers else {
        return Ok(None);
    };
    let Some(sender) = &answered.sender else {
        return refuse(
            "search_not_allowed",
            "the letter you answer has no single sender, so other mail must not be read for it; \
             answer from this thread",
        );
    };
    let is_owner = |address: &Address| mail.owners.iter().any(|owner| owner.key() == address.key());
    let everybody = mail.participants.iter().chain([sender]);
    let others: Vec<Address> = everybody
        .filter(|address| !is_owner(address))
        .cloned()
        .collect();
    if is_off("G12.search") {
        return Ok(None);
    }
    if others.is_empty() && answered.sender_trust < Trust::Owner {
        return Ok(Some(vec![sender.clone()]));
    }
    Ok((!others.is_empty()).then_some(others))
}

/// Returns the word for the messages that these addresses all may see.
pub fn scope_of(visible_to: Option<&[Address]>) -> &'static str {
    match visible_to {
        Some(_) => SCOPE_OF_THREAD,
        None => SCOPE_OF_ALL,
    }
}

/// Returns the label of a message's text. What everybody in the run's thread may see limits no recipient; any other message
/// may be read by its sender and by whom it names in To and Cc. Of a text that was withheld no label is kept: it may hold
/// anybody's words, and nobody but the owners was to read it.
pub fn label_of(message: MessagePeople<'_>, scope: &str) -> TextLabel {
    if message.is_withheld() && !is_off("G13.withheld") {
        return TextLabel::UNKNOWN;
    }
    TextLabel {
        lowest: (message.direction == "inbound").then(|| Trust::parse_stored(message.trust)),
        readers: match scope {
            SCOPE_OF_THREAD => Readers::Everyone,
            _ => Readers::Only(readers_of(message)),
        },
    }
}

fn readers_of(message: MessagePeople<'_>) -> BTreeSet<String> {
    let recipients: Value = serde_json::from_str(message.recipients_json).unwrap_or_default();
    let named = addresses(&recipients, "to").chain(addresses(&recipients, "cc"));
    let bare = |text: &str| {
        let bare = text.rsplit_once('<').map_or(text, |(_, address)| address);
        Address::parse(bare.trim_end_matches('>').trim()).ok()
    };
    named
        .chain([message.sender])
        .filter_map(bare)
        .map(|address| address.key())
        .collect()
}

pub fn addresses<'v>(recipients: &'v Value, field: &str) -> impl Iterator<Item = &'v str> {
    let list = recipients[field].as_array();
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns one line without control characters and without the invisible ones that reorder or hide
/// text.
pub fn plain_line(text: &str) -> String {
    let hidden = |c: char| matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}');
    let visible: String = text
        .chars()
        .filter(|c| !hidden(*c))
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    truncated(&line, FIELD_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_all_that_it_holds() {
        assert_eq!(
            plain_line("a\u{1b}[2Jb\r\n\u{202e}c\u{200b}d\0"),
            "a [2Jb cd"
        );
    }

    #[test]
    fn a_text_that_was_withheld_is_of_unknown_authors_for_the_owners() {
        let of = |disposition| MessagePeople {
            direction: "outbound",
            trust: "system",
            sender: "ada@engine.test",
            recipients_json: r#"{"to":["carol@partner.test"]}"#,
            disposition,
        };
        for scope in [SCOPE_OF_THREAD, SCOPE_OF_ALL] {
            assert_eq!(
                label_of(of("withheld:not_approved"), scope),
                TextLabel::UNKNOWN
            );
        }
        assert!(label_of(of("sent"), SCOPE_OF_THREAD).is_nothing());
    }
}
