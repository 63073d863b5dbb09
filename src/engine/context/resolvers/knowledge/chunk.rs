//! Splits a text into pieces that can be found and quoted separately. Pure.

use crate::mime;
use crate::store::KnowledgeChunk;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// Most characters of one piece; about a third of a page.
pub const CHUNK_CHARS_MAX: usize = 1500;
/// Separator of the headings of a piece.
pub const TRAIL_SEPARATOR: &str = " > ";
/// Most characters of one heading that are kept.
const HEADING_CHARS_MAX: usize = 120;

/// Kind of a file of knowledge, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnowledgeFormat {
    Markdown,
    Plain,
    /// Rows, the first of which names the columns.
    Table,
    Html,
    /// Read by the locked child, with marks of its pages, slides or sheets.
    Document,
}

/// Extensions, lower case.
const KINDS: [(&str, KnowledgeFormat); 12] = [
    ("md", KnowledgeFormat::Markdown),
    ("markdown", KnowledgeFormat::Markdown),
    ("txt", KnowledgeFormat::Plain),
    ("csv", KnowledgeFormat::Table),
    ("html", KnowledgeFormat::Html),
    ("htm", KnowledgeFormat::Html),
    ("pdf", KnowledgeFormat::Document),
    ("docx", KnowledgeFormat::Document),
    ("odt", KnowledgeFormat::Document),
    ("pptx", KnowledgeFormat::Document),
    ("xlsx", KnowledgeFormat::Document),
    ("ods", KnowledgeFormat::Document),
];

impl KnowledgeFormat {
    /// Returns the kind by the file's name; `None`: such a file is not read.
    pub fn of(name: &str) -> Option<Self> {
        let (_, end) = name.rsplit_once('.')?;
        KINDS
            .iter()
            .find(|(known, _)| end.eq_ignore_ascii_case(known))
            .map(|(_, kind)| *kind)
    }

    /// Splits the text of a file of this kind.
    pub fn chunks(self, text: &str) -> Vec<KnowledgeChunk> {
        let mut found = Vec::new();
        match self {
            KnowledgeFormat::Markdown => return chunks(text),
            KnowledgeFormat::Plain => add_section(&mut found, "", text),
            KnowledgeFormat::Html => add_section(&mut found, "", &mime::html_to_text(text)),
            KnowledgeFormat::Table => add_table(&mut found, text),
            KnowledgeFormat::Document => add_pages(&mut found, text),
        }
        found
    }
}

/// Splits Markdown at its headings, and sections that are too long between paragraphs, lines or
/// words.
///
/// A heading counts only where it structures the file: not inside a code block, a quotation or a
/// list. A section without text gives a piece only if nothing stands below it, and then its heading
/// is the text.
pub fn chunks(markdown: &str) -> Vec<KnowledgeChunk> {
    let headings = headings(markdown);
    let first = headings
        .first()
        .map_or(markdown.len(), |heading| heading.range.start);
    let mut chunks = Vec::new();
    add_section(&mut chunks, "", &markdown[..first]);
    let mut trail: Vec<(HeadingLevel, String)> = Vec::new();
    for (index, heading) in headings.iter().enumerate() {
        trail.retain(|(level, _)| *level < heading.level);
        trail.push((heading.level, heading.text.clone()));
        let next = headings.get(index + 1);
        let end = next.map_or(markdown.len(), |next| next.range.start);
        let names: Vec<&str> = trail.iter().map(|(_, text)| text.as_str()).collect();
        let names = names.join(TRAIL_SEPARATOR);
        let is_leaf = next.is_none_or(|next| next.level <= heading.level);
        let body = markdown[heading.range.end..end].trim();
        add_section(
            &mut chunks,
            &names,
            if body.is_empty() && is_leaf {
                &heading.text
            } else {
                body
            },
        );
    }
    chunks
}

struct Heading {
    level: HeadingLevel,
    text: String,
    /// Position in the file, Markdown marks included.
    range: Range<usize>,
}

fn headings(markdown: &str) -> Vec<Heading> {
    // Without this option the last line of a file's front matter would be read as an underlined
    // heading.
    let parser = Parser::new_ext(markdown, Options::ENABLE_YAML_STYLE_METADATA_BLOCKS);
    let mut headings: Vec<Heading> = Vec::new();
    let (mut depth, mut inside) = (0_usize, false);
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                headings.push(Heading {
                    level,
                    text: String::new(),
                    range,
                });
                (depth, inside) = (1, true);
            }
            Event::End(TagEnd::Heading(_)) if depth == 1 => (depth, inside) = (0, false),
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(text) | Event::Code(text) if inside => {
                if let Some(heading) = headings.last_mut() {
                    let room = HEADING_CHARS_MAX.saturating_sub(heading.text.chars().count());
                    heading.text.extend(text.chars().take(room));
                }
            }
            _ => {}
        }
    }
    headings
}

fn add_section(chunks: &mut Vec<KnowledgeChunk>, heading: &str, body: &str) {
    let mut rest = body.trim();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(piece_end(rest, CHUNK_CHARS_MAX));
        chunks.push(KnowledgeChunk {
            heading: heading.to_owned(),
            body: piece.trim_end().to_owned(),
        });
        rest = more.trim_start();
    }
}

/// Adds the text of each page, slide or sheet below the name of that, as `[page 2]` on a line of its own says it.
fn add_pages(chunks: &mut Vec<KnowledgeChunk>, text: &str) {
    let (mut heading, mut body) = ("", String::new());
    for line in text.lines() {
        let mark = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let is_page = |mark: &&str| {
            ["page ", "slide ", "sheet "]
                .iter()
                .any(|kind| mark.starts_with(kind))
        };
        match mark.filter(is_page) {
            Some(mark) => {
                add_section(chunks, heading, &body);
                (heading, body) = (mark, String::new());
            }
            None => {
                body.push_str(line);
                body.push('\n');
            }
        }
    }
    add_section(chunks, heading, &body);
}

