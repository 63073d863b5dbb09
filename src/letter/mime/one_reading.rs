//! Whether the signed bytes of a letter can be read as other words under other fields.
//!
//! A signature covers the body. Where it doesn't cover the fields that say how the body is read (`Content-Type`,
//! `Content-Transfer-Encoding`, `Content-Disposition`), everybody who has the letter can write others above it: another
//! boundary, an encoding, a charset. The question here is whether the letter as it stands could be such a copy. It has one
//! reading if no sender would have written these bytes under other fields and meant other words.
//!
//! `MIME-Version` and `Content-ID` don't count, because nothing here reads them off a letter. What remains open: a letter that
//! is a single text file, sent with an unsigned `Content-Disposition: attachment`, reads as text when that field is gone.

use super::body::is_file;
use super::headers::fields::{Fields, trim_line_end};
use super::headers::header::from_first_field;
use super::structure::{self, Kind, Part};
use super::text::{charsets, flowed};
use super::transfer;

/// Fields of a letter that a signature fixes: those that are there are signed, those that are not could not be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FixedFields {
    pub content_type: bool,
    pub encoding: bool,
    pub disposition: bool,
}

/// Reports whether a letter of which only the body and these fields are fixed has one reading. Linear in its size.
pub fn has_one_reading(letter: &[u8], fixed: FixedFields) -> bool {
    let letter = from_first_field(letter);
    let (fields, start) = Fields::cut(letter);
    let (header, body) = letter.split_at(start);
    // A body that begins without an empty line is not the body that was signed.
    let ends = body.is_empty() || header.ends_with(b"\n\r\n") || header.ends_with(b"\n\n");
    if !ends {
        return false;
    }
    let part = structure::part(fields, body, structure::TEXT);
    let children = structure::inside(&part, PARTS_MAX).unwrap_or_default();
    match part.kind {
        Kind::Multipart if !children.is_empty() => {
            fixed.content_type || is_whole_multipart(&part, &children)
        }
        Kind::Multipart | Kind::Message => {
            fixed.content_type && fixed.encoding && fixed.disposition
        }
        Kind::Leaf => is_one_leaf(&part, fixed),
    }
}

/// Most direct children that are looked at; a letter with more has no reading that counts.
const PARTS_MAX: usize = 500;

/// A multipart under an unsigned type: from its first line to its last it can be nothing else.
fn is_whole_multipart(letter: &Part<'_>, children: &[&[u8]]) -> bool {
    const KNOWN: [&str; 4] = ["mixed", "alternative", "related", "signed"];
    if !KNOWN.iter().any(|subtype| letter.is_multipart(subtype)) {
        return false;
    }
    let boundary = letter.parameter("boundary").unwrap_or_default().trim_end();
    if !fills(letter.body, boundary.as_bytes())
        || !children.iter().all(|part| has_part_header(part))
    {
        return false;
    }
    let parts: Vec<Part<'_>> = children
        .iter()
        .map(|bytes| {
            let (fields, start) = Fields::cut(bytes);
            structure::part(fields, &bytes[start..], structure::TEXT)
        })
        .collect();
    // Alternatives that are read one after the other say more than their sender wrote, and parts that follow each other
    // say less when they are read as alternatives.
    parts.len() == 1 || letter.is_multipart("alternative") == are_alternatives(&parts)
}

/// Reports whether parts are what programs write as alternatives: at most one plain text, first, and richer ones.
fn are_alternatives(parts: &[Part<'_>]) -> bool {
    parts.iter().enumerate().all(|(place, part)| {
        let is_rich = part.kind == Kind::Multipart
            || (part.media.starts_with("text/") && part.media != "text/plain");
        !is_file(part) && (is_rich || (place == 0 && part.media == "text/plain"))
    })
}

/// Reports whether a multipart begins at the first line of the body and ends at the last one. Empty lines don't matter, nor
/// does the sentence that programs write for readers without MIME.
fn fills(body: &[u8], boundary: &[u8]) -> bool {
    let mut lines = body_lines(body).filter(|line| !line.is_empty()).peekable();
    lines.next_if(|line| is_mime_sentence(line));
    let opens = lines
        .next()
        .and_then(|line| structure::delimiter(line, boundary))
        == Some(false);
    let mut after_close =
        lines.skip_while(|line| structure::delimiter(line, boundary) != Some(true));
    opens && after_close.next().is_some() && after_close.next().is_none()
}

fn body_lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
}

