//! The dialect of letters: what a model or a person typed, as a list of blocks of which the two alternatives of a mail are made.
//!
//! It is Markdown as letters use it, and reads nothing as markup that a letter may mean: `3. Dezember` keeps its number, `3*4*5`
//! its stars and `C:\*.log` its backslash. What is not known here stays as it was typed: HTML, entities, link definitions, indented
//! code. CommonMark reads all of these otherwise, which is why a parser of it has no place here.
//!
//! - `inline`: emphasis, code, links and addresses within a text
//! - `html`, `plain`: the two alternatives, which show the same words

mod html;
mod inline;
mod plain;

pub use html::{footed_html, letter_to_html};
pub use plain::{footed_plain, letter_to_plain};

use crate::text::plural;
use inline::Inline;
use serde::{Deserialize, Serialize};

/// What the engine adds below the text of a letter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterFooter {
    /// Signature, in the dialect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The letter that is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<QuotedOriginal>,
}

/// A letter below its answer, as common programs quote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotedOriginal {
    /// `On …, … wrote:`.
    pub attribution: String,
    /// Its text; nothing in it is markup.
    pub text: String,
}

impl LetterFooter {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a text as its owner is shown it: with the signature, which takes the place of its own, and that a letter is quoted.
    pub fn shown(&self, text: &str) -> String {
        if is_data(&read(text)) {
            return text.to_owned();
        }
        let lines: Vec<&str> = text.lines().collect();
        let own = match signature_at(&lines).filter(|_| self.signature.is_some()) {
            Some(at) => lines[..at].join("\n").trim_end().to_owned(),
            None => text.to_owned(),
        };
        let signature = self.signature.iter();
        let signature = signature.map(|signature| format!("\n\n-- \n{signature}"));
        let original = self.original.iter().map(|original| {
            let lines = plural(original.text.lines().count(), "line");
            format!("\n\n{}\n> [the letter, {lines}]", original.attribution)
        });
        std::iter::once(own)
            .chain(signature)
            .chain(original)
            .collect()
    }
}

/// One part of a letter. Lines of a paragraph are parted by `\n`: who presses Enter means a new line.
#[derive(Debug, PartialEq, Eq)]
enum LetterPart {
    Paragraph(Vec<Inline>),
    Heading(Vec<Inline>),
    List(Vec<Item>),
    Quote(Vec<LetterPart>),
    /// Lines as they are; `is_words`: those of a letter, not of a program.
    Code {
        text: String,
        is_words: bool,
    },
    /// Cells of each row; the first row is the heading. All have as many cells as `columns`.
    Table {
        columns: Vec<Alignment>,
        rows: Vec<Vec<Vec<Inline>>>,
    },
    Rule,
    /// What follows `-- ` on a line of its own (RFC 3676, section 4.3).
    Signature(String),
    /// The signature of the footer.
    Closing(Vec<LetterPart>),
    /// The letter of the footer.
    Original(QuotedOriginal),
}

