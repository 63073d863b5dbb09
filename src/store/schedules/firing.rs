//! Turns due slots into runs. The slot's row, its message, its run and the cursor commit together,
//! and every change names the version of the responsibility that it was computed from, so that two
//! processes, an edit in flight or a crash can neither fire a slot twice nor lose it. Waiting slots
//! are in `waiting.rs`, paused responsibilities in `pauses.rs`.

use crate::clock::Clock;
use crate::domain::{
    CatchUp, DeliverTo, Overlap, ResponsibilityId, RunId, RunOptions, SlotOptions, ThreadId,
    Timestamp,
};
use crate::store::mail::messages::insert_synthetic;
use crate::store::schedules::responsibilities::{MissedSlots, NextSlot, Version};
use crate::store::schedules::run_options::run_options_json;
use crate::store::schedules::slot_events;
use crate::store::schedules::waiting;
use crate::store::{NewSynthetic, Result, Store, StoreError};
use sqlx::{Row, SqliteConnection};

/// Failures in a row after which a responsibility is paused until an operator resumes it.
pub const FAILURES_MAX: u32 = 5;

/// Due slots of a responsibility.
#[derive(Debug, Clone)]
pub struct Firing {
    pub responsibility: ResponsibilityId,
    pub seen: Version,
    pub slot_options: SlotOptions,
    /// The slot to fire, when it is within its window.
    pub slot: Option<DueSlot>,
    /// Slots to catch up with, oldest first.
    pub late: Vec<Timestamp>,
    /// Slots that never fire.
    pub missed: Option<MissedSlots>,
    /// The newest slot that this firing accounts for.
    pub cursor_at: Timestamp,
    pub next: NextSlot,
    pub now: Timestamp,
}

#[derive(Debug, Clone)]
pub struct DueSlot {
    pub at: Timestamp,
    /// Instant at which it was to fire.
    pub fire_at: Timestamp,
    pub to: SlotWork,
}

#[derive(Debug, Clone)]
pub enum SlotWork {
    /// The prompt with its run; `thread` is filled in from the responsibility.
    Run(Box<ScheduledPrompt>),
    /// Error of rendering the prompt; the slot is missed, with this note.
    Unrenderable(String),
}

/// A rendered prompt with its run.
#[derive(Debug, Clone)]
pub struct ScheduledPrompt {
    pub message: NewSynthetic,
    /// SHA-256 of the template, in hex.
    pub prompt_sha256: String,
    /// JSON Schema of the run's answer.
    pub output_schema: Option<String>,
    /// Options of the run besides the schema.
    pub run_options: RunOptions,
}

/// Result of a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fired {
    Run(RunId),
    /// Number of slots that now wait for their turn.
    Waiting(usize),
    /// The previous run is not over.
    SkippedOverlap,
    /// No slot fires; missed slots were accounted for.
    Missed,
    /// The slot has a row of an earlier firing, for example from before the clock was set back.
    AlreadyAccounted,
    /// Another process fired the slot, or the responsibility changed meanwhile: nothing was
    /// written.
    Stale,
}

impl std::fmt::Display for Fired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(run) => write!(f, "run {run}"),
            Self::Waiting(slots) => write!(f, "{slots} wait"),
            Self::SkippedOverlap => f.write_str("skipped, because the previous run is not over"),
            Self::Missed => f.write_str("missed"),
            Self::AlreadyAccounted => f.write_str("fired before"),
            Self::Stale => f.write_str("left to whoever changed it meanwhile"),
        }
    }
}

/// `$8`: for a responsibility that is paused. Nothing fires between the last allowed failure and
/// the pause.
pub(in crate::store) const MOVE_CURSOR: &str = "
    UPDATE responsibilities SET cursor_at = $4, next_slot_at = $5, fire_at = $6, is_done = $7
    WHERE id = $1 AND revision = $2 AND cursor_at = $3
      AND enabled = 1 AND removed_at IS NULL AND error IS NULL
      AND (paused_at IS NOT NULL) = $8 AND ($8 OR failures < $9)";
pub(in crate::store) const INSERT_SLOT: &str = "
    INSERT INTO responsibility_slots (responsibility_id, slot_at, persona_id, kind, state, missed_count,
      missed_until, note, run_id, prompt_snapshot, prompt_sha256, created_at, output_schema, run_options_json, is_late,
      overdue_at, revision)
    SELECT r.id, $2, r.persona_id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, r.revision
    FROM responsibilities r WHERE r.id = $1
    ON CONFLICT DO NOTHING";
