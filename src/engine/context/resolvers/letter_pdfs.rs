//! The PDF files of a letter that a model is shown as they are, and the reasons why the others are not.
//!
//! Whether a file is shown depends on what its decoder found in it. That is read before the context is assembled, and recorded
//! with it ([`PdfFacts`]): a context of the past is assembled again without a decoder.

use super::letter_images::{FileBudget, reference};
use super::{Contribution, Piece, ResolverCall};
use crate::domain::PdfFiles;
use crate::providers::contract::traits::{IMAGE_TOKENS, PDF_PAGES_MAX, PdfFile};
use crate::store::MessageFile;
use serde::{Deserialize, Serialize};

/// Most characters of text a page, on average, of a file that counts as a scan. Scanners print a line about themselves, and
/// page numbers; a printed page has some 2,000.
const SCAN_CHARS_MAX: u64 = 100;

/// What is known of a PDF file of a letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PdfFacts {
    /// SHA-256 of the bytes in hexadecimal digits.
    pub sha256: String,
    pub pages: u32,
    /// Characters of its text, without space and without the marks of pages.
    pub text_chars: u64,
    /// Reason why it is not shown, whatever it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl PdfFacts {
    /// Says why a file is not shown.
    pub fn refused(file: &MessageFile, why: impl Into<String>) -> Self {
        Self {
            sha256: file.sha256.clone(),
            pages: 0,
            text_chars: 0,
            problem: Some(why.into()),
        }
    }

    /// Describes a file by the text that was read from it.
    pub fn of(file: &MessageFile, pages: u32, text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with("[page "));
        let chars = lines
            .flat_map(str::chars)
            .filter(|c| !c.is_whitespace())
            .count();
        Self {
            sha256: file.sha256.clone(),
            pages,
            text_chars: chars as u64,
            problem: None,
        }
    }

    /// Returns the tokens that vendors count: a picture of each page, and its text (docs.anthropic.com, PDF support; OpenAI's
    /// guide on file inputs).
    fn tokens(&self) -> u32 {
        let text = u32::try_from(self.text_chars.saturating_mul(2).div_ceil(7));
        let pictures = self.pages.saturating_mul(u32::from(IMAGE_TOKENS));
        pictures.saturating_add(text.unwrap_or(u32::MAX))
    }
}

/// Adds the PDF files to the contribution of the letter's text, as far as there is room. Nothing is said of files of which
/// nothing is known: a record of an earlier version.
pub fn add(contribution: &mut Contribution, call: &ResolverCall<'_>, room: &mut FileBudget) {
    let (mut shown, mut left_pages) = (Vec::<&str>::new(), PDF_PAGES_MAX);
    for file in call.subject.files.iter().filter(|file| file.is_pdf()) {
        let source = format!("pdf {}", file.filename);
        let mut known = call.subject.pdfs.iter();
        let Some(facts) = known.find(|facts| facts.sha256 == file.sha256) else {
            continue;
        };
        let fitting = match fit(call.persona.pdf_files, facts) {
            Ok(_) if shown.contains(&file.sha256.as_str()) => Err("it is shown already".to_owned()),
            Ok(facts) if facts.pages > left_pages => Err(format!(
                "all PDF files together have more than {PDF_PAGES_MAX} pages"
            )),
            Ok(_) if file.bytes.is_empty() => {
                Err("it is too large, or its bytes were pruned".to_owned())
            }
            Ok(facts) => room
                .take("files", facts.tokens() as usize, file.size_bytes)
                .map(|()| facts),
            refused => refused,
        };
        match fitting {
            Ok(facts) => {
                shown.push(&file.sha256);
                left_pages -= facts.pages;
                let pdf = PdfFile {
                    file: reference(file, "application/pdf"),
                    pages: facts.pages,
                    tokens: facts.tokens(),
                    bytes: Some(file.bytes.clone().into()),
                };
                contribution.pieces.push((source, Piece::Pdf(Some(pdf))));
            }
            Err(why) => contribution.left_out.push((source, why)),
        }
    }
}

/// Returns what is known of a file that may be shown. Errors: why it may not.
fn fit(wanted: PdfFiles, facts: &PdfFacts) -> Result<&PdfFacts, String> {
    if let Some(problem) = &facts.problem {
        return Err(problem.clone());
    }
    let is_scan = facts.text_chars <= SCAN_CHARS_MAX.saturating_mul(u64::from(facts.pages));
    match wanted {
        PdfFiles::Scans if !is_scan => Err("it has text, which `read_attachment` reads".to_owned()),
        _ => Ok(facts),
    }
}
