//! `configs/policy.json` and `personas/<id>/policy.json`: rules of tool calls, and how the owner is asked.
//!
//! Rules of `configs/` stand before those of a persona, so that a persona's file opens nothing that the first file closes.

use crate::config::values::section::*;
use crate::domain::{PersonaId, Timestamp};
use crate::policy::{FACTS, PolicyEffect, PolicyRule, read_condition, shadow_of};
use chrono::{NaiveDate, NaiveTime};
use serde_json::Map;

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
    approvals: Option<ApprovalSettings>,
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
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalSettings {
    /// Time after which a question that nobody answered counts as a no.
    #[serde(with = "TypedDuration")]
    pub expires_after: Duration,
    /// Most open questions of one persona; further calls are refused.
    #[schemars(range(min = 1, max = 1000))]
    pub open_max: u32,
    /// Most questions of one run; further calls are refused.
    #[schemars(range(min = 1, max = 100))]
    pub questions_per_run_max: u32,
    /// Time after which a draft that nobody sent is discarded.
    #[serde(with = "TypedDuration")]
    pub drafts_expire_after: Duration,
    /// Most drafts of one persona that wait; further ones are stored and not kept as drafts.
    #[schemars(range(min = 1, max = 10000))]
    pub drafts_open_max: u32,
    /// Tools whose questions an answer by mail does not decide; `*` stands for any text.
    pub not_by_mail: Vec<String>,
}

impl Default for ApprovalSettings {
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
#[derive(Debug, Clone, Default, Serialize)]
pub struct PolicySettings {
    /// Rules for every persona.
    pub rules: Vec<PolicyRule>,
    pub approvals: ApprovalSettings,
}

/// Resolves `configs/policy.json`. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedPolicy>, ctx: &mut CheckContext<'_>) -> PolicySettings {
    let approvals = file.typed.approvals.clone().unwrap_or_default();
    for (key, span) in [
        ("expires_after", approvals.expires_after),
        ("drafts_expire_after", approvals.drafts_expire_after),
    ] {
        if span < Duration::from_secs(60) {
            ctx.place(file, "/approvals").refuse(
                key,
                format!("`{}` is too short for an answer by mail", spell(span)),
                "write a minute or more, such as `72h`",
            );
        }
    }
    PolicySettings {
        rules: rules(file, None, &[], ctx),
        approvals,
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
        let message = "stands in `configs/policy.json` only";
        ctx.place(file, "").complain("approvals", message);
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
    let place = &mut ctx.place(file, "/rules");
    if file.typed.rules.len() > RULES_MAX {
        place.complain("", format!("has more than {RULES_MAX} rules"));
    }
    for (index, typed) in file.typed.rules.iter().take(RULES_MAX).enumerate() {
        let place = &mut place.under(index);
        let Some(rule) = rule(typed, persona, place) else {
            continue;
        };
        let id = &rule.id;
        if all.iter().any(|other| other.id == *id) {
            let message = format!("two rules are called `{id}`");
            place.refuse(
                "id",
                message,
                "give each rule an id of its own: records name it",
            );
        }
        if let Some(PolicyRule { id: shadow, .. }) = shadow_of(&all, &rule) {
            place.refuse(
                "",
                format!("rule `{id}` never decides: `{shadow}` matches whenever it does"),
                format!("put `{id}` before `{shadow}`, or remove it"),
            );
        }
        all.push(rule);
    }
    all.split_off(before.len())
}

fn rule(
    typed: &TypedRule,
    persona: Option<&PersonaId>,
    place: &mut CheckPlace<'_, '_>,
) -> Option<PolicyRule> {
    let persona = match (&typed.persona, persona) {
        (Some(_), Some(_)) => {
            place.refuse(
                "persona",
                "is the persona of this file already",
                "leave it out",
            );
            return None;
        }
        (Some(name), None) => Some(place.persona("persona", Some(name))?),
        (None, persona) => persona.cloned(),
    };
    let tools: Vec<String> = match &typed.tool {
        None => Vec::new(),
        Some(OneOrMore::One(tool)) => vec![tool.clone()],
        Some(OneOrMore::More(tools)) => tools.clone(),
    };
    for tool in tools.iter().filter(|tool| !tool.contains('*')) {
        place.is_tool("tool", tool, Some(REPLY));
    }
    let mut conditions = Vec::new();
    for (key, value) in &typed.when {
        match read_condition(key, value) {
            Ok(condition) => conditions.push(condition),
            Err(message) => {
                let problem = place
                    .file
                    .problem_at(&child(&place.at("when"), key), message);
                let is_known = FACTS.iter().any(|fact| fact.name == key);
                place.ctx.report(match is_known {
                    true => problem,
                    false => problem.did_you_mean(key, FACTS.iter().map(|fact| fact.name)),
                });
            }
        }
    }
    let until = typed.until.as_deref().and_then(|typed| {
        let day = NaiveDate::parse_from_str(typed, "%Y-%m-%d").ok();
        if day.is_none() {
            let hint = "write a day such as `2027-03-01`";
            place.refuse("until", format!("`{typed}` is no day"), hint);
        }
        Some(Timestamp::from(day?.and_time(NaiveTime::MIN).and_utc()))
    });
    let rule = PolicyRule {
        id: typed.id.clone(),
        effect: typed.effect,
        persona,
        tools,
        conditions,
        until,
        uses_max: typed.uses_max,
        why: typed.why.clone(),
    };
    if rule.effect == PolicyEffect::Hide && !(rule.is_of_run() && rule.uses_max.is_none()) {
        place.refuse(
            "effect",
            "a tool is hidden before a call, and this rule asks for facts of a call",
            "write `deny`, which refuses the call",
        );
    }
    Some(rule)
}
