//! The outbound worker: claims due deliveries, sends them concurrently, records the outcome for
//! each recipient.
//!
//! It polls its table, less often while no mail waits and nothing is committed; a wake-up is only a hint. Absent on purpose: SMTP (in [`Transport`]),
//! notices to the owner.

use super::retry::{WAIT_MAX, jitter, next_attempt_after};
use super::{PointOfNoReturn, RecipientResult, Transport, TransportAttempt, TransportCondition};
use crate::clock::Clock;
use crate::config::{MailRetry, OnUnknown};
use crate::domain::{Breaker, BreakerState, DeliveryId, Timestamp, Tolerance};
use crate::store::{
    ClaimedDelivery, DeliveryOutcome, DeliveryState, PiggybackClaim, RecipientOutcome,
    RecipientState, Result, Store, StoreError, TransportNote, TransportState, next_commit,
};
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

/// Interval between two polls of the table without a wake-up.
const POLL: Duration = Duration::from_secs(1);
/// Longest interval while no mail is on its way and nothing is committed.
const IDLE_POLL: Duration = Duration::from_secs(15);
/// Interval between two checks for expired deliveries while the transport is paused.
const EXPIRY_SWEEP: Duration = Duration::from_secs(60);
/// Maximum mails claimed for each connection, so that one commit claims several.
const CLAIMS_PER_CONNECTION: usize = 4;

/// Tolerance for faults of the smarthost, which do not count against a mail. Refused credentials
/// pause longer: servers lock accounts after frequent failed logins.
const TOLERANCE: Tolerance = Tolerance {
    failures_max: 3,
    pause_min: Duration::from_secs(60),
    pause_max: Duration::from_secs(30 * 60),
    refused_pause: Duration::from_secs(15 * 60),
};

/// Sends the deliveries that the store has queued.
pub struct Outbound {
    store: Store,
    transport: Arc<dyn Transport>,
    retry: MailRetry,
    clock: Arc<dyn Clock>,
    places: Semaphore,
    breaker: Mutex<Breaker>,
    /// Outcomes whose commit failed. They must be kept: their recipients may have the mails.
    unrecorded: Mutex<Vec<DeliveryOutcome>>,
    recovered: OnceCell<()>,
    /// State of the transport, as recorded in the store.
    noted: Mutex<TransportState>,
    /// Monotonic time of the last check for expired deliveries.
    swept: Mutex<Option<Duration>>,
}

impl Outbound {
    /// Uses the store's clock.
    pub fn new(store: Store, transport: Arc<dyn Transport>, retry: MailRetry) -> Self {
        let clock = store.clock().clone();
        let places = Semaphore::new(transport.connections_max().max(1));
        let (unrecorded, swept) = (Mutex::default(), Mutex::default());
        let noted = Mutex::new(TransportState::Well);
        Self {
            store,
            transport,
            retry,
            clock,
            places,
            breaker: Mutex::new(Breaker::new(TOLERANCE)),
            unrecorded,
            recovered: OnceCell::new(),
            noted,
            swept,
        }
    }

    /// Sends deliveries that are due now, a few at once; returns the number of attempts. Zero means
    /// that none is due or that the transport is paused.
    ///
    /// Errors: the store's; a later call records outcomes that were not stored.
    pub async fn work_once(&self) -> Result<usize> {
        let never = CancellationToken::new();
        let mails = self.claim(self.claim_max()).await?;
        let tried = mails.len();
        for sent in join_all(mails.into_iter().map(|mail| self.deliver(mail, &never))).await {
            sent?;
        }
        Ok(tried)
    }

