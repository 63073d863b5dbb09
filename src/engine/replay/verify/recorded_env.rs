//! Recorded environment of one attempt: it answers the loop from the record, and notes where the
//! loop's requests or entries differ.
//!
//! Absent on purpose: anything that could reach beyond these values.

use super::difference::{Found, What};
use super::record::{Attempt, Record, RecordedCall};
use crate::clock::Clock;
use crate::context::resolvers::Subject;
use crate::context::resolvers::record::ReadLog;
use crate::context::{self, Sources};
use crate::domain::{BudgetAccountId, BudgetBalance, BudgetScope, StopReason, Timestamp};
use crate::providers::{AgentSession, Parameter, ProviderError};
use crate::runs::env::{AssembledRun, ContextOrder, RecordedRun};
use crate::runs::error::RunError;
use crate::runs::provider_health::{Moment, ProviderHealth};
use crate::runs::record::call_record::{BlockedBy, ModelLimits};
use crate::store::{
    BudgetExhausted, JournalEntry, JournalSoFar, KnownSession, RunOptionsInForce, Step, StepKind,
    StoreError, TurnStarted,
};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One attempt of a run, from its record.
pub struct RecordedEnv {
    record: Arc<Record>,
    attempt: Attempt,
    state: Mutex<State>,
}

struct State {
    /// Index of the call that the loop makes next.
    next: usize,
    /// Number of `blocked_by` entries before it that were passed.
    met: usize,
    found: Option<Found>,
}

