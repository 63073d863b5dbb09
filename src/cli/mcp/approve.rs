//! `attache mcp approve NAME`: shows the definitions of a server's tools whole, and pins them.

use super::super::{CommandContext, Exit, Failure, screen};
use super::look;
use crate::clock::{Clock, SystemClock};
use crate::config::{
    MCP_FILE, MCP_LOCK_FILE, McpPins, McpServer, McpServerPin, McpTool, McpToolPin, lock_text,
    write_private,
};
use crate::mcp_client::{ListedTools, pinned_files, unusable};
use crate::text::visible;
use anyhow::Context;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;

pub async fn run(context: &CommandContext, name: &str, yes: bool) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let config = context.config()?;
    let server = look::server(&config, name)?;
    let listed = look::tools_now(server).await.map_err(|failure| {
        let what = format!("the server `{name}` cannot be asked: {failure}");
        Failure::new(Exit::Failed, what).hint("its own words are in the log: `--log info`")
    })?;
    let pinned = server.clone();
    let files = tokio::task::spawn_blocking(move || pinned_files(&pinned)).await??;
    let found = ApprovableTools::of(server, &listed);
    if context.json() {
        context.screen.json(&found.shown(server))?;
    } else {
        found.print(context, server)?;
    }
    if found.usable.is_empty() {
        let what = format!("the server `{name}` has no tool that can be approved");
        return Err(Failure::new(Exit::BadData, what)
            .hint(format!(
                "name its tools in `{MCP_FILE}`; `attache mcp list` shows what it has"
            ))
            .into());
    }
    if !yes && !confirmed()? {
        let failure = Failure::new(Exit::Failed, "nothing was approved");
        return Err(failure.hint("`--yes` approves without asking").into());
    }
    let approved_at = SystemClock::new().now().to_string();
    let tools = found.usable.iter();
    let tools =
        tools.map(|(tool, now)| ((*tool).to_owned(), McpToolPin::of(now, approved_at.clone())));
    let pin = McpServerPin {
        command: server.command.clone(),
        files,
        url: server.url.clone(),
        tools: tools.collect(),
    };
    store(workspace, name, pin)?;
    if look::has_database(context)? {
        context.shared_store().await?.lift_mcp_tools(name).await?;
    }
    if !context.json() {
        screen::remark("approved; in force within seconds");
    }
    Ok(Exit::Ok)
}

/// Tools of a server that `configs/mcp.json` names.
struct ApprovableTools<'a> {
    usable: BTreeMap<&'a str, &'a Value>,
    /// Tools that cannot be approved, and why.
    unusable: Vec<(&'a str, String)>,
}

impl<'a> ApprovableTools<'a> {
    fn of(server: &'a McpServer, listed: &'a ListedTools) -> Self {
        let (mut usable, mut left_out) = (BTreeMap::new(), Vec::new());
        for tool in server.tools.keys() {
            match listed.get(tool).map(Vec::as_slice) {
                Some([now]) => match unusable(now) {
                    None => drop(usable.insert(tool.as_str(), now)),
                    Some(why) => left_out.push((tool.as_str(), why)),
                },
                Some(_) => left_out.push((tool.as_str(), "the server lists it twice".to_owned())),
                None => left_out.push((tool.as_str(), "the server has no such tool".to_owned())),
            }
        }
        Self {
            usable,
            unusable: left_out,
        }
    }

    fn shown(&self, server: &McpServer) -> Value {
        let tools = self.usable.iter().map(|(tool, now)| {
            let declared = &server.tools[*tool];
            json!({ "tool": tool, "offered": declared.offered, "class": declared.class, "effects": declared.effects,
                "definition": now })
        });
        let unusable = self.unusable.iter();
        let unusable = unusable.map(|(tool, why)| json!({ "tool": tool, "why": why }));
        json!({ "server": server.name, "tools": tools.collect::<Vec<_>>(), "unusable": unusable.collect::<Vec<_>>() })
    }

    fn print(&self, context: &CommandContext, server: &McpServer) -> anyhow::Result<()> {
        for (tool, now) in &self.usable {
            for line in described(now, &server.tools[*tool]) {
                context.screen.line(line)?;
            }
            context.screen.line("")?;
        }
        for (tool, why) in &self.unusable {
            context
                .screen
                .line(format!("{}: left out, {}", visible(tool), visible(why)))?;
        }
        Ok(())
    }
}

/// Describes a definition member by member, with nothing hidden.
fn described(now: &Value, declared: &McpTool) -> Vec<String> {
    let effects = json!(declared.effects);
    let effects = effects.as_object().into_iter().flatten();
    let effects = effects.filter(|(_, is_so)| **is_so == json!(true));
    let effects: Vec<&str> = effects.map(|(name, _)| name.as_str()).collect();
    let class = json!(declared.class);
    let mut lines = vec![
        declared.offered.clone(),
        format!("  class: {}", class.as_str().unwrap_or_default()),
        format!("  effects: {}", effects.join(", ")),
    ];
    for (member, value) in now.as_object().into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
        let text = visible(&text).replace('\n', "\n    ");
        lines.push(format!("  {}: {text}", visible(member)));
    }
    lines
}

/// Asks on the terminal; `false` where there is none.
fn confirmed() -> anyhow::Result<bool> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Ok(false);
    }
    let mut asked = std::io::stderr();
    write!(
        asked,
        "Let the personas use these tools as they are? [y/N] "
    )?;
    asked.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Writes the pins of a server beside those of the others.
fn store(workspace: &Path, server: &str, pin: McpServerPin) -> anyhow::Result<()> {
    let path = workspace.join(MCP_LOCK_FILE);
    let mut pins = match std::fs::read_to_string(&path) {
        Ok(text) => {
            serde_json::from_str(&text).with_context(|| format!("cannot read `{MCP_LOCK_FILE}`"))?
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => McpPins::default(),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{MCP_LOCK_FILE}`")),
    };
    pins.servers.insert(server.to_owned(), pin);
    write_private(&path, lock_text(&pins).as_bytes())
        .with_context(|| format!("cannot write `{MCP_LOCK_FILE}`"))
}
