//! `no_answer`: ends a run on purpose without a mail, because its letter needs none.
//!
//! Absent on purpose: the end itself, which is the run's (`runs::execute`).

use super::contract::arguments::read_args;
use super::{
    Effects, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass, ToolDeclaration, ToolError,
    ToolOutcome, arguments_schema,
};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub const NO_ANSWER: &str = "no_answer";
const REASON_CHARS_MAX: usize = 500;

/// Text that the model reads.
const DESCRIPTION: &str = "Ends your work on this letter without a mail, if nobody expects an answer: thanks, a receipt, \
         \"see you on Sunday\". Call it last.";

pub struct EndWithoutAnswer;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoAnswerArgs {
    /// Why, in one sentence, for your owner.
    reason: String,
}

impl Tool for EndWithoutAnswer {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: NO_ANSWER.to_owned(),
            description: DESCRIPTION.to_owned(),
            input_schema: arguments_schema::<NoAnswerArgs>(),
            class: ToolClass::Repeatable,
            effects: Effects::NONE,
            result_words: ResultWords::Engine,
            capabilities: ToolCapabilities::NONE,
        }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let reason = read_args::<NoAnswerArgs>(call.args)?.reason;
            if reason.trim().is_empty() || reason.chars().count() > REASON_CHARS_MAX {
                let hint = format!("give a reason of 1 to {REASON_CHARS_MAX} characters");
                return Err(ToolError::mendable("bad_reason", hint));
            }
            Ok(ToolOutcome {
                result: json!({ "ended": true }),
                ..ToolOutcome::default()
            })
        })
    }
}
