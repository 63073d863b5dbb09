//! The fields that link a reply to its original, and Message-IDs of our own.

use std::collections::HashSet;

/// Ids kept in a `References` field: RFC 5322 sets no bound, mail systems choke on long ones.
const REFERENCES_MAX: usize = 100;

/// Prefixes that mail programs of the world put before the subject of a reply.
const REPLY_PREFIXES: [&str; 16] = [
    "re", "aw", "antw", "antwort", "sv", "vs", "odp", "ynt", "rif", "res", "ref", "回复", "答复",
    "返信", "отв", "απ",
];

/// Prefixes of forwarded mail. `VS:` is an answer in Finnish, and forwarded mail in Danish and Norwegian: what no thread
/// holds is kept there, too ([`crate::mime::with_unknown`]).
const FORWARD_PREFIXES: &[&str] = &[
    "fw",
    "fwd",
    "wg",
    "tr",
    "rv",
    "enc",
    "pd",
    "vl",
    "vb",
    "videresend",
    "videresendt",
    "doorst",
    "i",
    "ilt",
    "fs",
    "továbbítás",
    "fwd.",
    "пер",
    "转发",
    "轉寄",
    "転送",
    "전달",
    "πρθ",
    "הועבר",
];

/// Returns the subject of a reply: one `Re:`, whatever reply prefix the original had.
///
/// An original that has a reply prefix in any language keeps it, so that clients that compare
/// subjects see one thread.
pub fn reply_subject(original: &str) -> String {
    let subject = untangled(&super::fields::one_line(original));
    if starts_with_prefix(&subject, &REPLY_PREFIXES) {
        subject
    } else {
        format!("Re: {subject}").trim_end().to_owned()
    }
}

/// Longest tag in brackets, in characters.
const TAG_CHARS_MAX: usize = 40;

/// Servers put `[EXTERNAL]` before a subject that has it already, behind `Re:`. Of tags and reply prefixes in a row, where a
/// prefix stands behind a tag or a tag comes again, the first prefix stays, and each tag once.
fn untangled(subject: &str) -> String {
    let (mut prefix, mut tags, mut is_tangled) = (None, Vec::new(), false);
    let mut rest = subject;
    loop {
        let tag = rest
            .strip_prefix('[')
            .and_then(|inner| inner.split_once(']'));
        if let Some((tag, after)) = tag.filter(|(tag, _)| tag.chars().count() <= TAG_CHARS_MAX) {
            is_tangled |= tags.contains(&tag);
            if !tags.contains(&tag) {
                tags.push(tag);
            }
            rest = after.trim_start();
        } else if starts_with_prefix(rest, &REPLY_PREFIXES)
            && let Some((before, after)) = rest.split_once([':', '：'])
        {
            is_tangled |= !tags.is_empty();
            prefix = prefix.or(Some(before.trim_end()));
            rest = after.trim_start();
        } else {
            break;
        }
    }
    if !is_tangled {
        return subject.to_owned();
    }
    let tags: String = tags.iter().map(|tag| format!("[{tag}] ")).collect();
    let prefix = prefix
        .map(|prefix| format!("{prefix}: "))
        .unwrap_or_default();
    format!("{prefix}{tags}{rest}").trim_end().to_owned()
}

/// Reports whether a subject says that the mail was forwarded.
pub(in crate::mime) fn is_forward_subject(subject: &str) -> bool {
    starts_with_prefix(subject.trim(), FORWARD_PREFIXES)
}

/// Lower case; the Turkish dotted capital becomes a plain `i`.
pub(in crate::mime) fn folded(word: &str) -> String {
    word.to_lowercase().replace('\u{307}', "")
}

/// Reports whether the text before the first colon is one of the prefixes, with an optional
/// counter: `Re[2]:`, `AW(3):`.
fn starts_with_prefix(subject: &str, prefixes: &[&str]) -> bool {
    let Some((before, _)) = subject.split_once([':', '：']) else {
        return false;
    };
    let word = before
        .trim_end()
        .trim_end_matches(|c: char| c.is_ascii_digit() || "[]()^ ".contains(c));
    let word = folded(word);
    prefixes.contains(&word.as_str())
}

