//! Whether there is room for another letter: disk space, and a bounded number of runs that nobody has answered yet.
//!
//! Counting the open runs for each letter would cost what the backlog costs. Here the runs that letters queue are
//! taken off an allowance, and only when it is used up are the rows counted again, at most once a second.

use super::Intake;
use crate::store::StoreError;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Pause between two counts while the queue is full.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Runs that may still be queued before the rows are counted again.
pub(super) struct Allowance {
    left: AtomicI64,
    used_up: Notify,
}

impl Allowance {
    /// Without bound, until somebody watches over it.
    pub(super) fn unwatched() -> Self {
        Self { left: AtomicI64::new(i64::MAX), used_up: Notify::new() }
    }

    pub(super) fn take(&self, runs: usize) {
        self.left.fetch_sub(i64::try_from(runs).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Asks for a count when there is nothing left.
    pub(super) fn is_left(&self) -> bool {
        let is_left = self.left.load(Ordering::Relaxed) > 0;
        if !is_left {
            self.used_up.notify_one();
        }
        is_left
    }
}

impl Intake {
    /// Watches over the number of open runs until `stop`. Without it there is no bound, as for a single letter
    /// handed in by a command.
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

    /// Makes the allowance true again.
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
            // Not knowing is no reason to refuse: a full disk fails the commit, and that is answered with 451.
            Err(_) => true,
        }
    }
}

/// Bytes that are left for us on the disk below a folder. Errors: the system does not say.
pub fn free_disk_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
