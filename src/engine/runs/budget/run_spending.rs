//! What a run may spend, and what it has spent over all its attempts.

use super::counters::Counters;
use crate::clock::Clock;
use crate::config::{Budget, Spending};
use crate::domain::StopReason;
use crate::runs::provider_health::{Moment, ProviderHealth};
use crate::runs::record::call_record::millis;
use std::time::Duration;

/// Bounds, usage and working time of a run.
pub struct RunSpending {
    /// Bounds on tokens and money at the start of the run, each with its origin.
    pub bounds: Spending,
    pub budget: Budget,
    pub counters: Counters,
    /// Working time of earlier attempts.
    pub worked_before: Duration,
    /// Monotonic time at which the attempt began.
    pub began: Duration,
    /// Working time of the run over all its attempts, as of the last [`Self::look_at_clock`].
    pub elapsed: Duration,
}

impl RunSpending {
    /// Returns the first bound that is reached; `None` while there is room for a turn.
    pub fn reached(&self) -> Option<StopReason> {
        self.counters.reached(&self.budget, self.elapsed)
    }

    /// Reads the clock. All decisions until the next reading use this time, which is recorded.
    pub fn look_at_clock(&mut self, provider_health: &dyn ProviderHealth, moment: Moment) {
        let worked = provider_health.worked(self.began, moment);
        // In the precision of the record.
        self.elapsed = Duration::from_millis(millis(self.worked_before + worked));
    }

    /// Returns the working time of this run over all its attempts, as of now. For the record of a run that is parked, and for
    /// timeouts of a call only: no decision may depend on it.
    pub fn worked(&self, clock: &dyn Clock) -> Duration {
        self.worked_before + clock.monotonic().saturating_sub(self.began)
    }
}
