//! Programs that runs start: hooks, own tools, MCP servers, agents, and the sandbox of commands. Each is looked for; only agents
//! are started, to ask for their version.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::mcp_client::ServerLogin;
use crate::providers::LoopOwner;
use crate::providers::child::program::Program;
use crate::runs::provider_health::status;
use crate::shell::{CommandLimits, CommandSandbox};
use std::sync::Arc;

/// A program that cannot be started.
pub struct MissingProgram {
    /// `hook`, `own tool` or `MCP server`, with its name.
    pub of: String,
    pub program: String,
    /// File that names it.
    pub file: String,
}

/// An MCP server whose tools are not all offered, or not at all.
pub struct ServerState {
    pub name: String,
    /// Tools that it names and that nobody has approved.
    pub unapproved: usize,
    pub is_login_over: bool,
}

/// An agent that did not tell its version.
pub struct BrokenAgent {
    pub provider: String,
    pub error: String,
    pub remedy: String,
}

/// The programs of a workspace as they are found.
#[derive(Default)]
pub struct ProgramFacts {
    pub missing: Vec<MissingProgram>,
    pub servers: Vec<ServerState>,
    pub agents: Vec<BrokenAgent>,
    /// Why no command can be run, where a persona may.
    pub no_commands: Option<String>,
}

static CHECKS: &[InstallCheck<ProgramFacts>] = &[missing, unapproved, logins, agents, sandbox];

pub async fn examine(config: Option<&Config>) -> ExaminedArea {
    let facts = match config {
        Some(config) => gather(config).await,
        None => ProgramFacts::default(),
    };
    ExaminedArea::of(CHECKS, &facts)
}

async fn gather(config: &Config) -> ProgramFacts {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut servers = Vec::new();
    for server in &config.mcp {
        let is_login_over = match &server.url {
            Some(_) => {
                let login = ServerLogin::of(server, clock.clone());
                login.state().await.state == "over"
            }
            None => false,
        };
        servers.push(ServerState {
            name: server.name.clone(),
            unapproved: server
                .tools
                .values()
                .filter(|tool| tool.pin.is_none())
                .count(),
            is_login_over,
        });
    }
    ProgramFacts {
        missing: missing_programs(config),
        servers,
        agents: broken_agents(config, clock.as_ref()).await,
        no_commands: no_commands(config).await,
    }
}

fn missing_programs(config: &Config) -> Vec<MissingProgram> {
    let workspace = config.workspace.as_path();
    let hooks = config.hooks.iter().filter_map(|hook| {
        let program = hook.command.first()?;
        let environment = hook.environment.iter();
        let environment = environment.map(|(name, value)| (name.clone(), value.clone().into()));
        let found = Program::at(program, (workspace, workspace), environment.collect());
        found.is_none().then(|| MissingProgram {
            of: format!("hook `{}`", hook.id),
            program: program.clone(),
            file: "configs/hooks.json".to_owned(),
        })
    });
    let tools = config.own_tools.iter().filter_map(|tool| {
        let program = tool.command.first()?;
        let found = Program::at(program, (&tool.folder, workspace), tool.values.clone());
        found.is_none().then(|| MissingProgram {
            of: format!("own tool `{}`", tool.name),
            program: program.clone(),
            file: format!("configs/tools/{}/tool.json", tool.name),
        })
    });
    let servers = config.mcp.iter().filter_map(|server| {
        let program = server.command.first()?;
        let found = Program::at(program, (&server.folder, workspace), server.values.clone());
        found.is_none().then(|| MissingProgram {
            of: format!("MCP server `{}`", server.name),
            program: program.clone(),
            file: "configs/mcp.json".to_owned(),
        })
    });
    hooks.chain(tools).chain(servers).collect()
}

async fn broken_agents(config: &Config, clock: &dyn Clock) -> Vec<BrokenAgent> {
    let mut broken = Vec::new();
    for seat in status::seats(config) {
        if seat.users.is_empty() || seat.loop_owner() != Some(LoopOwner::Agent) {
            continue;
        }
        if let Err(error) = status::check(&seat, clock).await.health {
            broken.push(BrokenAgent {
                remedy: status::advice(&seat, error.class),
                error: error.to_string(),
                provider: seat.name,
            });
        }
    }
    broken
}

/// Tries the sandbox of commands, if a persona may run some; returns the reason why it cannot be made.
async fn no_commands(config: &Config) -> Option<String> {
    config.personas.iter().find(|persona| persona.shell)?;
    let sandbox = CommandSandbox::new(config.program.clone(), CommandLimits::default());
    sandbox.trial().await.err()
}

fn finding(severity: FindingSeverity, what: String, remedy: impl Into<String>) -> InstallFinding {
    InstallFinding::new(FindingArea::Programs, severity, what, remedy)
}

fn missing(facts: &ProgramFacts) -> Vec<InstallFinding> {
    let found = facts.missing.iter().map(|missing| {
        let what = format!("{}: `{}` is not a program", missing.of, missing.program);
        let remedy = "install it, name its path, or make the script executable (`chmod +x`); a name without a slash is looked up on `PATH`";
        finding(FindingSeverity::Fault, what, remedy).of_file(&missing.file)
    });
    found.collect()
}

fn unapproved(facts: &ProgramFacts) -> Vec<InstallFinding> {
    let waiting = facts.servers.iter().filter(|server| server.unapproved > 0);
    let found = waiting.map(|server| {
        let what = format!(
            "MCP server `{}`: {} of its tools are not approved, and offered to no run",
            server.name, server.unapproved
        );
        let remedy = format!(
            "`attache mcp approve {}` shows them and approves them",
            server.name
        );
        finding(FindingSeverity::Warning, what, remedy).of_file("configs/mcp.lock.json")
    });
    found.collect()
}

fn logins(facts: &ProgramFacts) -> Vec<InstallFinding> {
    let over = facts.servers.iter().filter(|server| server.is_login_over);
    let found = over.map(|server| {
        let what = format!("MCP server `{}`: the login there is over", server.name);
        let remedy = format!("`attache mcp login {}` makes a new one", server.name);
        finding(FindingSeverity::Fault, what, remedy).of_file("configs/mcp.json")
    });
    found.collect()
}

fn agents(facts: &ProgramFacts) -> Vec<InstallFinding> {
    let found = facts.agents.iter().map(|agent| {
        let what = format!("agent `{}`: {}", agent.provider, agent.error);
        finding(FindingSeverity::Fault, what, &agent.remedy).of_file("configs/inference.json")
    });
    found.collect()
}

fn sandbox(facts: &ProgramFacts) -> Vec<InstallFinding> {
    let found = facts.no_commands.iter().map(|why| {
        let what = format!("`shell` is offered to no run: {why}");
        let remedy = "install bubblewrap (`apt-get install bubblewrap`), and let its user make user namespaces";
        finding(FindingSeverity::Warning, what, remedy)
    });
    found.collect()
}
