//! `ask_owner`: a question to the owner, whose answer comes back as the result of the call.
//!
//! Absent on purpose: the mail, the waiting and the answer, which are the run's (`runs::approvals`).

use crate::domain::ApprovalKind;
use crate::tools::contract::*;

/// Longest question, in bytes: it is a mail.
const QUESTION_BYTES_MAX: usize = 4096;

/// Asks your owner a question and waits for the answer, which may take days. Use it when only your owner can know or
/// decide. Your owner reads nothing else of this run, so put all that is needed into it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskOwner {
    question: String,
}

impl TypedTool for AskOwner {
    const NAME: &str = "ask_owner";
    const CLASS: ToolClass = ToolClass::Transactional;
    // The answer has the owner's trust.
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(owner);

    async fn call(self, _: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let question = self.question;
        if question.trim().is_empty() || question.len() > QUESTION_BYTES_MAX {
            return refuse(
                "bad_question",
                format!("write a question of 1 to {QUESTION_BYTES_MAX} bytes"),
            );
        }
        Ok(ToolOutcome {
            result: json!({ "answer": null, "note": "nobody was asked" }),
            question: Some(OwnerQuestion {
                kind: ApprovalKind::Question,
                text: question.trim().to_owned(),
            }),
            ..ToolOutcome::default()
        })
    }
}
