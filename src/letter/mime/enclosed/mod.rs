//! Parts that hold a letter or files in a format of their own: opaque S/MIME and Outlook's `winmail.dat`; and those that are
//! encrypted.
//!
//! Unpacked within limits, without any key. A signature in here proves nothing and is not looked at.
//!
//! - `cms`: the frame of S/MIME; `tnef`: the frame of Outlook

mod cms;
mod tnef;

use super::attachments::declared_name;
use super::limits::ParseLimits;
use super::structure::{self, Part};
use crate::domain::Attachment;

/// Containers inside of each other that are opened.
const DEPTH_MAX: usize = 3;

/// What is said in place of text that nobody here can read.
pub(super) const ENCRYPTED: &str = "(the letter is encrypted and cannot be read here)";

/// A part as it was opened.
#[derive(Debug)]
pub(super) enum Unpacked {
    /// The content of a signed letter.
    Signed(EnclosedLetter),
    /// What Outlook packed: its text repeats that of the letter where there is any. `is_whole`: nothing of it was cut off.
    Outlook {
        contents: EnclosedLetter,
        is_whole: bool,
    },
    Encrypted,
}

/// Text and files out of a container.
#[derive(Debug, Default)]
pub(super) struct EnclosedLetter {
    pub(super) plain: String,
    pub(super) html: Option<String>,
    /// Readable text.
    pub(super) own: String,
    pub(super) forwarded: Vec<String>,
    pub(super) files: Vec<Attachment>,
}

/// Reads the parts of a letter inside, so many containers deep.
pub(super) type LetterReader = fn(&[Part<'_>], &ParseLimits, usize) -> EnclosedLetter;

/// Opens a part, `depth` containers deep; `None`: it is no container, or one that says nothing.
pub(super) fn open(
    part: &Part<'_>,
    limits: &ParseLimits,
    depth: usize,
    read: LetterReader,
) -> Option<Unpacked> {
    if part.is_multipart("encrypted") {
        return Some(Unpacked::Encrypted);
    }
    if depth >= DEPTH_MAX {
        return None;
    }
    let name = declared_name(part).to_ascii_lowercase();
    let is_any_file = part.media == "application/octet-stream";
    match part.media.as_str() {
        "application/pkcs7-mime" | "application/x-pkcs7-mime" => secured(part, limits, depth, read),
        // Some servers write the type of any file.
        _ if is_any_file && name.ends_with(".p7m") => secured(part, limits, depth, read),
        "application/ms-tnef" | "application/vnd.ms-tnef" => outlook(part, limits),
        _ if is_any_file && name == "winmail.dat" => outlook(part, limits),
        _ => None,
    }
}

fn secured(
    part: &Part<'_>,
    limits: &ParseLimits,
    depth: usize,
    read: LetterReader,
) -> Option<Unpacked> {
    match cms::read(&structure::content(part)) {
        Some(cms::CmsKind::Signed(letter)) => {
            let parts = structure::walk(&letter, limits).ok()?;
            Some(Unpacked::Signed(read(&parts, limits, depth + 1)))
        }
        Some(cms::CmsKind::Encrypted) => Some(Unpacked::Encrypted),
        Some(cms::CmsKind::Other) => None,
        // What cannot be read at all goes by its label.
        None => {
            let kind = part.parameter("smime-type").unwrap_or_default();
            kind.to_ascii_lowercase()
                .contains("enveloped")
                .then_some(Unpacked::Encrypted)
        }
    }
}

fn outlook(part: &Part<'_>, limits: &ParseLimits) -> Option<Unpacked> {
    let packed = tnef::read(&structure::content(part))?;
    let own = match packed.text.trim().is_empty() {
        true => packed
            .html
            .as_deref()
            .map(|html| super::text::html::to_text(html, limits).0)
            .unwrap_or_default(),
        false => packed.text.clone(),
    };
    if own.trim().is_empty() && packed.files.is_empty() {
        return None;
    }
    let contents = EnclosedLetter {
        plain: packed.text,
        html: packed.html,
        own,
        forwarded: Vec::new(),
        files: packed.files,
    };
    Some(Unpacked::Outlook {
        contents,
        is_whole: packed.is_whole,
    })
}

/// Returns a text whose blocks of OpenPGP are replaced by [`ENCRYPTED`] (RFC 9580 section 6.2).
pub(super) fn without_armour(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN PGP MESSAGE-----";
    const END: &str = "-----END PGP MESSAGE-----";
    let (mut out, mut is_inside) = (Vec::new(), false);
    for line in text.split('\n') {
        match line.trim_end() {
            BEGIN => {
                is_inside = true;
                out.push(ENCRYPTED);
            }
            END if is_inside => is_inside = false,
            _ if is_inside => {}
            _ => out.push(line),
        }
    }
    out.join("\n")
}
