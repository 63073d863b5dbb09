//! Chat completions as a judge of requests: OpenAI's rules, and each vendor's own shape of an error.
//!
//! Where vendors of this dialect differ the strictest rule holds for all: roles alternate as the templates of vLLM and
//! Mistral want it, arguments are JSON objects as the gateways in front of Anthropic want them.

use super::server::{Reply, Seen};
use super::strict::{
    Check, Refusal, Strict, Turn, is_image, is_name, is_pdf_part, leaks, stranger,
};
use serde_json::{Value, json};

const MEMBERS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "max_completion_tokens",
    "max_tokens",
    "temperature",
    "response_format",
    "store",
    "stream",
    "stream_options",
    "reasoning_effort",
];
/// What OpenRouter has beyond them.
const ROUTER_MEMBERS: &[&str] = &["provider", "reasoning"];
/// OpenAI's bound of a call's id.
const ID_LEN_MAX: usize = 40;

#[derive(Clone, Copy, PartialEq)]
enum Vendor {
    OpenAi,
    Grok,
    OpenRouter,
}

/// The judge of one adapter.
pub fn check_of(adapter: &str) -> Check {
    match adapter {
        "grok" => |seen| check(seen, Vendor::Grok),
        "openrouter" => |seen| check(seen, Vendor::OpenRouter),
        _ => |seen| check(seen, Vendor::OpenAi),
    }
}

pub async fn server(adapter: &str, turns: Vec<Turn>) -> Strict {
    judged_by(check_of(adapter), turns).await
}

/// With a judge of the caller's own.
pub async fn judged_by(check: Check, turns: Vec<Turn>) -> Strict {
    Strict::start(check, render, turns).await
}

