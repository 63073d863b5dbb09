//! `attache ask PERSONA TEXT`: a question at this machine, answered on the terminal as the answer is made. With an engine at work,
//! that one answers; without, this command works off what is due.

use super::args::in_force;
use super::process::engine_wait::EngineWait;
use super::process::other::is_stopped;
use super::screen::{Screen, Unwritten, printable, remark};
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::app::Engine;
use crate::clock::SystemClock;
use crate::config::{Config, Persona};
use crate::domain::{ApprovalKind, PersonaId, RunId, RunState, ThreadId};
use crate::runs::chat::answer_stream::StreamPiece;
use crate::runs::chat::outcome::AskedRun;
use crate::runs::chat::question::{AskedAt, question};
use crate::runs::chat::watch::{RunProgress, RunWatch};
use crate::store::{ApprovalView, Cancellation, OpenError, Store, StoreError, working_engine};
use anyhow::Context;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Ask a persona, and show its answer
#[derive(clap::Args)]
#[command(
    after_help = "The question is a run like any other, with the persona's tools, rules and budget; nothing of the answer is mailed. \
                  Without an engine at work, this command works off everything that is due, as `attache drain` does."
)]
pub struct Ask {
    /// The persona
    persona: String,
    /// The question; `-` or nothing: from standard input
    #[arg(num_args = 0..)]
    text: Vec<String>,
    /// Thread of an earlier question, to go on with
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
}

/// Longest question, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

impl Ask {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        let persona = persona_named(&config, &self.persona)?;
        let asked_for = text_of(&self.text)?;
        in_force::remark(&in_force::compare(context));
        let thread = match &self.thread {
            Some(typed) => {
                let store = context.store_of_engine().await?;
                Some(thread_of(&store, &persona.id, typed).await?)
            }
            None => None,
        };
        let mut view = AnswerView::new(context);
        Ok(
            exchange(context, &config, persona, &asked_for, thread, &mut view)
                .await?
                .exit,
        )
    }
}

/// Reads the question.
fn text_of(typed: &[String]) -> anyhow::Result<String> {
    let text = match typed {
        [] => from_stdin()?,
        [one] if one == "-" => from_stdin()?,
        words => words.join(" "),
    };
    if text.trim().is_empty() {
        return refuse(
            Exit::BadData,
            "the question is empty",
            "write it behind the persona, or send it to standard input",
        );
    }
    if text.len() > TEXT_BYTES_MAX {
        let message = format!(
            "the question has {} bytes, and at most {TEXT_BYTES_MAX} are read",
            text.len()
        );
        return Err(Failure::new(Exit::BadData, message).into());
    }
    Ok(text)
}

fn from_stdin() -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        return refuse(
            Exit::Usage,
            "there is no question",
            "write it behind the persona, or send it to standard input",
        );
    }
    let mut text = String::new();
    let most = u64::try_from(TEXT_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    std::io::stdin()
        .lock()
        .take(most)
        .read_to_string(&mut text)
        .map_err(|error| {
            Failure::new(
                Exit::BadData,
                format!("standard input cannot be read: {error}"),
            )
            .hint("a question is text in UTF-8")
        })?;
    Ok(text)
}

/// Shows what became of a question, as far as `view` has not shown it.
fn report_answer(
    context: &CommandContext,
    asked: &AskedRun,
    view: &mut AnswerView<'_>,
) -> anyhow::Result<Exit> {
    let exit = match asked.state {
        RunState::Succeeded => Exit::Ok,
        _ => Exit::Failed,
    };
    if context.json() {
        context.screen.json(asked)?;
        return Ok(exit);
    }
    match &asked.answer {
        Some(answer) => view.show_answer(answer)?,
        None => view.end_line()?,
    }
    match asked.state {
        RunState::Succeeded if asked.answer.is_none() => {
            screen::remark("it ended without an answer");
        }
        RunState::Succeeded => {}
        RunState::WaitingApproval => asked.questions.iter().for_each(remark_question),
        _ if asked.is_halted() => {
            screen::remark("no answer: runs are halted; it is answered after `attache resume`");
        }
        _ => screen::remark(&format!(
            "no answer: {}; `attache runs show {}` tells more",
            asked.error.as_deref().unwrap_or(asked.state.as_str()),
            asked.run
        )),
    }
    Ok(exit)
}

