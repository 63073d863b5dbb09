//! `attache policy`: which rule decides, and what the rules would have decided.
//!
//! The rules in the files are applied to facts that were given, or to recorded calls.

use super::args::lookup::record_of;
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, refuse};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Persona, REPLY, load_snapshot};
use crate::domain::PersonaId;
use crate::policy::{
    CallFacts, FACTS, FactKind, KnownFact, PolicyCall, PolicyDecision, PolicyRule, decide,
    read_condition,
};
use crate::replay::policy_preview::{
    PolicyComparison, RuleEffects, preview, recorded_calls, sum_up,
};
use crate::runs::tool_calls::run_facts::of_tool;
use crate::tools;
use clap::value_parser;
use serde_json::{Value, json};
use std::time::Duration;

/// Explain which calls of tools are allowed, asked about or refused, and why
#[derive(clap::Subcommand)]
pub enum PolicyCommand {
    Explain(ExplainPolicy),
    /// Show which rule decided each call of a run, and which would decide now
    Test {
        /// The run: its id, the last or first characters of it, or `last`
        #[arg(long, value_name = "ID")]
        run: String,
        /// Only this call of it
        #[arg(long, value_name = "ID")]
        call: Option<String>,
    },
    /// Show what the rules in the files would have allowed, asked about and refused
    #[command(
        after_help = "A working engine takes edited rules within seconds: write new ones elsewhere, look here by --rules what they would have \
                      done, and copy them when you like what you see. Every call is decided on by the facts that were recorded with it."
    )]
    Preview {
        /// Look at the calls of the last so many days
        #[arg(long, value_name = "N", default_value_t = 30, value_parser = value_parser!(u32).range(1..=3650))]
        days: u32,
        /// Rules of this file, in place of `configs/policy.json`
        #[arg(long, value_name = "FILE")]
        rules: Option<String>,
    },
}

impl PolicyCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::Explain(it) => it.run(context),
            Self::Test { run, call } => test_run(context, &run, call).await,
            Self::Preview { days, rules } => preview_rules(context, days, rules).await,
        }
    }
}

/// Show the rules in order, or which of them decides on a call with these facts
#[derive(clap::Args)]
#[command(
    after_help = "Without --tool it lists the rules. What the tool declares is known; any other fact that is not given is not there, and \
                  holds no condition. `docs/guide/policy.md` lists all of them."
)]
pub struct ExplainPolicy {
    /// For this persona: its own rules stand behind those of configs/policy.json
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    /// A tool, or `reply` for the final text of a run
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Such as `sender=contact recipients=outside recipient=eve@x.test`
    #[arg(value_name = "FACT=VALUE", num_args = 0.., action = clap::ArgAction::Set)]
    facts: Vec<String>,
}

impl ExplainPolicy {
    pub fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        let persona = persona(&config, &self.persona.unwrap_or_default())?;
        let own = persona.into_iter().flat_map(|persona| &persona.rules);
        let rules: Vec<&PolicyRule> = config.policy.rules.iter().chain(own).collect();
        let Some(tool) = self.tool.filter(|tool| !tool.is_empty()) else {
            return list(context, &rules);
        };
        let mut facts = declared_facts(&config, &tool)?;
        for typed in &self.facts {
            facts = with_fact(facts, typed)?;
        }
        let nobody = PersonaId::parse("nobody")?;
        let call = PolicyCall {
            persona: persona.map_or(&nobody, |persona| &persona.id),
            tool: &tool,
            facts: &facts,
            now: SystemClock::new().now(),
        };
        show(context, &decide(rules, call, |_| true))
    }
}

fn persona<'c>(config: &'c Config, typed: &str) -> anyhow::Result<Option<&'c Persona>> {
    if typed.is_empty() {
        return Ok(None);
    }
    let known = PersonaId::parse(typed)
        .ok()
        .and_then(|id| config.personas.get(&id));
    match known {
        Some(persona) => Ok(Some(persona)),
        None => refuse(
            Exit::NoInput,
            format!("no persona `{typed}`"),
            "`attache persona list` shows who lives here",
        ),
    }
}

