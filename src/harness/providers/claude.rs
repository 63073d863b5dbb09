//! Claude Code as an agent: `claude -p`, JSON lines both ways.
//!
//! Its instructions and the conversation go over standard input; arguments hold settings only. What it may do is said
//! three times: `--tools` says what exists, the permission dialogue answers what it asks, and the lines that come back
//! are checked (`claude_lines.rs`). Of the owner's own settings, hooks and servers it loads none.

use super::agent::{self, Agent, Invocation};
use super::claude_lines::{INITIALIZE, Reading};
use super::contract::{
    AgentTerms, CallContext, Capabilities, Event, Health, LoopOwner, Provider, ProviderError, Request,
    Session, Structured, ToolArgs,
};
use super::process::{self, Program};
use super::{Adapter, http, normalise, transcript};
use crate::config::{ProviderSettings, Tier};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use secrecy::SecretString;
use serde_json::{Value, json};

pub const ADAPTER: Adapter =
    Adapter { id: "claude", key_variable: None, settings: &[http::SETTINGS, process::SETTINGS], build };

const INSTALL: &str = "npm install -g @anthropic-ai/claude-code";

/// Switches of Claude Code's own. Seen with 2.1.197: without the first one, `@/etc/passwd` in a letter puts that file into
/// the conversation, whatever tools and folders are allowed.
const SWITCHES: [&str; 7] = [
    "CLAUDE_CODE_DISABLE_ATTACHMENTS",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
    "CLAUDE_CODE_DISABLE_CRON",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    // An engine's agent changes when its operator changes it.
    "DISABLE_AUTOUPDATER",
];

struct Claude {
    agent: Agent,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let mut program = Program::find(settings, ADAPTER.id, INSTALL)?;
    // It refuses to start inside another one of its kind.
    program.unset("CLAUDECODE");
    if let Some(key) = &settings.api_key {
        program.set("ANTHROPIC_API_KEY", key.clone());
    }
    if let Some(base_url) = &settings.base_url {
        program.set("ANTHROPIC_BASE_URL", SecretString::from(base_url.clone()));
    }
    for name in SWITCHES {
        program.set(name, SecretString::from("1"));
    }
    let dialogue = |invocation: &Invocation, now| Box::new(Reading::new(invocation, now)) as _;
    Ok(Box::new(Claude { agent: Agent { program, dialogue } }))
}

impl Provider for Claude {
    fn id(&self) -> &str {
        ADAPTER.id
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            loop_owner: LoopOwner::Agent,
            structured: Structured::Native,
            reports_cost: true,
            sessions: true,
            window_tokens: None,
        }
    }

    fn endpoint(&self) -> Option<String> {
        Some(self.agent.program.path())
    }

    fn check(&self, _context: CallContext) -> BoxFuture<'_, Result<Health, ProviderError>> {
        Box::pin(self.agent.check())
    }

    fn needs(&self, name: &str, _args: &ToolArgs) -> Tier {
        needs(name)
    }

    fn wire_request(&self, request: &Request) -> Result<String, ProviderError> {
        let terms = agent::terms(request)?;
        let request = normalise::request(request, ADAPTER.id)?;
        let invocation = Invocation {
            argv: argv(self.agent.program.path(), &request, terms)?,
            stdin: vec![initialize(&request), user_line(&request, terms)],
            model: request.model.clone(),
            terms: terms.clone(),
            structured: request.output.is_some(),
        };
        invocation.wire()
    }

    fn stream<'a>(
        &'a self,
        wire: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        self.agent.call(wire, context)
    }
}

/// What a tool of Claude Code's own can do. The names are those of its reference; a new one counts as everything.
pub fn needs(name: &str) -> Tier {
    match name {
        "Read" | "Glob" | "Grep" | "LS" | "NotebookRead" => Tier::ReadOnly,
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => Tier::Write,
        // Lists for itself, the answer's form, looking up and reading what our own server offers.
        "TodoWrite"
        | "TodoRead"
        | "TaskCreate"
        | "TaskGet"
        | "TaskList"
        | "TaskUpdate"
        | "StructuredOutput"
        | "ToolSearch"
        | "ListMcpResourcesTool"
        | "ReadMcpResourceTool" => Tier::None,
        name if agent::is_ours(name) => Tier::None,
        _ => Tier::Full,
    }
}

fn tools(tier: Tier) -> &'static str {
    match tier {
        Tier::None => "",
        Tier::ReadOnly => "Read,Glob,Grep",
        Tier::Write => "Read,Glob,Grep,Edit,Write",
        Tier::Full => "default",
    }
}

fn argv(program: String, request: &Request, terms: &AgentTerms) -> Result<Vec<String>, ProviderError> {
    let flags = [
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        "--setting-sources=",
        "--strict-mcp-config",
        // A letter that begins with a slash is no command.
        "--disable-slash-commands",
        "--permission-mode=default",
        "--permission-prompt-tool=stdio",
    ];
    let mut argv = vec![program];
    argv.extend(flags.map(str::to_owned));
    argv.push(format!("--tools={}", tools(terms.tier)));
    if let Some(server) = &terms.tool_server {
        let servers = json!({"mcpServers": {server.name.as_str(): {
            "type": "stdio", "command": server.program, "args": server.args,
        }}});
        argv.push(format!("--mcp-config={servers}"));
        // Our own tools have their own gate.
        argv.push(format!("--allowedTools=mcp__{}", server.name));
    }
    argv.push(format!("--model={}", request.model));
    argv.push(format!("--max-turns={}", terms.turns_max.max(1)));
    if let Some(micros) = terms.cost_micros_max {
        let micros = micros.max(1);
        argv.push(format!("--max-budget-usd={}.{:06}", micros / 1_000_000, micros % 1_000_000));
    }
    match (agent::resumed(&terms.session)?, &terms.session) {
        (Some(id), _) => argv.push(format!("--resume={id}")),
        (None, Session::New(id)) if uuid::Uuid::try_parse(id).is_ok() => {
            argv.push(format!("--session-id={id}"));
        }
        // It makes an id of its own.
        (None, _) => {}
    }
    Ok(argv)
}

/// The first line: instructions replace the agent's own, which are about programming.
fn initialize(request: &Request) -> String {
    let mut asked = json!({"subtype": "initialize", "hooks": null, "systemPrompt": request.system});
    if let Some(output) = &request.output {
        asked["jsonSchema"] = output.schema.clone();
    }
    line(&json!({"type": "control_request", "request_id": INITIALIZE, "request": asked}))
}

fn user_line(request: &Request, terms: &AgentTerms) -> String {
    let text = transcript::without_mentions(&transcript::prompt(request, &terms.session, false));
    line(&json!({
        "type": "user",
        "session_id": "",
        "message": {"role": "user", "content": [{"type": "text", "text": text}]},
        "parent_tool_use_id": null,
    }))
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}
