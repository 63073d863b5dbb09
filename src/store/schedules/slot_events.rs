//! Events of slots for the owner, emitted in the transaction that makes them true: slots without a
//! run, slots that did not end in time, responsibilities that are paused or find no next slot.

use crate::clock::Clock;
use crate::domain::{NoticeId, NoticeKind, NoticeSubject, PersonaId, ResponsibilityId, Timestamp};
use crate::store::db::{Connection, Scope};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::notices::wording::quoted;
use crate::store::schedules::responsibilities::SET_NEXT_SLOT;
use crate::store::schedules::responsibility::{MissedSlots, NextSlot, Version};
use crate::store::sql::persona_id;
use crate::store::{Result, Store};

/// Most slots examined in one transaction; the others wait for the next pass.
const OVERDUE_MAX: i64 = 256;

const WHOSE: &str = "SELECT persona_id, name, file, failures FROM responsibilities WHERE id = $1";
const IS_OVERDUE: &str = "
    SELECT EXISTS (SELECT 1 FROM responsibility_slots WHERE overdue_at IS NOT NULL AND overdue_at <= $1)";
const OVERDUE_SLOTS: &str = "
    SELECT s.responsibility_id, s.slot_at, s.state, s.run_id, r.state AS run_state
    FROM responsibility_slots s LEFT JOIN runs r ON r.id = s.run_id
    WHERE s.overdue_at IS NOT NULL AND s.overdue_at <= $1 ORDER BY s.overdue_at LIMIT $2";
const FINISH_OVERDUE: &str = "
    UPDATE responsibility_slots SET overdue_at = NULL
    WHERE responsibility_id = $1 AND slot_at = $2 AND kind = 'scheduled'";

/// Emits that slots will never fire, and nothing ran in their place.
pub async fn slots_missed(
    conn: &mut Connection,
    id: &ResponsibilityId,
    missed: &MissedSlots,
    clock: &dyn Clock,
) -> Result<()> {
    let whose = Whose::read(conn, id).await?;
    let span = match missed.count {
        1 => format!("the slot of {} at {}", whose.name, missed.first),
        n if n >= MissedSlots::COUNTED_MAX => {
            format!(
                "at least {n} slots of {} from {} to {}",
                whose.name, missed.first, missed.last
            )
        }
        n => format!(
            "{n} slots of {} from {} to {}",
            whose.name, missed.first, missed.last
        ),
    };
    let note = missed
        .note
        .as_ref()
        .map(|note| format!(": {}", quoted(note)));
    let new = NewNotice {
        occurrence: missed.first.to_string(),
        summary: format!(
            "{span} did not fire and will not{}",
            note.unwrap_or_default()
        ),
        hint: format!(
            "`attache schedule run` starts it by hand, `attache schedule history` has every slot; `catch_up` in \
             `{}` says what becomes of slots that come due while no engine runs",
            whose.file
        ),
        ..whose.notice(NoticeKind::SlotsMissed, id, clock)
    };
    emit(conn, &new, clock.now()).await?;
    Ok(())
}

/// Emits that a responsibility is paused because its runs failed one after another.
pub async fn responsibility_paused(
    conn: &mut Connection,
    id: &ResponsibilityId,
    now: Timestamp,
    clock: &dyn Clock,
) -> Result<()> {
    let whose = Whose::read(conn, id).await?;
    let new = NewNotice {
        occurrence: now.to_string(),
        summary: format!(
            "{} of {} is paused: its last {} runs failed",
            whose.name, whose.persona, whose.failures
        ),
        hint:
            "`attache schedule history` has its runs, `attache runs show RUN` says why one failed; \
               `attache schedule resume` lets it fire again"
                .to_owned(),
        ..whose.notice(NoticeKind::ResponsibilityPaused, id, clock)
    };
    emit(conn, &new, now).await?;
    Ok(())
}

impl Store {
    /// Emits every slot whose grace time has passed and which has not ended, once; returns their
    /// number.
    pub async fn emit_overdue(&self, now: Timestamp) -> Result<u64> {
        if !self.one(IS_OVERDUE, now).await? {
            return Ok(0);
        }
        let clock = self.clock().clone();
        transact!(self, Scope::Engine, |conn| overdue(
            conn,
            now,
            clock.as_ref()
        )
        .await)
        .await
    }

