//! Recorded environment of one attempt: it answers the loop from the record, and notes where the
//! loop's requests or entries differ.
//!
//! Absent on purpose: anything that could reach beyond these values.

mod env;

use super::difference::{Found, What};
use super::record::{Attempt, Call, Record};
use crate::clock::Clock;
use crate::config::Tier;
use crate::context::resolvers::Subject;
use crate::domain::{
    Address, BudgetAccountId, BudgetBalance, BudgetScope, ErrorClass, StopReason, ThreadId,
    Timestamp, Withheld,
};
use crate::providers::{
    AgentSession, CallContext, Capabilities, Event, Parameter, Phase, Provider, ProviderError,
    Request, RequestEncoder, Response, ToolArgs,
};
use crate::runs::call_record::{BlockedBy, Failure};
use crate::runs::route::Route;
use crate::runs::run_store::{Answer, Moment, ProviderHealth, RunStore};
use crate::store::{
    BudgetExhausted, ClaimedRun, JournalEntry, JournalSoFar, KnownSession, MailReservation,
    NewCall, NewNotice, RunOptionsInForce, Sent, SessionKey, Step, StepKind, StoreError,
    StoredMessage, TriggerMessage, TurnStarted, Unanswered,
};
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
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
    fn coming(&self) -> Option<&Call> {
        let next = self.next_call();
        self.attempt
            .calls
            .contains(&next)
            .then(|| &self.record.calls[next])
    }

    /// Returns the last call that was made in this attempt.
    fn made(&self) -> Option<&Call> {
        let made = self
            .next_call()
            .checked_sub(1)
            .filter(|made| self.attempt.calls.contains(made))?;
        self.record.calls.get(made)
    }

    /// Records a difference and ends the replay.
    fn differs(&self, cause: String, recorded: &str, replayed: &str) -> StoreError {
        let (recorded, replayed) = (recorded.to_owned(), replayed.to_owned());
        self.note(What::Else {
            cause,
            recorded,
            replayed,
        })
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
                        let cause = "engine: an answer is written down otherwise".to_owned();
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
                        format!("answer of turn {last}, as it is mailed"),
                        then,
                        &mail.content.text_body,
                    )),
                    false => Ok(()),
                }
            }
            JournalEntry::Mail(_)
            | JournalEntry::TurnFailed(_)
            | JournalEntry::Output(_)
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
            return Err(self.differs(
                "engine: calls are counted otherwise".to_owned(),
                &recorded,
                &now,
            ));
        }
        if (&turn.provider, &turn.model) != (&then.provider, &then.model) {
            let route = |provider: &str, model: &str| format!("{provider}/{model}");
            let (recorded, now) = (
                route(&then.provider, &then.model),
                route(&turn.provider, &turn.model),
            );
            return Err(self.differs("engine: another model is asked".to_owned(), &recorded, &now));
        }
        if turn.request_json != then.request_json {
            return Err(self.note(What::Request {
                replayed: turn.request_json.clone(),
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
                "engine: it decides otherwise".to_owned(),
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
                Err(self.differs(cause, &then.payload_json, &step.payload_json))
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
        for Call { turn, .. } in calls {
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

    /// Returns the events of the last call that was made.
    fn outcome(&self) -> Vec<Result<Event, ProviderError>> {
        let cut_off = |message: &str| {
            vec![Err(ProviderError::new(
                ErrorClass::Cancelled,
                Phase::MidStream,
                message,
            ))]
        };
        let Some(call) = self.made() else {
            return cut_off("nothing was asked");
        };
        if let Some(response) = &call.response {
            return vec![Ok(started(response)), Ok(Event::Finished(response.clone()))];
        }
        match call
            .ended
            .as_ref()
            .and_then(|ended| ended.error.as_ref())
            .and_then(Failure::error)
        {
            Some(error) => vec![Err(error)],
            None => cut_off("nobody saw this call end"),
        }
    }
}

fn started(response: &Response) -> Event {
    Event::Started {
        provider_request_id: response.provider_request_id.clone(),
        model: response.model_served.clone(),
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

fn now<'a, T: Send + 'a>(value: Result<T, StoreError>) -> Answer<'a, T> {
    ready(value).boxed()
}

impl RunStore for Arc<RecordedEnv> {
    fn trigger_message<'a>(
        &'a self,
        run: &'a ClaimedRun,
        _owners: &'a [Address],
    ) -> Answer<'a, TriggerMessage> {
        let missing = || StoreError::Missing {
            kind: "context",
            id: run.id.to_string(),
        };
        let subject = self
            .record
            .contexts
            .first()
            .map(|context| context.subject.clone());
        now(subject.ok_or_else(missing).map(|subject| TriggerMessage {
            message: subject.message,
            attachments: subject.attachments,
            readers: subject.readers,
            has_past: subject.has_past,
            // The model was asked, so no limit was reached.
            sent: Sent::default(),
        }))
    }

    fn options_of_run<'a>(&'a self, _run: &'a ClaimedRun) -> Answer<'a, RunOptionsInForce> {
        now(Ok(self.record.run_options.clone()))
    }

    fn newest_letter<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _subject: &'a Subject,
    ) -> Answer<'a, Option<StoredMessage>> {
        // Only for the delivery of a mail, of which only the text is compared.
        now(Ok(None))
    }

    fn journal_so_far<'a>(&'a self, _run: &'a ClaimedRun) -> Answer<'a, JournalSoFar> {
        now(Ok(self.journal_found()))
    }

    fn journal<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        entries: Arc<Vec<JournalEntry>>,
    ) -> Answer<'a, ()> {
        // The end of the last call was not recorded, and neither was its answer.
        let is_cut_off = self.made().is_some_and(|call| call.ended.is_none());
        match is_cut_off {
            true => now(Err(StoreError::Closed)),
            false => now(entries.iter().try_for_each(|entry| self.write(entry))),
        }
    }

    fn file_unasked<'a>(&'a self, _run: &'a ClaimedRun, rule: Withheld) -> Answer<'a, ()> {
        now(Err(self.differs(
            "engine: the model is not asked".to_owned(),
            "a request",
            rule.as_str(),
        )))
    }

    fn emit_notice(&self, _notice: NewNotice) -> Answer<'_, ()> {
        now(Ok(()))
    }

    fn readers_of<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _message: &'a StoredMessage,
    ) -> Answer<'a, Vec<String>> {
        // For tools, whose results are known, and for an answer into a thread: its recorded
        // recipients.
        now(Ok(self.record.people.clone()))
    }

    fn sent_of_late<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _wanted: &'a MailReservation,
        _thread: &'a ThreadId,
    ) -> Answer<'a, Sent> {
        now(Ok(Sent::default()))
    }

    fn mails_so_far<'a>(&'a self, _run: &'a ClaimedRun) -> Answer<'a, (u32, bool)> {
        now(Ok((0, false)))
    }

    fn record_call<'a>(&'a self, _run: &'a ClaimedRun, _call: NewCall) -> Answer<'a, String> {
        now(Err(self.differs(
            "engine: an agent is watched that does not work".to_owned(),
            "nothing",
            "a call",
        )))
    }

    fn close_calls<'a>(&'a self, _run: &'a ClaimedRun, _why: Unanswered) -> Answer<'a, ()> {
        now(Ok(()))
    }

    fn resumable_session<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _key: &'a SessionKey,
    ) -> Answer<'a, Option<KnownSession>> {
        let session = self.coming().and_then(|call| call.begun.session.clone());
        now(Ok(match session {
            Some(AgentSession::Resume { id, used }) => Some(KnownSession {
                id,
                usage_json: used.and_then(|used| serde_json::to_string(&used).ok()),
            }),
            _ => None,
        }))
    }

    fn session_seen<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _key: &'a SessionKey,
        _id: &'a str,
        _answered: Option<Option<String>>,
    ) -> Answer<'a, ()> {
        now(Ok(()))
    }

    fn session_lost<'a>(
        &'a self,
        _run: &'a ClaimedRun,
        _thread: &'a ThreadId,
        _provider: &'a str,
    ) -> Answer<'a, ()> {
        now(Ok(()))
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

    fn refused(&self, _route: &Route<'_>, _parameter: Parameter) {}

    fn without(&self, _route: &Route<'_>) -> Vec<Parameter> {
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

/// An adapter that encodes its requests and returns recorded answers. It cannot send.
pub struct Recorded {
    encoder: Arc<dyn RequestEncoder>,
    recorded_env: Arc<RecordedEnv>,
}

impl Recorded {
    pub fn new(encoder: Arc<dyn RequestEncoder>, recorded_env: Arc<RecordedEnv>) -> Self {
        Self {
            encoder,
            recorded_env,
        }
    }
}

impl RequestEncoder for Recorded {
    fn id(&self) -> &str {
        self.encoder.id()
    }
    fn capabilities(&self, model: &str) -> Capabilities {
        let capabilities = self.encoder.capabilities(model);
        let window_tokens = self
            .recorded_env
            .record
            .window_tokens(self.id())
            .or(capabilities.window_tokens);
        Capabilities {
            window_tokens,
            ..capabilities
        }
    }
    fn needs(&self, name: &str, args: &ToolArgs) -> Tier {
        self.encoder.needs(name, args)
    }
    fn lists_our_tools(&self) -> bool {
        self.encoder.lists_our_tools()
    }
    fn ends_when_dropped(&self) -> bool {
        self.encoder.ends_when_dropped()
    }
    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        self.encoder.encode_request(request)
    }
}

impl Provider for Recorded {
    fn stream<'a>(
        &'a self,
        _wire: &'a str,
        _context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        stream::iter(self.recorded_env.outcome()).boxed()
    }
}
