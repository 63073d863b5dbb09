//! The schedule: what is due in the coming days, each responsibility with its state, and what its last slots became.

use crate::domain::{PausedBy, RunId, Timestamp};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::StateWords;
use crate::schedule_file::timing::Timing;
use crate::scheduler::StartError;
use crate::store::{ListPage, StoredResponsibility, StoredSlot};
use axum::response::Response;
use chrono::NaiveDateTime;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Days of the calendar.
const DAYS: u64 = 7;
/// Most slots of one responsibility in the calendar.
const SLOTS_MAX: usize = 60;
/// Most past slots that are listed.
const PAST_MAX: u32 = 60;

/// A day with its slots, each on the day that its own zone has then.
#[derive(Serialize)]
struct CalendarColumn {
    day: String,
    slots: Vec<DueRow>,
}

#[derive(Serialize)]
struct DueRow {
    at: Timestamp,
    #[serde(skip)]
    day: NaiveDateTime,
    local: String,
    /// Empty where all zones are one.
    zone: String,
    name: String,
    persona: String,
}

#[derive(Serialize)]
struct PastSlot {
    #[serde(flatten)]
    slot: StoredSlot,
    outcome: StateWords,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let now = call.context.now();
    let mut stored = store.responsibilities().await?;
    stored.retain(|row| row.removed_at.is_none());
    let past = store
        .responsibility_slots(None, ListPage::first(PAST_MAX))
        .await?;
    let page = json!({
        "days": calendar(&stored, now),
        "rows": stored.iter().map(row).collect::<Vec<_>>(),
        "past": past.into_iter().map(past_slot).collect::<Vec<_>>(),
    });
    call.page("schedule.html", &page).await
}

/// Finds the responsibility that a path names.
async fn named(call: &Call) -> Result<StoredResponsibility, PageError> {
    let rows = call.context.store.responsibilities().await?;
    let id = call.param("id");
    rows.into_iter()
        .find(|row| row.id.as_str() == id && row.removed_at.is_none())
        .ok_or_else(|| PageError::Missing("responsibility".to_owned()))
}

/// A responsibility after an action.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct ChangedResponsibility {
    id: String,
    persona: String,
    name: String,
    /// Run that was started.
    run: Option<RunId>,
    is_paused: bool,
}

async fn changed(call: &Call, run: Option<RunId>) -> Result<Response, PageError> {
    call.context.wake();
    let row = named(call).await?;
    let page = match &run {
        Some(run) => format!("/r/{run}"),
        None => "/schedule".to_owned(),
    };
    let record = ChangedResponsibility {
        id: row.id.to_string(),
        persona: row.persona.to_string(),
        name: row.name,
        run,
        is_paused: row.paused.is_some(),
    };
    call.done(&page, &record)
}

/// Starts a responsibility now; its schedule stays as it is.
pub(in crate::http) async fn start(call: Call) -> Result<Response, PageError> {
    let row = named(&call).await?;
    match call.context.scheduler.start(&row).await {
        Ok(run) => changed(&call, Some(run)).await,
        Err(StartError::Store(error)) => Err(error.into()),
        Err(error) => Err(PageError::Conflict {
            message: format!("it cannot be started: {error}"),
            hint: "`attache schedule validate` says what is wrong with its file".to_owned(),
        }),
    }
}

/// Lets a responsibility rest until it is resumed.
pub(in crate::http) async fn pause(call: Call) -> Result<Response, PageError> {
    let row = named(&call).await?;
    call.context.scheduler.pause(&row.id).await?;
    changed(&call, None).await
}

/// Lets a paused responsibility fire again, from its next slot on.
pub(in crate::http) async fn resume(call: Call) -> Result<Response, PageError> {
    let row = named(&call).await?;
    let resumed = call.context.scheduler.resume(&row).await?;
    if !resumed && named(&call).await?.paused.is_some() {
        return Err(PageError::Conflict {
            message: "it changed at this very moment".to_owned(),
            hint: "try again".to_owned(),
        });
    }
    changed(&call, None).await
}

