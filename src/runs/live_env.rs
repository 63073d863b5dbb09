//! Run store and environment of a live engine: its store, its folders, its tools.

use super::deps::RunError;
use super::guards::Guards;
use super::run_store::{Answer, Assembled, CallOrder, Env, Order, RunStore};
use super::tool_policy::{self, ToolCallContext, Verdict};
use crate::clock::Clock;
use crate::config::{Persona, Tier};
use crate::context::resolvers::Subject;
use crate::context::resolvers::knowledge::KnowledgeSync;
use crate::context::resolvers::live::Live;
use crate::context::resolvers::reads::{Folders, is_passing, read_text};
use crate::context::{self, Sources};
use crate::domain::{Address, ErrorClass, PersonaId, ThreadId, Withheld};
use crate::store::{
    ClaimedRun, JournalEntry, JournalSoFar, KnownSession, MailReservation, NewCall, NewNotice,
    PersonaStore, RunKey, RunOptionsInForce, Sent, SessionKey, Store, StoredMessage,
    TriggerMessage, Unanswered,
};
use cap_std::fs_utf8::Dir;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;

const PERSONA_TEXT_BYTES_MAX: u64 = 128 * 1024;

/// Environment of the runs of a live engine. Cheap to clone.
#[derive(Clone)]
pub struct LiveEnv {
    store: Store,
    clock: Arc<dyn Clock>,
    /// The workspace as a capability.
    workspace: Arc<Dir>,
    /// Folder of the only persona of a fork, where that is not the workspace's.
    sandbox: Option<Arc<Dir>>,
    /// Files that agents at work may not change, and the number of agents by persona.
    guards: Guards,
    /// Index of knowledge files, kept up to date.
    knowledge: Arc<KnowledgeSync>,
}

impl LiveEnv {
    pub fn new(store: Store, workspace: Dir) -> Self {
        let clock = store.clock().clone();
        Self {
            store,
            clock,
            workspace: Arc::new(workspace),
            sandbox: None,
            guards: Guards::default(),
            knowledge: Arc::default(),
        }
    }

    /// Builds an environment for one persona whose folder is a copy, so that its changes reach no
    /// real memory. Only this folder is given, so nothing else of a workspace can be read or
    /// written.
    pub fn in_sandbox(store: Store, folder: Dir) -> Self {
        let folder = Arc::new(folder);
        let clock = store.clock().clone();
        Self {
            store,
            clock,
            workspace: folder.clone(),
            sandbox: Some(folder),
            guards: Guards::default(),
            knowledge: Arc::default(),
        }
    }

    fn rows(&self, run: &ClaimedRun) -> PersonaStore {
        self.store.persona(&run.persona)
    }

    /// Opens the folder of a persona. Errors: class `Config`, when it is gone.
    fn folder(&self, persona: &PersonaId) -> Result<Dir, RunError> {
        let folder = match &self.sandbox {
            Some(folder) => folder.try_clone(),
            None => self.workspace.open_dir(format!("personas/{persona}")),
        };
        folder.map_err(|error| unread(&format!("folder of persona `{persona}`"), &error))
    }
}

fn unread(what: &str, error: &std::io::Error) -> RunError {
    let message = format!("{what}: {error}");
    match is_passing(error) {
        true => RunError::Machine { message },
        false => RunError::Fatal {
            class: ErrorClass::Config,
            message,
        },
    }
}

fn key(run: &ClaimedRun) -> RunKey {
    RunKey {
        run: run.id.clone(),
        trigger_message: run.trigger_message.clone(),
    }
}