/// A complaint before it has its vendor's shape: status, code, the part of the request, the sentence.
struct Complaint(u16, &'static str, String, String);

fn bad(param: impl Into<String>, why: impl Into<String>) -> Complaint {
    Complaint(400, "invalid_value", param.into(), why.into())
}

fn must(
    condition: bool,
    param: impl Into<String>,
    why: impl Into<String>,
) -> Result<(), Complaint> {
    if condition {
        Ok(())
    } else {
        Err(bad(param, why))
    }
}

impl Vendor {
    fn refusal(self, Complaint(status, code, param, why): Complaint) -> Refusal {
        // xAI takes a wrong key for a bad argument, a missing one not.
        let body = match self {
            Vendor::OpenAi => {
                json!({"error": {"message": why, "type": "invalid_request_error", "param": param, "code": code}})
            }
            Vendor::Grok => json!({"code": "Client specified an invalid argument", "error": why}),
            Vendor::OpenRouter => {
                json!({"error": {"code": status, "message": why}, "user_id": "user_1"})
            }
        };
        Refusal { status, body, why }
    }
}

fn check(seen: &Seen, vendor: Vendor) -> Result<Value, Refusal> {
    judge(seen, vendor).map_err(|complaint| vendor.refusal(complaint))
}

fn judge(seen: &Seen, vendor: Vendor) -> Result<Value, Complaint> {
    let line = seen.head.lines().next().unwrap_or_default();
    if line != "POST /v1/chat/completions HTTP/1.1" {
        return Err(Complaint(
            404,
            "unknown_url",
            String::new(),
            format!("Unknown request URL: {line}"),
        ));
    }
    let key = seen
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    if key.is_empty() {
        return Err(Complaint(
            401,
            "missing_api_key",
            String::new(),
            "You didn't provide an API key.".into(),
        ));
    }
    must(!leaks(seen, key), "", "the key stands outside its header")?;
    if seen.header("content-type") != Some("application/json") {
        return Err(Complaint(
            415,
            "unsupported_media_type",
            String::new(),
            "Expected application/json".into(),
        ));
    }
    let parsed = serde_json::from_str::<Value>(&seen.body);
    let body = parsed.map_err(|_| bad("", "We could not parse the JSON body of your request."))?;
    let more: &[&str] = match vendor {
        Vendor::OpenRouter => ROUTER_MEMBERS,
        // xAI has a header for it.
        Vendor::OpenAi => &["prompt_cache_key"],
        Vendor::Grok => &[],
    };
    if let Some(member) = stranger(&body, &[MEMBERS, more].concat()) {
        let why = format!("Unrecognized request argument supplied: {member}");
        return Err(Complaint(400, "unknown_parameter", member.to_owned(), why));
    }
    parameters(&body)?;
    tools(&body)?;
    messages(&body)?;
    Ok(body)
}

fn parameters(body: &Value) -> Result<(), Complaint> {
    must(
        body["model"]
            .as_str()
            .is_some_and(|model| !model.is_empty()),
        "model",
        "you must provide a model parameter",
    )?;
    let limits = ["max_tokens", "max_completion_tokens"].map(|name| body.get(name));
    must(
        limits.iter().flatten().count() < 2,
        "max_tokens",
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
    )?;
    must(
        limits
            .iter()
            .flatten()
            .all(|limit| limit.as_u64().is_some_and(|n| n > 0)),
        "max_tokens",
        "Expected an integer",
    )?;
    let hot = body
        .get("temperature")
        .and_then(Value::as_f64)
        .unwrap_or_default();
    must(
        (0.0..=2.0).contains(&hot),
        "temperature",
        "Expected a value <= 2",
    )?;
    let streams = body["stream"] == true;
    must(
        streams || body.get("stream_options").is_none(),
        "stream_options",
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    )?;
    if body["response_format"]["type"] == "json_schema" {
        let format = &body["response_format"]["json_schema"];
        let fits = is_name(format["name"].as_str().unwrap_or_default(), 64)
            && format["schema"].is_object();
        must(
            fits,
            "response_format.json_schema",
            "Missing required parameter: 'response_format.json_schema'.",
        )?;
    }
    reasoning_model(body)
}

/// Models of the `o` series know neither a temperature nor the older name of the limit.
fn reasoning_model(body: &Value) -> Result<(), Complaint> {
    if !body["model"]
        .as_str()
        .is_some_and(|model| model.starts_with('o'))
    {
        return Ok(());
    }
    if body.get("max_tokens").is_some() {
        let why = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        return Err(Complaint(
            400,
            "unsupported_parameter",
            "max_tokens".into(),
            why.into(),
        ));
    }
    if body
        .get("temperature")
        .is_some_and(|temperature| temperature.as_f64() != Some(1.0))
    {
        let why = "Unsupported value: 'temperature' does not support this value with this model. Only the default (1) value is supported.";
        return Err(Complaint(
            400,
            "unsupported_value",
            "temperature".into(),
            why.into(),
        ));
    }
    Ok(())
}

fn tools(body: &Value) -> Result<(), Complaint> {
    let Some(tools) = body.get("tools") else {
        return must(
            body.get("tool_choice").is_none(),
            "tool_choice",
            "'tool_choice' is only allowed when 'tools' are specified.",
        );
    };
    let tools = tools.as_array().filter(|tools| !tools.is_empty());
    let tools = tools.ok_or_else(|| bad("tools", "Invalid 'tools': empty array."))?;
    for (at, tool) in tools.iter().enumerate() {
        let function = &tool["function"];
        let place = format!("tools[{at}].function.name");
        must(
            tool["type"] == "function",
            format!("tools[{at}].type"),
            "Invalid value. Supported value: 'function'.",
        )?;
        must(
            is_name(function["name"].as_str().unwrap_or_default(), 64),
            place,
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        )?;
        must(
            function["parameters"]["type"] == "object",
            "tools",
            "Invalid schema for function: schema must be of type 'object'",
        )?;
    }
    Ok(())
}

/// Sentence about turns out of order.
const ALTERNATE: &str = "Conversation roles must alternate user/assistant/user/assistant/...";

fn messages(body: &Value) -> Result<(), Complaint> {
    let messages = body["messages"].as_array().filter(|list| !list.is_empty());
    let messages = messages.ok_or_else(|| bad("messages", "Invalid 'messages': empty array."))?;
    let mut awaited: Vec<String> = Vec::new();
    let mut speaker = "";
    for (at, message) in messages.iter().enumerate() {
        let place = format!("messages.[{at}].role");
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            answer(at, message, &mut awaited)?;
            speaker = "tool";
            continue;
        }
        must(
            awaited.is_empty(),
            place.clone(),
            format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
             The following tool_call_ids did not have response messages: {}",
                awaited.join(", ")
            ),
        )?;
        match role {
            "system" | "developer" => {
                must(at == 0, place, "System message must be at the beginning.")?;
                must(
                    says(message),
                    format!("messages.[{at}].content"),
                    "empty content",
                )?;
            }
            "user" => {
                must(speaker != "user", place, ALTERNATE)?;
                content(at, message)?;
                speaker = "user";
            }
            "assistant" => {
                must(["user", "tool"].contains(&speaker), place, ALTERNATE)?;
                awaited = calls(at, message)?;
                let speaks = says(message) || (message["content"].is_null() && !awaited.is_empty());
                must(
                    speaks,
                    format!("messages.[{at}].content"),
                    "Invalid value for 'content': expected a string, got null.",
                )?;
                speaker = "assistant";
            }
            other => return Err(bad(place, format!("Invalid value: '{other}'."))),
        }
    }
    must(
        awaited.is_empty(),
        "messages",
        format!(
            "tool_call_ids did not have response messages: {}",
            awaited.join(", ")
        ),
    )?;
    must(
        !speaker.is_empty(),
        "messages",
        "Conversation has no user message",
    )
}

