//! When a responsibility comes due, in whatever way it was said.

use super::cron::{self, CronError, Schedule};
use crate::domain::Timestamp;
use chrono_tz::Tz;

/// The slots of a responsibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timing {
    /// A cron expression, read in a zone.
    Cron(Schedule, Tz),
}

impl Timing {
    /// Reads the spelling of [`Self::spelled`], which is what rows keep.
    pub fn parse(text: &str, zone: Tz) -> Result<Self, CronError> {
        Schedule::parse(text).map(|schedule| Timing::Cron(schedule, zone))
    }

    /// As rows keep it, together with the zone.
    pub fn spelled(&self) -> String {
        match self {
            Timing::Cron(schedule, _) => schedule.as_str().to_owned(),
        }
    }

    /// The first slot after `after`; `None`: none will come.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Timing::Cron(schedule, zone) => cron::next_after(schedule, *zone, after),
        }
    }

    /// Whether it is in its nature to end, so that no next slot means that it is done.
    pub fn ends(&self) -> bool {
        match self {
            Timing::Cron(..) => false,
        }
    }
}
