//! Worker: claims due runs, executes them concurrently, stores their failures.
//!
//! Wake-ups are hints; while a run is open the table is polled once a second in any case, so a lost hint costs a
//! second. Without an open run, only a commit can bring one.

use super::budget::exhausted;
use super::deps::WorkerDeps;
use super::error::RunError;
use super::execute::execute;
use super::hooks::of_run;
use super::missing_text;
use crate::config::Current;
use crate::domain::{
    ErrorClass, NoticeId, NoticeKind, NoticeSubject, PersonaId, RunId, StopReason, stable_seed,
};
use crate::store::{
    ClaimedRun, NewNotice, PiggybackClaim, RunFailure, Store, StoreError, SweptApprovals,
};
use crate::text::with_causes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Time between two polls of the table.
const POLL: Duration = Duration::from_secs(1);
/// Longest time between two polls while no run is open and nothing is committed.
const IDLE_POLL: Duration = Duration::from_secs(15);
/// Waits between the attempts of one run, unless a longer one was asked for.
const RUN_RETRY_WAITS: [Duration; 5] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(60 * 60),
    Duration::from_secs(4 * 60 * 60),
];
/// Waits after failures of the store: a server that was started anew, or replaced by its standby, is often back after a second,
/// and later letters of the thread wait behind the run.
const STORE_RETRY_WAITS: [Duration; 5] = [
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(60 * 60),
];

/// Executes runs. One per engine.
pub struct Worker {
    store: Store,
    /// Each run takes them once, when it is claimed.
    in_force: Arc<Current<WorkerDeps>>,
    running: JoinSet<EndedRun>,
    /// `true`: the last claim got all that it asked for, so there is probably more.
    backlog: bool,
    open: HashMap<RunId, RunningRun>,
    /// Failures that did not commit (the disk was full). If they were dropped, their runs would
    /// look busy until the next start.
    unsettled: Vec<(RunId, RunFailure)>,
    /// Claim that the next transaction makes which queues a run, while there is a place for one.
    piggyback: Option<PiggybackClaim<ClaimedRun>>,
    /// Runs that a halt stopped, not yet put back.
    stopped: Vec<(RunId, RunningRun)>,
    /// Personas with runs that are not in this engine's configuration: created since its start, or
    /// removed.
    unknown: BTreeSet<PersonaId>,
    signals: NodeSignals,
}

/// Signals of a worker to other engines on its database, and of them.
#[derive(Clone, Default)]
pub struct NodeSignals {
    /// Notified by the worker when a run was queued while it had no place free: another engine may have one.
    pub overflow: Arc<Notify>,
    /// Wakes the worker for a run of another engine. It has a name of its own, or engines without a place would pass it on to
    /// each other for ever.
    pub hinted: Arc<Notify>,
}

/// State of a run while it is executed.
struct RunningRun {
    cancel: CancellationToken,
    /// Working time of earlier attempts.
    worked: Duration,
    /// Monotonic time of its start.
    began: Duration,
    persona: PersonaId,
    task: AbortHandle,
}

/// A run that ended, and its failure if that could not be stored.
type EndedRun = (RunId, Option<RunFailure>);

impl Worker {
    /// Builds a worker whose dependencies stay as they are.
    pub fn new(deps: Arc<WorkerDeps>) -> Self {
        Self::of(Arc::new(Current::new(deps)))
    }

    pub fn of(in_force: Arc<Current<WorkerDeps>>) -> Self {
        let (running, open, unknown, stopped, signals) = Default::default();
        Self {
            store: in_force.get().store.clone(),
            in_force,
            running,
            backlog: false,
            open,
            unsettled: Vec::new(),
            piggyback: None,
            stopped,
            unknown,
            signals,
        }
    }

    /// Returns what it tells other engines, and hears of them.
    pub fn signals(&self) -> NodeSignals {
        self.signals.clone()
    }

