//! What the loop asks of the world around it and tells it, as three contracts. A run that is worked on has the engine's
//! (`workshop.rs`, `standings.rs`); one that is re-executed has its record, which has nothing to write, call or mail with.

use super::context::{Context, ContextReport};
use super::desk::RunError;
use super::gate::{Gate, Verdict};
use super::providers::{Parameter, ProviderError};
use super::resolvers::Subject;
use super::resolvers::record::Seen;
use super::route::Route;
use crate::config::{ContextProfile, Persona, Tier};
use crate::domain::{Address, ThreadId, Timestamp, Withheld};
use crate::store::{
    ClaimedRun, Entry, HeldTo, JournalSoFar, KnownSession, NewCall, NewNotice, Reservation, Sent, SessionKey,
    StoreError, StoredMessage, TriggerMessage, Unanswered,
};
use crate::tools::{MailPolicy, Tool};
use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// What a ledger says, in its time.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// What happened before, and where what happens is written down.
///
/// [`Ledger::journal`] is the one way of a run's turns, steps, mails and end: all entries of one call or none. Its order is
/// what makes a run survivable. An error ends the work on the run, except [`StoreError::EmptyPurse`].
pub trait Ledger: Send + Sync {
    /// What the run answers; `owners` may read everything, whenever they joined its thread.
    fn trigger_message<'a>(
        &'a self,
        run: &'a ClaimedRun,
        owners: &'a [Address],
    ) -> Answer<'a, TriggerMessage>;
    /// What the run is held to; asked of runs of responsibilities only.
    fn terms_of_run<'a>(&'a self, run: &'a ClaimedRun) -> Answer<'a, HeldTo>;
    /// The newest letter that the run can see in its thread and that may be answered.
    fn newest_letter<'a>(
        &'a self,
        run: &'a ClaimedRun,
        subject: &'a Subject,
    ) -> Answer<'a, Option<StoredMessage>>;
    /// What earlier attempts of the run committed.
    fn journal_so_far<'a>(&'a self, run: &'a ClaimedRun) -> Answer<'a, JournalSoFar>;
    fn journal<'a>(&'a self, run: &'a ClaimedRun, entries: Arc<Vec<Entry>>) -> Answer<'a, ()>;
    /// Files the letter of a run by a rule and ends the run.
    fn file_unasked<'a>(&'a self, run: &'a ClaimedRun, rule: Withheld) -> Answer<'a, ()>;
    /// The owner must know.
    fn raise_notice(&self, notice: NewNotice) -> Answer<'_, ()>;
    /// Keys of the people in the thread of a message who may read it.
    fn readers_of<'a>(&'a self, run: &'a ClaimedRun, message: &'a StoredMessage) -> Answer<'a, Vec<String>>;
    /// Mails that whom a mail would go to, and this thread, have had of late.
    fn sent_of_late<'a>(
        &'a self,
        run: &'a ClaimedRun,
        wanted: &'a Reservation,
        thread: &'a ThreadId,
    ) -> Answer<'a, Sent>;
    /// How many mails the run has sent, and whether one of them answered the trigger.
    fn mails_so_far<'a>(&'a self, run: &'a ClaimedRun) -> Answer<'a, (u32, bool)>;
    /// Records a call of an agent's and gives its id.
    fn record_call<'a>(&'a self, run: &'a ClaimedRun, call: NewCall) -> Answer<'a, String>;
    /// Gives every open call of an agent's a result.
    fn close_calls<'a>(&'a self, run: &'a ClaimedRun, why: Unanswered) -> Answer<'a, ()>;
    /// The session with which the next call to an agent goes on.
    fn resumable_session<'a>(
        &'a self,
        run: &'a ClaimedRun,
        key: &'a SessionKey,
    ) -> Answer<'a, Option<KnownSession>>;
    /// An agent named its session; `answered`: it has answered in it, and used this much as JSON.
    fn session_seen<'a>(
        &'a self,
        run: &'a ClaimedRun,
        key: &'a SessionKey,
        id: &'a str,
        answered: Option<Option<String>>,
    ) -> Answer<'a, ()>;
    /// The agent does not know its session of this thread any more.
    fn session_lost<'a>(
        &'a self,
        run: &'a ClaimedRun,
        thread: &'a ThreadId,
        provider: &'a str,
    ) -> Answer<'a, ()>;
}

