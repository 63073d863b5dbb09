//! `attache policy explain`: the rules in force, the facts, and the decision on a call with given facts.

use super::super::screen::Columns;
use super::super::{CommandContext, Exit, Failure};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Persona, REPLY};
use crate::domain::PersonaId;
use crate::policy::{
    CallFacts, FACTS, FactKind, KnownFact, PolicyCall, PolicyDecision, PolicyRule, decide,
    read_condition,
};
use crate::runs::tool_calls::run_facts::of_tool;
use crate::tools;
use serde_json::{Value, json};

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
        None => Err(Failure::new(Exit::NoInput, format!("no persona `{typed}`"))
            .hint("`attache persona list` shows who lives here")
            .into()),
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
    let hint =
        "`attache tools list` shows those that there are; `reply` is the final text of a run";
    Err(Failure::new(Exit::NoInput, format!("no tool `{tool}`"))
        .hint(hint)
        .into())
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
    context.screen.list(rules, columns, nothing, row)?;
    Ok(Exit::Ok)
}

/// Adds a fact from `NAME=VALUE`.
fn with_fact(facts: CallFacts, typed: &str) -> anyhow::Result<CallFacts> {
    let (name, value) = typed.split_once('=').unwrap_or((typed, ""));
    let Some(fact) = KnownFact::find(name) else {
        let names: Vec<&str> = FACTS.iter().map(|fact| fact.name).collect();
        return Err(Failure::new(Exit::Usage, format!("no fact `{name}`"))
            .hint(format!("facts are: {}", names.join(", ")))
            .into());
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
    if context.json() {
        context.screen.json(decision)?;
        return Ok(Exit::Ok);
    }
    let by = match &decision.rule {
        Some(rule) => format!("rule {rule}"),
        None => "the table".to_owned(),
    };
    context.screen.fields(&[
        ("decision", decision.effect.as_str().to_owned()),
        ("by", by),
        ("code", decision.code.clone()),
        ("why", decision.why.clone()),
    ])?;
    Ok(Exit::Ok)
}
