//! Word and PowerPoint files (ECMA-376) and texts of OpenDocument: the words of their XML, with what is marked as deleted,
//! commented or hidden marked as such.

use super::markup::{Markup, attribute, walk};
use super::zip_file::ZipFile;
use crate::extract::document::{DecodeError, DocumentKind, Extracted};
use crate::extract::limits::ExtractLimits;

/// Headers, footers and notes that are read.
const EXTRAS_MAX: usize = 50;
const DELETED: &str = "text between `[deleted:` and `]` was struck out by an author";

/// Reads a docx, pptx or odt.
pub fn read(
    kind: DocumentKind,
    bytes: &[u8],
    limits: &ExtractLimits,
) -> Result<Extracted, DecodeError> {
    let mut archive = ZipFile::open(bytes, limits)?;
    let mut read = Extracted::empty(kind);
    let text = match kind {
        DocumentKind::Docx => docx(&mut archive, &mut read)?,
        DocumentKind::Pptx => pptx(&mut archive, &mut read, limits)?,
        _ => odt(&mut archive, &mut read)?,
    };
    read.text = Some(text);
    Ok(read)
}

fn missing(name: &str) -> DecodeError {
    DecodeError::Broken(format!("it has no `{name}`"))
}

fn docx(archive: &mut ZipFile<'_>, read: &mut Extracted) -> Result<String, DecodeError> {
    const DOCUMENT: &str = "word/document.xml";
    let document = archive.file(DOCUMENT)?.ok_or_else(|| missing(DOCUMENT))?;
    let mut words = WordText::default();
    walk(&document, |step| words.take(step))?;
    let has_deleted = words.has_deleted;
    if words.pages > 0 {
        read.pages = Some(words.pages + 1);
    }
    let mut text = words.text;
    let title = |name: &str| {
        let part = name.strip_prefix("word/")?.strip_suffix(".xml")?;
        let titles = ["header", "footer", "footnotes", "endnotes", "comments"];
        let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
        titles
            .into_iter()
            .find(|title| part.strip_prefix(title).is_some_and(is_number))
    };
    let names = archive.names();
    let mut extras: Vec<_> = names
        .iter()
        .filter_map(|name| Some((title(name)?, name)))
        .collect();
    extras.sort_unstable();
    let mut shown = Vec::new();
    for (title, name) in extras.into_iter().take(EXTRAS_MAX) {
        let Some(xml) = archive.file(name)? else {
            continue;
        };
        let mut words = WordText::default();
        walk(&xml, |step| words.take(step))?;
        // Each section of a document has its own header, mostly of the same words.
        if !words.text.trim().is_empty() && !shown.contains(&words.text) {
            text.push_str(&format!("\n[{title}]\n{}", words.text));
            shown.push(words.text);
        }
    }
    if has_deleted {
        read.note(DELETED);
    }
    Ok(text)
}

/// Text of WordprocessingML (ECMA-376 part 1, section 17).
#[derive(Default)]
struct WordText {
    text: String,
    /// Pages that have ended, as the program that saved the file has set them.
    pages: u32,
    has_deleted: bool,
    in_deleted: usize,
    in_text: usize,
    /// A second form of a drawing, for programs that know only the old one (ECMA-376 part 3, section 10.2).
    in_fallback: usize,
    in_run: bool,
    /// The run is text that no reader sees.
    is_hidden: bool,
}

impl WordText {
    fn take(&mut self, step: Markup<'_>) {
        match step {
            Markup::Begin("Fallback", _) => self.in_fallback += 1,
            Markup::End("Fallback") => self.in_fallback = self.in_fallback.saturating_sub(1),
            _ if self.in_fallback > 0 => {}
            // Codes of fields (`instrText`) are for programs.
            Markup::Begin("t" | "delText", _) => {
                self.in_text += 1;
                if self.is_hidden {
                    self.text.push_str("[hidden: ");
                }
            }
            Markup::End("t" | "delText") => {
                self.in_text = self.in_text.saturating_sub(1);
                if self.is_hidden {
                    self.text.push(']');
                }
            }
            Markup::Begin("r", _) => (self.in_run, self.is_hidden) = (true, false),
            Markup::End("r") => (self.in_run, self.is_hidden) = (false, false),
            Markup::Begin("vanish", element) if self.in_run => {
                let value = attribute(element, "val");
                self.is_hidden = !matches!(value.as_deref(), Some("0" | "false" | "off"));
            }
            Markup::Begin("del", _) => {
                self.in_deleted += 1;
                self.has_deleted = true;
                self.text.push_str("[deleted: ");
            }
            Markup::End("del") => {
                self.in_deleted = self.in_deleted.saturating_sub(1);
                self.text.push(']');
            }
            Markup::Begin("tab", _) => self.text.push('\t'),
            Markup::Begin("lastRenderedPageBreak", _) => {
                self.pages += 1;
                self.text
                    .push_str(&format!("\n[page {}]\n", self.pages + 1));
            }
            Markup::Begin("br" | "cr", _) | Markup::End("p" | "tr") => self.text.push('\n'),
            Markup::End("tc") => {
                // A cell ends with a paragraph.
                if self.text.ends_with('\n') {
                    self.text.pop();
                }
                self.text.push('\t');
            }
            Markup::Text(text) if self.in_text > 0 => self.text.push_str(text),
            _ => {}
        }
    }
}

