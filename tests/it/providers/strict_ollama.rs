//! Ollama as a judge of requests: what the real server refuses, and what it would take and get wrong without a word.

use super::server::{Reply, Seen};
use super::strict::{Refusal, Strict, Turn, is_image, is_name, leaks, stranger};
use serde_json::{Value, json};

const MEMBERS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "stream",
    "think",
    "format",
    "keep_alive",
    "truncate",
    "shift",
    "options",
];

pub async fn server(turns: Vec<Turn>) -> Strict {
    Strict::start(check, render, turns).await
}

fn refuse(status: u16, why: impl Into<String>) -> Refusal {
    let why = why.into();
    Refusal {
        status,
        body: json!({"error": why}),
        why,
    }
}

/// Complains unless the condition holds.
fn must(condition: bool, why: impl Into<String>) -> Result<(), Refusal> {
    if condition {
        Ok(())
    } else {
        Err(refuse(400, why))
    }
}

/// As Go words what does not fit its types.
fn typed(condition: bool, found: &str, field: &str) -> Result<(), Refusal> {
    must(
        condition,
        format!("json: cannot unmarshal {found} into Go struct field ChatRequest.{field}"),
    )
}

/// The judgement of `POST /api/chat`.
pub fn check(seen: &Seen) -> Result<Value, Refusal> {
    let line = seen.head.lines().next().unwrap_or_default();
    if line != "POST /api/chat HTTP/1.1" {
        return Err(refuse(404, "404 page not found"));
    }
    let key = seen
        .header("authorization")
        .unwrap_or_default()
        .trim_start_matches("Bearer ");
    must(!leaks(seen, key), "the key stands outside its header")?;
    let body: Value =
        serde_json::from_str(&seen.body).map_err(|_| refuse(400, "invalid character"))?;
    must(
        body["model"]
            .as_str()
            .is_some_and(|model| !model.is_empty()),
        "model is required",
    )?;
    // The real one ignores what it does not know; a setting that is spelt wrongly has no effect there.
    let odd = stranger(&body, MEMBERS).unwrap_or_default();
    must(odd.is_empty(), format!("nobody reads `{odd}`"))?;
    settings(&body)?;
    tools(&body)?;
    messages(&body)?;
    Ok(body)
}

fn settings(body: &Value) -> Result<(), Refusal> {
    let options = &body["options"];
    let odd = stranger(
        options,
        &["num_ctx", "num_predict", "temperature", "seed", "stop"],
    )
    .unwrap_or_default();
    must(odd.is_empty(), format!("invalid option provided `{odd}`"))?;
    let window = options["num_ctx"].as_u64().unwrap_or(0);
    must(
        window > 0,
        "without num_ctx the prompt is cut to 4096 tokens and nobody is told",
    )?;
    let answer = options["num_predict"].as_u64().unwrap_or(0);
    must(answer > 0, "without num_predict the answer has no end")?;
    // Five characters a token is fewer tokens than any real text has.
    let input = u64::try_from(body.to_string().chars().count()).unwrap_or(u64::MAX) / 5;
    must(
        input + answer <= window,
        "the input length exceeds the context length",
    )?;
    typed(
        options.get("temperature").is_none_or(Value::is_number),
        "value",
        "options.temperature",
    )?;
    must(
        body["truncate"] == false && body["shift"] == false,
        "the beginning may be forgotten without a word",
    )?;
    let levels = ["low", "medium", "high"];
    let thinks = |think: &Value| think.is_boolean() || levels.iter().any(|level| think == level);
    must(body.get("think").is_none_or(thinks), "invalid think value")?;
    typed(
        body.get("format")
            .is_none_or(|format| format.is_object() || format == "json"),
        "value",
        "format",
    )?;
    let lasts = |span: &Value| match span.as_str() {
        Some(text) => text.ends_with(['s', 'm', 'h']),
        None => span.is_i64(),
    };
    must(
        body.get("keep_alive").is_none_or(lasts),
        "time: missing unit in duration",
    )
}