#[derive(Debug, PartialEq, Eq)]
struct Item {
    /// Of an item that is counted.
    number: Option<u32>,
    blocks: Vec<LetterPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alignment {
    Left,
    Center,
    Right,
}

/// Lists and quotes in each other; what is deeper is text.
const DEPTH_MAX: usize = 6;
/// A wider table is text.
const COLUMNS_MAX: usize = 20;
/// Lines after `--` without its blank, up to which it begins a signature.
const SIGNATURE_LINES_MAX: usize = 10;

/// Behind an opening fence: the words of a letter in a frame that they cannot leave, as owners are shown them.
const FRAME: &str = "letter";
/// Of the name behind an opening fence.
const LANGUAGE_BYTES_MAX: usize = 20;

/// An answer that is data alone is for a program, and has nothing below it.
fn is_data(found: &[LetterPart]) -> bool {
    matches!(
        found,
        [LetterPart::Code {
            is_words: false,
            ..
        }]
    )
}

/// Reads a letter and what is added to it. The signature of the footer takes the place of one that the text ends with.
fn read_footed(text: &str, footer: &LetterFooter) -> Vec<LetterPart> {
    let mut found = read(text);
    if is_data(&found) {
        return found;
    }
    if let Some(signature) = &footer.signature {
        found.retain(|part| !matches!(part, LetterPart::Signature(_)));
        let lines: Vec<&str> = signature.lines().collect();
        found.push(LetterPart::Closing(blocks(&lines, 0)));
    }
    found.extend(footer.original.clone().map(LetterPart::Original));
    found
}

/// Returns the line of the mark above the signature that a letter ends with. Takes time in proportion to its length.
fn signature_at(lines: &[&str]) -> Option<usize> {
    let is_mark = |at: usize| match lines[at] {
        "-- " => true,
        "--" => (1..=SIGNATURE_LINES_MAX).contains(&(lines.len() - at - 1)),
        _ => false,
    };
    // A mark with nothing before it or after it signs nothing.
    let is_text = |lines: &[&str]| lines.iter().any(|line| !line.trim().is_empty());
    let mut fence: Option<&str> = None;
    (0..lines.len()).find(|at| {
        match (fence, fence_of(lines[*at])) {
            (None, opened @ Some(_)) => fence = opened,
            (Some(open), _) if closes(lines[*at], open) => fence = None,
            _ => {}
        }
        fence.is_none() && is_mark(*at) && is_text(&lines[..*at]) && is_text(&lines[at + 1..])
    })
}

/// Reads a letter. Takes time in proportion to its length.
fn read(text: &str) -> Vec<LetterPart> {
    let lines: Vec<&str> = text.lines().collect();
    let signature = signature_at(&lines);
    let mut blocks = blocks(&lines[..signature.unwrap_or(lines.len())], 0);
    if let Some(at) = signature {
        blocks.push(LetterPart::Signature(
            lines[at + 1..].join("\n").trim_end().to_owned(),
        ));
    }
    blocks
}

fn blocks(lines: &[&str], depth: usize) -> Vec<LetterPart> {
    let mut found = Vec::new();
    let mut paragraph: Vec<&str> = Vec::new();
    // Lines up to here look like a list or a quotation and are none.
    let mut literal = 0;
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let mut next = at + 1;
        let block = if line.trim().is_empty() {
            end(&mut paragraph, &mut found);
            at = next;
            continue;
        } else if let Some(fence) = fence_of(line) {
            let rest = &lines[next..];
            let length = rest.iter().position(|line| closes(line, fence));
            next += length.map_or(rest.len(), |length| length + 1);
            Some(LetterPart::Code {
                text: rest[..length.unwrap_or(rest.len())].join("\n"),
                is_words: line.trim().trim_start_matches('`').trim() == FRAME,
            })
        } else if let Some(heading) = heading(line) {
            Some(LetterPart::Heading(inline::read(heading)))
        } else if is_rule(line) {
            Some(LetterPart::Rule)
        } else if let Some((table, length)) = table(&lines[at..]) {
            next = at + length;
            Some(table)
        } else if at >= literal && depth < DEPTH_MAX && line.starts_with('>') {
            let length = lines[at..].iter().take_while(|line| line.starts_with('>'));
            let length = length.count();
            let quoted = quoted(&lines[at..at + length]);
            (next, literal) = (at + length, at + length);
            quoted.map(|quoted| LetterPart::Quote(blocks(&quoted, depth + 1)))
        } else if at >= literal && depth < DEPTH_MAX && mark(line).is_some() {
            let (list, length) = list(&lines[at..], depth);
            (next, literal) = (at + length, at + length);
            list
        } else {
            None
        };
        match block {
            Some(block) => {
                end(&mut paragraph, &mut found);
                found.push(block);
                at = next;
            }
            None => {
                paragraph.push(line);
                at += 1;
            }
        }
    }
    end(&mut paragraph, &mut found);
    found
}

