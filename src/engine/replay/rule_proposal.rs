//! Rules that would answer a question of a call from now on, with what they would have done with recorded calls.
//!
//! Absent on purpose: writing them. What a persona may do is said in the files, by their owner.

use super::load_run;
use super::policy_preview::{
    PolicyComparison, RuleEffects, newest_calls, preview_with, rules_of, sum_up,
};
use crate::config::Config;
use crate::domain::{ApprovalKind, PersonaId, RunId};
use crate::policy::{
    PolicyCall, PolicyEffect, PolicyRule, by_table, conditions_like, decide, read_condition,
    shadow_of,
};
use crate::runs::tool_calls::verdict::JudgedCall;
use crate::store::{ApprovalView, JudgedCallRow, Store, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// Days whose calls are looked at.
const DAYS: u32 = 30;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Most calls that are read, the newest: with their facts they are held in memory of the engine.
pub const CALLS_READ_MAX: usize = 20_000;
/// Most calls decided otherwise that are named.
const CHANGED_NAMED_MAX: usize = 50;
/// Most characters of a tool's name in the name of its rule.
const TOOL_CHARS_MAX: usize = 20;

/// Rules that would answer a question of a call from now on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RuleProposal {
    pub approval: String,
    pub persona: PersonaId,
    pub run: RunId,
    pub tool: String,
    /// File in which the rule stands first.
    pub file: &'static str,
    /// Days whose calls were looked at.
    pub days: u32,
    /// Calls with recorded facts.
    pub calls: u64,
    /// Calls without: of earlier versions, or refused before any rule was asked.
    pub without_facts: u64,
    /// `true`: there are more calls, and the newest alone were looked at.
    pub is_cut: bool,
    /// A rule that allows such calls, and one that refuses them.
    pub choices: Vec<RuleChoice>,
}

/// A rule that would decide, with what it would have done.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RuleChoice {
    pub rule: ProposedRule,
    /// Decision on the call of the question with this rule.
    pub decides: PolicyEffect,
    /// What its owner should know before they use it.
    pub notes: Vec<String>,
    /// Rules that would never decide behind it, and that `attache config check` refuses so.
    pub shadows: Vec<String>,
    /// What it would have decided itself.
    pub effects: RuleEffects,
    /// What all rules would have decided with it; the table is `table`.
    pub by_rule: BTreeMap<String, RuleEffects>,
    /// Calls that it decides otherwise than they were decided, the newest first; at most fifty.
    pub changed: Vec<PolicyComparison>,
}

/// A rule as it stands in the file.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProposedRule {
    pub id: String,
    pub effect: PolicyEffect,
    pub persona: PersonaId,
    pub tool: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub when: Map<String, Value>,
}

/// Reason why no rule is proposed.
#[derive(Debug, thiserror::Error)]
pub enum ProposalError {
    #[error("no rule is proposed for this question: {0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn refused(why: &str) -> ProposalError {
    ProposalError::Refused(why.to_owned())
}

/// Proposes rules for calls like the one that a question is about. Reads only.
pub async fn propose(
    store: &Store,
    config: &Config,
    question: &ApprovalView,
) -> Result<RuleProposal, ProposalError> {
    match question.kind {
        ApprovalKind::Call => {}
        ApprovalKind::Question => {
            return Err(refused(
                "the persona asks something, and no rule answers it",
            ));
        }
        ApprovalKind::Draft => {
            return Err(refused("it is a draft, which you send or discard yourself"));
        }
        ApprovalKind::Plan => {
            return Err(refused("it is a plan, which you approve as a whole"));
        }
        ApprovalKind::Reply => {
            return Err(refused(
                "it is the final text of a run, whose facts are not recorded; the guide of the policy shows a rule of `reply`",
            ));
        }
    }
    if config.personas.get(&question.persona).is_none() {
        return Err(refused("its persona is not in the configuration any more"));
    }
    let judged = judged_call(store, question).await?;
    let since = store.clock().now().minus(DAY * DAYS);
    let (calls, without_facts) = newest_calls(store, since, CALLS_READ_MAX).await?;
    let mut choices = Vec::new();
    for effect in [PolicyEffect::Allow, PolicyEffect::Deny] {
        choices.push(choice(config, question, &judged, effect, &calls)?);
    }
    Ok(RuleProposal {
        approval: question.id.clone(),
        persona: question.persona.clone(),
        run: question.run.clone(),
        tool: question.tool.clone(),
        file: "configs/policy.json",
        days: DAYS,
        calls: calls.len() as u64,
        without_facts,
        is_cut: calls.len() >= CALLS_READ_MAX,
        choices,
    })
}

