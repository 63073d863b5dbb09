//! Pi as an agent: `pi --mode json`, the prompt over standard input.
//!
//! Pi knows neither tool servers nor sandboxes: the persona's own tools are not offered to it, and a path outside the
//! folder ends the call (`pi_lines.rs`). Its arguments have no `--flag=value`; what follows a flag is its value, whatever
//! it is. Instructions stand in the prompt, because arguments can be read by everybody. Checked against pi 0.74.2.

use super::agent::{self, Agent, Invocation};
use super::contract::{
    AgentTerms, CallContext, Capabilities, Event, Health, LoopOwner, Phase, Provider, ProviderError, Request,
    Structured, ToolArgs,
};
use super::pi_lines::Reading;
use super::process::{self, Program};
use super::{Adapter, normalise, transcript};
use crate::config::{ProviderSettings, Tier};
use crate::domain::ErrorClass;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

pub const ADAPTER: Adapter = Adapter { id: "pi", key_variable: None, settings: &[process::SETTINGS], build };

const INSTALL: &str = "npm install -g @earendil-works/pi-coding-agent";
/// Replaces instructions about programming.
const SYSTEM: &str =
    "Your instructions stand at the beginning of the first message, between its first two marks.";

struct Pi {
    agent: Agent,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    if settings.base_url.is_some() {
        let message = "`pi` takes no `base_url`: name the server in its own `~/.pi/agent/models.json`";
        return Err(ProviderError::new(ErrorClass::Unsupported, Phase::Config, message));
    }
    let program = Program::find(settings, ADAPTER.id, INSTALL)?;
    let dialogue = |invocation: &Invocation, now| Box::new(Reading::new(invocation, now)) as _;
    Ok(Box::new(Pi { agent: Agent { program, dialogue } }))
}

impl Provider for Pi {
    fn id(&self) -> &str {
        ADAPTER.id
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            loop_owner: LoopOwner::Agent,
            structured: Structured::Prompted,
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

    fn offers_our_tools(&self) -> bool {
        false
    }

    fn needs(&self, name: &str, _args: &ToolArgs) -> Tier {
        needs(name)
    }

    fn wire_request(&self, request: &Request) -> Result<String, ProviderError> {
        let terms = agent::terms(request)?;
        let request = normalise::request(request, ADAPTER.id)?;
        let invocation = Invocation {
            argv: argv(self.agent.program.path(), &request, terms)?,
            stdin: vec![transcript::prompt(&request, &terms.session, true)],
            model: request.model.clone(),
            terms: terms.clone(),
            structured: false,
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

/// What a tool of Pi's can do.
pub fn needs(name: &str) -> Tier {
    match name {
        "read" | "grep" | "find" | "ls" => Tier::ReadOnly,
        "edit" | "write" => Tier::Write,
        _ => Tier::Full,
    }
}

fn argv(program: String, request: &Request, terms: &AgentTerms) -> Result<Vec<String>, ProviderError> {
    let mut argv = vec![program];
    let mut add = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_owned()));
    add(&["--mode", "json", "--offline"]);
    // Nothing of the owner's, and no file of the folder is an instruction.
    add(&["--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes", "--no-context-files"]);
    match terms.tier {
        Tier::None => add(&["--no-tools"]),
        Tier::ReadOnly => add(&["--tools", "read,grep,find,ls"]),
        Tier::Write => add(&["--tools", "read,grep,find,ls,edit,write"]),
        Tier::Full => add(&["--tools", "read,grep,find,ls,edit,write,bash"]),
    }
    add(&["--model", &request.model, "--system-prompt", SYSTEM]);
    if let Some(id) = agent::resumed(&terms.session)? {
        add(&["--session", id]);
    }
    Ok(argv)
}
