//! The frozen bytes of one mail of ours.
//!
//! Pure: Message-ID, Date and MIME boundaries come from the arguments, so a resend is byte for byte
//! the first copy. lettre builds the MIME parts. The header is written here: lettre's builder asks
//! the clock for a Date that it cannot read, leaves text that looks like an encoded word as it is,
//! and passes a bare CR of the body through.

use super::headers::fields::one_line;
use super::headers::filename::UniqueFilenames;
use super::headers::wire;
use super::text::dialect::{LetterFooter, footed_html, footed_plain};
use super::transfer::plain_lines;
use crate::domain::{Address, Timestamp, sha256_hex};
use lettre::message::header::{
    ContentDisposition, ContentTransferEncoding, ContentType, Header, HeaderName, HeaderValue,
};
use lettre::message::{Body, MultiPart, SinglePart};

/// Kind of automatic mail by RFC 3834 section 5. Every mail of the engine is one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Automatic {
    /// An answer to a letter.
    Replied,
    /// Written on a schedule or on the engine's own initiative.
    Generated,
}

/// Header field of every mail of ours, with its loop token (see [`crate::domain::LoopKey`]).
pub const LOOP_FIELD: &str = "Attache-Loop";

/// Automatic responses that recipients' servers are asked to suppress (MS-OXCMAIL section
/// 2.1.3.2.20). `All` would include `NDR`, the bounces by which a failed delivery is known.
const SUPPRESSED: &str = "DR, RN, NRN, OOF, AutoReply";

/// A file attached to a mail. `message/*` and `multipart/*` are sent as `application/octet-stream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingAttachment {
    pub filename: String,
    pub content_type: String,
    pub bytes: Vec<u8>,
}

/// A calendar part of a mail. Programs act on it where it is another form of the text; a file they only keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingCalendar {
    /// Method of RFC 5546, such as `REPLY`: letters only.
    pub method: &'static str,
    /// iCalendar; lines end in CRLF.
    pub text: String,
}

/// Content of a mail before it is composed. There is no Bcc: blind recipients belong to the
/// envelope only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Without angle brackets; see [`super::new_message_id`].
    pub message_id: String,
    pub date: Timestamp,
    /// Display name; may be empty.
    pub from_name: String,
    pub from: Address,
    pub to: Vec<Address>,
    pub cc: Vec<Address>,
    pub subject: String,
    /// Ids without brackets. Ids that are not legal in a header are left out: they came from a
    /// stranger's mail.
    pub in_reply_to: Option<String>,
    pub references: Vec<String>,
    pub automatic: Automatic,
    /// Sealed loop token, the value of [`LOOP_FIELD`].
    pub loop_token: Option<String>,
    pub body_markdown: String,
    /// What is added below the text.
    pub footer: LetterFooter,
    /// Shown by calendar programs beside the text (RFC 6047 section 2.4).
    pub calendar: Option<OutgoingCalendar>,
    pub attachments: Vec<OutgoingAttachment>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    #[error("name at least one recipient")]
    NoRecipient,
    #[error("`{0}` cannot be a Message-ID")]
    BadMessageId(String),
    #[error("the text has {bytes} bytes, the limit is {max}")]
    TextTooLarge { bytes: usize, max: usize },
    /// A bug of ours: the bytes break a line rule and must not be sent.
    #[error("the composed bytes break the line rules of RFC 5322 section 2.1.1")]
    Malformed,
}

/// Longest text of one mail, in bytes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
const SUBJECT_CHARS_MAX: usize = 900;
const NAME_CHARS_MAX: usize = 200;
const ID_CHARS_MAX: usize = 900;
const LINE_BYTES_MAX: usize = 998;

/// Composes the bytes of a mail as SMTP sends them, before dot-stuffing.
pub fn compose(mail: &Outgoing) -> Result<Vec<u8>, ComposeError> {
    if mail.to.is_empty() && mail.cc.is_empty() {
        return Err(ComposeError::NoRecipient);
    }
    if mail.body_markdown.len() > TEXT_BYTES_MAX {
        let bytes = mail.body_markdown.len();
        return Err(ComposeError::TextTooLarge {
            bytes,
            max: TEXT_BYTES_MAX,
        });
    }
    let mut bytes = headers(mail)?.into_bytes();
    bytes.extend_from_slice(&content(mail).formatted());
    if !keeps_line_rules(&bytes) {
        return Err(ComposeError::Malformed);
    }
    Ok(bytes)
}

