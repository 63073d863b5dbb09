//! Header sections: the borders of fields, and the values in them.
//!
//! Fields are cut here, so that the cost is linear and every part is cut alike; values are parsed
//! by mail-parser.

use super::{encoded_words, parameters};
use crate::domain::{Mailbox, Timestamp};
use mail_parser::parsers::MessageStream;
use mail_parser::{ContentType, HeaderValue};
use std::borrow::Cow;

/// Longest structured value (`Content-Type`, `Content-Disposition`, an encoded subject) that is
/// parsed, in bytes: the parameter grammar of the library is quadratic in the number of parameters.
const STRUCTURED_BYTES_MAX: usize = 16 * 1024;
/// Longest address list that is parsed, in bytes: several thousand recipients.
const ADDRESSES_BYTES_MAX: usize = 256 * 1024;
/// Longest Message-ID that is kept, in bytes; RFC 5322 section 2.1.1 allows no longer line.
const ID_BYTES_MAX: usize = 998;

/// The fields of one header section in their order.
#[derive(Debug, Default)]
pub(in crate::mime) struct Fields<'a> {
    /// Lower-case name, value without the line end.
    all: Vec<(String, &'a [u8])>,
    /// Charset of bytes that are neither ASCII nor UTF-8 nor in an encoded word; empty: to be guessed.
    raw_charset: String,
}

/// Lines in a row that stand between fields and are none of them, while `From` is still to come.
const STRAY_LINES_MAX: usize = 12;

impl<'a> Fields<'a> {
    /// Cuts a header section off the front of `bytes`; returns it with the offset at which the body
    /// starts.
    pub(in crate::mime) fn cut(bytes: &'a [u8]) -> (Self, usize) {
        let mut fields = Self::default();
        let mut start = 0;
        while start < bytes.len() {
            let end = line_end(bytes, start);
            let line = trim_line_end(&bytes[start..end]);
            if line.is_empty() {
                return (fields, end);
            }
            // An mbox separator, wherever a mailbox program left it. `From : a@b.test` is a field.
            let is_mbox_line = line.starts_with(b"From ") || line.starts_with(b">From ");
            match field_name(line) {
                None if is_mbox_line => start = end,
                Some(colon) => {
                    let end = field_end(bytes, end);
                    let name = String::from_utf8_lossy(&line[..colon])
                        .trim_end()
                        .to_ascii_lowercase();
                    fields
                        .all
                        .push((name, trim_line_end(&bytes[start + colon + 1..end])));
                    start = end;
                }
                // A stray line between fields: a line that was wrapped without a fold. Lines that
                // are neither fields nor followed by a field belong to the body already (the
                // separator was lost).
                None => match fields.stray_until(bytes, end) {
                    Some(field) => start = field,
                    None => return (fields, start),
                },
            }
        }
        (fields, bytes.len())
    }

    /// Offset of the field that follows a stray line, whose end is `at`, after no empty line. Where `From` has been read, a
    /// second stray line is the body's.
    fn stray_until(&self, bytes: &[u8], mut at: usize) -> Option<usize> {
        let lines = if self.has("from") { 1 } else { STRAY_LINES_MAX };
        for _ in 0..lines {
            if begins_known_field(&bytes[at..]) {
                return Some(at);
            }
            let end = line_end(bytes, at);
            if trim_line_end(&bytes[at..end]).is_empty() {
                return None;
            }
            at = end;
        }
        None
    }

