//! A program of the owner's as a tool: JSON in, a text or JSON out.

use crate::config::OwnTool;
use crate::domain::{Readers, TextLabel, Trust};
use crate::tools::contract::arguments::without_nulls;
use crate::tools::contract::*;
use futures_util::future::BoxFuture;
use std::time::Duration;

pub struct OwnerTool(pub OwnTool);

/// Answer as a program may write it; any other text is its result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenResult {
    content: Value,
    #[serde(default)]
    is_error: bool,
}

impl Tool for OwnerTool {
    fn declaration(&self) -> ToolDeclaration {
        let own = &self.0;
        ToolDeclaration {
            name: own.name.clone(),
            description: own.description.clone(),
            input_schema: own.arguments.clone().into(),
            class: own.class.into(),
            effects: Effects::declared(own.effects, own.senders),
            // Its outcome says whose.
            result_words: ResultWords::Engine,
            capabilities: uses!(programs),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.0.timeout)
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let input = input(&self.0.name, &call);
            let written = call
                .env
                .programs()?
                .run(&self.0, &input, call.limits.duration_max)
                .await?;
            Ok(ToolOutcome::labelled(
                result(&written, call.limits.result_bytes_max),
                label(&self.0),
            ))
        })
    }
}

/// Returns the label of a result, as the owner declares the tool.
fn label(own: &OwnTool) -> TextLabel {
    TextLabel {
        lowest: (!own.trusted_result).then_some(Trust::Unknown),
        readers: match own.effects.reads_private {
            true => Readers::OWNERS,
            false => Readers::Everyone,
        },
    }
}

fn input(name: &str, call: &ToolCall<'_>) -> Value {
    json!({
        "tool": name,
        "run": call.run.as_str(),
        "sender": { "from": call.origin.from, "trust": call.origin.trust },
        "arguments": without_nulls(call.args),
    })
}

/// Returns what the model reads. That the program says that it failed is a result, too: its words have the label of the tool.
pub fn result(written: &str, bytes_max: usize) -> Value {
    let text = written.trim();
    let (content, is_error) = match serde_json::from_str::<WrittenResult>(text) {
        Ok(answer) => (answer.content, answer.is_error),
        Err(_) => (Value::String(text.to_owned()), false),
    };
    let whole = match &content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // JSON escapes: a text that fits may not fit as written.
    let (piece, is_cut) = cut(&whole, bytes_max / 2);
    let mut result = match is_cut {
        false => json!({ "content": content }),
        true => json!({ "content": piece, "truncated": true, "size_bytes": whole.len() }),
    };
    if is_error {
        result["is_error"] = json!(true);
    }
    result
}

fn cut(text: &str, bytes_max: usize) -> (String, bool) {
    let end = text.floor_char_boundary(bytes_max);
    (text[..end].to_owned(), end < text.len())
}
