//! Due slots become runs. The slot's row, its message, its run and the cursor commit together, and every change names the
//! version of the responsibility that it was computed from, so that two processes, an edit in flight or a crash can neither
//! fire a slot twice nor lose one.

use super::messages::insert_synthetic;
use super::schedules::{MissedSlots, NextSlot, Version};
use super::terms::run_terms_json;
use super::{NewSynthetic, Result, Store, StoreError};
use crate::domain::{ResponsibilityId, RunId, RunTerms, ThreadId, Timestamp};
use sqlx::SqliteConnection;

/// What a due responsibility owes.
#[derive(Debug, Clone)]
pub struct Firing {
    pub responsibility: ResponsibilityId,
    pub seen: Version,
    /// The slot to fire; `None` when all due slots are too old.
    pub slot: Option<DueSlot>,
    pub missed: Option<MissedSlots>,
    /// The newest slot that this accounts for.
    pub cursor_at: Timestamp,
    pub next: NextSlot,
    pub now: Timestamp,
}

#[derive(Debug, Clone)]
pub struct DueSlot {
    pub at: Timestamp,
    pub to: SlotWork,
}

#[derive(Debug, Clone)]
pub enum SlotWork {
    /// `thread` is filled in from the responsibility's last run.
    Run(Box<ScheduledPrompt>),
    /// The prompt could not be rendered; the slot is missed and says why.
    Unrenderable(String),
}

/// A rendered prompt with its run.
#[derive(Debug, Clone)]
pub struct ScheduledPrompt {
    pub message: NewSynthetic,
    /// SHA-256 of the template, in hex.
    pub prompt_sha256: String,
    /// The JSON Schema that the run's answer is held to.
    pub output_schema: Option<String>,
    /// What the run is held to beside it.
    pub run_terms: RunTerms,
}

/// What became of a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    Run(RunId),
    /// The previous run is not over.
    SkippedOverlap,
    /// Nothing fires; only missed slots were accounted for.
    Missed,
    /// The slot has a row of an earlier firing, for example from before the clock was set back.
    AlreadyAccounted,
    /// Somebody else fired it, or the responsibility changed meanwhile: nothing was written.
    Stale,
}

pub(super) const MOVE_CURSOR: &str = "
    UPDATE responsibilities SET cursor_at = $4, next_slot_at = $5, fire_at = $6, is_done = $7
    WHERE id = $1 AND revision = $2 AND cursor_at = $3
      AND enabled = 1 AND removed_at IS NULL AND error IS NULL";
pub(super) const INSERT_SLOT: &str = "
    INSERT INTO responsibility_slots (responsibility_id, slot_at, persona_id, kind, state, missed_count,
      missed_until, note, run_id, prompt_snapshot, prompt_sha256, created_at, output_schema, run_terms_json)
    SELECT r.id, $2, r.persona_id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 FROM responsibilities r WHERE r.id = $1
    ON CONFLICT DO NOTHING";
