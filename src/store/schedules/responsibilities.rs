//! Responsibilities as rows of their files. Every change names the version of the row that it was
//! computed from. The due times of slots are computed by the scheduler; slots become runs in
//! `firing.rs`.

use crate::clock::Clock;
use crate::domain::{
    PausedBy, PersonaId, ResponsibilityId, RunOptions, SlotOptions, ThreadId, Timestamp,
};
use crate::store::notices::events;
use crate::store::runs::queue::{persona_id, to_i64};
use crate::store::schedules::firing::{insert_missed, merged};
use crate::store::schedules::run_options::{
    run_options, run_options_json, slot_options, slot_options_json,
};
use crate::store::schedules::slot_events;
use crate::store::schedules::waiting::{FILE_CHANGED, end_waiting};
use crate::store::{Result, Store, StoreError};
use serde_json::{Value, json};
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
    /// IANA time zone name.
    pub timezone: String,
    pub enabled: bool,
    /// Template of the prompt.
    pub prompt: String,
    /// Micro-dollars that each of its runs may cost.
    pub budget_micros: Option<i64>,
    /// JSON Schema of its answers.
    pub output_schema: Option<String>,
    pub slot_options: SlotOptions,
    pub run_options: RunOptions,
    pub version: Version,
    pub next: NextSlot,
    pub paused: Option<Paused>,
    /// Number of failed runs since the last success.
    pub failures: u32,
    /// Thread of its newest run; `None` before the first run.
    pub thread: Option<ThreadId>,
    /// Mark of the file's state when it was read, in the scheduler's format.
    pub mark: Option<String>,
    pub removed_at: Option<Timestamp>,
    /// Error because of which the file cannot be used now: it names file and line.
    pub error: Option<String>,
    /// The newest scheduled slot that became a run.
    pub last_fired_at: Option<Timestamp>,
    /// The newest scheduled slot whose run succeeded.
    pub last_succeeded_at: Option<Timestamp>,
}

/// Begin and actor of a pause: no slot fires until an operator resumes the responsibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paused {
    pub at: Timestamp,
    pub by: PausedBy,
}

/// Version that a change was computed from; a change of another version is not made.
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
    /// Reason, unless it is only that no engine ran.
    pub note: Option<String>,
}

impl MissedSlots {
    /// Most slots that are counted one by one after a long downtime; beyond that some are left out,
    /// so that a larger number is a lower bound.
    pub const COUNTED_MAX: u64 = 50_000;
}

/// The next slot of a responsibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NextSlot {
    pub at: Option<Timestamp>,
    /// Instant at which it fires.
    pub fire_at: Option<Timestamp>,
    /// `true`: no further slot will come.
    pub is_done: bool,
}

/// A change of one file, as read by the scheduler.
#[derive(Debug, Clone)]
pub struct FileChange {
    pub persona: PersonaId,
    pub file: String,
    /// Version of the existing row; `None` when there was none, and then `new_id` is the id of the
    /// new row.
    pub seen: Option<Version>,
    pub new_id: ResponsibilityId,
    /// The row of the file's former name: its pause and its failures are kept.
    pub renamed_from: Option<ResponsibilityId>,
    pub to: FileState,
    /// Mark of the file's state when it was read; `None`: the file is read again after the next
    /// start.
    pub mark: Option<String>,
    /// Due slots of the old version that had not fired yet.
    pub lapsed: Option<MissedSlots>,
    /// The new cursor, unless the schedule names another.
    pub now: Timestamp,
}

#[derive(Debug, Clone)]
pub enum FileState {
    InForce(Box<Schedule>),
    /// The file exists and cannot be used.
    Unusable {
        error: String,
    },
    Removed,
}

/// A usable file.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub name: String,
    pub schedule: String,
    pub timezone: String,
    pub enabled: bool,
    pub prompt: String,
    pub prompt_sha256: String,
    /// Micro-dollars that each of its runs may cost.
    pub budget_micros: Option<i64>,
    /// JSON Schema of its answers.
    pub output_schema: Option<String>,
    pub slot_options: SlotOptions,
    pub run_options: RunOptions,
    pub next: NextSlot,
    /// Begin of its cursor; `None`: now.
    pub cursor_at: Option<Timestamp>,
}

