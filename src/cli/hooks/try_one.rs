//! `attache hooks test`: one hook, asked about an invented or a given occasion. Nothing is recorded.

use super::super::args::text;
use super::super::{CommandContext, Exit, Failure};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Hook};
use crate::domain::{HookDecision, HookEvent};
use crate::runs::hooks::program;
use anyhow::Context;
use clap::ArgMatches;
use serde_json::{Value, json};

pub async fn run(
    context: &CommandContext,
    config: &Config,
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
    let id = text(args, "id");
    let Some(hook) = config.hooks.iter().find(|hook| hook.id == id) else {
        return Err(Failure::new(Exit::NoInput, format!("no hook `{id}`"))
            .hint("`attache hooks list` shows them")
            .into());
    };
    let occasion = match args.get_one::<String>("occasion") {
        None => invented(hook),
        Some(file) => {
            let read =
                std::fs::read_to_string(file).with_context(|| format!("reading `{file}`"))?;
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
