//! Answers: from a flag, typed on a terminal, or as they were.
//!
//! A flag counts once: when its answer was refused, the terminal is asked, with the refused answer as
//! default.

use super::flags::{SecretQuestion, SetupQuestion, given};
use super::terminal::Terminal;
use crate::cli::process::exit::judge;
use crate::cli::{Exit, Failure, screen};
use crate::config::environment;
use anyhow::Context as _;
use clap::ArgMatches;
use secrecy::SecretString;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

/// Longest secret that is read from a file, in bytes.
const SECRET_BYTES_MAX: u64 = 64 * 1024;
/// Answer that stands for none.
pub const NONE: &str = "-";

/// Source of answers.
pub struct Asker<'a> {
    args: &'a ArgMatches,
    /// `None`: nobody is asked.
    terminal: Option<Terminal>,
    /// Answers of an earlier run or attempt, by flag.
    defaults: BTreeMap<&'static str, String>,
    /// Flags whose answers were refused.
    refused: BTreeSet<&'static str>,
    /// Flags of the answers since [`Asker::begin`].
    recent: BTreeSet<&'static str>,
    /// `true`: the person left.
    is_left: bool,
}

/// Decision about answers that a server refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    AskAgain,
    Keep,
    Stop,
}

impl<'a> Asker<'a> {
    pub fn new(
        args: &'a ArgMatches,
        defaults: BTreeMap<&'static str, String>,
    ) -> anyhow::Result<Self> {
        let is_asked = std::io::stdin().is_terminal() && !args.get_flag("yes");
        Ok(Self {
            args,
            terminal: is_asked.then(Terminal::open).transpose()?,
            defaults,
            refused: BTreeSet::new(),
            recent: BTreeSet::new(),
            is_left: false,
        })
    }

    /// Reports whether somebody is asked.
    pub fn is_typed(&self) -> bool {
        self.terminal.is_some()
    }

    /// Refuses to begin where nobody can be asked for an answer that nothing gives.
    pub fn require(&self, questions: &[SetupQuestion]) -> Result<(), Failure> {
        let is_open = |question: &&SetupQuestion| {
            given(self.args, **question).is_none() && !self.defaults.contains_key(question.flag)
        };
        let open: Vec<String> = questions
            .iter()
            .filter(is_open)
            .map(|question| format!("--{}", question.flag))
            .collect();
        if open.is_empty() || self.is_typed() {
            return Ok(());
        }
        let message = format!("nothing says {}", open.join(", "));
        Err(Failure::new(Exit::Usage, message)
            .hint("give the flags, or run `attache setup` on a terminal, which asks"))
    }

    /// Reports whether the person left, so that no further question has an answer.
    pub fn is_left(&self) -> bool {
        self.is_left
    }

    /// Begins answers that are judged together.
    pub fn begin(&mut self) {
        self.recent.clear();
    }

    /// The answer so far, or what was there; empty without one.
    pub fn default_of(&self, question: SetupQuestion) -> String {
        self.defaults
            .get(question.flag)
            .cloned()
            .unwrap_or_default()
    }

    /// Forgets what was there, because an answer on which it depends is another one.
    pub fn forget_unless_given(&mut self, question: SetupQuestion) {
        if !self.refused.contains(question.flag) {
            self.defaults.remove(question.flag);
        }
    }

    /// One answer that `parse` accepts. `usual` is the default where nothing is there yet.
    pub async fn answer<T>(
        &mut self,
        question: SetupQuestion,
        usual: Option<&str>,
        parse: impl Fn(&str) -> Result<T, Failure>,
    ) -> anyhow::Result<T> {
        self.recent.insert(question.flag);
        let flag = given(self.args, question).filter(|_| !self.refused.contains(question.flag));
        if let Some(text) = flag {
            let parsed = parse(text);
            self.defaults.insert(question.flag, text.to_owned());
            match parsed {
                Ok(answer) => return Ok(answer),
                Err(failure) if self.terminal.is_none() => {
                    return Err(failure.with(Exit::BadData).into());
                }
                Err(failure) => complain(failure),
            }
            self.refused.insert(question.flag);
        }
        loop {
            let default = self.defaults.get(question.flag).cloned();
            let default = default.or_else(|| usual.map(str::to_owned));
            let text = match (&mut self.terminal, default) {
                (None, Some(default)) => default,
                (None, None) => {
                    let message = format!("nothing says --{}", question.flag);
                    return Err(Failure::new(Exit::Usage, message).into());
                }
                (Some(terminal), default) => {
                    let shown = default.as_ref().map(|text| format!(" [{text}]"));
                    let asked = format!("{}{}: ", question.asks, shown.unwrap_or_default());
                    let Some(typed) = terminal.line(&asked).await? else {
                        return Err(self.left().into());
                    };
                    match (typed.trim(), default) {
                        ("", Some(default)) => default,
                        (typed, _) => typed.to_owned(),
                    }
                }
            };
            match parse(&text) {
                Ok(answer) => {
                    self.defaults.insert(question.flag, text);
                    return Ok(answer);
                }
                Err(failure) if self.terminal.is_none() => {
                    return Err(failure.with(Exit::BadData).into());
                }
                Err(failure) => complain(failure),
            }
        }
    }

