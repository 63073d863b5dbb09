//! Front matter of a responsibility: parses YAML 1.2 into entries with line numbers.
//!
//! The parser's events are read one by one, and scalars stay as typed text; each key interprets its
//! own. Absent on purpose, each refused with its line: anchors and aliases (so that nothing can be
//! expanded), tags, several documents, depth.

use super::cron::shortened;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

/// Maximum levels of lists and maps below the front matter itself; `deliver_to: {mail: [a]}` has
/// two.
const DEPTH_MAX: usize = 3;

/// Problem of a file and its line (counted from 1).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub struct FileError {
    pub line: usize,
    pub problem: String,
}

/// Builds an error on one line, without control characters from the file.
pub(super) fn fault(line: usize, problem: impl Into<String>) -> FileError {
    FileError {
        line,
        problem: problem.into().replace(char::is_control, " "),
    }
}

/// One `key: value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontEntry {
    pub line: usize,
    pub key: String,
    pub value: Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub line: usize,
    pub value: FrontValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrontValue {
    /// An empty value, or YAML's `~` or `null`.
    Nothing,
    /// Any scalar, without its quotes.
    Text(String),
    List(Vec<Node>),
    /// A map without repeated keys.
    Map(Vec<FrontEntry>),
}

/// Parses the text between the fences, which begins on `first_line` of its file. Lines end in `\n`.
pub fn read(text: &str, first_line: usize) -> Result<Vec<FrontEntry>, FileError> {
    refuse_indicators(text, first_line)?;
    let mut reader = FrontReader {
        events: Parser::new_from_str(text),
        text,
        lines: text.lines().count().max(1),
        first_line,
    };
    let entries = loop {
        let (event, line) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(_) => {}
            // Only comments, or empty.
            Event::StreamEnd => return Ok(Vec::new()),
            event => match reader.node(event, line, 0)?.value {
                FrontValue::Map(entries) => break entries,
                FrontValue::Nothing => break Vec::new(),
                _ => {
                    let line = reader.unspaced_colon().unwrap_or(line);
                    return Err(fault(
                        line,
                        "expected lines `key: value`, with a space after the colon",
                    ));
                }
            },
        }
    };
    loop {
        let (event, line) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(entries),
            Event::DocumentEnd => {}
            _ => {
                return Err(fault(
                    line,
                    "a second document begins here; the front matter is one",
                ));
            }
        }
    }
}

struct FrontReader<'a> {
    events: Parser<'a, StrInput<'a>>,
    text: &'a str,
    /// Number of lines of `text`.
    lines: usize,
    first_line: usize,
}

