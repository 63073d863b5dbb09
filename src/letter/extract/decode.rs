//! Bytes to a document. Pure, and only as safe as its decoders: work on bytes of others belongs in the locked child.

use super::document::{DecodeError, DocumentKind, Extracted, ImageFacts};
use super::formats::{image, mail, office, pdf, rtf, workbook, zip_file};
use super::kind::{differs, found_kind};
use super::limits::ExtractLimits;
use crate::mime::{file_text, html_to_text};

/// Reads a document. Errors: it is encrypted, damaged, or a bomb.
pub fn decode(
    bytes: &[u8],
    claimed: &str,
    limits: &ExtractLimits,
) -> Result<Extracted, DecodeError> {
    let kind = found_kind(bytes);
    let mut read = decode_kind(kind, bytes, limits)?;
    read.claimed_differs = differs(read.kind, claimed);
    if read.claimed_differs {
        let declared: String = claimed
            .chars()
            .filter(|c| !c.is_control())
            .take(80)
            .collect();
        read.note(format!(
            "it was sent as `{declared}` and is of type {}",
            read.kind.as_str()
        ));
    }
    finish(&mut read, limits);
    Ok(read)
}

/// Returns media type and size of an image by its header; `None`: it is none that models take, or its header is damaged.
/// No picture is decoded, so this may be called outside the child.
pub fn image_header(bytes: &[u8]) -> Option<(&'static str, ImageFacts)> {
    let kind = found_kind(bytes);
    Some((kind.image_type()?, image::size(kind, bytes)?))
}

fn decode_kind(
    kind: DocumentKind,
    bytes: &[u8],
    limits: &ExtractLimits,
) -> Result<Extracted, DecodeError> {
    match kind {
        DocumentKind::Pdf => pdf::read(bytes, limits),
        DocumentKind::Docx | DocumentKind::Pptx | DocumentKind::Odt => {
            office::read(kind, bytes, limits)
        }
        DocumentKind::Xlsx | DocumentKind::Xls | DocumentKind::Ods => {
            workbook::read(kind, bytes, limits)
        }
        DocumentKind::Eml => mail::read(bytes, limits),
        DocumentKind::Rtf => rtf::read(bytes),
        DocumentKind::Html | DocumentKind::Text => text(kind, bytes, limits),
        DocumentKind::Png | DocumentKind::Jpeg | DocumentKind::Gif | DocumentKind::Webp => {
            Ok(image::read(kind, bytes))
        }
        DocumentKind::Archive => zip_file::listed(bytes, limits),
        DocumentKind::Heic | DocumentKind::Tiff | DocumentKind::Bmp => {
            let why = format!(
                "it is a picture of the format {}, which is not shown here; ask for a JPEG",
                kind.as_str().to_uppercase()
            );
            Ok(unread(kind, &why))
        }
        DocumentKind::Tnef => Ok(unread(
            kind,
            "it is Outlook's `winmail.dat`, and nothing in it can be read; ask for the files themselves",
        )),
        DocumentKind::Program => Ok(unread(kind, "it is a program; programs are not opened")),
        DocumentKind::Unknown => Ok(unread(kind, "its type is not known here; it is not opened")),
    }
}

fn unread(kind: DocumentKind, why: &str) -> Extracted {
    let mut read = Extracted::empty(kind);
    read.note(why);
    read
}

fn text(
    kind: DocumentKind,
    bytes: &[u8],
    limits: &ExtractLimits,
) -> Result<Extracted, DecodeError> {
    let file = file_text(bytes).map_err(|error| DecodeError::Broken(error.to_string()))?;
    let mut read = Extracted::empty(kind);
    let is_html = kind == DocumentKind::Html;
    let text = if is_html {
        html_to_text(&file.text)
    } else {
        file.text
    };
    let rows = text.lines().count();
    if rows > limits.rows_max && !is_html {
        let kept: Vec<&str> = text.lines().take(limits.rows_max).collect();
        read.note(format!("the first {} of {rows} lines", limits.rows_max));
        read.cut = true;
        read.text = Some(kept.join("\n"));
    } else {
        read.text = Some(text);
    }
    Ok(read)
}

/// Cuts the text, and leaves out what no text needs: control characters, and those that reorder or hide others.
fn finish(read: &mut Extracted, limits: &ExtractLimits) {
    let Some(text) = read.text.take() else { return };
    let is_shown = |c: &char| match c {
        '\n' | '\t' => true,
        '\u{200B}'
        | '\u{200E}'
        | '\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{2069}'
        | '\u{FEFF}' => false,
        c => !c.is_control(),
    };
    let mut shown: String = text
        .replace("\r\n", "\n")
        .chars()
        .filter(is_shown)
        .collect();
    if shown.len() > limits.text_bytes_max {
        let end = shown.floor_char_boundary(limits.text_bytes_max);
        read.note(format!(
            "the first {end} of {} bytes of its text",
            shown.len()
        ));
        shown.truncate(end);
        read.cut = true;
    }
    let has_words = shown
        .lines()
        .any(|line| !line.trim().is_empty() && !line.starts_with('['));
    if !has_words && read.image.is_none() {
        read.note(match read.kind {
            DocumentKind::Pdf => {
                "no text was found in it; it may be a scan, whose pages are pictures"
            }
            _ => "no text was found in it",
        });
    }
    read.text = Some(shown);
}
