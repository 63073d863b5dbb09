//! Parts of a message that are not text: images, PDF files, and references to files.
//!
//! A part is recorded by the digest of its bytes. Bytes are attached for one call and are never
//! part of a stored message.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Tokens of an image: the most that Anthropic counts for one, after it has scaled it down
/// (docs.anthropic.com, vision); other vendors count fewer.
pub const IMAGE_TOKENS: u16 = 1_600;

/// A file that belongs to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReference {
    /// File name as its sender wrote it.
    pub name: String,
    /// Media type in lower case, without parameters: `image/png`.
    pub media_type: String,
    /// SHA-256 of the bytes in hexadecimal digits.
    pub digest: String,
    pub size_bytes: u64,
}

/// An image that the model sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    #[serde(flatten)]
    pub file: FileReference,
    /// Bytes for the encoder; `None`: they were not attached, and the image cannot be sent.
    #[serde(skip)]
    pub bytes: Option<FileBytes>,
}

impl Image {
    /// Returns the bytes in base64, as all vendors take them; empty without bytes.
    pub fn base64(&self) -> String {
        FileBytes::base64(self.bytes.as_ref())
    }
}

/// A PDF file that the model reads whole: the text of its pages and a picture of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PdfFile {
    #[serde(flatten)]
    pub file: FileReference,
    pub pages: u32,
    /// Estimated tokens of all pages.
    pub tokens: u32,
    /// As those of an image.
    #[serde(skip)]
    pub bytes: Option<FileBytes>,
}

impl PdfFile {
    /// Returns the bytes in base64; empty without bytes.
    pub fn base64(&self) -> String {
        FileBytes::base64(self.bytes.as_ref())
    }
}

/// Bytes of a part, shared by the copies of its message.
#[derive(Clone, PartialEq, Eq)]
pub struct FileBytes(Arc<[u8]>);

impl FileBytes {
    fn base64(bytes: Option<&FileBytes>) -> String {
        BASE64_STANDARD.encode(bytes.map_or(&[][..], |bytes| &bytes.0))
    }

    fn is_there(bytes: Option<&FileBytes>) -> bool {
        bytes.is_some_and(|bytes| !bytes.0.is_empty())
    }
}

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<Arc<[u8]>> for FileBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(bytes)
    }
}

impl std::fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileBytes({} bytes)", self.0.len())
    }
}

/// Kinds of content that a provider takes in the messages of a user, text aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentKinds {
    /// `None`: no images.
    pub images: Option<ImageLimits>,
    /// `true`: PDF files within [`PDF_BYTES_MAX`] and [`PDF_PAGES_MAX`].
    pub pdf: bool,
    /// `true`: references to files.
    pub files: bool,
}

impl ContentKinds {
    /// Text and nothing else.
    pub const TEXT: ContentKinds = ContentKinds {
        images: None,
        pdf: false,
        files: false,
    };

    /// Text, and images of these types.
    pub const fn images(media_types: &'static [&'static str]) -> ContentKinds {
        ContentKinds {
            images: Some(ImageLimits {
                media_types,
                bytes_max: IMAGE_BYTES_MAX,
            }),
            pdf: false,
            files: false,
        }
    }

    /// These, and PDF files.
    #[must_use]
    pub const fn and_pdf(self) -> ContentKinds {
        ContentKinds { pdf: true, ..self }
    }

    /// Reports whether an image can be sent: its type and size are taken, and its bytes are there.
    pub fn takes_image(&self, image: &Image) -> bool {
        self.images.is_some_and(|limits| {
            limits.media_types.contains(&image.file.media_type.as_str())
                && image.file.size_bytes <= limits.bytes_max
                && FileBytes::is_there(image.bytes.as_ref())
        })
    }

    /// Reports whether a PDF file can be sent: it is within the bounds, and its bytes are there.
    pub fn takes_pdf(&self, pdf: &PdfFile) -> bool {
        self.pdf
            && pdf.file.size_bytes <= PDF_BYTES_MAX
            && pdf.pages <= PDF_PAGES_MAX
            && FileBytes::is_there(pdf.bytes.as_ref())
    }
}

/// Largest image in bytes. Anthropic refuses one above 5 MB of base64, which are 3.75 MB; an image
/// that is too large is described in words everywhere, so that an answer does not depend on the
/// provider that gives it.
const IMAGE_BYTES_MAX: u64 = 3_750_000;

/// Most bytes of the PDF files of a request, before base64. Anthropic takes 32 MB a request, Gemini 20 MB with all files
/// inline, OpenAI 50 MB of files; base64 adds a third. One bound for all, as for an image.
pub const PDF_BYTES_MAX: u64 = 10_000_000;
/// Most pages of the PDF files of a request: what Anthropic takes for models with a window of 200,000 tokens
/// (docs.anthropic.com, PDF support). Gemini takes 1,000.
pub const PDF_PAGES_MAX: u32 = 100;

/// Images that a provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    pub media_types: &'static [&'static str],
    /// Largest image in bytes, before base64.
    pub bytes_max: u64,
}