impl<'a> FrontReader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), FileError> {
        match self.events.next_event() {
            Some(Ok((event, span))) => Ok((event, self.line(span))),
            Some(Err(error)) => Err(self.reworded(&error)),
            None => Ok((Event::StreamEnd, self.first_line)),
        }
    }

    fn line(&self, span: Span) -> usize {
        self.line_of(span.start.line())
    }

    /// Line of the file for a line of the text, counted from 1; the end of the text may be after
    /// its last line.
    fn line_of(&self, line: usize) -> usize {
        self.first_line + line.clamp(1, self.lines) - 1
    }

    fn node(&mut self, event: Event<'a>, line: usize, depth: usize) -> Result<Node, FileError> {
        refuse_properties(&event, line)?;
        if depth > DEPTH_MAX {
            return Err(fault(line, "lists and maps are nested too deeply"));
        }
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..)
                if matches!(&*text, "" | "~" | "null" | "Null" | "NULL") =>
            {
                FrontValue::Nothing
            }
            Event::Scalar(text, ..) => FrontValue::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    let (event, line) = self.next()?;
                    if event == Event::SequenceEnd {
                        break FrontValue::List(items);
                    }
                    items.push(self.node(event, line, depth + 1)?);
                }
            }
            Event::MappingStart(..) => {
                let mut entries: Vec<FrontEntry> = Vec::new();
                loop {
                    let (event, line) = self.next()?;
                    if event == Event::MappingEnd {
                        break FrontValue::Map(entries);
                    }
                    let entry = self.entry(event, line, depth)?;
                    if let Some(first) = entries.iter().find(|before| before.key == entry.key) {
                        let key = shortened(&entry.key);
                        return Err(fault(
                            line,
                            format!("`{key}` is given twice, first on line {}", first.line),
                        ));
                    }
                    entries.push(entry);
                }
            }
            _ => return Err(fault(line, "a value is missing here")),
        };
        Ok(Node { line, value })
    }

    fn entry(
        &mut self,
        key: Event<'a>,
        line: usize,
        depth: usize,
    ) -> Result<FrontEntry, FileError> {
        refuse_properties(&key, line)?;
        let Event::Scalar(key, ..) = key else {
            return Err(fault(line, "a key is one word, such as `name`"));
        };
        let (event, value_line) = self.next()?;
        let value = self.node(event, value_line, depth + 1)?;
        // An empty value has no position of its own: it is reported at its key.
        let value = if value.value == FrontValue::Nothing {
            Node { line, ..value }
        } else {
            value
        };
        Ok(FrontEntry {
            line,
            key: key.into_owned(),
            value,
        })
    }

    fn reworded(&self, error: &ScanError) -> FileError {
        let line = self.line_of(error.marker().line());
        let said = error.info();
        if let Some(at) = self.unspaced_colon().filter(|at| *at <= line) {
            return fault(at, "expected `key: value`, with a space after the colon");
        }
        let is_tabbed = |line: &str| line.trim_start_matches(' ').starts_with('\t');
        let mut lines = self.text.lines().zip(self.first_line..);
        if let Some((_, at)) = lines.find(|(line, _)| said.contains("tab") && is_tabbed(line)) {
            return fault(at, "is indented with a tab; indent with spaces");
        }
        let typed = self
            .text
            .lines()
            .nth(line - self.first_line)
            .unwrap_or_default();
        let hint = match typed.split_once(": ") {
            Some((key, value))
                if value.contains(": ")
                    && !value.trim_start().starts_with(['"', '\'', '{', '[']) =>
            {
                format!(
                    "; a value with a colon in it needs quotes: `{}`",
                    quoted_line(key, value)
                )
            }
            _ if said.contains("end of stream") || said.contains("document indicator") => {
                "; a quote or bracket is not closed".to_owned()
            }
            _ => String::new(),
        };
        fault(
            line,
            format!("is not YAML: {}{hint}", said.replace(['\n', '\r'], " ")),
        )
    }

    /// The first line of the form `key:value`.
    fn unspaced_colon(&self) -> Option<usize> {
        let mut lines = self.text.lines().zip(self.first_line..);
        let is_unspaced = |line: &str| {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            let is_key =
                !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            is_key && value.starts_with(|c: char| !c.is_whitespace())
        };
        lines
            .find(|(line, _)| is_unspaced(line))
            .map(|(_, number)| number)
    }
}

/// Refuses values that begin with one of YAML's indicators, which are rarely intended:
/// `schedule: */5 * * * *` is no alias.
fn refuse_indicators(text: &str, first_line: usize) -> Result<(), FileError> {
    for (line, number) in text.lines().zip(first_line..) {
        let Some((key, value)) = line.split_once(": ") else {
            continue;
        };
        let (is_key, value) = (
            !key.starts_with([' ', '\t', '#', '-', '"', '\'']),
            value.trim(),
        );
        if let Some(sign) = value
            .chars()
            .next()
            .filter(|c| is_key && matches!(c, '*' | '&' | '!' | '@' | '`' | '%'))
        {
            let line = quoted_line(key, value);
            let problem = format!(
                "a plain value cannot begin with {} in YAML; write `{line}`",
                called(sign)
            );
            return Err(fault(number, problem));
        }
    }
    Ok(())
}

fn called(sign: char) -> String {
    if sign == '`' {
        "a backtick".to_owned()
    } else {
        format!("`{sign}`")
    }
}

/// Formats `key: "value"`, without a comment after the value.
fn quoted_line(key: &str, value: &str) -> String {
    let value = value.split(" #").next().unwrap_or_default().trim();
    let quoted = if value.contains(['"', '\\']) {
        format!("'{}'", value.replace('\'', "''"))
    } else {
        format!("\"{value}\"")
    };
    format!("{}: {}", shortened(key), shortened(&quoted))
}

fn refuse_properties(event: &Event<'_>, line: usize) -> Result<(), FileError> {
    let (anchor, tag) = match event {
        Event::Alias(_) => (true, false),
        Event::Scalar(_, _, anchor, tag) => (*anchor > 0, tag.is_some()),
        Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
            (*anchor > 0, tag.is_some())
        }
        _ => (false, false),
    };
    if anchor || tag {
        return Err(fault(
            line,
            "anchors (`&`), aliases (`*`) and tags (`!`) are not offered here; write the value itself",
        ));
    }
    Ok(())
}