/// Returns the facts that a tool declares. Errors: no rule could be about that tool.
fn declared_facts(config: &Config, tool: &str) -> anyhow::Result<CallFacts> {
    let registry = tools::of_config(config);
    match registry.find(tool) {
        Some(tool) => return Ok(of_tool(CallFacts::default(), tool)),
        None if tool == REPLY => return Ok(CallFacts::default()),
        None => {}
    }
    refuse(
        Exit::NoInput,
        format!("no tool `{tool}`"),
        "`attache tools list` shows those that there are; `reply` is the final text of a run",
    )
}

fn list(context: &CommandContext, rules: &[&PolicyRule]) -> anyhow::Result<Exit> {
    let row = |rule: &&PolicyRule| {
        let value = json!(rule);
        let any = |text: String, none: &str| {
            if text.is_empty() {
                none.to_owned()
            } else {
                text
            }
        };
        vec![
            rule.id.clone(),
            rule.effect.as_str().to_owned(),
            rule.persona
                .as_ref()
                .map_or("all".to_owned(), ToString::to_string),
            any(rule.tools.join(", "), "all"),
            value["when"].to_string(),
            rule.until.map(|at| at.to_string()).unwrap_or_default(),
            rule.uses_max.map(|max| max.to_string()).unwrap_or_default(),
        ]
    };
    let headings = [
        "RULE", "EFFECT", "PERSONA", "TOOLS", "WHEN", "UNTIL", "USES",
    ];
    let columns = Columns::of(&headings)
        .main("WHEN")
        .optional(&["UNTIL", "USES"]);
    let nothing = "there is no rule: the table decides alone";
    context.list(rules, columns, nothing, row)
}

/// Adds a fact from `NAME=VALUE`.
fn with_fact(facts: CallFacts, typed: &str) -> anyhow::Result<CallFacts> {
    let (name, value) = typed.split_once('=').unwrap_or((typed, ""));
    let Some(fact) = KnownFact::find(name) else {
        let names: Vec<&str> = FACTS.iter().map(|fact| fact.name).collect();
        return refuse(
            Exit::Usage,
            format!("no fact `{name}`"),
            format!("facts are: {}", names.join(", ")),
        );
    };
    let value = match fact.kind {
        FactKind::Number => value.parse::<f64>().map(Value::from).map_err(|_| {
            Failure::new(Exit::Usage, format!("`{name}` is a number, not `{value}`"))
        })?,
        FactKind::Flag => match value.parse::<bool>() {
            Ok(flag) => Value::from(flag),
            Err(_) => return Err(never(format!("`{name}` is `true` or `false`"))),
        },
        FactKind::SomeText | FactKind::EveryText => {
            value.split(',').map(str::trim).collect::<Vec<_>>().into()
        }
        FactKind::Word(_) | FactKind::Level => Value::from(value),
    };
    // What no rule can ask for is no fact either. A rule may ask for several levels, a call has one.
    if matches!(fact.kind, FactKind::Word(_) | FactKind::Level) {
        read_condition(name, &json!(value)).map_err(never)?;
        if fact.kind == FactKind::Level
            && value
                .as_str()
                .is_some_and(|word| word.starts_with(['<', '>']))
        {
            return Err(never(format!("`{name}` is one level, such as `contact`")));
        }
    }
    let name = if name == "every_recipient" {
        "recipient"
    } else {
        fact.name
    };
    Ok(facts.with(name, value))
}

fn never(message: String) -> anyhow::Error {
    Failure::new(Exit::Usage, message).into()
}

