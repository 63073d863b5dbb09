//! Capacity for another letter: free disk space, and a bounded number of open runs.
//!
//! Counting the open runs for each letter would cost time proportional to the backlog. Instead the
//! runs that letters queue are subtracted from an allowance, and only when it is used up are the
//! rows counted again, at most once a second.

use super::{Intake, free_disk_bytes};
use crate::store::StoreError;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Interval between two counts while the queue is full.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Number of runs that may be queued before the rows are counted again.
pub(super) struct RunAllowance {
    left: AtomicI64,
    used_up: Notify,
}

impl RunAllowance {
    /// Unbounded, until the queue is watched.
    pub(super) fn unwatched() -> Self {
        Self {
            left: AtomicI64::new(i64::MAX),
            used_up: Notify::new(),
        }
    }

    pub(super) fn take(&self, runs: usize) {
        self.left
            .fetch_sub(i64::try_from(runs).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Reports whether the allowance is not used up; requests a count otherwise.
    pub(super) fn is_left(&self) -> bool {
        let is_left = self.left.load(Ordering::Relaxed) > 0;
        if !is_left {
            self.used_up.notify_one();
        }
        is_left
    }
}

impl Intake {
    /// Watches the number of open runs until `stop`. Without it there is no bound, as for a single
    /// letter from a command.
    pub async fn watch_queue(&self, stop: CancellationToken) {
        loop {
            if let Err(error) = self.count_queue().await {
                tracing::warn!(%error, "cannot count the open runs");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.allowance.used_up.notified() => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(COUNT_EVERY) => {}
            }
        }
    }

    /// Counts the open runs and sets the allowance.
    pub async fn count_queue(&self) -> Result<(), StoreError> {
        let runs_max = self.config.limits.open_runs_max;
        let open = self.store.open_runs_up_to(runs_max).await?;
        let left = i64::try_from(runs_max.saturating_sub(open)).unwrap_or(i64::MAX);
        self.allowance.left.store(left, Ordering::Relaxed);
        if left == 0 {
            tracing::warn!(
                open_runs = open,
                "too many runs are open; letters are refused until there are fewer"
            );
        }
        Ok(())
    }

    pub(super) fn has_space(&self) -> bool {
        match free_disk_bytes(&self.data) {
            Ok(free) => free >= self.config.limits.free_disk_bytes_min,
            // An unknown value is no reason to refuse: a full disk fails the commit, and that is
            // answered with 451.
            Err(_) => true,
        }
    }
}
