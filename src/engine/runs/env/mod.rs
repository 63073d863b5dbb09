//! Environment of a run: the rows that it reads, the journal that it commits to, the files and the
//! tools. A live run has the engine's; a fork reads the engine's and keeps a journal of its own; a
//! recorded run has its record, which cannot write, call or mail.

mod commands;
pub mod file_guards;
pub mod live;
mod pdf_files;
mod servers;

use self::file_guards::{AgentChanges, GuardOrder};
use self::live::LiveEnv;
use super::chat::answer_stream::AnswerStream;
use super::error::RunError;
use super::tool_calls::execution::CallOrder;
use super::tool_calls::verdict::{JudgedCall, ToolVerdict};
use crate::config::{ContextProfile, Persona};
use crate::context::resolvers::Subject;
use crate::context::resolvers::record::ReadLog;
use crate::context::{Context, ContextReport, SpareTools};
use crate::domain::{Address, ErrorClass, RunState, StopReason, ThreadId, Timestamp, Withheld};
use crate::policy::PolicyRule;
use crate::store::files::workspace::WorkspaceQuota;
use crate::store::{
    ClaimedRun, HookCall, JournalEntry, JournalSoFar, KnownSession, LinkedLetter, MailReservation,
    NewCall, NewNotice, RunFinished, RunOptionsInForce, Sent, SessionKey, Step, StoreError,
    StoredMessage, TriggerMessage, Unanswered,
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Stored<T> = Result<T, StoreError>;

/// Environment of a run.
pub enum RunEnv {
    Live(Box<LiveEnv>),
    Fork(Box<ForkEnv>),
    Recorded(Arc<dyn RecordedRun>),
}

/// Environment of a fork: the engine's rows, a copy of the persona's folder, and a journal of its
/// own.
pub struct ForkEnv {
    pub live: LiveEnv,
    /// Options of the original run, without the fork's changes.
    pub run_options: RunOptionsInForce,
    /// Journal of the original run before the fork.
    pub past: JournalSoFar,
    pub journal: Arc<dyn ForkJournal>,
}

/// Journal of a fork. The rows of its original run are not written.
pub trait ForkJournal: Send + Sync {
    fn commit<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Stored<()>>;
}

/// Record of a run, which answers in place of the store, the folder and the tools, and notes where
/// the run differs from it.
pub trait RecordedRun: Send + Sync {
    fn subject(&self) -> Option<Subject>;
    fn run_options(&self) -> RunOptionsInForce;
    /// Returns what the attempts before the recorded one committed.
    fn journal_so_far(&self) -> JournalSoFar;
    /// Compares entries with the record.
    fn commit(&self, entries: &[JournalEntry]) -> Stored<()>;
    /// Returns the recorded recipients of the run's answer into a thread.
    fn recipients(&self) -> Vec<String>;
    /// Returns the session that the next call to an agent resumed.
    fn session(&self) -> Option<KnownSession>;
    fn assemble<'a>(
        &'a self,
        order: ContextOrder<'a>,
    ) -> BoxFuture<'a, Result<AssembledRun, RunError>>;
    /// Reports whether commands could be run.
    fn runs_commands(&self) -> bool;
    /// Returns the payload that was recorded with a call.
    fn call_payload(&self, call: &str) -> Option<Value>;
    fn result(&self, call: &str) -> Option<String>;
    /// Returns the recorded first request.
    fn first_request(&self) -> Option<String>;
    /// Notes a difference and returns the error that ends the replay.
    fn differs(&self, cause: &str, recorded: &str, replayed: &str) -> StoreError;
}

/// A context to be assembled.
#[derive(Clone, Copy)]
pub struct ContextOrder<'a> {
    pub run: &'a ClaimedRun,
    pub persona: &'a Persona,
    pub subject: &'a Subject,
    pub profile: &'a ContextProfile,
    /// Tokens from which each step's share is computed.
    pub allowed_tokens: usize,
    /// Tokens of the whole context, were no tool of `spare` offered.
    pub budget_tokens: usize,
    /// Tools that may go for the sake of the context.
    pub spare: &'a SpareTools,
    pub now: Timestamp,
}

/// What was recorded with a call before it began.
pub struct RecordedPayload {
    pub expected: Option<Value>,
    pub judged: Option<JudgedCall>,
}

/// An assembled context.
pub struct AssembledRun {
    pub context: Context,
    pub report: ContextReport,
    /// Tools of [`ContextOrder::spare`] that are to be offered no longer.
    pub unoffered: Vec<String>,
    /// Reads of the assembly.
    pub seen: ReadLog,
}