pub(super) const HAS_OPEN_RUN: &str = "
    SELECT EXISTS (SELECT 1 FROM runs r JOIN responsibility_slots s ON s.run_id = r.id
      WHERE r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') AND s.responsibility_id = $1)";
pub(super) const LAST_THREAD: &str = "
    SELECT r.thread_id FROM responsibility_slots s JOIN runs r ON r.id = s.run_id
    WHERE s.responsibility_id = $1 ORDER BY s.slot_at DESC LIMIT 1";

impl Store {
    /// Fires one responsibility: slot rows, message, run, cursor and next slot, all or nothing.
    pub async fn fire_slot(&self, firing: Firing) -> Result<Fired> {
        self.write(move |conn| {
            Box::pin(async move {
                let fired = fire(conn, firing).await?;
                crate::crash::crash_point!("SC2");
                Ok(fired)
            })
        })
        .await
    }

    /// Starts a responsibility by hand: a `manual` slot and its run; the cursor stays.
    pub async fn run_responsibility(
        &self,
        id: &ResponsibilityId,
        prompt: ScheduledPrompt,
        now: Timestamp,
    ) -> Result<RunId> {
        let id = id.clone();
        self.write(move |conn| {
            Box::pin(async move {
                let run = prompt.message.run.id.clone();
                let slot = SlotRow { kind: "manual", ..SlotRow::fired(&prompt) };
                if !insert_slot(conn, &id, now, &slot, now).await? {
                    return Err(StoreError::WrongState {
                        kind: "responsibility",
                        id: id.as_str().to_owned(),
                        state: "being started by hand at this very moment".to_owned(),
                        hint: "look at its history, then try again",
                    });
                }
                start_run(conn, &id, prompt.message, now).await?;
                Ok(run)
            })
        })
        .await
    }
}

async fn fire(conn: &mut SqliteConnection, firing: Firing) -> Result<Fired> {
    let (id, now) = (&firing.responsibility, firing.now);
    let moved = sqlx::query(MOVE_CURSOR).bind(id.as_str()).bind(firing.seen.revision);
    let moved = moved.bind(firing.seen.cursor_at.to_string()).bind(firing.cursor_at.to_string());
    let moved = moved.bind(firing.next.at.map(|at| at.to_string()));
    let moved = moved.bind(firing.next.fire_at.map(|at| at.to_string())).bind(firing.next.is_done);
    let moved = moved.execute(&mut *conn).await?;
    if moved.rows_affected() == 0 {
        return Ok(Fired::Stale);
    }
    if let Some(missed) = &firing.missed {
        insert_missed(conn, id, missed, now).await?;
    }
    let Some(slot) = firing.slot else { return Ok(Fired::Missed) };
    let prompt = match slot.to {
        SlotWork::Run(prompt) => prompt,
        SlotWork::Unrenderable(error) => {
            let missed = MissedSlots { first: slot.at, last: slot.at, count: 1, note: Some(error) };
            insert_missed(conn, id, &missed, now).await?;
            return Ok(Fired::Missed);
        }
    };
    let overlaps: bool = sqlx::query_scalar(HAS_OPEN_RUN).bind(id.as_str()).fetch_one(&mut *conn).await?;
    let row = if overlaps { SlotRow::new("skipped_overlap") } else { SlotRow::fired(&prompt) };
    if !insert_slot(conn, id, slot.at, &row, now).await? {
        return Ok(Fired::AlreadyAccounted);
    }
    if overlaps {
        return Ok(Fired::SkippedOverlap);
    }
    let run = prompt.message.run.id.clone();
    start_run(conn, id, prompt.message, now).await?;
    Ok(Fired::Run(run))
}

/// Queues the run in the responsibility's own thread, which its first run makes.
async fn start_run(
    conn: &mut SqliteConnection,
    id: &ResponsibilityId,
    mut message: NewSynthetic,
    now: Timestamp,
) -> Result<()> {
    let thread: Option<String> =
        sqlx::query_scalar(LAST_THREAD).bind(id.as_str()).fetch_optional(&mut *conn).await?;
    message.thread = thread.map(ThreadId::new);
    insert_synthetic(conn, &message, now).await.map(|_| ())
}

/// The columns of a slot that differ.
struct SlotRow<'a> {
    kind: &'static str,
    state: &'static str,
    missed: Option<&'a MissedSlots>,
    prompt: Option<&'a ScheduledPrompt>,
}

impl<'a> SlotRow<'a> {
    fn new(state: &'static str) -> Self {
        Self { kind: "scheduled", state, missed: None, prompt: None }
    }
    fn fired(prompt: &'a ScheduledPrompt) -> Self {
        Self { prompt: Some(prompt), ..Self::new("fired") }
    }
}

pub(super) async fn insert_missed(
    conn: &mut SqliteConnection,
    id: &ResponsibilityId,
    missed: &MissedSlots,
    now: Timestamp,
) -> Result<()> {
    let row = SlotRow { missed: Some(missed), ..SlotRow::new("missed") };
    insert_slot(conn, id, missed.first, &row, now).await.map(|_| ())
}

/// False: the slot has a row already.
async fn insert_slot(
    conn: &mut SqliteConnection,
    id: &ResponsibilityId,
    at: Timestamp,
    row: &SlotRow<'_>,
    now: Timestamp,
) -> Result<bool> {
    let insert =
        sqlx::query(INSERT_SLOT).bind(id.as_str()).bind(at.to_string()).bind(row.kind).bind(row.state);
    let insert = insert.bind(row.missed.map_or(0, |missed| i64::try_from(missed.count).unwrap_or(i64::MAX)));
    let insert = insert.bind(row.missed.map(|missed| missed.last.to_string()));
    let insert = insert.bind(row.missed.and_then(|missed| missed.note.as_deref()));
    let insert = insert.bind(row.prompt.map(|prompt| prompt.message.run.id.as_str()));
    let insert = insert.bind(row.prompt.map(|prompt| prompt.message.content.text_body.as_str()));
    let insert = insert.bind(row.prompt.map(|prompt| &prompt.prompt_sha256));
    let insert = insert.bind(now.to_string()).bind(row.prompt.and_then(|p| p.output_schema.as_deref()));
    let insert = insert.bind(row.prompt.map(|prompt| run_terms_json(&prompt.run_terms)));
    Ok(insert.execute(conn).await?.rows_affected() > 0)
}
