//! What is typed into a chat, line by line.

use crate::cli::screen::prompt;
use crate::cli::{Exit, Failure};
use anyhow::Context as _;
use std::io::{BufRead, IsTerminal, Read};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// Something that was entered.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered {
    Message(String),
    /// A command without its slash, and what follows it.
    Command(String, String),
    /// End of the input, or Ctrl-C.
    End,
}

/// Standard input.
pub struct ChatInput {
    is_typed: bool,
    interrupts: Signal,
}

impl ChatInput {
    pub fn stdin() -> anyhow::Result<Self> {
        Ok(Self {
            is_typed: std::io::stdin().is_terminal(),
            interrupts: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
        })
    }

    /// Reports whether a person types on a terminal.
    pub fn is_typed(&self) -> bool {
        self.is_typed
    }

    /// Waits for the next message or command; empty lines are passed over.
    pub async fn next(&mut self) -> anyhow::Result<Entered> {
        let mut message = String::new();
        loop {
            if self.is_typed {
                prompt(if message.is_empty() { "> " } else { "… " });
            }
            // Of a terminal it may never return: the end of the process does not wait for it (`main.rs`).
            let reading = tokio::task::spawn_blocking(read_line);
            let line = tokio::select! {
                line = reading => line.context("reading standard input")??,
                _ = self.interrupts.recv() => return Ok(Entered::End),
            };
            let Some(line) = line else {
                return Ok(entered(&message).unwrap_or(Entered::End));
            };
            let (line, goes_on) = match line.strip_suffix('\\') {
                Some(line) => (line, true),
                None => (line.as_str(), false),
            };
            message.push_str(line);
            fits(&message)?;
            if goes_on {
                message.push('\n');
            } else if let Some(entered) = entered(&message) {
                return Ok(entered);
            }
        }
    }
}

/// Reads what a text is; `None`: nothing.
fn entered(text: &str) -> Option<Entered> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let Some(command) = text.strip_prefix('/') else {
        return Some(Entered::Message(text.to_owned()));
    };
    if command.starts_with('/') {
        return Some(Entered::Message(command.to_owned()));
    }
    let (word, argument) = command
        .split_once(char::is_whitespace)
        .unwrap_or((command, ""));
    Some(Entered::Command(
        word.to_owned(),
        argument.trim().to_owned(),
    ))
}

fn fits(message: &str) -> Result<(), Failure> {
    if message.len() <= MESSAGE_BYTES_MAX {
        return Ok(());
    }
    let error =
        format!("a message has more than {MESSAGE_BYTES_MAX} bytes, and so many are read at most");
    Err(Failure::new(Exit::BadData, error))
}

/// Reads a line without its end; `None`: the input has ended.
fn read_line() -> Result<Option<String>, Failure> {
    let most = u64::try_from(MESSAGE_BYTES_MAX).unwrap_or(u64::MAX) + 2;
    let mut line = String::new();
    let read = std::io::stdin().lock().take(most).read_line(&mut line);
    match read {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned())),
        Err(error) => {
            let message = format!("standard input cannot be read: {error}");
            Err(Failure::new(Exit::BadData, message).hint("a message is text in UTF-8"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_begins_a_command_and_two_begin_a_message() {
        let command = |word: &str, argument: &str| Entered::Command(word.into(), argument.into());
        assert_eq!(entered(" \t"), None);
        assert_eq!(entered("/new"), Some(command("new", "")));
        assert_eq!(
            entered(" /thread  0199 \n"),
            Some(command("thread", "0199"))
        );
        assert_eq!(entered("//etc"), Some(Entered::Message("/etc".into())));
        assert_eq!(
            entered("a /new b"),
            Some(Entered::Message("a /new b".into()))
        );
    }
}
