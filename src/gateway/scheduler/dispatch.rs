//! Turns due rows into runs. A tick handles repeated failures, waiting slots and due slots, each
//! responsibility separately: an error of one is in the report and in the log, and the others
//! continue.

use super::slots::{DueSlots, ScheduleInForce};
use super::sync::in_force;
use super::{FileProblem, Scheduler, path};
use crate::config::Persona;
use crate::domain::{PausedBy, ResponsibilityId, RunId, Timestamp, Trigger};
use crate::schedule_file::timing::Timing;
use crate::store::{
    DueSlot, FileChange, FileState, Fired, Firing, NextSlot, Result as StoreResult, SlotWork,
    StoredResponsibility, WaitingSlot, WaitingTurn,
};
use futures_util::{FutureExt, StreamExt, stream};

/// Maximum due responsibilities of one query; the next query begins after them.
const LOOK_MAX: usize = 512;
/// Maximum responsibilities that fire concurrently, so that they share commits.
const SIDE_BY_SIDE: usize = 64;

/// Result of a tick.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TickReport {
    pub fired: Vec<(ResponsibilityId, RunId)>,
    /// Slots that began to wait for the end of another run.
    pub waiting: usize,
    /// Slots skipped because the previous run had not ended.
    pub skipped: usize,
    /// Slots that will never fire.
    pub missed: u64,
    /// Slots that came due while their responsibility was paused.
    pub passed: u64,
    /// Firings without effect, because another process had changed the row.
    pub stale: usize,
    /// Responsibilities paused after consecutive failed runs.
    pub paused: Vec<ResponsibilityId>,
    /// Responsibilities that could not fire now, each with its reason; the others did.
    pub problems: Vec<FileProblem>,
}

impl TickReport {
    fn absorb(&mut self, other: TickReport) {
        self.fired.extend(other.fired);
        self.paused.extend(other.paused);
        self.problems.extend(other.problems);
        self.waiting += other.waiting;
        self.skipped += other.skipped;
        self.missed += other.missed;
        self.passed += other.passed;
        self.stale += other.stale;
    }

    fn note(&mut self, row: &StoredResponsibility, fired: Fired) {
        match fired {
            Fired::Run(run) => self.fired.push((row.id.clone(), run)),
            Fired::Waiting(slots) => self.waiting += slots,
            Fired::SkippedOverlap => self.skipped += 1,
            Fired::Stale => self.stale += 1,
            Fired::Missed | Fired::AlreadyAccounted => {}
        }
    }
}

impl Scheduler {
    /// Fires slots that are due now, each responsibility separately. Repeated or concurrent calls
    /// fire no slot twice.
    ///
    /// Errors: only when the due rows cannot be read; the failure of one responsibility is in the
    /// report.
    pub async fn tick(&self) -> StoreResult<TickReport> {
        let now = self.clock.now();
        let mut report = self.watch(now).await;
        // Slots that waited for the end of a run begin before slots that came due since.
        report.absorb(self.take_turns().await);
        let mut last: Option<StoredResponsibility> = None;
        loop {
            let rows = self
                .store
                .due_responsibilities(now, last.as_ref(), LOOK_MAX)
                .await?;
            let firing: Vec<_> = rows
                .iter()
                .map(|row| self.fire_or_say(row, now).boxed())
                .collect();
            for fired in stream::iter(firing)
                .buffered(SIDE_BY_SIDE)
                .collect::<Vec<_>>()
                .await
            {
                report.absorb(fired);
            }
            if rows.len() < LOOK_MAX {
                break;
            }
            last = rows.into_iter().next_back();
        }
        if report.waiting > 0 {
            crate::crash::crash_point!("SC4");
            report.absorb(self.take_turns().await);
        }
        crate::crash::crash_point!("SC3", !report.fired.is_empty());
        Ok(report)
    }

    /// Pauses a responsibility until it is resumed. `false`: it was paused before, or its file is
    /// gone.
    pub async fn pause(&self, id: &ResponsibilityId) -> StoreResult<bool> {
        self.store
            .pause_responsibility(id, PausedBy::Owner, self.clock.now())
            .await
    }

