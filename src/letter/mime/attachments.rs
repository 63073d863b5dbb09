//! Parts that are not the body, decoded and named.

use super::headers::filename::UniqueFilenames;
use super::structure;
use super::structure::{Kind, Part};
use crate::domain::Attachment;

/// An attachment before its name is given.
#[derive(Debug)]
pub(super) enum AttachmentSource {
    /// Index of a part.
    Part(usize),
    /// A file out of a container, under its declared name.
    File(Attachment),
}

/// Decodes the listed ones, in order, under names that are unique in this email. `letter`: the bytes that the parts are of, where
/// ranges of them are asked for; else empty.
pub(super) fn build(
    letter: &[u8],
    parts: &[Part<'_>],
    listed: Vec<AttachmentSource>,
) -> Vec<Attachment> {
    let mut names = UniqueFilenames::default();
    let mut built = Vec::with_capacity(listed.len());
    for (number, listed) in (1..).zip(listed) {
        match listed {
            AttachmentSource::Part(index) => {
                let part = parts.get(index);
                built.extend(part.map(|part| attachment(letter, parts, part, number, &mut names)));
            }
            AttachmentSource::File(file) => {
                let fallback = format!("attachment-{number}.{}", extension(&file.content_type));
                let filename = names.give(&file.declared_name, &fallback);
                built.push(Attachment { filename, ..file });
            }
        }
    }
    built
}

fn attachment(
    letter: &[u8],
    parts: &[Part<'_>],
    part: &Part<'_>,
    number: usize,
    names: &mut UniqueFilenames,
) -> Attachment {
    let declared_name = declared_name(part);
    let filename = match part.kind {
        Kind::Message if declared_name.is_empty() => {
            names.give(&subject_name(parts, part), "forwarded.eml")
        }
        _ => names.give(
            &declared_name,
            &format!("attachment-{number}.{}", extension(&part.media)),
        ),
    };
    Attachment {
        filename,
        declared_name,
        content_type: part.media.clone(),
        content_id: content_id(part),
        bytes: structure::content(part).into_owned(),
        range: structure::range_in(letter, part),
    }
}

/// Returns the sender's name of a part: the file name of the disposition, else the name of the type
/// (RFC 2183 section 2.3).
pub(super) fn declared_name(part: &Part<'_>) -> String {
    let disposition = part.fields.content_type("content-disposition");
    let filename = disposition.as_ref().and_then(|d| d.attribute("filename"));
    filename
        .or_else(|| part.parameter("name"))
        .unwrap_or_default()
        .to_owned()
}

/// Returns the forwarded message's subject as a file name; empty when it has none.
fn subject_name(parts: &[Part<'_>], part: &Part<'_>) -> String {
    let inner = part.children.first().and_then(|child| parts.get(*child));
    let subject = inner
        .and_then(|inner| inner.fields.text("subject"))
        .unwrap_or_default();
    // A slash in a subject is not a path separator.
    let subject = subject.replace(['/', '\\'], "-");
    if subject.trim().is_empty() {
        String::new()
    } else {
        format!("{}.eml", subject.trim())
    }
}

/// Returns the extension for a part without a name: one that programs know, or `bin`.
fn extension(media: &str) -> &'static str {
    match media {
        "text/plain" => "txt",
        "text/html" => "html",
        "text/csv" => "csv",
        "text/calendar" => "ics",
        "text/vcard" | "text/x-vcard" | "text/directory" => "vcf",
        "text/rfc822-headers" | "message/delivery-status" | "message/disposition-notification" => {
            "txt"
        }
        "message/rfc822" | "message/global" => "eml",
        "image/jpeg" | "image/jpg" => "jpg",
        "image/png" => "png",
        "image/gif" => "gif",
        "image/svg+xml" => "svg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/zip" => "zip",
        "application/ms-tnef" => "dat",
        "application/pgp-signature" => "asc",
        "application/pkcs7-signature" | "application/x-pkcs7-signature" => "p7s",
        "audio/mpeg" => "mp3",
        "video/mp4" => "mp4",
        _ => "bin",
    }
}

fn content_id(part: &Part<'_>) -> Option<String> {
    part.fields.ids("content-id").into_iter().next()
}
