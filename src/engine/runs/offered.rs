//! Tools that a run is offered, of those that it may use: what its letter and its thread have a use for, and of MCP servers
//! what is approved and not off. A run that was offered one keeps it, and a replay offers what was offered then; a call is
//! checked against the server all the same.
//!
//! By need (`"tools": "basic"`), because every tool costs its description in every request. What a thread has used before it is
//! offered again: its requests begin alike, so that the vendor's cache holds.
//!
//! Absent on purpose: what a run may use (`deps.rs`, `label.rs`). To leave a tool out saves tokens and guards nothing.

use super::checkpoint::{ContextCheckpoint, from_json};
use super::deps::RunDeps;
use super::error::RunError;
use super::label::RunLabel;
use crate::config::{Persona, PersonaTools};
use crate::context::resolvers::Subject;
use crate::domain::{RunOptions, Trust};
use crate::store::ClaimedRun;
use crate::tools::{RegisteredTool, SEARCH_EMAIL, ToolNeed};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A run as far as it decides what it is offered.
#[derive(Clone, Copy)]
pub struct ToolsOrder<'a> {
    pub run: &'a ClaimedRun,
    pub persona: &'a Persona,
    pub options: &'a RunOptions,
    pub subject: &'a Subject,
    pub label: &'a RunLabel,
    /// First request of the run, if an earlier attempt made one.
    pub first_request: Option<&'a str>,
}

/// Returns the tools that a run is offered, in the order of the registry.
pub async fn offered(
    deps: &RunDeps,
    order: ToolsOrder<'_>,
) -> Result<Vec<Arc<RegisteredTool>>, RunError> {
    let ToolsOrder {
        run,
        persona,
        options,
        label,
        ..
    } = order;
    let tools = deps.tools(run, persona, options, label);
    // Whoever names a tool wants it offered.
    let by_need = persona.tools == PersonaTools::Basic && options.tools.is_none();
    let is_of_server = |tool: &RegisteredTool| tool.declaration().capabilities.mcp;
    let depends =
        |tool: &RegisteredTool| is_of_server(tool) || (by_need && !tool.needs().is_empty());
    if !tools.iter().any(|tool| depends(tool)) {
        return Ok(tools);
    }
    let of_record = deps.env.recorded_first_request();
    if let Some(json) = of_record.as_deref().or(order.first_request) {
        let recorded = tools_in(json)?;
        let kept = tools.into_iter();
        return Ok(kept
            .filter(|tool| !depends(tool) || recorded.contains(tool.name()))
            .collect());
    }
    let off = match tools.iter().any(|tool| is_of_server(tool)) {
        true => off(deps).await?,
        false => BTreeSet::new(),
    };
    let (met, used) = match by_need {
        true => met(deps, order).await?,
        false => Default::default(),
    };
    let is_needed = |tool: &RegisteredTool| {
        let needs = tool.needs();
        !by_need
            || needs.is_empty()
            || used.contains(tool.name())
            || needs.iter().any(|need| met.contains(need))
    };
    Ok(tools
        .into_iter()
        .filter(|tool| is_needed(tool) && !off.contains(tool.name()))
        .collect())
}

/// Returns the needs that the run's letter and thread meet, and the names of the tools that its thread has used.
async fn met(
    deps: &RunDeps,
    order: ToolsOrder<'_>,
) -> Result<(BTreeSet<ToolNeed>, BTreeSet<String>), RunError> {
    let ToolsOrder {
        run,
        subject,
        label,
        ..
    } = order;
    let facts = deps
        .env
        .thread_facts(run, subject, deps.clock.now())
        .await?;
    let needs = [
        (ToolNeed::Orders, label.sender >= Trust::Owner),
        (ToolNeed::File, facts.has_file),
        (ToolNeed::Invitation, facts.has_invitation),
        (ToolNeed::Entry, facts.has_entry),
        (ToolNeed::Search, facts.used.contains(SEARCH_EMAIL)),
    ];
    let met = needs
        .into_iter()
        .filter_map(|(need, is_met)| is_met.then_some(need));
    Ok((met.collect(), facts.used))
}

/// Returns the names of the tools in a request, and of those that found no room in it.
fn tools_in(first_request_json: &str) -> Result<BTreeSet<String>, RunError> {
    let kept: ContextCheckpoint = from_json(first_request_json)?;
    let offered = kept.request.tools.into_iter().map(|tool| tool.name);
    Ok(offered.chain(kept.unoffered).collect())
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