/// Says what the run waits for, and how the owner decides.
fn remark_question(question: &ApprovalView) {
    let id = &question.id;
    let (what, how) = match question.kind {
        ApprovalKind::Question => (
            "the persona asks you something".to_owned(),
            format!("`attache approvals answer {id} TEXT`"),
        ),
        _ => (
            format!("it waits for your decision on `{}`", question.tool),
            format!("`attache approvals approve {id}` or `attache approvals reject {id}`"),
        ),
    };
    screen::remark(&format!(
        "{what}: `attache approvals show {id}` shows it, {how} decides"
    ));
}

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

/// Time between two looks at what is due, while the question waits for another attempt.
const BETWEEN_DRAINS: Duration = Duration::from_millis(500);

/// A message that was answered, or was not.
pub struct AnsweredMessage {
    pub exit: Exit,
    pub asked: AskedRun,
}

/// Returns the persona that was named. Errors: there is none.
pub fn persona_named<'a>(config: &'a Config, typed: &str) -> Result<&'a Persona, Failure> {
    let known = PersonaId::parse(typed).ok();
    known
        .and_then(|id| config.personas.get(&id))
        .ok_or_else(|| {
            let names: Vec<&str> = config
                .personas
                .iter()
                .map(|persona| persona.id.as_str())
                .collect();
            Failure::new(Exit::NoInput, format!("no persona `{typed}`"))
                .hint(format!("there are: {}", names.join(", ")))
        })
}

/// Stores a message with its run, shows what the run does and what becomes of it.
///
/// Errors: a second Ctrl-C, among others; the first cancels the run.
pub async fn exchange(
    context: &CommandContext,
    config: &Config,
    persona: &Persona,
    text: &str,
    thread: Option<ThreadId>,
    view: &mut AnswerView<'_>,
) -> anyhow::Result<AnsweredMessage> {
    let mut engine = match working_engine(&context.workspace) {
        Some(_) => None,
        None => engine_here(config).await?,
    };
    let store = match &engine {
        Some(engine) => engine.store.clone(),
        None => context.store_of_engine().await?,
    };
    let new = question(
        persona,
        AskedAt::Terminal,
        store.clock().as_ref(),
        text,
        thread,
    );
    let run = new.run.id.clone();
    store.persona(&persona.id).ask(new).await?;
    let asked = AskedRun::of(&store, &run).await?;
    let mut waiting = QuestionWait::new(context, &store, &asked)?;
    let exchanged = loop {
        if let Some(engine) = &engine {
            break answered_here(context, engine, &mut waiting, view).await?;
        }
        match waiting.wait(view, false).await? {
            Waited::Settled(asked) => {
                let exit = report_answer(context, &asked, view)?;
                break AnsweredMessage {
                    exit,
                    asked: *asked,
                };
            }
            Waited::NoEngine => engine = engine_here(config).await?,
        }
    };
    drop(waiting);
    // The workspace is free again before the next message is typed.
    drop(engine);
    store.close().await;
    Ok(exchanged)
}