    /// Sets the charset of bytes that nothing else tells.
    pub(in crate::mime) fn set_raw_charset(&mut self, label: &str) {
        label.clone_into(&mut self.raw_charset);
    }
    pub(in crate::mime) fn raw_charset(&self) -> &str {
        &self.raw_charset
    }
    pub(in crate::mime) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    pub(in crate::mime) fn iter(&self) -> impl Iterator<Item = (&str, &'a [u8])> {
        self.all.iter().map(|(name, value)| (name.as_str(), *value))
    }
    pub(in crate::mime) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|(name, _)| name.as_str())
    }
    pub(in crate::mime) fn has(&self, name: &str) -> bool {
        self.names().any(|n| n == name)
    }
    pub(in crate::mime) fn count(&self, name: &str) -> usize {
        self.names().filter(|n| *n == name).count()
    }
    /// Returns the values of every field of that (lower-case) name.
    pub(in crate::mime) fn values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.all
            .iter()
            .filter(move |(n, _)| n == name)
            .map(|(_, value)| *value)
    }
    pub(in crate::mime) fn first(&self, name: &str) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// Returns the first field of that name: unfolded, encoded words decoded, control characters
    /// replaced.
    pub(in crate::mime) fn text(&self, name: &str) -> Option<String> {
        let value = self.first(name)?;
        Some(unstructured_in(value, &self.raw_charset))
    }
    /// Returns the first field of that name as a lower-case token without comments or parameters.
    pub(in crate::mime) fn token(&self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        let token = text
            .split([';', '('])
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        (!token.is_empty()).then_some(token)
    }
    /// Returns the mailboxes of all fields of that name; groups are flattened. Entries without an
    /// address are kept, because further text beside the address in `From` lowers the trust.
    pub(in crate::mime) fn mailboxes(&self, name: &str) -> Vec<Mailbox> {
        self.values(name)
            .flat_map(|value| mailboxes(value, &self.raw_charset))
            .collect()
    }
    /// Returns [`Self::mailboxes`] without entries that have no address: empty groups,
    /// `undisclosed-recipients:;`.
    pub(in crate::mime) fn recipients(&self, name: &str) -> Vec<Mailbox> {
        self.mailboxes(name)
            .into_iter()
            .filter(|m| !m.spec.is_empty())
            .collect()
    }
    /// Returns the ids of all fields of that name.
    pub(in crate::mime) fn ids(&self, name: &str) -> Vec<String> {
        self.values(name).flat_map(ids).collect()
    }
    pub(in crate::mime) fn content_type(&self, name: &str) -> Option<ContentType<'static>> {
        let value = unfolded(self.first(name)?, STRUCTURED_BYTES_MAX);
        let (joined, words) = parameters::joined(&value, &self.raw_charset);
        let value = format!("{joined}\r\n");
        match MessageStream::new(value.as_bytes()).parse_content_type() {
            HeaderValue::ContentType(parsed) => Some(parameters::revealed(owned(parsed), &words)),
            _ => None,
        }
    }
    pub(in crate::mime) fn date(&self, name: &str) -> Option<Timestamp> {
        date(self.first(name)?)
    }
    /// Returns the time in the uppermost `Received` field.
    pub(in crate::mime) fn trace_date(&self) -> Option<Timestamp> {
        date(
            self.first("received")?
                .rsplit(|byte| *byte == b';')
                .next()?,
        )
    }
}

fn date(value: &[u8]) -> Option<Timestamp> {
    let terminated = terminated(value, STRUCTURED_BYTES_MAX);
    match MessageStream::new(&terminated).parse_date() {
        HeaderValue::DateTime(date) if date.is_valid() && date.year >= 1970 => Some(
            Timestamp::from_millis(date.to_timestamp().saturating_mul(1000)),
        ),
        _ => Timestamp::parse(String::from_utf8_lossy(value).trim()),
    }
}

