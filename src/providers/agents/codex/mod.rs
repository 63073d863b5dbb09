//! Codex as an agent: `codex exec --json`, the prompt over standard input.
//!
//! Its permissions are its sandbox, which the system enforces: commands run inside it, so that
//! `read_only` may run them. It has no flag for instructions, and every user of the machine can
//! read arguments: the instructions stand before the conversation in the prompt. Checked against
//! codex-cli 0.169.0.

pub mod lines;

use crate::config::{AgentBounds, ProviderSettings, Tier};
use crate::domain::Timestamp;
use crate::providers::Adapter;
use crate::providers::agents::agent::{self, Agent, AgentDecoder, AgentProtocol, Invocation};
use crate::providers::agents::codex::lines::CodexDecoder;
use crate::providers::child::process;
use crate::providers::child::program::Program;
use crate::providers::contract::traits::{
    AgentOptions, Capabilities, Provider, ProviderError, Request,
};
use crate::providers::transport::http;
use serde_json::Value;

pub const ADAPTER: Adapter = Adapter {
    id: "codex",
    key_variable: None,
    settings: &[http::SETTINGS, process::SETTINGS],
    // Its sandbox binds what it writes; its commands may read everything.
    bounds: Some(AgentBounds {
        writes: Tier::Write,
        writes_of_server: Tier::Write,
        reads: Tier::None,
    }),
    build,
};

const INSTALL: &str = "npm install -g @openai/codex";
const KEY_VARIABLE: &str = "CODEX_API_KEY";

struct Codex {
    base_url: Option<String>,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let mut program = Program::find(settings, ADAPTER.id, INSTALL)?;
    if let Some(key) = &settings.api_key {
        program.set(KEY_VARIABLE, key.clone());
    }
    Ok(Box::new(Agent {
        name: settings.name_or(ADAPTER.id).to_owned(),
        program,
        protocol: Codex {
            base_url: settings.base_url.clone(),
        },
    }))
}

/// Returns the tier that a step of Codex's needs. A command is as harmless as its sandbox.
pub fn needs(name: &str) -> Tier {
    match name {
        "command_execution" => Tier::ReadOnly,
        "file_change" => Tier::Write,
        name if agent::is_ours(name) => Tier::None,
        _ => Tier::Full,
    }
}

impl AgentProtocol for Codex {
    fn id(&self) -> &'static str {
        ADAPTER.id
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::AGENT
    }

    fn needs(&self, name: &str) -> Tier {
        needs(name)
    }

    fn argv(
        &self,
        program: String,
        request: &Request,
        options: &AgentOptions,
    ) -> Result<Vec<String>, ProviderError> {
        let sandbox = match options.tier {
            Tier::None | Tier::ReadOnly => "read-only",
            Tier::Write => "workspace-write",
            Tier::Full => "danger-full-access",
        };
        let mut argv = vec![program, "exec".to_owned()];
        argv.extend(["--json", "--color=never", "--skip-git-repo-check"].map(str::to_owned));
        // The owner's own servers, hooks and rules are for the owner's own sessions; the login
        // stays.
        argv.extend(["--ignore-user-config", "--ignore-rules"].map(str::to_owned));
        argv.push(format!("--sandbox={sandbox}"));
        // Its sandbox makes its working folder writable.
        argv.push(format!("--cd={}", options.working_folder()));
        argv.push(format!("--model={}", request.model));
        let mut set = |key: &str, value: String| argv.push(format!("--config={key}={value}"));
        set("approval_policy", toml("never"));
        // Keys of the agent's own environment are not for the commands that it runs.
        set("shell_environment_policy.inherit", toml("core"));
        // A file in the folder is no instruction: the agent may have written it.
        set("project_doc_max_bytes", "0".to_owned());
        if options.tier == Tier::Write {
            // Temporary folders are writable otherwise, and other programs read what is there.
            for folder in ["slash_tmp", "tmpdir_env_var"] {
                set(
                    &format!("sandbox_workspace_write.exclude_{folder}"),
                    "true".to_owned(),
                );
            }
        }
        if options.tier != Tier::Full {
            set("web_search", toml("disabled"));
        }
        if let Some(base_url) = &self.base_url {
            set("model_provider", toml("attache"));
            let (url, key) = (toml(base_url), toml(KEY_VARIABLE));
            let table =
                format!("{{name=\"attache\",base_url={url},wire_api=\"responses\",env_key={key}}}");
            set("model_providers.attache", table);
        }
        if let Some(server) = &options.tool_server {
            let args: Vec<_> = server.args.iter().map(|arg| toml(arg)).collect();
            let place = format!("mcp_servers.{}", server.name);
            set(&format!("{place}.command"), toml(&server.program));
            set(&format!("{place}.args"), format!("[{}]", args.join(",")));
            // Our own tools have their own tool policy, and no person can approve a call.
            set(
                &format!("{place}.default_tools_approval_mode"),
                toml("approve"),
            );
        }
        if options.tier == Tier::None {
            argv.push("--disable=shell_tool".to_owned());
        }
        if options.tier != Tier::Full {
            argv.extend(["--disable=multi_agent", "--disable=goals"].map(str::to_owned));
        }
        // `resume` takes fewer flags than `exec`.
        if let Some(id) = agent::resumed(&options.session)? {
            argv.extend(["resume".to_owned(), id.to_owned()]);
        }
        argv.push("-".to_owned());
        Ok(argv)
    }

    fn decoder(&self, invocation: &Invocation, now: Timestamp) -> Box<dyn AgentDecoder> {
        Box::new(CodexDecoder::new(invocation, now))
    }
}

/// Formats a TOML basic string: JSON's escapes are among TOML's, except that TOML wants DEL
/// escaped, too.
fn toml(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
