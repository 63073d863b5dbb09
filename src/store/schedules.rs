//! Responsibilities and their slots: files become rows, a due slot becomes a run in one commit.
//!
//! A slot is (responsibility, instant). Its row, its message, its run and the cursor commit together, and every
//! change names the version of the responsibility that it was computed from, so that two processes, an edit in
//! flight or a crash can neither fire a slot twice nor lose one. When a slot is due is the scheduler's affair.

use super::messages::insert_synthetic;
use super::runs::persona_id;
use super::{NewSynthetic, Result, Store, StoreError, facts};
use crate::clock::Clock;
use crate::domain::{PersonaId, ResponsibilityId, RunId, ThreadId, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

/// A responsibility as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponsibility {
    pub id: ResponsibilityId,
    pub persona: PersonaId,
    /// Path below the persona's folder.
    pub file: String,
    pub name: String,
    /// Five-field cron expression; empty when the file was never usable.
    pub schedule: String,
    /// IANA name.
    pub timezone: String,
    pub enabled: bool,
    /// The template.
    pub prompt: String,
    /// Micro-dollars that each of its runs may cost.
    pub budget_micros: Option<i64>,
    /// The JSON Schema of its answers.
    pub output_schema: Option<String>,
    pub version: Version,
    pub next_slot_at: Option<Timestamp>,
    pub removed_at: Option<Timestamp>,
    /// Why the file cannot be used now: it names file and line.
    pub error: Option<String>,
    /// The newest slot that became a run on schedule.
    pub last_fired_at: Option<Timestamp>,
}

/// What a change was computed from; a change of another version is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub revision: i64,
    /// No slot at or before this instant fires again.
    pub cursor_at: Timestamp,
}

/// Slots that will never fire, as one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedSlots {
    pub first: Timestamp,
    pub last: Timestamp,
    pub count: u64,
    /// Why, when it was not simply that no engine ran.
    pub note: Option<String>,
}

/// A change of one file, as the scheduler read it.
#[derive(Debug, Clone)]
pub struct FileChange {
    pub persona: PersonaId,
    pub file: String,
    /// The row that was seen; `None` when there was none, and then `new_id` names the new one.
    pub seen: Option<Version>,
    pub new_id: ResponsibilityId,
    pub to: FileState,
    /// Due slots of the old version that had not fired yet.
    pub lapsed: Option<MissedSlots>,
    /// The new cursor.
    pub now: Timestamp,
}

#[derive(Debug, Clone)]
pub enum FileState {
    InForce(Duty),
    /// The file is there and cannot be used.
    Unusable {
        error: String,
    },
    Removed,
}

/// A usable file.
#[derive(Debug, Clone)]
pub struct Duty {
    pub name: String,
    pub schedule: String,
    pub timezone: String,
    pub enabled: bool,
    pub prompt: String,
    pub prompt_sha256: String,
    /// Micro-dollars that each of its runs may cost.
    pub budget_micros: Option<i64>,
    /// The JSON Schema of its answers.
    pub output_schema: Option<String>,
    pub next_slot_at: Option<Timestamp>,
}

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
    pub next_slot_at: Option<Timestamp>,
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

pub(super) const RESPONSIBILITIES: &str = "
    SELECT r.*, (SELECT max(s.slot_at) FROM responsibility_slots s WHERE s.responsibility_id = r.id
      AND s.kind = 'scheduled' AND s.state = 'fired') AS last_fired_at
    FROM responsibilities r ORDER BY r.persona_id, r.file";
/// No next slot is a search that failed: it is tried again, because a schedule never dies silently.
pub(super) const DUE_RESPONSIBILITIES: &str = "
    SELECT r.*, (SELECT max(s.slot_at) FROM responsibility_slots s WHERE s.responsibility_id = r.id
      AND s.kind = 'scheduled' AND s.state = 'fired') AS last_fired_at
    FROM responsibilities r
    WHERE r.enabled = 1 AND r.removed_at IS NULL AND r.error IS NULL
      AND (r.next_slot_at IS NULL OR r.next_slot_at <= $1)
    ORDER BY r.next_slot_at, r.id";
pub(super) const INSERT_RESPONSIBILITY: &str = "
    INSERT INTO responsibilities (id, persona_id, file, name, schedule, timezone, enabled, prompt, prompt_sha256,
      next_slot_at, error, cursor_at, updated_at, budget_micros, output_schema)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $13, $14) ON CONFLICT DO NOTHING";