/// Adds the rows in pieces, each below the names of the columns: a row alone does not say what its
/// numbers are.
fn add_table(chunks: &mut Vec<KnowledgeChunk>, text: &str) {
    let (names, rows) = text.trim_start().split_once('\n').unwrap_or((text, ""));
    let names = names.trim_end();
    let room = CHUNK_CHARS_MAX.saturating_sub(names.chars().count() + 1);
    // Column names that leave no room for rows are treated as plain text.
    if room < CHUNK_CHARS_MAX / 4 || rows.trim().is_empty() {
        return add_section(chunks, "", text);
    }
    let mut rest = rows.trim();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(piece_end(rest, room));
        chunks.push(KnowledgeChunk {
            heading: String::new(),
            body: format!("{names}\n{}", piece.trim_end()),
        });
        rest = more.trim_start();
    }
}

/// Returns the end of the first piece of a text: at the last paragraph, line or word that fits, or
/// in the middle of a word.
fn piece_end(text: &str, chars_max: usize) -> usize {
    let Some((limit, _)) = text.char_indices().nth(chars_max) else {
        return text.len();
    };
    let window = &text[..limit];
    // A break near the beginning would leave a tiny piece.
    let late = |at: &usize| *at > limit / 4;
    let breaks = ["\n\n", "\n", " "]
        .into_iter()
        .find_map(|mark| window.rfind(mark).filter(late));
    breaks.unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(markdown: &str) -> Vec<(String, String)> {
        chunks(markdown)
            .into_iter()
            .map(|c| (c.heading, c.body))
            .collect()
    }

    #[test]
    fn a_file_is_cut_at_its_headings_and_each_piece_knows_its_trail() {
        let markdown = "---\ntitle: x\n---\nIntro.\n\n# Rooms\n\n## Breakfast `early`\nFrom 7.\n\n```\n# not one\n```\n\
                        > # nor this\n\n### Sunday\nFrom 8.\n\nHouse rules\n===\n\n## No smoking\n\n## Quiet\nAfter 22.";
        let wanted = [
            ("", "---\ntitle: x\n---\nIntro."),
            (
                "Rooms > Breakfast early",
                "From 7.\n\n```\n# not one\n```\n> # nor this",
            ),
            ("Rooms > Breakfast early > Sunday", "From 8."),
            ("House rules > No smoking", "No smoking"),
            ("House rules > Quiet", "After 22."),
        ];
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(h, b)| ((*h).to_owned(), (*b).to_owned()))
            .collect();
        assert_eq!(pairs(markdown), wanted);
        assert_eq!(pairs(" \n\n"), []);
    }

    #[test]
    fn every_piece_of_a_table_has_the_names_of_its_columns() {
        let rows: String = (0..300).map(|n| format!("room {n},{n}\n")).collect();
        let pieces = KnowledgeFormat::Table.chunks(&format!("Room,Price\n{rows}"));
        assert!(pieces.len() > 1);
        for piece in &pieces {
            assert!(
                piece.body.starts_with("Room,Price\nroom "),
                "{}",
                piece.body
            );
            assert!(piece.body.chars().count() <= CHUNK_CHARS_MAX);
        }
        let lines = pieces
            .iter()
            .map(|piece| piece.body.lines().count() - 1)
            .sum::<usize>();
        assert_eq!(lines, 300);
    }

    #[test]
    fn pages_of_a_document_are_headings() {
        let text = "Title\n[page 1]\nOne [2].\n[page 2]\n\n[sheet Prices (hidden)]\n[9]\n";
        let pieces = KnowledgeFormat::Document.chunks(text);
        let pairs: Vec<_> = pieces
            .iter()
            .map(|p| (p.heading.as_str(), p.body.as_str()))
            .collect();
        let wanted = [
            ("", "Title"),
            ("page 1", "One [2]."),
            ("sheet Prices (hidden)", "[9]"),
        ];
        assert_eq!(pairs, wanted);
    }

    #[test]
    fn a_long_section_is_cut_by_paragraphs_then_lines_then_words() {
        let paragraph = "word ".repeat(200);
        let lengths = |text: &str| {
            chunks(text)
                .iter()
                .map(|c| c.body.chars().count())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            lengths(&format!("# A\n{paragraph}\n\n{paragraph}\n")),
            [999, 999]
        );
        assert_eq!(
            lengths(&format!("# A\n{}", "ä".repeat(3100))),
            [1500, 1500, 100]
        );
        let lines = format!("{}\n", "x".repeat(99)).repeat(30);
        assert_eq!(lengths(&lines), [1499, 1499]);
    }

    proptest! {
        #[test]
        fn a_text_without_headings_loses_nothing(text in "([a-zäß .]{0,90}\n){0,90}") {
            let squeezed = |t: &str| t.split_whitespace().collect::<String>();
            let joined: String = chunks(&text).iter().map(|c| squeezed(&c.body)).collect();
            prop_assert_eq!(joined, squeezed(&text));
        }

        #[test]
        fn any_text_gives_pieces_of_bounded_size(text in "([#=`>\\-*|_<a-zä0-9\t ]{0,30}\n?){0,80}") {
            for piece in chunks(&text) {
                prop_assert!(!piece.body.trim().is_empty());
                prop_assert!(piece.body.chars().count() <= CHUNK_CHARS_MAX);
                prop_assert!(piece.heading.chars().count() <= 6 * (HEADING_CHARS_MAX + TRAIL_SEPARATOR.len()));
            }
        }
    }
}
