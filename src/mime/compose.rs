//! The frozen bytes of one mail of ours.
//!
//! Pure: Message-ID, Date and MIME boundaries come from the arguments, so a resend is byte for byte the first copy.
//! lettre encodes values and bodies; what stands on which line is decided here, because its builder asks the clock
//! for a missing Date and passes a bare CR of the body through.

use super::fields::one_line;
use super::filename::Names;
use super::markdown;
use super::transfer::plain_lines;
use crate::domain::{Address, Timestamp};
use lettre::message::header::{
    Cc, ContentDisposition, ContentTransferEncoding, ContentType, From, HeaderName, HeaderValue, Headers, To,
};
use lettre::message::{Body, Mailbox, Mailboxes, MultiPart, SinglePart};
use sha2::{Digest, Sha256};

/// Why we write, in the words of RFC 3834 section 5. Every mail of the engine is one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Automatic {
    /// An answer to somebody's mail.
    Replied,
    /// Written on a schedule or on the engine's own initiative.
    Generated,
}

/// A file that goes with a mail. `message/*` and `multipart/*` are sent as `application/octet-stream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingAttachment {
    pub filename: String,
    pub content_type: String,
    pub bytes: Vec<u8>,
}

/// One mail before it is bytes. There is no Bcc: blind recipients belong to the envelope only.
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
    /// Ids without brackets. Those that cannot stand in a header are left out: they came from a stranger's mail.
    pub in_reply_to: Option<String>,
    pub references: Vec<String>,
    pub automatic: Automatic,
    pub body_markdown: String,
    pub attachments: Vec<OutgoingAttachment>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    #[error("name at least one recipient")]
    NoRecipient,
    #[error("`{0}` cannot be a Message-ID")]
    BadMessageId(String),
    #[error("`{0}` cannot be written as an address")]
    BadAddress(String),
    #[error("the text has {bytes} bytes, the limit is {max}")]
    TextTooLarge { bytes: usize, max: usize },
    /// A fault of ours: the bytes broke a rule of the wire and must not be sent.
    #[error("the composed bytes break the line rules of RFC 5322 section 2.1.1")]
    Malformed,
}

/// Longest text of one mail.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// One unfoldable word of this length still fits on a line of 998.
const SUBJECT_CHARS_MAX: usize = 900;
const NAME_CHARS_MAX: usize = 200;
const ID_CHARS_MAX: usize = 900;
const LINE_BYTES_MAX: usize = 998;

/// Writes a mail as it goes over the wire, before dot-stuffing.
pub fn compose(mail: &Outgoing) -> Result<Vec<u8>, ComposeError> {
    if mail.to.is_empty() && mail.cc.is_empty() {
        return Err(ComposeError::NoRecipient);
    }
    if mail.body_markdown.len() > TEXT_BYTES_MAX {
        let bytes = mail.body_markdown.len();
        return Err(ComposeError::TextTooLarge { bytes, max: TEXT_BYTES_MAX });
    }
    let mut bytes = headers(mail)?.to_string().into_bytes();
    bytes.extend_from_slice(&content(mail).formatted());
    if !keeps_line_rules(&bytes) {
        return Err(ComposeError::Malformed);
    }
    Ok(bytes)
}

fn headers(mail: &Outgoing) -> Result<Headers, ComposeError> {
    if !is_safe_id(&mail.message_id) {
        return Err(ComposeError::BadMessageId(one_line(&mail.message_id)));
    }
    let mut headers = Headers::new();
    set(&mut headers, "Date", mail.date.to_utc().format("%a, %d %b %Y %H:%M:%S +0000").to_string());
    headers.set(From::from(Mailboxes::from(mailbox(&mail.from, &mail.from_name)?)));
    if !mail.to.is_empty() {
        headers.set(To::from(mailboxes(&mail.to)?));
    }
    if !mail.cc.is_empty() {
        headers.set(Cc::from(mailboxes(&mail.cc)?));
    }
    let subject: String = one_line(&mail.subject).chars().take(SUBJECT_CHARS_MAX).collect();
    headers.insert_raw(HeaderValue::new(HeaderName::new_from_ascii_str("Subject"), subject));
    set(&mut headers, "Message-ID", format!("<{}>", mail.message_id));
    if let Some(id) = mail.in_reply_to.as_deref().filter(|id| is_safe_id(id)) {
        set(&mut headers, "In-Reply-To", format!("<{id}>"));
    }
    let references: Vec<String> =
        mail.references.iter().filter(|id| is_safe_id(id)).map(|id| format!("<{id}>")).collect();
    if !references.is_empty() {
        // One id per line: no fold can fall into an id, no line can grow too long.
        set(&mut headers, "References", references.join("\r\n "));
    }
    let automatic = match mail.automatic {
        Automatic::Replied => "auto-replied",
        Automatic::Generated => "auto-generated",
    };
    set(&mut headers, "Auto-Submitted", automatic.to_owned());
    set(&mut headers, "X-Auto-Response-Suppress", "All".to_owned());
    set(&mut headers, "MIME-Version", "1.0".to_owned());
    Ok(headers)
}

