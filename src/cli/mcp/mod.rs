//! `attache mcp`: the Model Context Protocol, as a server for agents and as a client of the owner's servers.

mod browser;

use super::screen::{Columns, one_line};
use super::{CommandContext, Exit, Failure, name_catalog, refuse, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::{
    Config, MCP_FILE, MCP_LOCK_FILE, McpPins, McpServer, McpServerPin, McpTool, McpToolPin,
    lock_text, spell, write_private,
};
use crate::domain::RunId;
use crate::mcp_client::{
    CallbackListener, ListedTools, LogOut, LoginAttempt, LoginError, LoginState, McpFailure,
    McpSession, PinState, RedirectVerdict, ServerLogin, log_out, pinned_files, state_of, unusable,
};
use crate::store::{DatabasePlace, McpToolOff};
use crate::text::visible;
use anyhow::Context;
use clap::value_parser;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Approve and list the tools of MCP servers, log in there, and serve other agents
#[derive(clap::Subcommand)]
pub enum McpCommand {
    /// List the servers of `configs/mcp.json` with their tools, as they are now and as they were approved
    #[command(
        after_help = "Each server is started, or reached, and asked for its tools. A tool is `approved`, `unapproved` (named in \
                      `configs/mcp.json` and not approved), `new` (not named there, so never offered), `changed`, `gone`, `off` (found \
                      to be other than approved by a run) or `unreachable`. LOGIN is of a server at an address: `none`, when it is renewed or \
                      ends, or `over` (only `attache mcp login` helps)."
    )]
    List,
    /// Show the tools of a server whole, and let the personas use them as they are now
    #[command(
        after_help = "Pins every tool that `configs/mcp.json` names for the server, in `configs/mcp.lock.json`. In force within \
                      seconds. A tool that changes afterwards goes off until it is approved again."
    )]
    Approve {
        /// The server, by its name in `configs/mcp.json`
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Log in at a server by OAuth, in a browser
    #[command(
        after_help = "Opens the page of the authorization server and waits for the answer at a port of 127.0.0.1. If the browser is on another \
                      machine, its last page cannot be shown: paste the address of that page here, and press Enter. The login is kept in \
                      `data/tokens/mcp/`, for the engine's user alone, and renewed before it ends. No restart is needed."
    )]
    Login {
        /// The server, by its name in `configs/mcp.json`
        name: String,
        /// Open no browser: only print the address of the page
        #[arg(long)]
        no_browser: bool,
        /// Wait so long for the answer
        #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = value_parser!(u32).range(1..=3600))]
        wait: u32,
    },
    /// Forget the login at a server, and have its tokens revoked
    #[command(
        after_help = "Where the authorization server revokes nothing, or cannot be reached, the tokens may count until their end."
    )]
    Logout {
        /// The server, by its name in `configs/mcp.json`
        name: String,
    },
    /// Let other agents ask personas, over stdin and stdout (Model Context Protocol)
    #[command(
        after_help = "What is offered, and to which personas, `mcp_server` in configs/security.json says; without it, nothing. An engine must be at \
                      work: it answers. With --run, which command-line agents give themselves, the tools of that run are offered instead."
    )]
    Serve {
        /// Offer the tools of this run, by its whole id, which an engine works on
        #[arg(long)]
        run: Option<String>,
    },
}

impl McpCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::List => list(context).await,
            Self::Approve { name, yes } => approve(context, &name, yes).await,
            Self::Login {
                name,
                no_browser,
                wait,
            } => login(context, &name, no_browser, wait).await,
            Self::Logout { name } => logout(context, &name).await,
            Self::Serve { run } => serve(context, run).await,
        }
    }
}

