//! What may be spent, by whom, and until when: purses, their bounds, and where each bound was said.

use super::Timestamp;
use super::run::word_enum;
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, TimeZone};

word_enum!(
    /// Whose purse it is.
    PurseScope { Engine = "engine", Persona = "persona", Thread = "thread", Run = "run" }
);

word_enum!(
    /// Where a bound was said, from far to near.
    Origin {
        /// Nowhere: it is built in.
        Default = "default",
        /// In `configs/inference.json`.
        Global = "global",
        /// In the persona's `persona.json`.
        Persona = "persona",
        /// With `attache threads budget`.
        Thread = "thread",
        /// In the responsibility's front matter.
        Responsibility = "responsibility",
    }
);

word_enum!(
    /// What becomes of a run whose next call no purse can pay.
    OnBudget {
        /// It waits until the purse is full again.
        Wait = "wait",
        /// It ends with what can be said.
        Answer = "answer",
    }
);

/// How much may be spent; `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// Micro-dollars.
    pub cost_micros_max: Option<i64>,
    /// Input and output together, cached ones included.
    pub tokens_max: Option<i64>,
}

/// A bound, and where it was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub value: i64,
    pub origin: Origin,
}

/// Names one purse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurseId {
    pub scope: PurseScope,
    /// A persona's, a thread's or a run's id; empty for the engine's.
    pub owner: String,
    /// `2026-11-20`, `2026-11`, or empty for a run's.
    pub period: String,
}

impl PurseId {
    /// Whose it is, in words.
    pub fn whose(&self) -> String {
        match self.scope {
            PurseScope::Engine => "the engine".to_owned(),
            scope => format!("{scope} {}", self.owner),
        }
    }

    /// What it is for: `day` or `month`, or `run`.
    pub fn span(&self) -> &'static str {
        match self.period.len() {
            0 => "run",
            7 => "month",
            _ => "day",
        }
    }
}

/// A purse and what it may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purse {
    pub id: PurseId,
    /// Micro-dollars.
    pub cost_micros_max: Option<Bound>,
    pub tokens_max: Option<Bound>,
}

/// What a purse holds at an instant. Micro-dollars and tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurseState {
    pub spent_micros: i64,
    pub reserved_micros: i64,
    pub spent_tokens: i64,
    pub reserved_tokens: i64,
}

/// What an operator allows one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadBudget {
    /// Each of its runs.
    pub run: Allowance,
    pub day: Allowance,
}

/// The day of an instant, as purses spell it.
pub fn day_of<Z: TimeZone>(now: Timestamp, zone: &Z) -> String {
    date(now, zone).format("%Y-%m-%d").to_string()
}

/// The month of an instant, as purses spell it.
pub fn month_of<Z: TimeZone>(now: Timestamp, zone: &Z) -> String {
    date(now, zone).format("%Y-%m").to_string()
}

/// When a purse of that period is empty of spending again: the first instant after its day or month.
pub fn end_of<Z: TimeZone>(period: &str, now: Timestamp, zone: &Z) -> Timestamp {
    let next = match NaiveDate::parse_from_str(period, "%Y-%m-%d") {
        Ok(day) => day.checked_add_days(Days::new(1)),
        Err(_) => {
            let first = NaiveDate::parse_from_str(&format!("{period}-01"), "%Y-%m-%d").ok();
            first.and_then(|first| first.checked_add_months(Months::new(1)))
        }
    };
    let next = next.unwrap_or_else(|| date(now, zone)).and_time(NaiveTime::MIN);
    // A midnight that a change of the clocks skips: the hour after it exists.
    let later = next + chrono::TimeDelta::hours(1);
    let instant = zone.from_local_datetime(&next).earliest().or(zone.from_local_datetime(&later).earliest());
    instant.map_or(now, |at: DateTime<Z>| Timestamp::from_millis(at.timestamp_millis()))
}

fn date<Z: TimeZone>(now: Timestamp, zone: &Z) -> NaiveDate {
    let local = now.to_utc().with_timezone(zone).date_naive();
    // Four digits, so that text order is time order.
    if (0..=9999).contains(&local.year()) { local } else { NaiveDate::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months_begin_at_the_zone_s_midnight() {
        let berlin = chrono_tz::Europe::Berlin;
        let at = |text: &str| Timestamp::parse(text).unwrap_or(Timestamp::from_millis(0));
        let late = at("2026-10-31T23:30:00Z");
        assert_eq!(
            (day_of(late, &chrono_tz::UTC), day_of(late, &berlin)),
            ("2026-10-31".into(), "2026-11-01".into())
        );
        assert_eq!(
            (month_of(late, &chrono_tz::UTC), month_of(late, &berlin)),
            ("2026-10".into(), "2026-11".into())
        );
        // The day on which the clocks go back has 25 hours.
        assert_eq!(end_of("2026-10-25", late, &berlin), at("2026-10-25T23:00:00Z"));
        assert_eq!(end_of("2026-12", late, &chrono_tz::UTC), at("2027-01-01T00:00:00Z"));
        // Midnight of 2019-09-08 did not exist in Santiago.
        assert_eq!(end_of("2019-09-07", late, &chrono_tz::America::Santiago), at("2019-09-08T04:00:00Z"));
    }
}