    /// Works until `shutdown`, then gives running runs the grace period of a drain to end, and puts
    /// the rest back.
    pub async fn run(mut self, wake: Arc<Notify>, shutdown: CancellationToken) {
        for halt in self.store.halts().await.unwrap_or_default() {
            let who = halt
                .persona
                .as_ref()
                .map_or("every persona", PersonaId::as_str);
            tracing::warn!(who, since = %halt.halted_at, "halted: letters wait for `attache resume`");
        }
        // An interval, not a sleep: a busy engine must poll for cancellations too.
        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut commits, mut is_idle) = (self.store.commits(), false);
        while !shutdown.is_cancelled() {
            if let Err(error) = self.claim().await {
                tracing::error!(%error, "cannot claim runs");
            }
            self.piggyback();
            tokio::select! {
                () = shutdown.cancelled() => {}
                claimed = PiggybackClaim::made(&mut self.piggyback) => self.begin_or_report(claimed).await,
                () = wake.notified() => self.pass_on_overflow(),
                () = self.signals.hinted.notified() => {}
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => self.ended(ended),
                changed = tokio::time::timeout(IDLE_POLL, commits.changed()), if is_idle => {
                    is_idle = false;
                    if changed.is_ok() {
                        poll.reset();
                    }
                }
                _ = poll.tick(), if !is_idle => {
                    commits.mark_unchanged();
                    self.sweep_approvals().await;
                    self.pass_on_cancellations().await;
                    self.pass_on_halts().await;
                    is_idle = self.is_idle().await;
                }
            }
            while let Some(ended) = self.running.try_join_next() {
                self.ended(ended);
            }
        }
        self.wind_down().await;
    }

    /// Executes everything that is due now, then returns the number of runs executed.
    pub async fn drain(&mut self) -> Result<usize, StoreError> {
        let (mut worked, mut tried) = (0, false);
        let mut poll = tokio::time::interval(POLL);
        loop {
            self.store.sweep_approvals().await?;
            worked += self.claim().await?;
            let ended = tokio::select! {
                ended = self.running.join_next() => ended,
                _ = poll.tick(), if !self.running.is_empty() => {
                    self.pass_on_cancellations().await;
                    self.pass_on_halts().await;
                    continue;
                }
            };
            match ended {
                Some(ended) => {
                    tried = false;
                    self.ended(ended);
                }
                // All other runs are done: now the poison runs, which may have stopped engines.
                None if !tried && self.store.try_poison_runs_now() => tried = true,
                // A run that is due and cannot be claimed waits for a parked run of its thread, or
                // another engine has it.
                None => return Ok(worked),
            }
        }
    }

    /// Reports whether nothing is to be done before something is committed.
    async fn is_idle(&self) -> bool {
        let has_left =
            !self.open.is_empty() || !self.stopped.is_empty() || !self.unsettled.is_empty();
        !has_left
            && self
                .store
                .open_runs_up_to(1)
                .await
                .is_ok_and(|open| open == 0)
    }

    fn pass_on_overflow(&self) {
        if self.free_places(&self.in_force.get()) == 0 {
            self.signals.overflow.notify_one();
        }
    }

    async fn begin_or_report(&mut self, claimed: Result<Vec<ClaimedRun>, StoreError>) {
        let began = async {
            let deps = self.in_force.get();
            self.begin(&deps, claimed?).await
        };
        if let Err(error) = began.await {
            tracing::error!(%error, "cannot begin runs that were queued");
        }
    }

    /// Has the next run claimed by the transaction that queues it, if no other one waits.
    fn piggyback(&mut self) {
        let deps = self.in_force.get();
        let inference = &deps.config.inference;
        let free = self.free_places(&deps);
        if free > 0 && !self.backlog {
            let per_persona_max = inference.concurrent_runs_per_persona_max;
            let out = self.not_served(&deps);
            self.piggyback = self.store.claim_queued_runs(free, per_persona_max, &out);
        }
    }

    async fn claim(&mut self) -> Result<usize, StoreError> {
        self.finish_leftovers().await;
        let deps = self.in_force.get();
        self.unknown
            .retain(|id| deps.config.personas.get(id).is_none());
        let queued = PiggybackClaim::end(&mut self.piggyback).await?;
        let began = queued.len();
        self.begin(&deps, queued).await?;
        let inference = &deps.config.inference;
        let free = self.free_places(&deps);
        // With a backlog, several places are filled by one claim rather than each by its own.
        if free == 0 || (self.backlog && free < inference.concurrent_runs_max.div_ceil(4)) {
            return Ok(began);
        }
        self.backlog = false;
        if !deps.store.is_run_due().await? {
            return Ok(began);
        }
        let per_persona_max = inference.concurrent_runs_per_persona_max;
        loop {
            let out = self.not_served(&deps);
            let claimed = deps
                .store
                .claim_runs_except(free, per_persona_max, &out)
                .await?;
            self.backlog = claimed.len() == free;
            let count = claimed.len();
            let unknown = self.begin(&deps, claimed).await?;
            // Others may have waited behind runs that cannot be served.
            if unknown < count || unknown == 0 || self.is_stale(&deps) {
                return Ok(began + count - unknown);
            }
        }
    }

    /// Begins runs that were claimed, and queues those again whose persona this engine does not know. Returns the number of the
    /// latter.
    async fn begin(
        &mut self,
        deps: &Arc<WorkerDeps>,
        claimed: Vec<ClaimedRun>,
    ) -> Result<usize, StoreError> {
        let personas = &deps.config.personas;
        let is_known = |run: &ClaimedRun| personas.get(&run.persona).is_some();
        let (known, unknown): (Vec<_>, Vec<_>) = claimed.into_iter().partition(is_known);
        for run in known {
            let cancel = CancellationToken::new();
            let (id, persona, worked) = (run.id.clone(), run.persona.clone(), run.worked);
            let (deps, stop) = (deps.clone(), cancel.clone());
            // Each line that is logged on the way names the run.
            let span = tracing::info_span!("run", id = %run.id);
            let work = async move {
                let worked = AssertUnwindSafe(work_on(&deps, &run, &stop))
                    .catch_unwind()
                    .await;
                let unsettled = match worked {
                    Ok(unsettled) => unsettled,
                    Err(_panic) => bury(&deps, &run).await,
                };
                (run.id, unsettled)
            };
            let task = self.running.spawn(work.instrument(span));
            let began = self.store.clock().monotonic();
            let open = RunningRun {
                cancel,
                worked,
                began,
                persona,
                task,
            };
            self.open.insert(id, open);
        }
        for run in &unknown {
            deps.store.requeue_run(&run.id, run.worked).await?;
            if !self.is_stale(deps) && self.unknown.insert(run.persona.clone()) {
                tracing::warn!(persona = %run.persona, run = %run.id, "runs of a persona that this engine does not know wait");
                deps.store.emit_notice(unknown_persona(deps, run)).await?;
            }
        }
        Ok(unknown.len())
    }

    fn free_places(&self, deps: &WorkerDeps) -> usize {
        let places = deps.config.inference.concurrent_runs_max;
        places.saturating_sub(self.running.len())
    }

    /// Reports whether another configuration is in force by now. A persona that is not known may have come with it.
    fn is_stale(&self, deps: &WorkerDeps) -> bool {
        !std::ptr::eq(&*self.in_force.get(), deps)
    }

    /// Returns the personas whose runs wait: they are out of service, or not known.
    fn not_served<'d>(&'d self, deps: &'d WorkerDeps) -> Vec<&'d str> {
        let out = deps
            .config
            .personas
            .out_of_service()
            .iter()
            .map(|out| out.name.as_str());
        out.chain(self.unknown.iter().map(PersonaId::as_str))
            .collect()
    }

    async fn finish_leftovers(&mut self) {
        let stopped = std::mem::take(&mut self.stopped);
        let put_back = join_all(stopped.iter().map(|(run, open)| self.put_back(run, open))).await;
        let left = stopped.into_iter().zip(put_back).filter(|(_, done)| !done);
        self.stopped.extend(left.map(|(stopped, _)| stopped));
        for (run, failure) in std::mem::take(&mut self.unsettled) {
            match self.store.fail_run(&run, failure.clone()).await {
                Ok(()) | Err(StoreError::WrongState { .. }) => {}
                Err(_as_before) => self.unsettled.push((run, failure)),
            }
        }
    }

    fn ended(&mut self, ended: Result<EndedRun, tokio::task::JoinError>) {
        match ended {
            Ok((run, unsettled)) => {
                self.open.remove(&run);
                self.unsettled
                    .extend(unsettled.map(|failure| (run, failure)));
            }
            // A halt or a shutdown aborts runs. Their rows are put back when their tasks have ended, so that nothing is
            // committed for a run that another task may claim: by `finish_leftovers`, `wind_down` or the next start.
            Err(error) => {
                tracing::info!(%error, "a run was aborted");
                let is_it = |_: &RunId, open: &mut RunningRun| open.task.id() == error.id();
                self.stopped.extend(self.open.extract_if(is_it));
            }
        }
    }

    /// Ends questions to owners whose time is over, and those that a later letter overtook.
    async fn sweep_approvals(&self) {
        match self.store.sweep_approvals().await {
            Ok(swept) if swept == SweptApprovals::default() => {}
            Ok(swept) => tracing::info!(
                expired = swept.expired,
                overtaken = swept.overtaken,
                "questions to owners ended without an answer"
            ),
            Err(error) => tracing::warn!(%error, "cannot end questions to owners"),
        }
    }

    /// Cancels runs that are marked in their rows: any process can request a cancellation there.
    async fn pass_on_cancellations(&mut self) {
        if self.open.is_empty() {
            return;
        }
        match self.store.cancel_requests().await {
            Ok(runs) => {
                crate::crash::crash_point!("R11", !runs.is_empty());
                runs.iter()
                    .filter_map(|run| self.open.get(run))
                    .for_each(|open| open.cancel.cancel());
            }
            Err(error) => tracing::warn!(%error, "cannot read cancellations"),
        }
    }

    /// Aborts the runs of personas that were halted: any process can do that in a row.
    async fn pass_on_halts(&mut self) {
        if self.open.is_empty() {
            return;
        }
        match self.store.halts().await {
            Ok(halts) => {
                let stopped =
                    |open: &&RunningRun| halts.iter().any(|halt| halt.stops(&open.persona));
                for open in self.open.values().filter(stopped) {
                    open.task.abort();
                }
            }
            Err(error) => tracing::warn!(%error, "cannot read halts"),
        }
    }

    async fn wind_down(mut self) {
        if let Ok(claimed) = PiggybackClaim::end(&mut self.piggyback).await {
            for run in claimed {
                let put_back = self.store.requeue_run(&run.id, run.worked).await;
                put_back.unwrap_or_else(
                    |error| tracing::debug!(run = %run.id, %error, "not put back; the next start does it"),
                );
            }
        }
        let grace_period = self.in_force.get().config.limits.drain_grace_period();
        let grace_period = tokio::time::sleep(grace_period);
        tokio::pin!(grace_period);
        while !self.running.is_empty() {
            tokio::select! {
                Some(ended) = self.running.join_next() => self.ended(ended),
                () = &mut grace_period => break,
            }
        }
        self.running.abort_all();
        // A run may have ended meanwhile; `ended` keeps what it could not store.
        while let Some(ended) = self.running.join_next().await {
            self.ended(ended);
        }
        self.finish_leftovers().await;
    }

    /// Queues a run again whose task was aborted; returns `false` when that could not be stored.
    async fn put_back(&self, run: &RunId, open: &RunningRun) -> bool {
        let worked = open.worked + self.store.clock().monotonic().saturating_sub(open.began);
        match self.store.requeue_run(run, worked).await {
            Ok(()) | Err(StoreError::WrongState { .. }) => true,
            Err(error) => {
                tracing::debug!(%run, %error, "not put back; the next claim or the next start does it");
                false
            }
        }
    }
}

