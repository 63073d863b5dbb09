//! Time zones of a calendar part: the zone that the part defines itself (`VTIMEZONE`, RFC 5545
//! section 3.6.5), else the zone of that name, IANA's or Windows' (CLDR's table, in calcard).
//!
//! Of a definition the last change before an instant counts. A change recurs yearly or not at all:
//! every program that we know writes it so.

use calcard::common::PartialDateTime;
use calcard::common::timezone::Tz;
use calcard::icalendar::{
    ICalendar, ICalendarComponent, ICalendarComponentType, ICalendarEntry, ICalendarFrequency,
    ICalendarMonth, ICalendarProperty, ICalendarRecurrenceRule, ICalendarValue,
};
use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, TimeDelta, TimeZone, Utc, Weekday};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Most zone definitions that are read of a part, and changes of each.
const ZONES_MAX: usize = 16;
const CHANGES_MAX: usize = 64;

/// Zones of one calendar part.
pub struct PartZones<'a> {
    defined: BTreeMap<&'a str, ZoneDefinition<'a>>,
}

struct ZoneDefinition<'a> {
    component: &'a ICalendarComponent,
    changes: Vec<OffsetChange>,
}

/// A change of the offset: `STANDARD` or `DAYLIGHT`.
struct OffsetChange {
    first: NaiveDateTime,
    /// Seconds east of UTC from then on.
    offset_s: i64,
    rule: Option<YearlyRule>,
}

/// `FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU`.
struct YearlyRule {
    month: u32,
    /// The n-th such day of the month, from its end if negative; `None`: the day of the month of the first change.
    day: Option<(i16, Weekday)>,
    until: Option<NaiveDateTime>,
}

/// How the instant of a local time was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneSource {
    /// By the definition in the part, or by the name of the zone; both agree.
    Known,
    /// By the definition in the part, and the zone of that name says otherwise.
    Redefined,
}

impl<'a> PartZones<'a> {
    pub fn from_calendar(calendar: &'a ICalendar) -> Self {
        let zones = calendar.timezones().take(ZONES_MAX);
        let defined = zones.filter_map(|zone| {
            let name = zone.property(&ICalendarProperty::Tzid)?.values.first()?;
            let definition = ZoneDefinition {
                component: zone,
                changes: changes(calendar, zone),
            };
            Some((name.as_text()?, definition))
        });
        Self {
            defined: defined.collect(),
        }
    }

    /// Returns the instant of a local time in a zone; `None`: the zone is unknown.
    pub fn instant(
        &self,
        local: NaiveDateTime,
        zone: &str,
    ) -> Option<(chrono::DateTime<Utc>, ZoneSource)> {
        let by_name = known_zone(zone).and_then(|zone| in_zone(local, zone));
        let definition = self.defined.get(zone);
        let defined = definition.and_then(|zone| zone.instant(local));
        match (defined, by_name) {
            (Some(defined), Some(known)) if defined != known => {
                Some((defined, ZoneSource::Redefined))
            }
            (Some(at), _) | (None, Some(at)) => Some((at, ZoneSource::Known)),
            (None, None) => {
                // A definition without changes that can be read may still have a known name inside.
                let (_, named) = definition?.component.timezone()?;
                Some((in_zone(local, named)?, ZoneSource::Known))
            }
        }
    }

    /// Returns the definition of a zone and its parts, to be written again.
    pub fn definition(&self, zone: &str) -> Option<&'a ICalendarComponent> {
        self.defined.get(zone).map(|zone| zone.component)
    }
}

/// Returns the zone of that name, if there is one with rules.
fn known_zone(name: &str) -> Option<Tz> {
    let zone = Tz::from_str(name).ok()?;
    (!zone.is_floating()).then_some(zone)
}

/// Returns the instant; of two, the earlier one, and for a local time that is skipped, the one an hour on.
fn in_zone(local: NaiveDateTime, zone: Tz) -> Option<chrono::DateTime<Utc>> {
    let found = zone.from_local_datetime(&local).earliest().or_else(|| {
        let later = local.checked_add_signed(TimeDelta::hours(1))?;
        zone.from_local_datetime(&later).earliest()
    });
    found.map(|at| at.to_utc())
}

impl ZoneDefinition<'_> {
    fn instant(&self, local: NaiveDateTime) -> Option<chrono::DateTime<Utc>> {
        let last = self.changes.iter().filter_map(|change| {
            let onset = change.last_before(local)?;
            Some((onset, change.offset_s))
        });
        let earliest = || {
            let first = self.changes.iter().min_by_key(|change| change.first);
            first.map(|change| change.offset_s)
        };
        let offset_s = match last.max_by_key(|(onset, _)| *onset) {
            Some((_, offset_s)) => offset_s,
            None => earliest()?,
        };
        let utc = local.checked_sub_signed(TimeDelta::seconds(offset_s))?;
        Some(utc.and_utc())
    }
}

