//! `configs/policy.json` and `personas/<id>/policy.json`: rules of tool calls, and how the owner is asked.
//!
//! Rules of `configs/` stand before those of a persona, so that a persona's file opens nothing that the first file closes.

use super::values::check_context::CheckContext;
use crate::config::file::duration::{self, TypedDuration};
use crate::config::file::{ConfigFile, Problem, child};
use crate::domain::{PersonaId, Timestamp};
use crate::policy::{FACTS, PolicyEffect, PolicyRule, read_condition, shadow_of};
use chrono::{NaiveDate, NaiveTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// Name by which a rule means the final text of a run, which is mailed without a tool.
pub const REPLY: &str = "reply";
/// Most rules of one file.
const RULES_MAX: usize = 5_000;

/// Rules of tool calls, and how the owner is asked.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/policy.json")]
pub struct TypedPolicy {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Rules in order; the first that matches a call decides. Without one the table decides.
    #[serde(default)]
    rules: Vec<TypedRule>,
    /// How the owner is asked. Only in `configs/policy.json`.
    approvals: Option<TypedApprovals>,
}

/// A rule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedRule {
    /// Name of the rule, as `policy explain` and records show it.
    #[schemars(length(min = 1, max = 64))]
    id: String,
    effect: PolicyEffect,
    /// Persona that it is for. Default: all. Only in `configs/policy.json`.
    persona: Option<String>,
    /// Tools that it is for; `*` stands for any text; `reply` is the final text of a run. Default: all.
    tool: Option<OneOrMore>,
    /// Facts that must hold, all of them: `docs/guide/policy.md` lists them.
    #[serde(default)]
    when: Map<String, Value>,
    /// Day such as `2027-03-01`, from whose beginning in UTC the rule does not apply any more.
    until: Option<String>,
    /// Calls that it may decide; afterwards it does not apply any more.
    #[schemars(range(min = 1))]
    uses_max: Option<u64>,
    /// Reason that the model and the owner read.
    #[schemars(length(max = 500))]
    why: Option<String>,
}

/// One text or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// How the owner is asked.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TypedApprovals {
    /// Time after which a question that nobody answered counts as a no.
    #[serde(with = "duration::text")]
    #[schemars(with = "TypedDuration")]
    expires_after: Duration,
    /// Most open questions of one persona; further calls are refused.
    #[schemars(range(min = 1, max = 1000))]
    open_max: u32,
    /// Most questions of one run; further calls are refused.
    #[schemars(range(min = 1, max = 100))]
    questions_per_run_max: u32,
    /// Time after which a draft that nobody sent is discarded.
    #[serde(with = "duration::text")]
    #[schemars(with = "TypedDuration")]
    drafts_expire_after: Duration,
    /// Most drafts of one persona that wait; further ones are stored and not kept as drafts.
    #[schemars(range(min = 1, max = 10000))]
    drafts_open_max: u32,
    /// Tools whose questions an answer by mail does not decide; `*` stands for any text.
    not_by_mail: Vec<String>,
}

impl Default for TypedApprovals {
    fn default() -> Self {
        Self {
            expires_after: Duration::from_secs(72 * 3600),
            open_max: 20,
            questions_per_run_max: 5,
            drafts_expire_after: Duration::from_secs(14 * 24 * 3600),
            drafts_open_max: 100,
            not_by_mail: Vec::new(),
        }
    }
}

/// Rules of a file, and how the owner is asked.
#[derive(Debug, Clone)]
pub struct PolicySettings {
    /// Rules for every persona.
    pub rules: Vec<PolicyRule>,
    pub approvals: ApprovalSettings,
}

/// How the owner is asked.
#[derive(Debug, Clone, Serialize)]
pub struct ApprovalSettings {
    /// Time after which a question that nobody answered counts as a no.
    #[serde(with = "duration::text")]
    pub expires_after: Duration,
    /// Most open questions of one persona.
    pub open_max: u32,
    /// Most questions of one run.
    pub questions_per_run_max: u32,
    /// Time after which a draft that nobody sent is discarded.
    #[serde(with = "duration::text")]
    pub drafts_expire_after: Duration,
    /// Most drafts of one persona that wait.
    pub drafts_open_max: u32,
    /// Tools whose questions an answer by mail does not decide, as patterns.
    pub not_by_mail: Vec<String>,
}

impl From<&TypedApprovals> for ApprovalSettings {
    fn from(typed: &TypedApprovals) -> Self {
        Self {
            expires_after: typed.expires_after,
            open_max: typed.open_max,
            questions_per_run_max: typed.questions_per_run_max,
            drafts_expire_after: typed.drafts_expire_after,
            drafts_open_max: typed.drafts_open_max,
            not_by_mail: typed.not_by_mail.clone(),
        }
    }
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            approvals: (&TypedApprovals::default()).into(),
        }
    }
}

/// Resolves `configs/policy.json`. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedPolicy>, ctx: &mut CheckContext<'_>) -> PolicySettings {
    let approvals = file.typed.approvals.as_ref();
    let spans = approvals.map(|typed| {
        [
            ("expires_after", typed.expires_after),
            ("drafts_expire_after", typed.drafts_expire_after),
        ]
    });
    let is_short = |(_, span): &(&str, Duration)| *span < Duration::from_secs(60);
    for (key, span) in spans.into_iter().flatten().filter(is_short) {
        let span = duration::spell(span);
        let message = format!("`{span}` is too short for an answer by mail");
        ctx.refuse(
            file,
            child("/approvals", key),
            message,
            "write a minute or more, such as `72h`",
        );
    }
    PolicySettings {
        rules: rules(file, None, &[], ctx),
        approvals: approvals.map_or_else(
            || PolicySettings::default().approvals,
            ApprovalSettings::from,
        ),
    }
}

