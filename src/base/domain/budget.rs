//! Budget accounts, their bounds, and the origin of each bound.

use super::Timestamp;
use super::run::word_enum;
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, TimeZone};
use std::time::Duration;

word_enum!(
    /// Kind of owner of a budget account.
    BudgetScope { Engine = "engine", Persona = "persona", Thread = "thread", Run = "run" }
);

word_enum!(
    /// Source of a bound, from the most general to the most specific.
    Origin {
        /// Built-in default.
        Default = "default",
        /// In `configs/inference.json`.
        Global = "global",
        /// In the block of the provider that is asked.
        Provider = "provider",
        /// In the persona's `persona.json`.
        Persona = "persona",
        /// With `attache threads budget`.
        Thread = "thread",
        /// In the persona's rule for such letters.
        Letter = "letter",
        /// In the responsibility's front matter.
        Responsibility = "responsibility",
    }
);

word_enum!(
    /// Action on a run whose next call no budget account can pay.
    OnBudget {
        /// The run waits until the budget account is full again.
        Wait = "wait",
        /// The run ends with an answer from what it has.
        Answer = "answer",
    }
);

/// Bounds of spending; `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// Micro-dollars.
    pub cost_micros_max: Option<i64>,
    /// Input and output together, cached ones included.
    pub tokens_max: Option<i64>,
}

/// A bound and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub value: i64,
    pub origin: Origin,
}

/// Names one budget account.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BudgetAccountId {
    pub scope: BudgetScope,
    /// A persona's, a thread's or a run's id; empty for the engine's.
    pub owner: String,
    /// `2026-11-20`, `2026-11`, or empty for a run's.
    pub period: String,
}

impl BudgetAccountId {
    /// Returns the owner for display: `the engine`, a persona, a thread or a run.
    pub fn whose(&self) -> String {
        match self.scope {
            BudgetScope::Engine => "the engine".to_owned(),
            scope => format!("{scope} {}", self.owner),
        }
    }

    /// Returns the span of the period: `day`, `month` or `run`.
    pub fn span(&self) -> &'static str {
        match self.period.len() {
            0 => "run",
            7 => "month",
            _ => "day",
        }
    }
}

/// A budget account and its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetAccount {
    pub id: BudgetAccountId,
    /// Micro-dollars.
    pub cost_micros_max: Option<Bound>,
    pub tokens_max: Option<Bound>,
}

/// Balance of a budget account at an instant, in micro-dollars and tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetBalance {
    pub spent_micros: i64,
    pub reserved_micros: i64,
    pub spent_tokens: i64,
    pub reserved_tokens: i64,
}

/// Bounds that an operator sets for one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadBudget {
    /// Bounds of each run of the thread.
    pub run: Allowance,
    pub day: Allowance,
}

/// Returns the day of an instant in the format of budget periods, `2026-11-20`.
pub fn day_of<Z: TimeZone>(now: Timestamp, zone: &Z) -> String {
    date(now, zone).format("%Y-%m-%d").to_string()
}

/// Returns the first of so many days: that of the instant is the last.
pub fn first_day<Z: TimeZone>(days: u64, now: Timestamp, zone: &Z) -> String {
    let back = Duration::from_secs(days.saturating_sub(1) * 24 * 3600);
    day_of(now.minus(back), zone)
}

/// Returns the month of an instant in the format of budget periods, `2026-11`.
pub fn month_of<Z: TimeZone>(now: Timestamp, zone: &Z) -> String {
    date(now, zone).format("%Y-%m").to_string()
}

/// Returns the end of a budget period: the first instant after its day or month.
pub fn end_of<Z: TimeZone>(period: &str, now: Timestamp, zone: &Z) -> Timestamp {
    let next = match NaiveDate::parse_from_str(period, "%Y-%m-%d") {
        Ok(day) => day.checked_add_days(Days::new(1)),
        Err(_) => {
            let first = NaiveDate::parse_from_str(&format!("{period}-01"), "%Y-%m-%d").ok();
            first.and_then(|first| first.checked_add_months(Months::new(1)))
        }
    };
    begin_of(next.unwrap_or_else(|| date(now, zone)), now, zone)
}

/// Returns the first instant of the day of an instant.
pub fn midnight<Z: TimeZone>(now: Timestamp, zone: &Z) -> Timestamp {
    begin_of(date(now, zone), now, zone)
}

fn begin_of<Z: TimeZone>(day: NaiveDate, now: Timestamp, zone: &Z) -> Timestamp {
    let next = day.and_time(NaiveTime::MIN);
    // A midnight that a change of the clocks skips: the hour after it exists.
    let later = next + chrono::TimeDelta::hours(1);
    let instant = zone
        .from_local_datetime(&next)
        .earliest()
        .or(zone.from_local_datetime(&later).earliest());
    instant.map_or(now, |at: DateTime<Z>| {
        Timestamp::from_millis(at.timestamp_millis())
    })
}

fn date<Z: TimeZone>(now: Timestamp, zone: &Z) -> NaiveDate {
    let local = now.to_utc().with_timezone(zone).date_naive();
    // Four digits, so that text order is time order.
    if (0..=9999).contains(&local.year()) {
        local
    } else {
        NaiveDate::default()
    }
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
        assert_eq!(
            end_of("2026-10-25", late, &berlin),
            at("2026-10-25T23:00:00Z")
        );
        assert_eq!(
            end_of("2026-12", late, &chrono_tz::UTC),
            at("2027-01-01T00:00:00Z")
        );
        // Midnight of 2019-09-08 did not exist in Santiago.
        assert_eq!(
            end_of("2019-09-07", late, &chrono_tz::America::Santiago),
            at("2019-09-08T04:00:00Z")
        );
    }
}