    /// Resumes a responsibility from its next slot on. `false`: it is not paused, or its row has
    /// changed.
    pub async fn resume(&self, row: &StoredResponsibility) -> StoreResult<bool> {
        let (now, timing) = (self.clock.now(), in_force(row));
        let (lapsed, next) = match &timing {
            None => (None, NextSlot::default()),
            Some(timing) => {
                let schedule = schedule(row, timing);
                (
                    schedule.lapsed(row.version.cursor_at, now),
                    schedule.next(now, now),
                )
            }
        };
        self.store
            .resume_responsibility(&row.id, row.version, lapsed, next, now)
            .await
    }

    /// Pauses responsibilities after repeated failures, and emits notices about overdue slots.
    async fn watch(&self, now: Timestamp) -> TickReport {
        let mut report = TickReport::default();
        match self.store.pause_failing(now).await {
            Ok(paused) => {
                for id in &paused {
                    tracing::warn!(responsibility = %id, "paused: its runs failed one after another");
                }
                report.paused = paused;
            }
            Err(error) => {
                tracing::error!(%error, "what failed too often cannot be paused; trying again");
            }
        }
        match self.store.emit_overdue(now).await {
            Ok(0) => {}
            Ok(slots) => tracing::warn!(slots, "slots have not ended in time"),
            Err(error) => {
                tracing::error!(%error, "slots that have not ended cannot be told; trying again");
            }
        }
        report
    }

    /// Begins waiting slots whose turn it is.
    async fn take_turns(&self) -> TickReport {
        let mut report = TickReport::default();
        let turns = match self.store.waiting_turns().await {
            Ok(turns) => turns,
            Err(error) => {
                tracing::error!(%error, "slots that wait cannot be read; trying again");
                return report;
            }
        };
        let mut late_places = turns.late_places;
        for waiting in &turns.slots {
            if waiting.is_late && late_places == 0 {
                break;
            }
            match self.take_turn(waiting, &mut report).await {
                Ok(Fired::Run(_)) if waiting.is_late => late_places -= 1,
                Ok(_) => {}
                Err(error) => self.say(&waiting.responsibility, &error, &mut report),
            }
        }
        report
    }

    async fn take_turn(
        &self,
        waiting: &WaitingSlot,
        report: &mut TickReport,
    ) -> StoreResult<Fired> {
        let (row, now) = (&waiting.responsibility, self.clock.now());
        // The synchronisation removes rows without a persona.
        let Some(persona) = self.personas.get(&row.persona) else {
            return Ok(Fired::Stale);
        };
        if now.since(waiting.at) > row.slot_options.catch_up_window + row.slot_options.jitter {
            let note = "it waited for longer than slots are caught up with".to_owned();
            report.missed += u64::from(
                self.store
                    .give_up_waiting(&row.id, waiting.at, note)
                    .await?,
            );
            return Ok(Fired::Missed);
        }
        let turn = WaitingTurn {
            responsibility: row.id.clone(),
            revision: row.version.revision,
            slot_at: waiting.at,
            to: self.work(row, persona, waiting.at, report).await?,
            now,
        };
        let fired = self.store.begin_waiting(turn).await?;
        tracing::info!(responsibility = %row.id, slot = %waiting.at, outcome = %fired, "a slot that waited");
        report.missed += u64::from(fired == Fired::Missed);
        report.note(row, fired.clone());
        Ok(fired)
    }

    async fn fire_or_say(&self, row: &StoredResponsibility, now: Timestamp) -> TickReport {
        let mut report = TickReport::default();
        if let Err(error) = self.fire(row, now, &mut report).await {
            self.say(row, &error, &mut report);
        }
        report
    }

    fn say(
        &self,
        row: &StoredResponsibility,
        error: &crate::store::StoreError,
        report: &mut TickReport,
    ) {
        tracing::error!(%error, responsibility = %row.id, "a slot could not be fired; trying again");
        report.problems.push(FileProblem {
            file: path(row),
            problem: error.to_string(),
        });
    }