    /// Records that the search for the next slot of a responsibility found nothing, though slots
    /// must come, and the instant of the next search. The owner is notified once, until the file
    /// changes or the responsibility is resumed.
    pub async fn search_again(
        &self,
        id: &ResponsibilityId,
        seen: Version,
        next: NextSlot,
    ) -> Result<()> {
        let (id, clock) = (id.clone(), self.clock().clone());
        transact!(self, Scope::of_responsibility(&id), |conn| {
            if conn
                .exec(
                    SET_NEXT_SLOT,
                    (
                        &id,
                        seen.revision,
                        seen.cursor_at,
                        next.at,
                        next.fire_at,
                        next.is_done,
                    ),
                )
                .await?
                > 0
            {
                stuck(conn, &id, seen.revision, clock.as_ref()).await?;
            }
            Ok(())
        })
        .await
    }
}

async fn overdue(conn: &mut Connection, now: Timestamp, clock: &dyn Clock) -> Result<u64> {
    let mut emitted = 0;
    for row in conn.rows(OVERDUE_SLOTS, (now, OVERDUE_MAX)).await? {
        let id: ResponsibilityId = row.get("responsibility_id");
        let slot: String = row.get("slot_at");

        conn.exec(FINISH_OVERDUE, (&id, &slot)).await?;
        let is_waiting = row.get::<&str>("state") == "waiting";
        let run_state: Option<String> = row.get("run_state");
        let is_open = !matches!(
            run_state.as_deref(),
            None | Some("succeeded" | "failed" | "cancelled")
        );
        if !is_waiting && !is_open {
            continue;
        }
        let whose = Whose::read(conn, &id).await?;
        let (how, hint) = match (row.get::<Option<String>>("run_id"), run_state) {
            (Some(run), Some(state)) => (
                format!("its run {run} is {}", state.replace('_', " ")),
                format!(
                    "`attache runs show {run}` says what it does, `attache runs cancel {run}` ends it; `grace` in \
                     `{}` says how long a slot may take",
                    whose.file
                ),
            ),
            _ => (
                "it waits for its turn".to_owned(),
                "`attache schedule history` says what became of the slots before it".to_owned(),
            ),
        };
        let new = NewNotice {
            occurrence: slot.clone(),
            summary: format!(
                "the slot of {} at {slot} has not ended within its grace time: {how}",
                whose.name
            ),
            hint,
            ..whose.notice(NoticeKind::SlotOverdue, &id, clock)
        };
        emitted += u64::from(emit(conn, &new, now).await?);
    }
    Ok(emitted)
}

async fn stuck(
    conn: &mut Connection,
    id: &ResponsibilityId,
    revision: i64,
    clock: &dyn Clock,
) -> Result<()> {
    let whose = Whose::read(conn, id).await?;
    let new = NewNotice {
        occurrence: format!("{revision}-no-next-slot"),
        summary: format!(
            "{} of {} does not fire: no next slot was found for it; the search is made again every hour",
            whose.name, whose.persona
        ),
        hint: format!(
            "give `{}` another schedule; it is read again by itself",
            whose.file
        ),
        ..whose.notice(NoticeKind::ResponsibilityBroken, id, clock)
    };
    emit(conn, &new, clock.now()).await?;
    Ok(())
}

/// Responsibility of a slot, for display.
struct Whose {
    persona: PersonaId,
    /// Name, quoted.
    name: String,
    /// Path below the workspace.
    file: String,
    failures: u32,
}

impl Whose {
    async fn read(conn: &mut Connection, id: &ResponsibilityId) -> Result<Self> {
        let row = conn.row(WHOSE, id).await?;
        let persona = persona_id(&row)?;
        let file = format!("personas/{persona}/{}", row.get::<&str>("file"));
        Ok(Self {
            name: quoted(row.get("name")),
            file,
            failures: row.get("failures"),
            persona,
        })
    }

    fn notice(&self, kind: NoticeKind, id: &ResponsibilityId, clock: &dyn Clock) -> NewNotice {
        NewNotice {
            id: NoticeId::new(clock.new_id()),
            persona: Some(self.persona.clone()),
            kind,
            detail: String::new(),
            subject: NoticeSubject::Responsibility,
            subject_id: id.to_string(),
            occurrence: String::new(),
            summary: String::new(),
            hint: String::new(),
        }
    }
}
