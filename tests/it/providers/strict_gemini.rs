//! Gemini's API as a judge of requests. Wording and order of its complaints follow the real ones where they are known; that
//! it complains, and with which status, is what counts.
//!
//! Signatures are made of what they sign, so a signature on another part than its own is found out.

use super::server::{Reply, Seen};
use super::strict::{Refusal, Strict, Turn, is_image, is_name, is_pdf, leaks, stranger};
use serde_json::{Value, json};

const MEMBERS: &[&str] = &[
    "systemInstruction",
    "contents",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
];
const GENERATION: &[&str] = &[
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "thinkingConfig",
];
/// What the vendor's own form of a schema (`parameters`) does not know.
const NO_OPENAPI: &[&str] = &["additionalProperties", "$schema", "$ref", "const"];
const STAND_IN: &str = "skip_thought_signature_validator";
/// What every id begins with that this server gives.
const ID_START: &str = "fc-";

pub async fn server(turns: Vec<Turn>) -> Strict {
    Strict::start(check, render, turns).await
}

fn refuse(code: u16, status: &str, why: impl Into<String>) -> Refusal {
    let why = why.into();
    Refusal {
        status: code,
        body: json!({"error": {"code": code, "message": why, "status": status}}),
        why,
    }
}

/// Complains unless the condition holds.
fn must(condition: bool, why: impl Into<String>) -> Result<(), Refusal> {
    if condition {
        Ok(())
    } else {
        Err(refuse(400, "INVALID_ARGUMENT", why))
    }
}

fn known(object: &Value, members: &[&str], place: &str) -> Result<(), Refusal> {
    let name = stranger(object, members).unwrap_or_default();
    must(
        name.is_empty(),
        format!(
            "Invalid JSON payload received. Unknown name \"{name}\" at '{place}': Cannot find field."
        ),
    )
}

/// The judgement of `POST …:streamGenerateContent`.
pub fn check(seen: &Seen) -> Result<Value, Refusal> {
    let line = seen.head.lines().next().unwrap_or_default();
    let key = seen.header("x-goog-api-key").unwrap_or_default();
    must(
        !line.contains("key=") && !leaks(seen, key),
        "the key stands outside its header",
    )?;
    let model = line
        .strip_prefix("POST /v1beta/models/")
        .and_then(|rest| rest.strip_suffix(":streamGenerateContent?alt=sse HTTP/1.1"));
    let model = model.filter(|model| is_name(&model.replace('.', "-"), 100));
    let model = model.ok_or_else(|| refuse(404, "NOT_FOUND", format!("no such place: {line}")))?;
    if key.is_empty() {
        let why =
            "Method doesn't allow unregistered callers (callers without established identity).";
        return Err(refuse(403, "PERMISSION_DENIED", why));
    }
    must(
        seen.header("content-type") == Some("application/json"),
        "the body is not said to be JSON",
    )?;
    let body: Value = serde_json::from_str(&seen.body)
        .map_err(|_| refuse(400, "INVALID_ARGUMENT", "Invalid JSON payload received."))?;
    known(&body, MEMBERS, "")?;
    let is_older = model.starts_with("gemini-2.");
    generation(&body, is_older)?;
    tools(&body)?;
    contents(&body, !is_older)?;
    Ok(body)
}

fn generation(body: &Value, is_older: bool) -> Result<(), Refusal> {
    let generation = &body["generationConfig"];
    known(generation, GENERATION, "generation_config")?;
    let limit = generation.get("maxOutputTokens");
    must(
        limit.is_none_or(|limit| limit.as_u64().is_some_and(|tokens| tokens > 0)),
        "max_output_tokens must be positive",
    )?;
    let degrees = generation.get("temperature");
    must(
        degrees.is_none_or(|t| t.as_f64().is_some_and(|t| (0.0..=2.0).contains(&t))),
        "temperature must be in the range [0.0, 2.0]",
    )?;
    let binds = generation
        .get("responseJsonSchema")
        .or(generation.get("responseSchema"))
        .is_some();
    let mime = generation["responseMimeType"].as_str().unwrap_or_default();
    must(
        !binds || mime == "application/json",
        "response schema needs the mime type `application/json`",
    )?;
    must(
        !(is_older && mime == "application/json" && body.get("tools").is_some()),
        "Function calling with a response mime type: 'application/json' is unsupported",
    )?;
    let thinking = &generation["thinkingConfig"];
    known(
        thinking,
        &["includeThoughts", "thinkingBudget", "thinkingLevel"],
        "thinking_config",
    )?;
    must(
        thinking.get("thinkingBudget").is_none() || thinking.get("thinkingLevel").is_none(),
        "You can only set only one of thinking budget and thinking level.",
    )
}

