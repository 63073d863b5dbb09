//! Partial answers: of an agent that was stopped at a bound, or of a run that used up its budget.

use crate::domain::StopReason;
use crate::providers::FinishReason;

/// Returns the stop reason of an agent's partial answer.
pub fn limit_reached(stop: &FinishReason) -> Option<StopReason> {
    match stop {
        FinishReason::LimitTurns => Some(StopReason::LimitTurns),
        FinishReason::LimitCost => Some(StopReason::LimitCost),
        FinishReason::LimitToolCalls => Some(StopReason::LimitToolCalls),
        FinishReason::LimitToolFailures => Some(StopReason::LimitToolFailures),
        _ => None,
    }
}

/// Adds the sentence that marks a partial answer as such.
pub fn honest(text: &str, limit: StopReason) -> String {
    let what = match limit {
        StopReason::LimitTurns => "turns",
        StopReason::LimitCost => "money",
        StopReason::LimitToolFailures => "failed tool calls",
        StopReason::LimitTokens => "tokens",
        StopReason::LimitTime => "time",
        _ => "tool calls",
    };
    let sentence =
        format!("[This answer is incomplete: its run had used up the {what} it may use.]");
    match text.trim() {
        "" => sentence,
        text => format!("{text}\n\n{sentence}"),
    }
}
