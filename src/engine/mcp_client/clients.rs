//! Sessions with servers: one for each run and server, begun at the first call and ended with the run. Before each call the
//! server lists its tools, and what is not as approved goes off.

use super::failure::McpFailure;
use super::pin::state_of;
use super::session::{ListedTools, McpSession};
use super::{answer, files};
use crate::config::{ApprovedTool, McpServer};
use crate::domain::{NoticeId, NoticeKind, NoticeSubject, RunId};
use crate::mutants::is_off;
use crate::store::{NewMcpToolOff, NewNotice, Store, StoreError};
use crate::tools::{McpCall, McpResult, McpServers, ToolError};
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::spawn_blocking;

/// Failures in a row after which a server is left alone for a while.
const FAILURES_MAX: u32 = 3;
/// That while.
const REST: Duration = Duration::from_secs(600);

/// Session of a run with a server; `None`: not begun, or in use by a call.
type Slot = Arc<AsyncMutex<Option<McpSession>>>;

/// Way to all servers.
pub struct McpClients {
    store: Store,
    /// By run and name of the server.
    sessions: Mutex<BTreeMap<(String, String), Slot>>,
    /// By name of the server.
    failures: Mutex<BTreeMap<String, Failures>>,
}

/// Failures of a server since it last answered.
#[derive(Default)]
struct Failures {
    in_a_row: u32,
    /// Monotonic time until which it is left alone.
    rests_until: Option<Duration>,
}

impl McpServers for McpClients {
    fn call<'a>(&'a self, call: McpCall<'a>) -> BoxFuture<'a, Result<McpResult, ToolError>> {
        Box::pin(self.called(call))
    }
}

impl McpClients {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            sessions: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// Ends the sessions of a run; nothing of their programs is left.
    pub async fn close(&self, run: &RunId) {
        let slots: Vec<Slot> = {
            let mut sessions = locked(&self.sessions);
            let of_run = sessions.keys().filter(|(of, _)| of == run.as_str());
            let of_run: Vec<_> = of_run.cloned().collect();
            of_run
                .iter()
                .filter_map(|key| sessions.remove(key))
                .collect()
        };
        for slot in slots {
            if let Some(session) = slot.lock().await.take() {
                session.close().await;
            }
        }
    }

    async fn called(&self, call: McpCall<'_>) -> Result<McpResult, ToolError> {
        let server = call.server;
        let tool = server.tools.get(call.tool);
        let Some(approved) = tool.and_then(|tool| tool.pin.as_ref()) else {
            return Err(off());
        };
        if self.rests(&server.name) {
            let hint = "the server failed several times in a row and is left alone for some minutes; finish without it";
            return Err(ToolError::mendable("server_resting", hint));
        }
        let slot = self.slot(call.run, &server.name);
        // Out of its slot while it is used: a call that is dropped half-way ends the session with it.
        let mut kept = slot.lock().await;
        let ready = self.ready(server, kept.take()).await;
        let (mut session, listed) = match ready {
            Ok(ready) => ready,
            Err(failure) => return Err(self.failed(server, &failure, false).await?),
        };
        let is_approved = self.is_approved(&call, approved, &listed).await;
        if !matches!(is_approved, Ok(true)) {
            *kept = Some(session);
            return Err(is_approved.err().map_or_else(off, ToolError::from));
        }
        match session.call(call.tool, call.args, call.within).await {
            Err(failure) => {
                session.close().await;
                Err(self.failed(server, &failure, true).await?)
            }
            Ok(said) => {
                *kept = Some(session);
                locked(&self.failures).remove(&server.name);
                let read = match said {
                    Err(said) => return Ok(answer::failed(&said)),
                    Ok(result) => {
                        answer::read(&result, &approved.definition, call.result_bytes_max)
                    }
                };
                match read {
                    Ok(result) => Ok(result),
                    Err(why) => Err(self.broke_schema(&call, approved, why).await?),
                }
            }
        }
    }

    /// Returns a session and the tools that its server lists now. A session that ended since the last call is begun anew:
    /// nothing was called in between.
    async fn ready(
        &self,
        server: &McpServer,
        kept: Option<McpSession>,
    ) -> Result<(McpSession, ListedTools), McpFailure> {
        if let Some(mut session) = kept {
            match session.tools().await {
                Ok(listed) => return Ok((session, listed)),
                Err(failure) => {
                    tracing::info!(server = server.name, %failure, "a session with an MCP server ended");
                    session.close().await;
                }
            }
        }
        let pinned = server.clone();
        let changed = spawn_blocking(move || files::changed(&pinned)).await;
        let changed = changed.unwrap_or_else(|error| Some(error.to_string()));
        if let Some(changed) = changed.filter(|_| !is_off("G23")) {
            return Err(McpFailure::FilesChanged(changed));
        }
        let clock = self.store.clock().clone();
        let mut session = McpSession::begin(server, clock).await?;
        match session.tools().await {
            Ok(listed) => Ok((session, listed)),
            Err(failure) => {
                session.close().await;
                Err(failure)
            }
        }
    }