fn is_function_name(name: &str) -> bool {
    is_name(name, 64) && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

fn tools(body: &Value) -> Result<(), Refusal> {
    let mut names: Vec<String> = Vec::new();
    for tool in body["tools"].as_array().into_iter().flatten() {
        known(tool, &["functionDeclarations"], "tools")?;
        for declaration in tool["functionDeclarations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            known(
                declaration,
                &["name", "description", "parameters", "parametersJsonSchema"],
                "function_declarations",
            )?;
            let name = declaration["name"].as_str().unwrap_or_default().to_owned();
            must(
                is_function_name(&name),
                "Invalid function name. Must start with a letter or an underscore.",
            )?;
            must(
                !names.contains(&name),
                format!("Duplicate function declaration found: {name}"),
            )?;
            names.push(name);
            let (own, json) = (
                declaration.get("parameters"),
                declaration.get("parametersJsonSchema"),
            );
            must(
                own.is_none() || json.is_none(),
                "parameters and parameters_json_schema are exclusive",
            )?;
            must(
                json.is_none_or(Value::is_object),
                "parameters_json_schema must be an object",
            )?;
            let text = own.map(Value::to_string).unwrap_or_default();
            let odd = NO_OPENAPI
                .iter()
                .find(|name| text.contains(&format!("\"{name}\":")));
            must(
                odd.is_none(),
                format!(
                    "Unknown name \"{}\" at 'parameters': Cannot find field.",
                    odd.unwrap_or(&"")
                ),
            )?;
        }
    }
    must(
        body.get("tools").is_none() || !names.is_empty(),
        "tools.function_declarations should not be empty",
    )?;
    let mode = &body["toolConfig"]["functionCallingConfig"]["mode"];
    let fits = mode.is_null() || ["AUTO", "ANY", "NONE"].iter().any(|known| mode == known);
    must(
        fits,
        "Invalid value at 'tool_config.function_calling_config.mode'",
    )?;
    must(
        mode.is_null() || !names.is_empty(),
        "Function calling config is set without function_declarations.",
    )
}

fn contents(body: &Value, signs: bool) -> Result<(), Refusal> {
    let contents = body["contents"].as_array().filter(|list| !list.is_empty());
    let contents = contents.ok_or_else(|| {
        refuse(
            400,
            "INVALID_ARGUMENT",
            "GenerateContentRequest.contents: contents is not specified",
        )
    })?;
    let system = body.get("systemInstruction");
    must(
        system.is_none_or(|s| s["parts"].as_array().is_some_and(|p| !p.is_empty())),
        "empty system instruction",
    )?;
    let mut awaited: Vec<Value> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let role = content["role"].as_str().unwrap_or_default();
        must(
            ["user", "model"].contains(&role),
            "Please use a valid role: user, model.",
        )?;
        let expected = if at % 2 == 0 { "user" } else { "model" };
        must(
            role == expected,
            "Please ensure that multiturn requests alternate between user and model.",
        )?;
        let parts = content["parts"]
            .as_array()
            .filter(|parts| !parts.is_empty());
        let why = format!(
            "GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
        );
        let parts = parts.ok_or_else(|| refuse(400, "INVALID_ARGUMENT", why))?;
        match role {
            "user" => user(parts, &awaited)?,
            _ => awaited = model(at, parts, signs)?,
        }
    }
    must(
        contents.len() % 2 == 1 || awaited.is_empty(),
        "Please ensure that function call turns are answered.",
    )
}