fn headers(mail: &Outgoing) -> Result<String, ComposeError> {
    if !is_safe_id(&mail.message_id) {
        return Err(ComposeError::BadMessageId(one_line(&mail.message_id)));
    }
    let cut = |text: &str, max| one_line(text).chars().take(max).collect::<String>();
    let bracketed = |id: &String| is_safe_id(id).then(|| format!("<{id}>"));
    let references: Vec<String> = mail.references.iter().filter_map(bracketed).collect();
    let automatic = match mail.automatic {
        Automatic::Replied => "auto-replied",
        Automatic::Generated => "auto-generated",
    };
    let fields = [
        (
            "Date",
            mail.date
                .to_utc()
                .format("%a, %d %b %Y %H:%M:%S +0000")
                .to_string(),
        ),
        (
            "From",
            wire::mailbox(&cut(&mail.from_name, NAME_CHARS_MAX), &mail.from),
        ),
        ("To", wire::addresses(&mail.to)),
        ("Cc", wire::addresses(&mail.cc)),
        (
            "Subject",
            wire::unstructured(&cut(&mail.subject, SUBJECT_CHARS_MAX), "Subject".len()),
        ),
        ("Message-ID", format!("<{}>", mail.message_id)),
        (
            "In-Reply-To",
            mail.in_reply_to
                .as_ref()
                .and_then(bracketed)
                .unwrap_or_default(),
        ),
        // One id per line: no fold falls into an id, no line grows too long.
        ("References", references.join("\r\n ")),
        ("Auto-Submitted", automatic.to_owned()),
        ("X-Auto-Response-Suppress", SUPPRESSED.to_owned()),
        (LOOP_FIELD, mail.loop_token.clone().unwrap_or_default()),
        ("MIME-Version", "1.0".to_owned()),
    ];
    let written = fields
        .iter()
        .filter(|(name, value)| !value.is_empty() || *name == "Subject");
    Ok(written
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect())
}

/// Reports whether an id between angle brackets ends neither them, nor the line, nor the header.
pub(super) fn is_safe_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= ID_CHARS_MAX
        && id
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>')
}

fn content(mail: &Outgoing) -> MultiPart {
    let text = plain_lines(&mail.body_markdown);
    let plain = footed_plain(&text, &mail.footer);
    let html = footed_html(&text, &mail.footer);
    let boundary = boundary(mail);
    let alternative = MultiPart::alternative()
        .boundary(format!("alt-{boundary}"))
        .singlepart(text_part(&plain, ContentType::TEXT_PLAIN))
        .singlepart(text_part(&html, ContentType::TEXT_HTML));
    let alternative = match &mail.calendar {
        Some(calendar) => alternative.singlepart(calendar_part(calendar)),
        None => alternative,
    };
    if mail.attachments.is_empty() {
        return alternative;
    }
    let mut names = UniqueFilenames::default();
    let mixed = MultiPart::mixed()
        .boundary(format!("mix-{boundary}"))
        .multipart(alternative);
    mail.attachments.iter().fold(mixed, |mixed, file| {
        let filename = names.give(&file.filename, "attachment.bin");
        mixed.singlepart(attachment_part(file, &filename))
    })
}

/// Returns a boundary derived from everything between the boundaries, so that no text can contain
/// its own boundary.
fn boundary(mail: &Outgoing) -> String {
    let (signature, original) = (&mail.footer.signature, &mail.footer.original);
    let mut written = vec![mail.message_id.as_bytes(), mail.body_markdown.as_bytes()];
    written.extend(signature.iter().map(String::as_bytes));
    written.extend(original.iter().map(|original| original.text.as_bytes()));
    let calendar = mail.calendar.iter().map(|part| part.text.as_bytes());
    let files = mail.attachments.iter().map(|file| file.bytes.as_slice());
    let parts = written.into_iter().chain(calendar).chain(files);
    let mut digest = sha256_hex(&parts.collect::<Vec<_>>());
    digest.truncate(32);
    digest
}

pub(super) fn text_part(text: &str, content_type: ContentType) -> SinglePart {
    SinglePart::builder()
        .header(content_type)
        .body(quoted_printable(text))
}

