//! Mails that were sent as attachments, and mails in these, to a depth.

use crate::extract::document::{DecodeError, DocumentKind, Extracted};
use crate::extract::limits::ExtractLimits;
use crate::mime::{ParseLimits, parse};
use std::fmt::Write;

/// Deepest mail within mails whose text is read.
const DEPTH_MAX: usize = 3;

/// Reads a mail.
pub fn read(bytes: &[u8], limits: &ExtractLimits) -> Result<Extracted, DecodeError> {
    let mut read = Extracted::empty(DocumentKind::Eml);
    let mut text = String::new();
    add(bytes, &mut read, &mut text, 0, limits)?;
    read.text = Some(text);
    Ok(read)
}

fn add(
    bytes: &[u8],
    read: &mut Extracted,
    text: &mut String,
    depth: usize,
    limits: &ExtractLimits,
) -> Result<(), DecodeError> {
    let email = parse(bytes, &ParseLimits::default());
    let email = email.map_err(|error| DecodeError::Broken(error.to_string()))?;
    let people = |mailboxes: &[crate::domain::Mailbox]| {
        let named = mailboxes
            .iter()
            .map(|mailbox| match mailbox.name.is_empty() {
                true => mailbox.spec.clone(),
                false => format!("{} <{}>", mailbox.name, mailbox.spec),
            });
        named.collect::<Vec<_>>().join(", ")
    };
    let date = email.date.map(|date| date.to_string()).unwrap_or_default();
    let fields = [
        ("From", people(&email.from)),
        ("To", people(&email.to)),
        ("Date", date),
        ("Subject", email.subject.clone()),
    ];
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "{name}: {value}");
    }
    let _infallible = writeln!(text, "\n{}", email.text);
    for attachment in &email.attachments {
        let (name, size) = (&attachment.filename, attachment.bytes.len());
        let _infallible = writeln!(text, "[attachment {name}, {size} bytes]");
        let is_mail = attachment.content_type.starts_with("message/rfc822");
        if is_mail && depth + 1 < DEPTH_MAX && text.len() < limits.text_bytes_max {
            // A mail in it that is damaged is named all the same.
            let _damaged = add(&attachment.bytes, read, text, depth + 1, limits);
        } else if is_mail {
            read.note("mails deeper in it are named and not read");
        }
    }
    Ok(())
}
