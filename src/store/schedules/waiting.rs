//! Slots that are accounted for and have not begun: late slots, which take turns after a downtime,
//! and slots that came due while the previous run was not over. The conditions are checked again in
//! the transaction that begins a slot.
//!
//! Absent on purpose: the prompt. It is rendered when the slot begins, from the responsibility as
//! it is then.

use crate::clock::Clock;
use crate::domain::{CatchUp, ResponsibilityId, SlotOptions, Timestamp};
use crate::store::db::{self, Connection, Row, Scope, Sql};
use crate::store::schedules::responsibility::{
    MissedSlots, StoredResponsibility, UNREADABLE_TIME, time,
};
use crate::store::schedules::run_options::run_options_json;
use crate::store::schedules::slot::{FAILURES_MAX, Fired, SlotWork};
use crate::store::schedules::slot_events;
use crate::store::schedules::slot_rows::{
    SlotRow, Stands, insert_slot, no_thread, place_of, start_run,
};
use crate::store::sql::to_i64;
use crate::store::{Result, ScheduledPrompt, Store};

/// Most late runs that are queued or running at once, over all personas, so that catching up after
/// a downtime does not take the engine from current work.
pub const CATCHING_UP_MAX: i64 = 2;
/// Most slots examined in one pass; the others are found by the next.
const TURNS_MAX: usize = 64;

pub static NEWER_FIRED: &str = "a newer slot took its place before it could begin";
pub static FILE_CHANGED: &str = "the file changed before it could begin";
static TOO_MANY: &str = "more slots than are caught up with came due";

/// A slot that may begin.
#[derive(Debug, Clone)]
pub struct WaitingSlot {
    pub responsibility: StoredResponsibility,
    pub at: Timestamp,
    /// `true`: the slot came due while no engine ran.
    pub is_late: bool,
}

/// Waiting slots whose turn it is, late ones after the others.
#[derive(Debug, Clone)]
pub struct WaitingTurns {
    pub slots: Vec<WaitingSlot>,
    /// Number of late slots that may begin.
    pub late_places: usize,
}

/// The begin of a slot that waited.
#[derive(Debug, Clone)]
pub struct WaitingTurn {
    pub responsibility: ResponsibilityId,
    /// Revision of the responsibility that `to` was made of.
    pub revision: i64,
    pub slot_at: Timestamp,
    pub to: SlotWork,
    pub now: Timestamp,
}

