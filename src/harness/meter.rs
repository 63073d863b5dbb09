//! What a run has used of its budget. Pure: the time is an argument.

use crate::config::Budget;
use crate::domain::{StopReason, Usage};
use std::time::Duration;

/// Counts turns, calls, failures, tokens and money of one run, over all its attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meter {
    pub turns: u32,
    pub tool_calls: u32,
    pub tool_failures: u32,
    pub usage: Usage,
}

impl Meter {
    /// The first bound that is reached, checked before a turn; `None` while there is room for one.
    pub fn reached(&self, budget: &Budget, elapsed: Duration) -> Option<StopReason> {
        let cost = self.usage.cost_micros.unwrap_or(0);
        let bounds = [
            (self.tool_failures >= budget.tool_failures_max, StopReason::LimitToolFailures),
            (self.tool_calls >= budget.tool_calls_max, StopReason::LimitToolCalls),
            (self.turns >= budget.turns_max, StopReason::LimitTurns),
            (self.usage.total_tokens() >= budget.tokens_max, StopReason::LimitTokens),
            (budget.cost_micros_max.is_some_and(|max| cost >= max), StopReason::LimitCost),
            (elapsed >= budget.duration_max, StopReason::LimitTime),
        ];
        bounds.into_iter().find(|(is_reached, _)| *is_reached).map(|(_, reason)| reason)
    }
}

/// What the model is told at a bound, so that its last words are honest.
pub fn farewell(reason: StopReason) -> String {
    let what = match reason {
        StopReason::LimitTurns => "the number of turns",
        StopReason::LimitToolCalls => "the number of tool calls",
        StopReason::LimitToolFailures => "the number of failed tool calls",
        StopReason::LimitTokens => "the number of tokens",
        StopReason::LimitCost => "the money",
        _ => "the time",
    };
    format!(
        "[engine] This run has used up {what} it may use, and no further tool can be called. Write the final answer \
         now, from what you have. Say plainly what is missing or was not done."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget {
            turns_max: 8,
            tool_calls_max: 20,
            tool_failures_max: 3,
            tokens_max: 1000,
            cost_micros_max: Some(500),
            duration_max: Duration::from_secs(60),
            context_tokens_max: 1000,
            mails_max: 3,
        }
    }

    #[test]
    fn each_bound_stops_at_exactly_its_limit() {
        let usage =
            |tokens, cost| Usage { output_tokens: tokens, cost_micros: Some(cost), ..Usage::default() };
        let cases = [
            (Meter { turns: 7, ..Meter::default() }, 0, None),
            (Meter { turns: 8, ..Meter::default() }, 0, Some(StopReason::LimitTurns)),
            (Meter { tool_calls: 19, ..Meter::default() }, 0, None),
            (Meter { tool_calls: 20, ..Meter::default() }, 0, Some(StopReason::LimitToolCalls)),
            (Meter { tool_failures: 3, ..Meter::default() }, 0, Some(StopReason::LimitToolFailures)),
            (Meter { usage: usage(999, 499), ..Meter::default() }, 59, None),
            (Meter { usage: usage(1000, 0), ..Meter::default() }, 0, Some(StopReason::LimitTokens)),
            (Meter { usage: usage(0, 500), ..Meter::default() }, 0, Some(StopReason::LimitCost)),
            (Meter::default(), 60, Some(StopReason::LimitTime)),
        ];
        for (meter, seconds, wanted) in cases {
            assert_eq!(meter.reached(&budget(), Duration::from_secs(seconds)), wanted, "{meter:?}");
        }
    }
}
