//! HTML and links of letters, made ready to be looked at. Pure.
//!
//! The wall is the policy of the frame (`reply::framed`), not this file: nobody tells good markup from bad by rewriting it.
//! Here only what that policy does not govern is taken out: elements that resolve names or open connections ahead of any
//! request (`link`, and frames and objects, for which Chromium connects before the policy stops their requests), and those
//! that lead elsewhere or move the base (`meta`, `base`).

use crate::domain::Attachment;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Most bytes of HTML that a frame shows.
const HTML_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most bytes of one picture that is put in place, and of all.
const PICTURE_BYTES_MAX: usize = 1024 * 1024;
const PICTURES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest link that is listed, in characters.
const LINK_CHARS_MAX: usize = 2_000;
/// Elements that are taken out, with what they would do without any request of ours.
const TAKEN_OUT: &[&str] = &[
    "link",
    "meta",
    "base",
    "iframe",
    "frame",
    "frameset",
    "object",
    "embed",
    "applet",
    "portal",
    "fencedframe",
];

/// Returns the HTML of a letter as a page for its frame, with the pictures that came with it in place.
pub(super) fn page(html: &str, attachments: &[Attachment]) -> Vec<u8> {
    let mut end = html.len().min(HTML_BYTES_MAX);
    while !html.is_char_boundary(end) {
        end -= 1;
    }
    let html = without(&html[..end]);
    let mut page = String::from("<!doctype html><meta charset=\"utf-8\">\n");
    page.push_str(&with_pictures(&html, attachments));
    page.into_bytes()
}

/// Takes the tags of some elements out, wherever a browser could read one: in a comment or a style, too.
fn without(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest[1..].trim_start_matches('/');
        let is_taken_out = TAKEN_OUT.iter().any(|taken| {
            let is_named = name
                .get(..taken.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(taken));
            let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '>' | '\0');
            is_named && name[taken.len()..].chars().next().is_none_or(ends)
        });
        // What remains of the tag becomes text.
        out.push_str(if is_taken_out { "&lt;" } else { "<" });
        rest = &rest[1..];
    }
    out.push_str(rest);
    out
}

/// Puts the pictures that came with a letter in the place of their `cid:` addresses (RFC 2392): the frame has no cookie and
/// could not ask for them.
fn with_pictures(html: &str, attachments: &[Attachment]) -> String {
    let mut out = String::with_capacity(html.len());
    let (mut rest, mut room) = (html, PICTURES_BYTES_MAX);
    while let Some(at) = rest
        .as_bytes()
        .windows(4)
        .position(|four| four.eq_ignore_ascii_case(b"cid:"))
    {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = &rest[4..];
        let end = named
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '>' | ')'))
            .unwrap_or(named.len());
        let picture = attachments
            .iter()
            .filter(|one| one.content_id.as_deref() == Some(&named[..end]))
            .find_map(|one| Some((kind(&one.bytes)?, &one.bytes)))
            .filter(|(_, bytes)| bytes.len() <= PICTURE_BYTES_MAX.min(room));
        match picture {
            Some((kind, bytes)) => {
                room -= bytes.len();
                out.push_str("data:");
                out.push_str(kind);
                out.push_str(";base64,");
                BASE64_STANDARD.encode_string(bytes, &mut out);
                rest = &named[end..];
            }
            None => {
                out.push_str(&rest[..4]);
                rest = named;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns the media type of a picture by its bytes; `None`: it is no picture that browsers show without running anything.
fn kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// Returns the addresses in texts, each once, in order.
pub(super) fn links(texts: impl Iterator<Item = String>, max: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        let words =
            text.split(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '(' | ')'));
        for word in words {
            let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', ']']);
            let lower = word.get(..8).unwrap_or(word).to_ascii_lowercase();
            let is_link = ["http://", "https://", "mailto:", "ftp://"]
                .iter()
                .any(|scheme| lower.starts_with(scheme));
            let word = crate::text::truncated(word, LINK_CHARS_MAX);
            if is_link && found.len() < max && !found.contains(&word) {
                found.push(word);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_no_policy_governs_become_text() {
        for (html, shown) in [
            (
                "a<link rel=preconnect href=//x.test>b",
                "a&lt;link rel=preconnect href=//x.test>b",
            ),
            ("<META/http-equiv=refresh>", "&lt;META/http-equiv=refresh>"),
            ("<base\thref=x>", "&lt;base\thref=x>"),
            ("</link >", "&lt;/link >"),
            ("<!--<link>-->", "<!--&lt;link>-->"),
            (
                "<li>nk</li><metal><basefont>",
                "<li>nk</li><metal><basefont>",
            ),
            ("<link", "&lt;link"),
            ("<iframe src=x><frame>", "&lt;iframe src=x>&lt;frame>"),
            ("1 < 2 <", "1 < 2 <"),
        ] {
            assert_eq!(without(html), shown);
        }
    }

    #[test]
    fn pictures_of_the_letter_are_put_in_place_and_nothing_else_is() {
        let file = |id: &str, bytes: &[u8]| Attachment {
            filename: "a".to_owned(),
            declared_name: String::new(),
            content_type: "image/png".to_owned(),
            content_id: Some(id.to_owned()),
            bytes: bytes.to_vec(),
            range: None,
        };
        let files = [file("a@x", b"\x89PNG\r\n"), file("b@x", b"<svg onload=1>")];
        let html = "<img src=\"CID:a@x\"><img src=cid:b@x><img src='cid:c@x'> é cid:";
        assert_eq!(
            with_pictures(html, &files),
            "<img src=\"data:image/png;base64,iVBORw0K\"><img src=cid:b@x><img src='cid:c@x'> é cid:"
        );
    }

    #[test]
    fn links_are_listed_once_and_without_the_stop_behind_them() {
        let texts = [
            "See https://a.test/x. <HTTPS://b.test> javascript:alert(1)",
            "(mailto:c@d.test) https://a.test/x",
        ];
        let found = links(texts.map(str::to_owned).into_iter(), 10);
        assert_eq!(
            found,
            ["https://a.test/x", "HTTPS://b.test", "mailto:c@d.test"]
        );
    }
}
