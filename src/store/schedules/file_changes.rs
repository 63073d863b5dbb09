//! Changes of responsibility files, applied to their rows.

use crate::clock::Clock;
use crate::domain::{PersonaId, ResponsibilityId, RunOptions, SlotOptions, Timestamp};
use crate::store::db::{self, Connection, Scope};
use crate::store::notices::events;
use crate::store::schedules::responsibility::{MissedSlots, NextSlot, Version, merged};
use crate::store::schedules::run_options::{run_options_json, slot_options_json};
use crate::store::schedules::slot_events;
use crate::store::schedules::slot_rows::insert_missed;
use crate::store::schedules::waiting::{FILE_CHANGED, end_waiting};
use crate::store::{Result, Store};

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
    InForce(Box<UsableFile>),
    /// The file exists and cannot be used.
    Unusable {
        error: String,
    },
    Removed,
}

/// A usable file.
#[derive(Debug, Clone)]
pub struct UsableFile {
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

const INSERT_RESPONSIBILITY: &str = "
    INSERT INTO responsibilities (id, persona_id, file, name, schedule, timezone, enabled, prompt, prompt_sha256,
      next_slot_at, error, cursor_at, updated_at, budget_micros, output_schema, slot_options_json, run_options_json, fire_at,
      is_done, mark)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $20, $12, $13, $14, $15, $16, $17, $18, $19) ON CONFLICT DO NOTHING";
/// Recipients that replace the earlier ones must not see the earlier answers: their replies would
/// come into its thread.
const UPDATE_RESPONSIBILITY: &str = "
    UPDATE responsibilities SET
      own_thread_id = CASE
        WHEN (run_options_json ->> '$.deliver_to') IS NOT DISTINCT FROM ($15 ->> '$.deliver_to')
          OR ((run_options_json ->> '$.deliver_to.people') IS NULL AND ($15 ->> '$.deliver_to.people') IS NULL)
        THEN own_thread_id END,
      name = $5, schedule = $6, timezone = $7, enabled = $8, prompt = $9,
      prompt_sha256 = $10, next_slot_at = $11, removed_at = NULL, error = NULL, budget_micros = $12,
      output_schema = $13, slot_options_json = $14, run_options_json = $15, fire_at = $16, is_done = $17, mark = $18,
      revision = revision + 1, cursor_at = $19, updated_at = $20
    WHERE persona_id = $1 AND file = $2 AND revision = $3 AND cursor_at = $4 RETURNING id, paused_at IS NOT NULL AS is_paused";
const SPOIL_RESPONSIBILITY: &str = "
    UPDATE responsibilities SET error = $5, mark = NULL, next_slot_at = NULL, fire_at = NULL, removed_at = NULL,
      revision = revision + 1, cursor_at = $6, updated_at = $6
    WHERE persona_id = $1 AND file = $2 AND revision = $3 AND cursor_at = $4 RETURNING id, paused_at IS NOT NULL AS is_paused";
const REMOVE_RESPONSIBILITY: &str = "
    UPDATE responsibilities SET removed_at = $5, mark = NULL, next_slot_at = NULL, fire_at = NULL, error = NULL,
      revision = revision + 1, cursor_at = $5, updated_at = $5
    WHERE persona_id = $1 AND file = $2 AND revision = $3 AND cursor_at = $4 RETURNING id, paused_at IS NOT NULL AS is_paused";
const INHERIT_PAUSE: &str = "
    UPDATE responsibilities SET (paused_at, paused_by, failures) =
      (SELECT f.paused_at, f.paused_by, f.failures FROM responsibilities f WHERE f.id = $3)
    WHERE persona_id = $1 AND file = $2";

