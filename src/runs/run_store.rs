//! Contracts between the loop and its surroundings: run store, environment, provider health. A live
//! run has the engine's (`live_env.rs`, `breakers.rs`); a replayed run has its record, which cannot
//! write, call or mail.

use super::deps::RunError;
use super::route::Route;
use super::tool_policy::{ToolCallContext, Verdict};
use crate::config::{ContextProfile, Persona, Tier};
use crate::context::resolvers::Subject;
use crate::context::resolvers::record::ReadLog;
use crate::context::{Context, ContextReport};
use crate::domain::{Address, ThreadId, Timestamp, Withheld};
use crate::providers::{Parameter, ProviderError};
use crate::store::{
    ClaimedRun, JournalEntry, JournalSoFar, KnownSession, MailReservation, NewCall, NewNotice,
    RunOptionsInForce, Sent, SessionKey, StoreError, StoredMessage, TriggerMessage, Unanswered,
};
use crate::tools::{MailPolicy, RegisteredTool};
use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Future of a run store's answer.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Reads what earlier attempts did, and commits what this one does.
///
/// [`RunStore::journal`] is the only way to commit a run's turns, steps, mails and end: all entries
/// of one call or none. Its order is what makes a run survive a crash. An error ends the attempt,
/// except [`StoreError::BudgetExhausted`].
pub trait RunStore: Send + Sync {
    /// Returns the message that the run answers; `owners` may read everything, whenever they joined
    /// its thread.
    fn trigger_message<'a>(
        &'a self,
        run: &'a ClaimedRun,
        owners: &'a [Address],
    ) -> Answer<'a, TriggerMessage>;
    /// Returns the options of the run; called for runs of responsibilities only.
    fn options_of_run<'a>(&'a self, run: &'a ClaimedRun) -> Answer<'a, RunOptionsInForce>;
    /// Returns the newest letter that the run can see in its thread and that may be answered.
    fn newest_letter<'a>(
        &'a self,
        run: &'a ClaimedRun,
        subject: &'a Subject,
    ) -> Answer<'a, Option<StoredMessage>>;
    /// Returns what earlier attempts of the run committed.
    fn journal_so_far<'a>(&'a self, run: &'a ClaimedRun) -> Answer<'a, JournalSoFar>;
    fn journal<'a>(
        &'a self,
        run: &'a ClaimedRun,
        entries: Arc<Vec<JournalEntry>>,
    ) -> Answer<'a, ()>;
    /// Files the letter of a run by a rule, without asking the model, and ends the run.
    fn file_unasked<'a>(&'a self, run: &'a ClaimedRun, rule: Withheld) -> Answer<'a, ()>;
    /// Emits a notice to the owner.
    fn emit_notice(&self, notice: NewNotice) -> Answer<'_, ()>;
    /// Returns the keys of the thread's readers who may read a message.
    fn readers_of<'a>(
        &'a self,
        run: &'a ClaimedRun,
        message: &'a StoredMessage,
    ) -> Answer<'a, Vec<String>>;
    /// Returns the number of recent mails to these recipients, and in this thread.
    fn sent_of_late<'a>(
        &'a self,
        run: &'a ClaimedRun,
        wanted: &'a MailReservation,
        thread: &'a ThreadId,
    ) -> Answer<'a, Sent>;
    /// Returns the number of mails that the run has sent, and whether one of them answered the
    /// trigger.
    fn mails_so_far<'a>(&'a self, run: &'a ClaimedRun) -> Answer<'a, (u32, bool)>;
    /// Records a call of an agent's and returns its id.
    fn record_call<'a>(&'a self, run: &'a ClaimedRun, call: NewCall) -> Answer<'a, String>;
    /// Closes every open call of an agent's with a result.
    fn close_calls<'a>(&'a self, run: &'a ClaimedRun, why: Unanswered) -> Answer<'a, ()>;
    /// Returns the session that the next call to an agent resumes.
    fn resumable_session<'a>(
        &'a self,
        run: &'a ClaimedRun,
        key: &'a SessionKey,
    ) -> Answer<'a, Option<KnownSession>>;
    /// Records an agent's session; `answered`: the agent has answered in it, with this usage as
    /// JSON.
    fn session_seen<'a>(
        &'a self,
        run: &'a ClaimedRun,
        key: &'a SessionKey,
        id: &'a str,
        answered: Option<Option<String>>,
    ) -> Answer<'a, ()>;
    /// Drops a session of this thread that the agent does not know any more.
    fn session_lost<'a>(
        &'a self,
        run: &'a ClaimedRun,
        thread: &'a ThreadId,
        provider: &'a str,
    ) -> Answer<'a, ()>;
}

