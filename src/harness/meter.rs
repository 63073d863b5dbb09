//! What a run has used of its budget. Pure: the time is an argument.

use super::providers::{Block, Stop};
use crate::config::Budget;
use crate::domain::{StopReason, Usage};
use std::time::Duration;

/// Calls in a row that cannot be read, have the wrong arguments, or are of a tool that there is not; whoever writes three of them writes a fourth.
const UNUSABLE_CALLS_MAX: u32 = 3;
/// Answers in a row that a vendor only paused.
const PAUSES_MAX: u32 = 5;

/// Counts turns, calls, failures, tokens and money of one run, over all its attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meter {
    pub turns: u32,
    pub tool_calls: u32,
    pub tool_failures: u32,
    pub usage: Usage,
    /// Calls in a row, up to now, that could not be executed as they were written.
    pub unusable_calls: u32,
    /// Answers in a row, up to now, that were paused.
    pub pauses: u32,
}

impl Meter {
    /// An answer was heard, and its calls had these results.
    pub fn heard(&mut self, stop: &Stop, results: &[Block]) {
        self.pauses = if *stop == Stop::Paused { self.pauses + 1 } else { 0 };
        if *stop == Stop::MalformedCall && results.is_empty() {
            self.unusable_calls += 1;
        }
        for block in results {
            match code_of(block).as_deref() {
                Some("malformed_arguments" | "invalid_arguments" | "unknown_tool") => {
                    self.unusable_calls += 1;
                }
                // Says nothing about how the model writes.
                Some("skipped" | "truncated") => {}
                _ => self.unusable_calls = 0,
            }
        }
    }

    /// The first bound that is reached, checked before a turn; `None` while there is room for one.
    pub fn reached(&self, budget: &Budget, elapsed: Duration) -> Option<StopReason> {
        let cost = self.usage.cost_micros.unwrap_or(0);
        let bounds = [
            (self.tool_failures >= budget.tool_failures_max, StopReason::LimitToolFailures),
            (self.unusable_calls >= UNUSABLE_CALLS_MAX, StopReason::LimitToolFailures),
            (self.pauses >= PAUSES_MAX, StopReason::LimitTurns),
            (self.tool_calls >= budget.tool_calls_max, StopReason::LimitToolCalls),
            (self.turns >= budget.turns_max, StopReason::LimitTurns),
            (self.usage.total_tokens() >= budget.tokens_max, StopReason::LimitTokens),
            (budget.cost_micros_max.is_some_and(|max| cost >= max), StopReason::LimitCost),
            (elapsed >= budget.duration_max, StopReason::LimitTime),
        ];
        bounds.into_iter().find(|(is_reached, _)| *is_reached).map(|(_, reason)| reason)
    }
}

/// The error code of a result; `None` when the call succeeded.
fn code_of(result: &Block) -> Option<String> {
    let Block::ToolResult { content, is_error: true, .. } = result else { return None };
    let payload: serde_json::Value = serde_json::from_str(content).ok()?;
    payload["error"]["code"].as_str().map(str::to_owned)
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
    fn three_unusable_calls_in_a_row_stop_and_one_that_works_starts_the_count_again() {
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
        let mut meter = Meter::default();
        let reached = |meter: &Meter| meter.reached(&budget(), Duration::ZERO);
        meter.heard(&Stop::MalformedCall, &[]);
        meter.heard(&Stop::ToolUse, &[result("invalid_arguments"), result("skipped")]);
        assert_eq!((meter.unusable_calls, reached(&meter)), (2, None));
        meter.heard(&Stop::ToolUse, &[done]);
        assert_eq!(meter.unusable_calls, 0);
        for _ in 0..3 {
            assert_eq!(reached(&meter), None);
            meter.heard(&Stop::ToolUse, &[result("malformed_arguments")]);
        }
        assert_eq!(reached(&meter), Some(StopReason::LimitToolFailures));
    }

    #[test]
    fn an_answer_that_is_paused_again_and_again_comes_to_an_end() {
        let mut meter = Meter::default();
        (0..4).for_each(|_| meter.heard(&Stop::Paused, &[]));
        assert_eq!(meter.reached(&budget(), Duration::ZERO), None);
        meter.heard(&Stop::Paused, &[]);
        assert_eq!(meter.reached(&budget(), Duration::ZERO), Some(StopReason::LimitTurns));
        meter.heard(&Stop::EndTurn, &[]);
        assert_eq!(meter.pauses, 0);
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
