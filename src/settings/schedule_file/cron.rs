//! Five-field cron expressions in a time zone: parsing and the next slot.
//!
//! `croner` parses the fields; times that a clock change skips or repeats are handled here, as in
//! Vixie cron (`crontab(5)`), because a daily responsibility must run once on every day, also on
//! the two days of clock changes. Absent on purpose: seconds, years, `@daily`, `L`, `W`, `#`, `?`,
//! and any clock.

use crate::domain::Timestamp;
use chrono::{
    DateTime, Datelike, Duration, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone,
    Timelike, Utc,
};
use chrono_tz::Tz;
use croner::parser::CronParser;

/// Maximum minutes of a gap in local time that counts as daylight saving; the times of a longer one
/// (a zone that moved over the date line) never existed.
const GAP_MINUTES_MAX: i64 = 180;
/// Number of days after which the Gregorian calendar repeats: a day that is not in them never
/// comes.
const CALENDAR_CYCLE_DAYS: usize = 146_097;
/// Maximum bytes of an expression.
const EXPRESSION_BYTES_MAX: usize = 256;
/// croner's bit for "this value is in the field", which it does not export.
const VALUE_BIT: u8 = 1;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Permitted values of each field, for errors.
const RANGES: [&str; 5] = [
    "0 to 59",
    "0 to 23",
    "1 to 31",
    "1 to 12 or jan to dec",
    "0 to 7 or sun to sat",
];

/// Error of a refused expression.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CronError {
    #[error(
        "`{expression}` has {found} fields; a schedule has five: minute hour day-of-month month day-of-week{hint}"
    )]
    FieldCount {
        expression: String,
        found: usize,
        hint: String,
    },
    #[error("the {field} field `{text}` {problem}{}", example(field))]
    Field {
        field: &'static str,
        text: String,
        problem: String,
    },
    #[error(
        "`{0}` never comes due: no such day exists; for the last day of every month there is no expression, the first is `0 9 1 * *`"
    )]
    Never(String),
}

/// A schedule with at least one slot in every calendar cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSchedule {
    text: String,
    /// Ascending.
    minutes: Vec<u32>,
    /// Ascending.
    hours: Vec<u32>,
    /// Bit n is day n of the month.
    days: u32,
    /// Bit n is month n.
    months: u32,
    /// Bit 0 is Sunday.
    weekdays: u32,
    /// Both day fields are restricted (neither starts with `*`): one of them must match. Otherwise
    /// both must.
    either_day: bool,
    /// Neither minute nor hour has a `*` or `/`: fixed times of day, due once on every day.
    fixed: bool,
}

