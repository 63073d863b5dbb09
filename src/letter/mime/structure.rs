//! The MIME structure of a letter as a flat list of parts, built within limits.
//!
//! Written by hand because mail-parser 0.11 nests messages as boxed values whose drop overflows the
//! stack at a few thousand levels, and because it finds `Content-Type` under spellings that no
//! pre-scan would count. Here nothing recurses, every level costs one pass over its own lines, and
//! a limit ends the walk at once.

use super::headers::fields::{Fields, trim_line_end};
use super::limits::{ParseError, ParseLimits};
use super::text::{charsets, flowed};
use super::transfer;
use crate::domain::LetterRange;
use mail_parser::ContentType;
use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Content; nothing inside.
    Leaf,
    Multipart,
    /// `message/rfc822` or `message/global` whose content is readable as it stands; one child.
    Message,
}

/// One body part, or the letter itself.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) fields: Fields<'a>,
    /// Lower-case media type with its subtype, for example `text/plain`; the default when none or a
    /// bad one was given.
    pub(super) media: String,
    pub(super) content_type: Option<ContentType<'static>>,
    /// Content after the header section, not decoded.
    pub(super) body: &'a [u8],
    pub(super) kind: Kind,
    /// Indices of the children, in order.
    pub(super) children: Vec<usize>,
}

impl Part<'_> {
    /// Returns a parameter of `Content-Type`, decoded.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.content_type.as_ref().and_then(|c| c.attribute(name))
    }
    pub(super) fn is_multipart(&self, subtype: &str) -> bool {
        self.media.strip_prefix("multipart/") == Some(subtype)
    }
}

/// A range that waits to become a part.
struct Pending<'a> {
    bytes: &'a [u8],
    parent: Option<usize>,
    depth: usize,
    default_media: &'static str,
}

/// Splits a letter into parts. The first part is the letter itself; a part stands before its
/// children.
pub(super) fn walk<'a>(
    letter: &'a [u8],
    limits: &ParseLimits,
) -> Result<Vec<Part<'a>>, ParseError> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    let mut pending = vec![Pending {
        bytes: letter,
        parent: None,
        depth: 0,
        default_media: TEXT,
    }];
    while let Some(next) = pending.pop() {
        if next.depth > limits.depth_max {
            return Err(ParseError::Hostile("body parts are nested too deeply"));
        }
        if parts.len() >= limits.parts_max {
            return Err(ParseError::Hostile("too many body parts"));
        }
        let (fields, body_start) = Fields::cut(next.bytes);
        if body_start > limits.header_bytes_max && !fields.is_empty() {
            return Err(ParseError::Hostile("header section is too large"));
        }
        let index = parts.len();
        let part = part(fields, &next.bytes[body_start..], next.default_media);
        let room = limits.parts_max - index;
        // Pushed in reverse, so that the first child is taken from the stack first.
        for bytes in inside(&part, room)?.into_iter().rev() {
            let default_media = if part.is_multipart("digest") {
                "message/rfc822"
            } else {
                TEXT
            };
            pending.push(Pending {
                bytes,
                parent: Some(index),
                depth: next.depth + 1,
                default_media,
            });
        }
        if let Some(parent) = next.parent {
            parts[parent].children.push(index);
        }
        parts.push(part);
    }
    Ok(parts)
}

pub(super) const TEXT: &str = "text/plain";

pub(super) fn part<'a>(fields: Fields<'a>, body: &'a [u8], default_media: &str) -> Part<'a> {
    let content_type = fields.content_type("content-type");
    let declared = content_type.as_ref().map(|c| match c.subtype() {
        Some(subtype) => format!("{}/{subtype}", c.ctype()),
        None => c.ctype().to_owned(),
    });
    let media = match declared {
        // RFC 2045 section 5.2: a malformed type is treated as text, an unknown type with a subtype
        // is content of its own.
        Some(media) if media.contains('/') => media.to_ascii_lowercase(),
        Some(media) if media.eq_ignore_ascii_case("text") => TEXT.to_owned(),
        Some(_) if fields.has("content-disposition") => "application/octet-stream".to_owned(),
        _ => default_media.to_owned(),
    };
    let encoding = fields
        .token("content-transfer-encoding")
        .unwrap_or_default();
    let is_plain = !matches!(encoding.as_str(), "base64" | "quoted-printable");
    let kind = match media.as_str() {
        "message/rfc822" | "message/global" if is_plain => Kind::Message,
        m if m.starts_with("multipart/") => Kind::Multipart,
        _ => Kind::Leaf,
    };
    Part {
        fields,
        media,
        content_type,
        body,
        kind,
        children: Vec::new(),
    }
}

