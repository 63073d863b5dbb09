//! The engine as a server for other agents: `attache mcp serve` without a run, and `POST /mcp` of the pages. They ask personas, and
//! read what became of it.
//!
//! Nothing here decides what a question may do: it is a run like any other, with the trust that the configuration gives it.
//! Absent on purpose: approvals, changes of anything but questions of their own, and an engine: nothing here works on a run.

use super::agent_access::AgentAccess;
use super::agent_args::{AskArgs, described, read_args};
use super::agent_reader::{AgentReader, Refusal, json, unread};
use super::agent_resources;
use crate::clock::Clock;
use crate::config::{AgentTool, Config};
use crate::domain::{PersonaId, RunId, ThreadId};
use crate::runs::chat::outcome::AskedRun;
use crate::runs::chat::question::question;
use crate::runs::chat::watch::{RunProgress, RunWatch};
use crate::store::{Store, working_engine};
use futures_util::future::{BoxFuture, ready};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
    ListResourceTemplatesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
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

/// Server for other agents, with the rights of one.
#[derive(Clone)]
pub struct AgentServer {
    reader: AgentReader,
    waiting: Arc<Semaphore>,
    /// Wakes the engine that is to answer; another process's looks by itself.
    wake: Arc<dyn Fn() + Send + Sync>,
    /// Reports whether the key of the agent is still good.
    is_good: AccessCheck,
}

/// Reports whether an agent may still see an answer that it waits for.
pub type AccessCheck = Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

impl AgentServer {
    pub fn new(store: Store, config: Arc<Config>, access: AgentAccess) -> Self {
        Self {
            reader: AgentReader {
                store,
                config,
                access: Arc::new(access),
            },
            waiting: Arc::new(Semaphore::new(QUESTIONS_MAX)),
            wake: Arc::new(|| {}),
            is_good: Arc::new(|| Box::pin(ready(true))),
        }
    }

    /// Shares the places of questions with other servers of an engine, wakes it, and asks whether a key is still good.
    #[must_use]
    pub fn within(
        self,
        waiting: Arc<Semaphore>,
        wake: Arc<dyn Fn() + Send + Sync>,
        is_good: AccessCheck,
    ) -> Self {
        Self {
            waiting,
            wake,
            is_good,
            ..self
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<String, Refusal> {
        let args = request.arguments.unwrap_or_default();
        let offered = &self.reader.access.tools;
        let tool = offered.iter().find(|tool| tool.name() == request.name);
        let reader = &self.reader;
        match tool {
            Some(AgentTool::Ask) => self.ask(read_args(args)?, context).await,
            Some(AgentTool::ListThreads) => reader.list_threads(read_args(args)?).await,
            Some(AgentTool::ReadRun) => reader.read_run(&read_args(args)?).await,
            Some(AgentTool::ReadThread) => json(&reader.read_thread(&read_args(args)?).await?),
            Some(AgentTool::SearchMail) => reader.search_mail(read_args(args)?).await,
            Some(AgentTool::ListRuns) => reader.list_runs(read_args(args)?).await,
            Some(AgentTool::ExplainRun) => reader.explain_run(&read_args(args)?).await,
            Some(AgentTool::ContextOf) => reader.context_of(&read_args(args)?).await,
            Some(AgentTool::ListSchedule) => reader.list_schedule(&read_args(args)?).await,
            Some(AgentTool::Usage) => reader.usage(&read_args(args)?).await,
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
    ) -> Result<String, Refusal> {
        let AgentReader {
            store,
            config,
            access,
        } = &self.reader;
        let persona = self.reader.persona(&access.asks, &args.persona)?;
        if args.text.trim().is_empty() {
            return Err("`text` is empty".to_owned());
        }
        if args.text.len() > TEXT_BYTES_MAX {
            return Err(format!(
                "`text` has {} bytes, and at most {TEXT_BYTES_MAX} are taken",
                args.text.len()
            ));
        }
        let asked_at = self.reader.asked_at();
        let rows = store.persona(&persona.id);
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
        if working_engine(&config.workspace).is_none() {
            return Err("no engine works here, so nobody would answer; the owner starts it with `attache serve`".to_owned());
        }
        let Ok(_permit) = self.waiting.try_acquire() else {
            return Err(
                "too many questions are waited for; ask again when one is answered".to_owned(),
            );
        };
        let clock = store.clock().clone();
        let new = question(persona, asked_at, clock.as_ref(), &args.text, thread);
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
    ) -> Result<String, Refusal> {
        let AgentReader { store, config, .. } = &self.reader;
        let rows = store.persona(persona);
        let mut watch = RunWatch::new(rows, &config.workspace, run);
        let mut progress = Progress::of(context, store.clock().as_ref());
        let clock = store.clock().clone();
        let until = clock.monotonic() + WAIT_MAX;
        let mut is_cancelled = false;
        loop {
            let asked = AskedRun::of(store, run).await.map_err(unread)?;
            if !(self.is_good)().await {
                return Err(format!(
                    "your key is not good any more; run {run} goes on without you"
                ));
            }
            for seen in watch.look().await.map_err(unread)? {
                progress.see(&seen).await;
            }
            progress.keep_alive().await;
            let has_engine = working_engine(&config.workspace).is_some();
            if asked.is_settled() || !has_engine || clock.monotonic() >= until {
                let note = match (asked.is_settled(), has_engine) {
                    (true, _) => None,
                    (false, false) => Some("the engine stopped; it answers when it works again"),
                    (false, true) => {
                        Some("it is still worked on; `read_run` tells later what became of it")
                    }
                };
                return self.reader.asked_answer(asked.for_agent(), 0, note);
            }
            tokio::select! {
                () = tokio::time::sleep(GLANCE) => {}
                () = context.ct.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    // One that has just ended needs no cancellation.
                    let _ended = store.request_cancel(run).await;
                }
            }
        }
    }
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        super::agents_server_config()
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(agent_resources::templates(&self.reader.access))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = agent_resources::read(&self.reader, &request.uri).await?;
        Ok(read.into())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.reader.access.tools.iter();
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