/// Rows and journal.
///
/// [`RunEnv::journal`] is the only way to commit a run's turns, steps, mails and end: all entries
/// of one call or none. Its order is what makes a run survive a crash. An error ends the attempt,
/// except [`StoreError::BudgetExhausted`].
impl RunEnv {
    /// Returns the rows and the folder of a run that has them; `Err` is the record of one that has
    /// not.
    fn live(&self) -> Result<&LiveEnv, &dyn RecordedRun> {
        match self {
            RunEnv::Live(live) => Ok(live),
            RunEnv::Fork(fork) => Ok(&fork.live),
            RunEnv::Recorded(record) => Err(record.as_ref()),
        }
    }
    /// Returns the message that the run answers; `owners` may read everything, whenever they joined
    /// its thread.
    pub async fn trigger_message(
        &self,
        run: &ClaimedRun,
        owners: &[Address],
    ) -> Stored<TriggerMessage> {
        match self.live() {
            Ok(live) => {
                let rows = live.rows(run);
                rows.trigger_message(&run.trigger_message, owners).await
            }
            Err(record) => {
                let missing = || StoreError::Missing {
                    kind: "context",
                    id: run.id.to_string(),
                };
                let subject = record.subject().ok_or_else(missing)?;
                Ok(TriggerMessage {
                    message: subject.message,
                    attachments: subject.attachments,
                    files: subject.files,
                    readers: subject.readers,
                    has_past: subject.has_past,
                    // The model was asked, so no limit was reached.
                    sent: Sent::default(),
                })
            }
        }
    }

    /// Returns the options of the run.
    pub async fn options_of_run(&self, run: &ClaimedRun) -> Stored<RunOptionsInForce> {
        match self {
            RunEnv::Live(live) => live.rows(run).options_of_run(&run.id, run.trigger).await,
            RunEnv::Fork(fork) => Ok(fork.run_options.clone()),
            RunEnv::Recorded(record) => Ok(record.run_options()),
        }
    }

    /// Returns the newest letter that the run can see in its thread and that may be answered.
    pub async fn newest_letter(
        &self,
        run: &ClaimedRun,
        subject: &Subject,
    ) -> Stored<Option<StoredMessage>> {
        match self.live() {
            Ok(live) => {
                let rows = live.rows(run);
                rows.newest_letter(&subject.message, &subject.readers).await
            }
            // Only for the delivery of a mail, of which only the text is compared.
            Err(_) => Ok(None),
        }
    }

    /// Returns what earlier attempts of the run committed.
    pub async fn journal_so_far(&self, run: &ClaimedRun) -> Stored<JournalSoFar> {
        match self {
            RunEnv::Live(live) => live.rows(run).journal_so_far(&run.id).await,
            RunEnv::Fork(fork) => Ok(fork.past.clone()),
            RunEnv::Recorded(record) => Ok(record.journal_so_far()),
        }
    }

    /// Returns the letters in the run's thread and its steps so far, to look for links in.
    pub async fn read_so_far(&self, run: &ClaimedRun) -> Stored<(Vec<LinkedLetter>, Vec<Step>)> {
        match self.live() {
            Ok(live) => {
                let rows = live.rows(run);
                let letters = rows.thread_links(&run.trigger_message).await?;
                Ok((letters, rows.steps_of_run(&run.id).await?))
            }
            // A recorded call is not decided on again.
            Err(_) => Ok((Vec::new(), Vec::new())),
        }
    }

    pub async fn journal(&self, run: &ClaimedRun, entries: Arc<Vec<JournalEntry>>) -> Stored<()> {
        match self {
            RunEnv::Live(live) => live.rows(run).journal(&live::key(run), entries).await,
            RunEnv::Fork(fork) => fork.journal.commit(&entries).await,
            RunEnv::Recorded(record) => record.commit(&entries),
        }
    }

    /// Files the letter of a run by a rule, without asking the model, and ends the run.
    pub async fn file_unasked(&self, run: &ClaimedRun, rule: Withheld) -> Stored<()> {
        match self {
            RunEnv::Live(live) => live.rows(run).file_unasked(&live::key(run), rule).await,
            RunEnv::Fork(fork) => {
                let end = JournalEntry::Finished(RunFinished {
                    state: RunState::Cancelled,
                    stop_reason: StopReason::RateLimited,
                    error: Some((ErrorClass::Cancelled, format!("filed: {rule}"))),
                });
                fork.journal.commit(&[end]).await
            }
            RunEnv::Recorded(record) => {
                let cause = "engine: the model is not asked";
                Err(record.differs(cause, "a request", rule.as_str()))
            }
        }
    }

    /// Emits a notice to the owner; of live runs only, because an operator reads the end of others.
    pub async fn emit_notice(&self, notice: NewNotice) -> Stored<()> {
        match self {
            RunEnv::Live(live) => live.store.emit_notice(notice).await.map(|_is_new| ()),
            RunEnv::Fork(_) | RunEnv::Recorded(_) => Ok(()),
        }
    }