/// Rows that hold up a slot: open runs of the responsibility, in any of its threads, but not those
/// of letters there; late slots that wait, and other slots that wait.
pub(in crate::store) const BEFORE_IT: &str = "
    SELECT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_open_by_thread CROSS JOIN responsibility_slots s ON s.run_id = r.id
        WHERE r.thread_id IN (d.thread_id, d.own_thread_id) AND +s.responsibility_id = d.id
          AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')) AS is_open,
      (SELECT count(*) FROM responsibility_slots s INDEXED BY responsibility_slots_waiting_of
         WHERE s.responsibility_id = d.id AND s.state = 'waiting' AND s.is_late = 1)
        AS late,
      EXISTS (SELECT 1 FROM responsibility_slots s INDEXED BY responsibility_slots_waiting_of
        WHERE s.responsibility_id = d.id AND s.state = 'waiting' AND s.is_late = 0) AS is_buffered
    FROM responsibilities d WHERE d.id = $1";
/// The thread that a run is placed in, if the persona has it.
pub(in crate::store) const NAMED_THREAD: &str = "
    SELECT t.id FROM threads t JOIN responsibilities d ON d.persona_id = t.persona_id WHERE t.id = $2 AND d.id = $1";
pub(in crate::store) const OWN_THREAD: &str =
    "SELECT own_thread_id FROM responsibilities WHERE id = $1";
pub(in crate::store) const STANDS_IN: &str = "
    UPDATE responsibilities SET thread_id = $2, own_thread_id = CASE $3 WHEN 1 THEN $2 ELSE own_thread_id END
    WHERE id = $1 AND (thread_id IS NOT $2 OR ($3 = 1 AND own_thread_id IS NOT $2))";

impl Store {
    /// Fires one responsibility: slot rows, message, run, cursor and next slot, all or nothing.
    pub async fn fire_slot(&self, firing: Firing) -> Result<Fired> {
        let clock = self.clock().clone();
        self.write(move |conn| {
            Box::pin(async move {
                let fired = fire(conn, firing, clock.as_ref()).await?;
                crate::crash::crash_point!("SC2");
                Ok(fired)
            })
        })
        .await
    }

    /// Starts a responsibility by hand: a `manual` slot and its run; the cursor stays.
    ///
    /// Errors: [`StoreError::WrongState`] at the second start in one instant;
    /// [`StoreError::Missing`] for the thread of the run.
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
                let slot = SlotRow {
                    kind: "manual",
                    ..SlotRow::fired(&prompt)
                };
                if !insert_slot(conn, &id, now, &slot, now).await? {
                    return Err(StoreError::WrongState {
                        kind: "responsibility",
                        id: id.as_str().to_owned(),
                        state: "being started by hand at this very moment".to_owned(),
                        hint: "look at its history, then try again",
                    });
                }
                match place_of(conn, &id, &prompt.run_options.deliver_to).await? {
                    Stands::Nowhere(thread) => Err(StoreError::Missing {
                        kind: "thread",
                        id: thread.to_string(),
                    }),
                    Stands::In(place) => start_run(conn, &id, prompt.message, place, now)
                        .await
                        .map(|()| run),
                }
            })
        })
        .await
    }
}

async fn fire(conn: &mut SqliteConnection, firing: Firing, clock: &dyn Clock) -> Result<Fired> {
    let (id, now) = (&firing.responsibility, firing.now);
    if !move_cursor(conn, &firing, false).await? {
        return Ok(Fired::Stale);
    }
    let mut pending = match &firing.missed {
        Some(missed) if insert_missed(conn, id, missed, now).await? => Some(missed.clone()),
        _ => None,
    };
    let fired = match firing.slot {
        Some(slot) => fire_in_time(conn, id, slot, &firing.slot_options, now).await?,
        None if firing.late.is_empty() => Started::Did(Fired::Missed),
        None => {
            let dropped =
                waiting::line_up(conn, id, &firing.late, &firing.slot_options, now).await?;
            pending = merged(pending, dropped);
            Started::Did(Fired::Waiting(firing.late.len()))
        }
    };
    // With `latest` the newest slot replaces the earlier ones; with `all` each fires by itself.
    let stands_for_them = matches!(fired, Started::Did(Fired::Run(_) | Fired::Waiting(_)))
        && firing.slot_options.catch_up != CatchUp::All;
    if let Some(missed) = pending.filter(|_| !stands_for_them) {
        slot_events::slots_missed(conn, id, &missed, clock).await?;
    }
    match fired {
        Started::Did(fired) => Ok(fired),
        Started::Cannot(missed) => {
            insert_missed(conn, id, &missed, now).await?;
            slot_events::slots_missed(conn, id, &missed, clock).await?;
            Ok(Fired::Missed)
        }
    }
}

