//! Capacity for another letter: free disk space, and a bounded number of open runs.
//!
//! Counting the open runs for each letter would cost time proportional to the backlog. Instead the
//! runs that letters queue are subtracted from an allowance, and only when it is used up are the
//! rows counted again, at most once a second.

use super::{Intake, free_disk_bytes};
use crate::store::StoreError;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::Notify;

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

    /// Requests a count.
    pub(super) fn count_anew(&self) {
        self.used_up.notify_one();
    }

    /// Resolves when a count is requested.
    pub(super) async fn is_to_be_counted(&self) {
        self.used_up.notified().await;
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