/// Reads and effects of a run outside of its journal.
pub trait Env: Send + Sync {
    /// Assembles the context of a run.
    fn assemble<'a>(&'a self, order: Order<'a>) -> BoxFuture<'a, Result<Assembled, RunError>>;
    /// Returns the text of `PERSONA.md`; empty when there is none.
    fn persona_text(&self, run: &ClaimedRun) -> Result<String, RunError>;
    /// Returns the expected effects of a call, which are recorded before it begins, so that its
    /// outcome can be verified after a crash; `None` for tools that may simply be run again.
    fn expected_effects<'a>(
        &'a self,
        ctx: &'a ToolCallContext<'_>,
        order: CallOrder<'a>,
    ) -> BoxFuture<'a, Option<Value>> {
        let _nothing = (ctx, order);
        Box::pin(ready(None))
    }
    /// Copies the files that no agent may change, before an agent works in the persona's folder.
    /// Every call is followed by [`Self::release`].
    fn guard<'a>(
        &'a self,
        run: &'a ClaimedRun,
        persona: &'a Persona,
        tier: Tier,
    ) -> BoxFuture<'a, Result<(), RunError>> {
        let _nothing = (run, persona, tier);
        Box::pin(ready(Ok(())))
    }
    /// Restores the files that an agent has changed, notifies the owner, and returns their paths.
    fn release<'a>(
        &'a self,
        run: &'a ClaimedRun,
        persona: &'a Persona,
    ) -> BoxFuture<'a, Result<Vec<String>, RunError>> {
        let _nothing = (run, persona);
        Box::pin(ready(Ok(Vec::new())))
    }
    /// Executes a call that the tool policy has permitted. Its effect commits with its result,
    /// which is the caller's to commit.
    fn call<'a>(
        &'a self,
        ctx: &'a ToolCallContext<'_>,
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
    /// Tokens from which each step's share is computed.
    pub allowed_tokens: usize,
    /// Tokens of the whole context.
    pub budget_tokens: usize,
    pub now: Timestamp,
}

/// An assembled context.
pub struct Assembled {
    pub context: Context,
    pub report: ContextReport,
    /// Reads of the assembly.
    pub seen: ReadLog,
}

/// A call of one tool, its arguments checked.
#[derive(Clone, Copy)]
pub struct CallOrder<'a> {
    /// Id of the call in the journal.
    pub id: &'a str,
    pub tool: &'a RegisteredTool,
    pub args: &'a Map<String, Value>,
    pub mail: &'a MailPolicy,
    /// Expected effects of [`Env::expected_effects`], when an earlier attempt began this call.
    pub begun: Option<&'a Value>,
}

/// Inputs of a decision that are not in the rows: the health of the providers, and the time.
pub trait ProviderHealth: Send + Sync {
    /// Admits a call to a provider, or refuses it; a call that `insists` is always admitted. Every
    /// admitted call is followed by [`Self::report`]. Errors: the reason why the provider is
    /// paused, and for how long.
    fn admit(&self, provider: &str, insists: bool) -> Result<(), ProviderError>;
    /// Reports the end of an admitted call; `None`: it tells nothing about the provider.
    fn report(&self, provider: &str, end: Option<Result<(), &ProviderError>>);
    /// Records that a model refuses a parameter.
    fn refused(&self, route: &Route<'_>, parameter: Parameter);
    /// Returns the parameters that requests to this model leave out.
    fn without(&self, route: &Route<'_>) -> Vec<Parameter>;
    /// Returns the working time of this attempt, where `since` is the monotonic time of its
    /// beginning.
    fn worked(&self, since: Duration, moment: Moment) -> Duration;
    /// Returns the number of tool calls, and of failed ones, that came with the last provider call
    /// without being observed in this process; 0 unless replayed.
    fn unwatched(&self) -> (u32, u32);
    /// Waits for that time.
    fn wait(&self, span: Duration) -> BoxFuture<'_, ()>;
}

/// Reason for reading the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the next call of the provider.
    Asking,
    /// A call has ended.
    Answered,
}
