//! Our tools for an agent: `attache mcp serve --run ID`, a server of the Model Context Protocol on
//! stdin and stdout.
//!
//! It is a process of its own, which the agent starts and which shares the database with the
//! engine. It has the permissions of the engine's own loop for that run, by the tool policy, and
//! only while the engine works on that run: every write is fenced by the run's state and the
//! engine's epoch.
//!
//! - `service`: the tools of a run, for the agent that works on it
//! - `agent_server`: the engine for other agents; `agent_access`: their rights; `agent_args`: what these may say; `agent_http`: their
//!   requests over HTTP
//! - `agent_reader`: what they read; `agent_thread`: a thread; `agent_reports`: reports of runs, schedule and usage; `agent_resources`:
//!   the same by addresses
//! - `answer_room`: answers with an end; `mail_frame`: words of mail in them
//! - `bounded_input`: input with an end

mod service;
mod agent_server;
mod agent_access;
mod agent_reader;
mod agent_thread;
mod agent_reports;
mod agent_resources;
mod agent_args;
mod agent_http;
mod answer_room;
mod mail_frame;
mod bounded_input;

pub use agent_access::AgentAccess;
pub use agent_http::{REQUEST_BYTES_MAX, answer_request};
pub use agent_server::AgentServer;

use crate::config::{Config, McpServerSettings};
use crate::domain::RunId;
use crate::runs::deps::{DepsError, WorkerDeps};
use crate::runs::error::RunError;
use crate::store::{Store, StoreError};
use bounded_input::BoundedInput;
use rmcp::ServerHandler;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::service::ServerInitializeError;
use service::Toolbox;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// Reason why the tools of a run cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    #[error("cannot offer the tools of this run")]
    Store(#[from] StoreError),
    #[error("cannot offer the tools of this run")]
    WorkerDeps(#[from] DepsError),
    #[error("cannot offer the tools of this run")]
    Run(#[source] RunError),
    #[error("the agent did not begin as the protocol says")]
    Handshake(#[source] Box<ServerInitializeError>),
    #[error("the server of tools broke")]
    Broken(#[source] tokio::task::JoinError),
}

/// Serves on stdin and stdout until the agent closes them.
///
/// `store` is shared with the engine that works on the run. Errors: the run is not being worked on.
pub async fn serve(store: Store, config: Config, run: &RunId) -> Result<(), McpError> {
    let deps = WorkerDeps::without_providers(store, Arc::new(config), Arc::default())?;
    serve_over(rmcp::transport::stdio(), deps, run).await
}

/// Serves other agents on stdin and stdout until the agent closes them. `store` is shared with the engine, if one works.
pub async fn serve_agents(
    store: Store,
    config: Config,
    settings: McpServerSettings,
) -> Result<(), McpError> {
    let server = AgentServer::new(store, Arc::new(config), settings.into());
    let (input, output) = rmcp::transport::stdio();
    serve_pipes(server, (BoundedInput::new(input), output)).await
}

/// Serves the tools of `deps` over any pipes, as [`serve`] does.
pub async fn serve_over<R, W>(pipes: (R, W), deps: WorkerDeps, run: &RunId) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let run = deps.store.running_run(run).await?;
    let toolbox = Toolbox::open(deps, run).await.map_err(McpError::Run)?;
    serve_pipes(toolbox, (BoundedInput::new(pipes.0), pipes.1)).await
}

/// Returns what the server of a run's tools says of itself: it has tools, and nothing else.
fn server_config() -> ServerConfig {
    named(ServerCapabilities::builder().enable_tools().build())
}

/// Returns what the server for other agents says of itself.
fn agents_server_config() -> ServerConfig {
    let capabilities = ServerCapabilities::builder().enable_tools();
    named(capabilities.enable_resources().build())
}

fn named(capabilities: ServerCapabilities) -> ServerConfig {
    let server = Implementation::new("attache", env!("CARGO_PKG_VERSION"));
    ServerConfig::new(capabilities).with_server_info(server)
}

async fn serve_pipes<S, R, W>(handler: S, pipes: (R, W)) -> Result<(), McpError>
where
    S: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let server = match rmcp::serve_server(handler, pipes).await {
        Ok(server) => server,
        // Agents start servers that they then do not need.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(McpError::Handshake(Box::new(error))),
    };
    server
        .waiting()
        .await
        .map(|_reason| ())
        .map_err(McpError::Broken)
}