/// Returns the `References` of a reply: those of the original, then its id (RFC 5322 section
/// 3.6.4).
///
/// Bounded by keeping the first id, which names the conversation, and the last ones; without
/// repeats.
pub fn reply_references(original_refs: &[String], original_id: Option<&str>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for id in original_refs.iter().map(String::as_str).chain(original_id) {
        // The answered id stands last even if an earlier mail mentioned it out of order.
        all.retain(|known| known != id);
        all.push(id.to_owned());
    }
    keep_first_and_last(all, REFERENCES_MAX)
}

/// Keeps the first occurrence of each id: programs write the field twice, or the list twice into
/// one field.
pub(in crate::mime) fn unrepeated(mut ids: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    ids
}

/// Keeps at most `max` ids: the first one and the last ones.
pub(in crate::mime) fn keep_first_and_last(mut ids: Vec<String>, max: usize) -> Vec<String> {
    let max = max.max(1);
    if ids.len() > max {
        let cut = ids.len() - max;
        ids.drain(1..=cut);
    }
    ids
}

/// Returns a Message-ID without brackets from a unique id and our mail domain; characters that an
/// id may not hold are dropped.
pub fn new_message_id(id: &str, domain: &str) -> String {
    let legal = |c: &char| c.is_ascii_alphanumeric() || "-._+".contains(*c);
    let left: String = id.chars().filter(legal).collect();
    let right: String = domain.chars().filter(legal).collect();
    let or = |text: String, other: &str| {
        if text.is_empty() {
            other.to_owned()
        } else {
            text
        }
    };
    format!("{}@{}", or(left, "id"), or(right, "localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_prefix_is_added_once() {
        let cases = [
            ("Lunch", "Re: Lunch"),
            ("RE: Lunch", "RE: Lunch"),
            ("re[2]: Lunch", "re[2]: Lunch"),
            ("AW: Essen", "AW: Essen"),
            ("SV: Lunsj", "SV: Lunsj"),
            ("回复：午餐", "回复：午餐"),
            ("Fwd: Lunch", "Re: Fwd: Lunch"),
            ("Report: Lunch", "Re: Report: Lunch"),
            ("", "Re:"),
            ("a\r\nBcc: b@c.test", "Re: a  Bcc: b@c.test"),
            ("[EXTERNAL] Hello", "Re: [EXTERNAL] Hello"),
            ("[EXTERNAL] Re: [EXTERNAL] Hello", "Re: [EXTERNAL] Hello"),
            (
                "Re: [EXTERNAL] Re: [EXTERNAL] Hello",
                "Re: [EXTERNAL] Hello",
            ),
            ("[EXTERNAL] AW: Hallo", "AW: [EXTERNAL] Hallo"),
            ("[EXT] [EXT] Hello", "Re: [EXT] Hello"),
            ("[list] Re: [EXTERN] Re: [list] x", "Re: [list] [EXTERN] x"),
            ("[x] [y] z", "Re: [x] [y] z"),
            ("Re: Re: x", "Re: Re: x"),
            ("[unclosed Re: x", "Re: [unclosed Re: x"),
            ("Re: [EXTERNAL]", "Re: [EXTERNAL]"),
            ("[EXTERNAL] Re:", "Re: [EXTERNAL]"),
        ];
        for (original, expected) in cases {
            assert_eq!(reply_subject(original), expected, "{original:?}");
        }
    }

    #[test]
    fn references_keep_root_and_latest_and_end_with_the_answered_id() {
        let old: Vec<String> = (0..500).map(|n| format!("{n}@x.test")).collect();
        let refs = reply_references(&old, Some("last@x.test"));
        assert_eq!(refs.len(), REFERENCES_MAX);
        assert_eq!(refs.first().map(String::as_str), Some("0@x.test"));
        assert_eq!(refs.last().map(String::as_str), Some("last@x.test"));
        let again = reply_references(&["a@x.test".into(), "b@x.test".into()], Some("a@x.test"));
        assert_eq!(again, ["b@x.test", "a@x.test"]);
        assert!(reply_references(&[], None).is_empty());
    }

    #[test]
    fn a_message_id_cannot_carry_anything_but_an_id() {
        assert_eq!(new_message_id("01-ab", "mail.test"), "01-ab@mail.test");
        assert_eq!(new_message_id("a>\r\nBcc: b", "x y.test"), "aBccb@xy.test");
        assert_eq!(new_message_id("", ""), "id@localhost");
    }
}