fn pptx(
    archive: &mut ZipFile<'_>,
    read: &mut Extracted,
    limits: &ExtractLimits,
) -> Result<String, DecodeError> {
    let number = |name: &str| -> Option<u32> {
        let number = name
            .strip_prefix("ppt/slides/slide")?
            .strip_suffix(".xml")?;
        number.parse().ok()
    };
    let mut slides: Vec<u32> = archive
        .names()
        .iter()
        .filter_map(|name| number(name))
        .collect();
    slides.sort_unstable();
    slides.dedup();
    read.pages = u32::try_from(slides.len()).ok();
    if slides.len() > limits.pages_max {
        slides.truncate(limits.pages_max);
        read.cut = true;
    }
    let mut text = String::new();
    for slide in slides {
        let Some(xml) = archive.file(&format!("ppt/slides/slide{slide}.xml"))? else {
            continue;
        };
        let mut drawn = DrawnText::default();
        walk(&xml, |step| drawn.take(step))?;
        let hidden = if drawn.is_hidden { " (hidden)" } else { "" };
        text.push_str(&format!(
            "[slide {slide}{hidden}]\n{}\n",
            drawn.text.trim_end()
        ));
        if let Some(xml) = archive.file(&format!("ppt/notesSlides/notesSlide{slide}.xml"))? {
            let mut notes = DrawnText::default();
            walk(&xml, |step| notes.take(step))?;
            if !notes.text.trim().is_empty() {
                text.push_str(&format!(
                    "[notes of slide {slide}]\n{}\n",
                    notes.text.trim_end()
                ));
            }
        }
    }
    Ok(text)
}

/// Text of DrawingML (ECMA-376 part 1, section 21).
#[derive(Default)]
struct DrawnText {
    text: String,
    is_hidden: bool,
    in_text: usize,
}

impl DrawnText {
    fn take(&mut self, step: Markup<'_>) {
        match step {
            Markup::Begin("sld", element) => {
                self.is_hidden = attribute(element, "show").as_deref() == Some("0");
            }
            Markup::Begin("t", _) => self.in_text += 1,
            Markup::End("t") => self.in_text = self.in_text.saturating_sub(1),
            Markup::Begin("br", _) | Markup::End("p") => self.text.push('\n'),
            Markup::End("tc") => {
                if self.text.ends_with('\n') {
                    self.text.pop();
                }
                self.text.push('\t');
            }
            Markup::End("tr") => self.text.push('\n'),
            Markup::Text(text) if self.in_text > 0 => self.text.push_str(text),
            _ => {}
        }
    }
}

fn odt(archive: &mut ZipFile<'_>, read: &mut Extracted) -> Result<String, DecodeError> {
    const CONTENT: &str = "content.xml";
    if let Some(manifest) = archive.file("META-INF/manifest.xml")?
        && String::from_utf8_lossy(&manifest).contains("encryption-data")
    {
        return Err(DecodeError::Encrypted);
    }
    let content = archive.file(CONTENT)?.ok_or_else(|| missing(CONTENT))?;
    let mut open = OpenText::default();
    walk(&content, |step| open.take(step))?;
    if open.has_deleted {
        read.note(DELETED);
    }
    Ok(open.text)
}

/// Text of OpenDocument 1.3 (part 3, section 6).
#[derive(Default)]
struct OpenText {
    text: String,
    in_block: usize,
    has_deleted: bool,
}

impl OpenText {
    fn take(&mut self, step: Markup<'_>) {
        match step {
            Markup::Begin("p" | "h", _) => self.in_block += 1,
            Markup::End("p" | "h") => {
                self.in_block = self.in_block.saturating_sub(1);
                self.text.push('\n');
            }
            Markup::Begin("deletion", _) => {
                self.has_deleted = true;
                self.text.push_str("[deleted: ");
            }
            Markup::End("deletion") => {
                self.text.truncate(self.text.trim_end().len());
                self.text.push_str("]\n");
            }
            Markup::Begin("annotation", _) => self.text.push_str("[comment: "),
            Markup::End("annotation") => {
                self.text.truncate(self.text.trim_end().len());
                self.text.push(']');
            }
            Markup::Begin("tab", _) => self.text.push('\t'),
            Markup::Begin("s", _) => self.text.push(' '),
            Markup::Begin("line-break", _) => self.text.push('\n'),
            Markup::End("table-cell") => {
                if self.text.ends_with('\n') {
                    self.text.pop();
                }
                self.text.push('\t');
            }
            Markup::End("table-row") => self.text.push('\n'),
            Markup::Text(text) if self.in_block > 0 => self.text.push_str(text),
            _ => {}
        }
    }
}
