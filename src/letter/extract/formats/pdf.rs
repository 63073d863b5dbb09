//! Text of PDF, page by page. The decoder panics on bad input by intent (pdf-extract issue 129), so each page is caught
//! alone.

use crate::extract::document::{DecodeError, DocumentKind, Extracted};
use crate::extract::limits::ExtractLimits;
use crate::text::shortened;
use pdf_extract::{Document, Object, PlainTextOutput, decode_text_string, output_doc_page};
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
    let mut read = Extracted::empty(DocumentKind::Pdf);
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
    let form = caught(|| Ok(form(&document))).unwrap_or_default();
    if !form.is_empty() && text.len() <= limits.text_bytes_max {
        text.push_str(&format!("[form]\n{form}"));
    }
    read.text = Some(text);
    Ok(read)
}

/// Fields of a form that are read, and how deep they are within each other.
const FIELDS_MAX: usize = 1000;
const FIELD_DEPTH_MAX: usize = 8;

/// Returns what was filled into a form, a line for each field (ISO 32000-1, section 12.7.3). Pages show it by pictures of their own,
/// which the decoder does not read.
fn form(document: &Document) -> String {
    let fields = document
        .catalog()
        .and_then(|catalog| catalog.get_deref(b"AcroForm", document))
        .and_then(Object::as_dict)
        .and_then(|form| form.get_deref(b"Fields", document))
        .and_then(Object::as_array);
    let Ok(fields) = fields else {
        return String::new();
    };
    let mut lines = String::new();
    let mut pending: Vec<(&Object, String, usize)> = fields
        .iter()
        .rev()
        .map(|field| (field, String::new(), 0))
        .collect();
    for _ in 0..FIELDS_MAX {
        let Some((field, parent, depth)) = pending.pop() else {
            break;
        };
        let Some(field) = document
            .dereference(field)
            .ok()
            .and_then(|(_, field)| field.as_dict().ok())
        else {
            continue;
        };
        let own = field
            .get_deref(b"T", document)
            .ok()
            .and_then(shown)
            .unwrap_or_default();
        let name = match (parent.is_empty(), own.is_empty()) {
            (false, false) => format!("{parent}.{own}"),
            (true, _) => own,
            (false, true) => parent,
        };
        if let Some(value) = field
            .get_deref(b"V", document)
            .ok()
            .and_then(shown)
            .filter(|value| !value.is_empty())
        {
            lines.push_str(&format!("{name}: {value}\n"));
        }
        if let Ok(kids) = field
            .get_deref(b"Kids", document)
            .and_then(Object::as_array)
            && depth < FIELD_DEPTH_MAX
        {
            pending.extend(kids.iter().rev().map(|kid| (kid, name.clone(), depth + 1)));
        }
    }
    lines
}

/// The text of a field; `None` for a box that is not ticked.
fn shown(value: &Object) -> Option<String> {
    match value {
        Object::String(..) => decode_text_string(value).ok(),
        Object::Name(name) if name == b"Off" => None,
        Object::Name(name) => Some(String::from_utf8_lossy(name).into_owned()),
        Object::Array(values) => {
            let all: Vec<String> = values
                .iter()
                .take(FIELDS_MAX)
                .filter_map(shown_one)
                .collect();
            Some(all.join(", "))
        }
        _ => None,
    }
}

fn shown_one(value: &Object) -> Option<String> {
    match value {
        Object::Array(_) => None,
        value => shown(value),
    }
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