fn end(paragraph: &mut Vec<&str>, found: &mut Vec<LetterPart>) {
    if !paragraph.is_empty() {
        let lines: Vec<&str> = paragraph.iter().map(|line| line.trim_end()).collect();
        found.push(LetterPart::Paragraph(inline::read(&lines.join("\n"))));
        paragraph.clear();
    }
}

/// The backticks that open fenced code, without the name of its language. Tildes are an ornament in letters.
fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let length = line.len() - line.trim_start_matches('`').len();
    let name = line[length..].trim();
    let is_name = name.len() <= LANGUAGE_BYTES_MAX
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'#'));
    (length >= 3 && is_name).then(|| &line[..length])
}

fn closes(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.starts_with(fence) && line.trim_start_matches('`').is_empty()
}

/// The words of `# Heading`. `# 12` is the number of something.
fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    let words = rest.strip_prefix(' ')?.trim();
    let words = words.trim_end_matches('#').trim_end();
    let is_number = level == 1 && words.starts_with(|c: char| c.is_ascii_digit());
    ((1..=6).contains(&level) && !words.is_empty() && !is_number).then_some(words)
}

fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !c.is_whitespace());
    let first = marks.next().filter(|c| matches!(c, '-' | '*' | '_'));
    first.is_some_and(|first| line.matches(first).count() >= 3 && marks.all(|mark| mark == first))
}

/// What `> ` quotes. A sum or a number behind it is compared, not quoted: `> 100 €`.
fn quoted<'a>(lines: &[&'a str]) -> Option<Vec<&'a str>> {
    let inner = lines.iter().map(|line| &line[1..]);
    let inner: Vec<&str> = inner
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let compares =
        |line: &str| line.is_empty() || begins_with_number(line) || line.starts_with('=');
    let is_quotation = inner.iter().any(|line| !compares(line.trim_start()));
    is_quotation.then_some(inner)
}

fn begins_with_number(text: &str) -> bool {
    let is_sign = |c: char| {
        matches!(
            c,
            '€' | '$' | '£' | '¥' | '₹' | '-' | '+' | '.' | ',' | ' ' | '~' | '≈'
        )
    };
    text.trim_start_matches(is_sign)
        .starts_with(|c: char| c.is_numeric())
}

/// How an item begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ItemMark {
    indent: usize,
    number: Option<u32>,
    /// Bytes up to the words of the item.
    length: usize,
}

/// Reads `- ` and `3. `. `3) ` is not counted by mail programs in this form, so it stays text.
fn mark(line: &str) -> Option<ItemMark> {
    let words = line.trim_start_matches(' ');
    let indent = line.len() - words.len();
    let digits = words.bytes().take_while(u8::is_ascii_digit).count();
    let (number, mark) = match digits {
        0 => (
            None,
            words
                .chars()
                .next()
                .filter(|c| matches!(c, '-' | '*' | '+' | '•'))?
                .len_utf8(),
        ),
        1..=3 if words[digits..].starts_with('.') => (words[..digits].parse().ok(), digits + 1),
        _ => return None,
    };
    let blanks = words[mark..].len() - words[mark..].trim_start_matches(' ').len();
    let is_empty = words[mark..].trim().is_empty();
    ((1..=4).contains(&blanks) && !is_empty).then_some(ItemMark {
        indent,
        number,
        length: indent + mark + blanks,
    })
}

