//! `attache mcp list`: every server with its tools, and whether they are as approved.

use super::super::screen::{Columns, one_line};
use super::super::{CommandContext, Exit};
use super::look;
use crate::clock::{Clock, SystemClock};
use crate::config::{McpServer, McpTool};
use crate::mcp_client::{ListedTools, LoginState, McpFailure, PinState, ServerLogin, state_of};
use crate::store::McpToolOff;
use crate::text::visible;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A tool as it is listed.
#[derive(Serialize)]
struct ListedMcpTool {
    server: String,
    /// Name that the server gives it; empty: the server lists none.
    tool: String,
    /// Name that the model calls it by; `None`: it is never offered.
    offered: Option<String>,
    state: &'static str,
    /// Difference, or the reason why the server cannot be asked.
    detail: String,
    /// Login at the server; `None`: it is a program.
    login: Option<LoginState>,
}

pub async fn run(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let off = look::tools_off(context).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut rows = Vec::new();
    for server in &config.mcp {
        let now = look::tools_now(server).await;
        let login = match &server.url {
            Some(_) => Some(ServerLogin::of(server, clock.clone()).state().await),
            None => None,
        };
        rows.extend(of_server(server, &now, &off, login.as_ref()));
    }
    let shown = |row: &ListedMcpTool| {
        vec![
            row.server.clone(),
            visible(&row.tool),
            row.state.to_owned(),
            row.login.as_ref().map(login_text).unwrap_or_default(),
            one_line(&visible(&row.detail)),
        ]
    };
    let columns = Columns::of(&["SERVER", "TOOL", "STATE", "LOGIN", "DETAIL"]).main("DETAIL");
    let nothing = "`configs/mcp.json` names no server";
    context.screen.list(&rows, columns, nothing, shown)?;
    Ok(Exit::Ok)
}

/// Formats a login for a cell.
fn login_text(login: &LoginState) -> String {
    let until = login.expires_at.as_deref().unwrap_or_default();
    // To the minute, as RFC 3339 begins.
    let until = until.get(..16).unwrap_or(until);
    match login.state {
        "none" => "none".to_owned(),
        "over" => "over".to_owned(),
        "logged_in" if until.is_empty() => "yes".to_owned(),
        "logged_in" if !login.renews => format!("until {until}Z"),
        _ => format!("renewed at {until}Z"),
    }
}

fn of_server(
    server: &McpServer,
    now: &Result<ListedTools, McpFailure>,
    off: &[McpToolOff],
    login: Option<&LoginState>,
) -> Vec<ListedMcpTool> {
    let listed = now.as_ref().ok();
    let named = server.tools.keys();
    let found = listed.into_iter().flat_map(ListedTools::keys);
    let names: BTreeSet<&String> = named.chain(found).collect();
    let rows = names.into_iter().map(|name| {
        let tool = server.tools.get(name);
        let is_off = |off: &&McpToolOff| {
            let pin = tool.and_then(|tool| tool.pin.as_ref());
            off.server == server.name
                && off.tool == *name
                && pin.is_some_and(|pin| pin.sha256 == off.pin_sha256)
        };
        let (state, detail) = state(name, tool, now, off.iter().find(is_off));
        ListedMcpTool {
            server: server.name.clone(),
            tool: name.clone(),
            offered: tool.map(|tool| tool.offered.clone()),
            state,
            detail,
            login: login.cloned(),
        }
    });
    rows.collect()
}

fn state(
    name: &str,
    tool: Option<&McpTool>,
    now: &Result<ListedTools, McpFailure>,
    off: Option<&McpToolOff>,
) -> (&'static str, String) {
    let pin = tool.and_then(|tool| tool.pin.as_ref());
    match (now, tool, pin) {
        (Err(failure), ..) => ("unreachable", failure.to_string()),
        (Ok(_), None, _) => (
            "new",
            "not in `configs/mcp.json`, so never offered".to_owned(),
        ),
        (Ok(listed), Some(_), None) if listed.contains_key(name) => ("unapproved", String::new()),
        (Ok(_), Some(_), None) => ("gone", "the server has no such tool".to_owned()),
        (Ok(listed), Some(_), Some(pin)) => match (state_of(name, pin, listed), off) {
            (PinState::Changed(difference), _) => ("changed", difference),
            (PinState::Gone, _) => ("gone", "the server does not list it any more".to_owned()),
            (PinState::Approved, Some(off)) => ("off", off.detail.clone()),
            (PinState::Approved, None) => ("approved", String::new()),
        },
    }
}
