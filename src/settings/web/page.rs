//! What was fetched, as text.

use crate::domain::sha256_hex;
use crate::mime::{file_text, html_to_text};

/// Longest text of a page in bytes.
const TEXT_BYTES_MAX: usize = 200_000;

/// A page of the web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebPage {
    /// URL that answered, after all redirects.
    pub url: String,
    /// Media type in lower case, without parameters.
    pub media_type: String,
    /// SHA-256 of the bytes in hexadecimal digits.
    pub sha256: String,
    pub text: String,
    /// `true`: the text was longer and was cut.
    pub is_cut: bool,
}

/// Reports whether the text of a media type is read.
pub fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || media_type.ends_with("+xml")
        || media_type.ends_with("+json")
        || matches!(media_type, "application/json" | "application/xml")
}

impl WebPage {
    /// Reads the text of a page; `None`: its bytes are no text.
    pub fn read(url: String, media_type: String, bytes: &[u8]) -> Option<Self> {
        let mut text = file_text(bytes).ok()?.text;
        if matches!(media_type.as_str(), "text/html" | "application/xhtml+xml") {
            text = html_to_text(&text);
        }
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        let is_cut = end < text.len();
        text.truncate(end);
        Some(Self {
            url,
            media_type,
            sha256: sha256_hex(&[bytes]),
            text,
            is_cut,
        })
    }
}
