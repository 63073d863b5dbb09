//! Ends of a tool call, and the payloads in which a call and its result are recorded.

use crate::domain::ErrorClass;
use crate::policy::{CallFacts, PolicyDecision};
use crate::providers::ToolArgs;
use crate::tools::ToolOutcome;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Decision on a call with the facts that it was made by, as recorded with the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedCall {
    #[serde(flatten)]
    pub decision: PolicyDecision,
    pub facts: CallFacts,
}

/// End of one call.
pub enum ToolVerdict {
    Done(ToolOutcome),
    /// Recorded result, whose effect was committed with it.
    Known(String),
    /// The model may correct the call; the rest of the batch is skipped.
    Failed {
        code: &'static str,
        message: String,
    },
    /// The run ends after this result is recorded.
    Terminal {
        class: ErrorClass,
        message: String,
    },
}

/// Code of a result by which a tool itself reports an error.
const TOOL_ERROR: &str = "tool_error";

/// Result as the model reads it, effects of the tool, and the error that ends the run.
pub type ToolResult = (String, Option<ToolOutcome>, Option<(ErrorClass, String)>);

/// Formats the result as the model reads it, with its consequence for the run.
pub fn finish(verdict: ToolVerdict, name: &str) -> ToolResult {
    match verdict {
        ToolVerdict::Done(mut outcome) => {
            let result = std::mem::replace(&mut outcome.result, Value::Null);
            // A program of the owner's or a server says that it could not do it.
            let mut payload = match result["is_error"] == true {
                true => json!({
                    "ok": false, "tool": name,
                    "error": { "code": TOOL_ERROR, "message": "the tool could not do it" },
                    "result": result,
                }),
                false => json!({ "ok": true, "result": result }),
            };
            if !outcome.label.is_nothing() {
                payload["label"] = json!(outcome.label);
            }
            (payload.to_string(), Some(outcome), None)
        }
        ToolVerdict::Known(payload) => {
            let terminal = ends_the_run(&payload);
            (payload, None, terminal)
        }
        ToolVerdict::Failed { code, message } => (failure(name, code, &message), None, None),
        ToolVerdict::Terminal { class, message } => (
            failure(name, class.as_str(), &message),
            None,
            Some((class, message)),
        ),
    }
}

/// Formats the result of a failed call, as the model reads it.
pub fn failure(name: &str, code: &str, message: &str) -> String {
    json!({ "ok": false, "tool": name, "error": { "code": code, "message": message } }).to_string()
}

/// Returns the error with which this result ended the run, if it did.
fn ends_the_run(payload: &str) -> Option<(ErrorClass, String)> {
    let parsed: Value = serde_json::from_str(payload).ok()?;
    let error = parsed.get("error")?;
    let class = ErrorClass::parse(error["code"].as_str()?)?;
    let is_end = matches!(
        class,
        ErrorClass::UnsupportedAction | ErrorClass::OutboundNotConfigured | ErrorClass::Cancelled
    );
    is_end.then(|| {
        (
            class,
            error["message"].as_str().unwrap_or_default().to_owned(),
        )
    })
}

/// Formats the payload of a call row, with its expected effects and the decision on it.
pub fn call_payload(args: &ToolArgs, begun: Option<&Value>, judged: Option<&JudgedCall>) -> String {
    match args {
        ToolArgs::Object(args) => {
            let mut payload = json!({ "args": args });
            if let Some(begun) = begun {
                payload["begun"] = begun.clone();
            }
            if let Some(judged) = judged {
                payload["policy"] = json!(judged);
            }
            payload.to_string()
        }
        ToolArgs::Malformed { raw, error } => {
            json!({ "malformed": raw, "error": error }).to_string()
        }
    }
}

/// Reports whether a result payload is a failure.
pub fn is_failure(payload: &str) -> bool {
    payload.starts_with("{\"ok\":false")
}
