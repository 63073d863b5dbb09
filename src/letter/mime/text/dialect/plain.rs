//! The plain alternative: what mail programs without HTML, notifications and readers for the blind show. It has no marks but those of
//! a typed letter; backticks round code are among them.

use super::inline::{Inline, Style};
use super::{Alignment, LetterFooter, LetterPart, read_footed};
use unicode_width::UnicodeWidthStr;

/// Columns of a cell that are filled up.
const CELL_WIDTH_MAX: usize = 60;

/// Renders a letter as plain text. Lines are not wrapped.
pub fn letter_to_plain(text: &str) -> String {
    footed_plain(text, &LetterFooter::default())
}

/// Renders a letter as [`letter_to_plain`] does, with what is added below it.
pub fn footed_plain(text: &str, footer: &LetterFooter) -> String {
    let found = read_footed(text, footer);
    // An answer that is data alone is for a program.
    let mut plain = match found.as_slice() {
        [LetterPart::Code { text, .. }] => text.clone(),
        all => blocks(all).join("\n"),
    };
    plain.push('\n');
    plain
}

/// Lines of the blocks, with a blank one between two of them.
fn blocks(found: &[LetterPart]) -> Vec<String> {
    let mut all = Vec::new();
    for (index, block) in found.iter().enumerate() {
        if index > 0 {
            all.push(String::new());
        }
        match block {
            LetterPart::Paragraph(words) | LetterPart::Heading(words) => {
                all.extend(lines(&inline(words)));
            }
            LetterPart::Code { text, .. } => {
                all.extend(text.split('\n').map(|line| indented(line, "    ")));
            }
            LetterPart::Closing(inner) => {
                all.push("-- ".to_owned());
                all.extend(blocks(inner));
            }
            LetterPart::Original(original) => {
                all.push(original.attribution.clone());
                all.extend(original.text.lines().map(|line| match line {
                    "" => ">".to_owned(),
                    deeper if deeper.starts_with('>') => format!(">{deeper}"),
                    line => format!("> {line}"),
                }));
            }
            LetterPart::Rule => all.push("---".to_owned()),
            LetterPart::Quote(inner) => {
                let quoted = |line: String| format!("> {line}").trim_end().to_owned();
                all.extend(blocks(inner).into_iter().map(quoted));
            }
            LetterPart::List(items) => {
                let is_loose = items.iter().any(|item| {
                    item.blocks
                        .iter()
                        .skip(1)
                        .any(|block| matches!(block, LetterPart::Paragraph(_)))
                });
                for (index, item) in items.iter().enumerate() {
                    if is_loose && index > 0 {
                        all.push(String::new());
                    }
                    let mark = item
                        .number
                        .map_or("- ".to_owned(), |number| format!("{number}. "));
                    let blanks = " ".repeat(mark.len());
                    // A list within an item follows its words at once.
                    let inner = item.blocks.iter().enumerate().flat_map(|(index, block)| {
                        let is_apart = index > 0 && matches!(block, LetterPart::Paragraph(_));
                        let gap = is_apart.then(String::new);
                        gap.into_iter().chain(blocks(std::slice::from_ref(block)))
                    });
                    all.extend(inner.enumerate().map(|(index, line)| {
                        indented(&line, if index == 0 { &mark } else { &blanks })
                    }));
                }
            }
            LetterPart::Table { columns, rows } => all.extend(table(columns, rows)),
            LetterPart::Signature(text) => {
                all.push("-- ".to_owned());
                all.extend(lines(text));
            }
        }
    }
    all
}

fn lines(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(str::to_owned)
}

fn indented(line: &str, by: &str) -> String {
    match line.is_empty() {
        true => by.trim_end().to_owned(),
        false => format!("{by}{line}"),
    }
}

fn inline(words: &[Inline]) -> String {
    let mut text = String::new();
    for part in words {
        match part {
            Inline::Text(words) => text.push_str(words),
            // A command or a path is seen to end where it ends.
            Inline::Code(words) => {
                let ticks = if words.contains('`') { "``" } else { "`" };
                text.push_str(&format!("{ticks}{words}{ticks}"));
            }
            // Without its marks a price that no longer holds would read as one that does.
            Inline::Open(Style::Struck) | Inline::Close(Style::Struck) => text.push_str("~~"),
            Inline::Open(_) | Inline::Close(_) | Inline::Link(_) => {}
            Inline::LinkEnd(link) => {
                let target = link.target.strip_prefix("mailto:").unwrap_or(&link.target);
                match &link.hidden {
                    Some(place) if place != target => {
                        text.push_str(&format!(" ({place}) ({target})"));
                    }
                    Some(_) => text.push_str(&format!(" ({target})")),
                    None if link.is_bare => {}
                    None => text.push_str(&format!(" ({target})")),
                }
            }
        }
    }
    text
}

/// Lines of a table whose columns stand below each other.
fn table(columns: &[Alignment], rows: &[Vec<Vec<Inline>>]) -> Vec<String> {
    let cells = |row: &Vec<Vec<Inline>>| {
        row.iter()
            .map(|cell| inline(cell).replace('\n', " / "))
            .collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let width = |column: usize| {
        let widths = rows
            .iter()
            .map(|row| row[column].width().min(CELL_WIDTH_MAX));
        widths.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut all: Vec<String> = Vec::new();
    for row in &rows {
        let cells = row
            .iter()
            .zip(&widths)
            .zip(columns)
            .map(|((cell, width), alignment)| {
                let missing = width.saturating_sub(cell.width());
                let left = match alignment {
                    Alignment::Left => 0,
                    Alignment::Center => missing / 2,
                    Alignment::Right => missing,
                };
                format!("{}{cell}{}", " ".repeat(left), " ".repeat(missing - left))
            });
        all.push(cells.collect::<Vec<_>>().join("  ").trim_end().to_owned());
        if all.len() == 1 {
            let dashes = widths.iter().map(|width| "-".repeat((*width).max(1)));
            all.push(dashes.collect::<Vec<_>>().join("  "));
        }
    }
    all
}
