//! Turns responsibility files into rows, and due slots into runs.
//!
//! Three independent steps: [`Scheduler::sync`] makes rows of files, [`Scheduler::tick`] makes runs
//! of due rows, and the heartbeat calls both. A slot's row alone decides that it fires, so any
//! number of schedulers may tick. Absent on purpose: running anything; a run waits in its row for
//! `runs`.

pub mod slots;
mod scan;
mod dispatch;
mod sync;
mod survey;
mod heartbeat;

pub use dispatch::TickReport;
pub use scan::examine;
pub use survey::{Asks, Survey, survey};
pub use sync::{FileProblem, SyncReport};

use crate::clock::Clock;
use crate::config::{Current, Persona, Personas};
use crate::domain::{MessageId, RunId, Timestamp, Trigger, Trust, sha256_hex};
use crate::schedule_file::WorkspaceNames;
use crate::schedule_file::prompt::{self, PromptLetter, PromptVariables, Window};
use crate::store::{
    Content, InboxItem, NewRun, NewSynthetic, Place, ScheduledPrompt, Store, StoreError,
    StoredResponsibility,
};
use heartbeat::Heartbeat;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Minimum time between two scans of the files.
const SYNC_EVERY: Duration = Duration::from_secs(5);
/// Maximum time between two scans of the files.
const SYNC_AT_LEAST_EVERY: Duration = Duration::from_secs(60);
/// Factor of a scan's duration that must pass before the next scan: scanning ten thousand files
/// costs half a percent of a core.
const REST_PER_LOOK: u32 = 200;
/// Difference between wall and monotonic time from which on it is logged.
const DRIFT_LOGGED: Duration = Duration::from_secs(2);

/// Turns responsibilities into runs.
pub struct Scheduler {
    store: Store,
    personas: Arc<Personas>,
    names: Arc<WorkspaceNames>,
    clock: Arc<dyn Clock>,
    /// Stamps of the files at the last complete synchronisation; `None` before the first.
    known: Mutex<Option<Arc<scan::Known>>>,
}

