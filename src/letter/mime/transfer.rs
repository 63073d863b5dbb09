//! Transfer encodings: from bytes to content, and to lines of text.

use crate::domain::{LetterRange, TransferEncoding};
use mail_parser::decoders::base64::base64_decode;
use std::borrow::Cow;

/// Decodes base64 by RFC 2045 section 6.8: characters outside the alphabet are ignored, the first
/// padding ends the data.
pub(super) fn lenient_base64(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for byte in bytes.iter().take_while(|b| **b != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    out
}

/// Decodes quoted-printable by RFC 2045 section 6.7; a `=` that begins no escape stands for itself,
/// as every mail reader shows it.
fn quoted_printable(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let (text, end) = match line {
            [text @ .., b'\r', b'\n'] => (text, &b"\r\n"[..]),
            [text @ .., b'\n'] => (text, &b"\n"[..]),
            text => (text, &b""[..]),
        };
        // Blanks at the end of an encoded line were added in transit.
        let text = text.trim_ascii_end();
        let (text, end) = match text.strip_suffix(b"=") {
            Some(text) => (text, &b""[..]),
            None => (text, end),
        };
        decode_escapes(text, &mut out);
        out.extend_from_slice(end);
    }
    out
}

/// Decodes `=XX` in a text without line ends.
pub(super) fn decode_escapes(mut text: &[u8], out: &mut Vec<u8>) {
    let digit = |b: &u8| char::from(*b).to_digit(16);
    while let Some((first, rest)) = text.split_first() {
        text = rest;
        if let (b'=', [high, low, tail @ ..]) = (*first, rest)
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            out.push((high * 16 + low) as u8);
            text = tail;
        } else {
            out.push(*first);
        }
    }
}

/// Replaces line ends by `\n` and removes control characters other than tab and line feed. The
/// byte-order mark is removed wherever it stands: it is invisible, and text that is stripped before
/// it would otherwise decide whether it stays.
pub(super) fn plain_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\n' | '\t' => out.push(c),
            c if c.is_control() || c == '\u{feff}' => {}
            c => out.push(c),
        }
    }
    out
}

/// Decodes bytes by the value of Content-Transfer-Encoding; what cannot be decoded is kept as far
/// as possible.
pub(super) fn decoded<'a>(encoding: Option<&str>, body: &'a [u8]) -> Cow<'a, [u8]> {
    decoded_by(self::encoding(encoding), body)
}

/// Reads the value of Content-Transfer-Encoding; an unknown one changes nothing.
pub(super) fn encoding(value: Option<&str>) -> TransferEncoding {
    match value {
        Some("base64") => TransferEncoding::Base64,
        Some("quoted-printable") => TransferEncoding::QuotedPrintable,
        _ => TransferEncoding::Identity,
    }
}

fn decoded_by(encoding: TransferEncoding, body: &[u8]) -> Cow<'_, [u8]> {
    match encoding {
        TransferEncoding::Base64 => {
            Cow::Owned(base64_decode(body).unwrap_or_else(|| lenient_base64(body)))
        }
        TransferEncoding::QuotedPrintable => Cow::Owned(quoted_printable(body)),
        TransferEncoding::Identity => Cow::Borrowed(body),
    }
}

/// Decodes a range of a letter; `None`: it has no such range. Attachments are stored as ranges: what one gave once it must always
/// give.
pub fn decoded_range(letter: &[u8], range: LetterRange) -> Option<Cow<'_, [u8]>> {
    let end = range.start.checked_add(range.len)?;
    Some(decoded_by(range.encoding, letter.get(range.start..end)?))
}
