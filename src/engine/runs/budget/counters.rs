//! Usage of a run, to compare with its budget. Pure: the time is an argument.

use crate::config::Budget;
use crate::domain::{StopReason, TokenUsage};
use crate::providers::{Block, FinishReason};
use std::time::Duration;

/// Calls in a row that cannot be read, have wrong arguments, or name an unknown tool; a model that
/// writes three of them writes a fourth.
const UNUSABLE_CALLS_MAX: u32 = 3;
/// Answers in a row that the vendor paused.
const PAUSES_MAX: u32 = 5;

/// Counts turns, calls, failures, tokens and money of one run, over all its attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    pub turns: u32,
    pub tool_calls: u32,
    pub tool_failures: u32,
    pub usage: TokenUsage,
    /// Last calls in a row that could not be executed as they were written.
    pub unusable_calls: u32,
    /// Last answers in a row that were paused.
    pub pauses: u32,
}

impl Counters {
    /// Counts an answer, and the results of its calls.
    pub fn note(&mut self, stop: &FinishReason, results: &[Block]) {
        self.pauses = if *stop == FinishReason::Paused {
            self.pauses + 1
        } else {
            0
        };
        if *stop == FinishReason::MalformedCall && results.is_empty() {
            // A call that is written as text is corrected once: who writes a second one has no other way.
            self.unusable_calls += 2;
        }
        for block in results {
            match code_of(block).as_deref() {
                Some("malformed_arguments" | "invalid_arguments" | "unknown_tool") => {
                    self.unusable_calls += 1;
                }
                // These codes say nothing about how the model writes.
                Some("skipped" | "truncated") => {}
                _ => self.unusable_calls = 0,
            }
        }
    }

    /// Returns the first bound that is reached, checked before a turn; `None` while there is room
    /// for one.
    pub fn reached(&self, budget: &Budget, elapsed: Duration) -> Option<StopReason> {
        let cost = self.usage.cost_micros.unwrap_or(0);
        let bounds = [
            (
                self.tool_failures >= budget.tool_failures_max,
                StopReason::LimitToolFailures,
            ),
            (
                self.unusable_calls >= UNUSABLE_CALLS_MAX,
                StopReason::LimitToolFailures,
            ),
            (self.pauses >= PAUSES_MAX, StopReason::LimitTurns),
            (
                self.tool_calls >= budget.tool_calls_max,
                StopReason::LimitToolCalls,
            ),
            (self.turns >= budget.turns_max, StopReason::LimitTurns),
            (
                self.usage.total_tokens() >= budget.tokens_max,
                StopReason::LimitTokens,
            ),
            (
                budget.cost_micros_max.is_some_and(|max| cost >= max),
                StopReason::LimitCost,
            ),
            (elapsed >= budget.duration_max, StopReason::LimitTime),
        ];
        bounds
            .into_iter()
            .find(|(is_reached, _)| *is_reached)
            .map(|(_, reason)| reason)
    }
}

/// Returns the error code of a result; `None` when the call succeeded.
fn code_of(result: &Block) -> Option<String> {
    let Block::ToolResult {
        content,
        is_error: true,
        ..
    } = result
    else {
        return None;
    };
    let payload: serde_json::Value = serde_json::from_str(content).ok()?;
    payload["error"]["code"].as_str().map(str::to_owned)
}

/// Returns the note to the model at a bound, so that its final turn is honest.
pub fn final_turn(reason: StopReason) -> String {
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
    fn three_unusable_calls_in_a_row_stop_a_working_one_starts_over() {
        let result = |code: &str| Block::ToolResult {
            call_id: "c".into(),
            name: "t".into(),
            content: format!("{{\"ok\":false,\"error\":{{\"code\":\"{code}\"}}}}"),
            is_error: true,
        };
        let done = Block::ToolResult {
            call_id: "c".into(),
            name: "t".into(),
            content: "{\"ok\":true}".into(),
            is_error: false,
        };
        let mut counters = Counters::default();
        let reached = |counters: &Counters| counters.reached(&budget(), Duration::ZERO);
        counters.note(&FinishReason::MalformedCall, &[]);
        assert_eq!((counters.unusable_calls, reached(&counters)), (2, None));
        let mut twice = counters.clone();
        twice.note(&FinishReason::MalformedCall, &[]);
        assert_eq!(reached(&twice), Some(StopReason::LimitToolFailures));
        counters.note(&FinishReason::ToolUse, &[done]);
        assert_eq!(counters.unusable_calls, 0);
        for _ in 0..3 {
            assert_eq!(reached(&counters), None);
            counters.note(&FinishReason::ToolUse, &[result("malformed_arguments")]);
        }
        assert_eq!(reached(&counters), Some(StopReason::LimitToolFailures));
    }

    #[test]
    fn an_answer_that_is_paused_again_and_again_comes_to_an_end() {
        let mut counters = Counters::default();
        (0..4).for_each(|_| counters.note(&FinishReason::Paused, &[]));
        assert_eq!(counters.reached(&budget(), Duration::ZERO), None);
        counters.note(&FinishReason::Paused, &[]);
        assert_eq!(
            counters.reached(&budget(), Duration::ZERO),
            Some(StopReason::LimitTurns)
        );
        counters.note(&FinishReason::EndTurn, &[]);
        assert_eq!(counters.pauses, 0);
    }

    #[test]
    fn each_bound_stops_at_exactly_its_limit() {
        let usage = |tokens, cost| TokenUsage {
            output_tokens: tokens,
            cost_micros: Some(cost),
            ..TokenUsage::default()
        };
        let turns = |turns| Counters {
            turns,
            ..Counters::default()
        };
        let calls = |tool_calls, tool_failures| Counters {
            tool_calls,
            tool_failures,
            ..Counters::default()
        };
        let used = |tokens, cost| Counters {
            usage: usage(tokens, cost),
            ..Counters::default()
        };
        let cases = [
            (turns(7), 0, None),
            (turns(8), 0, Some(StopReason::LimitTurns)),
            (calls(19, 0), 0, None),
            (calls(20, 0), 0, Some(StopReason::LimitToolCalls)),
            (calls(0, 3), 0, Some(StopReason::LimitToolFailures)),
            (used(999, 499), 59, None),
            (used(1000, 0), 0, Some(StopReason::LimitTokens)),
            (used(0, 500), 0, Some(StopReason::LimitCost)),
            (turns(0), 60, Some(StopReason::LimitTime)),
        ];
        for (counters, seconds, wanted) in cases {
            assert_eq!(
                counters.reached(&budget(), Duration::from_secs(seconds)),
                wanted,
                "{counters:?}"
            );
        }
    }
}
