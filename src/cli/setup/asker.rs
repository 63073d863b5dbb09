//! Answers: from a flag, typed on a terminal, or as they were.
//!
//! A flag counts once: when its answer was refused, the terminal is asked, with the refused answer as
//! default.

use super::flags::{SecretQuestion, SetupQuestion, given};
use super::terminal::Terminal;
use crate::cli::process::exit::judge;
use crate::cli::{Exit, Failure, refuse, screen};
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
/// Answer that goes back to the question before.
const BACK: &str = "<";

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
    /// Flags whose defaults follow from another answer, so that they are not asked for.
    settled: BTreeSet<&'static str>,
    /// Secrets of flags, by flag.
    given: BTreeMap<&'static str, SecretString>,
    /// Secrets as they were typed, by flag; `None`: the one that is there stays.
    secrets: BTreeMap<&'static str, Option<SecretString>>,
    /// Number of questions that the terminal answered since [`Asker::begin`].
    answered: usize,
    /// Number of questions whose answers are taken as they were, after a step back.
    repeated: usize,
    step_back: Option<StepBack>,
    /// `true`: the person left.
    is_left: bool,
}

/// Where a step back leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepBack {
    /// To a question of the same part.
    Within,
    /// To the part before.
    Before,
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
            settled: BTreeSet::new(),
            given: BTreeMap::new(),
            secrets: BTreeMap::new(),
            answered: 0,
            repeated: 0,
            step_back: None,
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
        refuse(
            Exit::Usage,
            format!("missing {}", open.join(", ")),
            "give the flags, or run `attache setup` on a terminal, which asks",
        )
    }

    /// Reports whether the person left, so that no further question has an answer.
    pub fn is_left(&self) -> bool {
        self.is_left
    }

    /// Begins answers that are judged together.
    pub fn begin(&mut self) {
        self.recent.clear();
        self.answered = 0;
    }

    /// Number of questions that the terminal answered since [`Asker::begin`].
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// Takes the step back that an answer asked for.
    pub fn step_back(&mut self) -> Option<StepBack> {
        self.step_back.take()
    }

    /// Takes so many answers of the part as they were, and then asks on.
    pub fn repeat(&mut self, answers: usize) {
        self.repeated = answers;
    }

    /// Gives an answer that follows from another one; it is asked for only if it is refused, or with `--expert`.
    pub fn settle(&mut self, question: SetupQuestion, answer: &str) {
        if !self.refused.contains(question.flag) {
            self.defaults.insert(question.flag, answer.to_owned());
            self.settled.insert(question.flag);
        }
    }

    /// Asks again for what followed from another answer.
    pub fn unsettle(&mut self, questions: &[SetupQuestion]) {
        for question in questions {
            if self.settled.remove(question.flag) {
                self.defaults.remove(question.flag);
            }
        }
    }

    /// Reports whether the terminal asks for it.
    fn is_asked(&self, question: SetupQuestion) -> bool {
        let is_usual = !question.is_expert && !self.settled.contains(question.flag);
        is_usual || self.args.get_flag("expert") || self.refused.contains(question.flag)
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
        let is_asked = self.is_asked(question);
        loop {
            let default = self.defaults.get(question.flag).cloned();
            let default = default.or_else(|| usual.map(str::to_owned));
            let text = match (self.terminal.is_some(), default) {
                (false, None) => {
                    let message = format!("missing --{}", question.flag);
                    return Err(Failure::new(Exit::Usage, message).into());
                }
                (true, Some(default)) if is_asked && self.repeated > 0 => {
                    self.repeated -= 1;
                    default
                }
                (true, default) if is_asked || default.is_none() => {
                    self.repeated = 0;
                    self.typed(question, default).await?
                }
                (_, default) => default.unwrap_or_default(),
            };
            match parse(&text) {
                Ok(answer) => {
                    self.answered += usize::from(is_asked && self.terminal.is_some());
                    self.defaults.insert(question.flag, text);
                    return Ok(answer);
                }
                Err(failure) if self.terminal.is_none() => {
                    return Err(failure.with(Exit::BadData).into());
                }
                Err(failure) => complain(failure),
            }
            // It is asked for, however it was answered until now.
            self.refused.insert(question.flag);
        }
    }

    /// A line that is typed, or its default; a number stands for a choice.
    async fn typed(
        &mut self,
        question: SetupQuestion,
        default: Option<String>,
    ) -> anyhow::Result<String> {
        let Some(terminal) = &mut self.terminal else {
            return Ok(default.unwrap_or_default());
        };
        let mut asked = String::new();
        for (number, (word, means)) in (1..).zip(question.choices) {
            asked += &format!("  {number:>2}  {word:<12}{means}\n");
        }
        let shown = default.as_ref().map(|text| format!(" [{text}]"));
        asked += &format!("{}{}: ", question.asks, shown.unwrap_or_default());
        let Some(typed) = terminal.line(&asked).await? else {
            return Err(self.left().into());
        };
        let typed = typed.trim();
        if typed == BACK {
            return Err(self.back().into());
        }
        let number = typed.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
        let chosen = number.and_then(|at| question.choices.get(at));
        Ok(match (typed, chosen, default) {
            ("", _, Some(default)) => default,
            (_, Some((word, _)), _) => (*word).to_owned(),
            (typed, ..) => typed.to_owned(),
        })
    }

    /// A secret; `None`: it stays as it is. `is_there`: one is known already.
    pub async fn secret(
        &mut self,
        question: SecretQuestion,
        is_there: bool,
    ) -> anyhow::Result<Option<SecretString>> {
        self.recent.insert(question.file);
        if !self.refused.contains(question.file) {
            // Standard input is read once.
            let before = self.given.get(question.file).cloned();
            let given = match before {
                Some(secret) => Some(secret),
                None => self.given_secret(question)?,
            };
            if let Some(secret) = given {
                self.given.insert(question.file, secret.clone());
                return Ok(Some(secret));
            }
        }
        let Some(terminal) = &mut self.terminal else {
            return Ok(None);
        };
        if let Some(before) = self
            .secrets
            .get(question.file)
            .filter(|_| self.repeated > 0)
        {
            self.repeated -= 1;
            self.answered += 1;
            return Ok(before.clone());
        }
        self.repeated = 0;
        let kept = if is_there { " [as it is]" } else { "" };
        let asked = format!("{}{kept}, which is not shown: ", question.asks);
        let Some(typed) = terminal.secret(&asked).await? else {
            return Err(self.left().into());
        };
        if typed.trim() == BACK {
            return Err(self.back().into());
        }
        self.answered += 1;
        let typed = Some(typed.trim().to_owned())
            .filter(|typed| !typed.is_empty())
            .map(SecretString::from);
        self.secrets.insert(question.file, typed.clone());
        Ok(typed)
    }

    /// Error of a person who goes back; see [`Asker::step_back`].
    fn back(&mut self) -> Failure {
        let step = match self.answered.checked_sub(1) {
            Some(before) => {
                self.repeated = before;
                StepBack::Within
            }
            None => StepBack::Before,
        };
        self.step_back = Some(step);
        Failure::new(Exit::Failed, "one question back")
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
