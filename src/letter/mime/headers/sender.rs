//! The one address of a `From` field that is not written by the rules: a name with a bare comma, dots where none may stand,
//! a quoted local part.
//!
//! It is good enough to be answered where the operator's `allow` names it. It proves nothing: `gateway::identity` reads the
//! field by its own strict rules, and a sender that only this page finds stays unauthenticated.

use super::encoded_words;
use super::fields::{Fields, one_line, unfolded};
use crate::domain::{Address, Mailbox};

/// Longest field that is read.
const FROM_BYTES_MAX: usize = 2048;

/// Returns the mailboxes of `From`. Where the only field is not written by the rules and names one address all the same, that
/// is its only mailbox: it may be answered, and proves nothing.
pub(in crate::mime) fn mailboxes(fields: &Fields<'_>) -> Vec<Mailbox> {
    let strict = fields.mailboxes("from");
    let is_plain = matches!(strict.as_slice(), [only] if only.address().is_some());
    let only = fields
        .first("from")
        .filter(|_| !is_plain && fields.count("from") == 1);
    let lenient = only.and_then(|value| only_mailbox(value, fields.raw_charset()));
    lenient.map_or(strict, |only| vec![only])
}

/// Returns the only mailbox: the text between the only angle brackets, at the end, or a whole field that is one address.
/// `raw` is the charset of bytes that nothing else tells.
fn only_mailbox(value: &[u8], raw: &str) -> Option<Mailbox> {
    if value.len() > FROM_BYTES_MAX {
        return None;
    }
    let (masked, words) = encoded_words::masked(&unfolded(value, FROM_BYTES_MAX), raw);
    let text = masked.trim();
    if text.contains(char::is_control) {
        return None;
    }
    let (name, spec) = match outside_quotes(text, '<').as_slice() {
        [] => ("", text),
        [open] => (&text[..*open], text[open + 1..].strip_suffix('>')?),
        _ => return None,
    };
    // A second `@` or `>` is a second address or a route; a colon begins a group.
    let is_free = |c: char| outside_quotes(name, c).is_empty();
    if !is_free('@') || !is_free('>') || !is_free(':') || words.are_in(spec) || spec.contains("=?")
    {
        return None;
    }
    let address = Address::parse_lenient(spec.trim()).ok()?;
    let name = words.revealed(name).replace('"', "");
    Some(Mailbox {
        name: one_line(&name),
        spec: address.to_string(),
    })
}

/// Offsets of a character outside of quoted strings; of none where a quoted string does not end.
fn outside_quotes(text: &str, wanted: char) -> Vec<usize> {
    let (mut found, mut is_quoted, mut is_escaped) = (Vec::new(), false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            c if c == wanted && !is_quoted => found.push(at),
            _ => {}
        }
    }
    found
}
