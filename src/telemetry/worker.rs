//! The worker: follows the feed for the traces and for the log of sizes, and pings.
//!
//! Traces begin with the engine's start, and a collector that is away is tried again until the feed has pruned what it
//! missed. The ids of spans follow from the run, so one that is sent twice is the same span.

use super::audit_log::AuditLog;
use super::{otlp, spans};
use crate::config::{Config, PingTarget, TraceTarget};
use crate::domain::{FeedKind, Timestamp};
use crate::gateway::intake_contract::LetterIntake;
use crate::store::{FeedEvent, FeedFilter, Result, Store, StoreError};
use crate::web::{ApiRequest, FetchLimits, SystemLookup, WebFetcher, own_target};
use secrecy::ExposeSecret;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between two looks at the feed.
const POLL: Duration = Duration::from_secs(1);
/// Interval after something has failed.
const POLL_AFTER_ERROR: Duration = Duration::from_secs(15);
/// Time for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Most events of one step.
const PAGE: u32 = 200;

/// Sends what programs that watch over the engine are to know.
#[derive(Clone)]
pub struct TelemetryWorker {
    store: Store,
    config: Arc<Config>,
    intake: Arc<dyn LetterIntake>,
    /// Traces are of what happens from here on.
    began: Timestamp,
    poll: Duration,
    poll_after_error: Duration,
}

impl TelemetryWorker {
    pub fn new(store: &Store, config: &Arc<Config>, intake: Arc<dyn LetterIntake>) -> Self {
        Self {
            store: store.clone(),
            config: config.clone(),
            intake,
            began: store.clock().now(),
            poll: POLL,
            poll_after_error: POLL_AFTER_ERROR,
        }
    }

    /// Sets the intervals between two looks at the feed: usually, and after something has failed.
    #[must_use]
    pub fn polling(self, poll: Duration, poll_after_error: Duration) -> Self {
        Self {
            poll,
            poll_after_error,
            ..self
        }
    }

    /// Works until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            ((), (), ()) = async { tokio::join!(self.trace(), self.log_sizes(), self.ping()) } => {}
        }
    }

    async fn trace(&self) {
        let Some(target) = &self.config.gateway.telemetry.traces else {
            return;
        };
        let mut from = None;
        let mut is_failing = false;
        loop {
            let worked = self.trace_once(target, &mut from).await;
            if let Err(error) = &worked
                && !is_failing
            {
                tracing::warn!(error, "spans cannot be sent to the collector; trying again");
            }
            is_failing = worked.is_err();
            self.pause(worked).await;
        }
    }

    /// Sends the runs that have ended since; returns whether there may be more.
    async fn trace_once(
        &self,
        target: &TraceTarget,
        from: &mut Option<i64>,
    ) -> std::result::Result<bool, String> {
        let text = |error: StoreError| error.to_string();
        let since = match from {
            Some(since) => *since,
            None => *from.insert(self.store.feed_before(self.began).await.map_err(text)?),
        };
        let all = FeedFilter::default();
        let page = self.store.feed_after(since, &all, PAGE);
        let page = page.await.map_err(text)?;
        let mut ended = Vec::new();
        for event in page.events.iter().filter(|event| has_ended(event)) {
            ended.extend(self.spans_of(event).await.map_err(text)?);
        }
        if !ended.is_empty() {
            let mut request = ApiRequest::post(&target.url, otlp::export(&ended));
            if let Some(authorization) = &target.authorization {
                request = request.with_field("authorization", authorization.clone());
            }
            ask(&target.url, request).await?;
        }
        *from = Some(page.through);
        Ok(page.has_more())
    }

    async fn spans_of(&self, event: &FeedEvent) -> Result<Vec<otlp::TraceSpan>> {
        let (Some(persona), Some(run)) = (&event.persona, &event.run) else {
            return Ok(Vec::new());
        };
        match self.store.persona(persona).run_strip(run).await {
            // Pruned or erased meanwhile.
            Err(StoreError::Missing { .. }) => Ok(Vec::new()),
            strip => Ok(spans::of_run(&strip?)),
        }
    }

    async fn log_sizes(&self) {
        if !self.config.gateway.telemetry.audit_log {
            return;
        }
        let log = AuditLog::new(&self.config.workspace);
        let mut is_failing = false;
        loop {
            let worked = self.log_once(&log).await;
            if let Err(error) = &worked
                && !is_failing
            {
                tracing::error!(error, "data/audit.log cannot be written; trying again");
            }
            is_failing = worked.is_err();
            self.pause(worked).await;
        }
    }

    /// Writes events that are not in the log yet; returns whether there may be more.
    async fn log_once(&self, log: &AuditLog) -> std::result::Result<bool, String> {
        let text = |error: StoreError| error.to_string();
        let last = log.last().map_err(|error| error.to_string())?;
        let filter = FeedFilter::default();
        let page = self.store.feed_after(last.unwrap_or(0), &filter, PAGE);
        let page = page.await.map_err(text)?;
        let events = self.store.event_sizes(&page.events).await.map_err(text)?;
        if !events.is_empty() {
            log.append(&events).map_err(|error| error.to_string())?;
        }
        Ok(page.has_more())
    }

    async fn pause(&self, worked: std::result::Result<bool, String>) {
        match worked {
            Ok(true) => {}
            Ok(false) => tokio::time::sleep(self.poll).await,
            Err(_) => tokio::time::sleep(self.poll_after_error).await,
        }
    }

    async fn ping(&self) {
        let Some(target) = &self.config.gateway.telemetry.ping else {
            return;
        };
        let mut beat = tokio::time::interval(target.interval);
        let mut is_failing = false;
        loop {
            beat.tick().await;
            // What watches is to notice an engine that takes no letters, whatever the reason.
            if self.store.writer_answers().await.is_err() || !self.intake.has_room() {
                tracing::warn!("no ping, because no letters are taken now");
                continue;
            }
            let asked = ping(target).await;
            if let Err(error) = &asked
                && !is_failing
            {
                tracing::warn!(
                    error,
                    "the address of `telemetry.ping` does not answer; trying again"
                );
            }
            is_failing = asked.is_err();
        }
    }
}

async fn ping(target: &PingTarget) -> std::result::Result<(), String> {
    let url = target.url.expose_secret();
    ask(url, ApiRequest::get(url, &[])).await
}

/// Sends a request to an address that the owner wrote, which may be in a private network. Errors: a sentence without the
/// address, which may hold a key.
async fn ask(url: &str, request: ApiRequest) -> std::result::Result<(), String> {
    let opened: Vec<String> = own_target(url).into_iter().collect();
    let fetcher = WebFetcher::new(&opened, Arc::new(SystemLookup), FetchLimits::default());
    // What stands in the body of an answer has no meaning, so none is read.
    match tokio::time::timeout(ANSWER_MAX, fetcher.open_api(request)).await {
        Ok(Ok(answer)) if (200..300).contains(&answer.status()) => Ok(()),
        Ok(Ok(answer)) => Err(format!("it answered with status {}", answer.status())),
        Ok(Err(error)) => Err(error.message),
        Err(_) => Err(format!(
            "it did not answer within {} s",
            ANSWER_MAX.as_secs()
        )),
    }
}

fn has_ended(event: &FeedEvent) -> bool {
    let ends = [
        FeedKind::RunSucceeded,
        FeedKind::RunFailed,
        FeedKind::RunCancelled,
    ];
    ends.contains(&event.kind)
}