    /// A secret; `None`: it stays as it is. `is_there`: one is known already.
    pub async fn secret(
        &mut self,
        question: SecretQuestion,
        is_there: bool,
    ) -> anyhow::Result<Option<SecretString>> {
        if self.refused.insert(question.file)
            && let Some(secret) = self.given_secret(question)?
        {
            return Ok(Some(secret));
        }
        let Some(terminal) = &mut self.terminal else {
            return Ok(None);
        };
        let kept = if is_there { " [as it is]" } else { "" };
        let asked = format!("{}{kept}, which is not shown: ", question.asks);
        let Some(typed) = terminal.secret(&asked).await? else {
            return Err(self.left().into());
        };
        Ok(Some(typed.trim().to_owned())
            .filter(|typed| !typed.is_empty())
            .map(SecretString::from))
    }

    /// Error of a person who left.
    fn left(&mut self) -> Failure {
        self.is_left = true;
        Failure::new(Exit::Failed, "stopped; nothing was written")
    }

    /// The secret that a file or a variable holds.
    fn given_secret(&self, question: SecretQuestion) -> Result<Option<SecretString>, Failure> {
        let SecretQuestion { file, variable, .. } = question;
        let text = if let Some(path) = self.args.get_one::<PathBuf>(file) {
            read_secret(path).map_err(|source| {
                let message = format!("`{}` cannot be read for --{file}", path.display());
                Failure::new(Exit::NoInput, message).because(source)
            })?
        } else if let Some(name) = self.args.get_one::<String>(variable) {
            let set = environment(name).filter(|value| !value.trim().is_empty());
            set.ok_or_else(|| {
                let message = format!("--{variable}: the variable `{name}` is not set");
                Failure::new(Exit::BadData, message).hint("export it before the command")
            })?
        } else {
            return Ok(None);
        };
        let mut lines = text.trim().lines();
        let secret = lines.next().unwrap_or_default().trim();
        if secret.is_empty() || lines.next().is_some() {
            let flag = match self.args.get_one::<PathBuf>(file) {
                Some(_) => file,
                None => variable,
            };
            let message = format!("--{flag} must hold one line: the secret alone");
            return Err(Failure::new(Exit::BadData, message));
        }
        Ok(Some(SecretString::from(secret)))
    }

    /// Asks for the next step after a server refused answers.
    pub async fn after_refusal(&mut self, can_keep: bool) -> anyhow::Result<Refused> {
        let Some(terminal) = &mut self.terminal else {
            return Ok(Refused::Stop);
        };
        self.refused.append(&mut self.recent);
        let asked = match can_keep {
            true => "answer again (a), keep it unchecked (k), or stop (s)? [a]: ",
            false => "answer again (a), or stop (s)? [a]: ",
        };
        Ok(
            match terminal.line(asked).await?.as_deref().map(str::trim) {
                Some("k") if can_keep => Refused::Keep,
                Some("s") | None => Refused::Stop,
                Some(_) => Refused::AskAgain,
            },
        )
    }

    /// Asks whether to do it; without a terminal only `--yes` agrees.
    pub async fn agrees(&mut self, asked: &str) -> anyhow::Result<bool> {
        let Some(terminal) = &mut self.terminal else {
            return Ok(self.args.get_flag("yes"));
        };
        let typed = terminal.line(&format!("{asked} [y/N]: ")).await?;
        let typed = typed.unwrap_or_default().trim().to_lowercase();
        Ok(matches!(typed.as_str(), "y" | "yes"))
    }
}

fn complain(failure: Failure) {
    let error = anyhow::Error::new(failure);
    let (_, hint) = judge(&error);
    screen::complain(&error, hint.as_deref());
}

/// The text of a file, or of standard input for `-`.
fn read_secret(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = match path.to_str() {
        Some(NONE) => std::io::stdin()
            .lock()
            .take(SECRET_BYTES_MAX)
            .read_to_string(&mut text),
        _ => std::fs::File::open(path)?
            .take(SECRET_BYTES_MAX)
            .read_to_string(&mut text),
    };
    read.context("it must be text")?;
    Ok(text)
}
