//! Rich Text Format (RTF 1.9.1, Microsoft): the words of a document, with tables as rows, and hidden text marked as such.
//!
//! Absent on purpose: pictures, embedded objects, styles, and what fields compute; the last result of a field is in the file.

use crate::extract::document::{DecodeError, DocumentKind, Extracted};
use crate::mime::decoded;

/// Deepest group; deeper ones are a bomb.
const DEPTH_MAX: usize = 256;

/// Groups whose words no reader sees.
const UNSEEN: [&str; 20] = [
    "fonttbl",
    "colortbl",
    "stylesheet",
    "info",
    "pict",
    "object",
    "listtable",
    "listoverridetable",
    "revtbl",
    "rsidtbl",
    "generator",
    "filetbl",
    "themedata",
    "datastore",
    "latentstyles",
    "fldinst",
    "bkmkstart",
    "bkmkend",
    "xmlnstbl",
    "nonshppict",
];

/// State of a group, which ends with it.
#[derive(Clone, Default)]
struct GroupState {
    is_unseen: bool,
    is_hidden: bool,
    /// Characters that stand behind `\u` for readers without Unicode.
    fallback_chars: usize,
}

/// A reader of one document.
#[derive(Default)]
struct RtfText {
    text: String,
    /// Bytes of the code page, not decoded yet.
    bytes: Vec<u8>,
    codepage: u32,
    /// Half of a character beyond U+FFFF.
    surrogate: Option<u16>,
    /// Characters to skip.
    skip: usize,
    is_marked_hidden: bool,
}

impl RtfText {
    /// Decodes what was read in the document's code page.
    fn flush(&mut self) {
        if !self.bytes.is_empty() {
            let label = format!("windows-{}", self.codepage);
            let bytes = std::mem::take(&mut self.bytes);
            self.text.push_str(&decoded(&label, &bytes));
        }
    }

    /// Says where hidden text begins and ends.
    fn mark(&mut self, is_hidden: bool) {
        if self.is_marked_hidden != is_hidden {
            self.flush();
            self.text
                .push_str(if is_hidden { "[hidden: " } else { "]" });
            self.is_marked_hidden = is_hidden;
        }
    }

    fn push(&mut self, text: &str, group: &GroupState) {
        if !group.is_unseen {
            self.mark(group.is_hidden);
            self.flush();
            self.text.push_str(text);
        }
    }

    fn push_byte(&mut self, byte: u8, group: &GroupState) {
        if self.skip > 0 {
            self.skip -= 1;
        } else if !group.is_unseen {
            self.mark(group.is_hidden);
            self.bytes.push(byte);
        }
    }

    /// Adds a UTF-16 unit, as `\u` gives it: signed.
    fn push_unit(&mut self, unit: i32, group: &GroupState) {
        let unit = unit as u16;
        let units: Vec<u16> = self.surrogate.take().into_iter().chain([unit]).collect();
        match char::decode_utf16(units.iter().copied()).collect::<Result<String, _>>() {
            Ok(text) => self.push(&text, group),
            Err(_) if (0xD800..0xDC00).contains(&unit) => self.surrogate = Some(unit),
            Err(_) => self.push("\u{FFFD}", group),
        }
        self.skip = group.fallback_chars;
    }

    /// Obeys a control word. Returns the bytes behind it that are no text.
    fn control(&mut self, word: &str, number: Option<i32>, group: &mut GroupState) -> usize {
        let is_on = number != Some(0);
        match word {
            "par" | "line" | "sect" | "page" | "row" => self.push("\n", group),
            "tab" | "cell" | "nestcell" => self.push("\t", group),
            "emdash" => self.push("—", group),
            "endash" => self.push("–", group),
            "lquote" => self.push("‘", group),
            "rquote" => self.push("’", group),
            "ldblquote" => self.push("“", group),
            "rdblquote" => self.push("”", group),
            "bullet" => self.push("•", group),
            "v" => group.is_hidden = is_on,
            "plain" => group.is_hidden = false,
            "ansicpg" => self.codepage = number.and_then(|n| u32::try_from(n).ok()).unwrap_or(1252),
            "uc" => {
                group.fallback_chars = number.and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
            }
            "u" => self.push_unit(number.unwrap_or_default(), group),
            "bin" => {
                return number
                    .and_then(|n| usize::try_from(n).ok())
                    .unwrap_or_default();
            }
            word if UNSEEN.contains(&word) => group.is_unseen = true,
            _ => {}
        }
        0
    }
}

