//! Provider adapters: what they send, what they make of what comes back, and how they fail.

mod history;
mod scripted;

use attache::harness::providers::{CallContext, Message, Request, ToolChoice, ToolSpec};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/providers").join(path)
}

fn context() -> CallContext {
    CallContext {
        cancel: CancellationToken::new(),
        deadline: Duration::from_secs(20),
        idle: Duration::from_secs(10),
        run_id: "run-1".into(),
        turn_index: 0,
    }
}

fn tool(name: &str) -> ToolSpec {
    let input_schema = json!({"type": "object", "properties": {"to": {"type": "array"}}});
    ToolSpec { name: name.into(), description: format!("does {name}"), input_schema }
}

/// A request of one user text, with one tool on offer.
fn request(text: &str) -> Request {
    Request {
        model: "model-x".into(),
        system: vec!["You are Ada.".into(), "Today is Friday.".into()],
        messages: vec![Message::user(text)],
        tools: vec![tool("send_email")],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 1024,
        temperature: None,
    }
}
