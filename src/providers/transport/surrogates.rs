//! Characters outside the first plane, whose halves a server sent in two events: JSON writes such a character as two escapes
//! (RFC 8259, section 7), and servers that cut text by UTF-16 units part them.

use std::borrow::Cow;

/// The first half of a character whose second half is still to come.
#[derive(Debug, Default)]
pub struct SurrogateHalves {
    high: Option<String>,
}

impl SurrogateHalves {
    /// Returns an event without lone halves: a first half is kept for the next event, and a second half without a first becomes
    /// U+FFFD. JSON with either cannot be parsed.
    pub fn join<'d>(&mut self, data: &'d str) -> Cow<'d, str> {
        if !data.contains("\\ud") && !data.contains("\\uD") {
            return Cow::Borrowed(data);
        }
        let mut joined = String::with_capacity(data.len());
        let mut rest = data;
        while let Some(at) = rest.find('\\') {
            joined.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some(unit) = unit(rest) else {
                // The backslash and what it escapes.
                let end = rest.chars().take(2).map(char::len_utf8).sum();
                joined.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            };
            let (escape, after) = rest.split_at(6);
            let follows = unit_is_low(after);
            rest = after;
            match unit {
                0xd800..=0xdbff if follows => {
                    joined.push_str(escape);
                    joined.push_str(&after[..6]);
                    rest = &after[6..];
                }
                0xd800..=0xdbff => self.high = Some(escape.to_owned()),
                0xdc00..=0xdfff => match self.high.take() {
                    Some(high) => joined.extend([high.as_str(), escape]),
                    None => joined.push_str("\\ufffd"),
                },
                _ => joined.push_str(escape),
            }
        }
        joined.push_str(rest);
        Cow::Owned(joined)
    }
}

/// The unit of an escape at the beginning of a text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

fn unit_is_low(text: &str) -> bool {
    unit(text).is_some_and(|unit| (0xdc00..=0xdfff).contains(&unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_in_two_events_are_one_character() {
        let mut halves = SurrogateHalves::default();
        for (event, joined) in [
            (r#"{"a":"Hi"}"#, r#"{"a":"Hi"}"#),
            (r#"{"a":"Hi \ud83d"}"#, r#"{"a":"Hi "}"#),
            (r#"{"a":"\ude00 there"}"#, r#"{"a":"\ud83d\ude00 there"}"#),
            (r#"{"a":"\uD83D\uDE00"}"#, r#"{"a":"\uD83D\uDE00"}"#),
            (r#"{"a":"\ude00"}"#, r#"{"a":"\ufffd"}"#),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, r#"{"a":"\ud83d\ude00"}"#),
            (r#"{"a":"\\ud83d"}"#, r#"{"a":"\\ud83d"}"#),
            (r#"{"a":"\\\ude00"}"#, r#"{"a":"\\\ud83d\ude00"}"#),
            (r#"{"a":"\ud8"#, r#"{"a":"\ud8"#),
            (r#"{"a":"\udead"#, r#"{"a":"\ufffd"#),
            ("\\", "\\"),
        ] {
            assert_eq!(halves.join(event), joined);
        }
    }
}