fn calendar_part(calendar: &OutgoingCalendar) -> SinglePart {
    let declared = format!("text/calendar; method={}; charset=utf-8", calendar.method);
    // A method of letters makes a type that can always be read.
    let content_type = ContentType::parse(&declared).unwrap_or(ContentType::TEXT_PLAIN);
    text_part(&calendar.text.replace("\r\n", "\n"), content_type)
}

/// Encodes as quoted-printable, whatever the text: pure ASCII of short lines even after relays that
/// rewrap.
fn quoted_printable(text: &str) -> Body {
    let encoding = ContentTransferEncoding::QuotedPrintable;
    let encoded = match Body::new_with_encoding(text.replace('\n', "\r\n"), encoding) {
        Ok(body) => body.into_vec(),
        // lettre refuses only 7bit and 8bit, never this encoding.
        Err(unencoded) => unencoded,
    };
    // A lone dot ends the data at a relay without dot-stuffing (RFC 5321 section 4.5.2).
    let lines = encoded.split_inclusive(|b| *b == b'\n');
    let safe = lines.flat_map(|line| {
        if line.trim_ascii_end() == b"." {
            &b"=2E\r\n"[..]
        } else {
            line
        }
    });
    Body::dangerous_pre_encoded(safe.copied().collect(), encoding)
}

pub(super) fn attachment_part(file: &OutgoingAttachment, filename: &str) -> SinglePart {
    let encoding = ContentTransferEncoding::Base64;
    // As above: base64 is never refused.
    let body = Body::new_with_encoding(file.bytes.clone(), encoding)
        .unwrap_or_else(|unencoded| Body::dangerous_pre_encoded(unencoded, encoding));
    SinglePart::builder()
        .header(NamedType::from_declared(&file.content_type, filename))
        .header(ContentDisposition::attachment(filename))
        .body(body)
}

/// `Content-Type` with the name of the file. Programs that do not read the name of `Content-Disposition` where that is written by
/// RFC 2231, as older ones of Microsoft, read this one, which is written by RFC 2047 for them.
#[derive(Clone)]
struct NamedType(String);

impl NamedType {
    fn from_declared(declared: &str, filename: &str) -> Self {
        let name = wire::unstructured(filename, "name".len());
        let name = name.replace('\\', "\\\\").replace('"', "\\\"");
        Self(format!("{};\r\n name=\"{name}\"", content_type(declared)))
    }
}

impl Header for NamedType {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Content-Type")
    }
    fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self(text.to_owned()))
    }
    fn display(&self) -> HeaderValue {
        HeaderValue::dangerous_new_pre_encoded(Self::name(), self.0.clone(), self.0.clone())
    }
}

/// Returns the media type of an attachment: RFC 2046 section 5.2.1 forbids base64 for messages, and
/// a receiver would parse a multipart.
fn content_type(declared: &str) -> String {
    let mut lower = declared.trim().to_ascii_lowercase();
    if lower.contains("name=") {
        lower.truncate(lower.find(';').unwrap_or(lower.len()));
    }
    let is_plain = lower.len() <= 100 && lower.bytes().all(|b| b.is_ascii_graphic());
    let is_container = lower.starts_with("message/") || lower.starts_with("multipart/");
    match is_plain && !is_container && ContentType::parse(&lower).is_ok() {
        true => lower,
        false => OCTETS.to_owned(),
    }
}

const OCTETS: &str = "application/octet-stream";

/// Reports whether the bytes keep RFC 5322 sections 2.1.1 and 2.3: lines end in CRLF, CR and LF
/// stand nowhere else, no line is longer than 998.
pub(super) fn keeps_line_rules(bytes: &[u8]) -> bool {
    let Some(all) = bytes.strip_suffix(b"\r\n") else {
        return false;
    };
    let mut lines = all.split(|b| *b == b'\n').peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        let text = if is_last {
            Some(line)
        } else {
            line.strip_suffix(b"\r")
        };
        let is_legal = |text: &[u8]| {
            text.len() <= LINE_BYTES_MAX && !text.contains(&b'\r') && !text.contains(&0)
        };
        if !text.is_some_and(is_legal) {
            return false;
        }
    }
    true
}