fn is_on(row: &StoredResponsibility) -> bool {
    row.enabled && row.error.is_none() && row.paused.is_none() && !row.next.is_done
}

fn row(row: &StoredResponsibility) -> Value {
    let paused = row.paused.map(|paused| match paused.by {
        PausedBy::Failures => "after failed runs",
        PausedBy::Owner => "by its owner",
    });
    let outcome = match (&row.error, paused) {
        (Some(_), _) => StateWords::new("cannot be read", "bad"),
        (None, Some(why)) => StateWords {
            why: why.to_owned(),
            ..StateWords::new("paused", "wait")
        },
        _ if !row.enabled => StateWords::new("off", "quiet"),
        _ if row.next.is_done => StateWords::new("done", "quiet"),
        _ => StateWords::new("on", "good"),
    };
    let next_at = row.next.at.filter(|_| is_on(row));
    json!({
        "id": row.id.to_string(),
        "may_start": row.error.is_none(),
        "is_paused": row.paused.is_some(),
        "name": row.name,
        "persona": row.persona.to_string(),
        "file": row.file,
        "schedule": row.schedule,
        "timezone": row.timezone,
        "outcome": outcome,
        "next_at": next_at,
        "next_local": next_at.map(|at| {
            let local = at.to_utc().with_timezone(&row.zone());
            local.format("%-d %b %Y, %H:%M").to_string()
        }),
        "last_fired_at": row.last_fired_at,
        "last_succeeded_at": row.last_succeeded_at,
        "failures": row.failures,
        "error": row.error,
        "thread": row.thread.as_ref().map(ToString::to_string),
    })
}

/// Returns the coming days with everything that is due on them.
fn calendar(rows: &[StoredResponsibility], now: Timestamp) -> Vec<CalendarColumn> {
    let end = now.plus(Duration::from_secs(DAYS * 24 * 3600));
    let mut due: Vec<DueRow> = Vec::new();
    for row in rows.iter().filter(|row| is_on(row)) {
        let zone = row.zone();
        let Ok(timing) = Timing::parse(&row.schedule, zone) else {
            continue;
        };
        let from = now.max(row.version.cursor_at);
        let mut next = timing.next_after(from);
        let mut count = 0;
        while let Some(at) = next.filter(|at| *at < end && count < SLOTS_MAX) {
            let local = at.to_utc().with_timezone(&zone).naive_local();
            due.push(DueRow {
                at,
                local: local.format("%H:%M").to_string(),
                day: local,
                zone: zone.name().to_owned(),
                name: row.name.clone(),
                persona: row.persona.to_string(),
            });
            count += 1;
            next = timing.next_after(at);
        }
    }
    due.sort_by_key(|slot| (slot.day, slot.at));
    if due.iter().all(|slot| slot.zone == due[0].zone) {
        due.iter_mut().for_each(|slot| slot.zone.clear());
    }
    let mut days: Vec<CalendarColumn> = Vec::new();
    for slot in due {
        let day = slot.day.format("%A, %-d %B").to_string();
        match days.last_mut().filter(|column| column.day == day) {
            Some(column) => column.slots.push(slot),
            None => days.push(CalendarColumn {
                day,
                slots: vec![slot],
            }),
        }
    }
    days
}

fn past_slot(slot: StoredSlot) -> PastSlot {
    let (words, tone) = match (slot.state.as_str(), slot.run_state.as_deref()) {
        ("fired", Some("succeeded")) => ("ran", "good"),
        ("fired", Some("failed")) => ("failed", "bad"),
        ("fired", Some("waiting_approval")) => ("waits for you", "wait"),
        ("fired", _) => ("fired", "busy"),
        ("waiting", _) => ("waits its turn", "busy"),
        ("missed", _) => ("missed", "bad"),
        ("paused", _) => ("paused", "quiet"),
        ("skipped_overlap", _) => ("skipped, the one before was at work", "quiet"),
        (other, _) => (other, "quiet"),
    };
    PastSlot {
        outcome: StateWords::new(words, tone),
        slot,
    }
}
