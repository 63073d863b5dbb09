//! Output of commands: tables on a terminal, tab-separated lines in a pipe, one JSON value under
//! `--json`. Prose wraps at the width of the terminal.
//!
//! Everything a command prints goes through [`Screen`], so that a closed pipe ends the command
//! instead of panicking, and so that text from mail cannot drive the terminal.

pub mod progress;
mod stderr;
mod table;
mod text;
mod times;
mod wrap;

pub use stderr::{complain, complain_json, hint, prompt, remark};
pub use table::Columns;
pub use text::{json_line, json_text, one_line, printable, quoted, visible};

use anstyle::Style;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use table::BOLD;

/// Error of output that was not written.
#[derive(Debug, thiserror::Error)]
pub enum Unwritten {
    /// The reader closed the pipe (`| head`). Ends a command quietly.
    #[error("nobody reads the output any more")]
    PipeClosed,
    /// The device failed, such as a full disk below `> file`: the requested output is incomplete.
    #[error("the output cannot be written")]
    Failed(#[source] std::io::Error),
}

impl From<std::io::Error> for Unwritten {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::Failed(error),
        }
    }
}

/// Destination of a command's output.
pub struct Screen {
    out: Mutex<Box<dyn Write + Send>>,
    terminal: bool,
    /// Columns of the terminal, if known.
    width: Option<usize>,
    json: bool,
    /// `true`: lists in a pipe begin with the names of their columns.
    header: bool,
}

