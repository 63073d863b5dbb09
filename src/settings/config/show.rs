//! The effective settings as JSON, for `attache config show`. Secrets appear as `"[set]"` or
//! `null`.

use super::gateway::limits::Limits;
use super::gateway::{http_listeners, listeners, mailboxes, outbound, webhooks};
use super::inference::headers::{HeaderText, ProviderHeader};
use super::inference::providers::ProviderSettings;
use super::inference::{budgets, prices, run_settings};
use crate::config::file::{
    CONTEXT_FILE, GATEWAY_FILE, HOOKS_FILE, INFERENCE_FILE, KEEPING_FILE, MCP_FILE, POLICY_FILE,
    PRICES_FILE, SECURITY_FILE, SKILLS_FILE, WEB_FILE, own_tool_file, persona_file, spell,
};
use crate::config::gateway::Gateway;
use crate::config::inference::Inference;
use crate::config::persona::Persona;
use crate::config::settings::Config;
use crate::mime::Signer;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Every setting, grouped by its file.
pub fn effective(config: &Config) -> Map<String, Value> {
    let servers = config.mcp.iter();
    let servers: Map<String, Value> = servers
        .map(|server| (server.name.clone(), json!(server)))
        .collect();
    let files = [
        (GATEWAY_FILE, show_gateway(&config.gateway, &config.limits)),
        (INFERENCE_FILE, show_inference(&config.inference)),
        (PRICES_FILE, prices::show(&config.prices)),
        (CONTEXT_FILE, json!(config.context)),
        (SECURITY_FILE, json!(config.security)),
        (POLICY_FILE, json!(config.policy)),
        (HOOKS_FILE, json!({ "hooks": config.hooks })),
        (KEEPING_FILE, json!(config.keeping)),
        (WEB_FILE, json!(config.web)),
        (SKILLS_FILE, json!({ "skills": config.skills })),
        (MCP_FILE, json!({ "servers": servers })),
    ];
    let files = files.map(|(file, shown)| (file.to_owned(), shown));
    let tools = config.own_tools.iter();
    let tools = tools.map(|tool| (own_tool_file(&tool.name), json!(tool)));
    let personas = config.personas.iter();
    let personas =
        personas.map(|persona| (persona_file(persona.id.as_str()), show_persona(persona)));
    files.into_iter().chain(tools).chain(personas).collect()
}

/// JSON of one persona's settings.
pub fn show_persona(persona: &Persona) -> Value {
    let (profile, output_schema, letters) = persona.letters.show();
    let settings = &persona.settings;
    let budget = json!({
        "tool_calls_max": settings.tool_calls_max,
        "duration_max": settings.duration_max.map(spell),
    });
    let shown = json!({
        "id": persona.id,
        "name": persona.name,
        "address": persona.address,
        "aliases": persona.aliases,
        "reply": persona.reply,
        "profile": profile,
        "output_schema": output_schema,
        "letters": letters,
        "provider": persona.provider,
        "model": persona.model,
        "fallback": persona.fallback,
        "tools": persona.tools,
        "timezone": persona.timezone.name(),
        "budget": with(budgets::show_persona(&persona.budget), budget),
        "plan": persona.plan,
        "pdf_files": persona.pdf_files,
        "shell": persona.shell,
        "rules": persona.rules,
        "max_tool_turns": settings.max_tool_turns,
    });
    with(
        with(shown, json!(persona.mail)),
        run_settings::show(settings),
    )
}

