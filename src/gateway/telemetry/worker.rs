//! The worker: follows the feed for the traces and for the log of sizes, and pings.
//!
//! Traces begin with the engine's start, and a collector that is away is tried again until the feed has pruned what it
//! missed. The ids of spans follow from the run, so one that is sent twice is the same span.

use super::audit_log::AuditLog;
use super::{otlp, spans};
use crate::config::{Config, PingTarget, TraceTarget};
use crate::domain::{FeedKind, Timestamp};
use crate::gateway::intake_contract::LetterIntake;
use crate::store::{
    CommitReceiver, FeedEvent, FeedFilter, FeedPage, Result, Store, StoreError, next_commit,
};
use crate::web::{ApiRequest, FetchLimits, SystemLookup, WebFetcher, own_target};
use secrecy::ExposeSecret;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Shortest time between two looks at the feed.
const POLL: Duration = Duration::from_secs(1);
/// Longest time between two looks while nothing is committed.
const POLL_AT_LEAST: Duration = Duration::from_secs(15);
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
        let (mut from, mut commits) = (None, self.store.commits());
        let mut failures = FailureStreak::default();
        loop {
            let worked = self.trace_once(target, &mut from).await;
            if let Some(error) = failures.begins(&worked) {
                tracing::warn!(error, "spans cannot be sent to the collector; trying again");
            }
            self.pause(worked, &mut commits).await;
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
        let Some(page) = self.page_after(since).await? else {
            return Ok(false);
        };
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
            strip => Ok(spans::run_spans(&strip?)),
        }
    }

    async fn log_sizes(&self) {
        if !self.config.gateway.telemetry.audit_log {
            return;
        }
        let log = AuditLog::new(&self.config.workspace);
        let (mut last, mut commits) = (None, self.store.commits());
        let mut failures = FailureStreak::default();
        loop {
            let worked = self.log_once(&log, &mut last).await;
            if let Some(error) = failures.begins(&worked) {
                tracing::error!(error, "data/audit.log cannot be written; trying again");
            }
            if worked.is_err() {
                // Its end says how much of a line that failed is there.
                last = None;
            }
            self.pause(worked, &mut commits).await;
        }
    }

    /// Writes events that are not in the log yet; returns whether there may be more. `last`: the event up to which it goes,
    /// once that was read.
    async fn log_once(
        &self,
        log: &AuditLog,
        last: &mut Option<i64>,
    ) -> std::result::Result<bool, String> {
        let text = |error: StoreError| error.to_string();
        let since = match last {
            Some(last) => *last,
            None => *last.insert(log.last().map_err(|error| error.to_string())?.unwrap_or(0)),
        };
        let Some(page) = self.page_after(since).await? else {
            return Ok(false);
        };
        let events = self.store.event_sizes(&page.events).await.map_err(text)?;
        if !events.is_empty() {
            log.append(&events).map_err(|error| error.to_string())?;
        }
        *last = Some(page.through);
        Ok(page.has_more())
    }

    /// Returns what the feed has behind an event; `None`: nothing.
    async fn page_after(&self, since: i64) -> std::result::Result<Option<FeedPage>, String> {
        let text = |error: StoreError| error.to_string();
        if self.store.feed_glance().await.map_err(text)? == since {
            return Ok(None);
        }
        let all = FeedFilter::default();
        let page = self.store.feed_after(since, &all, PAGE);
        page.await.map(Some).map_err(text)
    }

    async fn pause(&self, worked: std::result::Result<bool, String>, commits: &mut CommitReceiver) {
        match worked {
            Ok(true) => {}
            Ok(false) => next_commit(commits, self.poll, POLL_AT_LEAST).await,
            Err(_) => tokio::time::sleep(self.poll_after_error).await,
        }
    }

    async fn ping(&self) {
        let Some(target) = &self.config.gateway.telemetry.ping else {
            return;
        };
        let mut beat = tokio::time::interval(target.interval);
        let mut failures = FailureStreak::default();
        loop {
            beat.tick().await;
            // What watches is to notice an engine that takes no letters, whatever the reason.
            if self.store.writer_answers().await.is_err() || !self.intake.has_room() {
                tracing::warn!("no ping, because no letters are taken now");
                continue;
            }
            let asked = ping(target).await;
            if let Some(error) = failures.begins(&asked) {
                tracing::warn!(
                    error,
                    "the address of `telemetry.ping` does not answer; trying again"
                );
            }
        }
    }
}

/// Failures in a row, of which the first is logged.
#[derive(Default)]
struct FailureStreak {
    is_open: bool,
}

impl FailureStreak {
    /// Returns the error of an attempt with which a row begins.
    fn begins<'a, T>(&mut self, attempt: &'a std::result::Result<T, String>) -> Option<&'a str> {
        let was_open = std::mem::replace(&mut self.is_open, attempt.is_err());
        let error = attempt.as_ref().err().filter(|_| !was_open);
        error.map(String::as_str)
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
