//! The engine as a server for other agents: `attache mcp serve` without a run, and `POST /mcp` of the pages. They ask personas, and
//! read what became of it.
//!
//! Nothing here decides what a question may do: it is a run like any other, with the trust that the configuration gives it.
//! Absent on purpose: approvals, changes of anything but questions of their own, and an engine: nothing here works on a run.

use super::agent_access::AgentAccess;
use super::agent_args::{
    AskArgs, ListThreadsArgs, ReadRunArgs, ReadThreadArgs, described, read_args,
};
use super::agent_thread::{ReadableThread, readable_thread};
use crate::clock::Clock;
use crate::config::{AgentReads, AgentTool, Config, Persona};
use crate::domain::{PersonaId, RunId, ThreadId};
use crate::runs::chat::outcome::AskedRun;
use crate::runs::chat::question::{AskedAt, question};
use crate::runs::chat::watch::{RunProgress, RunWatch};
use crate::store::{RunSummary, Store, StoreError, ThreadFilter, ThreadSummary, working_engine};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Longest question, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Longest wait for an answer; the run goes on behind it.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Interval at which a run is looked at.
const GLANCE: Duration = Duration::from_millis(100);
/// Longest silence towards an agent that wants to hear of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// Most questions that one server waits for at a time.
const QUESTIONS_MAX: usize = 4;
/// Most threads of one page.
const THREADS_MAX: u32 = 100;
/// Most pages of the store that are read for one of an agent.
const PAGES_MAX: usize = 50;

/// Reason for the agent why it gets nothing.
type Refusal = String;

/// Server for other agents, with the rights of one.
#[derive(Clone)]
pub struct AgentServer {
    store: Store,
    config: Arc<Config>,
    access: Arc<AgentAccess>,
    waiting: Arc<Semaphore>,
    /// Wakes the engine that is to answer; another process's looks by itself.
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// Answer to a question.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    asked: AskedRun,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// Page of threads.
#[derive(Serialize)]
struct ThreadPage {
    threads: Vec<ThreadSummary>,
    /// `cursor` of the next page; `None`: there is none.
    next: Option<String>,
}

/// A run with its answer.
#[derive(Serialize)]
struct RunWithAnswer {
    #[serde(flatten)]
    run: RunSummary,
    answer: Option<String>,
}

impl AgentServer {
    pub fn new(store: Store, config: Arc<Config>, access: AgentAccess) -> Self {
        Self {
            store,
            config,
            access: Arc::new(access),
            waiting: Arc::new(Semaphore::new(QUESTIONS_MAX)),
            wake: Arc::new(|| {}),
        }
    }

    /// Shares the places of questions with other servers of an engine, and wakes it.
    #[must_use]
    pub fn within(self, waiting: Arc<Semaphore>, wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self {
            waiting,
            wake,
            ..self
        }
    }