/// Adds the members of an object to another.
fn with(mut shown: Value, more: Value) -> Value {
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

fn show_gateway(gateway: &Gateway, limits: &Limits) -> Value {
    let mail = gateway.listeners.iter();
    let mail = mail.map(|one| (one.position, listeners::show(one)));
    let pages = gateway.http_listeners.iter();
    let pages = pages.map(|one| (one.position, http_listeners::show(one)));
    let listening: BTreeMap<usize, Value> = mail.chain(pages).collect();
    let mailboxes: Vec<Value> = gateway.mailboxes.iter().map(mailboxes::show).collect();
    let webhooks: Vec<Value> = gateway.webhooks.iter().map(webhooks::show).collect();
    let signers: Vec<Value> = gateway.signers.iter().map(show_signer).collect();
    let outbound = gateway.outbound.as_ref().map(|transport| {
        let more = json!({
            "dkim": signers,
            "on_unknown": gateway.retry.on_unknown,
            "bounce_address": gateway.bounce_address,
        });
        with(outbound::show(transport), more)
    });
    json!({
        "mail_domain": gateway.mail_domain,
        "host_name": gateway.host_name,
        "owners": gateway.owners,
        "listeners": listening.into_values().collect::<Vec<_>>(),
        "tls": gateway.tls,
        "submission": gateway.submission,
        "folders": gateway.folders,
        "mailboxes": mailboxes,
        "outbound": outbound,
        "retry": gateway.retry,
        "notices": gateway.notices,
        "commands": gateway.commands,
        "sender_notes": gateway.sender_notes,
        "webhooks": webhooks,
        "telemetry": gateway.telemetry,
        "ingest": gateway.ingest,
        "limits": limits,
    })
}

fn show_signer(signer: &Signer) -> Value {
    json!({"domain": signer.domain(), "selector": signer.selector(), "algorithm": signer.algorithm()})
}

fn show_inference(inference: &Inference) -> Value {
    let providers = inference.providers.iter();
    let providers: Map<String, Value> = providers
        .map(|(name, settings)| (name.clone(), show_provider(settings)))
        .collect();
    let budget = &inference.budget;
    let of_run = json!({
        "tool_calls_max": budget.tool_calls_max,
        "tool_failures_max": budget.tool_failures_max,
        "tokens_max": budget.tokens_max,
        "cost_usd_max": budget.cost_micros_max.map(budgets::dollars),
        "duration_max": spell(budget.duration_max),
        "context_tokens_max": budget.context_tokens_max,
        "mails_max": budget.mails_max,
    });
    json!({
        "provider": inference.provider,
        "model": inference.model,
        "fallback": inference.fallback,
        "fallback_on_refusal": inference.fallback_on_refusal,
        "summary_model": inference.summary_model,
        "embeddings": inference.embeddings,
        "max_output_tokens": inference.max_output_tokens,
        "temperature": inference.temperature,
        "max_tool_turns": budget.turns_max,
        "budget": with(of_run, budgets::show(&inference.budgets)),
        "tool_timeouts": inference.tool_timeouts,
        "timeouts": {"idle": spell(inference.idle_timeout), "call": spell(inference.call_timeout)},
        "retry": {
            "call_attempts_max": inference.call_attempts_max,
            "run_attempts_max": inference.run_attempts_max,
            "inline_wait_max": spell(inference.inline_wait_max),
        },
        "concurrency": {
            "runs_max": inference.concurrent_runs_max,
            "runs_per_persona_max": inference.concurrent_runs_per_persona_max,
        },
        "providers": providers,
    })
}

/// JSON of a provider under the keys of its block that its adapter reads.
fn show_provider(settings: &ProviderSettings) -> Value {
    let agent = &settings.agent;
    let shown = json!({
        "base_url": settings.base_url,
        "plain_http": settings.plain_http,
        "api_key_variable": settings.key_variable,
        "api_key": settings.api_key.as_ref().map(|_| "[set]"),
        "model": settings.model,
        "headers": show_headers(&settings.headers),
        "script": settings.script,
        "context_tokens": settings.context_tokens,
        "keep_alive": settings.keep_alive,
        "think": settings.think,
        "binary": agent.binary,
        "tier": agent.tier,
        "accept_unsandboxed": agent.accept_unsandboxed,
        // Names only: values may be secrets.
        "environment": agent.environment.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    });
    let shown = with(shown, json!(settings.chat));
    let mut shown = with(shown, run_settings::show(&settings.settings));
    if let Some(members) = shown.as_object_mut() {
        members.retain(|key, _| key == "api_key" || settings.reads.contains(&key.as_str()));
    }
    shown
}

fn show_headers(headers: &[ProviderHeader]) -> Map<String, Value> {
    let shown = headers.iter().map(|header| {
        let value = match &header.value {
            HeaderText::Public(text) => json!(text),
            HeaderText::Secret { variable, .. } => json!({ "variable": variable }),
        };
        (header.name.clone(), value)
    });
    shown.collect()
}