impl Screen {
    /// Standard output; colours and tables only on a terminal.
    pub fn stdout(json: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let width = terminal_size::terminal_size_of(std::io::stdout())
            .map(|(width, _)| usize::from(width.0));
        let screen = Self::new(
            Box::new(anstream::AutoStream::auto(std::io::stdout())),
            terminal,
            json,
        );
        Self { width, ..screen }
    }
    /// Sets whether lists in a pipe begin with the names of their columns.
    #[must_use]
    pub fn with_header(self, header: bool) -> Self {
        Self { header, ..self }
    }
    /// Sets the number of columns of the terminal.
    #[must_use]
    pub fn with_width(self, width: usize) -> Self {
        Self {
            width: Some(width),
            ..self
        }
    }
    /// Prints to any other writer, for tests and pagers.
    pub fn new(out: Box<dyn Write + Send>, terminal: bool, json: bool) -> Self {
        Self {
            out: Mutex::new(out),
            terminal,
            width: None,
            json,
            header: false,
        }
    }
    /// Reports whether stdout is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }
    /// Reports whether `--json` was given.
    pub fn wants_json(&self) -> bool {
        self.json
    }
    /// Prints text and a line end. Control characters and escape sequences are removed first.
    pub fn line(&self, text: impl AsRef<str>) -> Result<(), Unwritten> {
        self.raw(&format!("{}\n", printable(text.as_ref())))
    }
    /// Prints a line of a list that has no table: on a terminal its ids by their ends, and no wider than the terminal.
    pub fn fitted(&self, text: &str) -> Result<(), Unwritten> {
        if !self.terminal {
            return self.line(text);
        }
        let mut line = table::short_ids(&printable(text));
        if let Some(width) = self.width {
            table::cut(&mut line, width);
        }
        self.raw(&format!("{line}\n"))
    }
    /// Prints a piece of a text, as [`Screen::line`] does, without a line end.
    pub fn piece(&self, text: &str) -> Result<(), Unwritten> {
        self.raw(&printable(text))
    }
    /// Begins at the top of an empty terminal; does nothing elsewhere.
    pub fn clear(&self) -> Result<(), Unwritten> {
        match self.terminal {
            true => self.raw("\x1b[H\x1b[2J"),
            false => Ok(()),
        }
    }
    /// Prints a bold heading on a terminal, a plain one elsewhere.
    pub fn heading(&self, text: impl AsRef<str>) -> Result<(), Unwritten> {
        let text = printable(text.as_ref());
        if self.terminal {
            self.raw(&format!("{BOLD}{}{BOLD:#}\n", self.broken(&text, "")))
        } else {
            self.raw(&format!("{text}\n"))
        }
    }
    /// Formats a stored instant for display: in the local time zone on a terminal.
    pub fn moment(&self, at: &str) -> String {
        if self.terminal {
            times::localised(at)
        } else {
            at.to_owned()
        }
    }
    /// Formats every instant in a line as [`Screen::moment`] does.
    pub fn moments(&self, line: &str) -> String {
        if self.terminal {
            times::localised_words(line)
        } else {
            line.to_owned()
        }
    }
    /// Prints one JSON value, whatever `--json` says.
    pub fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.raw(&format!("{}\n", json_text(value)?))?)
    }
    /// Prints one JSON value on one line, for output without an end.
    pub fn json_line(&self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.raw(&format!("{}\n", json_line(value)?))?)
    }
    /// Refuses to go on when stdout is a pipe that nobody reads any more, which else only the next output would find.
    pub fn require_reader(&self) -> Result<(), Unwritten> {
        let stdout = std::io::stdout();
        let mut looked_at = [PollFd::new(&stdout, PollFlags::empty())];
        let now = Timespec::default();
        let is_looked_at = poll(&mut looked_at, Some(&now)).is_ok();
        // A pipe whose reader is gone is in error; a socket has hung up as well.
        match is_looked_at && looked_at[0].revents().intersects(PollFlags::ERR) {
            true => Err(Unwritten::PipeClosed),
            false => Ok(()),
        }
    }
    /// Prints a listing: a JSON array under `--json`, else one row per item.
    ///
    /// On a terminal the rows stand under their headings, or `nothing` says that there is none; in
    /// a pipe they are tab-separated, as `cut` and `awk` expect them, with headings when `--header`
    /// was given.
    pub fn list<'c, T: Serialize>(
        &self,
        items: &[T],
        columns: impl Into<Columns<'c>>,
        nothing: &str,
        row: impl Fn(&T) -> Vec<String>,
    ) -> anyhow::Result<()> {
        if self.json {
            return self.json(&items);
        }
        let rows = items.iter().map(row).collect::<Vec<_>>();
        Ok(self.listing(columns, &rows, nothing)?)
    }
    /// Prints rows as [`Screen::list`] does, for output whose JSON is produced elsewhere.
    pub fn listing<'c>(
        &self,
        columns: impl Into<Columns<'c>>,
        rows: &[Vec<String>],
        nothing: &str,
    ) -> Result<(), Unwritten> {
        if self.terminal && rows.is_empty() {
            return self.line(nothing);
        }
        self.table(columns, rows)
    }
    /// Prints rows within a larger output.
    pub fn table<'c>(
        &self,
        columns: impl Into<Columns<'c>>,
        rows: &[Vec<String>],
    ) -> Result<(), Unwritten> {
        let columns = columns.into();
        if self.terminal {
            return self.raw(&table::quiet(&columns, rows, self.width));
        }
        let headings = columns
            .headings()
            .iter()
            .map(|heading| (*heading).to_owned())
            .collect();
        let headings: Vec<Vec<String>> = if self.header {
            vec![headings]
        } else {
            Vec::new()
        };
        self.raw(&(tabbed(&headings) + &tabbed(rows)))
    }
    /// Prints pairs of label and value, the labels aligned.
    pub fn fields(&self, fields: &[(&str, String)]) -> Result<(), Unwritten> {
        let width = fields
            .iter()
            .map(|(label, _)| label.chars().count())
            .max()
            .unwrap_or(0);
        let lines = fields.iter().map(|(label, value)| {
            let value = one_line(value);
            let value = self.moments(&value);
            self.broken(&format!("{label:width$}  {value}"), &" ".repeat(width + 2)) + "\n"
        });
        self.raw(&lines.collect::<String>())
    }
    /// Prints text line by line behind a mark, so that it cannot imitate the surrounding output.
    pub fn behind(&self, mark: &str, text: &str) -> Result<(), Unwritten> {
        let lines = printable(text);
        let lines = lines
            .lines()
            .map(|line| self.broken(&format!("{mark}{line}"), mark) + "\n");
        self.raw(&lines.collect::<String>())
    }
    /// Wraps a line at the width of the terminal; the lines after the first are prefixed with
    /// `hang`.
    fn broken(&self, line: &str, hang: &str) -> String {
        let Some(width) = self.width.filter(|_| self.terminal) else {
            return line.to_owned();
        };
        let parts = wrap::breaks(line, width, hang.chars().count());
        parts
            .into_iter()
            .map(|range| &line[range])
            .collect::<Vec<_>>()
            .join(&format!("\n{hang}"))
    }
    /// Prints a mail: byte by byte in a pipe, without control characters on a terminal.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Unwritten> {
        if self.terminal {
            return self.raw(&printable(&String::from_utf8_lossy(bytes)));
        }
        self.written(bytes)
    }
    /// Prints pieces of text, each in its own style, and a line end. Styles show on a terminal
    /// only, and there the line wraps at its width.
    pub fn styled(&self, pieces: &[(Style, &str)]) -> Result<(), Unwritten> {
        let pieces = pieces
            .iter()
            .map(|(style, piece)| (*style, printable(piece)))
            .collect::<Vec<_>>();
        let line = pieces
            .iter()
            .map(|(_, piece)| piece.as_str())
            .collect::<String>();
        let (line, hang) = (line.trim_end(), wrap::hanging(&line));
        let ranges = match self.width.filter(|_| self.terminal && !line.contains('\n')) {
            Some(width) => wrap::breaks(line, width, hang.chars().count()),
            None => std::iter::once(0..line.len()).collect(),
        };
        let mut text = String::new();
        for (number, range) in ranges.into_iter().enumerate() {
            if number > 0 {
                text.push_str(&format!("\n{hang}"));
            }
            self.paint(&pieces, range, &mut text);
        }
        self.raw(&format!("{text}\n"))
    }
    /// Appends the part of a line that lies in `range`, each piece in its style.
    fn paint(&self, pieces: &[(Style, String)], range: std::ops::Range<usize>, text: &mut String) {
        let mut begin = 0;
        for (style, piece) in pieces {
            let (from, until) = (range.start.max(begin), range.end.min(begin + piece.len()));
            if let Some(part) = piece.get(from.saturating_sub(begin)..until.saturating_sub(begin))
                && from < until
            {
                let is_plain = !self.terminal || *style == Style::new();
                let painted = if is_plain {
                    part.to_owned()
                } else {
                    format!("{style}{part}{style:#}")
                };
                text.push_str(&painted);
            }
            begin += piece.len();
        }
    }
    /// Prints text that is already safe, and flushes it, so that a reader of a pipe sees it now.
    fn raw(&self, text: &str) -> Result<(), Unwritten> {
        self.written(text.as_bytes())
    }
    fn written(&self, bytes: &[u8]) -> Result<(), Unwritten> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(out.write_all(bytes).and_then(|()| out.flush())?)
    }
}

fn tabbed(rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| {
        row.iter()
            .map(|cell| one_line(cell))
            .collect::<Vec<_>>()
            .join("\t")
            + "\n"
    };
    rows.iter().map(line).collect()
}
