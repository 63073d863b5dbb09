//! Anthropic's messages API as a judge of requests. Wording and order of its complaints follow the real ones where they are
//! known; that it complains, and with which status and type, is what counts.

use super::server::{Reply, Seen};
use super::strict::{Refusal, Strict, Turn, is_image, is_name, is_pdf, leaks, stranger};
use serde_json::{Value, json};

const MEMBERS: &[&str] = &[
    "model",
    "max_tokens",
    "temperature",
    "system",
    "messages",
    "tools",
    "tool_choice",
    "stream",
    "thinking",
    "metadata",
    "stop_sequences",
    "top_p",
    "top_k",
    "service_tier",
];
/// Bound of an image, as base64.
const IMAGE_BYTES_MAX: usize = 5 * 1024 * 1024;
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

pub async fn server(turns: Vec<Turn>) -> Strict {
    Strict::start(check, render, turns).await
}

fn refuse(status: u16, kind: &str, why: impl Into<String>) -> Refusal {
    let why = why.into();
    let body =
        json!({"type": "error", "error": {"type": kind, "message": why}, "request_id": "req_1"});
    Refusal { status, body, why }
}

fn invalid(why: impl Into<String>) -> Refusal {
    refuse(400, "invalid_request_error", why)
}

/// Complains unless the condition holds.
fn must(condition: bool, why: impl Into<String>) -> Result<(), Refusal> {
    if condition { Ok(()) } else { Err(invalid(why)) }
}

/// The judgement of `POST /v1/messages`.
pub fn check(seen: &Seen) -> Result<Value, Refusal> {
    let line = seen.head.lines().next().unwrap_or_default();
    if line != "POST /v1/messages HTTP/1.1" {
        return Err(refuse(
            404,
            "not_found_error",
            format!("no such place: {line}"),
        ));
    }
    let key = seen.header("x-api-key").unwrap_or_default();
    if key.is_empty() {
        return Err(refuse(
            401,
            "authentication_error",
            "x-api-key header is required",
        ));
    }
    must(!leaks(seen, key), "the key stands outside its header")?;
    must(
        seen.header("anthropic-version") == Some("2023-06-01"),
        "anthropic-version: header is required",
    )?;
    must(
        seen.header("content-type") == Some("application/json"),
        "content-type: must be application/json",
    )?;
    if seen.body.len() > BODY_BYTES_MAX {
        return Err(refuse(
            413,
            "request_too_large",
            "Request exceeds the maximum size",
        ));
    }
    let body: Value = serde_json::from_str(&seen.body)
        .map_err(|_| invalid("The request body is not valid JSON"))?;
    if let Some(member) = stranger(&body, MEMBERS) {
        return Err(invalid(format!("{member}: Extra inputs are not permitted")));
    }
    parameters(&body)?;
    tools(&body)?;
    messages(&body)?;
    Ok(body)
}

fn parameters(body: &Value) -> Result<(), Refusal> {
    must(
        body["model"]
            .as_str()
            .is_some_and(|model| !model.is_empty()),
        "model: Field required",
    )?;
    must(
        body["max_tokens"].as_u64().is_some_and(|tokens| tokens > 0),
        "max_tokens: Field required",
    )?;
    if let Some(temperature) = body.get("temperature") {
        let fits = temperature
            .as_f64()
            .is_some_and(|degrees| (0.0..=1.0).contains(&degrees));
        must(fits, "temperature: Input should be less than or equal to 1")?;
        let thinks = body["thinking"]["type"] == "enabled";
        let why = "`temperature` may only be set to 1 when thinking is enabled";
        must(!thinks || temperature.as_f64() == Some(1.0), why)?;
    }
    for section in body["system"].as_array().into_iter().flatten() {
        must(
            !blank(&section["text"]),
            "system: text content blocks must be non-empty",
        )?;
    }
    let marks = body.to_string().matches("\"cache_control\":{").count();
    must(
        marks <= 4,
        format!("A maximum of 4 blocks with cache_control may be provided. Found {marks}."),
    )
}

fn tools(body: &Value) -> Result<(), Refusal> {
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<&str> = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        must(
            is_name(name, 64),
            format!("tools.{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"),
        )?;
        must(!names.contains(&name), "tools: Tool names must be unique.")?;
        must(
            tool["input_schema"]["type"] == "object",
            format!("tools.{at}.input_schema.type: Field required"),
        )?;
        names.push(name);
    }
    let about = !body["messages"].to_string().contains("\"type\":\"tool_");
    must(
        !tools.is_empty() || about,
        "Requests which include `tool_use` or `tool_result` blocks must define tools",
    )?;
    must(
        !tools.is_empty() || body.get("tool_choice").is_none(),
        "tool_choice may only be specified with tools",
    )?;
    let choice = body["tool_choice"]["type"].as_str().unwrap_or("auto");
    must(
        ["auto", "any", "tool", "none"].contains(&choice),
        "tool_choice: Input tag does not match",
    )
}