fn user(parts: &[Value], awaited: &[Value]) -> Result<(), Refusal> {
    let mut answers = Vec::new();
    for part in parts {
        known(part, &["text", "functionResponse", "inlineData"], "parts")?;
        must(
            part.as_object().is_some_and(|members| members.len() == 1),
            "oneof field 'data' is already set",
        )?;
        if let Some(data) = part.get("inlineData") {
            known(data, &["mimeType", "data"], "inline_data")?;
            must(
                is_image(&data["data"], &data["mimeType"])
                    || data["mimeType"] == "application/pdf"
                        && is_pdf(data["data"].as_str().unwrap_or_default()),
                "Unable to process input image. Please retry or report.",
            )?;
            continue;
        }
        if let Some(answer) = part.get("functionResponse") {
            known(answer, &["id", "name", "response"], "function_response")?;
            must(
                answer["response"].is_object(),
                "Invalid value at 'function_response.response' (Struct)",
            )?;
            answers.push(answer);
            continue;
        }
        must(
            part["text"]
                .as_str()
                .is_some_and(|text| !text.trim().is_empty()),
            "required oneof field 'data' must have one initialized field",
        )?;
    }
    must(
        answers.len() == awaited.len(),
        "Please ensure that the number of function response parts is equal to the number of function call parts of \
         the function call turn.",
    )?;
    for (answer, call) in answers.iter().zip(awaited) {
        must(
            answer["name"] == call["name"],
            "Function response name does not match the function call",
        )?;
        must(
            answer.get("id") == call.get("id"),
            "Function response id does not match the function call",
        )?;
    }
    Ok(())
}

/// The calls that await their answers.
fn model(at: usize, parts: &[Value], signs: bool) -> Result<Vec<Value>, Refusal> {
    let mut calls: Vec<Value> = Vec::new();
    for (position, part) in parts.iter().enumerate() {
        known(
            part,
            &["text", "thought", "functionCall", "thoughtSignature"],
            "parts",
        )?;
        let signature = part.get("thoughtSignature").and_then(Value::as_str);
        must(
            signature.is_none_or(|given| given == STAND_IN || given == signature_of(part)),
            "Corrupted thought signature.",
        )?;
        let Some(call) = part.get("functionCall") else {
            let text = part["text"].as_str();
            must(
                text.is_some_and(|text| !text.trim().is_empty() || signature.is_some()),
                "required oneof field 'data' must have one initialized field",
            )?;
            continue;
        };
        known(call, &["id", "name", "args"], "function_call")?;
        let name = call["name"].as_str().unwrap_or_default();
        must(
            is_function_name(name),
            "Invalid function name. Must start with a letter or an underscore.",
        )?;
        must(
            call["args"].is_object(),
            "Invalid value at 'function_call.args' (Struct)",
        )?;
        let id = call.get("id").map(|id| id.as_str().unwrap_or_default());
        must(
            id.is_none_or(|id| id.starts_with(ID_START)),
            "an id that this server never gave",
        )?;
        must(
            !signs || !calls.is_empty() || signature.is_some(),
            format!(
                "Function call is missing a thought_signature in functionCall parts. Additional data, function call \
                 `default_api:{name}`, position {}.",
                at + position
            ),
        )?;
        calls.push(call.clone());
    }
    Ok(calls)
}

/// What this server signs a part with.
fn signature_of(part: &Value) -> String {
    let signed = part.get("functionCall").unwrap_or(&part["text"]);
    let sum = signed.to_string().bytes().fold(7_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!("c2ln{sum:x}")
}

/// A turn as the vendor streams it: thought, text, calls of which the first is signed, the reason on a part of its own.
fn render(turn: &Turn, number: usize) -> Reply {
    let mut parts = vec![json!({"text": "Let me think.", "thought": true})];
    if !turn.text.is_empty() {
        let text = json!({"text": turn.text});
        let signature = signature_of(&text);
        parts.push(text);
        // The signature of a streamed text comes when the text is complete.
        parts.push(json!({"text": "", "thoughtSignature": signature}));
    }
    for (position, (name, args)) in turn.calls.iter().enumerate() {
        let id = format!("{ID_START}{number}-{position}");
        let mut part = json!({"functionCall": {"id": id, "name": name, "args": args}});
        if position == 0 {
            part["thoughtSignature"] = json!(signature_of(&part));
        }
        parts.push(part);
    }
    let usage = json!({"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 1});
    let chunk = |parts: Value, reason: Option<&str>| {
        let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0});
        let whole =
            json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "model-x-1"});
        format!("data: {whole}\r\n\r\n")
    };
    let mut body: String = parts
        .into_iter()
        .map(|part| chunk(json!([part]), None))
        .collect();
    body.push_str(&chunk(json!([{"text": ""}]), Some("STOP")));
    Reply::stream(&body)
}
