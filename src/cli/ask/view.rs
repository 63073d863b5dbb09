//! An answer on the terminal while it is made.

use super::super::screen::{self, Unwritten, printable};
use super::super::{CommandContext, screen::Screen};
use crate::runs::chat::answer_stream::StreamPiece;
use crate::runs::chat::watch::RunProgress;

/// What is shown of a run before its end: pieces of the answer on stdout, where that is a terminal, and calls on stderr.
pub struct AnswerView<'a> {
    screen: &'a Screen,
    /// `true`: stdout is a terminal, and shows the answer as it comes.
    shows_pieces: bool,
    /// `true`: stderr shows the calls of tools.
    shows_calls: bool,
    /// Text that was shown since a model was asked last.
    shown: String,
    /// `true`: the line on the terminal has not ended.
    is_open: bool,
}

impl<'a> AnswerView<'a> {
    pub fn new(context: &'a CommandContext) -> Self {
        Self {
            screen: &context.screen,
            shows_pieces: context.terminal() && !context.json(),
            shows_calls: !context.json(),
            shown: String::new(),
            is_open: false,
        }
    }

    pub fn show(&mut self, progress: &RunProgress) -> Result<(), Unwritten> {
        match progress {
            RunProgress::Called { tool, arguments } if self.shows_calls => {
                self.end_line()?;
                screen::remark(format!("· {tool} {arguments}").trim_end());
            }
            RunProgress::Returned { tool, error } if self.shows_calls => {
                self.end_line()?;
                let outcome = error.as_deref().unwrap_or("done");
                screen::remark(&format!("  {tool}: {outcome}"));
            }
            RunProgress::Called { .. } | RunProgress::Returned { .. } => {}
            RunProgress::Piece(piece) if self.shows_pieces => self.show_piece(piece)?,
            RunProgress::Piece(_) => {}
        }
        Ok(())
    }

    fn show_piece(&mut self, piece: &StreamPiece) -> Result<(), Unwritten> {
        match piece {
            StreamPiece::Text(text) => {
                let text = printable(text);
                if !text.is_empty() {
                    self.screen.piece(&text)?;
                    self.is_open = !text.ends_with('\n');
                    self.shown.push_str(&text);
                }
            }
            StreamPiece::Asked { attempt, .. } => {
                self.end_line()?;
                if *attempt > 1 && !self.shown.is_empty() {
                    screen::remark("the model broke off and is asked again");
                }
                self.shown.clear();
            }
            StreamPiece::Acted => {
                self.end_line()?;
                self.shown.clear();
            }
            StreamPiece::Full => {
                self.end_line()?;
                screen::remark("the answer is long; the rest of it shows at its end");
            }
        }
        Ok(())
    }

    /// Shows the text that was committed, unless it is on the terminal already.
    pub fn show_answer(&mut self, answer: &str) -> Result<(), Unwritten> {
        self.end_line()?;
        let shown = std::mem::take(&mut self.shown);
        if !shown.is_empty() && shown.trim() == printable(answer).trim() {
            return Ok(());
        }
        if !shown.trim().is_empty() {
            screen::remark("what is above is not the answer that was kept, which is this:");
        }
        self.screen.line(answer)
    }

    /// Ends a line that stands open, so that what follows begins at its own.
    pub fn end_line(&mut self) -> Result<(), Unwritten> {
        if std::mem::take(&mut self.is_open) {
            self.screen.line("")?;
        }
        Ok(())
    }
}
