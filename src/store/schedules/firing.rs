//! Turns due slots into runs. The slot's row, its message, its run and the cursor commit together,
//! and every change names the version of the responsibility that it was computed from, so that two
//! processes, an edit in flight or a crash can neither fire a slot twice nor lose it. Waiting slots
//! are in `waiting.rs`, paused responsibilities in `pauses.rs`.

use crate::clock::Clock;
use crate::domain::{CatchUp, Overlap, ResponsibilityId, RunId, SlotOptions, Timestamp};
use crate::store::db::{Connection, Scope, Sql};
use crate::store::schedules::responsibility::{MissedSlots, merged};
use crate::store::schedules::slot::{
    DueSlot, FAILURES_MAX, Fired, Firing, ScheduledPrompt, SlotWork,
};
use crate::store::schedules::slot_events;
use crate::store::schedules::slot_rows::{
    SlotRow, Stands, insert_missed, insert_slot, no_thread, place_of, start_run,
};
use crate::store::schedules::waiting;
use crate::store::{Result, Store, StoreError};

/// `$8`: for a responsibility that is paused. Nothing fires between the last allowed failure and
/// the pause.
const MOVE_CURSOR: &str = "
    UPDATE responsibilities SET cursor_at = $4, next_slot_at = $5, fire_at = $6, is_done = $7
    WHERE id = $1 AND revision = $2 AND cursor_at = $3
      AND enabled = 1 AND removed_at IS NULL AND error IS NULL
      AND CASE WHEN paused_at IS NULL THEN 0 ELSE 1 END = $8 AND ($8 = 1 OR failures < $9)";
/// Rows that hold up a slot: open runs of the responsibility, in any of its threads, but not those
/// of letters there; late slots that wait, and other slots that wait.
const BEFORE_IT: Sql = Sql::pair(
    "
    SELECT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_open_by_thread CROSS JOIN responsibility_slots s
        WHERE s.run_id = r.id AND r.thread_id IN (d.thread_id, d.own_thread_id) AND +s.responsibility_id = d.id
          AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')) AS is_open,
      (SELECT count(*) FROM responsibility_slots s INDEXED BY responsibility_slots_waiting_of
         WHERE s.responsibility_id = d.id AND s.state = 'waiting' AND s.is_late = 1)
        AS late,
      EXISTS (SELECT 1 FROM responsibility_slots s INDEXED BY responsibility_slots_waiting_of
        WHERE s.responsibility_id = d.id AND s.state = 'waiting' AND s.is_late = 0) AS is_buffered
    FROM responsibilities d WHERE d.id = $1",
    "
    SELECT EXISTS (SELECT 1 FROM runs r CROSS JOIN responsibility_slots s
        WHERE s.run_id = r.id AND r.thread_id IN (d.thread_id, d.own_thread_id) AND +s.responsibility_id = d.id
          AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')) AS is_open,
      (SELECT count(*) FROM responsibility_slots s
         WHERE s.responsibility_id = d.id AND s.state = 'waiting' AND s.is_late = 1)
        AS late,
      EXISTS (SELECT 1 FROM responsibility_slots s
        WHERE s.responsibility_id = d.id AND s.state = 'waiting' AND s.is_late = 0) AS is_buffered
    FROM responsibilities d WHERE d.id = $1",
);

impl Store {
    /// Fires one responsibility: slot rows, message, run, cursor and next slot, all or nothing.
    pub async fn fire_slot(&self, firing: Firing) -> Result<Fired> {
        let clock = self.clock().clone();
        transact!(
            self,
            Scope::of_responsibility(&firing.responsibility),
            |conn| {
                let fired = fire(conn, firing, clock.as_ref()).await?;
                crate::crash::crash_point!("SC2");
                Ok(fired)
            }
        )
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
        transact!(self, Scope::of_responsibility(&id), |conn| {
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
                Stands::Nowhere(thread) => Err(StoreError::missing("thread", thread)),
                Stands::In(place) => start_run(conn, &id, prompt.message, place, now)
                    .await
                    .map(|()| run),
            }
        })
        .await
    }
}