/// Reads the items from the first line on, and says how many lines they have. `None`: these lines are no list but begin with
/// numbers or dashes of their own.
fn list(lines: &[&str], depth: usize) -> (Option<LetterPart>, usize) {
    let Some(first) = mark(lines[0]) else {
        return (None, 1);
    };
    let mut items: Vec<(ItemMark, Vec<&str>)> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let indent = line.len() - line.trim_start_matches(' ').len();
        let begins = mark(line).filter(|mark| {
            mark.number.is_some() == first.number.is_some()
                && mark.indent < first.indent + 2
                && mark.indent + 2 > first.indent
                && !is_rule(line)
        });
        if let Some(mark) = begins {
            items.push((mark, vec![&line[mark.length..]]));
        } else if let Some((_, inside)) = items.last_mut()
            && indent >= first.indent + 2
            && !line.trim().is_empty()
        {
            inside.push(&line[(first.length).min(indent)..]);
        } else if line.trim().is_empty() {
            // Blank lines part items, and paragraphs of one.
            let next = lines[at..].iter().position(|line| !line.trim().is_empty());
            let next = next.map_or(lines.len(), |blank| at + blank);
            let goes_on = lines.get(next).is_some_and(|line| {
                line.starts_with(&" ".repeat(first.indent + 2))
                    || mark(line).is_some_and(|mark| {
                        mark.indent == first.indent
                            && mark.number.is_some() == first.number.is_some()
                    })
            });
            if !goes_on {
                break;
            }
            if let Some((_, inside)) = items.last_mut() {
                inside.push("");
            }
            at = next;
            continue;
        } else {
            break;
        }
        at += 1;
    }
    let is_counted = first.number.is_some_and(|first| {
        let mut counts = items.iter().zip(first..);
        first < 2 && counts.all(|((mark, _), number)| mark.number == Some(number))
    });
    let is_listed = first.number.is_none()
        && items
            .iter()
            .any(|(_, inside)| !begins_with_number(inside[0]));
    // One line alone is as well read as it was typed, and may be a signature or a date.
    let is_alone = items.len() == 1 && (is_counted || depth == 0 && items[0].1.len() == 1);
    if is_alone || !(is_counted || is_listed) {
        return (None, at);
    }
    let items = items.into_iter().map(|(mark, inside)| Item {
        number: mark.number,
        blocks: blocks(&inside, depth + 1),
    });
    (Some(LetterPart::List(items.collect())), at)
}

/// Reads a table: a heading, `| --- | ---: |`, and rows.
fn table(lines: &[&str]) -> Option<(LetterPart, usize)> {
    let (head, rule) = (lines.first()?, lines.get(1)?);
    if !head.contains('|') || !rule.contains('-') || !rule.contains('|') || rule.len() > 4000 {
        return None;
    }
    let column = |cell: &&str| {
        let dashes = cell.trim_matches(':');
        let is_rule = !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-');
        is_rule.then_some(match (cell.starts_with(':'), cell.ends_with(':')) {
            (true, true) => Alignment::Center,
            (false, true) => Alignment::Right,
            _ => Alignment::Left,
        })
    };
    let columns: Vec<Alignment> = cells(rule)
        .iter()
        .map(|cell| column(&cell.as_str()))
        .collect::<Option<_>>()?;
    if columns.len() > COLUMNS_MAX || cells(head).len() != columns.len() {
        return None;
    }
    let is_row = |line: &&&str| line.contains('|') && !line.trim().is_empty();
    let length = 2 + lines[2..].iter().take_while(is_row).count();
    let row = |line: &&str| {
        let mut cells = cells(line);
        // A row with more cells than the heading keeps their words.
        if cells.len() > columns.len() {
            let rest = cells.split_off(columns.len() - 1);
            cells.push(rest.join(" | "));
        }
        cells.resize(columns.len(), String::new());
        cells.iter().map(|cell| inline::read(cell)).collect()
    };
    let rows = [*head].iter().chain(&lines[2..length]).map(row).collect();
    Some((LetterPart::Table { columns, rows }, length))
}

/// Cuts a row at its bars; `\|` is none.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line
        .strip_suffix('|')
        .filter(|line| !line.ends_with('\\'))
        .unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let cell = cells.last_mut();
        match (c, cell) {
            ('|', _) => cells.push(String::new()),
            ('\\', Some(cell)) if chars.next_if_eq(&'|').is_some() => cell.push('|'),
            (_, Some(cell)) => cell.push(c),
            (_, None) => {}
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}
