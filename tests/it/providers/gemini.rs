//! What only Gemini does: signatures, ids of its own, reasons to stop, the model in the URL.

mod requests;
mod errors;

use super::conformance::decode_pieces;
use super::server::{Reply, Server};
use super::{KEY, adapter, context, fixture, request, tool};
use attache::config::{ProviderSettings, Think};
use attache::domain::ErrorClass;
use attache::providers::api::gemini::decoder::GeminiDecoder;
use attache::providers::transport::decode::Decoder;
use attache::providers::{
    Block, CallContext, Event, FinishReason, Message, OutputSchema, Parameter, Phase, Provider,
    ProviderCheck, ProviderError, Request, Response, Role, TokenUsage, ToolArgs, build, complete,
};
use serde_json::{Value, json};
use std::time::Duration;

const JSON: (&str, &str) = ("content-type", "application/json");

async fn decode(responses: &[Value]) -> Result<Response, ProviderError> {
    let body: String = responses
        .iter()
        .map(|response| format!("data: {response}\n\n"))
        .collect();
    decode_pieces(
        Box::new(GeminiDecoder::new(None, 77)),
        vec![body.as_bytes()],
    )
    .await
}

async fn fixed(case: &str) -> Response {
    let body = std::fs::read_to_string(fixture(&format!("gemini/{case}.sse"))).expect("it exists");
    decode_pieces(
        Box::new(GeminiDecoder::new(None, 77)),
        vec![body.as_bytes()],
    )
    .await
    .expect("sound")
}

fn parts(parts: Value, reason: Option<&str>) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}]})
}

fn wire_of(provider: &dyn Provider, request: &Request) -> Value {
    serde_json::from_str(&provider.encode_request(request).expect("sound")).expect("JSON")
}

fn wire(request: &Request) -> Value {
    wire_of(&*adapter("gemini", "http://127.0.0.1:9"), request)
}

/// The answer as the engine keeps it: made by that model, its calls answered.
fn after(mut response: Response, maker: &str) -> Request {
    let mut results = Vec::new();
    for (position, block) in response.blocks.iter_mut().enumerate() {
        if let Block::ToolCall { id, name, .. } = block {
            *id = format!("c0_{position}");
            let (call_id, name) = (id.clone(), name.clone());
            results.push(Block::ToolResult {
                call_id,
                name,
                content: r#"{"ok":true}"#.into(),
                is_error: false,
            });
        }
        if let Block::ToolCall {
            provider_state: Some(state),
            ..
        }
        | Block::Thinking {
            provider_state: Some(state),
            ..
        } = block
        {
            state.model = maker.to_owned();
        }
    }
    let mut again = request("hi");
    again.messages.push(Message {
        role: Role::Assistant,
        blocks: response.blocks,
    });
    again.messages.push(Message {
        role: Role::User,
        blocks: results,
    });
    again
}

#[tokio::test]
async fn every_signature_goes_back_on_the_part_that_it_came_with() {
    let response = fixed("thinking").await;
    assert_eq!(
        (response.stop.clone(), response.text().as_str()),
        (FinishReason::ToolUse, "Done.")
    );
    assert_eq!(
        response.blocks[0],
        Block::Thinking {
            text: "Let me think.".into(),
            provider_state: None
        }
    );
    let body = wire(&after(response, "model-x"));
    // The thought itself had no signature, and the empty part after the last call has nothing to go with.
    let expected = json!([
        {"text": "Done.", "thoughtSignature": "dGV4dA=="},
        {"functionCall": {"id": "fc1", "name": "look", "args": {}}, "thoughtSignature": "Y2FsbA=="},
        {"functionCall": {"id": "fc2", "name": "list", "args": {"n": 1}}},
    ]);
    assert_eq!(
        body["contents"][1],
        json!({"role": "model", "parts": expected})
    );
    let results = json!([
        {"functionResponse": {"id": "fc1", "name": "look", "response": {"output": {"ok": true}}}},
        {"functionResponse": {"id": "fc2", "name": "list", "response": {"output": {"ok": true}}}},
    ]);
    assert_eq!(
        body["contents"][2],
        json!({"role": "user", "parts": results})
    );
}

