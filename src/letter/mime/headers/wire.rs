//! Header values in their final form: folded, encoded, and free of everything that could end them.

use super::fields::one_line;
use crate::domain::Address;

/// Column after which a value is folded (RFC 5322 section 2.1.1 recommends 78).
const FOLD_COLUMN: usize = 76;
/// Bytes of content in one encoded word: with its frame it stays below 75 characters (RFC 2047
/// section 2).
const WORD_BYTES_MAX: usize = 42;

/// Encodes unstructured text, for example a subject, after a field name of `name_len` characters.
pub(in crate::mime) fn unstructured(text: &str, name_len: usize) -> String {
    let text = one_line(text);
    if is_plain(&text) {
        folded(&text, name_len + 2)
    } else {
        encoded_words(&text)
    }
}

/// Formats `name <address>`, or the address alone.
pub(in crate::mime) fn mailbox(name: &str, address: &Address) -> String {
    let name = one_line(name);
    if name.is_empty() {
        return address.to_string();
    }
    if !is_plain(&name) {
        return format!("{}\r\n <{address}>", encoded_words(&name));
    }
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\" <{address}>")
}

/// Formats addresses, one per line after the first.
pub(in crate::mime) fn addresses(all: &[Address]) -> String {
    let all: Vec<String> = all.iter().map(Address::to_string).collect();
    all.join(",\r\n ")
}

/// Reports whether a text is printable ASCII that no reader would decode, and whose words fit on a
/// line.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
        && !text.contains("=?")
        && text.split(' ').all(|word| word.len() <= 200)
}

/// Folds before words; the blank at the fold begins the next line and is read back as itself.
fn folded(text: &str, first_column: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = first_column;
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            // Never before an empty word: a line of blanks would end the header for some readers.
            if column + word.len() >= FOLD_COLUMN && !word.is_empty() {
                out.push_str("\r\n");
                column = 0;
            }
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out
}

/// Encodes by RFC 2047 section 5, base64 of UTF-8; blanks between encoded words do not count, so
/// the text comes back exactly.
fn encoded_words(text: &str) -> String {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at(rest.floor_char_boundary(WORD_BYTES_MAX));
        words.push(format!("=?utf-8?B?{}?=", base64(chunk.as_bytes())));
        rest = tail;
    }
    words.join("\r\n ")
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) as usize & 63;
            out.push(if place <= chunk.len() {
                char::from(ALPHABET[digit])
            } else {
                '='
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_folded_at_blanks_and_the_rest_is_encoded() {
        let long = "word ".repeat(40);
        let wire = unstructured(&long, 7);
        assert!(wire.split("\r\n").all(|line| line.len() <= FOLD_COLUMN));
        assert_eq!(wire.replace("\r\n", ""), long.trim_end());
        assert_eq!(
            unstructured("Zimmer für zwei", 7),
            "=?utf-8?B?WmltbWVyIGbDvHIgendlaQ==?="
        );
        assert_eq!(unstructured("=?x?q?y?=", 7), "=?utf-8?B?PT94P3E/eT89?=");
        assert_eq!(unstructured("a\r\nBcc: b@c.test", 7), "a  Bcc: b@c.test");
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        let address = Address::parse("a@b.test");
        let written = address.map(|a| mailbox("x\" <evil@c.test>\\", &a));
        assert_eq!(
            written,
            Ok("\"x\\\" <evil@c.test>\\\\\" <a@b.test>".to_owned())
        );
    }
}
