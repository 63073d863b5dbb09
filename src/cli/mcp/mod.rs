//! `attache mcp`: the Model Context Protocol, as a server for agents and as a client of the owner's servers.

mod approve;
mod browser;
mod list;
mod login;
mod look;

use super::{CommandContext, Exit, Failure, name_catalog, screen};
use crate::config::Config;
use crate::domain::RunId;
use crate::mcp_client::{LogOut, log_out};
use clap::value_parser;
use serde::Serialize;

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
            Self::List => list::run(context).await,
            Self::Approve { name, yes } => approve::run(context, &name, yes).await,
            Self::Login {
                name,
                no_browser,
                wait,
            } => login::run(context, &name, no_browser, wait).await,
            Self::Logout { name } => logout(context, &name).await,
            Self::Serve { run } => serve(context, run).await,
        }
    }
}

/// A login that was forgotten.
#[derive(Serialize)]
struct DoneLogout<'a> {
    server: &'a str,
    /// `false`: there was no login.
    was_logged_in: bool,
    is_revoked: bool,
}

/// Forgets the owner's login at a server.
async fn logout(context: &CommandContext, name: &str) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let server = look::server(&config, name)?;
    let failed = |error| Failure::new(Exit::Failed, "nothing was forgotten").because(error);
    let out = log_out(server).await.map_err(failed)?;
    if context.json() {
        context.screen.json(&DoneLogout {
            server: name,
            was_logged_in: out != LogOut::NotLoggedIn,
            is_revoked: out == LogOut::Revoked,
        })?;
        return Ok(Exit::Ok);
    }
    match out {
        LogOut::NotLoggedIn => screen::remark("nobody was logged in"),
        LogOut::Revoked => context
            .screen
            .line("logged out; the tokens count no more")?,
        LogOut::Forgotten(why) => {
            context.screen.line("logged out here")?;
            screen::remark(&format!("the tokens may count until their end: {why}"));
        }
    }
    Ok(Exit::Ok)
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
        let hint =
            "name personas in configs/security.json: `\"mcp_server\": { \"personas\": [\"ada\"] }`";
        return Err(
            Failure::new(Exit::Usage, "nothing is offered to other agents here")
                .hint(hint)
                .into(),
        );
    };
    let is_missing = |id: &&crate::domain::PersonaId| config.personas.get(id).is_none();
    if let Some(missing) = settings.personas.iter().find(is_missing) {
        let message = format!("`mcp_server` names the persona `{missing}`, and there is none");
        let hint = "`attache persona list` shows those that there are";
        return Err(Failure::new(Exit::BadData, message).hint(hint).into());
    }
    let store = context.store_of_engine().await?;
    Ok(crate::mcp::serve_agents(store, config, settings).await?)
}