pub(in crate::store) const RESPONSIBILITIES: &str = "
    SELECT r.*, (SELECT max(s.slot_at) FROM responsibility_slots s WHERE s.responsibility_id = r.id
      AND s.kind = 'scheduled' AND s.state = 'fired') AS last_fired_at,
      (SELECT s.slot_at FROM responsibility_slots s JOIN runs u ON u.id = s.run_id
      WHERE s.responsibility_id = r.id AND s.kind = 'scheduled' AND u.state = 'succeeded'
      ORDER BY s.slot_at DESC LIMIT 1) AS last_succeeded_at
    FROM responsibilities r ORDER BY r.persona_id, r.file";
/// Due responsibilities after a position in the order. A NULL `fire_at`: the next slot was not
/// searched for yet.
pub(in crate::store) const DUE_RESPONSIBILITIES: &str = "
    SELECT r.*, (SELECT max(s.slot_at) FROM responsibility_slots s WHERE s.responsibility_id = r.id
      AND s.kind = 'scheduled' AND s.state = 'fired') AS last_fired_at,
      (SELECT s.slot_at FROM responsibility_slots s JOIN runs u ON u.id = s.run_id
      WHERE s.responsibility_id = r.id AND s.kind = 'scheduled' AND u.state = 'succeeded'
      ORDER BY s.slot_at DESC LIMIT 1) AS last_succeeded_at
    FROM responsibilities r
    WHERE r.enabled = 1 AND r.removed_at IS NULL AND r.error IS NULL AND r.is_done = 0
      AND coalesce(r.fire_at, '') <= $1 AND (coalesce(r.fire_at, ''), r.id) > ($2, $3)
    ORDER BY coalesce(r.fire_at, ''), r.id LIMIT $4";
pub(in crate::store) const INSERT_RESPONSIBILITY: &str = "
    INSERT INTO responsibilities (id, persona_id, file, name, schedule, timezone, enabled, prompt, prompt_sha256,
      next_slot_at, error, cursor_at, updated_at, budget_micros, output_schema, slot_options_json, run_options_json, fire_at,
      is_done, mark)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $20, $12, $13, $14, $15, $16, $17, $18, $19) ON CONFLICT DO NOTHING";
/// Recipients that replace the earlier ones must not see the earlier answers: their replies would
/// come into its thread.
pub(in crate::store) const UPDATE_RESPONSIBILITY: &str = "
    UPDATE responsibilities SET
      own_thread_id = CASE
        WHEN run_options_json ->> '$.deliver_to' IS $15 ->> '$.deliver_to'
          OR (run_options_json ->> '$.deliver_to.people' IS NULL AND $15 ->> '$.deliver_to.people' IS NULL)
        THEN own_thread_id END,
      name = $5, schedule = $6, timezone = $7, enabled = $8, prompt = $9,
      prompt_sha256 = $10, next_slot_at = $11, removed_at = NULL, error = NULL, budget_micros = $12,
      output_schema = $13, slot_options_json = $14, run_options_json = $15, fire_at = $16, is_done = $17, mark = $18,
      revision = revision + 1, cursor_at = $19, updated_at = $20
    WHERE persona_id = $1 AND file = $2 AND revision = $3 AND cursor_at = $4 RETURNING id, paused_at IS NOT NULL";
pub(in crate::store) const SPOIL_RESPONSIBILITY: &str = "
    UPDATE responsibilities SET error = $5, mark = NULL, next_slot_at = NULL, fire_at = NULL, removed_at = NULL,
      revision = revision + 1, cursor_at = $6, updated_at = $6
    WHERE persona_id = $1 AND file = $2 AND revision = $3 AND cursor_at = $4 RETURNING id, paused_at IS NOT NULL";