fn tools(body: &Value) -> Result<(), Refusal> {
    for tool in body["tools"].as_array().into_iter().flatten() {
        let function = &tool["function"];
        must(tool["type"] == "function", "invalid tool type")?;
        must(
            is_name(function["name"].as_str().unwrap_or_default(), 64),
            "invalid tool name",
        )?;
        typed(
            function["parameters"]["type"] == "object",
            "value",
            "tools.function.parameters",
        )?;
    }
    let bound = body.get("format").is_some()
        && body["tools"]
            .as_array()
            .is_some_and(|tools| !tools.is_empty());
    must(
        !bound,
        "a model whose every word is bound by `format` cannot call",
    )
}

/// Text or images.
fn user(message: &Value) -> Result<(), Refusal> {
    let images = message["images"].as_array().map_or(&[][..], Vec::as_slice);
    must(
        message["content"] != "" || !images.is_empty(),
        "an empty message",
    )?;
    let decodes =
        |data: &Value| is_image(data, &json!("image/png")) || is_image(data, &json!("image/jpeg"));
    must(images.iter().all(decodes), "illegal base64 data or image")
}

fn messages(body: &Value) -> Result<(), Refusal> {
    let messages = body["messages"].as_array().filter(|list| !list.is_empty());
    let messages = messages.ok_or_else(|| refuse(400, "messages are required"))?;
    let mut awaited: Vec<&Value> = Vec::new();
    let mut spoke = "";
    for (at, message) in messages.iter().enumerate() {
        let odd = stranger(
            message,
            &[
                "role",
                "content",
                "images",
                "thinking",
                "tool_calls",
                "tool_name",
            ],
        )
        .unwrap_or_default();
        must(odd.is_empty(), format!("nobody reads `messages.{odd}`"))?;
        typed(message["content"].is_string(), "value", "messages.content")?;
        let role = message["role"].as_str().unwrap_or_default();
        must(
            role == "user" || message.get("images").is_none(),
            "images are the user's alone",
        )?;
        must(
            role == "tool" || awaited.is_empty(),
            "a call was not answered before the next message",
        )?;
        match role {
            "system" => must(
                at == 0,
                "a system message in the middle is no system message for most models",
            )?,
            "user" => {
                user(message)?;
                must(spoke != "user", "the user speaks twice")?;
            }
            "assistant" => {
                must(
                    spoke == "user" || spoke == "tool",
                    "the assistant speaks first or twice",
                )?;
                awaited = calls(message)?;
                must(
                    !awaited.is_empty() || message["content"] != "",
                    "an empty message",
                )?;
            }
            "tool" => {
                must(!awaited.is_empty(), "a tool result without its call")?;
                let call = awaited.remove(0);
                must(
                    message["tool_name"] == call["function"]["name"],
                    "a result is not its call's",
                )?;
            }
            other => return Err(refuse(400, format!("invalid role: {other}"))),
        }
        spoke = role;
    }
    must(awaited.is_empty(), "a call was not answered at the end")
}

fn calls(message: &Value) -> Result<Vec<&Value>, Refusal> {
    let calls: Vec<&Value> = message["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    for call in &calls {
        let function = &call["function"];
        must(
            is_name(function["name"].as_str().unwrap_or_default(), 64),
            "a call without a name",
        )?;
        typed(
            function["arguments"].is_object(),
            "string",
            "messages.tool_calls.function.arguments",
        )?;
    }
    Ok(calls)
}

/// A turn as the server streams it: thought, text, calls without ids, the end with `stop`.
fn render(turn: &Turn, _number: usize) -> Reply {
    let line = |message: Value| json!({"model": "model-x-1", "message": message, "done": false});
    let mut lines = vec![line(
        json!({"role": "assistant", "content": "", "thinking": "Let me think."}),
    )];
    if !turn.text.is_empty() {
        lines.push(line(json!({"role": "assistant", "content": turn.text})));
    }
    let calls = turn
        .calls
        .iter()
        .map(|(name, args)| json!({"function": {"name": name, "arguments": args}}));
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        lines.push(line(
            json!({"role": "assistant", "content": "", "tool_calls": calls}),
        ));
    }
    lines.push(
        json!({"model": "model-x-1", "message": {"role": "assistant", "content": ""}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 5}),
    );
    let body: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    Reply::lines(&body)
}
