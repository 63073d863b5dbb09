//! Text of PDF, page by page. The decoder panics on bad input by intent (pdf-extract issue 129), so each page is caught
//! alone.

use crate::extract::document::{DecodeError, DocumentKind, Extracted};
use crate::extract::limits::ExtractLimits;
use crate::text::shortened;
use pdf_extract::{Document, PlainTextOutput, output_doc_page};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longest reason of the decoder, in characters.
const REASON_CHARS_MAX: usize = 160;

/// Reads a PDF.
pub fn read(bytes: &[u8], limits: &ExtractLimits) -> Result<Extracted, DecodeError> {
    let loaded = caught(|| Document::load_mem(bytes).map_err(|error| error.to_string()));
    let mut document = loaded.map_err(|reason| broken(&reason))?;
    if document.is_encrypted() {
        // Many are encrypted with no password, only to forbid printing.
        let opened = caught(|| document.decrypt("").map_err(|error| error.to_string()));
        opened.map_err(|_| DecodeError::Encrypted)?;
    }
    let numbers = caught(|| Ok(document.get_pages().into_keys().collect::<Vec<u32>>()));
    let numbers = numbers.map_err(|reason| broken(&reason))?;
    let mut read = Extracted::of(DocumentKind::Pdf);
    read.pages = u32::try_from(numbers.len()).ok();
    let (mut text, mut unread) = (String::new(), Vec::new());
    for number in numbers.iter().take(limits.pages_max) {
        if text.len() > limits.text_bytes_max {
            break;
        }
        text.push_str(&format!("[page {number}]\n"));
        match page(&document, *number) {
            Ok(page) => text.push_str(&tidied(&page)),
            Err(_) => unread.push(number.to_string()),
        }
    }
    if numbers.len() > limits.pages_max {
        read.cut = true;
    }
    if !unread.is_empty() && unread.len() == numbers.len() {
        return Err(broken("none of its pages can be read"));
    }
    if !unread.is_empty() {
        read.note(format!("pages that cannot be read: {}", unread.join(", ")));
    }
    read.text = Some(text);
    Ok(read)
}

fn page(document: &Document, number: u32) -> Result<String, String> {
    caught(|| {
        let mut text = String::new();
        let mut output = PlainTextOutput::new(&mut text);
        output_doc_page(document, &mut output, number).map_err(|error| error.to_string())?;
        Ok(text)
    })
}

/// Returns lines without the blanks around them, and no two empty ones in a row.
fn tidied(page: &str) -> String {
    let mut text = String::new();
    for line in page.lines().map(str::trim) {
        if !line.is_empty() || !text.ends_with("\n\n") && !text.is_empty() {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err("its decoder gave up".to_owned()))
}

fn broken(reason: &str) -> DecodeError {
    DecodeError::Broken(shortened(reason, REASON_CHARS_MAX))
}