impl OffsetChange {
    /// Returns the last time that the change happens up to a local time.
    fn last_before(&self, local: NaiveDateTime) -> Option<NaiveDateTime> {
        if local < self.first {
            return None;
        }
        let Some(rule) = &self.rule else {
            return Some(self.first);
        };
        let is_within = |onset: &NaiveDateTime| {
            *onset <= local && rule.until.is_none_or(|until| *onset <= until)
        };
        let last_year = match rule.until {
            Some(until) => until.year().min(local.year()),
            None => local.year(),
        };
        let onset = [last_year, last_year.saturating_sub(1)]
            .into_iter()
            .filter_map(|year| rule.onset(year, self.first))
            .find(is_within);
        Some(onset.unwrap_or(self.first).max(self.first))
    }
}

impl YearlyRule {
    fn onset(&self, year: i32, first: NaiveDateTime) -> Option<NaiveDateTime> {
        let date = match self.day {
            None => NaiveDate::from_ymd_opt(year, self.month, first.day())?,
            Some((ordinal, weekday)) if ordinal > 0 => {
                let ordinal = u8::try_from(ordinal).ok()?;
                NaiveDate::from_weekday_of_month_opt(year, self.month, weekday, ordinal)?
            }
            Some((ordinal, weekday)) => {
                let next = match self.month {
                    12 => NaiveDate::from_ymd_opt(year.checked_add(1)?, 1, 1)?,
                    month => NaiveDate::from_ymd_opt(year, month + 1, 1)?,
                };
                let last = next.pred_opt()?;
                let back = (7 + last.weekday().num_days_from_monday()
                    - weekday.num_days_from_monday())
                    % 7;
                let weeks = u64::from(ordinal.unsigned_abs().saturating_sub(1));
                last.checked_sub_days(Days::new(u64::from(back) + 7 * weeks))?
            }
        };
        Some(date.and_time(first.time()))
    }
}

fn changes(calendar: &ICalendar, zone: &ICalendarComponent) -> Vec<OffsetChange> {
    let parts = zone.component_ids.iter().take(CHANGES_MAX);
    let parts = parts.filter_map(|id| calendar.component_by_id(*id));
    let is_change = |part: &&ICalendarComponent| {
        matches!(
            part.component_type,
            ICalendarComponentType::Standard | ICalendarComponentType::Daylight
        )
    };
    parts.filter(is_change).filter_map(change).collect()
}

fn change(part: &ICalendarComponent) -> Option<OffsetChange> {
    let first = local_time(part.property(&ICalendarProperty::Dtstart)?)?;
    let offset_s = offset_s(part.property(&ICalendarProperty::Tzoffsetto)?)?;
    let rule = part.property(&ICalendarProperty::Rrule);
    let rule = match rule.and_then(|entry| entry.values.first()) {
        Some(ICalendarValue::RecurrenceRule(rule)) => Some(yearly(rule)?),
        _ => None,
    };
    Some(OffsetChange {
        first,
        offset_s,
        rule,
    })
}

fn yearly(rule: &ICalendarRecurrenceRule) -> Option<YearlyRule> {
    if rule.freq != ICalendarFrequency::Yearly {
        return None;
    }
    let month = rule.bymonth.first().map(ICalendarMonth::month)?;
    let day = rule.byday.first().map(|day| {
        let weekday = Weekday::from(day.weekday);
        (day.ordwk.unwrap_or(1), weekday)
    });
    let until = rule.until.as_ref().and_then(PartialDateTime::to_date_time);
    Some(YearlyRule {
        month: u32::from(month),
        day,
        until: until.map(|until| until.date_time),
    })
}

/// Returns the local time that a property names.
pub fn local_time(entry: &ICalendarEntry) -> Option<NaiveDateTime> {
    let time = entry.values.first()?.as_partial_date_time()?;
    Some(time.to_date_time()?.date_time)
}

fn offset_s(entry: &ICalendarEntry) -> Option<i64> {
    let offset = entry.values.first()?.as_partial_date_time()?;
    let seconds = i64::from(offset.tz_hour?) * 3600 + i64::from(offset.tz_minute.unwrap_or(0)) * 60;
    Some(if offset.tz_minus { -seconds } else { seconds })
}
