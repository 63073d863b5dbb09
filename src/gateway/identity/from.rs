//! Strict parser for the only sender address of a letter (a small subset of RFC 5322 section
//! 3.6.2).
//!
//! A lenient parser shows users one sender while the verification has checked another. Everything
//! beyond this subset is refused: no comments, no groups, no routes, no second mailbox, only ASCII
//! in the address.

use crate::domain::Address;

/// The address of a `From` field's value; `None` unless there is exactly one in plain syntax.
pub fn only_address(value: &[u8]) -> Option<Address> {
    let mut unfolded = Vec::with_capacity(value.len());
    for &byte in value {
        match byte {
            b'\r' | b'\n' => {}
            b'\t' => unfolded.push(b' '),
            // Parsers differ in control characters.
            0..=31 | 127 => return None,
            _ => unfolded.push(byte),
        }
    }
    let value = unfolded.trim_ascii();
    match after_display_name(value) {
        Some(rest) => addr_spec(rest.strip_suffix(b">")?),
        None => addr_spec(value),
    }
}

/// The text after the `<` that ends the display name; `None` without a display name.
fn after_display_name(value: &[u8]) -> Option<&[u8]> {
    let mut is_quoted = false;
    let mut at = 0;
    while at < value.len() {
        match (value[at], is_quoted) {
            (b'\\', true) => at += 1,
            (b'"', _) => is_quoted = !is_quoted,
            (b'<', false) => return Some(&value[at + 1..]),
            // Unquoted specials begin a comment, a group, a further mailbox or another address.
            (b'(' | b')' | b'[' | b']' | b':' | b';' | b'@' | b'\\' | b',' | b'>', false) => {
                return None;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn addr_spec(text: &[u8]) -> Option<Address> {
    let text = std::str::from_utf8(text).ok()?;
    let address = Address::parse(text).ok()?;
    // A quoted local part is answered and proves nothing: parsers differ in what ends it.
    if address.local().starts_with('"') {
        return None;
    }
    // Legal atoms, but also the marks of encoded words (RFC 2047): some parsers decode them, others
    // do not.
    (!address.local().contains("=?") && !address.local().contains("?=")).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_mailboxes_are_read() {
        let spellings: [&[u8]; 8] = [
            b"olga@home.test",
            b" Olga <olga@home.test>\r\n",
            b"<olga@HOME.test>",
            b"\"Olga, of home\" <olga@home.test>",
            b"\"mallory@evil.test <x@y.test>\" <olga@home.test>",
            b"=?utf-8?q?Olga=20=3Cx=40y.test=3E?= <olga@home.test>",
            "Ol\u{17c}a <olga@home.test>".as_bytes(),
            b"Olga\r\n <olga@home.test>",
        ];
        for formatted in spellings {
            let found = only_address(formatted).map(|address| address.key());
            assert_eq!(
                found.as_deref(),
                Some("olga@home.test"),
                "{}",
                String::from_utf8_lossy(formatted)
            );
        }
    }

    #[test]
    fn evasions_are_nobody() {
        let evasions: [&str; 29] = [
            "Doe, Olga <olga@home.test>",
            "Olga; of home <olga@home.test>",
            "olga.@home.test",
            "\"olga.\"@home.test",
            "Olga <\"ol ga\"@home.test>",
            "ol..ga@home.test",
            "mallory, <olga@home.test>",
            "",
            "olga@home.test\0",
            "olga\0@home.test",
            "<@evil.test:olga@home.test>",
            "friends: olga@home.test;",
            "olga@home.test (Olga)",
            "(mallory@evil.test) olga@home.test",
            "olga(x)@home.test",
            "=?utf-8?q?olga=40home.test=3e?=@evil.test",
            "olga@home.test.",
            "olga\u{ff20}home.test",
            "olga@h\u{43e}me.test",
            "\u{43e}lga@home.test",
            "olga@home.test, mallory@evil.test",
            "Olga <olga@home.test>, <mallory@evil.test>",
            "Olga <olga@home.test> <mallory@evil.test>",
            "olga@home.test <mallory@evil.test>",
            "<olga@home.test>mallory@evil.test",
            "\"olga\"@home.test",
            "olga@[127.0.0.1]",
            "<<olga@home.test>>",
            "\"Olga\\\" <olga@home.test>",
        ];
        for evasion in evasions {
            assert_eq!(only_address(evasion.as_bytes()), None, "{evasion:?}");
        }
    }
}
