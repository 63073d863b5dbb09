//! The decision on a call by its facts: rules and table, and how often a rule may decide.

use super::context::ToolCallContext;
use super::run_facts;
use crate::policy::{CallFacts, PolicyCall, PolicyDecision};
use crate::runs::error::RunError;
use std::collections::BTreeSet;

/// Decides by the rules of the configuration and the table.
pub async fn decide(
    ctx: &ToolCallContext<'_>,
    tool: &str,
    facts: &CallFacts,
) -> Result<PolicyDecision, RunError> {
    let rules = || run_facts::rules(&ctx.deps.config, ctx.persona);
    let call = PolicyCall {
        persona: &ctx.persona.id,
        tool,
        facts,
        now: ctx.deps.clock.now(),
    };
    let has_bounded = rules().any(|rule| rule.uses_max.is_some());
    let mut used_up: BTreeSet<String> = match has_bounded {
        true => ctx.deps.env.rules_used_up(rules()).await?,
        false => BTreeSet::new(),
    };
    loop {
        let decision = crate::policy::decide(rules(), call, |rule| !used_up.contains(&rule.id));
        let bounded = decision.rule.as_ref().and_then(|id| {
            let mut all = rules();
            all.find(|rule| rule.id == *id)
                .and_then(|rule| Some((id.clone(), rule.uses_max?)))
        });
        match bounded {
            // Another run has made the last call that the rule may decide.
            Some((id, max)) if !ctx.deps.env.use_rule(&id, max).await? => {
                used_up.insert(id);
            }
            _ => return Ok(decision),
        }
    }
}
