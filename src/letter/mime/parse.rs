//! From letter bytes to an [`Email`], with every guard before any library sees them.

use super::headers::fields::Fields;
use super::headers::header::from_first_field;
use super::headers::{automatic, sender, threading};
use super::limits::{ParseError, ParseLimits};
use super::structure::{self, Part};
use super::text::quotes;
use super::{attachments, body};
use crate::domain::Email;

/// An email, with its bodies before rendering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedLetter {
    pub email: Email,
    /// All inline `text/plain` parts of the letter itself, joined; no HTML, nothing of forwarded
    /// messages.
    pub plain: String,
    /// Number of the email's attachments, counted from the first, that are the letter's own; the
    /// others belong to forwarded messages.
    pub own_attachments: usize,
}

/// Longest readable text, in bytes; the rest stays in the raw letter.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Parses a letter. Linear in its size for a given depth limit; never panics.
pub fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Email, ParseError> {
    parse_letter(bytes, limits).map(|parsed| parsed.email)
}

/// As [`parse`], with the split into bodies kept.
pub fn parse_letter(bytes: &[u8], limits: &ParseLimits) -> Result<ParsedLetter, ParseError> {
    let mut parts = structure::walk(from_first_field(bytes), limits)?;
    name_raw_charset(&mut parts);
    let Some(letter) = parts.first().filter(|letter| !letter.fields.is_empty()) else {
        return Err(ParseError::NotAnEmail("no header field"));
    };
    if letter.fields.count("received") > limits.received_max {
        return Err(ParseError::Hostile("too many hops"));
    }
    let read = body::read(&parts, limits, 0);
    let mut defects = defects(&letter.fields);
    if read.html_stripped {
        defects.push("HTML was too large or too deep to be rendered".to_owned());
    }
    defects.extend(read.sources.iter().map(|source| (*source).to_owned()));
    let mut email = headers(letter, limits);
    let own = bounded(body::joined([read.own]), &mut defects);
    let (fresh, quotations) = quotes::split(&own, &email.subject);
    email.text = bounded(with_forwarded(own, &read.forwarded), &mut defects);
    email.fresh_text = bounded(with_forwarded(fresh, &read.forwarded), &mut Vec::new());
    email.quotations = quotations;
    email.html = read.html;
    let own_attachments = read.attachments.len();
    let listed = read.attachments.into_iter().chain(read.inner_attachments);
    email.attachments = attachments::build(bytes, &parts, listed.collect());
    email.automatic = automatic::signs(letter);
    email.automatic.is_reaction = parts.iter().any(|part| part.media == automatic::REACTION);
    email.list_id = automatic::list_id(letter);
    email.unsubscribe = automatic::unsubscribe_pages(letter);
    if email.date.is_none() {
        let is_there = letter.fields.has("date");
        let defect = if is_there {
            "a Date field that cannot be read"
        } else {
            "no Date field"
        };
        defects.push(defect.to_owned());
    }
    email.defects = defects;
    Ok(ParsedLetter {
        email,
        plain: read.plain,
        own_attachments,
    })
}

/// Tells the header and the parts the charset of the first text that names one: programs that write bytes into a header as
/// they are write them in that.
fn name_raw_charset(parts: &mut [Part<'_>]) {
    let named = |part: &Part<'_>| {
        let label = part.parameter("charset")?;
        part.media.starts_with("text/").then(|| label.to_owned())
    };
    if let Some(label) = parts.iter().find_map(named) {
        parts
            .iter_mut()
            .for_each(|part| part.fields.set_raw_charset(&label));
    }
}

/// Reads the fields of the letter's own header.
fn headers(letter: &Part<'_>, limits: &ParseLimits) -> Email {
    let fields = &letter.fields;
    let capped = |name| {
        threading::keep_first_and_last(
            threading::unrepeated(fields.ids(name)),
            limits.references_max,
        )
    };
    Email {
        message_id: fields.ids("message-id").into_iter().next(),
        in_reply_to: capped("in-reply-to"),
        references: capped("references"),
        from: sender::mailboxes(fields),
        from_header_count: fields.count("from"),
        reply_to: fields.recipients("reply-to"),
        to: fields.recipients("to"),
        cc: fields.recipients("cc"),
        resent: ["resent-to", "resent-cc"]
            .into_iter()
            .flat_map(|name| fields.recipients(name))
            .collect(),
        subject: fields.text("subject").unwrap_or_default(),
        date: fields.date("date"),
        ..Email::default()
    }
}

/// Returns the defects of the header: fields that occur more often than RFC 5322 section 3.6
/// allows, and a missing From or Message-ID.
fn defects(fields: &Fields<'_>) -> Vec<String> {
    const ONCE: [(&str, &str); 8] = [
        ("from", "From"),
        ("date", "Date"),
        ("message-id", "Message-ID"),
        ("subject", "Subject"),
        ("to", "To"),
        ("in-reply-to", "In-Reply-To"),
        ("references", "References"),
        ("content-type", "Content-Type"),
    ];
    let repeated = ONCE.iter().filter(|(name, _)| fields.count(name) > 1);
    let mut found: Vec<String> = repeated
        .map(|(_, title)| format!("more than one {title} field"))
        .collect();
    for (name, title) in [("from", "From"), ("message-id", "Message-ID")] {
        if !fields.has(name) {
            found.push(format!("no {title} field"));
        }
    }
    found
}

fn with_forwarded(own: String, forwarded: &[String]) -> String {
    body::joined(std::iter::once(own).chain(forwarded.iter().cloned()))
}

fn bounded(mut text: String, defects: &mut Vec<String>) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        let defect = "text was cut at 4 MiB".to_owned();
        if !defects.contains(&defect) {
            defects.push(defect);
        }
    }
    text
}
