//! A letter's own header by itself, for those who need an envelope before anything is parsed.

use super::fields::Fields;
use crate::domain::{Mailbox, Timestamp};

/// The header section at the front of a letter; the body is not looked at.
#[derive(Debug)]
pub struct Header<'a> {
    fields: Fields<'a>,
}

impl<'a> Header<'a> {
    pub fn read(letter: &'a [u8]) -> Self {
        let letter = letter.strip_prefix(b"\xef\xbb\xbf").unwrap_or(letter);
        Self { fields: Fields::cut(letter).0 }
    }
    /// Every field in its order: lower-case name, value with its folds.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &'a [u8])> {
        self.fields.iter()
    }
    /// Whether a field of that (lower-case) name is there.
    pub fn has(&self, name: &str) -> bool {
        self.fields.has(name)
    }
    /// Mailboxes of all fields of that (lower-case) name, in order; groups are flattened.
    pub fn mailboxes(&self, name: &str) -> Vec<Mailbox> {
        self.fields.mailboxes(name)
    }
    /// When the last server had the letter, by its `Received` field (RFC 5321 section 4.4).
    pub fn arrival(&self) -> Option<Timestamp> {
        self.fields.trace_date()
    }
    /// When the letter says that it was written.
    pub fn date(&self) -> Option<Timestamp> {
        self.fields.date("date")
    }
}