fn show(context: &CommandContext, decision: &PolicyDecision) -> anyhow::Result<Exit> {
    context.report(decision, |screen| {
        let by = match &decision.rule {
            Some(rule) => format!("rule {rule}"),
            None => "the table".to_owned(),
        };
        screen.fields(&[
            ("decision", decision.effect.as_str().to_owned()),
            ("by", by),
            ("code", decision.code.clone()),
            ("why", decision.why.clone()),
        ])?;
        Ok(())
    })
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the configuration with another file of rules. Errors: the file cannot be read, its rules are faulty.
fn with_rules(context: &CommandContext, file: &str) -> anyhow::Result<Config> {
    let rules = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::NoInput, format!("cannot read `{file}`")).because(error)
    })?;
    let Config {
        workspace,
        names,
        snapshot,
        ..
    } = context.config()?;
    let snapshot = snapshot.with("configs/policy.json", &rules);
    Ok(load_snapshot(&workspace, &names, &snapshot)?)
}

async fn preview_rules(
    context: &CommandContext,
    days: u32,
    rules: Option<String>,
) -> anyhow::Result<Exit> {
    let config = match rules {
        Some(file) => with_rules(context, &file)?,
        None => context.config()?,
    };
    let store = context.shared_store().await?;
    let since = store.clock().now().minus(DAY * days);
    let (calls, without) = recorded_calls(&store, since).await?;
    let preview = sum_up(&preview(&config, &calls), without);
    context.report(&preview, |screen| {
    let rows = preview
        .by_rule
        .iter()
        .map(|(rule, effects)| rule_row(rule, effects));
    let headings = ["RULE", "ALLOW", "ASK", "DENY", "CHANGED", "REJECTED THEN"];
    let nothing = "no call was recorded in that time";
    screen.listing(
        Columns::of(&headings).main("RULE"),
        &rows.collect::<Vec<_>>(),
        nothing,
    )?;
    if !preview.changed.is_empty() {
        screen.line("")?;
        compared(context, &preview.changed)?;
    }
    if without > 0 {
        let line = format!(
            "{without} calls have no recorded facts: of earlier versions, or refused before any rule"
        );
        screen.line(line)?;
    }
     Ok(())
})
}

fn rule_row(rule: &str, effects: &RuleEffects) -> Vec<String> {
    let counts = [
        effects.allow,
        effects.ask,
        effects.deny,
        effects.changed,
        effects.rejected_then,
    ];
    let counts = counts.iter().map(ToString::to_string);
    std::iter::once(rule.to_owned()).chain(counts).collect()
}

async fn test_run(
    context: &CommandContext,
    run: &str,
    call: Option<String>,
) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let store = context.shared_store().await?;
    let record = record_of(&store, run).await?;
    let begun = crate::domain::Timestamp::parse(&record.run.created_at);
    let since = begun.unwrap_or(crate::domain::Timestamp::from_millis(0));
    let (mut calls, _without) = recorded_calls(&store, since).await?;
    calls.retain(|(row, _)| {
        row.run.as_str() == record.run.id
            && call
                .as_ref()
                .is_none_or(|call| call.is_empty() || row.call_id == *call)
    });
    let found = preview(&config, &calls);
    context.report(&found, |_| compared(context, &found))
}

fn compared(context: &CommandContext, calls: &[PolicyComparison]) -> anyhow::Result<()> {
    let by = |decision: &crate::policy::PolicyDecision| {
        let rule = decision.rule.as_deref().unwrap_or("table");
        format!("{} ({rule})", decision.effect.as_str())
    };
    let rows = calls.iter().map(|call| {
        vec![
            call.run.clone(),
            call.call.clone(),
            call.tool.clone(),
            call.at.to_string(),
            by(&call.then),
            by(&call.now),
            call.approval
                .map(|state| state.to_string())
                .unwrap_or_default(),
        ]
    });
    let headings = ["RUN", "CALL", "TOOL", "AT", "THEN", "NOW", "OWNER"];
    let columns = Columns::of(&headings)
        .main("TOOL")
        .optional(&["AT", "OWNER"]);
    let nothing = "no call with recorded facts";
    Ok(context
        .screen
        .listing(columns, &rows.collect::<Vec<_>>(), nothing)?)
}
