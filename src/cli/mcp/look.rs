//! Servers as they are now: started or reached, asked for their tools, and left.

use super::super::CommandContext;
use crate::clock::{Clock, SystemClock};
use crate::config::McpServer;
use crate::mcp_client::{ListedTools, McpFailure, McpSession};
use crate::store::McpToolOff;

/// Returns the tools of a server as they are now.
pub async fn tools_now(server: &McpServer) -> Result<ListedTools, McpFailure> {
    let clock = SystemClock::new();
    let mut session = McpSession::begin(server, Box::new(move || clock.new_id())).await?;
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
    Ok(context
        .require_workspace()?
        .join("data/attache.db")
        .is_file())
}