fn owned(content_type: ContentType<'_>) -> ContentType<'static> {
    match HeaderValue::ContentType(content_type).into_owned() {
        HeaderValue::ContentType(owned) => owned,
        // `into_owned` keeps the variant.
        _ => ContentType {
            c_type: Cow::Borrowed(""),
            c_subtype: None,
            attributes: None,
        },
    }
}

/// Index after the line feed of the line that starts at `start`.
fn line_end(bytes: &[u8], start: usize) -> usize {
    bytes[start..]
        .iter()
        .position(|b| *b == b'\n')
        .map_or(bytes.len(), |at| start + at + 1)
}

pub(in crate::mime) fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the index of the colon, when the line begins a field (RFC 5322 section 2.2; section 4.5
/// allows blanks before it).
fn field_name(line: &[u8]) -> Option<usize> {
    let colon = line.iter().position(|b| *b == b':')?;
    let name = line[..colon].trim_ascii_end();
    (!name.is_empty() && name.iter().all(u8::is_ascii_graphic)).then_some(colon)
}

/// Reports whether the first line begins a field that mail has; a word and a colon may also begin a
/// sentence.
pub(in crate::mime) fn begins_known_field(bytes: &[u8]) -> bool {
    const SHORT: [&str; 8] = [
        "from",
        "to",
        "cc",
        "subject",
        "date",
        "received",
        "sender",
        "references",
    ];
    let line = trim_line_end(&bytes[..line_end(bytes, 0)]);
    field_name(line).is_some_and(|colon| {
        let name = String::from_utf8_lossy(&line[..colon])
            .trim_end()
            .to_ascii_lowercase();
        name.contains('-') || SHORT.contains(&name.as_str())
    })
}

/// Index after the last continuation line of a field whose first line ends at `end`.
fn field_end(bytes: &[u8], mut end: usize) -> usize {
    while matches!(bytes.get(end), Some(b' ' | b'\t')) {
        let next = line_end(bytes, end);
        end = next;
    }
    end
}

/// Copies at most `max` bytes without line ends.
pub(in crate::mime) fn unfolded(value: &[u8], max: usize) -> Vec<u8> {
    value
        .iter()
        .take(max)
        .filter(|b| !matches!(b, b'\r' | b'\n'))
        .copied()
        .collect()
}

/// Copies an unfolded value and appends CRLF, as the library's field parsers expect.
fn terminated(value: &[u8], max: usize) -> Vec<u8> {
    let mut copy = unfolded(value, max);
    copy.extend_from_slice(b"\r\n");
    copy
}

/// Decodes an unstructured value.
pub(in crate::mime) fn unstructured(value: &[u8]) -> String {
    unstructured_in(value, "")
}

fn unstructured_in(value: &[u8], raw: &str) -> String {
    one_line(&encoded_words::decoded(
        &unfolded(value, STRUCTURED_BYTES_MAX),
        raw,
    ))
}

/// Replaces control characters and line separators by blanks and trims the ends.
pub(in crate::mime) fn one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let replaced: String = text
        .chars()
        .map(|c| if breaks(c) { ' ' } else { c })
        .collect();
    replaced.trim().to_owned()
}

fn mailboxes(value: &[u8], raw: &str) -> Vec<Mailbox> {
    let value = unfolded(value, ADDRESSES_BYTES_MAX);
    let (masked, words) = encoded_words::masked(&value, raw);
    let value = terminated(masked.as_bytes(), usize::MAX);
    let HeaderValue::Address(parsed) = MessageStream::new(&value).parse_address() else {
        return Vec::new();
    };
    let mailbox = |addr: &mail_parser::Addr<'_>| {
        let (name, spec) = (
            addr.name().unwrap_or_default(),
            addr.address().unwrap_or_default(),
        );
        // An address with an encoded word in it is not an address (RFC 2047 section 5): it decodes
        // to a display name.
        let (name, spec) = match words.are_in(spec) {
            true => (format!("{name} {spec}"), ""),
            false => (name.to_owned(), spec),
        };
        Mailbox {
            name: one_line(&words.revealed(&name)),
            spec: one_line(spec),
        }
    };
    parsed
        .iter()
        .map(mailbox)
        .filter(|m| !m.name.is_empty() || !m.spec.is_empty())
        .collect()
}

/// Returns the Message-IDs of one value: the texts between angle brackets, else every word (RFC
/// 5322 section 3.6.4; the phrases and bare ids of the obsolete syntax are met in real mail). Case
/// is kept, blanks inside brackets are folds.
pub(in crate::mime) fn ids(value: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(value);
    let mut found = Vec::new();
    let mut rest = text.as_ref();
    while let Some(open) = rest.find('<') {
        let inside = &rest[open + 1..];
        let Some(close) = inside.find('>') else { break };
        // `<a <b>`: the first bracket is noise.
        let id = inside[..close].rsplit('<').next().unwrap_or_default();
        found.push(clean_id(id));
        rest = &inside[close + 1..];
    }
    if found.is_empty() {
        let words = text
            .split_whitespace()
            .map(|w| w.trim_matches(['<', '>', ',', ';', '"']));
        let words: Vec<&str> = words.filter(|w| !w.is_empty()).collect();
        let only_ids = words.len() == 1 || words.iter().all(|w| w.contains('@'));
        found = words
            .into_iter()
            .filter(|_| only_ids)
            .map(clean_id)
            .collect();
    }
    found.retain(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX);
    found
}

/// Removes stray brackets: an id with a bracket could not be written between brackets of ours.
fn clean_id(id: &str) -> String {
    id.chars()
        .filter(|c| !c.is_whitespace() && !c.is_control() && !matches!(c, '<' | '>'))
        .collect()
}
