//! Encoded words of header fields (RFC 2047).
//!
//! Written by hand because mail-parser decodes each word by itself and adds a blank after it: a
//! character or a shift state that was cut between two words is lost, and punctuation after a word
//! is pushed away from it.

use crate::mime::text::charsets;
use crate::mime::transfer;
use std::ops::Range;

/// Longest name of a charset with its language, in bytes.
const CHARSET_BYTES_MAX: usize = 100;

/// Encoded words with only blanks between them; the blanks are not part of the text (section 6.2).
pub(in crate::mime) struct Run {
    pub(in crate::mime) range: Range<usize>,
    pub(in crate::mime) text: String,
}

/// One encoded word, not yet decoded.
struct Word<'a> {
    charset: &'a str,
    content: Vec<u8>,
    end: usize,
}

/// Returns the runs of an unfolded value, in order.
pub(in crate::mime) fn runs(value: &[u8]) -> Vec<Run> {
    let mut found = Vec::new();
    let mut at = 0;
    // No word begins after the last `?=`, and the search stops there: the cost is linear.
    let last_end = value
        .windows(2)
        .rposition(|pair| pair == b"?=")
        .unwrap_or(0);
    while at < last_end {
        match word(value, at) {
            Some(first) => {
                let run = run(value, at, first);
                at = run.range.end;
                found.push(run);
            }
            None => at += 1,
        }
    }
    found
}

/// Returns the value with its runs decoded; `raw` is the charset of bytes outside of them that are no UTF-8.
pub(in crate::mime) fn decoded(value: &[u8], raw: &str) -> String {
    let (mut text, mut at) = (String::with_capacity(value.len()), 0);
    for run in runs(value) {
        text.push_str(&charsets::decoded_raw(raw, &value[at..run.range.start]));
        text.push_str(&run.text);
        at = run.range.end;
    }
    text.push_str(&charsets::decoded_raw(raw, &value[at..]));
    text
}

/// Delimiters of a mask: private-use characters around a number stand for a run, so that a parser
/// of the field's syntax reads a plain word and no part of the text (section 7).
const MASK: (char, char) = ('\u{e010}', '\u{e011}');

/// The texts behind the masks of a value.
pub(in crate::mime) struct Masked(Vec<String>);

/// Returns the value as UTF-8 with a mask in place of every run; `raw` as in [`decoded`].
pub(in crate::mime) fn masked(value: &[u8], raw: &str) -> (String, Masked) {
    let (mut out, mut masked, mut at) = (String::with_capacity(value.len()), Masked(Vec::new()), 0);
    for run in runs(value) {
        out.push_str(&charsets::decoded_raw(raw, &value[at..run.range.start]));
        out.push_str(&masked.mask(run.text));
        at = run.range.end;
    }
    out.push_str(&charsets::decoded_raw(raw, &value[at..]));
    (out, masked)
}

impl Masked {
    /// Returns the mask of one more text.
    pub(in crate::mime) fn mask(&mut self, text: String) -> String {
        self.0.push(text);
        format!("{}{}{}", MASK.0, self.0.len() - 1, MASK.1)
    }

    /// Reports whether a text contains a mask.
    pub(in crate::mime) fn are_in(&self, text: &str) -> bool {
        text.contains(MASK.0)
    }

    /// Returns the text with each mask replaced by its run.
    pub(in crate::mime) fn revealed(&self, text: &str) -> String {
        let mut parts = text.split(MASK.0);
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (number, rest) = part.split_once(MASK.1).unwrap_or(("", part));
            let text = number
                .parse()
                .ok()
                .and_then(|number: usize| self.0.get(number));
            whole.push_str(text.map_or("", String::as_str));
            whole.push_str(rest);
        }
        whole
    }
}