impl RecordedEnv {
    pub fn new(record: Arc<Record>, attempt: Attempt) -> Self {
        let state = Mutex::new(State {
            next: attempt.calls.start,
            met: 0,
            found: None,
        });
        Self {
            record,
            attempt,
            state,
        }
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn next_call(&self) -> usize {
        self.state().next
    }

    pub fn difference(&self) -> Option<Found> {
        self.state().found.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next call of this attempt.
    fn coming(&self) -> Option<&RecordedCall> {
        let next = self.next_call();
        self.attempt
            .calls
            .contains(&next)
            .then(|| &self.record.calls[next])
    }

    /// Returns the last call that was made in this attempt.
    pub(super) fn made(&self) -> Option<&RecordedCall> {
        let made = self
            .next_call()
            .checked_sub(1)
            .filter(|made| self.attempt.calls.contains(made))?;
        self.record.calls.get(made)
    }

    fn note(&self, what: What) -> StoreError {
        let mut state = self.state();
        let call = state.next.min(self.record.calls.len() - 1);
        state.found.get_or_insert(Found { call, what });
        StoreError::Closed
    }

    fn write(&self, entry: &JournalEntry) -> Result<(), StoreError> {
        match entry {
            JournalEntry::TurnStarted(turn) => self.turn_started(turn),
            JournalEntry::Step(step) => self.step(step),
            JournalEntry::TurnAnswered(answered) => {
                match self
                    .made()
                    .and_then(|call| call.turn.response_json.as_ref())
                {
                    Some(then) if *then != answered.response_json => {
                        let cause = "engine: an answer is written down otherwise";
                        Err(self.differs(cause, then, &answered.response_json))
                    }
                    _ => Ok(()),
                }
            }
            JournalEntry::Mail(mail) if !self.record.mails.contains(&mail.content.text_body) => {
                let last = self.made().map_or(0, |call| call.turn.turn_index);
                let then = self.record.mails.last().map_or("no mail", String::as_str);
                let is_ended = self.record.run.state.is_terminal();
                match is_ended {
                    true => Err(self.differs(
                        &format!("answer of turn {last}, as it is mailed"),
                        then,
                        &mail.content.text_body,
                    )),
                    false => Ok(()),
                }
            }
            JournalEntry::Mail(_)
            | JournalEntry::Memory(_)
            | JournalEntry::TurnFailed(_)
            | JournalEntry::Output(_)
            | JournalEntry::Summary(_)
            | JournalEntry::QueueSummary
            | JournalEntry::Ask(_)
            | JournalEntry::ApprovedBegun { .. }
            | JournalEntry::Finished(_) => Ok(()),
        }
    }

    fn turn_started(&self, turn: &TurnStarted) -> Result<(), StoreError> {
        let Some(coming) = self.coming() else {
            return Err(self.beyond());
        };
        if let Some(BlockedBy::BudgetAccount { scope }) = self.blocked_by() {
            self.state().met += 1;
            return Err(empty(BudgetScope::parse(scope).unwrap_or(BudgetScope::Run)));
        }
        let then = &coming.turn;
        if (turn.turn_index, turn.attempt) != (then.turn_index, then.attempt) {
            let place = |turn: u32, attempt: u32| format!("turn {turn}, attempt {attempt}");
            let (recorded, now) = (
                place(then.turn_index, then.attempt),
                place(turn.turn_index, turn.attempt),
            );
            return Err(self.differs("engine: calls are counted otherwise", &recorded, &now));
        }
        if (&turn.provider, &turn.model) != (&then.provider, &then.model) {
            let route = |provider: &str, model: &str| format!("{provider}/{model}");
            let (recorded, now) = (
                route(&then.provider, &then.model),
                route(&turn.provider, &turn.model),
            );
            return Err(self.differs("engine: another model is asked", &recorded, &now));
        }
        if *turn.request_json != *then.request_json {
            return Err(self.note(What::Request {
                replayed: turn.request_json.to_string(),
            }));
        }
        let mut state = self.state();
        (state.next, state.met) = (state.next + 1, 0);
        Ok(())
    }

    /// Returns the error of a call beyond the attempt's last one.
    fn beyond(&self) -> StoreError {
        let run = &self.record.run;
        if self.attempt.calls.end < self.record.calls.len() || !run.state.is_terminal() {
            // The attempt was interrupted here, or parked.
            return StoreError::Closed;
        }
        match run.stop_reason {
            // It ended without a final turn, because the budget could not pay one.
            Some(StopReason::LimitCost) => empty(BudgetScope::Run),
            // It was ended from outside, or without an answer.
            None | Some(StopReason::Failed | StopReason::Cancelled) => StoreError::Closed,
            Some(stop) => self.differs(
                "engine: it decides otherwise",
                &format!("the end `{stop}`"),
                "a request",
            ),
        }
    }

    /// Compares a step with its record; a step without a record is beyond the attempt's
    /// interruption.
    fn step(&self, step: &Step) -> Result<(), StoreError> {
        match self.recorded(step.kind, &step.tool_call_id) {
            Some((place, then)) if then.payload_json != step.payload_json => {
                let what = if step.kind == StepKind::Call {
                    "call"
                } else {
                    "result"
                };
                let cause = format!("step {place} ({what} of {})", step.tool_name);
                Err(self.differs(&cause, &then.payload_json, &step.payload_json))
            }
            Some(_) => Ok(()),
            None => Err(StoreError::Closed),
        }
    }

    fn recorded(&self, kind: StepKind, call: &str) -> Option<(usize, &Step)> {
        let is_it = |(_, step): &(usize, &Step)| step.kind == kind && step.tool_call_id == call;
        self.record.steps.iter().enumerate().find(is_it)
    }

    /// Returns the next `blocked_by` entry before the next call.
    fn blocked_by(&self) -> Option<&BlockedBy> {
        let met = self.state().met;
        self.coming()?.begun.blocked_by.get(met)
    }

    fn journal_found(&self) -> JournalSoFar {
        let calls = &self.record.calls[..self.attempt.calls.start];
        let mut so_far = JournalSoFar {
            calls: calls.len() as u32,
            ..JournalSoFar::default()
        };
        for RecordedCall { turn, .. } in calls {
            so_far
                .attempts
                .retain(|(index, _)| *index != turn.turn_index);
            so_far.attempts.push((turn.turn_index, turn.attempt));
            if turn.context_json.is_some() {
                so_far.first_request_json.clone_from(&turn.context_json);
            }
            if turn.state == "answered" {
                so_far.answers.push((
                    turn.turn_index,
                    turn.response_json.clone().unwrap_or_default(),
                ));
                so_far.answered_by = Some((turn.provider.clone(), turn.model.clone()));
            }
        }
        so_far.steps = self.record.steps[..self.attempt.steps].to_vec();
        so_far
    }
}

/// Returns the error of a budget account that cannot pay; the amounts do not matter.
fn empty(scope: BudgetScope) -> StoreError {
    StoreError::BudgetExhausted(Box::new(BudgetExhausted {
        account: BudgetAccountId {
            scope,
            owner: String::new(),
            period: String::new(),
        },
        state: BudgetBalance::default(),
        cost_micros_max: None,
        tokens_max: None,
        micros: 0,
        tokens: 0,
        held_by_others: false,
    }))
}

impl RecordedRun for RecordedEnv {
    fn subject(&self) -> Option<Subject> {
        let context = self.record.contexts.first()?;
        Some(context.subject.clone())
    }

    fn run_options(&self) -> RunOptionsInForce {
        self.record.run_options.clone()
    }

    fn journal_so_far(&self) -> JournalSoFar {
        self.journal_found()
    }

    fn commit(&self, entries: &[JournalEntry]) -> Result<(), StoreError> {
        // The end of the last call was not recorded, and neither was its answer.
        if self.made().is_some_and(|call| call.ended.is_none()) {
            return Err(StoreError::Closed);
        }
        entries.iter().try_for_each(|entry| self.write(entry))
    }

    fn first_request(&self) -> Option<String> {
        let calls = self.record.calls.iter();
        calls
            .filter_map(|call| call.turn.context_json.clone())
            .next()
    }

    fn recipients(&self) -> Vec<String> {
        self.record.people.clone()
    }

    fn session(&self) -> Option<KnownSession> {
        match self.coming()?.begun.session.clone() {
            Some(AgentSession::Resume { id, used }) => Some(KnownSession {
                id,
                usage_json: used.and_then(|used| serde_json::to_string(&used).ok()),
            }),
            _ => None,
        }
    }

    fn assemble<'a>(
        &'a self,
        order: ContextOrder<'a>,
    ) -> BoxFuture<'a, Result<AssembledRun, RunError>> {
        Box::pin(async move {
            let coming = self.next_call()..self.attempt.calls.end;
            let context = coming
                .into_iter()
                .find_map(|call| self.record.context_of(call));
            let Some(context) = context else {
                return Err(StoreError::Closed.into());
            };
            let subject = Subject {
                pdfs: context.subject.pdfs.clone(),
                ..order.subject.clone()
            };
            let sources = Sources {
                persona: order.persona,
                reads: &context.reads,
                subject: &subject,
                now: context.now,
            };
            let profile = (order.run.profile.as_str(), order.profile);
            match context::assemble_beside(
                sources,
                profile,
                order.allowed_tokens,
                order.budget_tokens,
                order.spare,
            )
            .await
            {
                Ok((context, report, unoffered)) => Ok(AssembledRun {
                    context,
                    report,
                    unoffered,
                    seen: ReadLog::default(),
                }),
                Err(error) => Err(self.differs(&error.to_string(), "a context", "none").into()),
            }
        })
    }

