//! `ask_owner`: a question to the owner, whose answer comes back as the result of the call.
//!
//! Absent on purpose: the mail, the waiting and the answer, which are the run's (`runs::approvals`).

use super::contract::arguments::read_args;
use super::{
    Effects, OwnerQuestion, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass,
    ToolDeclaration, ToolError, ToolOutcome, arguments_schema,
};
use crate::domain::ApprovalKind;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Longest question, in bytes: it is a mail.
const QUESTION_BYTES_MAX: usize = 4096;

/// Text that the model reads.
const DESCRIPTION: &str = "Asks your owner a question and waits for the answer, which may take days. Use it when only your \
         owner can know or decide. Your owner reads nothing else of this run, so put all that is needed into it.";

pub struct AskOwner;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskOwnerArgs {
    question: String,
}

impl Tool for AskOwner {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "ask_owner".to_owned(),
            description: DESCRIPTION.to_owned(),
            input_schema: arguments_schema::<AskOwnerArgs>(),
            class: ToolClass::Transactional,
            effects: Effects::NONE,
            // The answer has the owner's trust.
            result_words: ResultWords::Engine,
            capabilities: ToolCapabilities {
                owner: true,
                ..ToolCapabilities::NONE
            },
        }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let question = read_args::<AskOwnerArgs>(call.args)?.question;
            if question.trim().is_empty() || question.len() > QUESTION_BYTES_MAX {
                let hint = format!("write a question of 1 to {QUESTION_BYTES_MAX} bytes");
                return Err(ToolError::mendable("bad_question", hint));
            }
            Ok(ToolOutcome {
                result: json!({ "answer": null, "note": "nobody was asked" }),
                question: Some(OwnerQuestion {
                    kind: ApprovalKind::Question,
                    text: question.trim().to_owned(),
                }),
                ..ToolOutcome::default()
            })
        })
    }
}
