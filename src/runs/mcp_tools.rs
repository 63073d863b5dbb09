//! Tools of MCP servers that a run is offered: those that are approved and not off when it begins. A run that was told of
//! one keeps it, and a replay offers what was offered then; a call is checked against the server all the same.

use super::checkpoint::{ContextCheckpoint, from_json};
use super::deps::RunDeps;
use super::error::RunError;
use crate::tools::RegisteredTool;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Leaves out the tools that are off. `first_request`: of the run, if an earlier attempt made one.
pub async fn offered(
    deps: &RunDeps,
    tools: Vec<Arc<RegisteredTool>>,
    first_request: Option<&str>,
) -> Result<Vec<Arc<RegisteredTool>>, RunError> {
    let is_of_server = |tool: &RegisteredTool| tool.declaration().capabilities.mcp;
    if !tools.iter().any(|tool| is_of_server(tool)) {
        return Ok(tools);
    }
    let of_record = deps.env.recorded_first_request();
    let recorded = match of_record.as_deref().or(first_request) {
        Some(json) => Some(tools_in(json)?),
        None => None,
    };
    let off = match &recorded {
        Some(_) => BTreeSet::new(),
        None => off(deps).await?,
    };
    let is_offered = |tool: &RegisteredTool| match &recorded {
        Some(recorded) => recorded.contains(tool.name()),
        None => !off.contains(tool.name()),
    };
    Ok(tools
        .into_iter()
        .filter(|tool| !is_of_server(tool) || is_offered(tool))
        .collect())
}

/// Returns the names of the tools in a request.
fn tools_in(first_request_json: &str) -> Result<BTreeSet<String>, RunError> {
    let kept: ContextCheckpoint = from_json(first_request_json)?;
    Ok(kept
        .request
        .tools
        .into_iter()
        .map(|tool| tool.name)
        .collect())
}

/// Returns the names by which the model would call the tools that are off.
async fn off(deps: &RunDeps) -> Result<BTreeSet<String>, RunError> {
    let rows = deps.env.mcp_tools_off().await?;
    let name = |row: &crate::store::McpToolOff| {
        let server = deps
            .config
            .mcp
            .iter()
            .find(|server| server.name == row.server)?;
        let tool = server.tools.get(&row.tool)?;
        let is_pin = tool
            .pin
            .as_ref()
            .is_some_and(|pin| pin.sha256 == row.pin_sha256);
        is_pin.then(|| tool.offered.clone())
    };
    Ok(rows.iter().filter_map(name).collect())
}