impl RunStore for LiveEnv {
    fn trigger_message<'a>(
        &'a self,
        run: &'a ClaimedRun,
        owners: &'a [Address],
    ) -> Answer<'a, TriggerMessage> {
        Box::pin(async move {
            self.rows(run)
                .trigger_message(&run.trigger_message, owners)
                .await
        })
    }

    fn options_of_run<'a>(&'a self, run: &'a ClaimedRun) -> Answer<'a, RunOptionsInForce> {
        Box::pin(async move { self.rows(run).options_of_run(&run.id).await })
    }

    fn newest_letter<'a>(
        &'a self,
        run: &'a ClaimedRun,
        subject: &'a Subject,
    ) -> Answer<'a, Option<StoredMessage>> {
        Box::pin(async move {
            self.rows(run)
                .newest_letter(&subject.message, &subject.readers)
                .await
        })
    }

    fn journal_so_far<'a>(&'a self, run: &'a ClaimedRun) -> Answer<'a, JournalSoFar> {
        Box::pin(async move { self.rows(run).journal_so_far(&run.id).await })
    }

    fn journal<'a>(
        &'a self,
        run: &'a ClaimedRun,
        entries: Arc<Vec<JournalEntry>>,
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.rows(run).journal(&key(run), entries).await })
    }

    fn file_unasked<'a>(&'a self, run: &'a ClaimedRun, rule: Withheld) -> Answer<'a, ()> {
        Box::pin(async move { self.rows(run).file_unasked(&key(run), rule).await })
    }

    fn emit_notice(&self, notice: NewNotice) -> Answer<'_, ()> {
        Box::pin(async move { self.store.emit_notice(notice).await.map(|_is_new| ()) })
    }

    fn readers_of<'a>(
        &'a self,
        run: &'a ClaimedRun,
        message: &'a StoredMessage,
    ) -> Answer<'a, Vec<String>> {
        Box::pin(async move { self.rows(run).readers_of(message.seq).await })
    }

    fn sent_of_late<'a>(
        &'a self,
        run: &'a ClaimedRun,
        wanted: &'a MailReservation,
        thread: &'a ThreadId,
    ) -> Answer<'a, Sent> {
        Box::pin(async move { self.rows(run).sent_of_late(wanted, thread).await })
    }

    fn mails_so_far<'a>(&'a self, run: &'a ClaimedRun) -> Answer<'a, (u32, bool)> {
        Box::pin(async move { self.rows(run).mails_so_far(&run.id).await })
    }

    fn record_call<'a>(&'a self, run: &'a ClaimedRun, call: NewCall) -> Answer<'a, String> {
        Box::pin(async move { self.rows(run).record_call(&key(run), call).await })
    }

    fn close_calls<'a>(&'a self, run: &'a ClaimedRun, why: Unanswered) -> Answer<'a, ()> {
        Box::pin(async move {
            self.rows(run)
                .close_calls(&run.id, why)
                .await
                .map(|_closed| ())
        })
    }

    fn resumable_session<'a>(
        &'a self,
        run: &'a ClaimedRun,
        key: &'a SessionKey,
    ) -> Answer<'a, Option<KnownSession>> {
        Box::pin(async move { self.rows(run).resumable_session(key).await })
    }

    fn session_seen<'a>(
        &'a self,
        run: &'a ClaimedRun,
        session: &'a SessionKey,
        id: &'a str,
        answered: Option<Option<String>>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let (rows, run) = (self.rows(run), key(run));
            match answered {
                None => rows.session_begun(&run, session, id).await,
                Some(used) => rows.session_answered(&run, session, id, used).await,
            }
        })
    }

    fn session_lost<'a>(
        &'a self,
        run: &'a ClaimedRun,
        thread: &'a ThreadId,
        provider: &'a str,
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.rows(run).session_lost(thread, provider).await })
    }
}

impl Env for LiveEnv {
    fn assemble<'a>(&'a self, order: Order<'a>) -> BoxFuture<'a, Result<Assembled, RunError>> {
        Box::pin(async move {
            let (rows, folder) = (self.rows(order.run), self.folder(&order.run.persona)?);
            if let Err(error) = self
                .knowledge
                .refresh(&rows, &folder, self.clock.as_ref())
                .await
            {
                // An old index is better than a failed run.
                tracing::warn!(persona = %order.run.persona, %error, "knowledge files cannot be indexed");
            }
            let folders = Folders {
                workspace: &self.workspace,
                persona: &folder,
            };
            let left_out = self.knowledge.left_out(&order.run.persona);
            let reads = Live::new(folders, &rows).without(left_out);
            let sources = Sources {
                persona: order.persona,
                reads: &reads,
                subject: order.subject,
                now: order.now,
            };
            let profile = (order.run.profile.as_str(), order.profile);
            let tokens = (order.allowed_tokens, order.budget_tokens);
            let (context, report) = context::assemble(sources, profile, tokens.0, tokens.1).await?;
            Ok(Assembled {
                context,
                report,
                seen: reads.into_seen(),
            })
        })
    }

    fn persona_text(&self, run: &ClaimedRun) -> Result<String, RunError> {
        let folder = self.folder(&run.persona)?;
        match read_text(&folder, "PERSONA.md", PERSONA_TEXT_BYTES_MAX) {
            // A run without its PERSONA.md would act as another persona.
            Err(error) if is_passing(&error) => Err(unread("PERSONA.md", &error)),
            text => Ok(text.ok().flatten().unwrap_or_default()),
        }
    }

    fn guard<'a>(
        &'a self,
        run: &'a ClaimedRun,
        persona: &'a Persona,
        tier: Tier,
    ) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(async move {
            self.guards
                .begin(run, (persona, tier), self.clock.now())
                .await
        })
    }

    fn release<'a>(
        &'a self,
        run: &'a ClaimedRun,
        persona: &'a Persona,
    ) -> BoxFuture<'a, Result<Vec<String>, RunError>> {
        Box::pin(async move { self.guards.end(&self.store, run, persona).await })
    }

    fn expected_effects<'a>(
        &'a self,
        ctx: &'a ToolCallContext<'_>,
        order: CallOrder<'a>,
    ) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            let folder = self.folder(&ctx.run.persona).ok()?;
            tool_policy::expected_effects(ctx, order, &self.rows(ctx.run), &folder).await
        })
    }

    fn call<'a>(
        &'a self,
        ctx: &'a ToolCallContext<'_>,
        order: CallOrder<'a>,
    ) -> BoxFuture<'a, Result<Verdict, RunError>> {
        Box::pin(async move {
            let folder = self.folder(&ctx.run.persona)?;
            tool_policy::carry_out(ctx, order, &self.rows(ctx.run), &folder).await
        })
    }
}