    /// Works until `shutdown`; then gives mails under way `grace_period` to end, releases the other
    /// claims, closes the connections. A mail that a slow server delays further is aborted: the
    /// next engine sends it again, marked as a possible duplicate if the server may have it.
    pub async fn run(&self, wake: &Notify, shutdown: CancellationToken, grace_period: Duration) {
        let (mut under_way, mut piggyback) = (FuturesUnordered::new(), None);
        let deliver = |mail| self.deliver(mail, &shutdown);
        let report = |error: StoreError| tracing::error!(%error, "cannot claim outbound mail");
        let deliver_all = |claimed: Result<Vec<ClaimedDelivery>>| {
            let mails = claimed.map_err(report).unwrap_or_default();
            mails.into_iter().map(deliver)
        };
        let mut commits = self.store.commits();
        while !shutdown.is_cancelled() {
            let (mut wait, mut idle) = (POLL, Duration::ZERO);
            under_way.extend(deliver_all(PiggybackClaim::end(&mut piggyback).await));
            if under_way.len() <= self.claim_max() / 2 {
                let room = self.claim_max() - under_way.len();
                match self.claim_due(room).await {
                    Ok(Due::Now(mails)) => under_way.extend(mails.into_iter().map(deliver)),
                    Ok(Due::Later(left)) => {
                        wait = wait.min(left);
                        idle = left.min(IDLE_POLL).saturating_sub(wait);
                        if matches!(self.state(), BreakerState::Closed) {
                            piggyback = self.store.claim_queued_deliveries(room);
                        }
                    }
                    Err(error) => report(error),
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                claimed = PiggybackClaim::made(&mut piggyback) => under_way.extend(deliver_all(claimed)),
                Some(sent) = under_way.next(), if !under_way.is_empty() => complain(sent),
                () = wake.notified() => {}
                () = next_commit(&mut commits, wait, idle) => self.transport.close_idle(false).await,
            }
        }
        under_way.extend(deliver_all(PiggybackClaim::end(&mut piggyback).await));
        let finished = async {
            while let Some(sent) = under_way.next().await {
                complain(sent);
            }
            self.close().await;
        };
        if tokio::time::timeout(grace_period, finished).await.is_err() {
            tracing::warn!(
                "outbound mail did not end in time and is cut; the next engine goes on with it"
            );
        }
    }

    /// State of the breaker, and the number of failures of the transport since it last worked.
    pub fn breaker(&self) -> (BreakerState, u32) {
        (self.state(), lock(&self.breaker).failures())
    }

    /// Closes unused connections with QUIT.
    pub async fn close(&self) {
        self.transport.close_idle(true).await;
    }

    fn claim_max(&self) -> usize {
        self.transport.connections_max().max(1) * CLAIMS_PER_CONNECTION
    }

    /// As [`Outbound::claim`], without a write transaction when nothing is due.
    async fn claim_due(&self, limit: usize) -> Result<Due> {
        let idle = self.recovered.initialized() && lock(&self.unrecorded).is_empty();
        if idle {
            let next = self.store.next_delivery_due().await?;
            let left = next.map_or(IDLE_POLL, |due| due.since(self.clock.now()));
            if !left.is_zero() {
                return Ok(Due::Later(left));
            }
        }
        self.claim(limit).await.map(Due::Now)
    }

    async fn claim(&self, limit: usize) -> Result<Vec<ClaimedDelivery>> {
        self.recovered.get_or_try_init(|| self.recover()).await?;
        self.record_leftovers().await?;
        let limit = match self.state() {
            BreakerState::Closed => limit,
            BreakerState::HalfOpen => 1,
            BreakerState::Open(_) => {
                self.expire().await?;
                return Ok(Vec::new());
            }
        };
        self.store.claim_deliveries(limit, self.clock.now()).await
    }

    /// Reports whether a mail that a peer may have waits for an operator at the first doubt.
    pub fn holds_unknown(&self) -> bool {
        self.retry.on_unknown == OnUnknown::Hold
    }

    async fn recover(&self) -> Result<()> {
        let hold = self.holds_unknown();
        let found = self.store.recover_deliveries(hold).await?;
        let mistimed = self.store.bound_delivery_waits(WAIT_MAX).await?;
        if mistimed > 0 {
            tracing::warn!(
                mails = mistimed,
                "the clock was set back meanwhile: mails that waited for it are due now"
            );
        }
        let health = self.store.transport_health().await?;
        *lock(&self.noted) = health.map_or(TransportState::Well, |health| health.state);
        if found.unsent + found.possible_duplicates > 0 {
            let (unsent, possible_duplicates) = (found.unsent, found.possible_duplicates);
            tracing::warn!(
                unsent,
                possible_duplicates,
                hold,
                "outbound mail of an engine that stopped is queued again, or held where a copy may exist"
            );
        }
        Ok(())
    }

    /// Expires old deliveries, also while no attempt is possible.
    async fn expire(&self) -> Result<()> {
        let now = self.clock.monotonic();
        let due = lock(&self.swept).is_none_or(|last| now.saturating_sub(last) >= EXPIRY_SWEEP);
        if due {
            let expired = self
                .store
                .expire_deliveries(self.retry.give_up_after)
                .await?;
            *lock(&self.swept) = Some(now);
            if expired > 0 {
                tracing::error!(
                    expired,
                    "outbound mail given up: the transport was not available for too long"
                );
            }
        }
        Ok(())
    }

    async fn deliver(&self, mail: ClaimedDelivery, stop: &CancellationToken) -> Result<()> {
        let place = self.places.acquire().await;
        let outcome = match self.state() {
            _ if stop.is_cancelled() => give_back(&mail, self.clock.now()),
            BreakerState::Open(left) => give_back(&mail, self.clock.now().plus(left)),
            BreakerState::Closed | BreakerState::HalfOpen => {
                crate::crash::crash_point!("O2");
                let point = Commit {
                    store: &self.store,
                    id: &mail.id,
                };
                let attempt = self.transport.send(&mail, &point).await;
                let pause = self.note_health(&attempt).await;
                log_unusable(&mail, &attempt);
                self.judge(&mail, attempt, pause)
            }
        };
        // The connection is free while the outcome commits.
        drop(place);
        self.record(outcome).await
    }

    /// Turns verdicts into the outcome to store: the next attempt, whether the attempt counts, and
    /// the recipients that are given up.
    fn judge(
        &self,
        mail: &ClaimedDelivery,
        attempt: TransportAttempt,
        pause: Option<Duration>,
    ) -> DeliveryOutcome {
        let now = self.clock.now();
        let age = now.since(mail.created_at);
        let wait = match pause {
            Some(pause) => (age < self.retry.give_up_after).then_some(pause),
            None => {
                let chance = jitter(&mail.id, mail.attempt);
                next_attempt_after(mail.attempt, age, self.retry.give_up_after, chance)
            }
        };
        let (hold, closes) = self.in_doubt(mail, &attempt, wait.is_none());
        let recipients: Vec<RecipientOutcome> = attempt
            .verdicts
            .into_iter()
            .map(|(recipient, verdict)| {
                let verdict = match verdict.state {
                    // Who was refused for now by a code of their own waits on.
                    RecipientState::Deferred if closes && verdict.code.is_none() => {
                        RecipientResult::failed(
                            None,
                            &format!("a copy may have arrived: {}", verdict.reply),
                        )
                    }
                    RecipientState::Deferred if wait.is_none() && !hold => RecipientResult::failed(
                        verdict.code,
                        &format!("gave up: {}", verdict.reply),
                    ),
                    _ => verdict,
                };
                RecipientOutcome {
                    recipient,
                    state: verdict.state,
                    code: verdict.code,
                    reply: verdict.reply,
                }
            })
            .collect();
        log_outcome(mail, &recipients);
        DeliveryOutcome {
            id: mail.id.clone(),
            recipients,
            next_attempt_at: now.plus(wait.unwrap_or_default()),
            counts: pause.is_none(),
            possible_duplicate: attempt.possible_duplicate,
            hold,
        }
    }

    /// Reports whether the mail is held after this attempt, and whether it is closed, because the server may have it: no
    /// engine sends a third copy by itself.
    fn in_doubt(
        &self,
        mail: &ClaimedDelivery,
        attempt: &TransportAttempt,
        is_last: bool,
    ) -> (bool, bool) {
        let is_second = mail.possible_duplicate || is_last;
        match (attempt.possible_duplicate, self.retry.on_unknown) {
            (false, _) => (false, false),
            (true, OnUnknown::Hold) => (true, false),
            (true, OnUnknown::ResendOnce) => (is_second, false),
            (true, OnUnknown::Resend) => (false, is_second),
        }
    }

    /// Updates the breaker, and the store on a change of state; returns the pause if the transport
    /// is paused from now on.
    async fn note_health(&self, attempt: &TransportAttempt) -> Option<Duration> {
        let (pause, began) = self.tell_breaker(attempt.health);
        let reason = attempt
            .verdicts
            .last()
            .map_or("", |(_, verdict)| &verdict.reply);
        let state = match (attempt.health, pause) {
            (TransportCondition::CredentialsRefused, _) => TransportState::AuthFailed,
            (TransportCondition::Unreachable, _) => TransportState::Unreachable,
            (TransportCondition::Well, _) => TransportState::Well,
        };
        if let (Some(pause), true) = (pause, began) {
            let pause_s = pause.as_secs();
            tracing::error!(
                pause_s,
                reason,
                "outbound mail rests: the transport does not work"
            );
        }
        // Also after the first failure, before any pause: `attache outbox health` must not report a
        // healthy transport.
        let changed = *lock(&self.noted) != state;
        if began || changed {
            let reason = if state == TransportState::Well {
                ""
            } else {
                reason
            };
            let next = pause.map(|pause| self.clock.now().plus(pause));
            let (name, reason) = (self.transport.name(), reason.to_owned());
            let note = TransportNote {
                name,
                state,
                reason,
                next_probe_at: next,
            };
            match self.store.note_transport(note).await {
                Ok(()) => *lock(&self.noted) = state,
                // It is information for operators, and no mail depends on it; the next attempt
                // retries the write.
                Err(error) => tracing::error!(%error, "how the transport is cannot be stored"),
            }
        }
        pause
    }

    /// Updates the breaker; returns the pause if the transport is paused, and `true` if the pause
    /// begins now.
    fn tell_breaker(&self, health: TransportCondition) -> (Option<Duration>, bool) {
        let now = self.clock.monotonic();
        let mut breaker = lock(&self.breaker);
        let rested = matches!(breaker.state(now), BreakerState::Open(_));
        let pause = match health {
            TransportCondition::Well => {
                breaker.well();
                None
            }
            TransportCondition::Unreachable => breaker.unreachable(now),
            TransportCondition::CredentialsRefused => Some(breaker.refused(now)),
        };
        (pause, pause.is_some() && !rested)
    }

    async fn record(&self, outcome: DeliveryOutcome) -> Result<()> {
        match self.store.record_outcome(outcome.clone()).await {
            Ok(DeliveryState::Failed) => {
                tracing::error!(delivery = %outcome.id, "outbound mail failed for a recipient");
                Ok(())
            }
            Ok(_) => {
                crate::crash::crash_point!("O6");
                crate::crash::crash_point!(
                    "O7",
                    outcome
                        .recipients
                        .windows(2)
                        .any(|pair| pair[0].state != pair[1].state)
                );
                Ok(())
            }
            Err(StoreError::WrongState { id, .. }) => {
                tracing::warn!(delivery = %id, "outcome of an outbound mail came too late");
                Ok(())
            }
            Err(error) => {
                lock(&self.unrecorded).push(outcome);
                Err(error)
            }
        }
    }

    async fn record_leftovers(&self) -> Result<()> {
        let leftovers = std::mem::take(&mut *lock(&self.unrecorded));
        // All are tried: each is put back when it fails.
        for recorded in join_all(leftovers.into_iter().map(|outcome| self.record(outcome))).await {
            recorded?;
        }
        Ok(())
    }

    fn state(&self) -> BreakerState {
        lock(&self.breaker).state(self.clock.monotonic())
    }
}

/// Answer of a poll.
enum Due {
    /// Mails that were claimed; none while the transport is paused.
    Now(Vec<ClaimedDelivery>),
    /// Nothing is due for this long.
    Later(Duration),
}

/// The commit that marks the delivery `committing`.
struct Commit<'a> {
    store: &'a Store,
    id: &'a DeliveryId,
}