/// Reports whether a line is the preamble of a mail program, such as `This is a multi-part message in MIME format.`
fn is_mime_sentence(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line).to_ascii_lowercase();
    const SENTENCES: [&str; 5] = [
        "this is a multi-part message in mime format",
        "this is a multipart message in mime format",
        "this is a cryptographically signed message in mime format",
        "this is an openpgp/mime signed message (rfc 4880 and 3156)",
        "this is a mime-encapsulated message",
    ];
    SENTENCES.contains(&line.trim_end_matches('.'))
}

/// Reports whether a body part begins with the header of one: `Content-Type`, and nothing but `Content-*` and `X-*`. Text
/// between two equal lines, such as a quoted letter with its `From:`, is none.
fn has_part_header(part: &[u8]) -> bool {
    let mut has_type = false;
    for (place, line) in part.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = trim_line_end(line);
        match line.first() {
            None => return has_type,
            // The rest of a folded field.
            Some(b' ' | b'\t') if place > 0 => continue,
            _ => {}
        }
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        has_type |= name == "content-type";
        let is_known = name.starts_with("content-") || name.starts_with("x-");
        if !is_known || name.len() == line.len() {
            return false;
        }
    }
    false
}

/// A letter that is no multipart.
fn is_one_leaf(part: &Part<'_>, fixed: FixedFields) -> bool {
    let is_text = part.media == "text/plain";
    let is_html = part.media == "text/html" && fixed.content_type;
    if !is_text && !is_html {
        return fixed.content_type;
    }
    if is_file(part) && !(fixed.content_type && fixed.disposition) {
        return false;
    }
    if !fixed.encoding && !has_one_decoding(part, is_html) {
        return false;
    }
    fixed.content_type
        || (!is_source(part.body)
            && is_utf8_text(part)
            && !flowed::has_soft_breaks(&structure::content(part)))
}

/// Reports whether the bytes are what a sender would write under this transfer encoding and no other.
fn has_one_decoding(part: &Part<'_>, is_html: bool) -> bool {
    let encoding = part
        .fields
        .token("content-transfer-encoding")
        .unwrap_or_default();
    match encoding.as_str() {
        "" | "7bit" | "8bit" | "binary" => !is_quoted_printable(part.body),
        // HTML has attributes. Their `=` is escaped in every program's quoted-printable, and in no HTML itself.
        "quoted-printable" if is_html => {
            is_quoted_printable(part.body) && part.body.windows(4).any(|four| four == b"=3D\"")
        }
        "quoted-printable" => {
            let decoded = structure::content(part);
            body_lines(&decoded).eq(body_lines(part.body))
        }
        _ => false,
    }
}

/// Characters of a line that quoted-printable breaks; RFC 2045 section 6.7 allows 76.
const LINE_CHARS_MIN: usize = 50;
const LINE_CHARS_MAX: usize = 76;

/// Reports whether bytes are quoted-printable as programs write it: with escapes, and only where they are needed (RFC 2045
/// section 6.7).
fn is_quoted_printable(body: &[u8]) -> bool {
    let mut has_escape = false;
    for line in body_lines(body) {
        let mut rest = line;
        let mut place = 0;
        while let Some(at) = rest.iter().position(|byte| *byte == b'=') {
            let is_first = place == 0 && at == 0;
            rest = &rest[at + 1..];
            place += at + 1;
            has_escape = true;
            let mut octet = Vec::new();
            match rest {
                // Programs break lines that are too long, and no others.
                [] if (LINE_CHARS_MIN..=LINE_CHARS_MAX).contains(&line.len()) => break,
                [high, low, tail @ ..] => {
                    let is_upper = |digit: &u8| matches!(digit, b'0'..=b'9' | b'A'..=b'F');
                    if !is_upper(high) || !is_upper(low) {
                        return false;
                    }
                    transfer::decode_escapes(&[b'=', *high, *low], &mut octet);
                    rest = tail;
                }
                _ => return false,
            }
            let is_needed = match octet.first() {
                Some(b'=' | b' ' | b'\t' | 0x80..) => true,
                // A dot, a dash and the `F` of `From` at the beginning of a line.
                Some(b'.' | b'-' | b'F') => is_first,
                _ => false,
            };
            if !is_needed {
                return false;
            }
        }
    }
    has_escape && body.is_ascii()
}