/// Returns the decision on the call of a question, with the facts of the call.
async fn judged_call(store: &Store, question: &ApprovalView) -> Result<JudgedCall, ProposalError> {
    let record = load_run(store, &question.run).await?;
    let call = record.calls.iter().find(|call| call.id == question.call);
    let recorded = call.and_then(|call| call.call.get("policy"));
    recorded
        .and_then(|judged| serde_json::from_value(judged.clone()).ok())
        .ok_or_else(|| refused("its call has no recorded facts"))
}

fn choice(
    config: &Config,
    question: &ApprovalView,
    judged: &JudgedCall,
    effect: PolicyEffect,
    calls: &[(JudgedCallRow, JudgedCall)],
) -> Result<RuleChoice, ProposalError> {
    let like = conditions_like(&judged.facts, effect).map_err(ProposalError::Refused)?;
    let conditions = like
        .when
        .iter()
        .map(|(key, value)| read_condition(key, value));
    let rule = PolicyRule {
        id: free_id(config, question, effect),
        effect,
        persona: Some(question.persona.clone()),
        tools: vec![question.tool.clone()],
        conditions: conditions
            .collect::<Result<_, _>>()
            .map_err(ProposalError::Refused)?,
        until: None,
        uses_max: None,
        why: None,
    };
    let call = PolicyCall {
        persona: &question.persona,
        tool: &question.tool,
        facts: &judged.facts,
        now: question.requested_at,
    };
    let rules = || rules_of(config, &question.persona);
    let decided = decide([&rule].into_iter().chain(rules()), call, |_| true);
    let alone = std::slice::from_ref(&rule);
    let shadows = rules()
        .filter(|other| shadow_of(alone, other).is_some())
        .map(|other| other.id.clone());
    let shadows = shadows.collect();
    let compared = preview_with(config, Some(&rule), calls);
    let by_rule = sum_up(&compared, 0).by_rule;
    let is_its = |one: &&PolicyComparison| one.differs() && one.now.rule.as_ref() == Some(&rule.id);
    let changed = compared.iter().rev().filter(is_its);
    Ok(RuleChoice {
        decides: decided.effect,
        notes: notes(like.gaps, judged, effect, decided.effect),
        shadows,
        effects: by_rule.get(&rule.id).cloned().unwrap_or_default(),
        by_rule,
        changed: changed.take(CHANGED_NAMED_MAX).cloned().collect(),
        rule: ProposedRule {
            id: rule.id.clone(),
            effect,
            persona: question.persona.clone(),
            tool: question.tool.clone(),
            when: like.when,
        },
    })
}

/// Returns what conditions do not say, and what decides whatever a rule says.
fn notes(
    gaps: Vec<String>,
    judged: &JudgedCall,
    wanted: PolicyEffect,
    decided: PolicyEffect,
) -> Vec<String> {
    let mut notes = gaps;
    if wanted != decided {
        let decided = decided.as_str();
        notes.push(format!(
            "no rule may allow this call: the table decides, `{decided}`"
        ));
    }
    let table = by_table(&judged.facts).decision;
    let is_by_rules = judged.decision.rule.is_some() || judged.decision.code == table.code;
    if wanted == PolicyEffect::Allow && !is_by_rules {
        notes.push(format!(
            "no rule asked here, but what looks at calls behind the rules (`{}`): it asks again",
            judged.decision.code
        ));
    }
    notes
}

/// Returns a name that no rule has.
fn free_id(config: &Config, question: &ApprovalView, effect: PolicyEffect) -> String {
    let of_personas = config.personas.iter().flat_map(|persona| &persona.rules);
    let taken: HashSet<&str> = config
        .policy
        .rules
        .iter()
        .chain(of_personas)
        .map(|rule| rule.id.as_str())
        .collect();
    let tool: String = question.tool.chars().take(TOOL_CHARS_MAX).collect();
    let name = |length: usize| {
        let from = question.id.len().saturating_sub(length);
        let end = question.id.get(from..).unwrap_or(&question.id);
        format!("{}-{tool}-{end}", effect.as_str())
    };
    let lengths = 6..question.id.len();
    let found = lengths
        .map(name)
        .find(|name| !taken.contains(name.as_str()));
    found.unwrap_or_else(|| name(question.id.len()))
}
