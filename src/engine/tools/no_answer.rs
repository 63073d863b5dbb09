//! `no_answer`: ends a run on purpose without a mail, because its letter needs none.
//!
//! Absent on purpose: the end itself, which is the run's (`runs::execute`).

use crate::tools::contract::*;

pub const NO_ANSWER: &str = "no_answer";
const REASON_CHARS_MAX: usize = 500;

/// Ends your work on this letter without a mail, if nobody expects an answer: thanks, a receipt, "see you on Sunday".
/// Call it last.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndWithoutAnswer {
    /// Why, in one sentence, for your owner.
    reason: String,
}

impl TypedTool for EndWithoutAnswer {
    const NAME: &str = NO_ANSWER;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;

    async fn call(self, _: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let reason = self.reason;
        if reason.trim().is_empty() || reason.chars().count() > REASON_CHARS_MAX {
            return refuse(
                "bad_reason",
                format!("give a reason of 1 to {REASON_CHARS_MAX} characters"),
            );
        }
        Ok(json!({ "ended": true }).into())
    }
}
