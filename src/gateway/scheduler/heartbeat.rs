//! The wake-up: tokio-cron-scheduler runs one repeated job, and each beat makes the scheduler poll
//! its rows.
//!
//! It is only a ticker, because release 0.15.1 freezes a zone's offset when a job is added (its
//! issue 107), forgets jobs that came due while the engine was down, and stops after the wall clock
//! is set back. So the scheduler does not rely on a beat.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

const BEAT_EVERY: Duration = Duration::from_secs(1);
/// Time without a beat after which the scheduler polls anyway.
const BEAT_OVERDUE: Duration = Duration::from_secs(5);
/// Maximum queued activations; one job needs one, the rest is for a stalled machine.
const CHANNEL_SIZE: usize = 64;

/// A running ticker.
pub(super) struct Heartbeat {
    beat: Arc<Notify>,
    ticker: Option<JobScheduler>,
}

impl Heartbeat {
    /// Starts ticking; when the ticker fails to start, only `BEAT_OVERDUE` keeps the scheduler
    /// going.
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

    /// Resolves at the next beat, or when it is overdue.
    pub(super) async fn next(&self) {
        if tokio::time::timeout(BEAT_OVERDUE, self.beat.notified())
            .await
            .is_err()
            && self.ticker.is_some()
        {
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