pub(super) const UPDATE_RESPONSIBILITY: &str = "
    UPDATE responsibilities SET name = $5, schedule = $6, timezone = $7, enabled = $8, prompt = $9,
      prompt_sha256 = $10, next_slot_at = $11, removed_at = NULL, error = NULL, budget_micros = $12,
      output_schema = $13, revision = revision + 1, cursor_at = $14, updated_at = $14
    WHERE persona_id = $1 AND file = $2 AND revision = $3 AND cursor_at = $4 RETURNING id";
pub(super) const SPOIL_RESPONSIBILITY: &str = "
    UPDATE responsibilities SET error = $5, next_slot_at = NULL, removed_at = NULL,
      revision = revision + 1, cursor_at = $6, updated_at = $6
    WHERE persona_id = $1 AND file = $2 AND revision = $3 AND cursor_at = $4 RETURNING id";
pub(super) const REMOVE_RESPONSIBILITY: &str = "
    UPDATE responsibilities SET removed_at = $5, next_slot_at = NULL, error = NULL,
      revision = revision + 1, cursor_at = $5, updated_at = $5
    WHERE persona_id = $1 AND file = $2 AND revision = $3 AND cursor_at = $4 RETURNING id";
pub(super) const SET_NEXT_SLOT: &str = "
    UPDATE responsibilities SET next_slot_at = $4 WHERE id = $1 AND revision = $2 AND cursor_at = $3";
pub(super) const MOVE_CURSOR: &str = "
    UPDATE responsibilities SET cursor_at = $4, next_slot_at = $5
    WHERE id = $1 AND revision = $2 AND cursor_at = $3
      AND enabled = 1 AND removed_at IS NULL AND error IS NULL";
pub(super) const INSERT_SLOT: &str = "
    INSERT INTO responsibility_slots (responsibility_id, slot_at, persona_id, kind, state, missed_count,
      missed_until, note, run_id, prompt_snapshot, prompt_sha256, created_at, output_schema)
    SELECT r.id, $2, r.persona_id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 FROM responsibilities r WHERE r.id = $1
    ON CONFLICT DO NOTHING";