/// Error of starting a responsibility manually.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Unusable(String),
    #[error("no persona `{0}` is configured")]
    NoPersona(String),
    #[error("the prompt cannot be rendered")]
    Prompt(#[source] prompt::PromptError),
    #[error("could not be stored")]
    Store(#[from] StoreError),
}

impl Scheduler {
    /// Builds a scheduler; `names` are the names that responsibilities may use.
    pub fn new(
        store: Store,
        personas: Arc<Personas>,
        names: WorkspaceNames,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            store,
            personas,
            names: Arc::new(names),
            clock,
            known: Mutex::new(None),
        }
    }

    /// Works until `shutdown`. Each beat fires due slots and wakes the workers; every few seconds
    /// it scans the files. No error ends it: failures are logged and retried at the next beat.
    /// A beat has one scheduler from its beginning to its end.
    pub async fn run(in_force: &Current<Self>, wake_runs: &Notify, shutdown: CancellationToken) {
        let mut heartbeat = Heartbeat::start().await;
        let (mut look_at, mut problems) = (None, Vec::new());
        let mut current_intake = in_force.get();
        let mut times = current_intake.times();
        current_intake.come_back().await;
        while !shutdown.is_cancelled() {
            let before = std::mem::replace(&mut current_intake, in_force.get());
            if !Arc::ptr_eq(&before, &current_intake) {
                // As after a start.
                look_at = None;
            }
            let monotonic = current_intake.clock.monotonic();
            // Due slots first, so that an edit in the same second does not remove an old slot with
            // it; but after a start the files come first, because removed responsibilities must not
            // fire.
            if look_at.is_some() {
                current_intake.beat(wake_runs).await;
            }
            if look_at.is_none_or(|at| monotonic >= at) {
                problems = current_intake.sync_and_log(&problems).await;
                let looked = current_intake.clock.monotonic();
                let rest = looked.saturating_sub(monotonic) * REST_PER_LOOK;
                look_at = Some(looked + rest.clamp(SYNC_EVERY, SYNC_AT_LEAST_EVERY));
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = heartbeat.next() => {}
            }
            let stepped;
            (times, stepped) = current_intake.mind_clock(times).await;
            if stepped {
                // The ticker schedules its beats by the wall clock.
                heartbeat.stop().await;
                heartbeat = Heartbeat::start().await;
            }
        }
        heartbeat.stop().await;
    }

    /// The wall clock and the monotonic clock.
    pub fn times(&self) -> (Timestamp, Duration) {
        (self.clock.now(), self.clock.monotonic())
    }

    /// Detects that the wall clock was set since `before`; returns the times for the next
    /// comparison, and `true` if it was set. Rows that wait for an instant are brought forward by
    /// the time that it was set back. Slots need no change, because cursor and row decide them; but
    /// cursors far ahead of a corrected clock are moved back.
    pub async fn mind_clock(&self, before: (Timestamp, Duration)) -> ((Timestamp, Duration), bool) {
        let after = self.times();
        let expected = before.0.plus(after.1.saturating_sub(before.1));
        let back = expected.since(after.0);
        let stepped = back.max(after.0.since(expected)) > DRIFT_LOGGED;
        if !stepped {
            return (after, false);
        }
        tracing::warn!(%expected, found = %after.0, "the wall clock was set");
        if !back.is_zero()
            && let Err(error) = self.store.bring_forward(back).await
        {
            tracing::error!(%error, "what waits for the clock cannot be brought forward; trying again");
            return (before, true);
        }
        (after, true)
    }

    /// Moves cursors back after the clock was corrected while no engine ran.
    async fn come_back(&self) {
        match self.store.pull_cursors_back().await {
            Ok(0) => {}
            Ok(responsibilities) => {
                tracing::warn!(
                    responsibilities,
                    "the clock was far ahead when they last fired"
                );
            }
            Err(error) => {
                tracing::error!(%error, "what the clock was wrong about cannot be put right");
            }
        }
    }

    /// Starts a responsibility now, on schedule or not; its schedule stays unchanged.
    pub async fn start(&self, row: &StoredResponsibility) -> Result<RunId, StartError> {
        if let Some(error) = &row.error {
            return Err(StartError::Unusable(error.clone()));
        }
        let persona = self.personas.get(&row.persona);
        let persona = persona.ok_or_else(|| StartError::NoPersona(row.persona.to_string()))?;
        let now = self.clock.now();
        let letters = self.letters(row, now).await?;
        let prompt = self.prompt(row, persona, (now, &letters), Trigger::Manual);
        let prompt = prompt.map_err(StartError::Prompt)?;
        Ok(self.store.run_responsibility(&row.id, prompt, now).await?)
    }

    /// Reads a text as a responsibility file of a persona. Blocking. Errors: the problem with its line.
    pub fn examine(
        &self,
        persona: &Persona,
        content: &[u8],
    ) -> Result<crate::schedule_file::Responsibility, String> {
        scan::examine(persona, &self.names, content)
    }

    /// Letters that the prompt of this slot includes.
    async fn letters(
        &self,
        row: &StoredResponsibility,
        slot: Timestamp,
    ) -> Result<Vec<PromptLetter>, StoreError> {
        let wanted = prompt::letters_wanted(&row.prompt, slot, row.last_succeeded_at);
        let Some(Window { after, until }) = wanted else {
            return Ok(Vec::new());
        };
        let rows = self.store.persona(&row.persona);
        let found = rows
            .inbox_between(after, until, prompt::LETTERS_MAX)
            .await?;
        let letter = |InboxItem {
                          received_at,
                          sender,
                          subject,
                          excerpt,
                          trust,
                          thread,
                      }| PromptLetter {
            received_at,
            sender,
            subject,
            excerpt,
            trust,
            thread,
        };
        Ok(found.into_iter().map(letter).collect())
    }

    /// Builds the synthetic message and its run.
    fn prompt(
        &self,
        row: &StoredResponsibility,
        persona: &Persona,
        (slot, letters): (Timestamp, &[PromptLetter]),
        trigger: Trigger,
    ) -> Result<ScheduledPrompt, prompt::PromptError> {
        let zone = row.timezone.parse().unwrap_or(persona.timezone);
        let variables = PromptVariables {
            now: self.clock.now(),
            slot,
            last_run: row.last_succeeded_at,
            zone,
            persona,
            letters,
        };
        let text_body = prompt::render(&row.prompt, &variables)?;
        let address = persona.address.to_string();
        let metadata = serde_json::json!({
            "responsibility_id": row.id.as_str(), "responsibility": row.name, "slot_at": slot.to_string(),
            "letters": { "count": letters.len(), "lowest_trust": lowest_trust(letters) },
        });
        let content = Content {
            rfc_message_id: format!("{}@{}", self.clock.new_id(), persona.address.domain()),
            recipients_json: serde_json::json!({ "to": [&address] }).to_string(),
            sender: address,
            subject: row.name.clone(),
            text_body,
            trust: Trust::System,
            metadata_json: metadata.to_string(),
            ..Content::default()
        };
        let place = Place::alone(self.clock.as_ref());
        let run = NewRun {
            id: RunId::new(self.clock.new_id()),
            trigger,
            profile: row.run_options.profile.clone(),
            budget_micros: row.budget_micros,
            attempts_max: row
                .run_options
                .retries
                .map(|retries| retries.saturating_add(1)),
            options: None,
        };
        let id = MessageId::new(self.clock.new_id());
        let message = NewSynthetic {
            persona: persona.id.clone(),
            id,
            thread: None,
            place,
            content,
            attachments: Vec::new(),
            run,
        };
        Ok(ScheduledPrompt {
            message,
            prompt_sha256: sha256_hex(&[row.prompt.as_bytes()]),
            output_schema: row.output_schema.clone(),
            run_options: row.run_options.clone(),
        })
    }

    async fn beat(&self, wake_runs: &Notify) {
        match self.tick().await {
            Ok(report) if report.fired.is_empty() => {}
            Ok(_) => wake_runs.notify_one(),
            Err(error) => tracing::error!(%error, "due slots cannot be read; trying again"),
        }
    }

    /// Synchronises and logs changes; returns the current problems, so that the next call does not
    /// log them again.
    async fn sync_and_log(&self, before: &[FileProblem]) -> Vec<FileProblem> {
        let report = match self.sync().await {
            Ok(report) => report,
            Err(error) => {
                tracing::error!(%error, "responsibilities cannot be stored; trying again");
                return before.to_vec();
            }
        };
        let SyncReport {
            added,
            changed,
            removed,
            problems,
        } = report;
        if added + changed + removed > 0 {
            tracing::info!(added, changed, removed, "responsibilities");
        }
        for FileProblem { file, problem } in
            problems.iter().filter(|problem| !before.contains(problem))
        {
            tracing::warn!(%file, %problem, "a responsibility cannot be used");
        }
        problems
    }

    fn lock_known(&self) -> MutexGuard<'_, Option<Arc<scan::Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lowest trust among these letters' senders, which limits the run (`runs/label.rs`).
fn lowest_trust(letters: &[PromptLetter]) -> Option<&'static str> {
    let trust = |letter: &PromptLetter| Trust::parse_stored(&letter.trust);
    letters.iter().map(trust).min().map(Trust::as_str)
}

/// Path below the workspace, for display.
fn path(row: &StoredResponsibility) -> String {
    format!("personas/{}/{}", row.persona, row.file)
}
