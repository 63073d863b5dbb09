//! Rows of slots, and the start of a run in its thread: the statements that every way of firing
//! shares.

use crate::domain::{DeliverTo, ResponsibilityId, ThreadId, Timestamp};
use crate::store::db::Connection;
use crate::store::mail::synthetic::insert_synthetic;
use crate::store::schedules::responsibility::MissedSlots;
use crate::store::schedules::run_options::run_options_json;
use crate::store::schedules::slot::ScheduledPrompt;
use crate::store::{NewSynthetic, Result};

const INSERT_SLOT: &str = "
    INSERT INTO responsibility_slots (responsibility_id, slot_at, persona_id, kind, state, missed_count,
      missed_until, note, run_id, prompt_snapshot, prompt_sha256, created_at, output_schema, run_options_json, is_late,
      overdue_at, revision)
    SELECT r.id, $2, r.persona_id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, r.revision
    FROM responsibilities r WHERE r.id = $1
    ON CONFLICT DO NOTHING";

/// The thread that a run is placed in, if the persona has it.
const NAMED_THREAD: &str = "
    SELECT t.id FROM threads t JOIN responsibilities d ON d.persona_id = t.persona_id WHERE t.id = $2 AND d.id = $1";
const OWN_THREAD: &str = "SELECT own_thread_id FROM responsibilities WHERE id = $1";
const STANDS_IN: &str = "
    UPDATE responsibilities SET thread_id = $2, own_thread_id = CASE $3 WHEN 1 THEN $2 ELSE own_thread_id END
    WHERE id = $1 AND (thread_id IS DISTINCT FROM $2 OR ($3 = 1 AND own_thread_id IS DISTINCT FROM $2))";

/// Place of a run, resolved.
pub enum Stands {
    In(RunThread),
    /// The persona has no such thread.
    Nowhere(ThreadId),
}

pub enum RunThread {
    /// The responsibility's own thread, which its first run creates.
    Own(Option<ThreadId>),
    Named(ThreadId),
}

pub fn no_thread(thread: &ThreadId) -> String {
    format!("there is no thread `{thread}` of this persona, in which the run was to stand")
}

pub async fn place_of(
    conn: &mut Connection,
    id: &ResponsibilityId,
    to: &DeliverTo,
) -> Result<Stands> {
    let DeliverTo::Thread(thread) = to else {
        let own: Option<String> = conn.one(OWN_THREAD, id).await?;
        return Ok(Stands::In(RunThread::Own(own.map(ThreadId::new))));
    };
    Ok(match conn.maybe_row(NAMED_THREAD, (id, &thread)).await? {
        Some(_) => Stands::In(RunThread::Named(thread.clone())),
        None => Stands::Nowhere(thread.clone()),
    })
}

/// Queues the run in its thread.
pub async fn start_run(
    conn: &mut Connection,
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

    conn.exec(STANDS_IN, (id, &thread, is_own)).await?;
    Ok(())
}

/// Columns of a slot that differ between its callers.
pub struct SlotRow<'a> {
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
    pub(in crate::store) fn fired(prompt: &'a ScheduledPrompt) -> Self {
        Self {
            prompt: Some(prompt),
            ..Self::new("fired")
        }
    }
}

/// Inserts a row for missed slots. `false`: the first of them has a row already.
pub async fn insert_missed(
    conn: &mut Connection,
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
pub async fn insert_slot(
    conn: &mut Connection,
    id: &ResponsibilityId,
    at: Timestamp,
    row: &SlotRow<'_>,
    now: Timestamp,
) -> Result<bool> {
    Ok(conn
        .exec(
            INSERT_SLOT,
            (
                id,
                at,
                row.kind,
                row.state,
                row.missed
                    .map_or(0, |missed| i64::try_from(missed.count).unwrap_or(i64::MAX)),
                row.missed.map(|missed| missed.last.to_string()),
                row.missed.and_then(|missed| missed.note.as_deref()),
                row.prompt.map(|prompt| prompt.message.run.id.as_str()),
                row.prompt
                    .map(|prompt| prompt.message.content.text_body.as_str()),
                row.prompt.map(|prompt| &prompt.prompt_sha256),
                now,
                row.prompt.and_then(|p| p.output_schema.as_deref()),
                row.prompt
                    .map(|prompt| run_options_json(&prompt.run_options)),
                row.is_late,
                row.overdue_at,
            ),
        )
        .await?
        > 0)
}
