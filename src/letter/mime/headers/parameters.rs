//! Parameters of `Content-Type` and `Content-Disposition` that are written in sections or encoded (RFC 2231), and encoded
//! words in them, which RFC 2047 forbids and most programs write.
//!
//! Written by hand because mail-parser decodes each section and each word by itself: a character that is cut between two is
//! lost, and later sections lose the charset of the first. What is decoded here stands behind a mask, so that the library
//! never sees a quotation mark or a semicolon of the sender's text.

use super::encoded_words::{self, Masked};
use crate::mime::text::charsets;
use mail_parser::ContentType;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Sections of all parameters together that are joined.
const SECTIONS_MAX: usize = 200;

/// Sections of one parameter, by their number: text, and whether it is percent-encoded.
type Sections = BTreeMap<u32, (Vec<u8>, bool)>;

/// Returns an unfolded value as UTF-8, in which each parameter in sections is one, and encoded text is masked.
pub(in crate::mime) fn joined(value: &[u8], raw: &str) -> (String, Masked) {
    let mut kept = Vec::with_capacity(value.len());
    let mut found: BTreeMap<String, Sections> = BTreeMap::new();
    let mut number = 0;
    for (index, piece) in pieces(value).into_iter().enumerate() {
        let section = section(piece).filter(|_| index > 0 && number < SECTIONS_MAX);
        let Some((name, place, text, is_encoded)) = section else {
            if index > 0 {
                kept.push(b';');
            }
            kept.extend_from_slice(piece);
            continue;
        };
        number += 1;
        found
            .entry(name)
            .or_default()
            .entry(place)
            .or_insert((text, is_encoded));
    }
    let (text, mut masked) = encoded_words::masked(&kept, raw);
    // Before the other parameters: of a name that is written both ways the encoded one is exact (RFC 6266 section 4.3).
    let (kind, rest) = text.split_at(text.find(';').unwrap_or(text.len()));
    let mut out = kind.to_owned();
    for (name, sections) in found {
        let mask = masked.mask(text_of(sections, raw));
        out.push_str(&format!("; {name}=\"{mask}\""));
    }
    out.push_str(rest);
    (out, masked)
}

/// Returns the parsed value with the masked texts in their places.
pub(in crate::mime) fn revealed(
    mut parsed: ContentType<'static>,
    words: &Masked,
) -> ContentType<'static> {
    for attribute in parsed.attributes.iter_mut().flatten() {
        if words.are_in(&attribute.value) {
            attribute.value = Cow::Owned(words.revealed(&attribute.value));
        }
        // A fold inside of a name is no part of it.
        if attribute.value.contains('\t') {
            attribute.value = Cow::Owned(attribute.value.replace('\t', " "));
        }
    }
    parsed
}

/// Splits a value at semicolons outside of quoted strings.
fn pieces(value: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in value.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b';' if !is_quoted => {
                found.push(&value[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&value[start..]);
    found
}

/// Parses `name*`, `name*2` or `name*2*` with its value; `None` for any other piece.
fn section(piece: &[u8]) -> Option<(String, u32, Vec<u8>, bool)> {
    let equals = piece.iter().position(|byte| *byte == b'=')?;
    let name = std::str::from_utf8(piece[..equals].trim_ascii()).ok()?;
    let (name, rest) = name.split_once('*')?;
    let (place, is_encoded) = match rest.strip_suffix('*') {
        Some(place) => (place, true),
        None => (rest, rest.is_empty()),
    };
    let place = if place.is_empty() { "0" } else { place };
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let text = unquoted(piece[equals + 1..].trim_ascii());
    Some((
        name.to_ascii_lowercase(),
        place.parse().ok()?,
        text,
        is_encoded,
    ))
    .filter(|_| is_name)
}

fn unquoted(value: &[u8]) -> Vec<u8> {
    let Some(inner) = value.strip_prefix(b"\"") else {
        return value.to_vec();
    };
    let (mut plain, mut bytes) = (Vec::with_capacity(inner.len()), inner.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => plain.extend(bytes.next()),
            b'"' => break,
            byte => plain.push(*byte),
        }
    }
    plain
}

/// Joins the sections in their order, without those after a gap, and decodes them by the charset of the first (section 4.1).
fn text_of(sections: Sections, raw: &str) -> String {
    let (mut bytes, mut charset, mut is_any_encoded) = (Vec::new(), String::new(), false);
    for (wanted, (place, (text, is_encoded))) in (0..).zip(sections) {
        if place != wanted && place != wanted + 1 {
            break;
        }
        let mut rest = text.as_slice();
        if is_encoded && wanted == 0 {
            let mut quotes = text.splitn(3, |byte| *byte == b'\'');
            if let (Some(label), Some(_), Some(tail)) =
                (quotes.next(), quotes.next(), quotes.next())
            {
                charset = String::from_utf8_lossy(label).into_owned();
                rest = tail;
            }
        }
        is_any_encoded |= is_encoded;
        match is_encoded {
            true => percent_decoded(rest, &mut bytes),
            false => bytes.extend_from_slice(rest),
        }
    }
    match is_any_encoded {
        true => charsets::decoded(&charset, &bytes),
        false => encoded_words::decoded(&bytes, raw),
    }
}

fn percent_decoded(text: &[u8], out: &mut Vec<u8>) {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, tail @ ..]) => match digit(*high).zip(digit(*low)) {
                Some((high, low)) => {
                    out.push((high * 16 + low) as u8);
                    rest = tail;
                }
                None => out.push(b'%'),
            },
            (byte, _) => out.push(*byte),
        }
    }
}