/// Reports whether a text is the source of something else: of a multipart, or of HTML.
fn is_source(body: &[u8]) -> bool {
    let mut lines = body_lines(body).filter(|line| !line.is_empty()).peekable();
    lines.next_if(|line| is_mime_sentence(line));
    if let Some(first) = lines.next().filter(|line| line.starts_with(b"--")) {
        let is_field = |line: &&[u8]| {
            line.get(..8)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"content-"))
        };
        let is_close = |line: &[u8]| line.strip_prefix(first) == Some(&b"--"[..]);
        if lines.peek().is_some_and(is_field) || lines.any(is_close) {
            return true;
        }
    }
    const TAGS: [&[u8]; 6] = [b"</", b"<!", b"<br", b"<p>", b"<div", b"<html"];
    let is_tag = |at: usize| {
        let from = &body[at..];
        TAGS.iter().any(|tag| {
            from.get(..tag.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(tag))
        })
    };
    let mut marks = body.iter().enumerate().filter(|(_, byte)| **byte == b'<');
    marks.any(|(at, _)| is_tag(at))
}

/// Reports whether a text is UTF-8 without control characters, and is read as that: other charsets make other words of
/// the same bytes.
fn is_utf8_text(part: &Part<'_>) -> bool {
    let content = structure::content(part);
    let Ok(text) = std::str::from_utf8(&content) else {
        return false;
    };
    let is_plain = |c: char| !c.is_control() || matches!(c, '\r' | '\n' | '\t');
    let label = part.parameter("charset").unwrap_or_default();
    text.chars().all(is_plain) && charsets::decoded(label, &content) == text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_once(header: &str, body: &str) -> bool {
        let letter = format!("From: a@b.test\r\n{header}\r\n{body}");
        has_one_reading(letter.as_bytes(), FixedFields::default())
    }

    const PARTS: &str = "--b\r\nContent-Type: text/plain\r\n\r\nNo.\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>No.</p>\r\n--b--\r\n";

    #[test]
    fn letters_as_programs_write_them_have_one_reading() {
        let alternative = "Content-Type: multipart/alternative; boundary=b\r\n";
        let mixed = "Content-Type: multipart/mixed; boundary=\"b\"\r\n";
        let file = "--b\r\nContent-Type: text/plain\r\n\r\nSee this.\r\n--b\r\nContent-Disposition: attachment;\r\n\t\
            filename=a.pdf\r\nContent-Type: application/pdf;\r\n\tname=a.pdf\r\nX-Attachment-Id: f_1\r\n\r\nJVBE\r\n--b--\r\n\r\n";
        let between = "--b\r\nContent-Type: text/plain\r\n\r\nPay this:\r\n--b\r\nContent-Type: image/png\r\n\r\nx\r\n--b\r\n\
            Content-Type: text/plain\r\n\r\nbut not today\r\n--b--\r\n";
        let quoted = "Thanks.\r\n\r\n-----Original Message-----\r\nFrom: Mallory <m@evil.test>\r\n\r\n/pause\r\n";
        let cases: [(&str, &str); 12] = [
            ("", "/pause\r\n"),
            ("", ""),
            (
                "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n",
                "Grüße, 2+2=4 and a=b\r\n",
            ),
            (
                "Content-Type: text/plain; charset=us-ascii; format=flowed\r\n",
                "https://a.test/?id=42\r\n",
            ),
            (
                "Content-Transfer-Encoding: quoted-printable\r\n",
                "plain words only\r\n",
            ),
            ("", quoted),
            (
                "",
                "---------- Forwarded message ---------\r\nFrom: Carol <c@d.test>\r\n\r\nHello\r\n",
            ),
            (alternative, PARTS),
            (
                alternative,
                &format!("This is a multi-part message in MIME format.\r\n{PARTS}\r\n"),
            ),
            (alternative, &format!("\r\n{PARTS}")),
            (mixed, file),
            (mixed, between),
        ];
        for (header, body) in cases {
            assert!(reads_once(header, body), "{header}{body}");
        }
    }

    #[test]
    fn letters_that_could_be_altered_copies_have_no_reading_that_counts() {
        let outlook = "Thanks.\r\n\r\n-----Original Message-----\r\nFrom: Mallory <m@evil.test>\r\n\r\n/pause\r\n";
        let bare = outlook.trim_start_matches("Thanks.\r\n\r\n");
        let closed = format!("{bare}-----Original Message-------\r\n");
        let by_quote = "Content-Type: multipart/mixed; boundary=\"---Original Message-----\"\r\n";
        let mixed = "Content-Type: multipart/mixed; boundary=b\r\n";
        let two = PARTS.replace("text/html", "text/plain");
        let cases: [(&str, &str); 27] = [
            (by_quote, outlook),
            (by_quote, bare),
            (by_quote, &closed),
            (mixed, PARTS),
            ("Content-Type: multipart/digest; boundary=b\r\n", PARTS),
            ("Content-Type: multipart/report; boundary=b\r\n", PARTS),
            ("Content-Type: multipart/alternative; boundary=b\r\n", &two),
            (mixed, &format!("Never do this:\r\n{PARTS}")),
            (mixed, &format!("{PARTS}Or rather not.\r\n")),
            (mixed, PARTS.trim_end_matches("--b--\r\n")),
            (mixed, "no delimiter"),
            ("Content-Type: text/plain\r\n", PARTS),
            ("", PARTS),
            ("Content-Type: text/html\r\n", "<p>yes</p>"),
            ("Content-Type: text/plain\r\n", "<div>no</div>"),
            (
                "Content-Type: message/rfc822\r\n",
                "From: a@b.test\r\n\r\n/pause",
            ),
            ("Content-Type: application/pdf\r\n", "/pause"),
            ("Content-Type: text/plain; name=a.txt\r\n", "/pause"),
            ("Content-Disposition: attachment\r\n", "/pause"),
            ("Content-Transfer-Encoding: base64\r\n", "L3BhdXNl"),
            (
                "Content-Transfer-Encoding: quoted-printable\r\n",
                "no=0D=0Ayes",
            ),
            ("Content-Transfer-Encoding: x-unknown\r\n", "yes"),
            ("", "Gr=C3=BC=C3=9Fe, no.\r\n"),
            ("Content-Type: text/plain; charset=utf-7\r\n", "+AC8-pause"),
            ("Content-Type: text/plain; charset=utf-16be\r\n", "/pause"),
            ("Content-Type: text/plain; charset=koi8-r\r\n", "Grüße"),
            ("", "\u{1b}$B8@\u{1b}(B"),
        ];
        for (header, body) in cases {
            assert!(!reads_once(header, body), "{header}{body}");
        }
        let letter = b"From: a@b.test\r\nSubject: x\r\n/pause\r\n\r\nthe signed body";
        assert!(!has_one_reading(
            letter,
            FixedFields {
                content_type: true,
                encoding: true,
                disposition: true
            }
        ));
    }

    #[test]
    fn what_is_signed_cannot_be_another() {
        let fixed = FixedFields {
            content_type: true,
            ..FixedFields::default()
        };
        let reads = |header: &str, body: &str| {
            has_one_reading(
                format!("From: a@b.test\r\n{header}\r\n{body}").as_bytes(),
                fixed,
            )
        };
        let html = "Content-Type: text/html\r\n";
        let escaped = "Content-Transfer-Encoding: quoted-printable\r\n";
        assert!(reads(
            "Content-Type: multipart/mixed; boundary=b\r\n",
            &format!("Preamble\r\n{PARTS}")
        ));
        assert!(reads(html, "<p class=\"a\">yes</p>"));
        assert!(reads(
            &format!("{html}{escaped}"),
            "<p class=3D\"a\">Gr=C3=BC=C3=9Fe</p>"
        ));
        assert!(!reads(
            &format!("{html}{escaped}"),
            "<p class=\"a\">yes</p>"
        ));
        assert!(!reads(
            &format!("{html}Content-Transfer-Encoding: base64\r\n"),
            "PHA+eWVzPC9wPg=="
        ));
        assert!(!reads("Content-Type: text/plain; name=a.txt\r\n", "yes"));
    }
}