impl CronSchedule {
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let expression = shortened(text);
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let &[minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(CronError::FieldCount {
                hint: hint(&fields),
                found: fields.len(),
                expression,
            });
        };
        if text.len() > EXPRESSION_BYTES_MAX {
            let problem =
                format!("belongs to an expression of more than {EXPRESSION_BYTES_MAX} bytes");
            return Err(CronError::Field {
                field: "minute",
                text: shortened(minute),
                problem,
            });
        }
        let schedule = Self {
            text: fields.join(" "),
            minutes: read_field("minute", minute, 0)?,
            hours: read_field("hour", hour, 1)?,
            days: mask(&read_field("day-of-month", day, 2)?),
            months: mask(&read_field("month", month, 3)?),
            weekdays: mask(&read_field("day-of-week", weekday, 4)?),
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
            fixed: ![minute, hour]
                .iter()
                .any(|field| field.contains(['*', '/'])),
        };
        let mut cycle = NaiveDate::default().iter_days().take(CALENDAR_CYCLE_DAYS);
        if cycle.any(|date| schedule.has_day(date)) {
            Ok(schedule)
        } else {
            Err(CronError::Never(expression))
        }
    }

    /// The expression, with single spaces.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Minimum distance between two consecutive slots, in local time.
    pub fn period_min(&self) -> std::time::Duration {
        const MINUTES_OF_DAY: u32 = 24 * 60;
        let of_day = |hour: u32, minute: u32| hour * 60 + minute;
        let times: Vec<u32> = self
            .hours
            .iter()
            .flat_map(|h| self.minutes.iter().map(move |m| of_day(*h, *m)))
            .collect();
        let within = times.windows(2).map(|pair| pair[1] - pair[0]).min();
        let (first, last) = (
            times.first().copied().unwrap_or(0),
            times.last().copied().unwrap_or(0),
        );
        let across = |days: u32| days * MINUTES_OF_DAY + first - last;
        let minutes = match within {
            // Slots on different days cannot be closer.
            Some(within) if within <= across(1) => within,
            _ => within
                .into_iter()
                .chain([across(self.days_min())])
                .min()
                .unwrap_or(MINUTES_OF_DAY),
        };
        std::time::Duration::from_secs(u64::from(minutes) * 60)
    }

    /// Minimum number of days between two consecutive matching days.
    fn days_min(&self) -> u32 {
        let days = NaiveDate::default()
            .iter_days()
            .take(2 * CALENDAR_CYCLE_DAYS);
        let mut matching = days
            .zip(0_u32..)
            .filter(|(date, _)| self.has_day(*date))
            .map(|(_, day)| day);
        let mut before = matching.next();
        let mut smallest = u32::MAX / (24 * 60) - 1;
        for day in matching {
            smallest = smallest.min(before.replace(day).map_or(smallest, |before| day - before));
            if smallest == 1 {
                break;
            }
        }
        smallest
    }

    fn has_day(&self, date: NaiveDate) -> bool {
        let day = self.days >> date.day() & 1 == 1;
        let weekday = self.weekdays >> date.weekday().num_days_from_sunday() & 1 == 1;
        let either = if self.either_day {
            day || weekday
        } else {
            day && weekday
        };
        either && self.months >> date.month() & 1 == 1
    }

    /// Local times at or after `from`, ascending, for one calendar cycle.
    fn local_times(&self, from: NaiveDateTime) -> impl Iterator<Item = NaiveDateTime> {
        let days = from.date().iter_days().take(CALENDAR_CYCLE_DAYS);
        days.filter(|date| self.has_day(*date))
            .flat_map(move |date| {
                let first_hour = if date == from.date() { from.hour() } else { 0 };
                let hours = &self.hours[self.hours.partition_point(|hour| *hour < first_hour)..];
                let times = hours
                    .iter()
                    .flat_map(|h| self.minutes.iter().map(move |m| (*h, *m)));
                times
                    .filter_map(move |(h, m)| date.and_hms_opt(h, m, 0))
                    .filter(move |local| *local >= from)
            })
    }
}

/// The first slot after `after`; `None` only at the end of the calendar. Pure.
///
/// Fixed times inside a gap of local time come due at the gap's end, together; fixed times that
/// occur twice come due the first time. Expressions with `*` or `/` in minute or hour come due at
/// every real instant that they match.
pub fn next_after(schedule: &CronSchedule, zone: Tz, after: Timestamp) -> Option<Timestamp> {
    let after = after.to_utc();
    let mut second_pass = None;
    for local in schedule.local_times(local_start(zone, after)) {
        let (first, second) = match zone.from_local_datetime(&local) {
            MappedLocalTime::Single(only) => (Some(only), None),
            MappedLocalTime::Ambiguous(first, second) if schedule.fixed => {
                (Some(first.min(second)), None)
            }
            MappedLocalTime::Ambiguous(first, second) => {
                (Some(first.min(second)), Some(first.max(second)))
            }
            MappedLocalTime::None if schedule.fixed => {
                (end_of_gap(zone, local, GAP_MINUTES_MAX), None)
            }
            MappedLocalTime::None => (None, None),
        };
        // First passes ascend with local time, and so do second passes; so the first match of each
        // is its earliest.
        if second_pass.is_none() {
            second_pass = second.filter(|at| *at > after);
        }
        if let Some(first) = first.filter(|at| *at > after) {
            let earliest = second_pass.map_or(first, |second| second.min(first));
            return Some(earliest.to_utc().into());
        }
    }
    second_pass.map(|at| at.to_utc().into())
}

/// Local time at which a search begins: that of `after`, or earlier by the time by which the clocks
/// are about to be set back.
fn local_start(zone: Tz, after: DateTime<Utc>) -> NaiveDateTime {
    let offset = |at: DateTime<Utc>| {
        zone.offset_from_utc_datetime(&at.naive_utc())
            .fix()
            .local_minus_utc()
    };
    let now = offset(after);
    let soon = after
        .checked_add_signed(Duration::hours(26))
        .map_or(now, offset);
    after.naive_utc() + Duration::seconds(i64::from(now.min(soon)))
}

