//! Waiting for the run of a question: shows what it does, and cancels it at Ctrl-C.

use super::super::process::engine_wait::EngineWait;
use super::super::process::other::is_stopped;
use super::super::screen::remark;
use super::super::{CommandContext, Exit, Failure};
use super::view::AnswerView;
use crate::domain::{RunId, RunState};
use crate::runs::chat::outcome::AskedRun;
use crate::runs::chat::watch::RunWatch;
use crate::store::{Cancellation, Store, StoreError, working_engine};
use anyhow::Context;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interval at which the feed and the pieces of the answer are looked at.
const GLANCE: Duration = Duration::from_millis(50);
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
                () = tokio::time::sleep(GLANCE) => {}
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
            let message = format!("left without waiting for the end of run {}", self.run);
            let hint = format!("`attache runs show {}` tells what became of it", self.run);
            return Err(Failure::new(Exit::Failed, message).hint(hint).into());
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