/// Forgets the owner's login at a server.
async fn logout(context: &CommandContext, name: &str) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let server = server_named(&config, name)?;
    let failed = |error| Failure::new(Exit::Failed, "nothing was forgotten").because(error);
    let out = log_out(server).await.map_err(failed)?;
    context.report(
        &json!({
            "server": name,
            "was_logged_in": out != LogOut::NotLoggedIn,
            "is_revoked": out == LogOut::Revoked,
        }),
        |screen| {
            match out {
                LogOut::NotLoggedIn => screen::remark("nobody was logged in"),
                LogOut::Revoked => screen.line("logged out; the tokens count no more")?,
                LogOut::Forgotten(why) => {
                    screen.line("logged out here")?;
                    screen::remark(&format!("the tokens may count until their end: {why}"));
                }
            }
            Ok(())
        },
    )
}

/// Serves personas to other agents; with a run, its tools to the agent that works on it, which starts that itself.
async fn serve(context: &CommandContext, run: Option<String>) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = crate::config::load_without_secrets(&context.workspace, &name_catalog())?;
    match run {
        Some(run) => {
            let store = context.shared_store().await?;
            crate::mcp::serve(store, config, &RunId::new(run)).await?;
        }
        None => serve_agents(context, config).await?,
    }
    Ok(Exit::Ok)
}

async fn serve_agents(context: &CommandContext, config: Config) -> anyhow::Result<()> {
    let Some(settings) = config.security.mcp_server.clone() else {
        return refuse(
            Exit::Usage,
            "nothing is offered to other agents here",
            "name personas in configs/security.json: `\"mcp_server\": { \"personas\": [\"ada\"] }`",
        );
    };
    let is_missing = |id: &&crate::domain::PersonaId| config.personas.get(id).is_none();
    if let Some(missing) = settings.personas.iter().find(is_missing) {
        return refuse(
            Exit::BadData,
            format!("`mcp_server` names the persona `{missing}`, and there is none"),
            "`attache persona list` shows those that there are",
        );
    }
    let store = context.store_of_engine().await?;
    Ok(crate::mcp::serve_agents(store, config, settings).await?)
}

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