/// Decodes the run that begins with `first`. Bytes of words in one charset are joined before they
/// are decoded: mail programs cut characters in two, and leave a shift state to the next word
/// (against section 5).
fn run(value: &[u8], start: usize, first: Word<'_>) -> Run {
    let (mut text, mut end) = (String::new(), first.end);
    let (mut charset, mut content) = (first.charset, first.content);
    loop {
        let blanks = value[end..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let Some(next) = word(value, end + blanks) else {
            break;
        };
        if next.charset.eq_ignore_ascii_case(charset) {
            content.extend_from_slice(&next.content);
        } else {
            text.push_str(&charsets::decoded(charset, &content));
            (charset, content) = (next.charset, next.content);
        }
        end = next.end;
    }
    text.push_str(&charsets::decoded(charset, &content));
    Run {
        range: start..end,
        text,
    }
}

/// Parses `=?charset*language?encoding?content?=` at `start`.
fn word(value: &[u8], start: usize) -> Option<Word<'_>> {
    let rest = value.get(start..)?.strip_prefix(b"=?")?;
    let length = rest
        .iter()
        .take(CHARSET_BYTES_MAX)
        .position(|byte| *byte == b'?')?;
    let (charset, rest) = (&rest[..length], &rest[length + 1..]);
    let (encoding, content) = (rest.first()?, rest.get(2..).filter(|_| rest[1] == b'?')?);
    let charset = charset.split(|byte| *byte == b'*').next()?;
    let is_name = !charset.is_empty() && charset.iter().all(u8::is_ascii_graphic);
    let charset = std::str::from_utf8(charset).ok().filter(|_| is_name)?;
    let length = content.windows(2).position(|pair| pair == b"?=")?;
    let end = value.len() - (content.len() - length - 2);
    let encoded = &content[..length];
    let content = match encoding {
        b'Q' | b'q' => quoted(encoded),
        b'B' | b'b' => transfer::lenient_base64(encoded),
        _ => return None,
    };
    Some(Word {
        charset,
        content,
        end,
    })
}

/// Decodes the `Q` encoding (section 4.2).
fn quoted(encoded: &[u8]) -> Vec<u8> {
    let blanks: Vec<u8> = encoded
        .iter()
        .map(|byte| if *byte == b'_' { b' ' } else { *byte })
        .collect();
    let mut content = Vec::with_capacity(blanks.len());
    transfer::decode_escapes(&blanks, &mut content);
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_decoded_where_they_stand() {
        let cases = [
            ("=?utf-8?q?Zimmer_f=C3=BCr?=, bitte", "Zimmer für, bitte"),
            ("(=?iso-8859-1?q?K=FCche?=)", "(Küche)"),
            ("Re:=?utf-8?b?w6k=?=!", "Re:é!"),
            ("a =?utf-8?q?b?=  c", "a b  c"),
            (
                "=?utf-8?q?a?= =?utf-8?q?b?=\t=?iso-8859-1?q?=E9?= c",
                "abé c",
            ),
            ("=?utf-8*de?q?=C3=A4?=", "ä"),
            ("=?utf-8?q??=x", "x"),
            // A character and a shift state that are cut between words.
            ("=?utf-8?q?M=C3?= =?utf-8?q?=BCnchen?=", "München"),
            ("=?utf-8?b?w5w=?= =?utf-8?b?4oI=?= =?UTF-8?b?rA==?=", "Ü€"),
            (
                "=?iso-2022-jp?b?GyRCRCs=?= =?iso-2022-jp?b?Pykb?= =?iso-2022-jp?b?KEI=?=",
                "朝食",
            ),
            (
                "=?iso-2022-jp?b?GyRCRCsbKEI=?= =?iso-2022-jp?b?GyRCPykbKEI=?=",
                "朝食",
            ),
            // Texts without an encoded word.
            (
                "=?utf-8?x?a?= =?q?= =? ?= =?utf-8?q?open",
                "=?utf-8?x?a?= =?q?= =? ?= =?utf-8?q?open",
            ),
            ("1 =? 2", "1 =? 2"),
        ];
        for (value, text) in cases {
            assert_eq!(decoded(value.as_bytes(), ""), text, "{value}");
        }
    }
}
