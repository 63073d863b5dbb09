//! Takes keys out of texts that providers wrote: some quote the key they refuse.

const MASK: &str = "[redacted]";
/// How the keys of the vendors begin, and what stands before a key in a header.
const KEY_STARTS: &[&str] = &["sk-", "AIza", "xai-", "gsk_", "Bearer "];
/// Shorter runs are words such as `sk-abc`, not keys.
const KEY_LEN_MIN: usize = 8;

/// Masks everything that looks like a key.
pub fn key_shapes(text: &str) -> String {
    KEY_STARTS.iter().fold(text.to_owned(), |text, start| mask_runs(&text, start))
}

/// Masks one exact secret. An empty or very short one is left alone: it would mask ordinary letters.
pub fn exact(text: &str, secret: &str) -> String {
    if secret.len() < KEY_LEN_MIN { text.to_owned() } else { text.replace(secret, MASK) }
}

fn mask_runs(text: &str, start: &str) -> String {
    let in_key = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(start) {
        let end = after.find(|c| !in_key(c)).unwrap_or(after.len());
        let inside_word = start != "Bearer " && before.ends_with(|c: char| c.is_ascii_alphanumeric());
        out.push_str(before);
        if end < KEY_LEN_MIN || inside_word {
            out.push_str(start);
            rest = after;
        } else {
            out.push_str(MASK);
            rest = &after[end..];
        }
    }
    out.push_str(rest);
    out
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
