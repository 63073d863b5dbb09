//! Claude Code as an agent: `claude -p`, JSON lines both ways.
//!
//! Its instructions and the conversation go over standard input; arguments hold settings only. Its
//! permissions are enforced three times: `--tools` lists the tools, the permission dialogue answers
//! requests, and the output lines are checked (`lines.rs`). It loads none of the owner's own
//! settings, hooks and servers.

pub mod lines;
mod permissions;
mod usage;

use crate::config::{AgentBounds, ProviderSettings, Tier, dollars};
use crate::domain::Timestamp;
use crate::providers::Adapter;
use crate::providers::agents::agent::{self, Agent, AgentDecoder, AgentProtocol, Invocation};
use crate::providers::agents::claude::lines::{ClaudeDecoder, INITIALIZE};
use crate::providers::agents::transcript;
use crate::providers::child::process;
use crate::providers::child::program::Program;
use crate::providers::contract::traits::{
    AgentOptions, AgentSession, Capabilities, Provider, ProviderError, Request, Structured,
};
use crate::providers::transport::http;
use secrecy::SecretString;
use serde_json::{Value, json};

pub const ADAPTER: Adapter = Adapter {
    id: "claude",
    key_variable: None,
    settings: &[http::SETTINGS, process::SETTINGS],
    // Its own permission dialogue asks for every path outside its workspace.
    bounds: Some(AgentBounds {
        writes: Tier::Write,
        writes_of_server: Tier::Write,
        reads: Tier::Write,
    }),
    build,
};

const INSTALL: &str = "npm install -g @anthropic-ai/claude-code";

/// Environment switches of Claude Code. Seen with 2.1.197: without the first one, `@/etc/passwd` in
/// a letter puts that file into the conversation, whatever tools and folders are allowed.
const SWITCHES: [&str; 7] = [
    "CLAUDE_CODE_DISABLE_ATTACHMENTS",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
    "CLAUDE_CODE_DISABLE_CRON",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    // An operator updates the agent of an engine.
    "DISABLE_AUTOUPDATER",
];

struct Claude;

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let mut program = Program::find(settings, ADAPTER.id, INSTALL)?;
    // Claude Code refuses to start inside another Claude Code.
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
    Ok(Box::new(Agent {
        name: settings.name_or(ADAPTER.id).to_owned(),
        program,
        protocol: Claude,
    }))
}

impl AgentProtocol for Claude {
    fn id(&self) -> &'static str {
        ADAPTER.id
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            structured: Structured::Native,
            reports_cost: true,
            ..Capabilities::AGENT
        }
    }

    fn needs(&self, name: &str) -> Tier {
        permissions::needs(name)
    }

    fn argv(
        &self,
        program: String,
        request: &Request,
        options: &AgentOptions,
    ) -> Result<Vec<String>, ProviderError> {
        argv(program, request, options)
    }

    fn stdin(&self, request: &Request, options: &AgentOptions) -> Vec<String> {
        vec![initialize(request), user_line(request, options)]
    }

    fn decoder(&self, invocation: &Invocation, now: Timestamp) -> Box<dyn AgentDecoder> {
        Box::new(ClaudeDecoder::new(invocation, now))
    }
}

fn argv(
    program: String,
    request: &Request,
    options: &AgentOptions,
) -> Result<Vec<String>, ProviderError> {
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
    argv.push(format!("--tools={}", permissions::tools(options.tier)));
    if let Some(server) = &options.tool_server {
        let servers = json!({"mcpServers": {server.name.as_str(): {
            "type": "stdio", "command": server.program, "args": server.args,
        }}});
        argv.push(format!("--mcp-config={servers}"));
        // Our own tools have their own tool policy.
        argv.push(format!("--allowedTools=mcp__{}", server.name));
    }
    argv.push(format!("--model={}", request.model));
    argv.push(format!("--max-turns={}", options.turns_max.max(1)));
    if let Some(micros) = options.cost_micros_max {
        argv.push(format!("--max-budget-usd={}", dollars(micros.max(1))));
    }
    match (agent::resumed(&options.session)?, &options.session) {
        (Some(id), _) => argv.push(format!("--resume={id}")),
        (None, AgentSession::New(id)) if uuid::Uuid::try_parse(id).is_ok() => {
            argv.push(format!("--session-id={id}"));
        }
        // The agent generates an id.
        (None, _) => {}
    }
    Ok(argv)
}

/// Returns the first line: instructions replace the agent's own, which are about programming.
fn initialize(request: &Request) -> String {
    let mut asked = json!({"subtype": "initialize", "hooks": null, "systemPrompt": request.system});
    if let Some(output) = &request.output {
        asked["jsonSchema"] = output.schema.clone();
    }
    line(&json!({"type": "control_request", "request_id": INITIALIZE, "request": asked}))
}

fn user_line(request: &Request, options: &AgentOptions) -> String {
    let text = transcript::without_mentions(&transcript::prompt(request, &options.session, false));
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
