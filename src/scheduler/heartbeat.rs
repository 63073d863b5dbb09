//! The wake-up: tokio-cron-scheduler runs one repeated job, and each beat makes the scheduler look at its rows.
//!
//! It is a ticker and nothing more, because release 0.15.1 freezes a zone's offset when a job is added (its issue
//! 107), forgets what came due while the engine was down, and stands still after the wall clock is set back. So a
//! beat that does not come is not waited for.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

const BEAT_EVERY: Duration = Duration::from_secs(1);
/// After this long without a beat the scheduler looks anyway.
const BEAT_OVERDUE: Duration = Duration::from_secs(5);
/// Activations that may wait; one job needs one, the rest is for a stalled machine.
const CHANNEL_SIZE: usize = 64;

/// A running ticker.
pub(super) struct Heartbeat {
    beat: Arc<Notify>,
    ticker: Option<JobScheduler>,
}

impl Heartbeat {
    /// Starts ticking; when the ticker refuses, the overdue time alone keeps the scheduler going.
    pub(super) async fn start() -> Self {
        let beat = Arc::new(Notify::new());
        let ticker = match start_ticker(beat.clone()).await {
            Ok(ticker) => Some(ticker),
            Err(error) => {
                tracing::error!(%error, "the ticker of the scheduler does not start; slots may be seconds late");
                None
            }
        };
        Self { beat, ticker }
    }

    /// Resolves with the next beat, or when it is overdue.
    pub(super) async fn next(&self) {
        if tokio::time::timeout(BEAT_OVERDUE, self.beat.notified()).await.is_err() && self.ticker.is_some() {
            tracing::warn!("the ticker of the scheduler fell silent; looking at the slots anyway");
        }
    }

    pub(super) async fn stop(self) {
        if let Some(mut ticker) = self.ticker
            && let Err(error) = ticker.shutdown().await
        {
            tracing::warn!(%error, "stopping the ticker of the scheduler");
        }
    }
}

async fn start_ticker(beat: Arc<Notify>) -> Result<JobScheduler, JobSchedulerError> {
    let ticker = JobScheduler::new_with_channel_size(CHANNEL_SIZE).await?;
    let job = Job::new_repeated_async(BEAT_EVERY, move |_job, _scheduler| {
        let beat = beat.clone();
        Box::pin(async move { beat.notify_one() })
    })?;
    ticker.add(job).await?;
    ticker.start().await?;
    Ok(ticker)
}