    fn runs_commands(&self) -> bool {
        let first = self.attempt.calls.clone().next();
        first.is_some_and(|call| self.record.calls[call].begun.runs_commands)
    }

    fn call_payload(&self, call: &str) -> Option<Value> {
        let (_, step) = self.recorded(StepKind::Call, call)?;
        serde_json::from_str(&step.payload_json).ok()
    }

    fn result(&self, call: &str) -> Option<String> {
        self.recorded(StepKind::Result, call)
            .map(|(_, step)| step.payload_json.clone())
    }

    /// Records a difference and ends the replay.
    fn differs(&self, cause: &str, recorded: &str, replayed: &str) -> StoreError {
        self.note(What::Else {
            cause: cause.to_owned(),
            recorded: recorded.to_owned(),
            replayed: replayed.to_owned(),
        })
    }
}

impl ProviderHealth for Arc<RecordedEnv> {
    fn admit(&self, provider: &str, _insists: bool) -> Result<(), ProviderError> {
        let resting = match self.blocked_by() {
            Some(BlockedBy::Rest {
                provider: of,
                error,
            }) if of == provider => error.error(),
            _ => None,
        };
        match resting {
            Some(error) => {
                self.state().met += 1;
                Err(error)
            }
            None => Ok(()),
        }
    }

    fn report(&self, _provider: &str, _end: Option<Result<(), &ProviderError>>) {}

    fn refused(&self, _provider: &str, _model: &str, _parameter: Parameter) {}

    fn has_window(&self, _provider: &str, _model: &str, _tokens: u64) {}

    fn limits(&self, _provider: &str, _model: &str) -> ModelLimits {
        self.coming()
            .map(|call| call.begun.limits)
            .unwrap_or_default()
    }

    fn without(&self, _provider: &str, _model: &str) -> Vec<Parameter> {
        self.coming()
            .map(|call| call.begun.without.clone())
            .unwrap_or_default()
    }

    fn worked(&self, _since: Duration, moment: Moment) -> Duration {
        let asked = || self.coming().map(|call| call.begun.asked_ms);
        let ended = || {
            self.made()
                .and_then(|call| call.ended.as_ref())
                .map(|ended| ended.worked_ms)
        };
        let worked = match moment {
            Moment::Asking => asked().or_else(ended),
            Moment::Answered => ended(),
        };
        let before = self.record.calls[self.attempt.calls.start]
            .begun
            .claim
            .worked_ms;
        Duration::from_millis(worked.unwrap_or(before).saturating_sub(before))
    }

    fn unwatched(&self) -> (u32, u32) {
        let ended = self.made().and_then(|call| call.ended.as_ref());
        ended.map_or((0, 0), |ended| (ended.calls, ended.failures))
    }

    fn wait(&self, _span: Duration) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}

impl Clock for RecordedEnv {
    fn now(&self) -> Timestamp {
        self.record.instant(self.next_call())
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    /// The id of an agent's fresh session is the only generated id in a request.
    fn new_id(&self) -> String {
        match self.coming().and_then(|call| call.begun.session.clone()) {
            Some(AgentSession::New(id)) => id,
            _ => "replayed".to_owned(),
        }
    }
}
