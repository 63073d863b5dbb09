//! A rule, and the decision of a list of rules on a call.

use super::condition::RuleCondition;
use super::decision::{PolicyDecision, PolicyEffect};
use super::defaults::by_table;
use super::facts::CallFacts;
use crate::domain::{PersonaId, Timestamp};
use crate::text::glob_matches;
use serde::{Serialize, Serializer};

/// A rule of `configs/policy.json` or of a persona's `policy.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyRule {
    pub id: String,
    pub effect: PolicyEffect,
    /// Persona that it is for; `None`: all.
    pub persona: Option<PersonaId>,
    /// Names of tools, in which `*` stands for any text; empty: all.
    #[serde(rename = "tool")]
    pub tools: Vec<String>,
    #[serde(rename = "when", serialize_with = "as_typed")]
    pub conditions: Vec<RuleCondition>,
    /// Instant from which it does not apply any more.
    pub until: Option<Timestamp>,
    /// Calls that it may decide; afterwards it does not apply any more.
    pub uses_max: Option<u64>,
    /// Reason, for the model and for people.
    pub why: Option<String>,
}

/// Serializes conditions as they stand in the file.
fn as_typed<S: Serializer>(conditions: &[RuleCondition], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(conditions.iter().map(|c| (c.fact, &c.typed)))
}

/// A call to be decided on.
#[derive(Clone, Copy)]
pub struct PolicyCall<'a> {
    pub persona: &'a PersonaId,
    pub tool: &'a str,
    pub facts: &'a CallFacts,
    pub now: Timestamp,
}

/// Code of a decision that a rule made.
const BY_RULE: &str = "rule";

impl PolicyRule {
    fn concerns(&self, call: PolicyCall<'_>) -> bool {
        self.persona
            .as_ref()
            .is_none_or(|persona| persona == call.persona)
            && (self.tools.is_empty()
                || self.tools.iter().any(|tool| glob_matches(tool, call.tool)))
            && self.until.is_none_or(|until| call.now < until)
    }

    /// Reports whether the rule applies to a call.
    pub fn matches(&self, call: PolicyCall<'_>) -> bool {
        self.concerns(call) && self.conditions.iter().all(|c| c.holds(call.facts))
    }

    /// Reports whether all its conditions are known before a call.
    pub fn is_of_run(&self) -> bool {
        self.conditions.iter().all(|condition| condition.is_of_run)
    }
}

/// Returns the decision on a call. `has_uses` tells whether a rule with `uses_max` may decide once more.
pub fn decide<'r>(
    rules: impl IntoIterator<Item = &'r PolicyRule>,
    call: PolicyCall<'_>,
    mut has_uses: impl FnMut(&PolicyRule) -> bool,
) -> PolicyDecision {
    let table = by_table(call.facts);
    let rule = rules
        .into_iter()
        .find(|rule| rule.matches(call) && (rule.uses_max.is_none() || has_uses(rule)));
    let Some(rule) = rule else {
        return table.decision;
    };
    let widens = match (rule.effect, table.decision.effect) {
        (PolicyEffect::Allow, effect) => effect != PolicyEffect::Allow,
        (PolicyEffect::Ask | PolicyEffect::Draft, effect) => effect == PolicyEffect::Deny,
        (PolicyEffect::Deny | PolicyEffect::Hide, _) => false,
    };
    if widens && !table.is_widenable {
        return table.decision;
    }
    let effect = match rule.effect {
        PolicyEffect::Hide => PolicyEffect::Deny,
        effect => effect,
    };
    PolicyDecision {
        effect,
        rule: Some(rule.id.clone()),
        code: BY_RULE.to_owned(),
        why: rule
            .why
            .clone()
            .unwrap_or_else(|| format!("the policy's rule `{}` says so", rule.id)),
    }
}

/// Reports whether a tool is offered to a run: not, if a rule denies every call of it. `call` has the facts of the run alone.
pub fn is_offered<'r>(
    rules: impl IntoIterator<Item = &'r PolicyRule>,
    call: PolicyCall<'_>,
) -> bool {
    for rule in rules {
        let is_possible = rule.concerns(call)
            && rule
                .conditions
                .iter()
                .all(|condition| !condition.is_of_run || condition.holds(call.facts));
        if !is_possible {
            continue;
        }
        let is_certain = rule.is_of_run() && rule.uses_max.is_none();
        match rule.effect {
            PolicyEffect::Allow | PolicyEffect::Draft | PolicyEffect::Ask => return true,
            PolicyEffect::Deny | PolicyEffect::Hide if is_certain => return false,
            PolicyEffect::Deny | PolicyEffect::Hide => {}
        }
    }
    true
}