    async fn fire(
        &self,
        row: &StoredResponsibility,
        now: Timestamp,
        report: &mut TickReport,
    ) -> StoreResult<()> {
        let Some(persona) = self.personas.get(&row.persona) else {
            return Ok(());
        };
        let Some(timing) = in_force(row) else {
            return self.spoil(row, report).await;
        };
        let schedule = schedule(row, &timing);
        let due = schedule.due(row.version.cursor_at, now);
        let Some(last) = due.last else {
            if due.is_stuck() {
                tracing::error!(responsibility = %row.id, "no further slot was found; looking again in an hour");
                return self
                    .store
                    .search_again(&row.id, row.version, due.next)
                    .await;
            }
            return self
                .store
                .set_next_slot(&row.id, row.version, due.next)
                .await;
        };
        if row.paused.is_some() {
            return self.pass(row, &due, (last, now), report).await;
        }
        let slot = match due.on_time {
            Some(at) => {
                let to = self.work(row, persona, at, report).await?;
                Some(DueSlot {
                    at,
                    fire_at: schedule.fire_at(at),
                    to,
                })
            }
            None => None,
        };
        let missed = due.missed.as_ref().map_or(0, |missed| missed.count);
        let firing = Firing {
            slot,
            late: due.late,
            missed: due.missed,
            ..firing(row, (last, now), due.next)
        };
        crate::crash::crash_point!("SC1");
        let fired = self.store.fire_slot(firing).await?;
        tracing::info!(responsibility = %row.id, slot = %last, missed, outcome = %fired, "slot");
        if fired != Fired::Stale {
            report.missed += missed;
        }
        report.note(row, fired);
        Ok(())
    }

    /// Records the slots of a paused responsibility as passed.
    async fn pass(
        &self,
        row: &StoredResponsibility,
        due: &DueSlots,
        (last, now): (Timestamp, Timestamp),
        report: &mut TickReport,
    ) -> StoreResult<()> {
        let passed = due.all();
        let count = passed.as_ref().map_or(0, |passed| passed.count);
        let firing = Firing {
            missed: passed,
            ..firing(row, (last, now), due.next)
        };
        match self.store.pass_paused(firing).await? {
            true => report.passed += count,
            false => report.stale += 1,
        }
        Ok(())
    }

    async fn work(
        &self,
        row: &StoredResponsibility,
        persona: &Persona,
        slot: Timestamp,
        report: &mut TickReport,
    ) -> StoreResult<SlotWork> {
        let letters = self.letters(row, slot).await?;
        Ok(
            match self.prompt(row, persona, (slot, &letters), Trigger::Schedule) {
                Ok(prompt) => SlotWork::Run(Box::new(prompt)),
                Err(error) => {
                    let problem = match error.line {
                        Some(line) => format!("line {line} of the prompt: {error}"),
                        None => error.to_string(),
                    };
                    tracing::error!(responsibility = %row.id, %problem, "a slot is missed");
                    report.problems.push(FileProblem {
                        file: path(row),
                        problem: problem.clone(),
                    });
                    SlotWork::Unrenderable(problem)
                }
            },
        )
    }

    /// Marks a row as unusable whose timing can no longer be parsed, for example because a zone
    /// left the zone data.
    async fn spoil(&self, row: &StoredResponsibility, report: &mut TickReport) -> StoreResult<()> {
        let file = path(row);
        let problem = format!(
            "`{}` in `{}` cannot be understood any more",
            row.schedule, row.timezone
        );
        let error = format!("{file}: {problem}");
        tracing::error!(%error, "a responsibility cannot be used");
        let change = FileChange {
            persona: row.persona.clone(),
            file: row.file.clone(),
            seen: Some(row.version),
            new_id: row.id.clone(),
            renamed_from: None,
            to: FileState::Unusable { error },
            mark: None,
            lapsed: None,
            now: self.clock.now(),
        };
        self.store.sync_responsibilities(vec![change]).await?;
        report.problems.push(FileProblem { file, problem });
        Ok(())
    }
}

fn schedule<'a>(row: &'a StoredResponsibility, timing: &'a Timing) -> ScheduleInForce<'a> {
    ScheduleInForce {
        id: &row.id,
        timing,
        options: &row.slot_options,
    }
}

/// A firing that only moves the cursor.
fn firing(
    row: &StoredResponsibility,
    (last, now): (Timestamp, Timestamp),
    next: NextSlot,
) -> Firing {
    Firing {
        responsibility: row.id.clone(),
        seen: row.version,
        slot_options: row.slot_options.clone(),
        slot: None,
        late: Vec::new(),
        missed: None,
        cursor_at: last,
        next,
        now,
    }
}
