//! Servers as they are now: started or reached, asked for their tools, and left.

use super::super::{CommandContext, Exit, Failure};
use crate::clock::SystemClock;
use crate::config::{Config, MCP_FILE, McpServer};
use crate::mcp_client::{ListedTools, McpFailure, McpSession};
use crate::store::{DatabasePlace, McpToolOff};
use std::sync::Arc;

/// Finds a server by its name.
pub fn server<'c>(config: &'c Config, name: &str) -> Result<&'c McpServer, Failure> {
    let found = config.mcp.iter().find(|server| server.name == name);
    found.ok_or_else(|| {
        let what = format!("`{MCP_FILE}` names no server `{name}`");
        Failure::new(Exit::NoInput, what).hint("`attache mcp list` shows them")
    })
}

/// Returns the tools of a server as they are now.
pub async fn tools_now(server: &McpServer) -> Result<ListedTools, McpFailure> {
    let clock = Arc::new(SystemClock::new());
    let mut session = McpSession::begin(server, clock).await?;
    let listed = session.tools().await;
    session.close().await;
    listed
}

/// Returns the tools that are off; none where there is no database yet.
pub async fn tools_off(context: &CommandContext) -> anyhow::Result<Vec<McpToolOff>> {
    if !has_database(context)? {
        return Ok(Vec::new());
    }
    Ok(context.shared_store().await?.mcp_tools_off().await?)
}

pub fn has_database(context: &CommandContext) -> anyhow::Result<bool> {
    Ok(DatabasePlace::of(context.require_workspace()?)?.is_made())
}
