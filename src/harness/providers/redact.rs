//! Takes keys out of texts that providers wrote: some quote the key they refuse.

use std::ops::Range;

pub const MASK: &str = "[redacted]";
/// How the keys of the vendors begin, and what stands before a key in a header.
const KEY_STARTS: &[&str] = &["sk-", "AIza", "xai-", "gsk_", "Bearer "];
/// Shorter runs are words such as `sk-abc`, not keys.
pub const KEY_LEN_MIN: usize = 8;

/// Masks everything that looks like a key.
pub fn key_shapes(text: &str) -> String {
    KEY_STARTS.iter().fold(text.to_owned(), |text, start| mask_runs(&text, start))
}

/// Masks one exact secret. An empty or very short one is left alone: it would mask ordinary letters.
pub fn exact(text: &str, secret: &str) -> String {
    if secret.len() < KEY_LEN_MIN { text.to_owned() } else { text.replace(secret, MASK) }
}

/// Whether something in a text looks like a key.
pub fn has_key(text: &str) -> bool {
    !key_places(text.as_bytes()).is_empty()
}

/// Where something looks like a key; places may overlap.
pub fn key_places(bytes: &[u8]) -> Vec<Range<usize>> {
    KEY_STARTS.iter().flat_map(|start| runs(bytes, start)).collect()
}

fn mask_runs(text: &str, start: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    // A place begins and ends beside ASCII, so that every piece is whole.
    for place in runs(text.as_bytes(), start) {
        out.push_str(text.get(at..place.start).unwrap_or_default());
        out.push_str(MASK);
        at = place.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

fn runs(bytes: &[u8], start: &str) -> Vec<Range<usize>> {
    let in_key = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.*".contains(byte);
    let (mut places, mut at) = (Vec::new(), 0);
    while let Some(offset) = bytes[at..].windows(start.len()).position(|window| window == start.as_bytes()) {
        let (begin, inside) = (at + offset, at + offset + start.len());
        let length = bytes[inside..].iter().take_while(|byte| in_key(byte)).count();
        let in_word = start != "Bearer " && begin > 0 && bytes[begin - 1].is_ascii_alphanumeric();
        at = inside;
        if length >= KEY_LEN_MIN && !in_word {
            at += length;
            places.push(begin..at);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_masked_and_words_are_not() {
        let cases = [
            (
                "Incorrect API key provided: sk-proj-abc***xyz1. See",
                "Incorrect API key provided: [redacted] See",
            ),
            ("got `Bearer abcdef123456`", "got `[redacted]`"),
            ("AIzaSyA1234567890, sk-ant-api03-xxxxxxxx", "[redacted], [redacted]"),
            ("a risk-assessment of task-management", "a risk-assessment of task-management"),
            ("sk-short and Bearer of news", "sk-short and Bearer of news"),
            ("ünï sk-", "ünï sk-"),
        ];
        for (text, expected) in cases {
            assert_eq!(key_shapes(text), expected);
        }
        assert_eq!(exact("key hunter2hunter2!", "hunter2hunter2"), "key [redacted]!");
        assert_eq!(exact("abc", ""), "abc");
    }
}