/// Reads a document; linear in its size. Errors: groups that are too deep.
pub fn read(bytes: &[u8]) -> Result<Extracted, DecodeError> {
    let mut read = RtfText {
        codepage: 1252,
        ..RtfText::default()
    };
    let mut groups = vec![GroupState {
        fallback_chars: 1,
        ..GroupState::default()
    }];
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        let depth = groups.len();
        let Some(group) = groups.last_mut() else {
            break;
        };
        match byte {
            b'{' => {
                if depth >= DEPTH_MAX {
                    let why = format!("its groups are more than {DEPTH_MAX} deep");
                    return Err(DecodeError::TooLarge(why));
                }
                let inner = group.clone();
                groups.push(inner);
                read.skip = 0;
            }
            b'}' => {
                groups.pop();
                read.skip = 0;
            }
            b'\r' | b'\n' => {}
            b'\\' => match bytes.get(at) {
                Some(b'\'') => {
                    let digits = bytes.get(at + 1..at + 3).unwrap_or_default();
                    let digits = std::str::from_utf8(digits).unwrap_or_default();
                    at = (at + 3).min(bytes.len());
                    if let Ok(byte) = u8::from_str_radix(digits, 16) {
                        read.push_byte(byte, group);
                    }
                }
                // A group that a reader who does not know it leaves out.
                Some(b'*') => {
                    at += 1;
                    group.is_unseen = true;
                }
                Some(b'~') => {
                    at += 1;
                    read.push("\u{A0}", group);
                }
                Some(b'\r' | b'\n') => {
                    at += 1;
                    read.push("\n", group);
                }
                Some(letter) if letter.is_ascii_alphabetic() => {
                    let rest = &bytes[at..];
                    let word = rest
                        .iter()
                        .take_while(|byte| byte.is_ascii_alphabetic())
                        .count();
                    let sign = usize::from(rest.get(word) == Some(&b'-'));
                    let digits = rest[word + sign..].iter().take(9);
                    let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
                    let number = std::str::from_utf8(&rest[word..word + sign + digits]);
                    let number = number.ok().and_then(|number| number.parse().ok());
                    let word = String::from_utf8_lossy(&rest[..word]).into_owned();
                    at += word.len() + if digits > 0 { sign + digits } else { 0 };
                    at += usize::from(bytes.get(at) == Some(&b' '));
                    at = at.saturating_add(read.control(&word, number, group));
                }
                Some(symbol) => {
                    at += 1;
                    if b"\\{}".contains(symbol) {
                        read.push_byte(*symbol, group);
                    }
                }
                None => {}
            },
            byte => read.push_byte(*byte, group),
        }
    }
    read.mark(false);
    read.flush();
    let mut document = Extracted::empty(DocumentKind::Rtf);
    document.text = Some(read.text);
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_what_no_reader_sees_is_not() {
        let cases = [
            (r"{\rtf1\ansi Hello\par World}", "Hello\nWorld"),
            (r"{\rtf1\ansi\ansicpg1252 K\'f6ln \'80 5}", "Köln € 5"),
            (
                r"{\rtf1\ansi\ansicpg1251 \'cf\'f0\'e8\'e2\'e5\'f2}",
                "Привет",
            ),
            (r"{\rtf1\uc1 \u8364?5 \u-10179?\u-8704?}", "€5 😀"),
            (r"{\rtf1\uc0 \u8364 5}", "€5"),
            (
                r"{\rtf1{\fonttbl{\f0 Arial;}}{\*\generator Word;}Text}",
                "Text",
            ),
            (r"{\rtf1 a\tab b\cell c\row}", "a\tb\tc\n"),
            (
                r"{\rtf1 {\field{\*\fldinst DATE}{\fldrslt 1 May}}}",
                "1 May",
            ),
            (
                r"{\rtf1 seen {\v ignore all rules}\v0 too}",
                "seen [hidden: ignore all rules]too",
            ),
            (r"{\rtf1 a\{b\}\\c\~d\emdash e}", "a{b}\\c\u{A0}d—e"),
            (r"{\rtf1 {\pict\bin5 ab}cd}after", "after"),
            ("{\\rtf1 one\r\ntwo}", "onetwo"),
            (r"{\rtf1 \", ""),
            (r"{\rtf1 \'", ""),
        ];
        for (rtf, expected) in cases {
            let text = read(rtf.as_bytes()).ok().and_then(|read| read.text);
            assert_eq!(text.as_deref(), Some(expected), "{rtf}");
        }
        assert!(read(&[b'{'; 1000]).is_err());
    }
}
