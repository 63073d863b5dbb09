//! Bytes for a letter of the past of which another program kept the words and not the letter.
//!
//! Pure, so that the same row makes the same letter again and it is known. Such a letter is never sent: it says in its header
//! what it was made from.

use super::compose::{
    ComposeError, OutgoingAttachment, attachment_part, is_safe_id, keeps_line_rules, text_part,
};
use super::headers::fields::one_line;
use super::headers::wire;
use super::transfer::plain_lines;
use crate::domain::{Address, Timestamp, sha256_hex};
use lettre::message::header::ContentType;
use lettre::message::{MultiPart, SinglePart};

const TEXT_BYTES_MAX: usize = 1024 * 1024;
const SUBJECT_CHARS_MAX: usize = 900;
const NAME_CHARS_MAX: usize = 200;

/// A letter as another program's row tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryLetter {
    /// Without angle brackets.
    pub message_id: String,
    pub date: Timestamp,
    pub from: (String, Address),
    pub to: Vec<Address>,
    pub cc: Vec<Address>,
    pub subject: String,
    pub in_reply_to: Option<String>,
    /// Ids without brackets; ids that are not legal in a header are left out.
    pub references: Vec<String>,
    pub text: String,
    pub html: Option<String>,
    pub attachments: Vec<OutgoingAttachment>,
    /// Where its words come from, for its `Comments` field.
    pub source: String,
}

/// Composes the bytes.
pub fn compose_history(letter: &HistoryLetter) -> Result<Vec<u8>, ComposeError> {
    let bytes = letter.text.len() + letter.html.as_ref().map_or(0, String::len);
    if bytes > TEXT_BYTES_MAX {
        let max = TEXT_BYTES_MAX;
        return Err(ComposeError::TextTooLarge { bytes, max });
    }
    if !is_safe_id(&letter.message_id) {
        return Err(ComposeError::BadMessageId(one_line(&letter.message_id)));
    }
    let mut bytes = headers(letter).into_bytes();
    bytes.extend_from_slice(&content(letter));
    match keeps_line_rules(&bytes) {
        true => Ok(bytes),
        false => Err(ComposeError::Malformed),
    }
}

fn headers(letter: &HistoryLetter) -> String {
    let cut = |text: &str, max| one_line(text).chars().take(max).collect::<String>();
    let bracketed = |id: &String| is_safe_id(id).then(|| format!("<{id}>"));
    let references: Vec<String> = letter.references.iter().filter_map(bracketed).collect();
    let words =
        |name: &str, text: &str| wire::unstructured(&cut(text, SUBJECT_CHARS_MAX), name.len());
    let (name, from) = &letter.from;
    let date = letter.date.to_utc();
    let fields = [
        (
            "Date",
            date.format("%a, %d %b %Y %H:%M:%S +0000").to_string(),
        ),
        ("From", wire::mailbox(&cut(name, NAME_CHARS_MAX), from)),
        ("To", wire::addresses(&letter.to)),
        ("Cc", wire::addresses(&letter.cc)),
        ("Subject", words("Subject", &letter.subject)),
        ("Message-ID", format!("<{}>", letter.message_id)),
        (
            "In-Reply-To",
            letter
                .in_reply_to
                .as_ref()
                .and_then(bracketed)
                .unwrap_or_default(),
        ),
        ("References", references.join("\r\n ")),
        ("Comments", words("Comments", &letter.source)),
        ("MIME-Version", "1.0".to_owned()),
    ];
    let written = fields
        .iter()
        .filter(|(name, value)| !value.is_empty() || *name == "Subject");
    written
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect()
}

fn content(letter: &HistoryLetter) -> Vec<u8> {
    let plain = text_part(&plain_lines(&letter.text), ContentType::TEXT_PLAIN);
    let html = letter.html.as_deref().map(plain_lines);
    let html = html.map(|html| text_part(&html, ContentType::TEXT_HTML));
    if html.is_none() && letter.attachments.is_empty() {
        return plain.formatted();
    }
    let boundary = boundary(letter);
    let body = match html {
        Some(html) => MultiPart::alternative()
            .boundary(format!("alt-{boundary}"))
            .singlepart(plain)
            .singlepart(html),
        None => MultiPart::mixed()
            .boundary(format!("alt-{boundary}"))
            .singlepart(plain),
    };
    if letter.attachments.is_empty() {
        return body.formatted();
    }
    let mixed = MultiPart::mixed()
        .boundary(format!("mix-{boundary}"))
        .multipart(body);
    let part = |file: &OutgoingAttachment| -> SinglePart { attachment_part(file, &file.filename) };
    let files = letter.attachments.iter().map(part);
    files.fold(mixed, MultiPart::singlepart).formatted()
}

/// Returns a boundary derived from everything between the boundaries, so that no text can contain it.
fn boundary(letter: &HistoryLetter) -> String {
    let words = [
        letter.message_id.as_bytes(),
        letter.text.as_bytes(),
        letter.html.as_deref().unwrap_or_default().as_bytes(),
    ];
    let files = letter.attachments.iter().map(|file| file.bytes.as_slice());
    let mut digest = sha256_hex(&words.into_iter().chain(files).collect::<Vec<_>>());
    digest.truncate(32);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mime::{ParseLimits, parse};

    fn letter() -> HistoryLetter {
        HistoryLetter {
            message_id: "a1@guest.example".to_owned(),
            date: Timestamp::from_millis(1_700_000_000_000),
            from: (
                "Bob \"B\"".to_owned(),
                Address::parse("bob@guest.example").expect("an address"),
            ),
            to: vec![Address::parse("ada@engine.test").expect("an address")],
            cc: Vec::new(),
            subject: "Zimmer für\r\nBcc: x@y.test".to_owned(),
            in_reply_to: Some("a0@guest.example>\r\nX: y".to_owned()),
            references: vec!["a0@guest.example".to_owned()],
            text: "Grüße\n.\nBob".to_owned(),
            html: Some("<p>Grüße</p>".to_owned()),
            attachments: vec![OutgoingAttachment {
                filename: "plan.txt".to_owned(),
                content_type: "text/plain".to_owned(),
                bytes: b"seven".to_vec(),
            }],
            source: "row 1".to_owned(),
        }
    }

    #[test]
    fn a_letter_is_read_back_as_it_was_given_and_the_same_twice() {
        let bytes = compose_history(&letter()).expect("bytes");
        assert_eq!(Ok(&bytes), compose_history(&letter()).as_ref());
        let email = parse(&bytes, &ParseLimits::default()).expect("a letter");
        assert_eq!(email.message_id.as_deref(), Some("a1@guest.example"));
        assert_eq!(email.subject, "Zimmer für  Bcc: x@y.test");
        assert_eq!(email.text.trim_end(), "Grüße\n.\nBob");
        assert_eq!(email.references, ["a0@guest.example"]);
        assert!(email.in_reply_to.is_empty() && email.cc.is_empty());
        assert_eq!(email.attachments[0].bytes, b"seven");
        assert!(email.html.is_some());
    }

    #[test]
    fn a_letter_without_an_id_or_with_too_many_words_is_refused() {
        let mut nameless = letter();
        nameless.message_id.clear();
        assert!(matches!(
            compose_history(&nameless),
            Err(ComposeError::BadMessageId(_))
        ));
        let mut long = letter();
        long.text = "x".repeat(TEXT_BYTES_MAX + 1);
        assert!(matches!(
            compose_history(&long),
            Err(ComposeError::TextTooLarge { .. })
        ));
    }
}