fn messages(body: &Value) -> Result<(), Refusal> {
    let messages = body["messages"].as_array().filter(|list| !list.is_empty());
    let messages = messages.ok_or_else(|| invalid("messages: at least one message is required"))?;
    let mut awaited: Vec<String> = Vec::new();
    let mut ids: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        must(
            ["user", "assistant"].contains(&role),
            format!("messages.{at}.role: Input should be 'user' or 'assistant'"),
        )?;
        must(
            at > 0 || role == "user",
            "messages: first message must use the \"user\" role",
        )?;
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        must(
            role == expected,
            "messages: roles must alternate between \"user\" and \"assistant\"",
        )?;
        let content = message["content"]
            .as_array()
            .filter(|blocks| !blocks.is_empty());
        let content = content.ok_or_else(|| {
            invalid(format!(
                "messages.{at}: all messages must have non-empty content"
            ))
        })?;
        match role {
            "user" => {
                user(at, content, &awaited)?;
                awaited.clear();
            }
            _ => awaited = assistant(at, content, &mut ids)?,
        }
        let is_last = at + 1 == messages.len();
        let end = content
            .last()
            .and_then(|block| block["text"].as_str())
            .unwrap_or_default();
        let why = "messages: final assistant content cannot end with trailing whitespace";
        must(
            !(is_last && role == "assistant" && end.ends_with(char::is_whitespace)),
            why,
        )?;
    }
    let why = format!(
        "`tool_use` ids were found without `tool_result` blocks immediately after: {}",
        awaited.join(", ")
    );
    must(awaited.is_empty(), why)
}

/// Results of exactly the awaited calls, before everything else.
fn user(at: usize, content: &[Value], awaited: &[String]) -> Result<(), Refusal> {
    let mut answered: Vec<&str> = Vec::new();
    let mut others = 0;
    for (position, block) in content.iter().enumerate() {
        match block["type"].as_str() {
            Some("tool_result") => {
                known(
                    at,
                    position,
                    block,
                    &[
                        "type",
                        "tool_use_id",
                        "content",
                        "is_error",
                        "cache_control",
                    ],
                )?;
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                let why = format!(
                    "messages.{at}.content.{position}: unexpected `tool_use_id` found in `tool_result` blocks: {id}"
                );
                must(awaited.iter().any(|call| call == id), why)?;
                must(
                    !answered.contains(&id),
                    format!("each tool_use must have a single result. Found multiple: {id}"),
                )?;
                must(
                    others == 0,
                    format!(
                        "messages.{at}: tool_result blocks must come first in the user message"
                    ),
                )?;
                let fits = block["content"].is_string() || block["content"].is_array();
                must(
                    fits,
                    format!(
                        "messages.{at}.content.{position}.tool_result.content: Input should be a valid string"
                    ),
                )?;
                answered.push(id);
            }
            Some(kind @ ("text" | "image" | "document")) => {
                match kind {
                    "text" => text(at, position, block)?,
                    "image" => image(at, position, block)?,
                    _ => document(at, position, block)?,
                }
                others += 1;
            }
            other => {
                return Err(invalid(format!(
                    "messages.{at}.content.{position}: {other:?} is not for users"
                )));
            }
        }
    }
    let missing: Vec<_> = awaited
        .iter()
        .filter(|call| !answered.contains(&call.as_str()))
        .cloned()
        .collect();
    let why = format!(
        "`tool_use` ids were found without `tool_result` blocks immediately after: {}",
        missing.join(", ")
    );
    must(missing.is_empty(), why)
}

