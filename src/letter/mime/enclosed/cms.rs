//! The frame of a Cryptographic Message Syntax object (RFC 5652): which kind it is, and the content of a signed one.
//!
//! Written by hand because mail programs send BER with indefinite lengths and strings in pieces, which the libraries for DER
//! refuse, and because nothing of certificates and signatures is needed.

/// Levels of values inside of each other.
const DEPTH_MAX: usize = 24;
/// Pieces of one string.
const PIECES_MAX: usize = 100_000;

/// Kind of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CmsKind {
    /// Signed, with its content inside.
    Signed(Vec<u8>),
    Encrypted,
    /// Certificates alone, a compressed content, or a type that is not known.
    Other,
}

/// Object identifiers, without tag and length: the content types of RFC 5652 and RFC 5083.
const DATA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01";
const SIGNED: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02";
const ENVELOPED: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03";
const ENCRYPTED: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x06";
const AUTH_ENVELOPED: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x17";

const OBJECT_ID: u8 = 0x06;
const OCTETS: u8 = 0x04;
const OCTETS_IN_PIECES: u8 = 0x24;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
/// `[0]` around a value.
const EXPLICIT: u8 = 0xa0;

/// Reads the frame; `None`: the bytes are no such object, or are cut before its content ends.
pub(super) fn read(bytes: &[u8]) -> Option<CmsKind> {
    let (object, _) = expect(bytes, SEQUENCE)?;
    let (kind, rest) = expect(object, OBJECT_ID)?;
    if [ENVELOPED, ENCRYPTED, AUTH_ENVELOPED].contains(&kind) {
        return Some(CmsKind::Encrypted);
    }
    if kind != SIGNED {
        return Some(CmsKind::Other);
    }
    let (explicit, _) = expect(rest, EXPLICIT)?;
    let (signed, _) = expect(explicit, SEQUENCE)?;
    let (_, rest) = expect(signed, INTEGER)?;
    let (_, rest) = expect(rest, SET)?;
    let (content, _) = expect(rest, SEQUENCE)?;
    let (kind, rest) = expect(content, OBJECT_ID)?;
    // Detached signatures and bare certificates have no content.
    if kind != DATA || rest.is_empty() {
        return Some(CmsKind::Other);
    }
    let (explicit, _) = expect(rest, EXPLICIT)?;
    let mut text = Vec::new();
    octets(explicit, &mut text, &mut 0, 0)?;
    Some(CmsKind::Signed(text))
}

/// Joins a string that may be in pieces.
fn octets(bytes: &[u8], out: &mut Vec<u8>, pieces: &mut usize, depth: usize) -> Option<()> {
    let (tag, mut inside, _) = value(bytes)?;
    *pieces += 1;
    match tag {
        OCTETS => out.extend_from_slice(inside),
        OCTETS_IN_PIECES if depth < DEPTH_MAX => {
            while !inside.is_empty() && *pieces < PIECES_MAX {
                let (_, _, rest) = value(inside)?;
                octets(inside, out, pieces, depth + 1)?;
                inside = rest;
            }
        }
        _ => return None,
    }
    Some(())
}

/// Returns the content of a value of that tag, and what follows it.
fn expect(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, inside, rest) = value(bytes)?;
    (tag == wanted).then_some((inside, rest))
}

/// Splits off one value: its tag, its content without the end mark of an indefinite length, and the rest.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, length, head) = head(bytes)?;
    let body = bytes.get(head..)?;
    match length {
        // A letter that lost its last bytes still has its words: only signers and certificates follow them.
        Some(length) => {
            let length = length.min(body.len());
            Some((tag, &body[..length], &body[length..]))
        }
        None => {
            let end = end_mark(body);
            let rest = body.get(end + 2..).unwrap_or_default();
            Some((tag, &body[..end], rest))
        }
    }
}

/// Tag, length (`None`: indefinite) and number of their bytes. Tags of more than one byte do not occur here.
fn head(bytes: &[u8]) -> Option<(u8, Option<usize>, usize)> {
    let (tag, first) = (*bytes.first()?, *bytes.get(1)?);
    if tag & 0x1f == 0x1f {
        return None;
    }
    match first {
        0x80 => Some((tag, None, 2)),
        short if short < 0x80 => Some((tag, Some(usize::from(short)), 2)),
        long => {
            let count = usize::from(long & 0x7f);
            if count > 4 {
                return None;
            }
            let digits = bytes.get(2..2 + count)?;
            let length = digits
                .iter()
                .fold(0, |sum: usize, digit| (sum << 8) | usize::from(*digit));
            Some((tag, Some(length), 2 + count))
        }
    }
}

/// Offset of the two zero bytes that end a value of indefinite length; the end of the bytes where there are none. One pass:
/// open values are counted, not entered.
fn end_mark(body: &[u8]) -> usize {
    let (mut at, mut open) = (0, 0_usize);
    while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(&[0, 0]) {
            if open == 0 {
                return at;
            }
            open -= 1;
            at += 2;
            continue;
        }
        match head(rest) {
            Some((_, None, head)) if open < DEPTH_MAX => {
                open += 1;
                at += head;
            }
            Some((_, Some(length), head)) => at = at.saturating_add(head).saturating_add(length),
            _ => break,
        }
    }
    body.len()
}