/// Executes one run from claim to end; returns its failure when that could not be stored.
async fn work_on(
    deps: &WorkerDeps,
    run: &ClaimedRun,
    cancel: &CancellationToken,
) -> Option<RunFailure> {
    let began = deps.clock.monotonic();
    let outcome = execute(deps, run, cancel).await;
    deps.env.run_ended(&run.id).await;
    let took = deps.clock.monotonic().saturating_sub(began);
    match outcome {
        Ok(stop) => {
            let took_ms = took.as_millis();
            tracing::info!(run = %run.id, persona = %run.persona, %stop, took_ms, "run ended");
            of_run::after(deps, run, stop, None).await;
            None
        }
        Err(error) => finish(deps, run, error, run.worked + took).await,
    }
}

/// Builds the notice about runs that wait for an unknown persona; once a day for each.
fn unknown_persona(deps: &WorkerDeps, run: &ClaimedRun) -> NewNotice {
    let today = deps.clock.now().to_string();
    NewNotice {
        id: NoticeId::new(deps.clock.new_id()),
        persona: None,
        kind: NoticeKind::PersonaOutOfService,
        detail: run.persona.to_string(),
        subject: NoticeSubject::Persona,
        subject_id: run.persona.to_string(),
        occurrence: format!("{}-unknown", &today[..10]),
        summary: format!(
            "this engine knows no persona `{}`; its runs wait",
            run.persona
        ),
        hint: format!(
            "put `personas/{0}` back, and they go on within seconds; else end them with `attache runs list --persona {0}` \
             and `attache runs cancel ID`",
            run.persona
        ),
    }
}