/// The ids of the calls that await their results.
fn assistant(at: usize, content: &[Value], ids: &mut Vec<String>) -> Result<Vec<String>, Refusal> {
    let mut calls = Vec::new();
    for (position, block) in content.iter().enumerate() {
        let place = format!("messages.{at}.content.{position}");
        match block["type"].as_str() {
            Some("tool_use") => {
                known(
                    at,
                    position,
                    block,
                    &["type", "id", "name", "input", "cache_control"],
                )?;
                let (id, name) = (
                    block["id"].as_str().unwrap_or_default(),
                    block["name"].as_str().unwrap_or_default(),
                );
                must(
                    is_name(id, 64),
                    format!("{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
                )?;
                must(
                    is_name(name, 64),
                    format!("{place}.tool_use.name: String should match pattern"),
                )?;
                must(
                    block["input"].is_object(),
                    format!("{place}.tool_use.input: Input should be a valid dictionary"),
                )?;
                must(
                    !ids.contains(&id.to_owned()),
                    "messages: `tool_use` ids must be unique",
                )?;
                ids.push(id.to_owned());
                calls.push(id.to_owned());
            }
            Some("text") => text(at, position, block)?,
            Some("thinking") => {
                must(
                    block["signature"].is_string(),
                    format!("{place}.thinking.signature: Field required"),
                )?;
            }
            Some("redacted_thinking") => {
                must(
                    block["data"].is_string(),
                    format!("{place}.data: Field required"),
                )?;
            }
            other => return Err(invalid(format!("{place}: {other:?} is not for assistants"))),
        }
    }
    let end = content
        .last()
        .and_then(|block| block["type"].as_str())
        .unwrap_or_default();
    must(
        !end.contains("thinking"),
        format!("messages.{at}: The final block in an assistant message cannot be `thinking`."),
    )?;
    Ok(calls)
}

fn text(at: usize, position: usize, block: &Value) -> Result<(), Refusal> {
    known(
        at,
        position,
        block,
        &["type", "text", "cache_control", "citations"],
    )?;
    must(
        !blank(&block["text"]),
        "messages: text content blocks must contain non-whitespace text",
    )
}

fn image(at: usize, position: usize, block: &Value) -> Result<(), Refusal> {
    known(at, position, block, &["type", "source", "cache_control"])?;
    let source = &block["source"];
    known(at, position, source, &["type", "media_type", "data"])?;
    let place = format!("messages.{at}.content.{position}.image.source");
    must(
        source["type"] == "base64",
        format!("{place}: Input tag does not match any of the expected tags: 'base64', 'url'"),
    )?;
    let length = source["data"].as_str().unwrap_or_default().len();
    must(
        length <= IMAGE_BYTES_MAX,
        format!(
            "{place}.base64: image exceeds 5 MB maximum: {length} bytes > {IMAGE_BYTES_MAX} bytes"
        ),
    )?;
    must(
        is_image(&source["data"], &source["media_type"]),
        format!("{place}.base64.data: Image does not match the provided media type"),
    )
}

fn document(at: usize, position: usize, block: &Value) -> Result<(), Refusal> {
    known(
        at,
        position,
        block,
        &[
            "type",
            "source",
            "title",
            "context",
            "citations",
            "cache_control",
        ],
    )?;
    let source = &block["source"];
    known(at, position, source, &["type", "media_type", "data"])?;
    let place = format!("messages.{at}.content.{position}.document.source");
    must(
        source["type"] == "base64" && source["media_type"] == "application/pdf",
        format!("{place}.base64.media_type: Input should be 'application/pdf'"),
    )?;
    must(
        is_pdf(source["data"].as_str().unwrap_or_default()),
        format!("{place}.base64.data: The PDF specified was not valid."),
    )
}

fn known(at: usize, position: usize, block: &Value, members: &[&str]) -> Result<(), Refusal> {
    match stranger(block, members) {
        Some(member) => Err(invalid(format!(
            "messages.{at}.content.{position}.{member}: Extra inputs are not permitted"
        ))),
        None => Ok(()),
    }
}

fn blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

/// A turn as the vendor streams it.
fn render(turn: &Turn, number: usize) -> Reply {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": format!("msg_{number}"), "model": "claude-strict",
        "usage": {"input_tokens": 10, "output_tokens": 1}}}),
    ];
    let mut blocks = Vec::new();
    if !turn.text.is_empty() {
        let delta = json!({"type": "text_delta", "text": turn.text});
        blocks.push((json!({"type": "text", "text": ""}), delta));
    }
    for (position, (tool, args)) in turn.calls.iter().enumerate() {
        let id = format!("toolu_{number}_{position}");
        let delta = json!({"type": "input_json_delta", "partial_json": args.to_string()});
        blocks.push((
            json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
            delta,
        ));
    }
    for (index, (block, delta)) in blocks.into_iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let reason = if turn.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}),
    );
    events.push(json!({"type": "message_stop"}));
    let frame = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap_or_default()
        )
    };
    Reply::stream(&events.iter().map(frame).collect::<String>())
}