pub async fn apply(conn: &mut Connection, change: &FileChange, clock: &dyn Clock) -> Result<bool> {
    let Some(seen) = change.seen else {
        return insert_responsibility(conn, change, clock).await;
    };
    let sql = match &change.to {
        FileState::InForce(_) => UPDATE_RESPONSIBILITY,
        FileState::Unusable { .. } => SPOIL_RESPONSIBILITY,
        FileState::Removed => REMOVE_RESPONSIBILITY,
    };
    let update =
        db::query(sql).bind((&change.persona, &change.file, seen.revision, seen.cursor_at));
    let update = match &change.to {
        FileState::InForce(schedule) => update.bind((
            &schedule.name,
            &schedule.schedule,
            &schedule.timezone,
            schedule.enabled,
            &schedule.prompt,
            &schedule.prompt_sha256,
            schedule.next.at,
            schedule.budget_micros,
            &schedule.output_schema,
            slot_options_json(&schedule.slot_options),
            run_options_json(&schedule.run_options),
            schedule.next.fire_at,
            schedule.next.is_done,
            &change.mark,
            schedule.cursor_at.unwrap_or(change.now),
        )),
        FileState::Unusable { error } => update.bind(error),
        FileState::Removed => update,
    };
    let changed = update.bind(change.now).maybe_row(&mut *conn).await?;
    let Some(changed) = changed else {
        return Ok(false);
    };
    let (id, is_paused): (String, bool) = (changed.get("id"), changed.get("is_paused"));
    if let FileState::Unusable { error } = &change.to {
        let of = (&change.persona, id.as_str(), seen.revision + 1);
        events::responsibility_broken(conn, of, error, clock).await?;
    }
    let id = ResponsibilityId::new(id);
    note_proposal(conn, change, id.as_str(), clock).await?;
    let mut missed = end_waiting(conn, &id, "missed", change.now, Some(FILE_CHANGED)).await?;
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
    conn: &mut Connection,
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
            events::responsibility_proposed(conn, of, &schedule.name, run, clock).await
        }
        _ => Ok(()),
    }
}

async fn insert_responsibility(
    conn: &mut Connection,
    change: &FileChange,
    clock: &dyn Clock,
) -> Result<bool> {
    let (schedule, error) = match &change.to {
        FileState::InForce(schedule) => (Some(schedule.as_ref()), None),
        FileState::Unusable { error } => (None, Some(error)),
        FileState::Removed => return Ok(true),
    };
    let text =
        |of: fn(&UsableFile) -> &String| schedule.map_or("", |schedule| of(schedule).as_str());
    // A file that was never usable has its path for a name.
    let insert = db::query(INSERT_RESPONSIBILITY).bind((
        &change.new_id,
        &change.persona,
        &change.file,
        schedule.map_or(change.file.as_str(), |schedule| &schedule.name),
        text(|schedule| &schedule.schedule),
        text(|schedule| &schedule.timezone),
        schedule.is_some_and(|schedule| schedule.enabled),
        text(|schedule| &schedule.prompt),
        text(|schedule| &schedule.prompt_sha256),
        schedule.and_then(|schedule| schedule.next.at),
        error,
        change.now,
        schedule.and_then(|schedule| schedule.budget_micros),
        schedule.and_then(|schedule| schedule.output_schema.as_ref()),
    ));
    let options = |of: fn(&UsableFile) -> String| schedule.map_or("{}".to_owned(), of);
    let insert = insert.bind(options(|schedule| {
        slot_options_json(&schedule.slot_options)
    }));
    let insert = insert.bind(options(|schedule| run_options_json(&schedule.run_options)));
    let insert = insert.bind(schedule.and_then(|schedule| schedule.next.fire_at));
    let insert = insert.bind(schedule.is_some_and(|schedule| schedule.next.is_done));
    let insert = insert.bind(change.mark.as_ref().filter(|_| schedule.is_some()));
    let insert = insert.bind(
        schedule
            .and_then(|schedule| schedule.cursor_at)
            .unwrap_or(change.now)
            .to_string(),
    );
    let done = insert.exec(&mut *conn).await? > 0;
    if done {
        note_proposal(conn, change, change.new_id.as_str(), clock).await?;
    }
    if let (Some(error), true) = (error, done) {
        let of = (&change.persona, change.new_id.as_str(), 1);
        events::responsibility_broken(conn, of, error, clock).await?;
    }
    Ok(done)
}

impl Store {
    /// Updates the rows to the content of their files, all in one commit; an edit bumps the
    /// revision and moves the cursor, so that nothing fires in retrospect. `false`: the row's
    /// version has changed, and it was left alone.
    pub async fn sync_responsibilities(&self, changes: Vec<FileChange>) -> Result<Vec<bool>> {
        let clock = self.clock().clone();
        transact!(self, Scope::Engine, |conn| {
            let mut done = Vec::with_capacity(changes.len());
            for change in &changes {
                let is_done = apply(conn, change, clock.as_ref()).await?;
                if let Some(former) = change.renamed_from.as_ref().filter(|_| is_done) {
                    conn.exec(INHERIT_PAUSE, (&change.persona, &change.file, &former))
                        .await?;
                }
                done.push(is_done);
            }
            Ok(done)
        })
        .await
    }
}