#[tokio::test]
async fn signatures_of_thoughts_and_of_empty_parts_go_back_too() {
    let responses = [
        parts(
            json!([{"text": "hm", "thought": true, "thoughtSignature": "A"}]),
            None,
        ),
        parts(
            json!([{"text": "", "thoughtSignature": "B"}, {"text": "x"}]),
            None,
        ),
        parts(
            json!([{"text": "y", "thoughtSignature": "C"}, {"text": "z"}]),
            Some("STOP"),
        ),
    ];
    let response = decode(&responses).await.expect("sound");
    assert_eq!(response.text(), "xyz");
    let expected = json!([
        {"text": "hm", "thought": true, "thoughtSignature": "A"},
        {"text": "", "thoughtSignature": "B"},
        {"text": "xy", "thoughtSignature": "C"},
        {"text": "z"},
    ]);
    assert_eq!(
        wire(&after(response, "model-x"))["contents"][1]["parts"],
        expected
    );
}

#[tokio::test]
async fn calls_of_another_model_carry_only_the_vendors_stand_in() {
    let signature_of_first = |body: &Value| {
        let parts = body["contents"][1]["parts"]
            .as_array()
            .expect("parts")
            .clone();
        let calls: Vec<Value> = parts
            .into_iter()
            .filter(|part| part.get("functionCall").is_some())
            .collect();
        assert_eq!(
            calls[1].get("thoughtSignature"),
            None,
            "only the first of a message needs one"
        );
        assert_eq!(calls[0]["functionCall"].get("id"), None);
        calls[0].get("thoughtSignature").cloned()
    };
    let stand_in = Some(json!("skip_thought_signature_validator"));
    let mut foreign = after(fixed("thinking").await, "another-model");
    assert_eq!(signature_of_first(&wire(&foreign)), stand_in);
    assert!(
        !wire(&foreign).to_string().contains("dGV4dA"),
        "the text's signature is the other model's, too"
    );
    for block in &mut foreign.messages[1].blocks {
        if let Block::ToolCall { provider_state, .. } = block {
            *provider_state = None;
        }
    }
    assert_eq!(
        signature_of_first(&wire(&foreign)),
        stand_in,
        "a call of another vendor's"
    );
    foreign.model = "gemini-2.5-flash".into();
    assert_eq!(
        signature_of_first(&wire(&foreign)),
        None,
        "the older models ask for none"
    );
}

#[tokio::test]
async fn a_call_that_its_own_model_did_not_sign_goes_back_unsigned() {
    let called = parts(
        json!([{"functionCall": {"name": "look", "args": {"n": 1}}}]),
        Some("STOP"),
    );
    let response = decode(&[called]).await.expect("sound");
    let body = wire(&after(response, "model-x"));
    let call = json!([{"functionCall": {"name": "look", "args": {"n": 1}}}]);
    let result =
        json!([{"functionResponse": {"name": "look", "response": {"output": {"ok": true}}}}]);
    assert_eq!(
        (&body["contents"][1]["parts"], &body["contents"][2]["parts"]),
        (&call, &result)
    );
}

#[test]
fn a_result_is_an_object_that_says_whether_it_is_an_error() {
    let call = |id: &str| Block::ToolCall {
        id: id.into(),
        name: "look".into(),
        args: ToolArgs::Object(serde_json::Map::new()),
        provider_state: None,
    };
    let result = |id: &str, content: &str, is_error| Block::ToolResult {
        call_id: id.into(),
        name: "look".into(),
        content: content.into(),
        is_error,
    };
    let mut asked = request("hi");
    asked.messages.push(Message {
        role: Role::Assistant,
        blocks: vec![call("a"), call("b"), call("c")],
    });
    let results = vec![
        Block::text("and?"),
        result("a", "[1]", false),
        result("c", "not JSON", true),
    ];
    asked.messages.push(Message {
        role: Role::User,
        blocks: results,
    });
    let body = wire(&asked);
    let responses: Vec<&Value> = (0..3)
        .map(|at| &body["contents"][2]["parts"][at]["functionResponse"]["response"])
        .collect();
    assert_eq!(
        (responses[0], responses[2]),
        (&json!({"output": [1]}), &json!({"error": "not JSON"}))
    );
    assert_eq!(responses[1]["error"]["error"]["code"], "no_result");
    assert_eq!(
        body["contents"][2]["parts"][3],
        json!({"text": "and?"}),
        "one message has all of it"
    );
}