/// Opens an engine in this process; `None`: another one has just begun to work here.
async fn engine_here(config: &Config) -> anyhow::Result<Option<Engine>> {
    match Engine::open(config.clone(), Arc::new(SystemClock::new())).await {
        Err(error) if matches!(error.downcast_ref(), Some(OpenError::InUse { .. })) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Works off what is due until the question is settled. The answer shows as soon as it is there, and what is left is worked off
/// behind it.
async fn answered_here(
    context: &CommandContext,
    engine: &Engine,
    waiting: &mut QuestionWait<'_>,
    view: &mut AnswerView<'_>,
) -> anyhow::Result<AnsweredMessage> {
    let is_settled = CancellationToken::new();
    let working = work_until(engine, &is_settled);
    tokio::pin!(working);
    let waited = tokio::select! {
        waited = waiting.wait(view, true) => Some(waited?),
        worked = &mut working => {
            worked?;
            None
        }
    };
    if let Some(Waited::Settled(asked)) = waited {
        let exit = report_answer(context, &asked, view)?;
        let exchanged = AnsweredMessage {
            exit,
            asked: *asked,
        };
        is_settled.cancel();
        tokio::select! {
            worked = working => worked.map(|()| exchanged),
            () = waiting.interrupted() => Ok(exchanged),
        }
    } else {
        waiting.look(view).await?;
        let asked = waiting.asked().await?;
        let exit = report_answer(context, &asked, view)?;
        Ok(AnsweredMessage { exit, asked })
    }
}

/// Works off what is due, again and again until `is_settled`: a run that is parked comes due later.
async fn work_until(engine: &Engine, is_settled: &CancellationToken) -> anyhow::Result<()> {
    loop {
        engine.drain().await?;
        tokio::select! {
            () = is_settled.cancelled() => return Ok(()),
            () = tokio::time::sleep(BETWEEN_DRAINS) => {}
        }
    }
}

/// Finds a thread of earlier questions by a piece of its id. Errors: it is another, whose people or agents would be shown what is
/// asked here.
pub async fn thread_of(
    store: &Store,
    persona: &PersonaId,
    typed: &str,
) -> anyhow::Result<ThreadId> {
    let rows = store.persona(persona);
    let found = match store.find_thread(typed).await {
        Ok(thread) if rows.has_thread(&thread).await? => Some(thread),
        Ok(_) | Err(StoreError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(thread) = found else {
        return refuse(
            Exit::NoInput,
            format!("{persona} has no thread `{typed}`"),
            "`attache ask … --json` and `/thread` in `attache chat` show the thread of a question",
        );
    };
    match rows.is_asked_at(&thread, &AskedAt::Terminal.word()).await? {
        true => Ok(thread),
        false => refuse(
            Exit::BadData,
            format!("`{typed}` is no thread of `attache ask` or `attache chat`"),
            "go on with one that they began",
        ),
    }
}

/// Interval at which the feed and the pieces of the answer are looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// The first of them, which grow: an answer may be there at once.
const FIRST_GLANCE: Duration = Duration::from_millis(5);
/// Number of looks between two at whether an engine works, and at what is no event.
const LOOKS_PER_CHECK: u32 = 20;
/// Longest wait for an engine that does not take the question: as many runs as it works on at once may be before it.
const TAKEN_MAX: Duration = Duration::from_secs(600);

/// How waiting ended.
pub enum Waited {
    /// The run has ended, or waits for its owner.
    Settled(Box<AskedRun>),
    /// No engine works here any more, and the run has not ended.
    NoEngine,
}

/// A question whose run is watched.
pub struct QuestionWait<'a> {
    store: &'a Store,
    workspace: &'a Path,
    run: &'a RunId,
    watch: RunWatch,
    engine: EngineWait,
    interrupts: Signal,
    /// `true`: the run is to be cancelled.
    is_cancelling: bool,
    /// State of which the last remark announced.
    announced: Option<String>,
}

impl<'a> QuestionWait<'a> {
    pub fn new(
        context: &'a CommandContext,
        store: &'a Store,
        asked: &'a AskedRun,
    ) -> anyhow::Result<Self> {
        let rows = store.persona(&asked.persona);
        let now = store.clock().monotonic();
        Ok(Self {
            store,
            workspace: &context.workspace,
            run: &asked.run,
            watch: RunWatch::new(rows, &context.workspace, &asked.run),
            engine: EngineWait::new("take the question", TAKEN_MAX, now),
            interrupts: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            is_cancelling: false,
            announced: None,
        })
    }

    /// Waits until the run has ended, or waits for its owner. `is_ours`: this process is the engine that works on it.
    ///
    /// Errors: a second Ctrl-C; an engine that gives no sign of life.
    pub async fn wait(
        &mut self,
        view: &mut AnswerView<'_>,
        is_ours: bool,
    ) -> anyhow::Result<Waited> {
        let mut seen = None;
        for looks in 1_u32.. {
            let is_check = looks % LOOKS_PER_CHECK == 0;
            let newest = Some(self.store.feed_newest().await?);
            // The feed tells of every state of a run, and not of halts and of runs before it.
            let asked = match is_check || newest != seen {
                true => Some(AskedRun::of(self.store, self.run).await?),
                false => None,
            };
            seen = newest;
            // After the state was read, so that nothing of an ended run is missed.
            self.look(view).await?;
            match asked {
                Some(asked) if asked.is_settled() => {
                    return Ok(Waited::Settled(Box::new(asked)));
                }
                Some(asked) => {
                    self.tell(&asked, view)?;
                    if is_check && !is_ours && !self.has_engine(&asked, view).await? {
                        return Ok(Waited::NoEngine);
                    }
                }
                None => {}
            }
            tokio::select! {
                () = tokio::time::sleep(GLANCE.min(FIRST_GLANCE * looks)) => {}
                _ = self.interrupts.recv() => self.cancel(view).await?,
            }
        }
        Ok(Waited::NoEngine)
    }

    /// Shows what the run did since the last look.
    pub async fn look(&mut self, view: &mut AnswerView<'_>) -> anyhow::Result<()> {
        for progress in self.watch.look().await? {
            view.show(&progress)?;
        }
        Ok(())
    }

    pub async fn asked(&self) -> anyhow::Result<AskedRun> {
        Ok(AskedRun::of(self.store, self.run).await?)
    }

    /// Waits for Ctrl-C.
    pub async fn interrupted(&mut self) {
        let _closed_is_never = self.interrupts.recv().await;
    }

    /// Says once what the run waits for.
    fn tell(&mut self, asked: &AskedRun, view: &mut AnswerView<'_>) -> anyhow::Result<()> {
        let why = asked.waits();
        if why != self.announced {
            if let Some(why) = &why {
                view.end_line()?;
                remark(&format!("{why}; Ctrl-C cancels it"));
            }
            self.announced = why;
        }
        Ok(())
    }

    /// Reports whether an engine works here. One that is stopped, or does not take the question, is said.
    ///
    /// Errors: it has taken too long; the question is cancelled, so that it can be asked again.
    async fn has_engine(
        &mut self,
        asked: &AskedRun,
        view: &mut AnswerView<'_>,
    ) -> anyhow::Result<bool> {
        let Some(pid) = working_engine(self.workspace) else {
            return Ok(false);
        };
        let now = self.store.clock().monotonic();
        let is_untaken = asked.state == RunState::Queued && asked.waits().is_none();
        if !is_untaken && !is_stopped(&pid) {
            self.engine.answered(now);
            return Ok(true);
        }
        match self.engine.look(now, &pid) {
            Ok(None) => Ok(true),
            Ok(Some(waits)) => {
                view.end_line()?;
                remark(&format!("{waits}; Ctrl-C cancels the question"));
                Ok(true)
            }
            Err(too_long) => {
                view.end_line()?;
                self.give_up(too_long).await
            }
        }
    }

    /// Cancels the question, which has waited too long. `true`: it has just ended, and is shown at the next look.
    async fn give_up(&self, too_long: Failure) -> anyhow::Result<bool> {
        let run = self.run;
        remark(&match self.store.request_cancel(run).await {
            Err(StoreError::WrongState { .. }) => return Ok(true),
            cancelled => match cancelled? {
                Cancellation::Done => format!("run {run} is cancelled"),
                Cancellation::Requested => {
                    format!("run {run} is cancelled as soon as its engine goes on")
                }
            },
        });
        Err(too_long.into())
    }

    async fn cancel(&mut self, view: &mut AnswerView<'_>) -> anyhow::Result<()> {
        view.end_line()?;
        if std::mem::replace(&mut self.is_cancelling, true) {
            return refuse(
                Exit::Failed,
                format!("left without waiting for the end of run {}", self.run),
                format!("`attache runs show {}` tells what became of it", self.run),
            );
        }
        // One that has just ended is shown as it is.
        match self.store.request_cancel(self.run).await {
            Err(StoreError::WrongState { .. }) => {}
            cancelled => {
                cancelled?;
                remark("cancelling; once more leaves without waiting");
            }
        }
        Ok(())
    }
}
