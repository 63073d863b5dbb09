//! The slots of a responsibility in any of its formats: a cron expression, one instant, or an
//! interval.
//!
//! Every search here is bounded: by a calendar cycle, or by arithmetic.

use super::cron::{self, CronError, CronSchedule};
use crate::config::TypedDuration;
use crate::domain::Timestamp;
use chrono::{DateTime, Datelike, NaiveDateTime, SecondsFormat, TimeZone, Timelike};
use chrono_tz::Tz;
use std::time::Duration;

/// Minimum interval; the scheduler's resolution is a minute.
pub const PERIOD_MIN: Duration = Duration::from_secs(60);
/// Maximum interval; rarer slots need a date.
pub const PERIOD_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Maximum minutes of a skipped local time: a zone that moved over the date line skipped a day.
const SKIPPED_MINUTES_MAX: i64 = 26 * 60;
/// Accepted formats of local times, with or without seconds.
const LOCAL_FORMATS: [&str; 4] = [
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
];

/// Error of a refused timing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TimingError {
    #[error(transparent)]
    Cron(#[from] CronError),
    #[error(
        "`{0}` is no instant; write a local time such as `2026-12-24 18:00`, or RFC 3339 such as \
         `2026-12-24T18:00:00+01:00`"
    )]
    NoInstant(String),
    #[error("`{0}` lies outside the years 1970 to 9998")]
    FarAway(String),
    #[error("`{0}` is finer than a second; write whole seconds")]
    TooFine(String),
    #[error("`{0}` is no interval; write one number and its unit, such as `90m`, `6h` or `2d`")]
    NoInterval(String),
    #[error("`{0}` is no whole number of minutes from `1m` to `366d`, as an interval must be")]
    BadInterval(String),
}

/// The slots of a responsibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timing {
    /// A cron expression in a time zone.
    Cron(CronSchedule, Tz),
    /// A single instant.
    At(Timestamp),
    /// Multiples of `period` since the Unix epoch: whole minutes, from [`PERIOD_MIN`] to
    /// [`PERIOD_MAX`].
    Every { period: Duration },
}

impl Timing {
    /// Parses the format of [`Self::formatted`], which rows store.
    pub fn parse(text: &str, zone: Tz) -> Result<Self, TimingError> {
        match text.split_once(' ') {
            Some(("at", instant)) => Self::at(instant, zone),
            Some(("every", period)) => Self::every(period),
            _ => Ok(Timing::Cron(CronSchedule::parse(text)?, zone)),
        }
    }

    /// Parses an instant: RFC 3339 with an offset, or a local time of `zone`. A local time that a
    /// clock change skips means the first instant after the gap; one that occurs twice means the
    /// first.
    pub fn at(text: &str, zone: Tz) -> Result<Self, TimingError> {
        let typed = text.trim();
        let instant = match DateTime::parse_from_rfc3339(&typed.replacen(' ', "T", 1)) {
            Ok(instant) => instant.to_utc(),
            Err(_) => {
                let read = |format: &&str| NaiveDateTime::parse_from_str(typed, format).ok();
                let local = LOCAL_FORMATS.iter().find_map(read);
                let local = local.ok_or_else(|| TimingError::NoInstant(cron::shortened(typed)))?;
                let meant = local_instant(local, zone);
                meant
                    .ok_or_else(|| TimingError::NoInstant(cron::shortened(typed)))?
                    .to_utc()
            }
        };
        if !(1970..=9998).contains(&instant.year()) {
            return Err(TimingError::FarAway(cron::shortened(typed)));
        }
        if instant.nanosecond() != 0 {
            return Err(TimingError::TooFine(cron::shortened(typed)));
        }
        Ok(Timing::At(instant.into()))
    }

    /// Parses an interval: a duration in the format of configuration files.
    pub fn every(text: &str) -> Result<Self, TimingError> {
        let typed = text.trim();
        let span = TypedDuration::try_from(typed.to_owned());
        let TypedDuration(period) =
            span.map_err(|_| TimingError::NoInterval(cron::shortened(typed)))?;
        let is_whole = period.subsec_nanos() == 0 && period.as_secs().is_multiple_of(60);
        if !is_whole || !(PERIOD_MIN..=PERIOD_MAX).contains(&period) {
            return Err(TimingError::BadInterval(cron::shortened(typed)));
        }
        Ok(Timing::Every { period })
    }

    /// Formats a timing for rows, which store the zone separately: `0 9 * * *`,
    /// `at 2026-12-24T17:00:00Z`, `every 90m`.
    pub fn formatted(&self) -> String {
        match self {
            Timing::Cron(schedule, _) => schedule.as_str().to_owned(),
            Timing::At(instant) => {
                format!(
                    "at {}",
                    instant.to_utc().to_rfc3339_opts(SecondsFormat::Secs, true)
                )
            }
            Timing::Every { period } => format!("every {}", crate::config::spell(*period)),
        }
    }

    /// The first slot after `after`; `None` without any further slot.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let next = match self {
            Timing::Cron(schedule, zone) => cron::next_after(schedule, *zone, after)?,
            Timing::At(instant) => *instant,
            Timing::Every { period } => {
                let period_ms = i64::try_from(period.as_millis())
                    .ok()
                    .filter(|ms| *ms > 0)?;
                let passed = after.as_millis().div_euclid(period_ms);
                Timestamp::from_millis(passed.checked_add(1)?.checked_mul(period_ms)?)
            }
        };
        // After the year 9999 an instant would parse as 1970, and a search over the slots would
        // loop for ever.
        Some(next).filter(|next| *next > after)
    }

    /// The first `count` slots after `after`; fewer when there are no more.
    pub fn upcoming(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next_after(after), |slot| self.next_after(*slot))
            .take(count)
            .collect()
    }

    /// Reports whether the timing can end, so that without a next slot it is done.
    pub fn ends(&self) -> bool {
        matches!(self, Timing::At(_))
    }

    /// Minimum distance between two consecutive slots, ignoring clock changes; `None` when there is
    /// only one slot.
    pub fn period_min(&self) -> Option<Duration> {
        match self {
            Timing::Cron(schedule, _) => Some(schedule.period_min()),
            Timing::At(_) => None,
            Timing::Every { period } => Some(*period),
        }
    }
}

/// The instant of a local time; `None` only at the end of the calendar.
fn local_instant(local: NaiveDateTime, zone: Tz) -> Option<DateTime<Tz>> {
    let exact = zone.from_local_datetime(&local);
    let first = exact.earliest().into_iter().chain(exact.latest()).min();
    first.or_else(|| cron::end_of_gap(zone, local.with_second(0)?, SKIPPED_MINUTES_MAX))
}

/// Formats an instant as local time of the zone, for example `2026-03-29T09:00:00+02:00`.
pub fn local_text(at: Timestamp, zone: Tz) -> String {
    at.to_utc()
        .with_timezone(&zone)
        .to_rfc3339_opts(SecondsFormat::Secs, false)
}