#[tokio::test]
async fn every_reason_to_stop_has_its_meaning() {
    let call = json!([{"functionCall": {"name": "look"}}]);
    let table = [
        ("STOP", FinishReason::EndTurn),
        ("MAX_TOKENS", FinishReason::MaxTokens),
        ("SAFETY", FinishReason::Refused),
        ("RECITATION", FinishReason::Refused),
        ("LANGUAGE", FinishReason::Refused),
        ("BLOCKLIST", FinishReason::Refused),
        ("PROHIBITED_CONTENT", FinishReason::Refused),
        ("SPII", FinishReason::Refused),
        ("MALFORMED_FUNCTION_CALL", FinishReason::MalformedCall),
        ("UNEXPECTED_TOOL_CALL", FinishReason::MalformedCall),
        ("OTHER", FinishReason::Other("OTHER".into())),
        ("TIRED", FinishReason::Other("TIRED".into())),
    ];
    for (reason, stop) in table {
        let response = decode(&[parts(json!([]), Some(reason))])
            .await
            .expect("sound");
        assert_eq!(response.stop, stop, "{reason}");
    }
    let calling = decode(&[parts(call, Some("STOP"))]).await.expect("sound");
    assert_eq!(
        calling.stop,
        FinishReason::ToolUse,
        "`STOP` comes with calls, too"
    );
    assert_eq!(
        calling.calls().map(|(id, ..)| id).collect::<Vec<_>>(),
        ["call_0"]
    );
}

#[tokio::test]
async fn a_prompt_that_is_blocked_is_a_refusal_without_an_answer() {
    let response = fixed("blocked").await;
    assert_eq!(
        (response.stop.clone(), response.blocks.len()),
        (FinishReason::Refused, 0)
    );
    assert_eq!(
        (response.usage.input_tokens, response.usage.output_tokens),
        (95, 0)
    );
}

#[tokio::test]
async fn a_server_that_ignores_the_request_for_events_sends_an_array() {
    let body = std::fs::read_to_string(fixture("gemini/array.json")).expect("it exists");
    let server = Server::start(vec![Reply::new(
        200,
        &[JSON, ("request-id", "req-7")],
        &body,
    )])
    .await;
    let provider = adapter("gemini", &server.url);
    let wire = provider.encode_request(&request("hello")).expect("sound");
    let mut streamed = fixed("text").await;
    streamed.provider_request_id = Some("req-7".into());
    assert_eq!(complete(&*provider, &wire, context()).await, Ok(streamed));
    let class = |body: &str| {
        GeminiDecoder::new(None, 0)
            .whole(body)
            .map_err(|e| (e.class, e.phase))
    };
    let busy = r#"[{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]"#;
    assert_eq!(class(busy), Err((ErrorClass::Overloaded, Phase::MidStream)));
    let cut = r#"[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}]"#;
    assert_eq!(class(cut), Err((ErrorClass::Transient, Phase::MidStream)));
    for nonsense in ["", "{}", "[]", "[{}]", "null", "<html>", "[[]]"] {
        assert_eq!(
            class(nonsense),
            Err((ErrorClass::Protocol, Phase::MidStream)),
            "{nonsense}"
        );
    }
}

#[tokio::test]
async fn tokens_that_nobody_counted_are_estimates_and_say_so() {
    let silent = decode(&[parts(json!([{"text": "seven letters"}]), Some("STOP"))])
        .await
        .expect("sound");
    let expected = TokenUsage {
        input_tokens: 77,
        output_tokens: 4,
        estimated: true,
        ..Default::default()
    };
    assert_eq!(silent.usage, expected);
    let late = fixed("late_usage").await.usage;
    let counted = TokenUsage {
        input_tokens: 99,
        output_tokens: 40,
        reasoning_tokens: 10,
        ..Default::default()
    };
    assert_eq!(
        late, counted,
        "the last counts stand: tool prompts are input, thoughts are output"
    );
}