    fn asked_at(&self) -> AskedAt<'_> {
        AskedAt::Agent {
            trust: self.access.trust.trust(),
            key: self.access.key.as_deref(),
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<String, Refusal> {
        let args = request.arguments.unwrap_or_default();
        let offered = &self.access.tools;
        let tool = offered.iter().find(|tool| tool.name() == request.name);
        match tool {
            Some(AgentTool::Ask) => json(&self.ask(read_args(args)?, context).await?),
            Some(AgentTool::ListThreads) => json(&self.list_threads(read_args(args)?).await?),
            Some(AgentTool::ReadRun) => self.read_run(&read_args(args)?).await,
            Some(AgentTool::ReadThread) => json(&self.read_thread(read_args(args)?).await?),
            None => {
                let names: Vec<&str> = offered.iter().map(|tool| tool.name()).collect();
                Err(format!("no such tool; there are: {}", names.join(", ")))
            }
        }
    }

    async fn ask(
        &self,
        args: AskArgs,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer, Refusal> {
        let persona = self.persona(&self.access.asks, &args.persona)?;
        if args.text.trim().is_empty() {
            return Err("`text` is empty".to_owned());
        }
        if args.text.len() > TEXT_BYTES_MAX {
            return Err(format!(
                "`text` has {} bytes, and at most {TEXT_BYTES_MAX} are taken",
                args.text.len()
            ));
        }
        let asked_at = self.asked_at();
        let rows = self.store.persona(&persona.id);
        let thread = args.thread.map(ThreadId::new);
        if let Some(thread) = &thread
            && !rows
                .is_asked_at(thread, &asked_at.word())
                .await
                .map_err(unread)?
        {
            return Err(
                "no such thread; an answer to `ask` names the one to go on with".to_owned(),
            );
        }
        if working_engine(&self.config.workspace).is_none() {
            return Err("no engine works here, so nobody would answer; the owner starts it with `attache serve`".to_owned());
        }
        let Ok(_permit) = self.waiting.try_acquire() else {
            return Err(
                "too many questions are waited for; ask again when one is answered".to_owned(),
            );
        };
        let clock = self.store.clock().clone();
        let new = question((persona, asked_at), clock.as_ref(), &args.text, thread);
        let run = new.run.id.clone();
        rows.ask(new).await.map_err(unread)?;
        (self.wake)();
        tracing::info!(%run, persona = %persona.id, "another agent asks");
        self.wait(&persona.id, &run, context).await
    }

    /// Waits for the answer. An agent that cancels its request cancels the run.
    async fn wait(
        &self,
        persona: &PersonaId,
        run: &RunId,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer, Refusal> {
        let rows = self.store.persona(persona);
        let mut watch = RunWatch::new(rows, &self.config.workspace, run);
        let mut progress = Progress::of(context, self.store.clock().as_ref());
        let clock = self.store.clock().clone();
        let until = clock.monotonic() + WAIT_MAX;
        let mut is_cancelled = false;
        loop {
            let asked = AskedRun::of(&self.store, run).await.map_err(unread)?;
            for seen in watch.look().await.map_err(unread)? {
                progress.see(&seen).await;
            }
            progress.keep_alive().await;
            let has_engine = working_engine(&self.config.workspace).is_some();
            if asked.is_settled() || !has_engine || clock.monotonic() >= until {
                let note = match (asked.is_settled(), has_engine) {
                    (true, _) => None,
                    (false, false) => Some("the engine stopped; it answers when it works again"),
                    (false, true) => {
                        Some("it is still worked on; `read_run` tells later what became of it")
                    }
                };
                let asked = asked.for_agent();
                return Ok(Answer { asked, note });
            }
            tokio::select! {
                () = tokio::time::sleep(GLANCE) => {}
                () = context.ct.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    // One that has just ended needs no cancellation.
                    let _ended = self.store.request_cancel(run).await;
                }
            }
        }
    }

    async fn list_threads(&self, args: ListThreadsArgs) -> Result<ThreadPage, Refusal> {
        let persona = self.persona(&self.access.reads_of, &args.persona)?;
        let limit = args.limit.unwrap_or(20);
        if !(1..=THREADS_MAX).contains(&limit) {
            return Err(format!("`limit` is 1 to {THREADS_MAX}"));
        }
        let mut offset: u32 = match args.cursor.as_deref() {
            None => 0,
            Some(cursor) => cursor
                .parse()
                .map_err(|_| "`cursor` is none of ours; leave it out to begin anew".to_owned())?,
        };
        let mut threads = Vec::new();
        // Pages of threads that it may not read are passed over, so many at most that the agent need not wait long.
        for _ in 0..PAGES_MAX {
            let filter = ThreadFilter {
                persona: Some(persona.id.clone()),
                limit: THREADS_MAX,
                offset,
            };
            let found = self.store.list_threads(&filter).await.map_err(unread)?;
            let is_last = found.len() < THREADS_MAX as usize;
            for thread in found {
                if threads.len() == limit as usize {
                    return Ok(ThreadPage {
                        threads,
                        next: Some(offset.to_string()),
                    });
                }
                offset = offset.saturating_add(1);
                if self.may_read(&persona.id, &thread.id).await? {
                    threads.push(thread);
                }
            }
            if is_last {
                return Ok(ThreadPage {
                    threads,
                    next: None,
                });
            }
        }
        Ok(ThreadPage {
            threads,
            next: Some(offset.to_string()),
        })
    }

    async fn read_run(&self, args: &ReadRunArgs) -> Result<String, Refusal> {
        let none = || "no such run; an answer to `ask` names its run".to_owned();
        let id = RunId::new(args.id.as_str());
        let run = match self.store.run_summary(&id).await {
            Err(StoreError::Missing { .. }) => return Err(none()),
            run => run.map_err(unread)?,
        };
        let is_open = self.access.reads_of.contains(&run.persona);
        if !is_open || !self.may_read(&run.persona, &run.thread).await? {
            return Err(none());
        }
        let asked = AskedRun::of(&self.store, &id).await.map_err(unread)?;
        match self.access.reads {
            AgentReads::Asked => json(&asked.for_agent()),
            AgentReads::All => json(&RunWithAnswer {
                run,
                answer: asked.answer,
            }),
        }
    }

    async fn read_thread(&self, args: ReadThreadArgs) -> Result<ReadableThread, Refusal> {
        let none = || "no such thread; `list_threads` shows them".to_owned();
        let id = ThreadId::new(args.id);
        let thread = match self.store.thread_summary(&id).await {
            Err(StoreError::Missing { .. }) => return Err(none()),
            thread => thread.map_err(unread)?,
        };
        let is_open = self.access.reads_of.contains(&thread.persona);
        if !is_open || !self.may_read(&thread.persona, &id).await? {
            return Err(none());
        }
        let rows = self.store.persona(&thread.persona);
        let (reads, limit) = (self.access.reads, args.limit);
        readable_thread(&rows, &id, reads, limit)
            .await
            .map_err(unread)
    }

    async fn may_read(&self, persona: &PersonaId, thread: &ThreadId) -> Result<bool, Refusal> {
        let asked_at = self.asked_at().word();
        let rows = self.store.persona(persona);
        match self.access.reads {
            AgentReads::All => Ok(true),
            AgentReads::Asked => rows.is_asked_at(thread, &asked_at).await.map_err(unread),
        }
    }

    fn persona(&self, open: &[PersonaId], name: &str) -> Result<&Persona, Refusal> {
        let id = open.iter().find(|id| id.as_str() == name);
        let persona = id.and_then(|id| self.config.personas.get(id));
        persona.ok_or_else(|| {
            let names: Vec<&str> = open.iter().map(PersonaId::as_str).collect();
            format!("no such persona; there are: {}", names.join(", "))
        })
    }
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        super::server_config()
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.access.tools.iter();
        Ok(ListToolsResult::with_all_items(
            tools.map(|tool| described(*tool)).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = match self.call(request, &context).await {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(refusal) => CallToolResult::error(vec![ContentBlock::text(refusal)]),
        };
        Ok(result.into())
    }
}

/// Progress of a question, for an agent that wants to hear of it.
struct Progress<'c> {
    context: &'c RequestContext<RoleServer>,
    clock: &'c dyn Clock,
    steps: f64,
    last: Duration,
}

impl<'c> Progress<'c> {
    fn of(context: &'c RequestContext<RoleServer>, clock: &'c dyn Clock) -> Self {
        Self {
            context,
            clock,
            steps: 0.0,
            last: clock.monotonic(),
        }
    }

    async fn see(&mut self, seen: &RunProgress) {
        if let RunProgress::Called { tool, .. } = seen {
            self.send(&format!("calls {tool}")).await;
        }
    }

    async fn keep_alive(&mut self) {
        if self.clock.monotonic().saturating_sub(self.last) >= PROGRESS_EVERY {
            self.send("works on it").await;
        }
    }

    async fn send(&mut self, message: &str) {
        let Some(token) = self.context.meta.get_progress_token() else {
            return;
        };
        self.steps += 1.0;
        self.last = self.clock.monotonic();
        let param = ProgressNotificationParam::new(token, self.steps).with_message(message);
        // An agent that is gone hears nothing.
        let _gone = self.context.peer.notify_progress(param).await;
    }
}

/// Formats a value as commands print it under `--json`.
fn json(value: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string_pretty(value).map_err(|_| "it cannot be written as JSON".to_owned())
}

/// A failure of our database is in the log only.
fn unread(error: StoreError) -> Refusal {
    tracing::warn!(%error, "an agent got no answer");
    "the database of the engine cannot be used at the moment".to_owned()
}
