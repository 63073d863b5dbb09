//! `attache hooks list|test`: the owner's programs that runs ask, and what one of them answers.

use super::screen::{Columns, one_line};
use super::{CommandContext, Exit, Failure, refuse};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Hook, spell};
use crate::domain::{HookDecision, HookEvent};
use crate::runs::hooks::program;
use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};

/// Show the programs that runs ask before and after what they do, and try one
#[derive(clap::Subcommand)]
pub enum HooksCommand {
    /// List the hooks in order
    List,
    /// Ask one hook, and show its answer; nothing is recorded
    #[command(
        after_help = "The exit code is 0 when the hook gave an answer, whichever, and 1 when it failed."
    )]
    Test {
        /// The hook, as `attache hooks list` shows it
        id: String,
        /// JSON that it is given to read [default: an invented one]
        #[arg(long, value_name = "FILE")]
        occasion: Option<String>,
    },
}

impl HooksCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        match self {
            Self::List => list(context, &config),
            Self::Test { id, occasion } => test(context, &config, &id, occasion).await,
        }
    }
}

/// A hook with its digest.
#[derive(Serialize)]
struct ListedHook<'c> {
    #[serde(flatten)]
    hook: &'c Hook,
    sha256: String,
}

fn list(context: &CommandContext, config: &Config) -> anyhow::Result<Exit> {
    let hooks: Vec<ListedHook<'_>> = config
        .hooks
        .iter()
        .map(|hook| ListedHook {
            hook,
            sha256: program::digest(hook, &config.workspace),
        })
        .collect();
    let any = |text: String| {
        if text.is_empty() {
            "all".to_owned()
        } else {
            text
        }
    };
    let row = |listed: &ListedHook<'_>| {
        let hook = listed.hook;
        let persona = hook.persona.as_ref().map(ToString::to_string);
        vec![
            hook.id.clone(),
            hook.event.to_string(),
            any(persona.unwrap_or_default()),
            any(hook.tools.join(", ")),
            one_line(&hook.command.join(" ")),
            spell(hook.timeout),
            listed.sha256[..12].to_owned(),
        ]
    };
    let headings = [
        "HOOK", "EVENT", "PERSONA", "TOOLS", "COMMAND", "TIMEOUT", "SHA256",
    ];
    let columns = Columns::of(&headings)
        .main("COMMAND")
        .optional(&["TIMEOUT", "SHA256"]);
    let nothing = "there is no hook: `configs/hooks.json` names them";
    context.list(&hooks, columns, nothing, row)
}

/// Asks one hook about an invented or a given occasion. Nothing is recorded.
async fn test(
    context: &CommandContext,
    config: &Config,
    id: &str,
    file: Option<String>,
) -> anyhow::Result<Exit> {
    let Some(hook) = config.hooks.iter().find(|hook| hook.id == id) else {
        return refuse(
            Exit::NoInput,
            format!("no hook `{id}`"),
            "`attache hooks list` shows them",
        );
    };
    let occasion = match file {
        None => invented(hook),
        Some(file) => {
            let read =
                std::fs::read_to_string(&file).with_context(|| format!("reading `{file}`"))?;
            serde_json::from_str(&read).map_err(|error| {
                Failure::new(Exit::BadData, format!("`{file}` is not JSON: {error}"))
                    .hint("`attache hooks test ID` without a file shows what a hook is given")
            })?
        }
    };
    let clock = SystemClock::new();
    let began = clock.monotonic();
    let answer = program::ask(hook, &config.workspace, &occasion).await;
    let took_ms = clock.monotonic().saturating_sub(began).as_millis();
    if context.json() {
        let tested =
            json!({ "hook": hook.id, "occasion": occasion, "answer": answer, "took_ms": took_ms });
        context.screen.json(&tested)?;
    } else {
        context.screen.fields(&[
            ("hook", hook.id.clone()),
            ("given", occasion.to_string()),
            ("answer", answer.decision.to_string()),
            ("reason", answer.reason.clone()),
            ("took", format!("{took_ms} ms")),
        ])?;
    }
    Ok(match answer.decision {
        HookDecision::Failed => Exit::Failed,
        _ => Exit::Ok,
    })
}

/// Returns an occasion as a run would describe it.
fn invented(hook: &Hook) -> Value {
    let tool = hook.tools.first().map_or("send_email", String::as_str);
    let mut occasion = json!({
        "event": hook.event,
        "persona": hook.persona.as_ref().map_or("ada", |persona| persona.as_str()),
        "run": "00000000-0000-7000-8000-000000000001",
        "thread": "00000000-0000-7000-8000-000000000002",
        "trigger": "email",
        "attempt": 1,
    });
    let mail = json!({
        "to": ["carol@partner.test"], "cc": [], "bcc": [], "subject": "An example", "text": "Words of an example.",
        "is_reply": false, "attachments": [],
    });
    if hook.event.is_of_call() {
        occasion["tool"] = json!(tool);
        occasion["label"] =
            json!({ "sender": "contact", "floor": "contact", "readers": "everyone" });
    }
    let (member, body) = match hook.event {
        HookEvent::BeforeRun => (
            "letter",
            json!({
                "from": "carol@partner.test", "subject": "An example", "message_id": "example@partner.test",
                "trust": "contact", "text": "Words of an example.", "attachments": [],
            }),
        ),
        HookEvent::BeforeCall => (
            "args",
            json!({ "to": ["carol@partner.test"], "subject": "An example" }),
        ),
        HookEvent::AfterCall => ("result", json!({ "queued": true })),
        HookEvent::BeforeSend => ("mail", mail),
        HookEvent::AfterRun => ("ending", json!({ "stop_reason": "answered" })),
    };
    occasion[member] = body;
    occasion
}