    /// Switches off every tool of the server that is not as approved, and reports whether the one that is called may be.
    async fn is_approved(
        &self,
        call: &McpCall<'_>,
        approved: &ApprovedTool,
        listed: &ListedTools,
    ) -> Result<bool, StoreError> {
        if is_off("G23") {
            return Ok(true);
        }
        let server = call.server;
        let pinned = server.tools.iter();
        let pinned = pinned.filter_map(|(name, tool)| Some((name, tool.pin.as_ref()?)));
        let found = pinned.filter_map(|(name, pin)| {
            let (reason, detail) = state_of(name, pin, listed).reason()?;
            Some(tool_off(server, name, pin, reason, detail))
        });
        let found: Vec<NewMcpToolOff> = found.collect();
        if !found.is_empty() {
            self.store.switch_off_mcp_tools(found).await?;
        }
        // What was off before stays off until its owner approves it, also if its server has changed it back.
        let off = self.store.mcp_tools_off().await?;
        let is_it = |off: &crate::store::McpToolOff| {
            off.server == server.name && off.tool == call.tool && off.pin_sha256 == approved.sha256
        };
        Ok(!off.iter().any(is_it))
    }

    async fn broke_schema(
        &self,
        call: &McpCall<'_>,
        approved: &ApprovedTool,
        why: String,
    ) -> Result<ToolError, StoreError> {
        let off = tool_off(call.server, call.tool, approved, "broke_schema", why);
        self.store.switch_off_mcp_tools(vec![off]).await?;
        let hint = "the tool was called, and its answer is not of the form that your owner approved, so it is thrown away and \
             the tool is off; finish without it";
        Ok(ToolError::mendable("tool_off", hint))
    }

    /// Counts a failure and tells the owner; returns what the model reads.
    async fn failed(
        &self,
        server: &McpServer,
        failure: &McpFailure,
        called: bool,
    ) -> Result<ToolError, StoreError> {
        tracing::warn!(server = server.name, %failure, "an MCP server failed");
        if let McpFailure::FilesChanged(what) = failure {
            let off = server.tools.iter().filter_map(|(name, tool)| {
                let pin = tool.pin.as_ref()?;
                Some(tool_off(server, name, pin, "program_changed", what.clone()))
            });
            self.store.switch_off_mcp_tools(off.collect()).await?;
            return Ok(off_of_program());
        }
        // After a login it is asked again at once.
        if !matches!(failure, McpFailure::LoginNeeded(_)) {
            let now = self.store.clock().monotonic();
            let mut failures = locked(&self.failures);
            let failures = failures.entry(server.name.clone()).or_default();
            failures.in_a_row += 1;
            failures.rests_until = (failures.in_a_row >= FAILURES_MAX).then(|| now + REST);
        }
        self.store.emit_notice(self.notice(server, failure)).await?;
        Ok(failure.for_model(called))
    }

    /// Builds the notice about a server that failed; once a day for each.
    fn notice(&self, server: &McpServer, failure: &McpFailure) -> NewNotice {
        let clock = self.store.clock();
        let today = clock.now().to_string();
        let name = &server.name;
        let (occurrence, summary, hint) = match failure {
            McpFailure::LoginNeeded(why) => (
                format!("{} login", &today[..10]),
                format!("the MCP server `{name}` wants a login, so its tools fail: {why}"),
                format!("`attache mcp login {name}` logs in; no restart is needed"),
            ),
            failure => (
                today[..10].to_owned(),
                format!(
                    "the MCP server `{name}` failed: {failure}; after {FAILURES_MAX} failures in a row it is left alone for {} minutes",
                    REST.as_secs() / 60
                ),
                format!(
                    "`attache mcp list` shows whether it can be reached; the engine's log has what it wrote to standard error; \
                     take `{name}` out of `configs/mcp.json` to do without it"
                ),
            ),
        };
        NewNotice {
            id: NoticeId::new(clock.new_id()),
            persona: None,
            kind: NoticeKind::McpServerFailed,
            detail: server.name.clone(),
            subject: NoticeSubject::McpServer,
            subject_id: server.name.clone(),
            occurrence,
            summary,
            hint,
        }
    }

    fn rests(&self, server: &str) -> bool {
        let now = self.store.clock().monotonic();
        let until = locked(&self.failures)
            .get(server)
            .and_then(|failures| failures.rests_until);
        until.is_some_and(|until| now < until)
    }

    fn slot(&self, run: &RunId, server: &str) -> Slot {
        let key = (run.as_str().to_owned(), server.to_owned());
        locked(&self.sessions).entry(key).or_default().clone()
    }
}

fn tool_off(
    server: &McpServer,
    name: &str,
    approved: &ApprovedTool,
    reason: &'static str,
    detail: String,
) -> NewMcpToolOff {
    NewMcpToolOff {
        server: server.name.clone(),
        tool: name.to_owned(),
        pin_sha256: approved.sha256.clone(),
        reason,
        detail,
    }
}

fn off() -> ToolError {
    let hint = "the tool is not as your owner approved it, so it is off and was not called; finish without it";
    ToolError::mendable("tool_off", hint)
}

fn off_of_program() -> ToolError {
    let hint = "the server is not the program that your owner approved, so it was not started; finish without it";
    ToolError::mendable("tool_off", hint)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
