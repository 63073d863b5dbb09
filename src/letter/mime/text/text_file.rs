//! Bytes of a file -> text: the files of a persona's folder come from arbitrary programs.
//!
//! Absent on purpose: a guess among all charsets. UTF-8 and UTF-16 are self-describing, Western
//! European text can be told from the rest with care, and every other charset is refused by name,
//! because text in a wrong charset says something else.

use mail_parser::decoders::charsets::map::charset_decoder;

/// Text of a file, and its charset where that is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    pub text: String,
    /// Charset for display; `None`: UTF-8.
    pub charset: Option<&'static str>,
}

/// Reason why a file has no text; for people and models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    #[error("not a text file")]
    Binary,
    #[error("not UTF-8, and its charset cannot be told: save it as UTF-8")]
    UnknownCharset,
}

/// First bytes of binary formats, some of which have no zero byte for a long while.
const SIGNATURES: [&[u8]; 6] = [
    b"%PDF-",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"PK\x03\x04",
    b"\x1f\x8b",
];
/// In a Western European text at most one letter in this many is beyond ASCII; in others nearly all
/// are.
const BEYOND_ASCII_SHARE: usize = 2;

/// Reads the bytes of a file as text, without a byte-order mark.
pub fn file_text(bytes: &[u8]) -> Result<FileText, NotText> {
    let decoded = |charset: &'static str, bytes: &[u8]| {
        let decode = charset_decoder(charset.as_bytes()).ok_or(NotText::UnknownCharset)?;
        Ok(FileText {
            text: decode(bytes),
            charset: Some(charset),
        })
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => return decoded("utf-16le", rest),
        [0xfe, 0xff, rest @ ..] => return decoded("utf-16be", rest),
        _ if bytes.contains(&0)
            || SIGNATURES
                .iter()
                .any(|signature| bytes.starts_with(signature)) =>
        {
            return Err(NotText::Binary);
        }
        _ => {}
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        return Ok(FileText {
            text,
            charset: None,
        });
    }
    if bytes
        .iter()
        .any(|byte| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c))
    {
        return Err(NotText::Binary);
    }
    let western = decoded("windows-1252", bytes)?;
    if is_western(&western.text) {
        Ok(western)
    } else {
        Err(NotText::UnknownCharset)
    }
}

/// Reports whether a text reads like Western European text: its letters are mostly ASCII, none of
/// its signs stands in the middle of a word, as the letters of other charsets do when they are
/// decoded so, and it holds no control character.
fn is_western(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let letters = chars.iter().filter(|c| c.is_alphabetic());
    let beyond = letters.clone().filter(|c| !c.is_ascii()).count();
    let is_sign_in_word = |trio: &[char]| {
        // An apostrophe, the dot of Catalan and a soft hyphen are legal there.
        let is_sign = !trio[1].is_ascii()
            && !trio[1].is_alphabetic()
            && !"\u{2019}\u{b7}\u{ad}".contains(trio[1]);
        is_sign && trio[0].is_alphabetic() && trio[2].is_alphabetic()
    };
    let is_control =
        |c: &char| ('\u{80}'..='\u{9f}').contains(c) || *c == char::REPLACEMENT_CHARACTER;
    beyond * BEYOND_ASCII_SHARE <= letters.count()
        && !chars.iter().any(is_control)
        && !chars.windows(3).any(is_sign_in_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charset_is_named_by_a_mark_or_guessed_with_care() {
        let read = |bytes: &[u8]| file_text(bytes).map(|read| (read.text, read.charset));
        type Case = (
            &'static [u8],
            Result<(&'static str, Option<&'static str>), NotText>,
        );
        let cases: [Case; 9] = [
            ("für".as_bytes(), Ok(("für", None))),
            (b"\xef\xbb\xbffine", Ok(("fine", None))),
            (b"\xff\xfef\0\xfc\0r\0", Ok(("für", Some("utf-16le")))),
            (
                b"f\xfcr 10 \x80, l\x92\xe9t\xe9",
                Ok(("für 10 €, l’été", Some("windows-1252"))),
            ),
            (b"by\xb3a noc i ma\xb3o snu", Err(NotText::UnknownCharset)),
            (
                b"\xeb\xcf\xcd\xce\xc1\xd4\xc1 9",
                Err(NotText::UnknownCharset),
            ),
            (b"a\0b", Err(NotText::Binary)),
            (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3", Err(NotText::Binary)),
            (b"\x89\x01\x02 text", Err(NotText::Binary)),
        ];
        for (bytes, wanted) in cases {
            let wanted = wanted.map(|(text, charset)| (text.to_owned(), charset));
            assert_eq!(read(bytes), wanted, "{bytes:?}");
        }
    }
}