/// Fails a run that panicked, which is a bug of ours, instead of leaving it `running` for ever.
async fn bury(deps: &WorkerDeps, run: &ClaimedRun) -> Option<RunFailure> {
    tracing::error!(run = %run.id, persona = %run.persona, "a run panicked");
    let message =
        "the engine met a bug while working on this run; the log has the place".to_owned();
    let failure = RunFailure {
        class: ErrorClass::Crashed,
        message,
        retry_at: None,
        worked: run.worked,
    };
    store(deps, run, failure).await
}

/// Parks a run that may succeed later; fails the others.
async fn finish(
    deps: &WorkerDeps,
    run: &ClaimedRun,
    error: RunError,
    worked: Duration,
) -> Option<RunFailure> {
    if let RunError::Store(StoreError::WrongState { .. }) = &error {
        tracing::warn!(run = %run.id, "the run was taken over; its result is dropped");
        return None;
    }
    if let RunError::WaitsForApproval = &error {
        tracing::info!(run = %run.id, persona = %run.persona, "the run waits for its owner; `attache approvals list` shows the question");
        return None;
    }
    if let RunError::BudgetExhausted(empty) = &error {
        return exhausted::park(deps, run, empty, worked).await;
    }
    if let RunError::WaitsForText { path, message } = error {
        return missing_text::park(deps, run, &path, message, worked).await;
    }
    let class = error.class();
    let retry_in = retry_wait(&error, run.attempt, stable_seed(run.id.as_str()));
    let attempts_max = run
        .attempts_max
        .unwrap_or(deps.config.inference.run_attempts_max);
    let may_retry = run.attempt < attempts_max && class != ErrorClass::Cancelled;
    let retry_at = retry_in.filter(|_| may_retry);
    let retry_at = retry_at.map(|wait| deps.clock.now().plus(wait));
    tracing::warn!(run = %run.id, persona = %run.persona, %class, parked = retry_at.is_some(), %error, "run failed");
    let failure = RunFailure {
        class,
        message: with_causes(&error),
        retry_at,
        worked,
    };
    let ends = retry_at.is_none().then(|| failure.message.clone());
    let unsettled = store(deps, run, failure).await;
    if let (Some(message), None) = (ends, &unsettled) {
        of_run::after(deps, run, StopReason::Failed, Some((class, &message))).await;
    }
    unsettled
}

