//! `attache chat PERSONA`: messages to a persona from the terminal, one run each, in one thread until `/new`.
//!
//! A message goes the way of `attache ask`: the engine at work here answers it, or this process does and then frees the workspace
//! again. Nothing is mailed as an answer.

use super::args::in_force;
use super::ask::{AnswerView, exchange, persona_named, thread_of};
use super::screen::{prompt, remark};
use super::{CommandContext, Exit, Failure, refuse};
use crate::config::{Config, Persona, dollars};
use crate::domain::{RunId, ThreadId};
use crate::runs::chat::outcome::AskedRun;
use anyhow::Context as _;
use std::io::{BufRead, IsTerminal, Read};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Talk to a persona: one message a line, one run a message
#[derive(clap::Args)]
#[command(after_help = format!(
    "In the chat {HELP}.\n\nEach message is a run like any other, with the persona's tools, rules and budget, and is mailed to \
     nobody. In a pipe the answers go to standard output and everything else to standard error; the first message \
     without an answer ends it with its exit code. Without an engine at work, this command works off everything that is \
     due, as `attache drain` does.",
))]
pub struct Chat {
    /// The persona
    persona: String,
    /// Thread of an earlier chat or question, to go on with: its id, the last or first characters of it
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
}

impl Chat {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        let persona = persona_named(&config, &self.persona)?;
        in_force::remark(&in_force::compare(context));
        let mut chat = ChatSession {
            context,
            config: &config,
            persona,
            thread: None,
            last: None,
        };
        if let Some(typed) = &self.thread {
            chat.go_on_with(typed).await?;
        }
        chat.serve(&mut ChatInput::stdin()?).await
    }
}

/// Words that are commands of the chat.
const HELP: &str = "/new begins a new thread, /thread shows the thread, /thread ID goes on with another, /run shows the run of the \
                    last message, /quit leaves; // begins a message with a slash, and \\ at the end of a line goes on in the next";

/// A chat with one persona.
struct ChatSession<'a> {
    context: &'a CommandContext,
    config: &'a Config,
    persona: &'a Persona,
    /// Thread of the next message; `None`: a new one.
    thread: Option<ThreadId>,
    /// Run of the last message.
    last: Option<RunId>,
}

impl ChatSession<'_> {
    /// Takes messages until there are no more.
    async fn serve(&mut self, input: &mut ChatInput) -> anyhow::Result<Exit> {
        if input.is_typed() {
            remark(&format!(
                "you talk to {}; /help tells more, /quit leaves",
                self.persona.name
            ));
        }
        loop {
            let exit = match input.next().await? {
                Entered::End => return Ok(Exit::Ok),
                Entered::Message(text) => self.say(&text).await?,
                Entered::Command(command, argument) => {
                    if matches!(command.as_str(), "quit" | "exit") {
                        return Ok(Exit::Ok);
                    }
                    self.run_command(&command, &argument, input.is_typed())
                        .await?
                }
            };
            if exit != Exit::Ok && !input.is_typed() {
                return Ok(exit);
            }
        }
    }

    async fn say(&mut self, text: &str) -> anyhow::Result<Exit> {
        let mut view = AnswerView::new(self.context);
        let exchanged = exchange(
            self.context,
            self.config,
            self.persona,
            text,
            self.thread.clone(),
            &mut view,
        )
        .await?;
        self.thread = Some(exchanged.asked.thread);
        self.last = Some(exchanged.asked.run);
        Ok(exchanged.exit)
    }

    /// Carries out a command. On a terminal its error is shown and the chat goes on.
    async fn run_command(
        &mut self,
        command: &str,
        argument: &str,
        is_typed: bool,
    ) -> anyhow::Result<Exit> {
        let done = match (command, argument) {
            ("new", "") => {
                self.thread = None;
                remark("the next message begins a new thread");
                Ok(())
            }
            ("thread", "") => {
                match &self.thread {
                    Some(thread) => remark(&format!("thread {thread}")),
                    None => remark("the next message begins a new thread"),
                }
                Ok(())
            }
            ("thread", typed) => self.go_on_with(typed).await,
            ("run", "") => self.show_run().await,
            ("help", _) => {
                remark(HELP);
                Ok(())
            }
            _ => {
                remark(&format!(
                    "there is no command `/{command}` like this: {HELP}"
                ));
                return Ok(Exit::Usage);
            }
        };
        match done {
            Err(error) if is_typed => {
                remark(&format!("{error:#}"));
                Ok(Exit::Failed)
            }
            done => done.map(|()| Exit::Ok),
        }
    }

    async fn go_on_with(&mut self, typed: &str) -> anyhow::Result<()> {
        let store = self.context.store_of_engine().await?;
        let thread = thread_of(&store, &self.persona.id, typed).await;
        store.close().await;
        self.thread = Some(thread?);
        Ok(())
    }

    /// Shows the run of the last message: its id, its state, what it cost, and the answer that came later.
    async fn show_run(&self) -> anyhow::Result<()> {
        let Some(run) = &self.last else {
            remark("no message was sent yet");
            return Ok(());
        };
        let store = self.context.shared_store().await?;
        let summary = store.run_summary(run).await?;
        let asked = AskedRun::of(&store, run).await?;
        store.close().await;
        let cost = match summary.usage.cost_micros {
            Some(micros) => format!("${}", dollars(micros)),
            None => "its cost is unknown".to_owned(),
        };
        remark(&format!(
            "run {run}: {}, {cost}, {} tokens in, {} out; `attache runs show {run}` tells more",
            summary.state, summary.usage.input_tokens, summary.usage.output_tokens
        ));
        if let Some(answer) = &asked.answer {
            remark(&format!("its answer: {answer}"));
        }
        Ok(())
    }
}

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
            refuse(Exit::BadData, message, "a message is text in UTF-8")
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
