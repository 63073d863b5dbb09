//! What the rules of a configuration would have decided on recorded calls: by the facts that were recorded with each.

use crate::config::Config;
use crate::domain::{ApprovalState, PersonaId, Timestamp};
use crate::policy::{PolicyCall, PolicyDecision, PolicyEffect, PolicyRule, decide};
use crate::runs::tool_calls::verdict::JudgedCall;
use crate::store::{JudgedCallRow, Result, Store};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Most calls that a preview reads.
const CALLS_MAX: usize = 1_000_000;

/// A recorded call with its recorded decision, and the decision by the present rules.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PolicyComparison {
    pub run: String,
    pub call: String,
    pub persona: PersonaId,
    pub tool: String,
    pub at: Timestamp,
    pub then: PolicyDecision,
    pub now: PolicyDecision,
    /// What became of the question about it, if its owner was asked.
    pub approval: Option<ApprovalState>,
}

impl PolicyComparison {
    pub fn differs(&self) -> bool {
        self.then.effect != self.now.effect
    }
}

/// What one rule, or the table, would have decided.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct RuleEffects {
    pub allow: u64,
    pub ask: u64,
    pub deny: u64,
    /// Calls that were decided otherwise then.
    pub changed: u64,
    /// Calls that it allows now and that an owner rejected then.
    pub rejected_then: u64,
}

/// Effects of the present rules on recorded calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PolicyPreview {
    /// Calls with recorded facts.
    pub calls: u64,
    /// Calls without: of earlier versions, or refused before any rule was asked.
    pub without_facts: u64,
    /// By rule; the table is `table`.
    pub by_rule: BTreeMap<String, RuleEffects>,
    /// Calls that are decided otherwise, oldest first; at most a thousand.
    pub changed: Vec<PolicyComparison>,
}

/// Most changed calls that a preview lists.
const CHANGED_MAX: usize = 1000;

/// Returns the calls since an instant with the facts that were recorded, oldest first, and the number of those without.
pub async fn recorded_calls(
    store: &Store,
    since: Timestamp,
) -> Result<(Vec<(JudgedCallRow, JudgedCall)>, u64)> {
    newest_calls(store, since, CALLS_MAX).await
}

/// As [`recorded_calls`], for the newest calls alone: not many more than `most`.
pub async fn newest_calls(
    store: &Store,
    since: Timestamp,
    most: usize,
) -> Result<(Vec<(JudgedCallRow, JudgedCall)>, u64)> {
    let (mut found, mut without, mut before) = (Vec::new(), 0, i64::MAX);
    loop {
        let page = store.judged_calls(before).await?;
        let Some(last) = page.last() else { break };
        let is_end = last.at < since || found.len() >= most;
        before = last.position;
        for row in page.into_iter().filter(|row| row.at >= since) {
            match judged(&row.payload_json) {
                Some(judged) => found.push((row, judged)),
                None => without += 1,
            }
        }
        if is_end {
            break;
        }
    }
    found.reverse();
    Ok((found, without))
}

/// Returns the decision that was recorded with a call.
pub fn judged(payload_json: &str) -> Option<JudgedCall> {
    let payload: Value = serde_json::from_str(payload_json).ok()?;
    serde_json::from_value(payload.get("policy")?.clone()).ok()
}

/// Decides on recorded calls by the rules of a configuration, in their order: rules that decide a limited number of calls
/// begin with none.
pub fn preview(config: &Config, calls: &[(JudgedCallRow, JudgedCall)]) -> Vec<PolicyComparison> {
    preview_with(config, None, calls)
}

/// As [`preview`], with a rule before all others.
pub fn preview_with(
    config: &Config,
    first: Option<&PolicyRule>,
    calls: &[(JudgedCallRow, JudgedCall)],
) -> Vec<PolicyComparison> {
    let mut uses: BTreeMap<String, u64> = BTreeMap::new();
    calls
        .iter()
        .map(|(row, judged)| {
            let rules = first.into_iter().chain(rules_of(config, &row.persona));
            let call = PolicyCall {
                persona: &row.persona,
                tool: &row.tool,
                facts: &judged.facts,
                now: row.at,
            };
            let has_uses = |rule: &PolicyRule| {
                let used = uses.get(&rule.id).copied().unwrap_or_default();
                rule.uses_max.is_none_or(|max| used < max)
            };
            let now = decide(rules, call, has_uses);
            if let Some(rule) = &now.rule {
                *uses.entry(rule.clone()).or_default() += 1;
            }
            PolicyComparison {
                run: row.run.to_string(),
                call: row.call_id.clone(),
                persona: row.persona.clone(),
                tool: row.tool.clone(),
                at: row.at,
                then: judged.decision.clone(),
                now,
                approval: row.approval,
            }
        })
        .collect()
}

/// Returns the rules for a persona; one that is gone has those of `configs/policy.json`.
pub(super) fn rules_of<'c>(
    config: &'c Config,
    persona: &PersonaId,
) -> impl Iterator<Item = &'c PolicyRule> {
    let own = config.personas.get(persona);
    let own = own.into_iter().flat_map(|persona| &persona.rules);
    config.policy.rules.iter().chain(own)
}

/// Sums up a comparison.
pub fn sum_up(compared: &[PolicyComparison], without_facts: u64) -> PolicyPreview {
    let mut preview = PolicyPreview {
        calls: compared.len() as u64,
        without_facts,
        ..PolicyPreview::default()
    };
    for call in compared {
        let by = call.now.rule.clone().unwrap_or_else(|| "table".to_owned());
        let effects = preview.by_rule.entry(by).or_default();
        match call.now.effect {
            PolicyEffect::Allow => effects.allow += 1,
            PolicyEffect::Ask | PolicyEffect::Draft => effects.ask += 1,
            PolicyEffect::Deny | PolicyEffect::Hide => effects.deny += 1,
        }
        effects.changed += u64::from(call.differs());
        let was_rejected = matches!(
            call.approval,
            Some(ApprovalState::Rejected | ApprovalState::Edited)
        );
        effects.rejected_then += u64::from(was_rejected && call.now.effect == PolicyEffect::Allow);
    }
    let changed = compared.iter().filter(|call| call.differs());
    preview.changed = changed.take(CHANGED_MAX).cloned().collect();
    preview
}