pub(super) const HAS_OPEN_RUN: &str = "
    SELECT EXISTS (SELECT 1 FROM runs r JOIN responsibility_slots s ON s.run_id = r.id
      WHERE r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') AND s.responsibility_id = $1)";
pub(super) const LAST_THREAD: &str = "
    SELECT r.thread_id FROM responsibility_slots s JOIN runs r ON r.id = s.run_id
    WHERE s.responsibility_id = $1 ORDER BY s.slot_at DESC LIMIT 1";
impl Store {
    /// Every responsibility, removed ones included, by persona and file.
    pub async fn responsibilities(&self) -> Result<Vec<StoredResponsibility>> {
        let rows = sqlx::query(RESPONSIBILITIES).fetch_all(self.readers()).await?;
        rows.iter().map(responsibility).collect()
    }

    /// Responsibilities in force whose next slot is at or before `now`, or unknown.
    pub async fn due_responsibilities(&self, now: Timestamp) -> Result<Vec<StoredResponsibility>> {
        let due = sqlx::query(DUE_RESPONSIBILITIES).bind(now.to_string());
        due.fetch_all(self.readers()).await?.iter().map(responsibility).collect()
    }

    /// Makes a file's row what the file says; an edit bumps the revision and moves the cursor, so that nothing
    /// fires in retrospect. False: the row is no longer the one that was seen, and nothing was written.
    pub async fn sync_responsibility(&self, change: FileChange) -> Result<bool> {
        let clock = self.clock().clone();
        self.write(move |conn| Box::pin(async move { apply(conn, &change, clock.as_ref()).await })).await
    }

    /// Stores a next slot that was computed anew (other zone data); nothing happens to a row that changed.
    pub async fn set_next_slot(
        &self,
        id: &ResponsibilityId,
        seen: Version,
        next: Option<Timestamp>,
    ) -> Result<()> {
        let id = id.as_str().to_owned();
        self.write(move |conn| {
            Box::pin(async move {
                let set = sqlx::query(SET_NEXT_SLOT).bind(id).bind(seen.revision);
                let set = set.bind(seen.cursor_at.to_string()).bind(next.map(|at| at.to_string()));
                set.execute(conn).await?;
                Ok(())
            })
        })
        .await
    }

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

async fn apply(conn: &mut SqliteConnection, change: &FileChange, clock: &dyn Clock) -> Result<bool> {
    let Some(seen) = change.seen else { return insert_responsibility(conn, change, clock).await };
    let sql = match &change.to {
        FileState::InForce(_) => UPDATE_RESPONSIBILITY,
        FileState::Unusable { .. } => SPOIL_RESPONSIBILITY,
        FileState::Removed => REMOVE_RESPONSIBILITY,
    };
    let update = sqlx::query_scalar::<_, String>(sql).bind(change.persona.as_str()).bind(&change.file);
    let update = update.bind(seen.revision).bind(seen.cursor_at.to_string());
    let update = match &change.to {
        FileState::InForce(duty) => update
            .bind(&duty.name)
            .bind(&duty.schedule)
            .bind(&duty.timezone)
            .bind(duty.enabled)
            .bind(&duty.prompt)
            .bind(&duty.prompt_sha256)
            .bind(duty.next_slot_at.map(|at| at.to_string()))
            .bind(duty.budget_micros)
            .bind(&duty.output_schema),
        FileState::Unusable { error } => update.bind(error),
        FileState::Removed => update,
    };
    let Some(id) = update.bind(change.now.to_string()).fetch_optional(&mut *conn).await? else {
        return Ok(false);
    };
    if let FileState::Unusable { error } = &change.to {
        let of = (&change.persona, id.as_str(), seen.revision + 1);
        facts::responsibility_broken(conn, of, error, clock).await?;
    }
    if let Some(lapsed) = &change.lapsed {
        insert_missed(conn, &ResponsibilityId::new(id), lapsed, change.now).await?;
    }
    Ok(true)
}

async fn insert_responsibility(
    conn: &mut SqliteConnection,
    change: &FileChange,
    clock: &dyn Clock,
) -> Result<bool> {
    let (duty, error) = match &change.to {
        FileState::InForce(duty) => (Some(duty), None),
        FileState::Unusable { error } => (None, Some(error)),
        FileState::Removed => return Ok(true),
    };
    let text = |of: fn(&Duty) -> &String| duty.map_or("", |duty| of(duty).as_str());
    // A file that was never usable has no name but its own.
    let insert =
        sqlx::query(INSERT_RESPONSIBILITY).bind(change.new_id.as_str()).bind(change.persona.as_str());
    let insert = insert.bind(&change.file).bind(duty.map_or(change.file.as_str(), |duty| &duty.name));
    let insert = insert.bind(text(|duty| &duty.schedule)).bind(text(|duty| &duty.timezone));
    let insert = insert.bind(duty.is_some_and(|duty| duty.enabled)).bind(text(|duty| &duty.prompt));
    let insert = insert.bind(text(|duty| &duty.prompt_sha256));
    let insert = insert.bind(duty.and_then(|duty| duty.next_slot_at).map(|at| at.to_string()));
    let insert = insert.bind(error).bind(change.now.to_string());
    let insert = insert.bind(duty.and_then(|duty| duty.budget_micros));
    let insert = insert.bind(duty.and_then(|duty| duty.output_schema.as_ref()));
    let done = insert.execute(&mut *conn).await?.rows_affected() > 0;
    if let (Some(error), true) = (error, done) {
        let of = (&change.persona, change.new_id.as_str(), 1);
        facts::responsibility_broken(conn, of, error, clock).await?;
    }
    Ok(done)
}

async fn fire(conn: &mut SqliteConnection, firing: Firing) -> Result<Fired> {
    let (id, now) = (&firing.responsibility, firing.now);
    let moved = sqlx::query(MOVE_CURSOR).bind(id.as_str()).bind(firing.seen.revision);
    let moved = moved.bind(firing.seen.cursor_at.to_string()).bind(firing.cursor_at.to_string());
    let moved = moved.bind(firing.next_slot_at.map(|at| at.to_string())).execute(&mut *conn).await?;
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

async fn insert_missed(
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
    Ok(insert.execute(conn).await?.rows_affected() > 0)
}

fn responsibility(row: &SqliteRow) -> Result<StoredResponsibility> {
    Ok(StoredResponsibility {
        id: ResponsibilityId::new(row.get::<String, _>("id")),
        persona: persona_id(row)?,
        file: row.get("file"),
        name: row.get("name"),
        schedule: row.get("schedule"),
        timezone: row.get("timezone"),
        enabled: row.get("enabled"),
        prompt: row.get("prompt"),
        budget_micros: row.get("budget_micros"),
        output_schema: row.get("output_schema"),
        version: Version {
            revision: row.get("revision"),
            cursor_at: time(row, "cursor_at")?.ok_or(UNREADABLE_TIME)?,
        },
        next_slot_at: time(row, "next_slot_at")?,
        removed_at: time(row, "removed_at")?,
        error: row.get("error"),
        last_fired_at: time(row, "last_fired_at")?,
    })
}

pub(super) const UNREADABLE_TIME: StoreError = StoreError::Unreadable { what: "time of a responsibility" };

pub(super) fn time(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>> {
    let text: Option<&str> = row.get(column);
    text.map(|text| Timestamp::parse(text).ok_or(UNREADABLE_TIME)).transpose()
}
