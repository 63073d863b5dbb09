//! One call to a provider whose loop is the agent's: watched, recorded, stopped where it leaves its tier.

use super::providers::accumulate::Accumulator;
use super::providers::{AgentTerms, CallContext, LoopOwner, ProviderError, Response, Session};
use super::work::Work;
use crate::config::Tier;
use futures_util::StreamExt;

/// How an agent may work for this run; `None` where the loop is ours.
pub fn terms(work: &Work<'_>) -> Option<AgentTerms> {
    if work.route.loop_owner() == LoopOwner::Engine {
        return None;
    }
    let budget = work.budget();
    let settings = work.desk.config.inference.providers.get(&work.route.name);
    Some(AgentTerms {
        session: Session::New(work.run.id.to_string()),
        tier: settings.map_or(Tier::ReadOnly, |settings| settings.agent.tier),
        folder: work.persona.folder.display().to_string(),
        turns_max: budget.turns_max,
        tool_calls_max: budget.tool_calls_max,
        cost_micros_max: budget.cost_micros_max,
        tool_server: None,
    })
}

/// Makes the call and waits for its end.
pub async fn complete(work: &Work<'_>, wire: &str, context: CallContext) -> Result<Response, ProviderError> {
    let mut events = work.route.provider.stream(wire, context);
    let mut accumulator = Accumulator::default();
    while let Some(event) = events.next().await {
        accumulator.push(event?)?;
    }
    accumulator.finish()
}