async fn list(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let off = tools_off(context).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut rows = Vec::new();
    for server in &config.mcp {
        let now = tools_now(server).await;
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
    context.list(&rows, columns, nothing, shown)
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
        let (state, detail) = tool_state(name, tool, now, off.iter().find(is_off));
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

fn tool_state(
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

async fn approve(context: &CommandContext, name: &str, yes: bool) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let config = context.config()?;
    let server = server_named(&config, name)?;
    let listed = tools_now(server).await.map_err(|failure| {
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
        return refuse(
            Exit::BadData,
            what,
            format!("name its tools in `{MCP_FILE}`; `attache mcp list` shows what it has"),
        );
    }
    if !yes && !confirmed()? {
        return refuse(
            Exit::Failed,
            "nothing was approved",
            "`--yes` approves without asking",
        );
    }
    let approved_at = SystemClock::new().now().to_string();
    let tools = found.usable.iter();
    let tools = tools.map(|(tool, now)| {
        (
            (*tool).to_owned(),
            McpToolPin::from_definition(now, approved_at.clone()),
        )
    });
    let pin = McpServerPin {
        command: server.command.clone(),
        files,
        url: server.url.clone(),
        tools: tools.collect(),
    };
    store_pin(workspace, name, pin)?;
    if has_database(context)? {
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
fn store_pin(workspace: &Path, server: &str, pin: McpServerPin) -> anyhow::Result<()> {
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

/// Longest line that is pasted.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// Most lines that are read.
const LINES_MAX: usize = 100;

async fn login(
    context: &CommandContext,
    name: &str,
    no_browser: bool,
    wait: u32,
) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let server = server_named(&config, name)?;
    let clock = Arc::new(SystemClock::new());
    let mut listener = CallbackListener::bind().await?;
    let begun = LoginAttempt::begin(server, listener.redirect()?, clock.clone()).await;
    let attempt = begun.map_err(no_login)?;
    screen::remark(&format!(
        "Log in at {} with this page:\n{}",
        attempt.issuer(),
        attempt.question()
    ));
    if !no_browser && !browser::open(attempt.question()) {
        screen::remark("no browser could be opened: open the page yourself");
    }
    let within = Duration::from_secs(wait.into());
    let answered = tokio::time::timeout(within, code(&mut listener, &attempt)).await;
    let code = answered.map_err(|_| {
        let what = format!("nobody logged in within {}", spell(within));
        Failure::new(Exit::Failed, what).hint("`--wait SECONDS` waits longer")
    })??;
    let issuer = attempt.issuer().to_owned();
    attempt.finish(&code).await.map_err(no_login)?;
    let state = ServerLogin::of(server, clock).state().await;
    let done = json!({
        "server": name,
        "issuer": issuer,
        "expires_at": state.expires_at,
        "renews": state.renews,
    });
    context.report(&done, |screen| {
        screen.line(format!("logged in at `{name}`"))?;
        if !state.renews {
            let until = state.expires_at.as_deref().unwrap_or("an unknown time");
            screen::remark(&format!(
                "the server gave nothing to renew the login with: it ends at {until}; some servers renew it if \
                 `oauth.scope` holds `offline_access`"
            ));
        }
     Ok(())
})
}

/// Waits for the code: from the browser, or from a pasted address.
async fn code(listener: &mut CallbackListener, attempt: &LoginAttempt) -> anyhow::Result<String> {
    let mut pasted = pasted_lines();
    loop {
        let (verdict, request) = tokio::select! {
            request = listener.next() => {
                let request = request?;
                (attempt.judge(&request.address), Some(request))
            }
            Some(line) = pasted.recv() => (attempt.judge(&line), None),
        };
        let is_right = matches!(verdict, RedirectVerdict::Code(_));
        if let Some(request) = request {
            request.answer(is_right).await;
        }
        match verdict {
            RedirectVerdict::Code(code) => return Ok(code),
            RedirectVerdict::Failed(error) => return Err(no_login(error).into()),
            RedirectVerdict::Stray => {
                screen::remark("that is not the answer to this login; waiting for it");
            }
        }
    }
}

/// Reads lines of standard input on a thread that ends with the process.
fn pasted_lines() -> mpsc::Receiver<String> {
    let (lines, pasted) = mpsc::channel(1);
    let read = move || {
        let mut input = std::io::stdin().lock();
        for _ in 0..LINES_MAX {
            let mut line = String::new();
            let read = input.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
            let is_over = read.map_or(true, |bytes| bytes == 0);
            if is_over || (!line.trim().is_empty() && lines.blocking_send(line).is_err()) {
                return;
            }
        }
    };
    // Without the thread nothing can be pasted, and the browser is waited for all the same.
    let _started = std::thread::Builder::new()
        .name("pasted".to_owned())
        .spawn(read);
    pasted
}

fn no_login(error: LoginError) -> Failure {
    Failure::new(Exit::Failed, "there is no login").because(error)
}

/// Finds a server by its name.
fn server_named<'c>(config: &'c Config, name: &str) -> Result<&'c McpServer, Failure> {
    let found = config.mcp.iter().find(|server| server.name == name);
    found.ok_or_else(|| {
        let what = format!("`{MCP_FILE}` names no server `{name}`");
        Failure::new(Exit::NoInput, what).hint("`attache mcp list` shows them")
    })
}

/// Returns the tools of a server as they are now.
async fn tools_now(server: &McpServer) -> Result<ListedTools, McpFailure> {
    let clock = Arc::new(SystemClock::new());
    let mut session = McpSession::begin(server, clock).await?;
    let listed = session.tools().await;
    session.close().await;
    listed
}

/// Returns the tools that are off; none where there is no database yet.
async fn tools_off(context: &CommandContext) -> anyhow::Result<Vec<McpToolOff>> {
    if !has_database(context)? {
        return Ok(Vec::new());
    }
    Ok(context.shared_store().await?.mcp_tools_off().await?)
}

fn has_database(context: &CommandContext) -> anyhow::Result<bool> {
    Ok(DatabasePlace::of(context.require_workspace()?)?.is_made())
}