/// What a run reads and does outside of its journal.
pub trait Hands: Send + Sync {
    /// Assembles the context of a run.
    fn assemble<'a>(&'a self, order: Order<'a>) -> BoxFuture<'a, Result<Assembled, RunError>>;
    /// The persona's text, `PERSONA.md`; empty when there is none.
    fn persona_text(&self, run: &ClaimedRun) -> Result<String, RunError>;
    /// What is written down with a call before it begins, so that it can be told later what became of it; `None` for
    /// tools that may simply be run again.
    fn foresee<'a>(&'a self, gate: &'a Gate<'_>, order: CallOrder<'a>) -> BoxFuture<'a, Option<Value>> {
        let _nothing = (gate, order);
        Box::pin(ready(None))
    }
    /// Copies what no agent may change, before one works in the persona's folder. Every one is followed by
    /// [`Self::release`].
    fn guard<'a>(
        &'a self,
        run: &'a ClaimedRun,
        persona: &'a Persona,
        tier: Tier,
    ) -> BoxFuture<'a, Result<(), RunError>> {
        let _nothing = (run, persona, tier);
        Box::pin(ready(Ok(())))
    }
    /// Puts back what an agent has changed of it, tells the owner, and gives its paths.
    fn release<'a>(
        &'a self,
        run: &'a ClaimedRun,
        persona: &'a Persona,
    ) -> BoxFuture<'a, Result<Vec<String>, RunError>> {
        let _nothing = (run, persona);
        Box::pin(ready(Ok(Vec::new())))
    }
    /// Executes a call that has passed the gate. Its effect commits with its result, which is the caller's to commit.
    fn call<'a>(
        &'a self,
        gate: &'a Gate<'_>,
        order: CallOrder<'a>,
    ) -> BoxFuture<'a, Result<Verdict, RunError>>;
}

/// A context to be assembled.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    pub run: &'a ClaimedRun,
    pub persona: &'a Persona,
    pub subject: &'a Subject,
    pub profile: &'a ContextProfile,
    /// By which each step's share goes.
    pub allowed_tokens: usize,
    /// For the whole.
    pub budget_tokens: usize,
    pub now: Timestamp,
}

/// An assembled context.
pub struct Assembled {
    pub context: Context,
    pub report: ContextReport,
    /// What was read for it.
    pub seen: Seen,
}

/// A call of one tool, its arguments checked.
#[derive(Clone, Copy)]
pub struct CallOrder<'a> {
    /// As the journal knows the call.
    pub id: &'a str,
    pub tool: &'static dyn Tool,
    pub args: &'a Map<String, Value>,
    pub mail: &'a MailPolicy,
    /// An earlier attempt began this call, after [`Hands::foresee`] had said so much.
    pub begun: Option<&'a Value>,
}

/// What decides beside the rows: how the providers are as far as is known, and the time.
pub trait Circumstances: Send + Sync {
    /// Whether a provider may be asked now; whoever `insists` may in any case. Every call that was let in is followed by
    /// [`Self::report`]. Errors: why it rests, and for how long.
    fn admit(&self, provider: &str, insists: bool) -> Result<(), ProviderError>;
    /// How a call that was let in ended; `None`: nothing was learnt of the provider.
    fn report(&self, provider: &str, end: Option<Result<(), &ProviderError>>);
    /// A model refuses a parameter.
    fn refused(&self, route: &Route<'_>, parameter: Parameter);
    /// What requests to this model leave out.
    fn without(&self, route: &Route<'_>) -> Vec<Parameter>;
    /// Working time of this attempt, where `since` is the monotonic time of its beginning.
    fn worked(&self, since: Duration, moment: Moment) -> Duration;
    /// Calls of tools, and failed ones, that the last call of a provider brought along and nobody here has watched.
    fn unwatched(&self) -> (u32, u32);
    /// Lets that much time pass.
    fn wait(&self, span: Duration) -> BoxFuture<'_, ()>;
}

/// When the loop looks at the clock for what it decides next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before it asks once more.
    Asking,
    /// A call has ended.
    Answered,
}
