//! Tools that the policy offers to a run, by the facts that do not change while it lasts.

use crate::config::{Config, Persona};
use crate::domain::Timestamp;
use crate::policy::{self, CallFacts, PolicyCall, PolicyRule};
use crate::runs::label::RunLabel;
use crate::store::ClaimedRun;
use crate::tools::{Effects, RegisteredTool, ToolClass};
use chrono::{Datelike, Timelike};

/// Reports whether the policy offers a tool to a run.
pub fn is_offered(
    config: &Config,
    run: &ClaimedRun,
    persona: &Persona,
    label: &RunLabel,
    tool: &RegisteredTool,
) -> bool {
    if config.policy.rules.is_empty() && persona.rules.is_empty() {
        return true;
    }
    // A replay offers what was offered then, so the time is the run's own.
    let facts = of_tool(of_run(run, persona, label, run.created_at), tool);
    let call = PolicyCall {
        persona: &persona.id,
        tool: tool.name(),
        facts: &facts,
        now: run.created_at,
    };
    policy::is_offered(rules(config, persona), call)
}

/// Returns the rules for a persona, in order.
pub fn rules<'c>(config: &'c Config, persona: &'c Persona) -> impl Iterator<Item = &'c PolicyRule> {
    config.policy.rules.iter().chain(&persona.rules)
}

/// Returns the facts that do not change while a run lasts.
pub fn of_run(run: &ClaimedRun, persona: &Persona, label: &RunLabel, now: Timestamp) -> CallFacts {
    let local = now.to_utc().with_timezone(&persona.timezone);
    let weekday = local.weekday().to_string().to_lowercase();
    CallFacts::default()
        .with("trigger", run.trigger.as_str())
        .with("sender", label.sender.as_str())
        .with("hour", local.hour())
        .with("weekday", weekday)
}

/// Adds the facts of a tool.
pub fn of_tool(facts: CallFacts, tool: &RegisteredTool) -> CallFacts {
    let class = match tool.class() {
        ToolClass::Repeatable => "repeatable",
        ToolClass::Transactional => "transactional",
        ToolClass::Verifiable => "verifiable",
        ToolClass::Once => "once",
    };
    let facts = facts.with("class", class);
    let facts = match tool.declaration().capabilities.owner {
        true => facts.with("asks_owner", true),
        false => facts,
    };
    let facts = match tool.declaration().capabilities.commands {
        true => facts.with("runs_command", true),
        false => facts,
    };
    let facts = match tool.effects().is_gated {
        true => facts.with("is_gated", true),
        false => facts,
    };
    let facts = match tool.effects().senders {
        Some(senders) => facts.with("senders", senders.as_str()),
        None => facts,
    };
    match effects(tool.effects()) {
        effects if effects.is_empty() => facts,
        effects => facts.with("effect", effects),
    }
}

fn effects(effects: Effects) -> Vec<&'static str> {
    let Effects {
        reads_private,
        sends_out,
        changes_state,
        runs_code,
        is_gated: _,
        senders: _,
    } = effects;
    let all = [
        (reads_private, "reads_private"),
        (sends_out, "sends_out"),
        (changes_state, "changes_state"),
        (runs_code, "runs_code"),
    ];
    all.into_iter()
        .filter_map(|(has, name)| has.then_some(name))
        .collect()
}
