//! `attache schedule calendar`: the coming days and the slots due on each.

use super::{ChosenTasks, ScheduleContext, comes_after, state, timing_of};
use crate::cli::{Exit, Failure, refuse, screen};
use crate::domain::{PersonaId, Timestamp};
use crate::schedule_file::timing::local_text;
use crate::store::StoredResponsibility;
use chrono::{DateTime, Datelike, Duration, NaiveDate};
use chrono_tz::Tz;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum slots of one responsibility on one day that have a line each; more slots share one line.
const LINES_PER_DAY: usize = 6;
/// Maximum number of slots computed.
const SLOTS_MAX: usize = 1_000_000;

/// The slots of one responsibility on one day: the first, the last and their number.
struct CalendarEntry<'a> {
    row: &'a StoredResponsibility,
    first: Timestamp,
    last: Timestamp,
    count: usize,
}

/// Prints the coming days.
pub(super) async fn calendar(
    ctx: &ScheduleContext<'_>,
    of: ChosenTasks,
    count: usize,
    timezone: Option<String>,
) -> anyhow::Result<Exit> {
    let context = ctx.context;
    let rows = ctx.chosen(of).await?;
    let zone = zone_for(timezone, &rows)?;
    let days = days(&rows, zone, ctx.clock.now(), count)?;
    if context.json() {
        let days = days
            .iter()
            .map(|(day, of)| CalendarDay::new(*day, zone, of));
        context.screen.json(&days.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    for (day, entries) in &days {
        context.screen.heading(format!("{} {day}", day.weekday()))?;
        for entry in entries {
            context.screen.line(format!("  {}", line(zone, entry)))?;
        }
        if entries.is_empty() {
            context.screen.line("  nothing")?;
        }
    }
    screen::remark(&format!("times are of {zone}"));
    let resting = rows
        .iter()
        .filter(|row| !matches!(state(row), "on" | "done" | "past"))
        .count();
    if resting > 0 {
        screen::remark(&format!(
            "off, paused or unusable: {resting}; see `attache schedule list`"
        ));
    }
    Ok(Exit::Ok)
}

fn zone_for(timezone: Option<String>, rows: &[StoredResponsibility]) -> anyhow::Result<Tz> {
    if let Some(typed) = timezone {
        return typed.parse().map_err(|_| {
            let failure = Failure::new(Exit::Usage, format!("no time zone `{typed}`"));
            failure
                .hint("write an IANA name such as `Europe/Berlin`")
                .into()
        });
    }
    let mut zones = rows
        .iter()
        .filter(|row| state(row) == "on")
        .map(StoredResponsibility::zone);
    let first = zones.next().unwrap_or(Tz::UTC);
    Ok(if zones.all(|zone| zone == first) {
        first
    } else {
        Tz::UTC
    })
}

/// Every day of the span with its slots, sorted by time.
fn days(
    rows: &[StoredResponsibility],
    zone: Tz,
    now: Timestamp,
    count: usize,
) -> anyhow::Result<BTreeMap<NaiveDate, Vec<CalendarEntry<'_>>>> {
    let day_of = |at: Timestamp| local(at, zone).date_naive();
    let today = day_of(now);
    let span = today.iter_days().take(count);
    let mut days: BTreeMap<NaiveDate, Vec<CalendarEntry<'_>>> =
        span.map(|day| (day, Vec::new())).collect();
    let end = today + Duration::days(i64::try_from(count).unwrap_or_default());
    let mut looked_at = 0;
    for row in rows.iter().filter(|row| state(row) == "on") {
        let Some(timing) = timing_of(row) else {
            continue;
        };
        let mut next = timing.next_after(comes_after(row, now));
        let mut of_day: Vec<Timestamp> = Vec::new();
        while let Some(slot) = next.filter(|slot| day_of(*slot) < end) {
            looked_at += 1;
            if looked_at > SLOTS_MAX {
                return refuse(
                    Exit::Usage,
                    format!("more than {SLOTS_MAX} slots are due in {count} days"),
                    "name one responsibility, a persona with --persona ID, or fewer days with --days N",
                );
            }
            if of_day
                .first()
                .is_some_and(|first| day_of(*first) != day_of(slot))
            {
                file(&mut days, row, &std::mem::take(&mut of_day), day_of);
            }
            of_day.push(slot);
            next = timing.next_after(slot);
        }
        file(&mut days, row, &of_day, day_of);
    }
    days.values_mut()
        .for_each(|entries| entries.sort_by_key(|entry| (entry.first, &entry.row.name)));
    Ok(days)
}

/// Adds the slots of one responsibility to their days.
fn file<'a>(
    days: &mut BTreeMap<NaiveDate, Vec<CalendarEntry<'a>>>,
    row: &'a StoredResponsibility,
    slots: &[Timestamp],
    day_of: impl Fn(Timestamp) -> NaiveDate,
) {
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else {
        return;
    };
    let Some(entries) = days.get_mut(&day_of(*first)) else {
        return;
    };
    if slots.len() > LINES_PER_DAY {
        entries.push(CalendarEntry {
            row,
            first: *first,
            last: *last,
            count: slots.len(),
        });
    } else {
        entries.extend(slots.iter().map(|slot| CalendarEntry {
            row,
            first: *slot,
            last: *slot,
            count: 1,
        }));
    }
}

fn local(at: Timestamp, zone: Tz) -> DateTime<Tz> {
    at.to_utc().with_timezone(&zone)
}

fn line(zone: Tz, entry: &CalendarEntry<'_>) -> String {
    let CalendarEntry {
        row,
        first,
        last,
        count,
    } = entry;
    let clock = |at: Timestamp| local(at, zone).format("%H:%M").to_string();
    let whom = format!("{} ({})", screen::one_line(&row.name), row.persona);
    match count {
        1 => format!("{}        {whom}", clock(*first)),
        count => format!("{} - {} {whom}, {count} times", clock(*first), clock(*last)),
    }
}

/// A day with its slots.
#[derive(Serialize)]
struct CalendarDay<'a> {
    date: String,
    timezone: &'static str,
    slots: Vec<CalendarSlot<'a>>,
}

/// Slots of one responsibility that follow each other.
#[derive(Serialize)]
struct CalendarSlot<'a> {
    slot_at: Timestamp,
    local: String,
    until: Option<Timestamp>,
    count: usize,
    persona: &'a PersonaId,
    name: &'a str,
}

impl<'a> CalendarDay<'a> {
    fn new(day: NaiveDate, zone: Tz, entries: &[CalendarEntry<'a>]) -> Self {
        let slot = |entry: &CalendarEntry<'a>| CalendarSlot {
            slot_at: entry.first,
            local: local_text(entry.first, zone),
            until: (entry.count > 1).then_some(entry.last),
            count: entry.count,
            persona: &entry.row.persona,
            name: &entry.row.name,
        };
        Self {
            date: day.to_string(),
            timezone: zone.name(),
            slots: entries.iter().map(slot).collect(),
        }
    }
}
