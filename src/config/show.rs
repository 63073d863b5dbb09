//! The effective settings as JSON, for `attache config show`. Secrets appear as `"[set]"` or
//! `null`.

use super::gateway::limits::Limits;
use super::gateway::outbound::{
    BounceAddress, OnUnknown, Smarthost, SmarthostTls, TransportSettings,
};
use super::gateway::{
    http_listeners, ingest, listeners, mailboxes, submission, telemetry, webhooks,
};
use super::inference::headers::{HeaderText, ProviderHeader};
use super::inference::providers::ProviderSettings;
use super::inference::{budgets, embeddings, fallback, prices, run_settings};
use crate::config::authentication;
use crate::config::context::ContextStep;
use crate::config::file::duration::spell;
use crate::config::file::{
    CONTEXT_FILE, GATEWAY_FILE, HOOKS_FILE, INFERENCE_FILE, KEEPING_FILE, MCP_FILE, POLICY_FILE,
    PRICES_FILE, SECURITY_FILE, SKILLS_FILE, WEB_FILE, own_tool_file, persona_file,
};
use crate::config::gateway::Gateway;
use crate::config::inference::Inference;
use crate::config::persona::Persona;
use crate::config::security::Decision;
use crate::config::settings::Config;
use crate::domain::PersonaId;
use crate::mime::Signer;
use serde_json::{Map, Value, json};

/// Every setting, grouped by its file.
pub fn effective(config: &Config) -> Map<String, Value> {
    let mut files = Map::new();
    files.insert(
        GATEWAY_FILE.to_owned(),
        show_gateway(&config.gateway, &config.limits),
    );
    files.insert(INFERENCE_FILE.to_owned(), show_inference(&config.inference));
    files.insert(PRICES_FILE.to_owned(), prices::show(&config.prices));
    let profiles = config.context.iter();
    let profiles = profiles.map(|(name, p)| {
        (
            name.clone(),
            p.steps.iter().map(show_step).collect::<Value>(),
        )
    });
    files.insert(CONTEXT_FILE.to_owned(), Value::Object(profiles.collect()));
    let access = &config.security.access;
    let access = json!({
        "mode": access.mode.as_str(), "default_decision": decision(access.default_decision),
        "allow": access.allow, "deny": access.deny,
    });
    let send_allow = &config.security.send_allow;
    let authentication = authentication::show(&config.security.authentication);
    let mcp_server = &config.security.mcp_server;
    let shown = json!({
        "access": access, "authentication": authentication, "send_allow": send_allow,
        "reply_to_of": config.security.reply_to_of,
        "mcp_server": mcp_server,
    });
    files.insert(SECURITY_FILE.to_owned(), shown);
    let policy = &config.policy;
    let shown = json!({"rules": policy.rules, "approvals": policy.approvals});
    files.insert(POLICY_FILE.to_owned(), shown);
    files.insert(HOOKS_FILE.to_owned(), json!({"hooks": config.hooks}));
    files.insert(KEEPING_FILE.to_owned(), json!(config.keeping));
    files.insert(WEB_FILE.to_owned(), json!(config.web));
    files.insert(SKILLS_FILE.to_owned(), json!({ "skills": config.skills }));
    let servers = config
        .mcp
        .iter()
        .map(|server| (server.name.clone(), json!(server)));
    let servers: Map<String, Value> = servers.collect();
    files.insert(MCP_FILE.to_owned(), json!({ "servers": servers }));
    for tool in &config.own_tools {
        files.insert(own_tool_file(&tool.name), json!(tool));
    }
    for persona in config.personas.iter() {
        files.insert(persona_file(persona.id.as_str()), show_persona(persona));
    }
    files
}

/// JSON of one persona's settings.
pub fn show_persona(persona: &Persona) -> Value {
    let (profile, output_schema, letters) = persona.letters.show();
    let mut shown = json!({
        "id": persona.id.as_str(),
        "name": persona.name,
        "address": persona.address.to_string(),
        "aliases": persona.aliases.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "reply": persona.reply.as_str(),
        "profile": profile,
        "output_schema": output_schema,
        "letters": letters,
        "provider": persona.provider,
        "model": persona.model,
        "fallback": persona.fallback.as_deref().map(fallback::show),
        "tools": persona.tools.show(),
        "timezone": persona.timezone.name(),
        "budget": budgets::show_persona(&persona.budget),
        "plan": persona.plan,
        "pdf_files": persona.pdf_files.as_str(),
        "shell": persona.shell,
        "rules": persona.rules,
        "max_tool_turns": persona.settings.max_tool_turns,
    });
    let budget = &mut shown["budget"];
    budget["tool_calls_max"] = persona.settings.tool_calls_max.into();
    budget["duration_max"] = persona.settings.duration_max.map(spell).into();
    if let Some(members) = shown.as_object_mut() {
        members.extend(persona.mail.show());
        members.extend(run_settings::show(&persona.settings));
    }
    shown
}

