//! Provider adapters: what they send, what they make of what comes back, and how they fail.

mod caching;
mod captures;
mod checks;
mod classify;
pub mod conformance;
mod dialects;
mod embeddings;
mod forms;
mod gemini;
mod history;
mod judged;
mod http;
mod images;
mod instances;
mod pdf_files;
pub mod photographs;
mod judged_natives;
mod ollama;
mod recordings;
mod responses;
mod responses_failures;
mod responses_recorded;
mod retry;
mod scripted;
pub mod server;
mod silence;
mod strict;
mod strict_anthropic;
mod strict_openai;
mod strict_responses;
mod switches;
pub mod threads;
mod vendors;
mod strict_gemini;
mod strict_ollama;
mod threads_natives;

use attache::config::{ChatApi, ChatSwitches, ProviderSettings};
use attache::domain::Timestamp;
use attache::providers::{CallContext, Message, Provider, Request, ToolChoice, ToolSpec, build};
use secrecy::SecretString;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Looks like no vendor's key, so that only the exact mask can find it.
const KEY: &str = "hunter2-hunter2-hunter2";

/// The adapter of that name; `openai-responses` is `openai` by its other API.
fn adapter(id: &str, base_url: &str) -> Box<dyn Provider> {
    let (base_url, api_key) = (Some(base_url.to_owned()), Some(SecretString::from(KEY)));
    let (id, api) = match id.strip_suffix("-responses") {
        Some(id) => (id, ChatApi::Responses),
        None => (id, ChatApi::Chat),
    };
    let chat = ChatSwitches {
        api,
        ..ChatSwitches::default()
    };
    build(
        id,
        &ProviderSettings {
            base_url,
            api_key,
            chat,
            ..Default::default()
        },
    )
    .expect("loopback is allowed")
}

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/providers")
        .join(path)
}

fn context() -> CallContext {
    CallContext {
        cancel: CancellationToken::new(),
        deadline: Duration::from_secs(20),
        idle: Duration::from_secs(10),
        run_id: "run-1".into(),
        turn_index: 0,
        model: "model-x".into(),
        cache_key: None,
        now: Timestamp::from_millis(1_900_000_000_000),
        capture: None,
    }
}

fn tool(name: &str) -> ToolSpec {
    let input_schema = json!({"type": "object", "properties": {"to": {"type": "array"}}});
    ToolSpec {
        name: name.into(),
        description: format!("does {name}"),
        input_schema: input_schema.into(),
    }
}

/// A request of one user text, with one tool on offer.
fn request(text: &str) -> Request {
    Request {
        model: "model-x".into(),
        system: vec!["You are Ada.".into(), "Today is Friday.".into()],
        messages: vec![Message::user(text)],
        past_messages: 0,
        cache_key: None,
        tools: vec![tool("send_email")],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 1024,
        temperature: None,
        output: None,
        without: vec![],
        agent: None,
    }
}
