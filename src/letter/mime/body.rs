//! Selects the parts of a letter that are its readable text, and joins them.

use super::attachments::{self, AttachmentSource, declared_name};
use super::enclosed::{self, EnclosedLetter, Unpacked};
use super::limits::ParseLimits;
use super::structure;
use super::structure::{Kind, Part};
use super::stub;
use super::text::html::{self, Fidelity};

/// The readable text of a letter, and its other parts.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Every inline `text/plain` part outside forwarded messages, joined.
    pub(super) plain: String,
    /// Every inline `text/html` part outside forwarded messages, joined.
    pub(super) html: Option<String>,
    /// Readable text of the letter itself: of alternatives the plain one, of HTML its text.
    pub(super) own: String,
    /// Forwarded messages, rendered with their own headers, in order.
    pub(super) forwarded: Vec<String>,
    /// The letter's own attachments, in order.
    pub(super) attachments: Vec<AttachmentSource>,
    /// Attachments of forwarded messages.
    pub(super) inner_attachments: Vec<AttachmentSource>,
    /// Some HTML was stripped of its tags without being understood.
    pub(super) html_stripped: bool,
    /// Where the text comes from, when not from where a reader would look first; one phrase each.
    pub(super) sources: Vec<&'static str>,
}

/// Phrases of [`Body::sources`]; the context report shows those that begin like this.
const FROM_HTML: &str = "read from its HTML, because its plain text is only a stub";
const FROM_SIGNED: &str = "read out of a signed S/MIME part, whose signature is not checked";
const FROM_OUTLOOK: &str = "read out of winmail.dat";

/// Reads the parts of a letter, `depth` containers deep.
pub(super) fn read(parts: &[Part<'_>], limits: &ParseLimits, depth: usize) -> Body {
    let mut reader = BodyReader {
        parts,
        limits,
        texts: Vec::new(),
        opened: Vec::new(),
        body: Body::default(),
    };
    for part in parts {
        let text = is_inline_text(part).then(|| enclosed::without_armour(&structure::text(part)));
        reader.texts.push(text);
        reader
            .opened
            .push(enclosed::open(part, limits, depth, inside));
    }
    let own = reader.readable(0, true);
    reader.body.own = joined([own]);
    if reader.body.own.is_empty() && reader.body.forwarded.is_empty() {
        reader.body.own = reader.text_of_outlook();
    }
    reader.collect(0);
    reader.body
}

/// Reads the letter in a container.
fn inside(parts: &[Part<'_>], limits: &ParseLimits, depth: usize) -> EnclosedLetter {
    let read = read(parts, limits, depth);
    let listed = read.attachments.into_iter().chain(read.inner_attachments);
    EnclosedLetter {
        plain: read.plain,
        html: read.html,
        own: read.own,
        forwarded: read.forwarded,
        files: attachments::build(&[], parts, listed.collect()),
    }
}

/// Reports whether a part is text to be shown in place and not a file.
fn is_inline_text(part: &Part<'_>) -> bool {
    let is_text = matches!(part.media.as_str(), "text/plain" | "text/html");
    // A multipart without a single delimiter is shown as text (RFC 2046 has no rule for it).
    let is_broken = part.kind == Kind::Multipart && part.children.is_empty();
    (is_text || is_broken) && !is_file(part)
}

pub(super) fn is_file(part: &Part<'_>) -> bool {
    let disposition = part.fields.content_type("content-disposition");
    disposition.is_some_and(|d| d.is_attachment()) || !declared_name(part).is_empty()
}

struct BodyReader<'p> {
    parts: &'p [Part<'p>],
    limits: &'p ParseLimits,
    /// Decoded inline texts by part index.
    texts: Vec<Option<String>>,
    /// Containers by part index, opened.
    opened: Vec<Option<Unpacked>>,
    body: Body,
}

