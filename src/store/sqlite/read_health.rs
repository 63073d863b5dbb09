//! Reads that fail because of the disk. A failed commit ends the engine at once; where nothing is written, only reads show that
//! the device is gone, and one that fails may be a passing want of descriptors.

use crate::store::sqlite::refusal::is_one_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Time for which reads fail before the engine ends.
pub const FAILING_SECONDS: u32 = 30;
/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Looks without a failed read after which the disk counts as well.
const QUIET_MAX: u32 = 5;
/// SQLITE_IOERR, SQLITE_CANTOPEN (sqlite.org/rescode.html).
const OF_THE_DISK: &[i32] = &[10, 14];

/// Failed reads, counted.
#[derive(Default)]
pub struct FailedReads {
    count: AtomicU64,
    last: Mutex<String>,
    failed: Notify,
}

impl FailedReads {
    /// Counts the result of a read, if the disk failed it, and passes it on.
    pub fn noted<T>(&self, result: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        if let Err(error) = &result
            && is_one_of(error, OF_THE_DISK)
        {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.failed.notify_one();
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = error.to_string();
        }
        result
    }

    /// Resolves when reads have failed for [`FAILING_SECONDS`], with the last failure.
    pub async fn go_on(&self) -> Arc<sqlx::Error> {
        self.go_on_for(FAILING_SECONDS, LOOK).await
    }

    async fn go_on_for(&self, looks: u32, pause: Duration) -> Arc<sqlx::Error> {
        let mut watch = ReadWatch::new(self.count.load(Ordering::Relaxed));
        loop {
            if watch.failing == 0 {
                self.failed.notified().await;
            }
            tokio::time::sleep(pause).await;
            if watch.look(self.count.load(Ordering::Relaxed)) >= looks {
                let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                return Arc::new(sqlx::Error::Io(std::io::Error::other(last.clone())));
            }
        }
    }
}

/// Counts for how many looks reads have failed.
struct ReadWatch {
    seen: u64,
    failing: u32,
    quiet: u32,
}

impl ReadWatch {
    fn new(seen: u64) -> Self {
        Self {
            seen,
            failing: 0,
            quiet: QUIET_MAX,
        }
    }

    /// Takes the number of failed reads so far, and returns for how many looks they go on.
    fn look(&mut self, count: u64) -> u32 {
        self.quiet = match count > self.seen {
            true => 0,
            false => self.quiet.saturating_add(1),
        };
        self.seen = count;
        self.failing = match self.quiet > QUIET_MAX {
            true => 0,
            false => self.failing + 1,
        };
        self.failing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most looks in a row for which reads fail, of which each gives so many failures.
    fn longest(looks: &[u64]) -> u32 {
        let (mut watch, mut count) = (ReadWatch::new(7), 7);
        let longest = looks.iter().map(|failures| {
            count += failures;
            watch.look(count)
        });
        longest.max().unwrap_or_default()
    }

    #[test]
    fn reads_that_go_on_failing_are_not_those_that_fail_now_and_then() {
        let one_in =
            |pause: usize| -> Vec<u64> { (0..60).map(|at| u64::from(at % pause == 0)).collect() };
        #[rustfmt::skip]
        let cases: [(Vec<u64>, bool); 10] = [
            (vec![0; 100], false),
            (vec![1; 29], false),
            (vec![1; 30], true),
            (vec![8; 30], true),
            ([vec![1; 20], vec![0; 6], vec![1; 20]].concat(), false),
            ([vec![1; 20], vec![0; 5], vec![1; 20]].concat(), true),
            (one_in(2), true),
            (one_in(6), true),
            (one_in(7), false),
            ([vec![0; 100], vec![100], vec![0; 100]].concat(), false),
        ];
        for (looks, ends) in cases {
            assert_eq!(longest(&looks) >= FAILING_SECONDS, ends, "{looks:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_opened_any_more_ends_the_wait() {
        use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
        let failed = FailedReads::default();
        let gone = SqliteConnectOptions::new().filename("/gone/attache.db");
        let reading = async {
            loop {
                let read = failed.noted(gone.connect().await);
                assert!(read.is_err());
                tokio::task::yield_now().await;
            }
        };
        let error = tokio::select! {
            error = failed.go_on_for(3, Duration::from_millis(2)) => error,
            () = reading => unreachable!("it reads for ever"),
        };
        assert!(error.to_string().contains("unable to open"), "{error}");
        assert!(
            failed
                .noted(Err::<(), _>(sqlx::Error::RowNotFound))
                .is_err()
        );
    }
}
