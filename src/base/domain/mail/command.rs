//! Commands that an owner gives in the first line of a letter. Pure.
//!
//! Absent on purpose: who may give one (`gateway::intake`), and what it does (`store::commands`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// A command, by its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailCommand {
    Status,
    Cancel,
    Approve,
    Reject,
    Pause,
    Resume,
    Reset,
    Help,
    /// A word that is almost a command: it is answered with the list.
    Unknown,
}

impl MailCommand {
    /// Every command that a person can type, in the order in which the list shows them.
    pub const TYPED: [Self; 8] = [
        Self::Status,
        Self::Cancel,
        Self::Pause,
        Self::Resume,
        Self::Reset,
        Self::Approve,
        Self::Reject,
        Self::Help,
    ];

    /// Returns the word without its slash, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Cancel => "cancel",
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Reset => "reset",
            Self::Help => "help",
            Self::Unknown => "unknown",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let all = Self::TYPED.into_iter().chain([Self::Unknown]);
        all.into_iter().find(|command| command.as_str() == text)
    }

    /// Reports whether it changes anything, so that a repeated letter must not.
    pub fn changes_state(self) -> bool {
        !matches!(self, Self::Status | Self::Help | Self::Unknown)
    }

    fn takes_argument(self) -> bool {
        matches!(self, Self::Approve | Self::Reject)
    }
}

impl fmt::Display for MailCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reason for which a command does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandRefusal {
    /// The letter arrived too long after it was signed.
    TooOld,
    /// The letter was signed later than it arrived, by more than clocks differ.
    FromFuture,
    /// The signature does not cover a Message-ID, by which a second arrival would be known.
    Repeatable,
    /// More stands in the line than the command takes.
    MoreInLine,
    /// A command that was sent later was carried out before.
    Overtaken,
    /// The signature leaves open how the body is read, and it could be read as other words.
    UnsignedContent,
}

impl CommandRefusal {
    const ALL: [Self; 6] = [
        Self::TooOld,
        Self::FromFuture,
        Self::Repeatable,
        Self::MoreInLine,
        Self::Overtaken,
        Self::UnsignedContent,
    ];

    /// Returns the spelling in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooOld => "too_old",
            Self::FromFuture => "from_future",
            Self::Repeatable => "repeatable",
            Self::MoreInLine => "more_in_line",
            Self::Overtaken => "overtaken",
            Self::UnsignedContent => "unsigned_content",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|refusal| refusal.as_str() == text)
    }
}

/// The first line of a letter, read as a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub command: MailCommand,
    /// What follows the word of a command that takes something; else empty.
    pub argument: String,
    /// `true`: the line has more than the command takes.
    pub has_more_in_line: bool,
}

/// Most characters after the word that are kept.
const ARGUMENT_CHARS_MAX: usize = 2000;

impl CommandLine {
    /// Reads the first line with text, of a text without quotations. `None`: it is no command, but text like any other,
    /// such as a path or a sentence that begins with a slash.
    pub fn read(fresh_text: &str) -> Option<Self> {
        let mut lines = fresh_text.lines().map(str::trim);
        let line = lines.find(|line| !line.is_empty())?.strip_prefix('/')?;
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let word = match rest.is_empty() {
            true => word.trim_end_matches(['.', '!']),
            false => word,
        };
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return None;
        }
        let word = word.to_ascii_lowercase();
        let typed = MailCommand::TYPED;
        match typed.into_iter().find(|command| command.as_str() == word) {
            Some(command) => Some(Self {
                command,
                argument: match command.takes_argument() {
                    true => rest.chars().take(ARGUMENT_CHARS_MAX).collect(),
                    false => String::new(),
                },
                has_more_in_line: !command.takes_argument() && !rest.is_empty(),
            }),
            // A near word alone in its line is a slip of the finger; before more words it may begin a sentence.
            None if rest.is_empty() && typed.iter().any(|command| is_near(&word, command)) => {
                Some(Self {
                    command: MailCommand::Unknown,
                    argument: String::new(),
                    has_more_in_line: false,
                })
            }
            None => None,
        }
    }
}

/// Reports whether one letter too many, too few, wrong, or two letters in wrong order make the difference.
fn is_near(word: &str, command: &MailCommand) -> bool {
    let (word, command) = (word.as_bytes(), command.as_str().as_bytes());
    let same_front = word.iter().zip(command).take_while(|(a, b)| a == b).count();
    let (word, command) = (&word[same_front..], &command[same_front..]);
    match (word, command) {
        ([_, word @ ..], [_, command @ ..]) if word == command => true,
        ([a, b, word @ ..], [c, d, command @ ..]) if (a, b) == (d, c) && word == command => true,
        ([_, word @ ..], command) if word == command => true,
        (word, [_, command @ ..]) => word == command,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(MailCommand, String, bool)> {
        CommandLine::read(text).map(|line| (line.command, line.argument, line.has_more_in_line))
    }

    #[test]
    fn a_command_is_the_first_line_with_text() {
        let plain = |command| Some((command, String::new(), false));
        assert_eq!(read("/status"), plain(MailCommand::Status));
        assert_eq!(
            read("\n \r\n  /PAUSE!\r\n\n-- \nOlga"),
            plain(MailCommand::Pause)
        );
        assert_eq!(read("Hello,\n/pause"), None);
        assert_eq!(read("> /pause"), None);
        assert_eq!(read("-- \n/pause"), None);
        assert_eq!(read(""), None);
        assert_eq!(read("/"), None);
        assert_eq!(
            read("/reject a1b2c3 not to Bob"),
            Some((MailCommand::Reject, "a1b2c3 not to Bob".to_owned(), false))
        );
        assert_eq!(
            read("/pause on Monday"),
            Some((MailCommand::Pause, String::new(), true))
        );
    }

    #[test]
    fn a_path_or_a_sentence_is_text_and_a_slip_is_not() {
        for text in [
            "/etc/hosts is wrong",
            "/etc is full",
            "/tmp",
            "/rest of it comes later",
            "/status? I wonder",
            "/pause/resume",
            "//pause",
            "/päuse",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        for text in ["/stats", "/puase", "/resumee", "/hepl", "/resst", "/rest"] {
            assert_eq!(
                read(text),
                Some((MailCommand::Unknown, String::new(), false)),
                "{text}"
            );
        }
    }

    #[test]
    fn words_are_stored_and_read_again() {
        for command in MailCommand::TYPED {
            assert_eq!(MailCommand::parse(command.as_str()), Some(command));
        }
        for refusal in CommandRefusal::ALL {
            assert_eq!(CommandRefusal::parse(refusal.as_str()), Some(refusal));
        }
    }
}
