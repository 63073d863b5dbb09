//! What only Gemini does: signatures, ids of its own, reasons to stop, the model in the URL.

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
async fn calls_of_another_model_carry_the_vendors_stand_in_and_nothing_of_the_other() {
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
async fn a_call_that_its_own_model_did_not_sign_goes_back_unsigned_and_without_an_id_of_ours() {
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
fn a_result_is_always_an_object_that_says_whether_it_is_an_error() {
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

#[tokio::test]
async fn an_error_inside_the_stream_fails_by_its_own_code() {
    let table = [
        (
            json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x"}),
            ErrorClass::RateLimited,
        ),
        (
            json!({"status": "DEADLINE_EXCEEDED", "message": "x"}),
            ErrorClass::Timeout,
        ),
        (
            json!({"code": 500, "status": "INTERNAL", "message": "x"}),
            ErrorClass::Transient,
        ),
        (
            json!({"code": 400, "status": "INVALID_ARGUMENT",
                "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}),
            ErrorClass::ContextOverflow,
        ),
    ];
    for (error, class) in table {
        let begun = parts(json!([{"text": "a"}]), None);
        let failed = decode(&[begun, json!({"error": error})])
            .await
            .expect_err("an error");
        assert_eq!(
            (failed.class, failed.phase),
            (class, Phase::MidStream),
            "{error}"
        );
    }
    for broken in [
        json!({"odd": 1}),
        json!([]),
        parts(json!([{"functionCall": {"args": {}}}]), Some("STOP")),
    ] {
        let failed = decode(std::slice::from_ref(&broken))
            .await
            .expect_err("broken");
        assert_eq!(
            (failed.class, failed.phase),
            (ErrorClass::Protocol, Phase::MidStream),
            "{broken}"
        );
    }
}

/// A reply's body and what it must become: class, vendor's name, the least and the most seconds to wait.
type Refusal = (u16, Value, ErrorClass, &'static str, Option<(u64, u64)>);

#[tokio::test]
async fn what_the_vendor_refuses_is_told_apart() {
    let detail = |status: &str, details: Value| json!({"status": status, "message": "x", "details": details});
    let delay = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"});
    let reply_limits = |id: &str| json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]});
    let minute = json!([
        reply_limits("GenerateRequestsPerMinutePerProjectPerModel"),
        delay
    ]);
    let day = json!([
        reply_limits("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
        delay
    ]);
    let key =
        json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    #[rustfmt::skip]
    let table: [Refusal; 7] = [
        (400, detail("INVALID_ARGUMENT", key), ErrorClass::Auth, "INVALID_ARGUMENT", None),
        (400, detail("INVALID_ARGUMENT", json!([])), ErrorClass::BadRequest, "INVALID_ARGUMENT", None),
        (400, detail("FAILED_PRECONDITION", json!([])), ErrorClass::Permission, "FAILED_PRECONDITION", None),
        (404, detail("NOT_FOUND", json!([])), ErrorClass::ModelNotFound, "NOT_FOUND", None),
        (
            429,
            detail("RESOURCE_EXHAUSTED", minute),
            ErrorClass::RateLimited,
            "RESOURCE_EXHAUSTED",
            Some((34, 35)),
        ),
        (
            429,
            detail("RESOURCE_EXHAUSTED", day),
            ErrorClass::RateLimited,
            "RESOURCE_EXHAUSTED",
            Some((3600, 86400)),
        ),
        (503, detail("UNAVAILABLE", json!([])), ErrorClass::Overloaded, "UNAVAILABLE", None),
    ];
    for (status, mut error, class, name, waits) in table {
        error["code"] = json!(status);
        // Without `alt=sse` even an error comes inside an array.
        for body in [json!({"error": error}), json!([{"error": error}])] {
            let server = Server::start(vec![Reply::new(status, &[JSON], &body.to_string())]).await;
            let provider = adapter("gemini", &server.url);
            let wire = provider.encode_request(&request("hello")).expect("sound");
            let failed = complete(&*provider, &wire, context())
                .await
                .expect_err("refused");
            assert_eq!(
                (failed.class, failed.provider_code.as_deref()),
                (class, Some(name)),
                "{body}"
            );
            let fits = |wait: Duration| {
                waits.is_some_and(|(least, most)| (least..=most).contains(&wait.as_secs()))
            };
            assert_eq!(failed.retry_after.is_some(), waits.is_some(), "{body}");
            assert!(
                failed.retry_after.is_none_or(fits),
                "{body}: {:?}",
                failed.retry_after
            );
        }
    }
}

#[tokio::test]
async fn a_model_name_that_would_lead_elsewhere_is_refused_and_nothing_is_sent() {
    let server = Server::start(vec![Reply::stream("")]).await;
    let provider = adapter("gemini", &server.url);
    let wire = provider.encode_request(&request("hello")).expect("sound");
    for model in [
        "",
        "a/b",
        "models/",
        "models/a/b",
        "x?key=1",
        "x#y",
        "x%2f",
        "..",
        "models/..",
        "a:b",
        "ä",
        "a b",
    ] {
        let named = Request {
            model: model.into(),
            ..request("hello")
        };
        let refused = provider.encode_request(&named).expect_err(model);
        assert_eq!(
            (refused.class, refused.phase),
            (ErrorClass::BadRequest, Phase::BeforeSend),
            "{model}"
        );
        let context = CallContext {
            model: model.into(),
            ..context()
        };
        let refused = complete(&*provider, &wire, context).await.expect_err(model);
        assert_eq!(
            (refused.class, refused.phase),
            (ErrorClass::BadRequest, Phase::BeforeSend),
            "{model}"
        );
    }
    assert_eq!(server.connections(), 0);
    for (model, path) in [
        ("gemini-3-pro.1_x", "models/gemini-3-pro.1_x"),
        ("models/m", "models/m"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
    ] {
        let seen = server.seen().len();
        let context = CallContext {
            model: model.into(),
            ..context()
        };
        complete(&*provider, &wire, context)
            .await
            .expect_err("an empty answer");
        let line = format!("POST /v1beta/{path}:streamGenerateContent?alt=sse HTTP/1.1");
        assert_eq!(server.seen()[seen].head.lines().next(), Some(line.as_str()));
    }
}

fn schema() -> Option<OutputSchema> {
    Some(OutputSchema {
        name: "answer".into(),
        schema: json!({"type": "object", "required": ["ok"]}),
    })
}

#[test]
fn a_schema_binds_the_answer_or_stands_in_the_prompt() {
    let asked = Request {
        output: schema(),
        model: "gemini-3-pro".into(),
        ..request("hi")
    };
    let body = wire(&asked);
    assert_eq!(
        body["generationConfig"]["responseMimeType"],
        "application/json"
    );
    assert_eq!(
        body["generationConfig"]["responseJsonSchema"],
        json!({"type": "object", "required": ["ok"]})
    );
    assert!(!body["systemInstruction"].to_string().contains("required"));
    let refused = Request {
        without: vec![Parameter::OutputSchema],
        ..asked.clone()
    };
    let older = Request {
        model: "gemini-2.5-pro".into(),
        ..asked.clone()
    };
    for spoken in [refused, older.clone()] {
        let body = wire(&spoken);
        assert_eq!(
            body["generationConfig"],
            json!({"maxOutputTokens": 1024}),
            "{}",
            spoken.model
        );
        assert!(body["systemInstruction"].to_string().contains("required"));
    }
    let toolless = Request {
        tools: vec![],
        ..older
    };
    assert_eq!(
        wire(&toolless)["generationConfig"]["responseMimeType"],
        "application/json"
    );
}

#[test]
fn what_was_refused_before_is_left_out() {
    let settings = |think| ProviderSettings {
        base_url: Some("http://127.0.0.1:9".into()),
        think: Some(think),
        ..Default::default()
    };
    let generation = |think, without: &[Parameter]| {
        let provider = build("gemini", &settings(think)).expect("sound");
        let asked = Request {
            temperature: Some(0.5),
            without: without.to_vec(),
            ..request("hi")
        };
        wire_of(&*provider, &asked)["generationConfig"].clone()
    };
    let all = json!({"maxOutputTokens": 1024, "temperature": 0.5,
        "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "low"}});
    assert_eq!(generation(Think::Low, &[]), all);
    assert_eq!(
        generation(Think::On, &[])["thinkingConfig"],
        json!({"includeThoughts": true})
    );
    assert_eq!(
        generation(Think::Off, &[])["thinkingConfig"],
        json!({"thinkingBudget": 0})
    );
    let without = [Parameter::Temperature, Parameter::Reasoning];
    assert_eq!(
        generation(Think::Low, &without),
        json!({"maxOutputTokens": 1024})
    );
}

#[tokio::test]
async fn what_it_refuses_of_a_request_is_named_so_that_it_can_be_left_out() {
    let table = [
        (
            "Function calling with a response mime type: 'application/json' is unsupported",
            Parameter::OutputSchema,
        ),
        (
            "Unknown name \"responseJsonSchema\" at 'generation_config'",
            Parameter::OutputSchema,
        ),
        (
            "Budget 0 is invalid. This model only works in thinking mode.",
            Parameter::Reasoning,
        ),
        (
            "Thinking level is not supported for this model.",
            Parameter::Reasoning,
        ),
    ];
    for (message, parameter) in table {
        let body =
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}});
        let server = Server::start(vec![Reply::new(400, &[JSON], &body.to_string())]).await;
        let provider = adapter("gemini", &server.url);
        let wire = provider.encode_request(&request("hello")).expect("sound");
        let failed = complete(&*provider, &wire, context())
            .await
            .expect_err("refused");
        assert_eq!(
            (failed.class, failed.refused),
            (ErrorClass::BadRequest, Some(parameter)),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_check_lists_the_models_with_the_key_in_its_header() {
    let list =
        r#"{"models":[{"name":"models/gemini-3-pro"},{"name":"tunedModels/mine"},{"odd":1}]}"#;
    let server = Server::start(vec![Reply::new(200, &[JSON], list)]).await;
    let health = adapter("gemini", &server.url)
        .check(context())
        .await
        .expect("it answers");
    let models = vec!["gemini-3-pro".to_owned(), "tunedModels/mine".to_owned()];
    let endpoint = Some(format!("{}/v1beta", server.url));
    assert_eq!(
        health,
        ProviderCheck {
            endpoint,
            models,
            ..ProviderCheck::default()
        }
    );
    let seen = server.seen().remove(0);
    assert_eq!(
        seen.head.lines().next(),
        Some("GET /v1beta/models?pageSize=1000 HTTP/1.1")
    );
    assert_eq!(
        (
            seen.header("x-goog-api-key"),
            seen.head.matches(KEY).count()
        ),
        (Some(KEY), 1)
    );
    let wrong = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": format!("bad {KEY}"),
        "details": [{"reason": "API_KEY_INVALID"}]}});
    for (reply, class) in [
        (
            Reply::new(400, &[JSON], &wrong.to_string()),
            ErrorClass::Auth,
        ),
        (Reply::new(200, &[JSON], "{}"), ErrorClass::Protocol),
        (
            Reply::new(302, &[("location", "http://127.0.0.1:9/")], ""),
            ErrorClass::Config,
        ),
    ] {
        let server = Server::start(vec![reply]).await;
        let failed = adapter("gemini", &server.url)
            .check(context())
            .await
            .expect_err("it fails");
        assert_eq!(failed.class, class);
        assert!(!failed.message.contains(KEY), "{failed}");
    }
}

#[tokio::test]
async fn events_come_as_they_are_written() {
    let mut decoder = GeminiDecoder::new(Some("r".into()), 0);
    let first = parts(
        json!([{"text": "hm", "thought": true}, {"text": "a"}, {"text": ""}]),
        None,
    );
    let events = decoder.feed("", &first.to_string()).expect("sound");
    let started = Event::Started {
        provider_request_id: Some("r".into()),
        model: String::new(),
    };
    assert_eq!(
        events,
        [
            started,
            Event::ThinkingDelta("hm".into()),
            Event::TextDelta("a".into())
        ]
    );
    let call = parts(
        json!([{"functionCall": {"name": "look", "args": {"n": 1}}}]),
        None,
    );
    let events = decoder.feed("", &call.to_string()).expect("sound");
    assert!(
        matches!(&events[..], [Event::ToolCall { name, .. }] if name == "look"),
        "{events:?}"
    );
    assert!(decoder.finish().is_err(), "no reason came");
}

#[test]
fn schemas_of_tools_go_as_they_are() {
    let mut asked = request("hi");
    asked.tools = vec![tool("look")];
    asked.tools[0].input_schema["additionalProperties"] = json!(false);
    let declared = &wire(&asked)["tools"][0]["functionDeclarations"][0];
    assert_eq!(
        (
            declared.get("parameters"),
            &declared["parametersJsonSchema"]
        ),
        (None, &asked.tools[0].input_schema)
    );
}