pub(in crate::store) const REMOVE_RESPONSIBILITY: &str = "
    UPDATE responsibilities SET removed_at = $5, mark = NULL, next_slot_at = NULL, fire_at = NULL, error = NULL,
      revision = revision + 1, cursor_at = $5, updated_at = $5
    WHERE persona_id = $1 AND file = $2 AND revision = $3 AND cursor_at = $4 RETURNING id, paused_at IS NOT NULL";
pub(in crate::store) const INHERIT_PAUSE: &str = "
    UPDATE responsibilities SET (paused_at, paused_by, failures) =
      (SELECT f.paused_at, f.paused_by, f.failures FROM responsibilities f WHERE f.id = $3)
    WHERE persona_id = $1 AND file = $2";
pub(in crate::store) const SET_MARKS: &str = "
    UPDATE responsibilities SET mark = m.value ->> 1 FROM json_each($1) AS m
    WHERE responsibilities.id = m.value ->> 0";
pub(in crate::store) const SET_NEXT_SLOT: &str = "
    UPDATE responsibilities SET next_slot_at = $4, fire_at = $5, is_done = $6 WHERE id = $1 AND revision = $2 AND cursor_at = $3";
impl Store {
    /// Returns every responsibility, removed ones included, by persona and file.
    pub async fn responsibilities(&self) -> Result<Vec<StoredResponsibility>> {
        let rows = sqlx::query(RESPONSIBILITIES)
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(responsibility).collect()
    }

    /// Returns up to `limit` active responsibilities that are due at `now`, the longest due first;
    /// `after` is the last one of the previous page.
    pub async fn due_responsibilities(
        &self,
        now: Timestamp,
        after: Option<&StoredResponsibility>,
        limit: usize,
    ) -> Result<Vec<StoredResponsibility>> {
        let fire_at = after
            .and_then(|row| row.next.fire_at)
            .map(|at| at.to_string())
            .unwrap_or_default();
        let due = sqlx::query(DUE_RESPONSIBILITIES)
            .bind(now.to_string())
            .bind(fire_at);
        let due = due
            .bind(after.map_or("", |row| row.id.as_str()))
            .bind(to_i64(limit));
        due.fetch_all(self.readers())
            .await?
            .iter()
            .map(responsibility)
            .collect()
    }

    /// Updates the rows to the content of their files, all in one commit; an edit bumps the
    /// revision and moves the cursor, so that nothing fires in retrospect. `false`: the row's
    /// version has changed, and it was left alone.
    pub async fn sync_responsibilities(&self, changes: Vec<FileChange>) -> Result<Vec<bool>> {
        let clock = self.clock().clone();
        self.write(move |conn| {
            Box::pin(async move {
                let mut done = Vec::with_capacity(changes.len());
                for change in &changes {
                    let is_done = apply(conn, change, clock.as_ref()).await?;
                    if let Some(former) = change.renamed_from.as_ref().filter(|_| is_done) {
                        let inherit = sqlx::query(INHERIT_PAUSE).bind(change.persona.as_str());
                        inherit
                            .bind(&change.file)
                            .bind(former.as_str())
                            .execute(&mut *conn)
                            .await?;
                    }
                    done.push(is_done);
                }
                Ok(done)
            })
        })
        .await
    }