/// Returns how long a run waits after its `attempt`-th failure; `None`: another attempt would fail alike. Pure; `seed` spreads the
/// runs that failed together.
fn retry_wait(error: &RunError, attempt: u32, seed: u64) -> Option<Duration> {
    let (asked, waits) = match error {
        RunError::Provider { retry_in, .. } => ((*retry_in)?, RUN_RETRY_WAITS),
        RunError::Machine { .. } => (Duration::ZERO, RUN_RETRY_WAITS),
        RunError::Store(_) => (Duration::ZERO, STORE_RETRY_WAITS),
        RunError::Fatal { .. }
        | RunError::BudgetExhausted(_)
        | RunError::WaitsForApproval
        | RunError::WaitsForText { .. }
        | RunError::Cancelled => return None,
    };
    let wait = waits[(attempt.max(1) as usize - 1).min(waits.len() - 1)].max(asked);
    let spread_max_ms = (wait.as_millis() as u64 / 2).clamp(1, 10_000);
    Some(wait + Duration::from_millis(seed % spread_max_ms))
}

async fn store(deps: &WorkerDeps, run: &ClaimedRun, failure: RunFailure) -> Option<RunFailure> {
    let error = deps.store.fail_run(&run.id, failure.clone()).await.err()?;
    tracing::error!(run = %run.id, %error, "the end of a run is not stored yet; trying again");
    Some(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_waits_longer_after_each_failure_and_after_one_of_the_store_not_long_at_first() {
        let store = || RunError::Store(StoreError::NoLease);
        let machine = || RunError::Machine {
            message: "no descriptors".to_owned(),
        };
        let cases: [(RunError, u32, Option<u64>); 13] = [
            (store(), 1, Some(2)),
            (store(), 2, Some(10)),
            (store(), 3, Some(60)),
            (store(), 4, Some(900)),
            (store(), 5, Some(3600)),
            (store(), 9, Some(3600)),
            (store(), 0, Some(2)),
            (machine(), 1, Some(60)),
            (machine(), 2, Some(300)),
            (machine(), 3, Some(900)),
            (machine(), 5, Some(14_400)),
            (RunError::Cancelled, 1, None),
            (RunError::WaitsForApproval, 1, None),
        ];
        for (error, attempt, seconds) in cases {
            let wait = |seed| retry_wait(&error, attempt, seed).map(|wait| wait.as_secs_f64());
            assert_eq!(
                wait(0),
                seconds.map(|seconds| seconds as f64),
                "{error} {attempt}"
            );
            // Those that failed together do not come back together.
            let spread = wait(u64::MAX)
                .zip(wait(0))
                .map(|(last, first)| last - first);
            assert!(
                spread.is_none_or(|spread| (0.0..10.0).contains(&spread)),
                "{error}"
            );
        }
    }
}