/// Returns the byte ranges of the direct children of a part.
pub(super) fn inside<'a>(part: &Part<'a>, room: usize) -> Result<Vec<&'a [u8]>, ParseError> {
    match (part.kind, part.parameter("boundary")) {
        (Kind::Message, _) => Ok(vec![part.body]),
        (Kind::Multipart, Some(boundary)) if !boundary.trim_end().is_empty() => {
            between_boundaries(part.body, boundary.trim_end().as_bytes(), room)
        }
        _ => Ok(Vec::new()),
    }
}

/// Returns the ranges between delimiter lines (RFC 2046 section 5.1.1). The line end before a
/// delimiter belongs to the delimiter; an end of the body stands in for a missing close delimiter.
fn between_boundaries<'a>(
    body: &'a [u8],
    boundary: &[u8],
    room: usize,
) -> Result<Vec<&'a [u8]>, ParseError> {
    let mut found = Vec::new();
    let mut open: Option<usize> = None;
    let mut start = 0;
    for line in body.split_inclusive(|b| *b == b'\n') {
        let after = start + line.len();
        if let Some(is_close) = delimiter(line, boundary) {
            if let Some(from) = open {
                found.push(trim_line_end(&body[from..start.max(from)]));
            }
            open = Some(after);
            if is_close {
                return Ok(found);
            }
            if found.len() >= room {
                return Err(ParseError::Hostile("too many body parts"));
            }
        }
        start = after;
    }
    if let Some(from) = open {
        found.push(&body[from..]);
    }
    Ok(found)
}

/// Parses a delimiter line: `None` when the line is none, `Some(true)` for the closing one.
pub(super) fn delimiter(line: &[u8], boundary: &[u8]) -> Option<bool> {
    let rest = line
        .strip_prefix(b"--")?
        .strip_prefix(boundary)?
        .trim_ascii_end();
    match rest {
        b"" => Some(false),
        b"--" => Some(true),
        _ => None,
    }
}

/// Returns the decoded content of a part; content that cannot be decoded is kept as far as
/// possible.
pub(super) fn content<'a>(part: &Part<'a>) -> Cow<'a, [u8]> {
    let encoding = part.fields.token("content-transfer-encoding");
    transfer::decoded(encoding.as_deref(), part.body)
}

/// Returns where the content of a part stands in these bytes of a letter; `None`: the part is of other bytes.
pub(super) fn range_in(letter: &[u8], part: &Part<'_>) -> Option<LetterRange> {
    let start = part
        .body
        .as_ptr()
        .addr()
        .checked_sub(letter.as_ptr().addr())?;
    let len = part.body.len();
    // A part of a container's own text lies elsewhere in memory.
    letter.get(start..start.checked_add(len)?)?;
    let encoding = part.fields.token("content-transfer-encoding");
    Some(LetterRange {
        start,
        len,
        encoding: transfer::encoding(encoding.as_deref()),
    })
}

/// Returns the text of a part by its declared charset, with the lines that its writer meant.
pub(super) fn text(part: &Part<'_>) -> String {
    let text = transfer::plain_lines(&charsets::decoded(
        part.parameter("charset").unwrap_or_default(),
        &content(part),
    ));
    let says = |name: &str, value: &str| {
        let said = part.parameter(name).unwrap_or_default();
        said.trim().eq_ignore_ascii_case(value)
    };
    match part.media == "text/plain" && says("format", "flowed") {
        true => flowed::unflowed(&text, says("delsp", "yes")),
        false => text,
    }
}