    /// Returns the keys of the thread's readers who may read a message.
    pub async fn readers_of(
        &self,
        run: &ClaimedRun,
        message: &StoredMessage,
    ) -> Stored<Vec<String>> {
        match self.live() {
            Ok(live) => live.rows(run).readers_of(message.seq).await,
            // For tools, whose results are known, and for an answer into a thread.
            Err(record) => Ok(record.recipients()),
        }
    }

    /// Returns the number of recent mails to these recipients, and in this thread. A mail of a fork
    /// reaches no recipient, and today's limits are no part of a record.
    pub async fn sent_of_late(
        &self,
        run: &ClaimedRun,
        wanted: &MailReservation,
        thread: &ThreadId,
    ) -> Stored<Sent> {
        match self {
            RunEnv::Live(live) => live.rows(run).sent_of_late(wanted, thread).await,
            RunEnv::Fork(_) | RunEnv::Recorded(_) => Ok(Sent::default()),
        }
    }
}

/// Calls and sessions of agents. Agents are not forked, and a recorded agent does nothing.
impl RunEnv {
    /// Returns the number of mails that the run has sent, and whether one of them answered the
    /// trigger.
    pub async fn mails_so_far(&self, run: &ClaimedRun) -> Stored<(u32, bool)> {
        match self {
            RunEnv::Live(live) => live.rows(run).mails_so_far(&run.id).await,
            RunEnv::Fork(_) | RunEnv::Recorded(_) => Ok((0, false)),
        }
    }

    /// Records a call of an agent's and returns its id.
    pub async fn record_call(&self, run: &ClaimedRun, call: NewCall) -> Stored<String> {
        match self {
            RunEnv::Live(live) => live.rows(run).record_call(&live::key(run), call).await,
            RunEnv::Fork(_) => Err(StoreError::Closed),
            RunEnv::Recorded(record) => {
                let cause = "engine: an agent is watched that does not work";
                Err(record.differs(cause, "nothing", "a call"))
            }
        }
    }

    /// Closes every open call of an agent's with a result.
    pub async fn close_calls(&self, run: &ClaimedRun, why: Unanswered) -> Stored<()> {
        match self {
            RunEnv::Live(live) => {
                let closed = live.rows(run).close_calls(&run.id, why).await;
                closed.map(|_closed| ())
            }
            RunEnv::Fork(_) | RunEnv::Recorded(_) => Ok(()),
        }
    }

    /// Returns the session that the next call to an agent resumes.
    pub async fn resumable_session(
        &self,
        run: &ClaimedRun,
        key: &SessionKey,
    ) -> Stored<Option<KnownSession>> {
        match self {
            RunEnv::Live(live) => live.rows(run).resumable_session(key).await,
            RunEnv::Fork(_) => Ok(None),
            RunEnv::Recorded(record) => Ok(record.session()),
        }
    }

    /// Records an agent's session; `answered`: the agent has answered in it, with this usage as
    /// JSON.
    pub async fn session_seen(
        &self,
        run: &ClaimedRun,
        session: &SessionKey,
        id: &str,
        answered: Option<Option<String>>,
    ) -> Stored<()> {
        let RunEnv::Live(live) = self else {
            return Ok(());
        };
        let (rows, run) = (live.rows(run), live::key(run));
        match answered {
            None => rows.session_begun(&run, session, id).await,
            Some(used) => rows.session_answered(&run, session, id, used).await,
        }
    }

    /// Drops a session of this thread that the agent does not know any more.
    pub async fn session_lost(
        &self,
        run: &ClaimedRun,
        thread: &ThreadId,
        provider: &str,
    ) -> Stored<()> {
        match self {
            RunEnv::Live(live) => live.rows(run).session_lost(thread, provider).await,
            RunEnv::Fork(_) | RunEnv::Recorded(_) => Ok(()),
        }
    }
}

/// Files and tools.
impl RunEnv {
    /// Assembles the context of a run.
    pub async fn assemble(&self, order: ContextOrder<'_>) -> Result<AssembledRun, RunError> {
        match self.live() {
            Ok(live) => live.assemble(order).await,
            Err(record) => record.assemble(order).await,
        }
    }

    /// Returns the text of `PERSONA.md`; empty when there is none.
    pub fn persona_text(&self, run: &ClaimedRun) -> Result<String, RunError> {
        match self.live() {
            Ok(live) => live.persona_text(run),
            // For the key of a session, which the record has.
            Err(_) => Ok(String::new()),
        }
    }

