//! Lines with tones, and the few shapes of a timeline. Pure.
//!
//! Foreign text never starts a line: it stands behind a gutter, in JSON or behind a label, so that
//! no letter can imitate the timeline around it.

use crate::text::{one_line, shortened, truncated};
use serde_json::Value;

/// Lines of a quoted text that are shown unless `full`.
const QUOTE_LINES_MAX: usize = 16;
/// Lines of a JSON value that are shown unless `full`.
const JSON_LINES_MAX: usize = 40;
/// Characters of a line or of a JSON string that are shown unless `full`.
const LINE_CHARS_MAX: usize = 400;
/// Characters of a label's value or of a table's cell that are shown unless `full`.
const VALUE_CHARS_MAX: usize = 160;
/// Columns by which stages are indented after their time.
const STAGE_INDENT: usize = 11;

/// Tone of a span; the terminal decides on colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Title,
    Good,
    Bad,
    /// Less important text.
    Faint,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub tone: Tone,
    pub text: String,
}

/// One line, without its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    pub spans: Vec<Span>,
}

impl Line {
    /// Returns the line without its tones.
    pub fn plain(&self) -> String {
        let text = self
            .spans
            .iter()
            .map(|span| span.text.as_str())
            .collect::<String>();
        text.trim_end().to_owned()
    }
}

pub(super) fn span(tone: Tone, text: impl Into<String>) -> Span {
    Span {
        tone,
        text: text.into(),
    }
}

/// Collector of lines.
pub(super) struct Page {
    lines: Vec<Line>,
    full: bool,
}

impl Page {
    pub(super) fn new(full: bool) -> Self {
        Self {
            lines: Vec::new(),
            full,
        }
    }

    pub(super) fn into_lines(self) -> Vec<Line> {
        self.lines
    }

    pub(super) fn line(&mut self, spans: Vec<Span>) {
        self.lines.push(Line { spans });
    }

    pub(super) fn blank(&mut self) {
        self.line(Vec::new());
    }

    /// Adds the heading of a stage: its time, its name, and a summary in one line.
    pub(super) fn pair(&mut self, time: &str, name: &str, rest: Vec<Span>) {
        let width = STAGE_INDENT - 2;
        let mut spans = vec![
            span(Tone::Faint, format!("{time:>width$}  ")),
            span(Tone::Title, name),
        ];
        spans.extend(rest);
        self.line(spans);
    }

    /// Adds a line inside a stage.
    pub(super) fn inside(&mut self, spans: Vec<Span>) {
        let indent = span(Tone::Plain, " ".repeat(STAGE_INDENT));
        self.line(std::iter::once(indent).chain(spans).collect());
    }

    /// Adds `label  value`; nothing when the value is empty.
    pub(super) fn field(&mut self, label: &str, value: &str) {
        if value.trim().is_empty() {
            return;
        }
        let value = self.short(value, VALUE_CHARS_MAX);
        self.inside(vec![
            span(Tone::Faint, format!("{label:<9} ")),
            span(Tone::Plain, value),
        ]);
    }

    /// Adds a line as [`Self::field`], never cut: our own text with a command to type.
    pub(super) fn whole_field(&mut self, label: &str, value: &str) {
        self.inside(vec![
            span(Tone::Faint, format!("{label:<9} ")),
            span(Tone::Plain, value),
        ]);
    }

    /// Adds foreign text behind a gutter.
    pub(super) fn quote(&mut self, text: &str) {
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let shown = if self.full {
            lines.len()
        } else {
            lines.len().min(QUOTE_LINES_MAX)
        };
        for line in &lines[..shown] {
            let text = self.cut(&line.replace('\t', "    "));
            self.inside(vec![span(Tone::Faint, "| "), span(Tone::Plain, text)]);
        }
        self.more(lines.len() - shown);
    }

    /// Adds a JSON value, long strings and the end of long values cut.
    pub(super) fn json(&mut self, value: &Value) {
        let value = if self.full {
            value.clone()
        } else {
            self.shortened(value)
        };
        let text = serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string());
        let lines: Vec<&str> = text.lines().collect();
        let shown = if self.full {
            lines.len()
        } else {
            lines.len().min(JSON_LINES_MAX)
        };
        for line in &lines[..shown] {
            self.inside(vec![span(Tone::Plain, format!("  {line}"))]);
        }
        self.more(lines.len() - shown);
    }

    /// Adds rows under their headings; columns named in `right` are right-aligned.
    pub(super) fn table(
        &mut self,
        headings: &[&str],
        right: &[usize],
        rows: &[(Tone, Vec<String>)],
    ) {
        let cells: Vec<(Tone, Vec<String>)> = rows
            .iter()
            .map(|(tone, row)| {
                (
                    *tone,
                    row.iter()
                        .map(|cell| self.short(cell, VALUE_CHARS_MAX))
                        .collect(),
                )
            })
            .collect();
        let width = |column: usize| {
            let cells = cells
                .iter()
                .filter_map(|(_, row)| row.get(column))
                .map(|cell| cell.chars().count());
            cells
                .chain([headings[column].chars().count()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..headings.len()).map(width).collect();
        let aligned = |column: usize, cell: &str| {
            let width = widths.get(column).copied().unwrap_or(0);
            if right.contains(&column) {
                format!("{cell:>width$}  ")
            } else {
                format!("{cell:<width$}  ")
            }
        };
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            cells
                .enumerate()
                .map(|(column, cell)| aligned(column, cell))
                .collect::<String>()
        };
        self.inside(vec![span(Tone::Faint, line(&mut headings.iter().copied()))]);
        for (tone, row) in &cells {
            self.inside(vec![span(*tone, line(&mut row.iter().map(String::as_str)))]);
        }
    }

    fn more(&mut self, hidden: usize) {
        if hidden > 0 {
            let lines = if hidden == 1 { "line" } else { "lines" };
            self.inside(vec![span(
                Tone::Faint,
                format!("… {hidden} more {lines} (--full shows all)"),
            )]);
        }
    }

    /// Returns a text on one line, for a label or a cell.
    pub(super) fn short(&self, text: &str, chars_max: usize) -> String {
        let text = one_line(text);
        match self.full {
            true => text,
            false => shortened(&text, chars_max),
        }
    }

    fn cut(&self, text: &str) -> String {
        let hidden = text.chars().count().saturating_sub(LINE_CHARS_MAX);
        match hidden > 0 && !self.full {
            true => {
                let head = truncated(text, LINE_CHARS_MAX);
                format!("{head}… ({hidden} more characters)")
            }
            false => text.to_owned(),
        }
    }

    fn shortened(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.cut(text)),
            Value::Array(items) => items.iter().map(|item| self.shortened(item)).collect(),
            Value::Object(members) => members
                .iter()
                .map(|(key, member)| (key.clone(), self.shortened(member)))
                .collect(),
            other => other.clone(),
        }
    }
}