fn show_gateway(gateway: &Gateway, limits: &Limits) -> Value {
    let folders = gateway.folders.iter().map(|folder| {
        let fallback = folder.fallback.as_ref().map(PersonaId::as_str);
        json!({"path": folder.path, "fallback": fallback, "poll": spell(folder.poll)})
    });
    let mail = gateway.listeners.iter().map(|one| one.position);
    let pages = gateway.http_listeners.iter().map(|one| one.position);
    let mut listening: Vec<(usize, Value)> = mail
        .zip(listeners::show(&gateway.listeners))
        .chain(pages.zip(http_listeners::show(&gateway.http_listeners)))
        .collect();
    listening.sort_by_key(|(position, _)| *position);
    let listening: Vec<Value> = listening.into_iter().map(|(_, shown)| shown).collect();
    json!({
        "mail_domain": gateway.mail_domain,
        "host_name": gateway.host_name,
        "owners": gateway.owners.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "listeners": listening,
        "tls": gateway.tls.as_ref().map(|tls| json!({"certificate": tls.certificate, "key": tls.key})),
        "submission": submission::show(&gateway.submission),
        "folders": folders.collect::<Vec<_>>(),
        "mailboxes": gateway.mailboxes.iter().map(mailboxes::show).collect::<Vec<_>>(),
        "outbound": gateway.outbound.as_ref().map(|transport| show_outbound(transport, gateway)),
        "retry": {"give_up_after": spell(gateway.retry.give_up_after)},
        "notices": {
            "persona": gateway.notices.persona.as_ref().map(PersonaId::as_str),
            "interval": spell(gateway.notices.interval),
            "delayed_after": spell(gateway.notices.delayed_after),
            "filed_interval": spell(gateway.notices.filed_interval),
        },
        "commands": gateway.commands,
        "sender_notes": gateway.sender_notes,
        "webhooks": gateway.webhooks.iter().map(webhooks::show).collect::<Vec<_>>(),
        "telemetry": telemetry::show(&gateway.telemetry),
        "ingest": ingest::show(&gateway.ingest),
        "limits": limits,
    })
}

fn show_outbound(transport: &TransportSettings, gateway: &Gateway) -> Value {
    let mut shown = match transport {
        TransportSettings::Folder(path) => json!({"kind": "folder", "path": path}),
        TransportSettings::Smarthost(smarthost) => show_smarthost(smarthost),
    };
    shown["dkim"] = gateway.signers.iter().map(show_signer).collect();
    shown["on_unknown"] = match gateway.retry.on_unknown {
        OnUnknown::ResendOnce => "resend_once".into(),
        OnUnknown::Resend => "resend".into(),
        OnUnknown::Hold => "hold".into(),
    };
    shown["bounce_address"] = match gateway.bounce_address {
        BounceAddress::Tagged => "tagged".into(),
        BounceAddress::Plain => "plain".into(),
    };
    shown
}

fn show_signer(signer: &Signer) -> Value {
    json!({"domain": signer.domain(), "selector": signer.selector(), "algorithm": signer.algorithm()})
}

fn show_smarthost(smarthost: &Smarthost) -> Value {
    json!({
        "kind": "smarthost",
        "host": smarthost.host,
        "port": smarthost.port,
        "tls": match smarthost.tls {
            SmarthostTls::None => "none",
            SmarthostTls::StartTls => "starttls",
            SmarthostTls::Implicit => "implicit",
        },
        "user": smarthost.credentials.as_ref().map(|(user, _)| user),
        "password": set(smarthost.credentials.is_some()),
        "connections_max": smarthost.connections_max,
    })
}

fn show_inference(inference: &Inference) -> Value {
    let providers = inference
        .providers
        .iter()
        .map(|(name, settings)| (name.clone(), show_provider(settings)));
    json!({
        "provider": inference.provider,
        "model": inference.model,
        "fallback": fallback::show(&inference.fallback),
        "fallback_on_refusal": inference.fallback_on_refusal,
        "summary_model": inference.summary_model.as_ref().map(fallback::show_one),
        "embeddings": inference.embeddings.as_ref().map(embeddings::show),
        "max_output_tokens": inference.max_output_tokens,
        "temperature": inference.temperature,
        "max_tool_turns": inference.budget.turns_max,
        "budget": show_budget(inference),
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
        "providers": providers.collect::<Map<_, _>>(),
    })
}

/// JSON of a provider under the keys of its block that its adapter reads.
fn show_provider(settings: &ProviderSettings) -> Value {
    let agent = &settings.agent;
    let mut shown = json!({
        "base_url": settings.base_url,
        "plain_http": settings.plain_http,
        "api_key_variable": settings.key_variable,
        "api_key": set(settings.api_key.is_some()),
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
    if let (Some(shown), Ok(Value::Object(chat))) =
        (shown.as_object_mut(), serde_json::to_value(&settings.chat))
    {
        shown.extend(chat);
        shown.extend(run_settings::show(&settings.settings));
        shown.retain(|key, _| key == "api_key" || settings.reads.contains(&key.as_str()));
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

fn show_budget(inference: &Inference) -> Value {
    let budget = &inference.budget;
    let mut shown = json!({
        "tool_calls_max": budget.tool_calls_max,
        "tool_failures_max": budget.tool_failures_max,
        "tokens_max": budget.tokens_max,
        "cost_usd_max": budget.cost_micros_max.map(budgets::dollars),
        "duration_max": spell(budget.duration_max),
        "context_tokens_max": budget.context_tokens_max,
        "mails_max": budget.mails_max,
    });
    if let Some(members) = shown.as_object_mut() {
        members.extend(budgets::show(&inference.budgets));
    }
    shown
}

fn show_step(step: &ContextStep) -> Value {
    json!({
        "use": step.resolver,
        "args": step.args,
        "budget_tokens": step.budget_tokens,
        "required": step.required,
    })
}

fn set(is_set: bool) -> Option<&'static str> {
    is_set.then_some("[set]")
}

fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
    }
}