    /// Returns the expected effects of a call, which are recorded before it begins, so that its
    /// outcome can be verified after a crash; `None` for tools that may simply be run again.
    pub async fn expected_effects(&self, order: &CallOrder<'_>) -> Option<Value> {
        match self.live() {
            Ok(live) => live.expected_effects(order).await,
            Err(_) => self.recorded_call(order.id)?.expected,
        }
    }

    /// Returns what was recorded with a call before it began; `None` for a run that is no record, and for a call that the
    /// record does not have.
    pub fn recorded_call(&self, call: &str) -> Option<RecordedPayload> {
        match self.live() {
            Ok(_) => None,
            Err(record) => {
                let payload = record.call_payload(call)?;
                let judged = payload.get("policy").cloned();
                Some(RecordedPayload {
                    expected: payload.get("begun").cloned(),
                    judged: judged.and_then(|judged| serde_json::from_value(judged).ok()),
                })
            }
        }
    }

    /// Returns where the answers of a run show while they are made; nowhere, unless somebody may be waiting for them.
    pub fn answer_stream(&self, run: &ClaimedRun) -> AnswerStream {
        match self {
            RunEnv::Live(live) => live.answer_stream(run),
            RunEnv::Fork(_) | RunEnv::Recorded(_) => AnswerStream::default(),
        }
    }

    /// Reports whether the run is a record that is executed again.
    pub fn is_recorded(&self) -> bool {
        matches!(self, RunEnv::Recorded(_))
    }

    /// Reports whether hooks are asked: not for a record, and not for a fork, which has no effects.
    pub fn has_hooks(&self) -> bool {
        matches!(self, RunEnv::Live(_))
    }

    /// Records the answer of a hook.
    pub async fn record_hook(&self, run: &ClaimedRun, call: HookCall) -> Stored<()> {
        let RunEnv::Live(live) = self else {
            return Ok(());
        };
        live.rows(run).record_hook(&live::key(run), call).await
    }

    /// Reports whether an owner can be asked. A fork asks nobody: what it sends are drafts in its own record.
    pub fn asks_owner(&self) -> bool {
        matches!(self, RunEnv::Live(_))
    }

    /// Returns those of the rules that have decided as many calls as they may.
    pub async fn rules_used_up<'r>(
        &self,
        rules: impl Iterator<Item = &'r PolicyRule>,
    ) -> Stored<BTreeSet<String>> {
        let bounded: BTreeMap<&str, u64> = rules
            .filter_map(|rule| Some((rule.id.as_str(), rule.uses_max?)))
            .collect();
        let Ok(live) = self.live() else {
            return Ok(BTreeSet::new());
        };
        let names: Vec<&str> = bounded.keys().copied().collect();
        let uses = live.store.policy_uses(&names).await?;
        let used_up = uses
            .into_iter()
            .filter(|(rule, uses)| bounded.get(rule.as_str()).is_some_and(|max| uses >= max));
        Ok(used_up.map(|(rule, _)| rule).collect())
    }

    /// Counts a call that a rule decides; `false`: it has decided as many as it may. A fork counts nothing.
    pub async fn use_rule(&self, rule: &str, uses_max: u64) -> Stored<bool> {
        match self {
            RunEnv::Live(live) => live.store.use_rule(rule, uses_max).await,
            RunEnv::Fork(_) | RunEnv::Recorded(_) => Ok(true),
        }
    }

    /// Executes a call that the tool policy has permitted. Its effect commits with its result,
    /// which is the caller's to commit.
    pub async fn call(&self, order: &CallOrder<'_>) -> Result<ToolVerdict, RunError> {
        match self.live() {
            Ok(live) => live.call(order).await,
            // Without a result the attempt was interrupted in this call.
            Err(record) => match record.result(order.id) {
                Some(payload) => Ok(ToolVerdict::Known(payload)),
                None => Err(StoreError::Closed.into()),
            },
        }
    }

    /// Copies the files that no agent may change, before an agent works in this folder below the
    /// persona's. Every call is followed by [`Self::release`].
    pub async fn guard(
        &self,
        run: &ClaimedRun,
        persona: &Persona,
        order: &GuardOrder,
    ) -> Result<(), RunError> {
        match self.live() {
            Ok(live) => live.guard(run, persona, order).await,
            Err(_) => Ok(()),
        }
    }

    /// Restores the files that an agent has changed, notifies the owner, keeps what it changed in
    /// its workspace, and returns all that it must not have done.
    pub async fn release(
        &self,
        run: &ClaimedRun,
        persona: &Persona,
        quota: WorkspaceQuota,
    ) -> Result<AgentChanges, RunError> {
        match self.live() {
            Ok(live) => live.release(run, persona, quota).await,
            Err(_) => Ok(AgentChanges::default()),
        }
    }
}