async fn fire(conn: &mut Connection, firing: Firing, clock: &dyn Clock) -> Result<Fired> {
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
        None if firing.late.is_empty() => SlotStart::Did(Fired::Missed),
        None => {
            let dropped =
                waiting::line_up(conn, id, &firing.late, &firing.slot_options, now).await?;
            pending = merged(pending, dropped);
            SlotStart::Did(Fired::Waiting(firing.late.len()))
        }
    };
    // With `latest` the newest slot replaces the earlier ones; with `all` each fires by itself.
    let stands_for_them = matches!(fired, SlotStart::Did(Fired::Run(_) | Fired::Waiting(_)))
        && firing.slot_options.catch_up != CatchUp::All;
    if let Some(missed) = pending.filter(|_| !stands_for_them) {
        slot_events::slots_missed(conn, id, &missed, clock).await?;
    }
    match fired {
        SlotStart::Did(fired) => Ok(fired),
        SlotStart::Cannot(missed) => {
            insert_missed(conn, id, &missed, now).await?;
            slot_events::slots_missed(conn, id, &missed, clock).await?;
            Ok(Fired::Missed)
        }
    }
}

/// Moves the cursor. `false`: the responsibility is not in the version that was read.
pub async fn move_cursor(conn: &mut Connection, firing: &Firing, is_paused: bool) -> Result<bool> {
    let moved = conn
        .exec(
            MOVE_CURSOR,
            (
                &firing.responsibility,
                firing.seen.revision,
                firing.seen.cursor_at,
                firing.cursor_at,
                firing.next.at,
                firing.next.fire_at,
                firing.next.is_done,
                is_paused,
                FAILURES_MAX,
            ),
        )
        .await?;
    Ok(moved > 0)
}

/// Result of starting a slot.
pub enum SlotStart {
    Did(Fired),
    /// The slot can never begin: it is to be missed, with a note.
    Cannot(MissedSlots),
}

impl SlotStart {
    pub(in crate::store) fn cannot(slot: Timestamp, note: String) -> Self {
        SlotStart::Cannot(MissedSlots {
            first: slot,
            last: slot,
            count: 1,
            note: Some(note),
        })
    }
}

async fn fire_in_time(
    conn: &mut Connection,
    id: &ResponsibilityId,
    slot: DueSlot,
    options: &SlotOptions,
    now: Timestamp,
) -> Result<SlotStart> {
    let before = conn.row(BEFORE_IT, id).await?;
    let (is_open, is_buffered): (bool, bool) = (before.get("is_open"), before.get("is_buffered"));
    let has_late = before.get::<i64>("late") > 0;
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
        return Ok(SlotStart::Did(if inserted {
            fired
        } else {
            Fired::AlreadyAccounted
        }));
    }
    let prompt = match slot.to {
        SlotWork::Run(prompt) => prompt,
        SlotWork::Unrenderable(error) => return Ok(SlotStart::cannot(slot.at, error)),
    };
    let place = match place_of(conn, id, &prompt.run_options.deliver_to).await? {
        Stands::In(place) => place,
        Stands::Nowhere(thread) => return Ok(SlotStart::cannot(slot.at, no_thread(&thread))),
    };
    let row = SlotRow {
        overdue_at,
        ..SlotRow::fired(&prompt)
    };
    if !insert_slot(conn, id, slot.at, &row, now).await? {
        return Ok(SlotStart::Did(Fired::AlreadyAccounted));
    }
    if has_late {
        waiting::end_waiting(conn, id, "missed", now, Some(waiting::NEWER_FIRED)).await?;
    }
    let run = prompt.message.run.id.clone();
    start_run(conn, id, prompt.message, place, now).await?;
    Ok(SlotStart::Did(Fired::Run(run)))
}