impl PointOfNoReturn for Commit<'_> {
    fn pass(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.store.mark_committing(self.id))
    }
}

/// Outcome that releases a claim without an attempt.
fn give_back(mail: &ClaimedDelivery, next_attempt_at: Timestamp) -> DeliveryOutcome {
    let (id, recipients) = (mail.id.clone(), Vec::new());
    DeliveryOutcome {
        id,
        recipients,
        next_attempt_at,
        counts: false,
        possible_duplicate: false,
        hold: false,
    }
}

/// Logs each attempt once; no addresses, and no replies, since servers quote addresses in them.
fn log_outcome(mail: &ClaimedDelivery, recipients: &[RecipientOutcome]) {
    let count = |state| {
        recipients
            .iter()
            .filter(|recipient| recipient.state == state)
            .count()
    };
    tracing::info!(
        delivery = %mail.id,
        persona = %mail.persona,
        attempt = mail.attempt,
        delivered = count(RecipientState::Delivered),
        deferred = count(RecipientState::Deferred),
        failed = count(RecipientState::Failed),
        code = recipients.last().and_then(|recipient| recipient.code),
        "outbound mail was tried"
    );
}

/// Logs the reason of a fault of the transport. These texts concern the connection, before any
/// address was sent.
fn log_unusable(mail: &ClaimedDelivery, attempt: &TransportAttempt) {
    if let (false, Some((_, verdict))) = (
        attempt.health == TransportCondition::Well,
        attempt.verdicts.last(),
    ) {
        let (code, reason) = (verdict.code, verdict.reply.as_str());
        tracing::warn!(delivery = %mail.id, code, reason, "the way out cannot be used");
    }
}

fn complain(sent: Result<()>) {
    if let Err(error) = sent {
        tracing::error!(%error, "the outcome of an outbound mail is not stored yet");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
