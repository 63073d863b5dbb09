//! Removes secrets from bytes that are written to files for an operator: every configured one, and
//! everything that looks like a key.
//!
//! A secret may hide in JSON: behind escapes (`\u0073k`, `\/`), in JSON inside a JSON string, or
//! spread over the pieces in which a model's text arrives. The first two are found by unescaping
//! the bytes level by level; the third cannot be masked without changing what was received, so it
//! is refused.

use crate::text::redact::{self, KEY_LEN_MIN, MASK};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;

/// Deepest nesting of JSON in JSON strings: arguments of a tool call that hold JSON are two deep.
const DEPTH_MAX: usize = 4;

/// Reason why bytes cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScrubError {
    #[error("a secret came in several pieces, which cannot be taken out")]
    InPieces,
}

/// Returns the bytes without secrets; JSON stays JSON.
pub fn scrub(bytes: &[u8], secrets: &[SecretString]) -> Result<Vec<u8>, ScrubError> {
    let secrets: Vec<&str> = secrets
        .iter()
        .map(|secret| secret.expose_secret().trim())
        .collect();
    let secrets: Vec<&str> = secrets
        .into_iter()
        .filter(|secret| secret.len() >= KEY_LEN_MIN)
        .collect();
    let mut found = Vec::new();
    let mut view = View::from_bytes(bytes);
    for _ in 0..DEPTH_MAX {
        found.extend(view.places(&secrets));
        match view.unescaped() {
            Some(inner) => view = inner,
            None => break,
        }
    }
    let clean = masked(bytes, found);
    let text = String::from_utf8_lossy(&clean);
    let joined = joined_strings(&text);
    match joined
        .iter()
        .any(|text| secrets.iter().any(|secret| text.contains(secret)) || redact::has_key(text))
    {
        true => Err(ScrubError::InPieces),
        false => Ok(clean),
    }
}

/// Bytes after some levels of unescaping, with their origins.
struct View {
    bytes: Vec<u8>,
    /// Start of each byte in the original; one entry more than there are bytes.
    from: Vec<usize>,
}

impl View {
    fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            from: (0..=bytes.len()).collect(),
        }
    }

    /// Returns the ranges of secrets in the original.
    fn places(&self, secrets: &[&str]) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        for secret in secrets.iter().map(|secret| secret.as_bytes()) {
            let mut at = 0;
            while let Some(offset) = find(&self.bytes[at..], secret) {
                places.push(at + offset..at + offset + secret.len());
                at += offset + secret.len();
            }
        }
        places.extend(redact::key_places(&self.bytes));
        places
            .into_iter()
            .map(|place| self.from[place.start]..self.from[place.end])
            .collect()
    }

    /// Removes one level of JSON escapes; `None` when there is none.
    fn unescaped(&self) -> Option<View> {
        let mut inner = View {
            bytes: Vec::with_capacity(self.bytes.len()),
            from: Vec::new(),
        };
        let mut at = 0;
        while at < self.bytes.len() {
            let (character, length) = match self.bytes[at..] {
                [b'\\', b'u', ..] => match escaped_unit(&self.bytes[at + 2..]) {
                    Some(c) => (c, 6),
                    None => ('\\', 1),
                },
                [b'\\', escaped @ (b'"' | b'\\' | b'/'), ..] => (char::from(escaped), 2),
                [b'\\', b'n' | b'r' | b't' | b'b' | b'f', ..] => (' ', 2),
                _ => {
                    inner.bytes.push(self.bytes[at]);
                    inner.from.push(self.from[at]);
                    at += 1;
                    continue;
                }
            };
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                inner.bytes.push(byte);
                inner.from.push(self.from[at]);
            }
            at += length;
        }
        inner.from.push(*self.from.last()?);
        (inner.bytes.len() < self.bytes.len()).then_some(inner)
    }
}

/// Returns the character of four hexadecimal digits; halves of surrogate pairs occur in no key.
fn escaped_unit(digits: &[u8]) -> Option<char> {
    let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn masked(bytes: &[u8], mut places: Vec<Range<usize>>) -> Vec<u8> {
    places.sort_by_key(|place| (place.start, place.end));
    let (mut clean, mut at) = (Vec::with_capacity(bytes.len()), 0);
    for place in places {
        if place.start >= at {
            clean.extend_from_slice(&bytes[at..place.start]);
            clean.extend_from_slice(MASK.as_bytes());
        }
        at = at.max(place.end);
    }
    clean.extend_from_slice(&bytes[at..]);
    clean
}

/// Joins the strings at the same path of all JSON lines: the pieces of a stream.
fn joined_strings(text: &str) -> Vec<String> {
    let mut joined = BTreeMap::new();
    for line in text.lines() {
        let line = line.strip_prefix("data:").unwrap_or(line).trim();
        if let Ok(value) = serde_json::from_str::<Value>(line) {
            collect(&value, &mut String::new(), &mut joined);
        }
    }
    joined.into_values().collect()
}

fn collect(value: &Value, path: &mut String, joined: &mut BTreeMap<String, String>) {
    let length = path.len();
    match value {
        Value::String(text) => joined.entry(path.clone()).or_default().push_str(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, path, joined)),
        Value::Object(members) => {
            for (key, member) in members {
                path.push('/');
                path.push_str(key);
                collect(member, path, joined);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_however_json_spells_it() {
        let secrets = [SecretString::from("p/ss\"word-1")];
        let plain = serde_json::json!({ "a": "p/ss\"word-1", "b": "x" }).to_string();
        let nested = serde_json::json!({ "arguments": plain }).to_string();
        let thrice = serde_json::json!({ "again": nested }).to_string();
        let slashed = plain.replace('/', "\\/").replace('w', "\\u0077");
        for text in ["p/ss\"word-1", &plain, &nested, &thrice, &slashed] {
            let clean =
                String::from_utf8(scrub(text.as_bytes(), &secrets).expect("whole")).expect("text");
            assert!(
                clean.contains(MASK) && !clean.contains("ss"),
                "{text}: {clean}"
            );
            let is_json = serde_json::from_str::<Value>(text).is_ok();
            assert_eq!(
                serde_json::from_str::<Value>(&clean).is_ok(),
                is_json,
                "{clean}"
            );
        }
    }

    #[test]
    fn what_looks_like_a_key_goes_and_every_other_byte_stays() {
        let text = b"data: {\"t\":\"sk-proj-abcdefgh AIzaSyA1234567890 xai-12345678\"}\n\xff\n";
        let clean = b"data: {\"t\":\"[redacted] [redacted] [redacted]\"}\n\xff\n";
        assert_eq!(scrub(text, &[]).as_deref(), Ok(&clean[..]));
        let words = "a risk-assessment \\u00fc \\n of \"sk-short\"".as_bytes();
        assert_eq!(scrub(words, &[]).as_deref(), Ok(words));
    }

    #[test]
    fn a_secret_in_pieces_is_refused() {
        let secrets = [SecretString::from("hunter2-hunter2")];
        let stream = |a: &str, b: &str| {
            format!("data: {{\"d\":{{\"t\":\"{a}\"}}}}\n\ndata: {{\"d\":{{\"t\":\"{b}\"}}}}\n")
        };
        let hidden = stream("say hunter2-", "hunter2 now");
        assert_eq!(
            scrub(hidden.as_bytes(), &secrets),
            Err(ScrubError::InPieces)
        );
        assert_eq!(
            scrub(stream("key sk-ab", "cdefghijk").as_bytes(), &[]),
            Err(ScrubError::InPieces)
        );
        assert!(scrub(stream("say hunter2", "or hunter3").as_bytes(), &secrets).is_ok());
    }
}