/// Merges two ranges of missed slots into one event.
pub(in crate::store) fn merged(
    one: Option<MissedSlots>,
    other: Option<MissedSlots>,
) -> Option<MissedSlots> {
    match (one, other) {
        (Some(one), Some(other)) => Some(MissedSlots {
            first: one.first.min(other.first),
            last: one.last.max(other.last),
            count: one.count + other.count,
            note: one.note.or(other.note),
        }),
        (one, other) => one.or(other),
    }
}

/// Moves the cursor. `false`: the responsibility is not in the version that was read.
pub(in crate::store) async fn move_cursor(
    conn: &mut SqliteConnection,
    firing: &Firing,
    is_paused: bool,
) -> Result<bool> {
    let moved = sqlx::query(MOVE_CURSOR)
        .bind(firing.responsibility.as_str())
        .bind(firing.seen.revision);
    let moved = moved
        .bind(firing.seen.cursor_at.to_string())
        .bind(firing.cursor_at.to_string());
    let moved = moved.bind(firing.next.at.map(|at| at.to_string()));
    let moved = moved
        .bind(firing.next.fire_at.map(|at| at.to_string()))
        .bind(firing.next.is_done);
    let moved = moved
        .bind(is_paused)
        .bind(FAILURES_MAX)
        .execute(conn)
        .await?;
    Ok(moved.rows_affected() > 0)
}

/// Result of starting a slot.
pub(in crate::store) enum Started {
    Did(Fired),
    /// The slot can never begin: it is to be missed, with a note.
    Cannot(MissedSlots),
}

impl Started {
    pub(in crate::store) fn cannot(slot: Timestamp, note: String) -> Self {
        Started::Cannot(MissedSlots {
            first: slot,
            last: slot,
            count: 1,
            note: Some(note),
        })
    }
}

async fn fire_in_time(
    conn: &mut SqliteConnection,
    id: &ResponsibilityId,
    slot: DueSlot,
    options: &SlotOptions,
    now: Timestamp,
) -> Result<Started> {
    let before = sqlx::query(BEFORE_IT)
        .bind(id.as_str())
        .fetch_one(&mut *conn)
        .await?;
    let (is_open, is_buffered): (bool, bool) = (before.get("is_open"), before.get("is_buffered"));
    let has_late = before.get::<i64, _>("late") > 0;
    let overdue_at = Some(slot.fire_at.plus(options.grace));
    // A newer slot replaces a late one that has not begun, unless all are to fire.
    let waits_behind_late = has_late && options.catch_up == CatchUp::All;
    if is_open || is_buffered || waits_behind_late {
        let waits = options.overlap == Overlap::BufferOne && !is_buffered;
        let row = match waits {
            true => SlotRow {
                overdue_at,
                ..SlotRow::new("waiting")
            },
            false => SlotRow::new("skipped_overlap"),
        };
        let fired = if waits {
            Fired::Waiting(1)
        } else {
            Fired::SkippedOverlap
        };
        let inserted = insert_slot(conn, id, slot.at, &row, now).await?;
        return Ok(Started::Did(if inserted {
            fired
        } else {
            Fired::AlreadyAccounted
        }));
    }
    let prompt = match slot.to {
        SlotWork::Run(prompt) => prompt,
        SlotWork::Unrenderable(error) => return Ok(Started::cannot(slot.at, error)),
    };
    let place = match place_of(conn, id, &prompt.run_options.deliver_to).await? {
        Stands::In(place) => place,
        Stands::Nowhere(thread) => return Ok(Started::cannot(slot.at, no_thread(&thread))),
    };
    let row = SlotRow {
        overdue_at,
        ..SlotRow::fired(&prompt)
    };
    if !insert_slot(conn, id, slot.at, &row, now).await? {
        return Ok(Started::Did(Fired::AlreadyAccounted));
    }
    if has_late {
        waiting::end_waiting(conn, id, "missed", Some(waiting::NEWER_FIRED)).await?;
    }
    let run = prompt.message.run.id.clone();
    start_run(conn, id, prompt.message, place, now).await?;
    Ok(Started::Did(Fired::Run(run)))
}

/// Place of a run, resolved.
pub(in crate::store) enum Stands {
    In(RunThread),
    /// The persona has no such thread.
    Nowhere(ThreadId),
}

