//! A letter's own header by itself, for callers that need an envelope before the letter is parsed.

use super::fields::{Fields, begins_known_field};
use crate::domain::{Mailbox, Timestamp};

/// Returns the letter from its first field on: without a byte-order mark and empty lines before it.
/// Every parser of a header starts here, so that all of them see the same header.
pub fn from_first_field(letter: &[u8]) -> &[u8] {
    let letter = letter.strip_prefix(b"\xef\xbb\xbf").unwrap_or(letter);
    let blank = letter
        .split_inclusive(|byte| *byte == b'\n')
        .take_while(|line| line.trim_ascii().is_empty());
    let rest = &letter[blank.map(<[u8]>::len).sum()..];
    // A letter without a header begins with an empty line, too, and may have a line `Note: …` after
    // it.
    if begins_known_field(rest) {
        rest
    } else {
        letter
    }
}

/// The header section at the front of a letter; the body is not looked at.
#[derive(Debug)]
pub struct Header<'a> {
    fields: Fields<'a>,
}

impl<'a> Header<'a> {
    pub fn read(letter: &'a [u8]) -> Self {
        Self {
            fields: Fields::cut(from_first_field(letter)).0,
        }
    }
    /// Returns every field in order: lower-case name, value with its folds.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &'a [u8])> {
        self.fields.iter()
    }
    /// Reports whether a field of that (lower-case) name is there.
    pub fn has(&self, name: &str) -> bool {
        self.fields.has(name)
    }
    /// Returns the mailboxes of all fields of that (lower-case) name, in order; groups are
    /// flattened.
    pub fn mailboxes(&self, name: &str) -> Vec<Mailbox> {
        self.fields.mailboxes(name)
    }
    /// Returns the instant at which the last server received the letter, by its `Received` field
    /// (RFC 5321 section 4.4).
    pub fn arrival(&self) -> Option<Timestamp> {
        self.fields.trace_date()
    }
    /// Returns the instant in the `Date` field.
    pub fn date(&self) -> Option<Timestamp> {
        self.fields.date("date")
    }
}