/// The first instant after the gap around `local`; `None` when the gap is longer than
/// `minutes_max`.
pub(super) fn end_of_gap(zone: Tz, local: NaiveDateTime, minutes_max: i64) -> Option<DateTime<Tz>> {
    let at = |minutes: i64| {
        Some(zone.from_local_datetime(&local.checked_add_signed(Duration::minutes(minutes))?))
    };
    let is_gap = |minutes: i64| matches!(at(minutes), Some(MappedLocalTime::None));
    let before = (1..=minutes_max).find(|minutes| !is_gap(-minutes))?;
    let after = (1..=minutes_max).find(|minutes| !is_gap(*minutes))?;
    if before - 1 + after > minutes_max {
        None
    } else {
        at(after)?.earliest()
    }
}

/// Parses one field: its syntax is checked here, its values come from croner.
fn read_field(field: &'static str, text: &str, position: usize) -> Result<Vec<u32>, CronError> {
    let refused = |problem: String| CronError::Field {
        field,
        text: shortened(text),
        problem,
    };
    for item in text.split(',') {
        check_item(item, position).map_err(refused)?;
    }
    // croner does not name the faulty field, so each is parsed alone.
    let mut fields = ["*"; 5];
    fields[position] = text;
    let ranges = RANGES[position];
    let out_of_range =
        || format!("must hold values from {ranges}, ranges from low to high and steps above 0");
    let read = CronParser::new().parse(&fields.join(" "));
    let pattern = read.map_err(|_| refused(out_of_range()))?.pattern;
    let all = [
        pattern.minutes,
        pattern.hours,
        pattern.days,
        pattern.months,
        pattern.days_of_week,
    ];
    Ok(all[position]
        .get_set_values(VALUE_BIT)
        .into_iter()
        .map(u32::from)
        .collect())
}

/// Checks one item of a list: `*`, `*/n`, `a`, `a-b`, `a-b/n`; names only in fields that have
/// names.
fn check_item(item: &str, position: usize) -> Result<(), String> {
    if item.is_empty() {
        return Err("has an empty item in its list".to_owned());
    }
    let (range, step) = item
        .split_once('/')
        .map_or((item, None), |(range, step)| (range, Some(step)));
    if let Some(step) = step {
        check_number(step, position)?;
        if range != "*" && !range.contains('-') {
            return Err(format!(
                "steps from a single value: write a range such as `{range}-{range}/{step}`"
            ));
        }
    }
    if range == "*" {
        return Ok(());
    }
    for value in range.splitn(2, '-') {
        let names: &[&str] = match position {
            3 => &MONTHS,
            4 => &WEEKDAYS,
            _ => &[],
        };
        if !names.contains(&value.to_ascii_lowercase().as_str()) {
            check_number(value, position)?;
        }
    }
    Ok(())
}

fn check_number(text: &str, position: usize) -> Result<(), String> {
    if text.contains(['L', 'l', 'W', 'w', '#', '?', '+']) {
        return Err(
            "uses `L`, `W`, `#`, `?` or `+`, which are not part of a five-field schedule"
                .to_owned(),
        );
    }
    if text.is_empty() || text.len() > 2 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!(
            "has `{}` where a value from {} belongs",
            shortened(text),
            RANGES[position]
        ));
    }
    Ok(())
}

fn mask(values: &[u32]) -> u32 {
    values.iter().fold(0, |mask, value| mask | 1 << value)
}

fn hint(fields: &[&str]) -> String {
    let nickname = match fields {
        ["@yearly" | "@annually"] => "0 0 1 1 *",
        ["@monthly"] => "0 0 1 * *",
        ["@weekly"] => "0 0 * * 0",
        ["@daily" | "@midnight"] => "0 0 * * *",
        ["@hourly"] => "0 * * * *",
        [_, five @ ..] if five.len() == 5 => {
            return format!("; without seconds it is `{}`", five.join(" "));
        }
        _ => return "; for example `0 9 * * mon-fri`, on weekdays at nine".to_owned(),
    };
    format!("; write `{nickname}`")
}

/// Example of a valid expression for a faulty field.
fn example(field: &str) -> &'static str {
    match field {
        "minute" => "; for example `*/15 * * * *`, every quarter of an hour",
        "hour" => "; for example `0 9,17 * * *`, at nine and at five",
        "day-of-month" => "; for example `0 9 1 * *`, on the first of every month",
        "month" => "; for example `0 9 1 jan,jul *`, on the first of January and of July",
        _ => "; for example `0 9 * * mon-fri`, on weekdays at nine",
    }
}

/// At most 60 characters of the typed text, without control characters.
pub(super) fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}
