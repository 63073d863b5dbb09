//! The Responses API as a judge of requests, used without state: nothing is stored, so what the model said has to come back
//! whole, its sealed reasoning included, each item before the one that it led to.

use super::server::{Reply, Seen};
use super::strict::{
    Check, Refusal, Strict, Turn, is_image, is_name, is_pdf_part, leaks, stranger,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

const MEMBERS: &[&str] = &[
    "model",
    "instructions",
    "input",
    "tools",
    "tool_choice",
    "max_output_tokens",
    "temperature",
    "reasoning",
    "text",
    "include",
    "prompt_cache_key",
    "store",
    "stream",
];
/// The API's bound of a call's id.
const ID_LEN_MAX: usize = 64;

/// The judge of an adapter: xAI has its own shape of an error.
pub fn check_of(adapter: &str) -> Check {
    match adapter {
        "grok" => |seen| check(seen, true),
        _ => |seen| check(seen, false),
    }
}

pub async fn server(adapter: &str, turns: Vec<Turn>) -> Strict {
    Strict::start(check_of(adapter), render, turns).await
}

/// A complaint before it has its vendor's shape: status, code, the part of the request, the sentence.
struct Complaint(u16, &'static str, String, String);

fn must(
    condition: bool,
    param: impl Into<String>,
    why: impl Into<String>,
) -> Result<(), Complaint> {
    if condition {
        return Ok(());
    }
    Err(Complaint(400, "invalid_value", param.into(), why.into()))
}

fn check(seen: &Seen, is_grok: bool) -> Result<Value, Refusal> {
    judge(seen).map_err(|Complaint(status, code, param, why)| {
        let body = if is_grok {
            json!({"code": "invalid-argument", "error": why})
        } else {
            json!({"error": {"message": why, "type": "invalid_request_error", "param": param, "code": code}})
        };
        Refusal { status, body, why }
    })
}

fn judge(seen: &Seen) -> Result<Value, Complaint> {
    let line = seen.head.lines().next().unwrap_or_default();
    let refused = |status, code, why: &str| Complaint(status, code, String::new(), why.to_owned());
    if line != "POST /v1/responses HTTP/1.1" {
        return Err(refused(404, "unknown_url", line));
    }
    let key = seen
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    if key.is_empty() {
        return Err(refused(
            401,
            "missing_api_key",
            "You didn't provide an API key.",
        ));
    }
    must(!leaks(seen, key), "", "the key stands outside its header")?;
    if seen.header("content-type") != Some("application/json") {
        return Err(refused(415, "unsupported_media_type", "Expected JSON"));
    }
    let parsed = serde_json::from_str::<Value>(&seen.body);
    let body = parsed.map_err(|_| refused(400, "bad_json", "We could not parse the JSON body."))?;
    known(&body, MEMBERS, "")?;
    parameters(&body)?;
    tools(&body)?;
    input(&body)?;
    Ok(body)
}

fn known(object: &Value, members: &[&str], place: &str) -> Result<(), Complaint> {
    match stranger(object, members) {
        None => Ok(()),
        Some(member) => {
            let why = format!("Unknown parameter: '{place}{member}'.");
            Err(Complaint(
                400,
                "unknown_parameter",
                format!("{place}{member}"),
                why,
            ))
        }
    }
}

fn parameters(body: &Value) -> Result<(), Complaint> {
    let is_said = |name: &str| body[name].as_str().is_some_and(|text| !text.is_empty());
    must(
        is_said("model"),
        "model",
        "Missing required parameter: 'model'.",
    )?;
    must(
        body.get("instructions").is_none() || is_said("instructions"),
        "instructions",
        "Expected a non-empty text",
    )?;
    must(
        body["max_output_tokens"].as_u64().is_some_and(|n| n >= 16),
        "max_output_tokens",
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16",
    )?;
    let hot = body["temperature"].as_f64().unwrap_or_default();
    must(
        (0.0..=2.0).contains(&hot),
        "temperature",
        "Expected a value <= 2",
    )?;
    must(
        body["store"] == false && body["stream"] == true,
        "store",
        "this test's conversations are not stored",
    )?;
    let include = &body["include"];
    must(
        include.is_null() || *include == json!(["reasoning.encrypted_content"]),
        "include",
        "Invalid value. Supported: 'reasoning.encrypted_content'",
    )?;
    let format = &body["text"]["format"];
    known(&body["text"], &["format"], "text.")?;
    if format["type"] == "json_schema" {
        known(
            format,
            &["type", "name", "schema", "strict"],
            "text.format.",
        )?;
        let fits = is_name(format["name"].as_str().unwrap_or_default(), 64)
            && format["schema"].is_object();
        must(
            fits,
            "text.format.name",
            "Missing required parameter: 'text.format.name'.",
        )?;
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
    let tools = tools.as_array().map_or(&[][..], Vec::as_slice);
    must(!tools.is_empty(), "tools", "Invalid 'tools': empty array.")?;
    for (at, tool) in tools.iter().enumerate() {
        let place = format!("tools[{at}].");
        known(
            tool,
            &["type", "name", "description", "parameters", "strict"],
            &place,
        )?;
        must(
            tool["type"] == "function",
            format!("{place}type"),
            "Invalid value. Supported value: 'function'.",
        )?;
        must(
            is_name(tool["name"].as_str().unwrap_or_default(), 64),
            format!("{place}name"),
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        )?;
        must(
            tool["parameters"]["type"] == "object" && tool["strict"].is_boolean(),
            format!("{place}parameters"),
            "Invalid schema for function: schema must be of type 'object'",
        )?;
    }
    Ok(())
}

fn input(body: &Value) -> Result<(), Complaint> {
    let items = body["input"].as_array().map_or(&[][..], Vec::as_slice);
    must(!items.is_empty(), "input", "Invalid 'input': empty array.")?;
    let (mut awaited, mut seen): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (at, item) in items.iter().enumerate() {
        let place = format!("input[{at}]");
        match item["type"].as_str().unwrap_or_default() {
            "message" if item["role"] == "assistant" => spoken(item, &place)?,
            "message" => {
                unanswered(&awaited)?;
                content(item, &place)?;
            }
            "reasoning" => reasoning(item, items.get(at + 1), &place)?,
            "function_call" => {
                let id = call(item, &place)?;
                must(
                    !seen.contains(&id),
                    &place,
                    "Duplicate item found with call_id",
                )?;
                seen.push(id.clone());
                awaited.push(id);
            }
            "function_call_output" => {
                known(item, &["type", "call_id", "output"], &place)?;
                let id = item["call_id"].as_str().unwrap_or_default();
                let open = awaited.iter().position(|call| call == id);
                let why = format!("No tool call found for function call output with call_id {id}.");
                must(open.is_some(), &place, why)?;
                awaited.remove(open.unwrap_or_default());
                must(
                    is_text(&item["output"]),
                    &place,
                    "Expected a non-empty output",
                )?;
            }
            other => must(false, &place, format!("Invalid value: '{other}'."))?,
        }
    }
    unanswered(&awaited)
}

fn unanswered(awaited: &[String]) -> Result<(), Complaint> {
    must(
        awaited.is_empty(),
        "input",
        format!(
            "No tool output found for function call {}.",
            awaited.join(", ")
        ),
    )
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn spoken(item: &Value, place: &str) -> Result<(), Complaint> {
    known(item, &["type", "role", "content", "phase"], place)?;
    must(
        is_text(&item["content"]),
        place,
        "Expected a non-empty text",
    )?;
    let phase = &item["phase"];
    must(
        phase.is_null() || phase == "commentary" || phase == "final_answer",
        place,
        "Invalid value of 'phase'",
    )
}

/// What a user says: texts, images and files.
fn content(item: &Value, place: &str) -> Result<(), Complaint> {
    known(item, &["type", "role", "content"], place)?;
    must(
        item["role"] == "user",
        place,
        "Invalid value. Supported: 'user', 'assistant'.",
    )?;
    let parts = item["content"].as_array().map_or(&[][..], Vec::as_slice);
    must(!parts.is_empty(), place, "Invalid 'content': empty array.")?;
    for part in parts {
        if part["type"] == "input_text" {
            known(part, &["type", "text"], place)?;
            must(is_text(&part["text"]), place, "Expected a non-empty text")?;
            continue;
        }
        if part["type"] == "input_file" {
            let why = "Invalid 'file_data'. Expected a base64-encoded data URL of a file.";
            let mut file = part.clone();
            file.as_object_mut()
                .and_then(|members| members.remove("type"));
            must(is_pdf_part(&file), place, why)?;
            continue;
        }
        must(
            part["type"] == "input_image",
            place,
            "Invalid value. Supported: 'input_text', 'input_image', 'input_file'.",
        )?;
        known(part, &["type", "image_url", "detail"], place)?;
        let url = part["image_url"].as_str().unwrap_or_default();
        let data = url.strip_prefix("data:").unwrap_or_default();
        let (kind, data) = data.split_once(";base64,").unwrap_or_default();
        must(
            is_image(&json!(data), &json!(kind)) && part["detail"] == "auto",
            place,
            "The image data you provided does not represent a valid image.",
        )?;
    }
    Ok(())
}

/// What a server that stored nothing seals of its reasoning.
pub fn sealed(id: &str) -> String {
    BASE64_STANDARD.encode(format!("sealed {id}"))
}

fn reasoning(item: &Value, next: Option<&Value>, place: &str) -> Result<(), Complaint> {
    known(item, &["type", "id", "summary", "encrypted_content"], place)?;
    let id = item["id"].as_str().unwrap_or_default();
    must(
        item["summary"].is_array(),
        place,
        "Missing required parameter: 'summary'.",
    )?;
    must(
        item["encrypted_content"] == json!(sealed(id)),
        place,
        format!("The encrypted content for item {id} could not be verified."),
    )?;
    let is_led_to = next.is_some_and(|next| {
        next["type"] == "function_call"
            || next["type"] == "reasoning"
            || next["role"] == "assistant"
    });
    let why = format!(
        "Item '{id}' of type 'reasoning' was provided without its required following item."
    );
    must(is_led_to, "input", why)
}

fn call(item: &Value, place: &str) -> Result<String, Complaint> {
    known(item, &["type", "call_id", "name", "arguments"], place)?;
    let id = item["call_id"].as_str().unwrap_or_default();
    must(
        (1..=ID_LEN_MAX).contains(&id.len()),
        place,
        "Invalid 'call_id': string too long. Expected a string with maximum length 64.",
    )?;
    must(
        is_name(item["name"].as_str().unwrap_or_default(), 64),
        place,
        "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
    )?;
    let arguments = item["arguments"].as_str().unwrap_or_default();
    let is_object = serde_json::from_str::<Value>(arguments).is_ok_and(|args| args.is_object());
    must(is_object, place, "the arguments are not a JSON object")?;
    Ok(id.to_owned())
}

/// The items of a turn: reasoning before every second call, and before what is said.
fn items(turn: &Turn, number: usize) -> Vec<Value> {
    let reasoning = |part: usize| {
        let id = format!("rs_{number}_{part}");
        json!({"id": id, "type": "reasoning", "encrypted_content": sealed(&id),
            "summary": [{"type": "summary_text", "text": format!("Thought {number}.")}]})
    };
    let mut items = vec![reasoning(0)];
    if !turn.text.is_empty() {
        let phase = if turn.calls.is_empty() {
            "final_answer"
        } else {
            "commentary"
        };
        items.push(
            json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant",
            "status": "completed", "phase": phase,
            "content": [{"type": "output_text", "text": turn.text, "annotations": []}]}),
        );
    }
    for (at, (tool, args)) in turn.calls.iter().enumerate() {
        if at % 2 == 1 {
            items.push(reasoning(at));
        }
        items.push(
            json!({"id": format!("fc_{number}_{at}"), "type": "function_call",
            "status": "completed", "call_id": format!("call_{number}_{at}"), "name": tool,
            "arguments": args.to_string()}),
        );
    }
    items
}

/// A turn as the API streams it.
fn render(turn: &Turn, number: usize) -> Reply {
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({"id": format!("resp_{number}"), "object": "response", "status": status, "error": null,
            "incomplete_details": null, "model": "strict-1", "output": output, "usage": usage})
    };
    let mut events = vec![
        json!({"type": "response.created", "response": response("in_progress", &[], Value::Null)}),
    ];
    let items = items(turn, number);
    for (at, item) in items.iter().enumerate() {
        if item["type"] == "message" {
            events.push(
                json!({"type": "response.output_text.delta", "output_index": at,
                "content_index": 0, "item_id": item["id"], "delta": turn.text}),
            );
        }
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15});
    events.push(
        json!({"type": "response.completed", "response": response("completed", &items, usage)}),
    );
    let frames = events.iter().map(|event| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    });
    Reply::stream(&frames.collect::<String>())
}
