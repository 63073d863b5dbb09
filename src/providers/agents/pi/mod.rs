//! Pi as an agent: `pi --mode json`, the prompt over standard input.
//!
//! Pi supports neither tool servers nor sandboxes: the persona's own tools are not offered to it,
//! and a path outside the folder ends the call (`lines.rs`). Its arguments have no
//! `--flag=value`; the argument after a flag is its value, whatever it is. Instructions stand in
//! the prompt, because every user of the machine can read arguments. Checked against pi 0.74.2.

pub mod lines;

use crate::config::{AgentBounds, ProviderSettings, Tier};
use crate::domain::{ErrorClass, Timestamp};
use crate::providers::Adapter;
use crate::providers::agents::agent::{self, Agent, AgentDecoder, AgentProtocol, Invocation};
use crate::providers::agents::pi::lines::PiDecoder;
use crate::providers::child::process;
use crate::providers::child::program::Program;
use crate::providers::contract::traits::{
    AgentOptions, Capabilities, Phase, Provider, ProviderError, Request,
};

pub const ADAPTER: Adapter = Adapter {
    id: "pi",
    key_variable: None,
    settings: &[process::SETTINGS, &["model", "timeouts"]],
    // It says what it does, and does it before it can be stopped.
    bounds: Some(AgentBounds {
        writes: Tier::ReadOnly,
        writes_of_server: Tier::ReadOnly,
        reads: Tier::Write,
    }),
    build,
};

const INSTALL: &str = "npm install -g @earendil-works/pi-coding-agent";
/// System prompt in place of Pi's own, which is about programming.
const SYSTEM: &str =
    "Your instructions stand at the beginning of the first message, between its first two marks.";

struct Pi;

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    if settings.base_url.is_some() {
        let message =
            "`pi` takes no `base_url`: name the server in its own `~/.pi/agent/models.json`";
        return Err(ProviderError::new(
            ErrorClass::Unsupported,
            Phase::Config,
            message,
        ));
    }
    let program = Program::find(settings, ADAPTER.id, INSTALL)?;
    Ok(Box::new(Agent {
        name: settings.name_or(ADAPTER.id).to_owned(),
        program,
        protocol: Pi,
    }))
}

impl AgentProtocol for Pi {
    fn id(&self) -> &'static str {
        ADAPTER.id
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reports_cost: true,
            ..Capabilities::AGENT
        }
    }

    fn lists_our_tools(&self) -> bool {
        false
    }

    fn needs(&self, name: &str) -> Tier {
        lines::needs(name)
    }

    fn argv(
        &self,
        program: String,
        request: &Request,
        options: &AgentOptions,
    ) -> Result<Vec<String>, ProviderError> {
        argv(program, request, options)
    }

    fn decoder(&self, invocation: &Invocation, now: Timestamp) -> Box<dyn AgentDecoder> {
        Box::new(PiDecoder::new(invocation, now))
    }
}

fn argv(
    program: String,
    request: &Request,
    options: &AgentOptions,
) -> Result<Vec<String>, ProviderError> {
    let mut argv = vec![program];
    let mut add = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_owned()));
    add(&["--mode", "json", "--offline"]);
    // No extensions of the owner's, and no file of the folder as an instruction.
    add(&[
        "--no-extensions",
        "--no-skills",
        "--no-prompt-templates",
        "--no-themes",
        "--no-context-files",
    ]);
    match options.tier {
        Tier::None => add(&["--no-tools"]),
        Tier::ReadOnly => add(&["--tools", "read,grep,find,ls"]),
        Tier::Write => add(&["--tools", "read,grep,find,ls,edit,write"]),
        Tier::Full => add(&["--tools", "read,grep,find,ls,edit,write,bash"]),
    }
    add(&["--model", &request.model, "--system-prompt", SYSTEM]);
    if let Some(id) = agent::resumed(&options.session)? {
        add(&["--session", id]);
    }
    Ok(argv)
}
