//! What is read from a document.

use serde::{Deserialize, Serialize};

/// Type of a document, found in its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DocumentKind {
    Pdf,
    Docx,
    Pptx,
    Xlsx,
    /// Excel 97 to 2003.
    Xls,
    Odt,
    Ods,
    Html,
    /// A mail.
    Eml,
    Text,
    Png,
    Jpeg,
    Gif,
    Webp,
    /// A picture that is named and not shown.
    Heic,
    Tiff,
    Bmp,
    Rtf,
    /// The `winmail.dat` of Outlook, where nothing could be unpacked from it.
    Tnef,
    /// An archive, which is not unpacked.
    Archive,
    /// A program, which is not looked at.
    Program,
    Unknown,
}

impl DocumentKind {
    /// Returns the word for people and models.
    pub fn as_str(self) -> &'static str {
        match self {
            DocumentKind::Pdf => "pdf",
            DocumentKind::Docx => "docx",
            DocumentKind::Pptx => "pptx",
            DocumentKind::Xlsx => "xlsx",
            DocumentKind::Xls => "xls",
            DocumentKind::Odt => "odt",
            DocumentKind::Ods => "ods",
            DocumentKind::Html => "html",
            DocumentKind::Eml => "eml",
            DocumentKind::Text => "text",
            DocumentKind::Png => "png",
            DocumentKind::Jpeg => "jpeg",
            DocumentKind::Gif => "gif",
            DocumentKind::Webp => "webp",
            DocumentKind::Heic => "heic",
            DocumentKind::Tiff => "tiff",
            DocumentKind::Bmp => "bmp",
            DocumentKind::Rtf => "rtf",
            DocumentKind::Tnef => "tnef",
            DocumentKind::Archive => "archive",
            DocumentKind::Program => "program",
            DocumentKind::Unknown => "unknown",
        }
    }

    /// Returns the media type of an image; `None`: it is none.
    pub fn image_type(self) -> Option<&'static str> {
        match self {
            DocumentKind::Png => Some("image/png"),
            DocumentKind::Jpeg => Some("image/jpeg"),
            DocumentKind::Gif => Some("image/gif"),
            DocumentKind::Webp => Some("image/webp"),
            _ => None,
        }
    }
}

/// Size of an image, from its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    pub width: u32,
    pub height: u32,
}

/// What was read from a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extracted {
    pub kind: DocumentKind,
    /// `true`: its sender declared another type.
    pub claimed_differs: bool,
    /// Text with the marks of its pages, sheets or slides on lines of their own; `None`: there is none to read.
    pub text: Option<String>,
    /// Pages, sheets or slides.
    pub pages: Option<u32>,
    pub image: Option<ImageFacts>,
    /// Sentences about it.
    pub notes: Vec<String>,
    /// `true`: the text goes on beyond a limit.
    pub cut: bool,
}

impl Extracted {
    pub fn empty(kind: DocumentKind) -> Self {
        Self {
            kind,
            claimed_differs: false,
            text: None,
            pages: None,
            image: None,
            notes: Vec::new(),
            cut: false,
        }
    }

    /// Adds a sentence, once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Reason why a document has no text; a sentence for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum DecodeError {
    #[error("it is encrypted; ask for a copy without a password")]
    Encrypted,
    /// The decoder's reason, shortened.
    #[error("it is damaged or no such document: {0}")]
    Broken(String),
    /// The limit that it exceeds.
    #[error("it is too large when unpacked: {0}")]
    TooLarge(String),
}