/// Resolves a persona's file, whose rules stand behind these. Problems go to the context.
pub fn resolve_of_persona(
    file: &ConfigFile<TypedPolicy>,
    persona: &PersonaId,
    before: &[PolicyRule],
    ctx: &mut CheckContext<'_>,
) -> Vec<PolicyRule> {
    if file.typed.approvals.is_some() {
        let problem = file.problem_at("/approvals", "stands in `configs/policy.json` only");
        ctx.report(problem);
    }
    rules(file, Some(persona), before, ctx)
}

fn rules(
    file: &ConfigFile<TypedPolicy>,
    persona: Option<&PersonaId>,
    before: &[PolicyRule],
    ctx: &mut CheckContext<'_>,
) -> Vec<PolicyRule> {
    let mut all = before.to_vec();
    if file.typed.rules.len() > RULES_MAX {
        let problem = file.problem_at("/rules", format!("has more than {RULES_MAX} rules"));
        ctx.report(problem);
    }
    for (index, typed) in file.typed.rules.iter().take(RULES_MAX).enumerate() {
        let pointer = child("/rules", index);
        let Some(rule) = rule(file, &pointer, typed, persona, ctx) else {
            continue;
        };
        if all.iter().any(|other| other.id == rule.id) {
            ctx.refuse(
                file,
                format!("{pointer}/id"),
                format!("two rules are called `{}`", rule.id),
                "give each rule an id of its own: records name it",
            );
        }
        if let Some(shadow) = shadow_of(&all, &rule) {
            ctx.refuse(
                file,
                &pointer,
                format!(
                    "rule `{}` never decides: `{}` matches whenever it does",
                    rule.id, shadow.id
                ),
                format!("put `{}` before `{}`, or remove it", rule.id, shadow.id),
            );
        }
        all.push(rule);
    }
    all.split_off(before.len())
}

fn rule(
    file: &ConfigFile<TypedPolicy>,
    pointer: &str,
    typed: &TypedRule,
    persona: Option<&PersonaId>,
    ctx: &mut CheckContext<'_>,
) -> Option<PolicyRule> {
    let at = |key: &str| format!("{pointer}/{key}");
    let named = typed.persona.as_deref();
    if named.is_some() && persona.is_some() {
        ctx.refuse(
            file,
            &at("persona"),
            "is the persona of this file already",
            "leave it out",
        );
        return None;
    }
    let named = match named {
        Some(name) => Some(ctx.persona(file, &at("persona"), name)?),
        None => persona.cloned(),
    };
    let tools: Vec<String> = match &typed.tool {
        None => Vec::new(),
        Some(OneOrMore::One(tool)) => vec![tool.clone()],
        Some(OneOrMore::More(tools)) => tools.clone(),
    };
    for tool in tools.iter().filter(|tool| !tool.contains('*')) {
        if tool != REPLY && !ctx.knows_tool(tool) {
            let problem = file.problem_at(&at("tool"), format!("no tool `{tool}`"));
            let known = ctx.tool_names().chain([REPLY]);
            let problem = problem.did_you_mean(tool, known);
            ctx.report(problem);
        }
    }
    let rule = PolicyRule {
        id: typed.id.clone(),
        effect: typed.effect,
        persona: named,
        tools,
        conditions: conditions(file, &at("when"), &typed.when, ctx),
        until: until(file, &at("until"), typed.until.as_deref(), ctx),
        uses_max: typed.uses_max,
        why: typed.why.clone(),
    };
    if rule.effect == PolicyEffect::Hide && !(rule.is_of_run() && rule.uses_max.is_none()) {
        ctx.refuse(
            file,
            &at("effect"),
            "a tool is hidden before a call, and this rule asks for facts of a call",
            "write `deny`, which refuses the call",
        );
    }
    Some(rule)
}

fn conditions(
    file: &ConfigFile<TypedPolicy>,
    pointer: &str,
    when: &Map<String, Value>,
    ctx: &mut CheckContext<'_>,
) -> Vec<crate::policy::RuleCondition> {
    let mut conditions = Vec::new();
    for (key, value) in when {
        match read_condition(key, value) {
            Ok(condition) => conditions.push(condition),
            Err(message) => {
                let problem: Problem = file.problem_at(&child(pointer, key), message);
                let is_known = FACTS.iter().any(|fact| fact.name == key);
                ctx.report(match is_known {
                    true => problem,
                    false => problem.did_you_mean(key, FACTS.iter().map(|fact| fact.name)),
                });
            }
        }
    }
    conditions
}

fn until(
    file: &ConfigFile<TypedPolicy>,
    pointer: &str,
    typed: Option<&str>,
    ctx: &mut CheckContext<'_>,
) -> Option<Timestamp> {
    let typed = typed?;
    match NaiveDate::parse_from_str(typed, "%Y-%m-%d") {
        Ok(day) => Some(Timestamp::from(day.and_time(NaiveTime::MIN).and_utc())),
        Err(_) => {
            ctx.refuse(
                file,
                pointer,
                format!("`{typed}` is no day"),
                "write a day such as `2027-03-01`",
            );
            None
        }
    }
}