pub(in crate::store) enum RunThread {
    /// The responsibility's own thread, which its first run creates.
    Own(Option<ThreadId>),
    Named(ThreadId),
}

pub(in crate::store) fn no_thread(thread: &ThreadId) -> String {
    format!("there is no thread `{thread}` of this persona, in which the run was to stand")
}

pub(in crate::store) async fn place_of(
    conn: &mut SqliteConnection,
    id: &ResponsibilityId,
    to: &DeliverTo,
) -> Result<Stands> {
    let DeliverTo::Thread(thread) = to else {
        let own: Option<String> = sqlx::query_scalar(OWN_THREAD)
            .bind(id.as_str())
            .fetch_one(conn)
            .await?;
        return Ok(Stands::In(RunThread::Own(own.map(ThreadId::new))));
    };
    let named = sqlx::query(NAMED_THREAD)
        .bind(id.as_str())
        .bind(thread.as_str());
    Ok(match named.fetch_optional(conn).await? {
        Some(_) => Stands::In(RunThread::Named(thread.clone())),
        None => Stands::Nowhere(thread.clone()),
    })
}

/// Queues the run in its thread.
pub(in crate::store) async fn start_run(
    conn: &mut SqliteConnection,
    id: &ResponsibilityId,
    mut message: NewSynthetic,
    place: RunThread,
    now: Timestamp,
) -> Result<()> {
    let is_own = matches!(place, RunThread::Own(_));
    message.thread = match place {
        RunThread::Own(thread) => thread,
        RunThread::Named(thread) => Some(thread),
    };
    let thread = insert_synthetic(conn, &message, now).await?;
    let stands = sqlx::query(STANDS_IN)
        .bind(id.as_str())
        .bind(thread.as_str())
        .bind(is_own);
    stands.execute(conn).await?;
    Ok(())
}

/// Columns of a slot that differ between its callers.
pub(in crate::store) struct SlotRow<'a> {
    pub kind: &'static str,
    pub state: &'static str,
    pub missed: Option<&'a MissedSlots>,
    pub prompt: Option<&'a ScheduledPrompt>,
    pub is_late: bool,
    pub overdue_at: Option<Timestamp>,
}

impl<'a> SlotRow<'a> {
    pub(in crate::store) fn new(state: &'static str) -> Self {
        Self {
            kind: "scheduled",
            state,
            missed: None,
            prompt: None,
            is_late: false,
            overdue_at: None,
        }
    }
    fn fired(prompt: &'a ScheduledPrompt) -> Self {
        Self {
            prompt: Some(prompt),
            ..Self::new("fired")
        }
    }
}

/// Inserts a row for missed slots. `false`: the first of them has a row already.
pub(in crate::store) async fn insert_missed(
    conn: &mut SqliteConnection,
    id: &ResponsibilityId,
    missed: &MissedSlots,
    now: Timestamp,
) -> Result<bool> {
    let row = SlotRow {
        missed: Some(missed),
        ..SlotRow::new("missed")
    };
    insert_slot(conn, id, missed.first, &row, now).await
}

/// Inserts a slot. `false`: the slot has a row already.
pub(in crate::store) async fn insert_slot(
    conn: &mut SqliteConnection,
    id: &ResponsibilityId,
    at: Timestamp,
    row: &SlotRow<'_>,
    now: Timestamp,
) -> Result<bool> {
    let insert = sqlx::query(INSERT_SLOT)
        .bind(id.as_str())
        .bind(at.to_string())
        .bind(row.kind)
        .bind(row.state);
    let insert = insert.bind(
        row.missed
            .map_or(0, |missed| i64::try_from(missed.count).unwrap_or(i64::MAX)),
    );
    let insert = insert.bind(row.missed.map(|missed| missed.last.to_string()));
    let insert = insert.bind(row.missed.and_then(|missed| missed.note.as_deref()));
    let insert = insert.bind(row.prompt.map(|prompt| prompt.message.run.id.as_str()));
    let insert = insert.bind(
        row.prompt
            .map(|prompt| prompt.message.content.text_body.as_str()),
    );
    let insert = insert.bind(row.prompt.map(|prompt| &prompt.prompt_sha256));
    let insert = insert
        .bind(now.to_string())
        .bind(row.prompt.and_then(|p| p.output_schema.as_deref()));
    let insert = insert.bind(
        row.prompt
            .map(|prompt| run_options_json(&prompt.run_options)),
    );
    let insert = insert
        .bind(row.is_late)
        .bind(row.overdue_at.map(|at| at.to_string()));
    Ok(insert.execute(conn).await?.rows_affected() > 0)
}
