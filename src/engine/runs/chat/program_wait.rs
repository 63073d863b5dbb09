//! Waiting for the run of a program's question: what can be shown of its answer while it is made, and what became of it.

use super::answer_stream::StreamPiece;
use super::outcome::AskedRun;
use super::watch::{RunProgress, RunWatch};
use crate::domain::{ErrorClass, PersonaId, RunId, RunState, Timestamp};
use crate::store::{Store, StoreError};
use std::path::Path;
use std::time::Duration;

/// Interval at which the feed and the pieces of the answer are looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// Number of looks of a second, one of which is at what is no event.
const LOOKS_PER_CHECK: u32 = 20;

/// What is next to be shown.
pub enum WaitStep {
    /// The answer goes on so.
    Text(String),
    /// Nothing happened for a second.
    Quiet,
    /// The run has ended, or waits for its owner or for money.
    Settled(Box<AskedRun>),
    /// It is still worked on, and nobody waits longer.
    OutOfTime,
}

/// Wait for the run of a question.
pub struct ProgramWait {
    store: Store,
    run: RunId,
    watch: RunWatch,
    /// Working time of the clock at which waiting ends.
    until: Duration,
    looks: u32,
    seen: Option<i64>,
    is_last: bool,
    /// Text that was shown.
    shown: String,
}

impl ProgramWait {
    pub fn new(
        store: &Store,
        workspace: &Path,
        persona: &PersonaId,
        run: &RunId,
        longest: Duration,
    ) -> Self {
        Self {
            store: store.clone(),
            run: run.clone(),
            watch: RunWatch::new(store.persona(persona), workspace, run),
            until: store.clock().monotonic() + longest,
            looks: 0,
            seen: None,
            is_last: false,
            shown: String::new(),
        }
    }

    /// Text that was shown of the answer so far.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Waits for what is next to be shown, a second at most. After [`WaitStep::Settled`] and [`WaitStep::OutOfTime`] there is nothing.
    pub async fn next(&mut self) -> Result<WaitStep, StoreError> {
        let clock = self.store.clock().clone();
        for _ in 0..LOOKS_PER_CHECK {
            if let Some(asked) = self.settled().await? {
                return Ok(WaitStep::Settled(Box::new(asked)));
            }
            let text = self.new_text().await?;
            if !text.is_empty() {
                self.shown.push_str(&text);
                return Ok(WaitStep::Text(text));
            }
            if clock.monotonic() >= self.until {
                return Ok(WaitStep::OutOfTime);
            }
            tokio::time::sleep(GLANCE).await;
        }
        Ok(WaitStep::Quiet)
    }

    /// Returns the run if waiting longer brings nothing by itself.
    async fn settled(&mut self) -> Result<Option<AskedRun>, StoreError> {
        let newest = Some(self.store.feed_newest().await?);
        // The feed tells of every state of a run, and not of halts.
        let is_check = self.looks.is_multiple_of(LOOKS_PER_CHECK);
        self.looks = self.looks.wrapping_add(1);
        if !is_check && newest == self.seen {
            return Ok(None);
        }
        self.seen = newest;
        let asked = AskedRun::of(&self.store, &self.run).await?;
        let is_settled = asked.is_settled() || self.waits_for_money(&asked);
        Ok(is_settled.then_some(asked))
    }

    /// Reports whether a run is put back for longer than anybody waits, because a budget is used up. One that only waits for money
    /// which other calls have reserved goes on sooner.
    fn waits_for_money(&self, asked: &AskedRun) -> bool {
        let clock = self.store.clock();
        let left = self.until.saturating_sub(clock.monotonic());
        let is_far = |at: Timestamp| at.since(clock.now()) > left;
        asked.state == RunState::WaitingRetry
            && asked.error_class() == Some(ErrorClass::Budget)
            && asked.next_attempt_at().is_some_and(is_far)
    }

    /// Returns what the model has added to a text that can be nothing but the answer. A second attempt adds nothing to what the
    /// first one has said.
    async fn new_text(&mut self) -> Result<String, StoreError> {
        let mut text = String::new();
        for seen in self.watch.look().await? {
            let RunProgress::Piece(piece) = seen else {
                continue;
            };
            match piece {
                StreamPiece::Asked { is_last, .. } => {
                    // What is not shown yet is of an attempt that failed.
                    text.clear();
                    self.is_last = is_last && self.shown.is_empty();
                }
                StreamPiece::Text(more) if self.is_last => text.push_str(&more),
                StreamPiece::Text(_) | StreamPiece::Acted => {}
                StreamPiece::Full => self.is_last = false,
            }
        }
        if self.shown.is_empty() {
            text = text.trim_start().to_owned();
        }
        Ok(text)
    }
}