impl BodyReader<'_> {
    /// Returns the text of a part and of its children. Recursion is bounded by the depth limit of
    /// the walk.
    fn readable(&mut self, index: usize, is_own: bool) -> String {
        let Some(part) = self.parts.get(index) else {
            return String::new();
        };
        if let Some(Some(opened @ (Unpacked::Encrypted | Unpacked::Signed(_)))) =
            self.opened.get(index)
        {
            return match opened {
                Unpacked::Signed(contents) => {
                    let own = contents.own.clone();
                    let forwarded = contents.forwarded.clone();
                    self.note(FROM_SIGNED);
                    if is_own {
                        self.body.forwarded.extend(forwarded);
                        return own;
                    }
                    joined(std::iter::once(own).chain(forwarded))
                }
                _ => enclosed::ENCRYPTED.to_owned(),
            };
        }
        match part.kind {
            Kind::Message => {
                let rendered = self.forwarded(index);
                if is_own {
                    self.body.forwarded.push(rendered);
                    return String::new();
                }
                rendered
            }
            Kind::Multipart if part.is_multipart("alternative") => {
                let child = self.best_alternative(&part.children);
                child
                    .map(|child| self.readable(child, is_own))
                    .unwrap_or_default()
            }
            Kind::Multipart if !part.children.is_empty() => {
                let texts: Vec<String> = part
                    .children
                    .iter()
                    .map(|child| self.readable(*child, is_own))
                    .collect();
                joined(texts)
            }
            _ => self.leaf(index),
        }
    }

    fn leaf(&mut self, index: usize) -> String {
        let (Some(part), Some(Some(text))) = (self.parts.get(index), self.texts.get(index)) else {
            return String::new();
        };
        if part.media != "text/html" {
            return text.clone();
        }
        let (readable, fidelity) = html::to_text(text, self.limits);
        self.body.html_stripped |= fidelity == Fidelity::Stripped;
        readable
    }

    fn note(&mut self, source: &'static str) {
        if !self.body.sources.contains(&source) {
            self.body.sources.push(source);
        }
    }

    /// Text that Outlook packed, for a letter that has none beside it.
    fn text_of_outlook(&mut self) -> String {
        let packed = self
            .opened
            .iter()
            .flatten()
            .filter_map(|opened| match opened {
                Unpacked::Outlook { contents, .. } => Some(contents.own.clone()),
                _ => None,
            });
        let text = joined(packed.collect::<Vec<_>>());
        if !text.is_empty() {
            self.note(FROM_OUTLOOK);
        }
        text
    }

    /// Returns the alternative to read: the first with plain text, unless it is a stub, else the last with any text (RFC
    /// 2046 section 5.1.4 puts the richest last).
    fn best_alternative(&mut self, children: &[usize]) -> Option<usize> {
        let plain = children
            .iter()
            .find(|child| self.has_words(**child, "text/plain"))
            .copied();
        let rich = children
            .iter()
            .rev()
            .find(|child| self.has_words(**child, "text/html"))
            .copied();
        let (Some(stub), Some(full)) = (plain, rich.filter(|rich| Some(*rich) != plain)) else {
            return plain.or(rich).or(children.first().copied());
        };
        let said = self.texts_below(stub, "text/plain");
        let is_stub = stub::may_be(&said) && {
            let html = self.texts_below(full, "text/html");
            stub::is(&said, &html::to_text(&html, self.limits).0)
        };
        if is_stub {
            self.note(FROM_HTML);
        }
        Some(if is_stub { full } else { stub })
    }

    /// Texts of that media type in a part and below it, joined.
    fn texts_below(&self, index: usize, media: &str) -> String {
        let (mut found, mut pending) = (Vec::new(), vec![index]);
        while let Some(index) = pending.pop() {
            let Some(part) = self.parts.get(index) else {
                continue;
            };
            let text = self.texts.get(index).and_then(Option::as_ref);
            found.extend(text.filter(|_| part.media == media).cloned());
            pending.extend(part.children.iter().rev());
        }
        found.join("\n")
    }

    fn has_words(&self, index: usize, media: &str) -> bool {
        let Some(part) = self.parts.get(index) else {
            return false;
        };
        let own = self.texts.get(index).and_then(Option::as_ref);
        let says = own.is_some_and(|text| part.media == media && !text.trim().is_empty());
        says || part
            .children
            .iter()
            .any(|child| self.has_words(*child, media))
    }

    /// Renders a forwarded message: its headers, its text, the names of its files.
    fn forwarded(&mut self, index: usize) -> String {
        let child = self
            .parts
            .get(index)
            .and_then(|part| part.children.first())
            .copied();
        let Some(inner) = child.and_then(|child| self.parts.get(child)) else {
            return String::new();
        };
        let mut lines = vec!["---------- Forwarded message ----------".to_owned()];
        for (name, title) in [
            ("from", "From"),
            ("date", "Date"),
            ("subject", "Subject"),
            ("to", "To"),
            ("cc", "Cc"),
        ] {
            if let Some(value) = inner.fields.text(name).filter(|v| !v.is_empty()) {
                lines.push(format!("{title}: {value}"));
            }
        }
        let text = child
            .map(|child| self.readable(child, false))
            .unwrap_or_default();
        let end = "---------- End of forwarded message ----------";
        format!(
            "{}\n\n{}\n\n{end}",
            lines.join("\n"),
            text.trim_matches('\n')
        )
    }

    /// Fills the plain and HTML bodies and the lists of attachments, in the order of the parts.
    fn collect(&mut self, root: usize) {
        let mut plain = Vec::new();
        let mut html = Vec::new();
        let mut pending = vec![(root, false)];
        while let Some((index, is_inner)) = pending.pop() {
            let Some(part) = self.parts.get(index) else {
                continue;
            };
            let inside_message = is_inner || part.kind == Kind::Message;
            pending.extend(
                part.children
                    .iter()
                    .rev()
                    .map(|child| (*child, inside_message)),
            );
            let list = if is_inner {
                &mut self.body.inner_attachments
            } else {
                &mut self.body.attachments
            };
            let opened = self.opened.get_mut(index).and_then(Option::take);
            if let Some((contents, replaces)) = opened.and_then(taken_out) {
                list.extend(contents.files.into_iter().map(AttachmentSource::File));
                if !is_inner {
                    plain.push(contents.plain);
                    html.extend(contents.html);
                }
                if replaces {
                    continue;
                }
            }
            match self.texts.get(index) {
                Some(Some(text)) if !is_inner && part.media == "text/html" => {
                    html.push(text.clone());
                }
                Some(Some(text)) if !is_inner => plain.push(text.clone()),
                Some(Some(_)) => {}
                _ if part.kind == Kind::Multipart => {}
                _ => list.push(AttachmentSource::Part(index)),
            }
        }
        self.body.plain = joined(plain);
        self.body.html = (!html.is_empty()).then(|| html.join("\n"));
    }
}

/// The contents of an opened container, and whether they stand for all of it.
fn taken_out(opened: Unpacked) -> Option<(EnclosedLetter, bool)> {
    match opened {
        Unpacked::Signed(contents) => Some((contents, true)),
        Unpacked::Outlook { contents, is_whole } => Some((contents, is_whole)),
        Unpacked::Encrypted => None,
    }
}

/// Joins texts with a blank line between them; blank texts and blank edges are left out.
pub(super) fn joined(texts: impl IntoIterator<Item = String>) -> String {
    let blank_edges = |text: String| {
        let start = text
            .find(|c: char| !c.is_whitespace())
            .unwrap_or(text.len());
        let start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        text[start..].trim_end().to_owned()
    };
    let texts: Vec<String> = texts
        .into_iter()
        .map(blank_edges)
        .filter(|t| !t.is_empty())
        .collect();
    texts.join("\n\n")
}