/// Sets a field whose value is known to be legal as it stands.
fn set(headers: &mut Headers, name: &'static str, value: String) {
    let name = HeaderName::new_from_ascii_str(name);
    headers.insert_raw(HeaderValue::dangerous_new_pre_encoded(name, value.clone(), value));
}

/// What can stand between angle brackets without ending them, the line or the header.
fn is_safe_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= ID_CHARS_MAX
        && id.bytes().all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>')
}

fn mailboxes(addresses: &[Address]) -> Result<Mailboxes, ComposeError> {
    addresses.iter().map(|address| mailbox(address, "")).collect()
}

fn mailbox(address: &Address, name: &str) -> Result<Mailbox, ComposeError> {
    let bad = |_| ComposeError::BadAddress(address.to_string());
    let email = lettre::Address::new(address.local(), address.domain()).map_err(bad)?;
    let name: String = one_line(name).chars().take(NAME_CHARS_MAX).collect();
    Ok(Mailbox::new((!name.is_empty()).then_some(name), email))
}

fn content(mail: &Outgoing) -> MultiPart {
    let text = plain_lines(&mail.body_markdown);
    let html = markdown::to_html(&text);
    let boundary = boundary(mail);
    let alternative = MultiPart::alternative()
        .boundary(format!("alt-{boundary}"))
        .singlepart(text_part(&text, ContentType::TEXT_PLAIN))
        .singlepart(text_part(&html, ContentType::TEXT_HTML));
    if mail.attachments.is_empty() {
        return alternative;
    }
    let mut names = Names::default();
    let mixed = MultiPart::mixed().boundary(format!("mix-{boundary}")).multipart(alternative);
    mail.attachments.iter().fold(mixed, |mixed, file| {
        let filename = names.give(&file.filename, "attachment.bin");
        mixed.singlepart(attachment_part(file, &filename))
    })
}

/// Depends on everything between the boundaries, so that no text can be written that contains its own.
fn boundary(mail: &Outgoing) -> String {
    let mut hash = Sha256::new();
    hash.update(&mail.message_id);
    hash.update(&mail.body_markdown);
    for file in &mail.attachments {
        hash.update(&file.bytes);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn text_part(text: &str, content_type: ContentType) -> SinglePart {
    SinglePart::builder().header(content_type).body(quoted_printable(text))
}

/// Quoted-printable, whatever the text: pure ASCII of short lines even after relays that rewrap.
fn quoted_printable(text: &str) -> Body {
    let encoding = ContentTransferEncoding::QuotedPrintable;
    let encoded = match Body::new_with_encoding(text.replace('\n', "\r\n"), encoding) {
        Ok(body) => body.into_vec(),
        // lettre refuses only 7bit and 8bit, never this encoding.
        Err(unencoded) => unencoded,
    };
    // A lone dot ends the data of a careless relay (RFC 5321 section 4.5.2).
    let lines = encoded.split_inclusive(|b| *b == b'\n');
    let safe = lines.flat_map(|line| if line.trim_ascii_end() == b"." { &b"=2E\r\n"[..] } else { line });
    Body::dangerous_pre_encoded(safe.copied().collect(), encoding)
}

fn attachment_part(file: &OutgoingAttachment, filename: &str) -> SinglePart {
    let encoding = ContentTransferEncoding::Base64;
    // As above: base64 is never refused.
    let body = Body::new_with_encoding(file.bytes.clone(), encoding)
        .unwrap_or_else(|unencoded| Body::dangerous_pre_encoded(unencoded, encoding));
    SinglePart::builder()
        .header(content_type(&file.content_type))
        .header(ContentDisposition::attachment(filename))
        .body(body)
}

/// RFC 2046 section 5.2.1 forbids base64 for messages, and a multipart would be taken apart.
fn content_type(declared: &str) -> ContentType {
    let lower = declared.trim().to_ascii_lowercase();
    let is_plain = lower.len() <= 100 && lower.bytes().all(|b| b.is_ascii_graphic());
    let is_container = lower.starts_with("message/") || lower.starts_with("multipart/");
    let wanted = if is_plain && !is_container { lower.as_str() } else { OCTETS };
    ContentType::parse(wanted).or_else(|_| ContentType::parse(OCTETS)).unwrap_or(ContentType::TEXT_PLAIN)
}

const OCTETS: &str = "application/octet-stream";

/// RFC 5322 sections 2.1.1 and 2.3: lines end in CRLF, CR and LF stand nowhere else, no line is longer than 998.
fn keeps_line_rules(bytes: &[u8]) -> bool {
    let Some(all) = bytes.strip_suffix(b"\r\n") else { return false };
    let mut lines = all.split(|b| *b == b'\n').peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        let text = if is_last { Some(line) } else { line.strip_suffix(b"\r") };
        let is_legal =
            |text: &[u8]| text.len() <= LINE_BYTES_MAX && !text.contains(&b'\r') && !text.contains(&0);
        if !text.is_some_and(is_legal) {
            return false;
        }
    }
    true
}