/// Content of a user's message: a text, or parts.
fn content(at: usize, message: &Value) -> Result<(), Complaint> {
    let place = format!("messages.[{at}].content");
    let Some(parts) = message["content"].as_array() else {
        return must(
            says(message),
            place,
            "Invalid value for 'content': expected a string, got null.",
        );
    };
    must(
        !parts.is_empty(),
        place.clone(),
        "Invalid 'content': empty array.",
    )?;
    for part in parts {
        let known: &[&str] = match part["type"].as_str() {
            Some("text") => &["type", "text"],
            Some("image_url") => &["type", "image_url"],
            Some("file") => &["type", "file"],
            _ => return Err(bad(place, "Invalid value. Supported: 'text', 'image_url'.")),
        };
        let odd = stranger(part, known).or(stranger(&part["image_url"], &["url", "detail"]));
        must(
            odd.is_none(),
            place.clone(),
            format!("Unknown parameter: '{}'.", odd.unwrap_or_default()),
        )?;
        if part["type"] == "text" {
            let text = part["text"].as_str().unwrap_or_default();
            must(
                !text.trim().is_empty(),
                place.clone(),
                "Expected a non-empty text",
            )?;
            continue;
        }
        if part["type"] == "file" {
            let why = "Invalid file data: 'file_id'. Expected a base64-encoded data URL.";
            must(is_pdf_part(&part["file"]), place.clone(), why)?;
            continue;
        }
        let url = part["image_url"]["url"].as_str().unwrap_or_default();
        let (media_type, data) = url
            .strip_prefix("data:")
            .and_then(|url| url.split_once(";base64,"))
            .unwrap_or_default();
        must(
            is_image(&json!(data), &json!(media_type)),
            place.clone(),
            "You uploaded an unsupported image. Please make sure your image is valid.",
        )?;
    }
    Ok(())
}

fn answer(at: usize, message: &Value, awaited: &mut Vec<String>) -> Result<(), Complaint> {
    let id = message["tool_call_id"].as_str().unwrap_or_default();
    let place = awaited.iter().position(|call| call == id);
    let why =
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
    let place = place.ok_or_else(|| bad(format!("messages.[{at}].role"), why))?;
    awaited.remove(place);
    must(
        says(message),
        format!("messages.[{at}].content"),
        "Invalid value for 'content': expected a string.",
    )
}

/// The ids of the calls that await their results.
fn calls(at: usize, message: &Value) -> Result<Vec<String>, Complaint> {
    let Some(calls) = message.get("tool_calls") else {
        return Ok(Vec::new());
    };
    let calls = calls.as_array().filter(|calls| !calls.is_empty());
    let calls = calls.ok_or_else(|| {
        bad(
            format!("messages[{at}].tool_calls"),
            "Invalid 'tool_calls': empty array.",
        )
    })?;
    let mut ids: Vec<String> = Vec::new();
    for (position, call) in calls.iter().enumerate() {
        let place = format!("messages[{at}].tool_calls[{position}]");
        let (id, function) = (call["id"].as_str().unwrap_or_default(), &call["function"]);
        if id.len() > ID_LEN_MAX {
            let why = format!(
                "Invalid '{place}.id': string too long. Expected a string with maximum length {ID_LEN_MAX}."
            );
            return Err(Complaint(
                400,
                "string_above_max_length",
                format!("{place}.id"),
                why,
            ));
        }
        must(
            is_name(id, ID_LEN_MAX) && !ids.iter().any(|other| other == id),
            format!("{place}.id"),
            "Invalid or repeated id",
        )?;
        must(
            call["type"] == "function",
            format!("{place}.type"),
            "Invalid value. Supported value: 'function'.",
        )?;
        must(
            is_name(function["name"].as_str().unwrap_or_default(), 64),
            format!("{place}.function.name"),
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        )?;
        let Some(arguments) = function["arguments"].as_str() else {
            let why = format!(
                "Invalid type for '{place}.function.arguments': expected a string, but got an object instead."
            );
            return Err(Complaint(
                400,
                "invalid_type",
                format!("{place}.function.arguments"),
                why,
            ));
        };
        let object =
            serde_json::from_str::<Value>(arguments).is_ok_and(|arguments| arguments.is_object());
        must(
            object,
            format!("{place}.function.arguments"),
            "the arguments are not a JSON object",
        )?;
        ids.push(id.to_owned());
    }
    Ok(ids)
}

fn says(message: &Value) -> bool {
    message["content"]
        .as_str()
        .is_some_and(|text| !text.trim().is_empty())
}

/// A turn as these vendors stream it.
fn render(turn: &Turn, number: usize) -> Reply {
    let chunk = |delta: Value, reason: Option<&str>| {
        json!({"id": format!("chatcmpl-{number}"), "model": "gpt-strict", "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    let mut chunks = vec![chunk(
        json!({"role": "assistant", "content": turn.text}),
        None,
    )];
    for (index, (tool, args)) in turn.calls.iter().enumerate() {
        let function = json!({"name": tool, "arguments": args.to_string()});
        let call = json!({"index": index, "id": format!("call_{number}_{index}"), "type": "function", "function": function});
        chunks.push(chunk(json!({"tool_calls": [call]}), None));
    }
    chunks.push(chunk(
        json!({}),
        Some(if turn.calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        }),
    ));
    chunks.push(json!({"id": "x", "model": "gpt-strict", "choices": [],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}));
    let frames: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    Reply::stream(&format!("{frames}data: [DONE]\n\n"))
}