/// Slots whose turn it is: of each responsibility the oldest, if it has no open run. `$1`: late
/// slots, or others.
const TURNS: Sql = Sql::pair(
    "
    SELECT d.*, (SELECT max(f.slot_at) FROM responsibility_slots f WHERE f.responsibility_id = d.id
      AND f.kind = 'scheduled' AND f.state = 'fired') AS last_fired_at,
      (SELECT f.slot_at FROM responsibility_slots f JOIN runs u ON u.id = f.run_id
      WHERE f.responsibility_id = d.id AND f.kind = 'scheduled' AND u.state = 'succeeded'
      ORDER BY f.slot_at DESC LIMIT 1) AS last_succeeded_at, s.slot_at AS waiting_at, s.is_late
    FROM responsibility_slots s JOIN responsibilities d ON d.id = s.responsibility_id
    WHERE s.state = 'waiting' AND s.is_late = $1
      AND d.enabled = 1 AND d.removed_at IS NULL AND d.error IS NULL AND d.paused_at IS NULL AND d.failures < $2
      AND NOT EXISTS (SELECT 1 FROM responsibility_slots o
        WHERE o.responsibility_id = s.responsibility_id AND o.state = 'waiting' AND o.slot_at < s.slot_at)
      AND NOT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_open_by_thread CROSS JOIN responsibility_slots o
        WHERE o.run_id = r.id AND r.thread_id IN (d.thread_id, d.own_thread_id) AND +o.responsibility_id = d.id
          AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
    ORDER BY s.is_late, s.created_at, s.slot_at LIMIT $3",
    "
    SELECT d.*, (SELECT max(f.slot_at) FROM responsibility_slots f WHERE f.responsibility_id = d.id
      AND f.kind = 'scheduled' AND f.state = 'fired') AS last_fired_at,
      (SELECT f.slot_at FROM responsibility_slots f JOIN runs u ON u.id = f.run_id
      WHERE f.responsibility_id = d.id AND f.kind = 'scheduled' AND u.state = 'succeeded'
      ORDER BY f.slot_at DESC LIMIT 1) AS last_succeeded_at, s.slot_at AS waiting_at, s.is_late
    FROM responsibility_slots s JOIN responsibilities d ON d.id = s.responsibility_id
    WHERE s.state = 'waiting' AND s.is_late = $1
      AND d.enabled = 1 AND d.removed_at IS NULL AND d.error IS NULL AND d.paused_at IS NULL AND d.failures < $2
      AND NOT EXISTS (SELECT 1 FROM responsibility_slots o
        WHERE o.responsibility_id = s.responsibility_id AND o.state = 'waiting' AND o.slot_at < s.slot_at)
      AND NOT EXISTS (SELECT 1 FROM runs r CROSS JOIN responsibility_slots o
        WHERE o.run_id = r.id AND r.thread_id IN (d.thread_id, d.own_thread_id) AND +o.responsibility_id = d.id
          AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
    ORDER BY s.is_late, s.created_at, s.slot_at LIMIT $3",
);
/// A run that is parked or behind another run in its thread does not count.
const CATCHING_UP: &str = "
    SELECT count(*) FROM responsibility_slots s JOIN runs r ON r.id = s.run_id
    WHERE s.catching_up = 1 AND r.behind = 0";
const BEGIN_WAITING: Sql = Sql::pair(
    "
    UPDATE responsibility_slots AS s SET state = 'fired', run_id = $4, prompt_snapshot = $5, prompt_sha256 = $6,
      output_schema = $7, run_options_json = $8, catching_up = is_late, state_at = $11
    WHERE s.responsibility_id = $1 AND s.slot_at = $2 AND s.kind = 'scheduled' AND s.state = 'waiting'
      AND (s.is_late = 0 OR $10 > (SELECT count(*) FROM responsibility_slots c JOIN runs r ON r.id = c.run_id
        WHERE c.catching_up = 1 AND r.behind = 0))
      AND NOT EXISTS (SELECT 1 FROM responsibility_slots o
        WHERE o.responsibility_id = $1 AND o.state = 'waiting' AND o.slot_at < $2)
      AND EXISTS (SELECT 1 FROM responsibilities d WHERE d.id = $1 AND d.revision = $3
        AND d.enabled = 1 AND d.removed_at IS NULL AND d.error IS NULL AND d.paused_at IS NULL AND d.failures < $9
        AND NOT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_open_by_thread CROSS JOIN responsibility_slots o
          WHERE o.run_id = r.id AND r.thread_id IN (d.thread_id, d.own_thread_id) AND +o.responsibility_id = d.id
            AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')))",
    "
    UPDATE responsibility_slots AS s SET state = 'fired', run_id = $4, prompt_snapshot = $5, prompt_sha256 = $6,
      output_schema = $7, run_options_json = $8, catching_up = is_late, state_at = $11
    WHERE s.responsibility_id = $1 AND s.slot_at = $2 AND s.kind = 'scheduled' AND s.state = 'waiting'
      AND (s.is_late = 0 OR $10 > (SELECT count(*) FROM responsibility_slots c JOIN runs r ON r.id = c.run_id
        WHERE c.catching_up = 1 AND r.behind = 0))
      AND NOT EXISTS (SELECT 1 FROM responsibility_slots o
        WHERE o.responsibility_id = $1 AND o.state = 'waiting' AND o.slot_at < $2)
      AND EXISTS (SELECT 1 FROM responsibilities d WHERE d.id = $1 AND d.revision = $3
        AND d.enabled = 1 AND d.removed_at IS NULL AND d.error IS NULL AND d.paused_at IS NULL AND d.failures < $9
        AND NOT EXISTS (SELECT 1 FROM runs r CROSS JOIN responsibility_slots o
          WHERE o.run_id = r.id AND r.thread_id IN (d.thread_id, d.own_thread_id) AND +o.responsibility_id = d.id
            AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')))",
);
const END_WAITING: Sql = Sql::pair(
    "
    UPDATE responsibility_slots INDEXED BY responsibility_slots_waiting_of SET state = $2, missed_count = 1, missed_until = slot_at, note = $3, overdue_at = NULL,
      state_at = $4
    WHERE responsibility_id = $1 AND state = 'waiting' RETURNING slot_at",
    "
    UPDATE responsibility_slots SET state = $2, missed_count = 1, missed_until = slot_at, note = $3, overdue_at = NULL,
      state_at = $4
    WHERE responsibility_id = $1 AND state = 'waiting' RETURNING slot_at",
);
const END_WAITING_SLOT: &str = "
    UPDATE responsibility_slots SET state = 'missed', missed_count = 1, missed_until = slot_at, note = $3,
      overdue_at = NULL, state_at = $4
    WHERE responsibility_id = $1 AND slot_at = $2 AND kind = 'scheduled' AND state = 'waiting'";
const END_OLDEST: Sql = Sql::pair(
    "
    UPDATE responsibility_slots SET state = 'missed', missed_count = 1, missed_until = slot_at, note = $4,
      overdue_at = NULL, state_at = $5
    WHERE responsibility_id = $1 AND state = 'waiting' AND is_late = 1 AND slot_at IN (
      SELECT slot_at FROM responsibility_slots INDEXED BY responsibility_slots_waiting_of
      WHERE responsibility_id = $1 AND state = 'waiting' AND is_late = 1
      ORDER BY slot_at DESC LIMIT $3 OFFSET $2)
    RETURNING slot_at",
    "
    UPDATE responsibility_slots SET state = 'missed', missed_count = 1, missed_until = slot_at, note = $4,
      overdue_at = NULL, state_at = $5
    WHERE responsibility_id = $1 AND state = 'waiting' AND is_late = 1 AND slot_at IN (
      SELECT slot_at FROM responsibility_slots
      WHERE responsibility_id = $1 AND state = 'waiting' AND is_late = 1
      ORDER BY slot_at DESC LIMIT $3 OFFSET $2)
    RETURNING slot_at",
);

impl Store {
    /// Returns waiting slots whose turn it is, first the slots that waited for the end of a run,
    /// then late slots up to the limit of [`CATCHING_UP_MAX`].
    pub async fn waiting_turns(&self) -> Result<WaitingTurns> {
        let turns =
            |is_late: bool| db::query(TURNS).bind((is_late, FAILURES_MAX, to_i64(TURNS_MAX)));
        let mut rows = turns(false).rows(self.readers()).await?;
        let busy: i64 = self.one(CATCHING_UP, ()).await?;
        let late_places = usize::try_from(CATCHING_UP_MAX - busy).unwrap_or(0);
        if late_places > 0 {
            rows.extend(turns(true).rows(self.readers()).await?);
        }
        let slots = rows.iter().map(Row::to).collect::<Result<_>>()?;
        Ok(WaitingTurns { slots, late_places })
    }

    /// Begins a slot that waited, if it still may: the responsibility is in force, not paused and
    /// in the version whose prompt was rendered, it has no open run, and the slot's turn has come.
    pub async fn begin_waiting(&self, turn: WaitingTurn) -> Result<Fired> {
        let clock = self.clock().clone();
        transact!(self, Scope::Engine, |conn| {
            let fired = begin(conn, turn, clock.as_ref()).await?;
            crate::crash::crash_point!("SC5");
            Ok(fired)
        })
        .await
    }

    /// Ends a slot that waited and will never fire; the owner is notified. `false`: it no longer
    /// waits.
    pub async fn give_up_waiting(
        &self,
        id: &ResponsibilityId,
        slot: Timestamp,
        note: String,
    ) -> Result<bool> {
        let (id, clock) = (id.clone(), self.clock().clone());
        transact!(self, Scope::of_responsibility(&id), |conn| give_up(
            conn,
            &id,
            slot,
            &note,
            clock.as_ref()
        )
        .await)
        .await
    }
}

async fn begin(conn: &mut Connection, turn: WaitingTurn, clock: &dyn Clock) -> Result<Fired> {
    let (id, slot) = (&turn.responsibility, turn.slot_at);
    let begun = match turn.to {
        SlotWork::Unrenderable(error) => Err(error),
        SlotWork::Run(prompt) => match place_of(conn, id, &prompt.run_options.deliver_to).await? {
            Stands::Nowhere(thread) => Err(no_thread(&thread)),
            Stands::In(place) => Ok((prompt, place)),
        },
    };
    match begun {
        Ok((prompt, place)) => {
            if !mark_fired(conn, id, slot, turn.revision, turn.now, &prompt).await? {
                return Ok(Fired::Stale);
            }
            let run = prompt.message.run.id.clone();
            start_run(conn, id, prompt.message, place, turn.now).await?;
            Ok(Fired::Run(run))
        }
        Err(note) => Ok(match give_up(conn, id, slot, &note, clock).await? {
            true => Fired::Missed,
            false => Fired::Stale,
        }),
    }
}

async fn mark_fired(
    conn: &mut Connection,
    id: &ResponsibilityId,
    slot: Timestamp,
    revision: i64,
    now: Timestamp,
    prompt: &ScheduledPrompt,
) -> Result<bool> {
    Ok(conn
        .exec(
            BEGIN_WAITING,
            (
                id,
                slot,
                revision,
                &prompt.message.run.id,
                &prompt.message.content.text_body,
                &prompt.prompt_sha256,
                &prompt.output_schema,
                run_options_json(&prompt.run_options),
                FAILURES_MAX,
                CATCHING_UP_MAX,
                now,
            ),
        )
        .await?
        > 0)
}

async fn give_up(
    conn: &mut Connection,
    id: &ResponsibilityId,
    slot: Timestamp,
    note: &str,
    clock: &dyn Clock,
) -> Result<bool> {
    if conn
        .exec(END_WAITING_SLOT, (id, slot, note, clock.now()))
        .await?
        == 0
    {
        return Ok(false);
    }
    let missed = MissedSlots {
        first: slot,
        last: slot,
        count: 1,
        note: Some(note.to_owned()),
    };
    slot_events::slots_missed(conn, id, &missed, clock).await?;
    Ok(true)
}

/// Stores late slots as waiting. Returns the slots that they displace, which will not fire and have
/// no replacement.
pub async fn line_up(
    conn: &mut Connection,
    id: &ResponsibilityId,
    late: &[Timestamp],
    options: &SlotOptions,
    now: Timestamp,
) -> Result<Option<MissedSlots>> {
    let dropped = match options.catch_up {
        CatchUp::All => {
            let kept = SlotOptions::CAUGHT_UP_MAX.saturating_sub(late.len());
            end_oldest(conn, id, kept, now).await?
        }
        CatchUp::Latest | CatchUp::Skip => {
            end_waiting(conn, id, "missed", now, Some(NEWER_FIRED)).await?;
            None
        }
    };
    let row = SlotRow {
        is_late: true,
        overdue_at: Some(now.plus(options.grace)),
        ..SlotRow::new("waiting")
    };
    for slot in late {
        // A slot that has a row already, from before the clock was set back, does not fire again.
        insert_slot(conn, id, *slot, &row, now).await?;
    }
    Ok(dropped)
}

/// Ends the late slots that wait, except the newest few.
async fn end_oldest(
    conn: &mut Connection,
    id: &ResponsibilityId,
    kept: usize,
    now: Timestamp,
) -> Result<Option<MissedSlots>> {
    span(
        &conn
            .rows(END_OLDEST, (id, kept, i64::MAX, TOO_MANY, now))
            .await?,
        TOO_MANY,
    )
}

/// Ends all waiting slots of a responsibility, and returns them as one range.
pub async fn end_waiting(
    conn: &mut Connection,
    id: &ResponsibilityId,
    state: &'static str,
    now: Timestamp,
    note: Option<&str>,
) -> Result<Option<MissedSlots>> {
    span(
        &conn.rows(END_WAITING, (id, state, note, now)).await?,
        note.unwrap_or(state),
    )
}

/// Merges slots that were ended into one range.
fn span(ended: &[Row], note: &str) -> Result<Option<MissedSlots>> {
    let ended: Vec<Timestamp> = ended
        .iter()
        .filter_map(|row| time(row, "slot_at").transpose())
        .collect::<Result<_>>()?;
    let ends = ended.iter().min().copied().zip(ended.iter().max().copied());
    Ok(ends.map(|(first, last)| MissedSlots {
        first,
        last,
        count: ended.len() as u64,
        note: Some(note.to_owned()),
    }))
}

from_row!(|row| WaitingSlot {
    responsibility: { row.to()? },
    at: { time(row, "waiting_at")?.ok_or(UNREADABLE_TIME)? },
    is_late
});
