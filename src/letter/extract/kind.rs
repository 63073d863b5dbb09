//! Types of documents by their bytes, whatever their sender declares.

use super::document::DocumentKind;
use crate::mime::file_text;

/// Bytes of a text that are looked at for tags and fields.
const HEAD_BYTES: usize = 4096;
/// Bytes in which the names of a zip's first files are looked for.
const ZIP_HEAD_BYTES: usize = 64 * 1024;

/// Beginnings of files.
const MAGIC: &[(&[u8], DocumentKind)] = &[
    (b"\x89PNG\r\n\x1a\n", DocumentKind::Png),
    (b"\xff\xd8\xff", DocumentKind::Jpeg),
    (b"GIF87a", DocumentKind::Gif),
    (b"GIF89a", DocumentKind::Gif),
    (b"II*\0", DocumentKind::Tiff),
    (b"MM\0*", DocumentKind::Tiff),
    // [MS-OXTNEF], section 2.1.3.2.
    (b"\x78\x9f\x3e\x22", DocumentKind::Tnef),
    (b"{\\rtf", DocumentKind::Rtf),
    (b"\x1f\x8b", DocumentKind::Archive),
    (b"BZh", DocumentKind::Archive),
    (b"\xfd7zXZ\x00", DocumentKind::Archive),
    (b"7z\xbc\xaf\x27\x1c", DocumentKind::Archive),
    (b"Rar!\x1a\x07", DocumentKind::Archive),
    (b"\x28\xb5\x2f\xfd", DocumentKind::Archive),
    (b"\x7fELF", DocumentKind::Program),
    (b"MZ", DocumentKind::Program),
    (b"\xcf\xfa\xed\xfe", DocumentKind::Program),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", DocumentKind::Xls),
];

/// Returns the type of a document.
pub fn found_kind(bytes: &[u8]) -> DocumentKind {
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return *kind;
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return DocumentKind::Webp;
    }
    // ISO/IEC 23008-12, section 10: brands of still pictures.
    let brand = bytes
        .get(8..12)
        .filter(|_| bytes.get(4..8) == Some(b"ftyp"));
    let brands: [&[u8]; 8] = [
        b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1", b"avif",
    ];
    if brand.is_some_and(|brand| brands.contains(&brand)) {
        return DocumentKind::Heic;
    }
    // Its size stands behind the mark, which alone is too short.
    let size = bytes
        .get(2..6)
        .and_then(|size| size.try_into().ok())
        .map(u32::from_le_bytes);
    if bytes.starts_with(b"BM") && size.is_some_and(|size| size as usize == bytes.len()) {
        return DocumentKind::Bmp;
    }
    // ISO 32000-1, annex H: readers accept the header anywhere in the first 1,024 bytes.
    if contains(&bytes[..bytes.len().min(1024)], b"%PDF-") {
        return DocumentKind::Pdf;
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return zip_kind(bytes);
    }
    if bytes.len() > 262 && bytes.get(257..262) == Some(b"ustar") {
        return DocumentKind::Archive;
    }
    match file_text(bytes) {
        Ok(text) => text_kind(&text.text),
        Err(_) => DocumentKind::Unknown,
    }
}

fn zip_kind(bytes: &[u8]) -> DocumentKind {
    let head = &bytes[..bytes.len().min(ZIP_HEAD_BYTES)];
    let tail = &bytes[bytes.len().saturating_sub(ZIP_HEAD_BYTES)..];
    let names = |name: &[u8]| contains(head, name) || contains(tail, name);
    // OpenDocument 1.3 part 2, section 3.3: the first file is `mimetype`, not compressed.
    if contains(head, b"mimetypeapplication/vnd.oasis.opendocument.text") {
        DocumentKind::Odt
    } else if contains(
        head,
        b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
    ) {
        DocumentKind::Ods
    } else if !names(b"[Content_Types].xml") {
        DocumentKind::Archive
    } else if names(b"word/document.xml") {
        DocumentKind::Docx
    } else if names(b"ppt/presentation.xml") {
        DocumentKind::Pptx
    } else if names(b"xl/workbook.") {
        DocumentKind::Xlsx
    } else {
        DocumentKind::Archive
    }
}