    /// Records the marks of files whose rows are up to date.
    pub async fn mark_responsibilities(
        &self,
        marks: Vec<(ResponsibilityId, Option<String>)>,
    ) -> Result<()> {
        if marks.is_empty() {
            return Ok(());
        }
        let marks =
            Value::from_iter(marks.iter().map(|(id, mark)| json!([id.as_str(), mark]))).to_string();
        self.write(move |conn| {
            Box::pin(async move {
                sqlx::query(SET_MARKS).bind(marks).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }

    /// Stores a next slot that was computed anew (other zone data); a row whose version has changed
    /// stays as it is.
    pub async fn set_next_slot(
        &self,
        id: &ResponsibilityId,
        seen: Version,
        next: NextSlot,
    ) -> Result<()> {
        let id = id.as_str().to_owned();
        self.write(move |conn| {
            Box::pin(async move {
                let set = sqlx::query(SET_NEXT_SLOT).bind(id).bind(seen.revision);
                let set = set
                    .bind(seen.cursor_at.to_string())
                    .bind(next.at.map(|at| at.to_string()));
                let set = set
                    .bind(next.fire_at.map(|at| at.to_string()))
                    .bind(next.is_done);
                set.execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}

async fn apply(
    conn: &mut SqliteConnection,
    change: &FileChange,
    clock: &dyn Clock,
) -> Result<bool> {
    let Some(seen) = change.seen else {
        return insert_responsibility(conn, change, clock).await;
    };
    let sql = match &change.to {
        FileState::InForce(_) => UPDATE_RESPONSIBILITY,
        FileState::Unusable { .. } => SPOIL_RESPONSIBILITY,
        FileState::Removed => REMOVE_RESPONSIBILITY,
    };
    let update = sqlx::query_as::<_, (String, bool)>(sql)
        .bind(change.persona.as_str())
        .bind(&change.file);
    let update = update.bind(seen.revision).bind(seen.cursor_at.to_string());
    let update = match &change.to {
        FileState::InForce(schedule) => update
            .bind(&schedule.name)
            .bind(&schedule.schedule)
            .bind(&schedule.timezone)
            .bind(schedule.enabled)
            .bind(&schedule.prompt)
            .bind(&schedule.prompt_sha256)
            .bind(schedule.next.at.map(|at| at.to_string()))
            .bind(schedule.budget_micros)
            .bind(&schedule.output_schema)
            .bind(slot_options_json(&schedule.slot_options))
            .bind(run_options_json(&schedule.run_options))
            .bind(schedule.next.fire_at.map(|at| at.to_string()))
            .bind(schedule.next.is_done)
            .bind(&change.mark)
            .bind(schedule.cursor_at.unwrap_or(change.now).to_string()),
        FileState::Unusable { error } => update.bind(error),
        FileState::Removed => update,
    };
    let changed = update
        .bind(change.now.to_string())
        .fetch_optional(&mut *conn)
        .await?;
    let Some((id, is_paused)) = changed else {
        return Ok(false);
    };
    if let FileState::Unusable { error } = &change.to {
        let of = (&change.persona, id.as_str(), seen.revision + 1);
        events::responsibility_broken(conn, of, error, clock).await?;
    }
    let id = ResponsibilityId::new(id);
    note_proposal(conn, change, id.as_str(), clock).await?;
    let mut missed = end_waiting(conn, &id, "missed", Some(FILE_CHANGED)).await?;
    if let Some(lapsed) = &change.lapsed
        && insert_missed(conn, &id, lapsed, change.now).await?
    {
        missed = merged(missed, Some(lapsed.clone()));
    }
    let is_wanted = match &change.to {
        FileState::InForce(schedule) => !schedule.enabled,
        FileState::Unusable { .. } => false,
        FileState::Removed => true,
    };
    // A file that was removed, disabled or paused has no wanted slots.
    if let Some(missed) = missed.filter(|_| !is_wanted && !is_paused) {
        slot_events::slots_missed(conn, &id, &missed, clock).await?;
    }
    Ok(true)
}

/// Emits that a responsibility that a persona proposed waits for its owner.
async fn note_proposal(
    conn: &mut SqliteConnection,
    change: &FileChange,
    id: &str,
    clock: &dyn Clock,
) -> Result<()> {
    let FileState::InForce(schedule) = &change.to else {
        return Ok(());
    };
    match &schedule.slot_options.proposed_by {
        Some(run) if !schedule.enabled => {
            let of = (&change.persona, id, change.file.as_str());
            events::responsibility_proposed(conn, of, (&schedule.name, run), clock).await
        }
        _ => Ok(()),
    }
}

async fn insert_responsibility(
    conn: &mut SqliteConnection,
    change: &FileChange,
    clock: &dyn Clock,
) -> Result<bool> {
    let (schedule, error) = match &change.to {
        FileState::InForce(schedule) => (Some(schedule.as_ref()), None),
        FileState::Unusable { error } => (None, Some(error)),
        FileState::Removed => return Ok(true),
    };
    let text = |of: fn(&Schedule) -> &String| schedule.map_or("", |schedule| of(schedule).as_str());
    // A file that was never usable has its path for a name.
    let insert = sqlx::query(INSERT_RESPONSIBILITY)
        .bind(change.new_id.as_str())
        .bind(change.persona.as_str());
    let insert = insert
        .bind(&change.file)
        .bind(schedule.map_or(change.file.as_str(), |schedule| &schedule.name));
    let insert = insert
        .bind(text(|schedule| &schedule.schedule))
        .bind(text(|schedule| &schedule.timezone));
    let insert = insert
        .bind(schedule.is_some_and(|schedule| schedule.enabled))
        .bind(text(|schedule| &schedule.prompt));
    let insert = insert.bind(text(|schedule| &schedule.prompt_sha256));
    let insert = insert.bind(
        schedule
            .and_then(|schedule| schedule.next.at)
            .map(|at| at.to_string()),
    );
    let insert = insert.bind(error).bind(change.now.to_string());
    let insert = insert.bind(schedule.and_then(|schedule| schedule.budget_micros));
    let insert = insert.bind(schedule.and_then(|schedule| schedule.output_schema.as_ref()));
    let options = |of: fn(&Schedule) -> String| schedule.map_or("{}".to_owned(), of);
    let insert = insert.bind(options(|schedule| {
        slot_options_json(&schedule.slot_options)
    }));
    let insert = insert.bind(options(|schedule| run_options_json(&schedule.run_options)));
    let insert = insert.bind(
        schedule
            .and_then(|schedule| schedule.next.fire_at)
            .map(|at| at.to_string()),
    );
    let insert = insert.bind(schedule.is_some_and(|schedule| schedule.next.is_done));
    let insert = insert.bind(change.mark.as_ref().filter(|_| schedule.is_some()));
    let insert = insert.bind(
        schedule
            .and_then(|schedule| schedule.cursor_at)
            .unwrap_or(change.now)
            .to_string(),
    );
    let done = insert.execute(&mut *conn).await?.rows_affected() > 0;
    if done {
        note_proposal(conn, change, change.new_id.as_str(), clock).await?;
    }
    if let (Some(error), true) = (error, done) {
        let of = (&change.persona, change.new_id.as_str(), 1);
        events::responsibility_broken(conn, of, error, clock).await?;
    }
    Ok(done)
}

pub(in crate::store) fn responsibility(row: &SqliteRow) -> Result<StoredResponsibility> {
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
        slot_options: slot_options(row.get("slot_options_json"))?,
        run_options: run_options(row.get("run_options_json"))?,
        next: NextSlot {
            at: time(row, "next_slot_at")?,
            fire_at: time(row, "fire_at")?,
            is_done: row.get("is_done"),
        },
        paused: match (
            time(row, "paused_at")?,
            row.get::<Option<&str>, _>("paused_by")
                .and_then(PausedBy::parse),
        ) {
            (Some(at), Some(by)) => Some(Paused { at, by }),
            _ => None,
        },
        failures: row.get("failures"),
        thread: row.get::<Option<String>, _>("thread_id").map(ThreadId::new),
        mark: row.get("mark"),
        removed_at: time(row, "removed_at")?,
        error: row.get("error"),
        last_fired_at: time(row, "last_fired_at")?,
        last_succeeded_at: time(row, "last_succeeded_at")?,
    })
}

pub(in crate::store) const UNREADABLE_TIME: StoreError = StoreError::Unreadable {
    what: "time of a responsibility",
};

pub(in crate::store) fn time(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>> {
    let text: Option<&str> = row.get(column);
    text.map(|text| Timestamp::parse(text).ok_or(UNREADABLE_TIME))
        .transpose()
}