fn text_kind(text: &str) -> DocumentKind {
    let end = text.floor_char_boundary(HEAD_BYTES);
    let head = text[..end].trim_start().to_ascii_lowercase();
    let tags = ["<!doctype html", "<html", "<head", "<body"];
    if tags.iter().any(|tag| head.starts_with(tag)) {
        return DocumentKind::Html;
    }
    let fields = [
        "from:",
        "to:",
        "date:",
        "message-id:",
        "received:",
        "return-path:",
        "mime-version:",
    ];
    let lines = || head.lines().take_while(|line| !line.is_empty());
    let known = lines().filter(|line| fields.iter().any(|field| line.starts_with(field)));
    let begins_as_field = lines().next().is_some_and(|line| {
        let name = line.split(':').next().unwrap_or_default();
        line.contains(':') && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    match begins_as_field && known.count() >= 3 {
        true => DocumentKind::Eml,
        false => DocumentKind::Text,
    }
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|piece| piece == wanted)
}

/// Reports whether a declared media type says something else than what was found. Types that say nothing differ from
/// nothing.
pub fn differs(found: DocumentKind, claimed: &str) -> bool {
    let claimed = claimed.split(';').next().unwrap_or_default().trim();
    let claimed = claimed.to_ascii_lowercase();
    let is = |wanted: &[&str]| wanted.contains(&claimed.as_str());
    if is(&[
        "",
        "application/octet-stream",
        "application/x-download",
        "application/force-download",
    ]) {
        return false;
    }
    match found {
        DocumentKind::Pdf => !is(&["application/pdf", "application/x-pdf"]),
        DocumentKind::Docx | DocumentKind::Pptx | DocumentKind::Xlsx => {
            !claimed.starts_with("application/vnd.openxmlformats-officedocument")
                && !claimed.starts_with("application/vnd.ms-")
                && !is(&["application/msword"])
        }
        DocumentKind::Xls => {
            !claimed.starts_with("application/vnd.ms-")
                && !is(&["application/msword", "application/msexcel"])
        }
        DocumentKind::Odt | DocumentKind::Ods => {
            !claimed.starts_with("application/vnd.oasis.opendocument")
        }
        DocumentKind::Html => !is(&["text/html", "application/xhtml+xml", "text/plain"]),
        DocumentKind::Eml => !is(&["message/rfc822", "message/global", "text/plain"]),
        DocumentKind::Text => {
            let kinds = [
                "application/json",
                "application/xml",
                "application/csv",
                "application/javascript",
            ];
            !claimed.starts_with("text/")
                && !is(&kinds)
                && !claimed.ends_with("+xml")
                && !claimed.ends_with("+json")
        }
        DocumentKind::Png | DocumentKind::Jpeg | DocumentKind::Gif | DocumentKind::Webp => {
            found.image_type() != Some(claimed.as_str()) && !is(&["image/jpg", "image/pjpeg"])
        }
        DocumentKind::Archive | DocumentKind::Program => {
            claimed.starts_with("text/")
                || claimed.starts_with("image/")
                || is(&["application/pdf"])
        }
        DocumentKind::Heic | DocumentKind::Tiff | DocumentKind::Bmp => {
            !claimed.starts_with("image/")
        }
        DocumentKind::Tnef => !is(&["application/ms-tnef", "application/vnd.ms-tnef"]),
        // Word writes it under the name of its own format, too.
        DocumentKind::Rtf => !is(&[
            "application/rtf",
            "text/rtf",
            "text/richtext",
            "application/msword",
        ]),
        DocumentKind::Unknown => false,
    }
}
