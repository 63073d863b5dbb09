//! What only Ollama does: lines, a memory that is set with each request, counts that are missing.

mod errors;

use super::conformance::decode_framed;
use super::server::{Reply, Server};
use super::{KEY, adapter, context, fixture, request};
use attache::config::{ProviderSettings, Think};
use attache::domain::ErrorClass;
use attache::providers::api::ollama::decoder::OllamaDecoder;
use attache::providers::transport::decode::{Decoder, Framing};
use attache::providers::{
    Block, FinishReason, Message, OutputSchema, Parameter, Phase, Provider, ProviderCheck,
    ProviderError, Request, Response, Role, Structured, TokenUsage, ToolChoice, build, complete,
};
use secrecy::SecretString;
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn decode_bytes(pieces: Vec<&[u8]>) -> Result<Response, ProviderError> {
    decode_framed(
        Framing::Lines,
        Box::new(OllamaDecoder::new(None, 77, 4096)),
        pieces,
    )
    .await
}

async fn decode(lines: &[Value]) -> Result<Response, ProviderError> {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    decode_bytes(vec![body.as_bytes()]).await
}

fn said(message: Value) -> Value {
    json!({"model": "m", "message": message, "done": false})
}

fn end(reason: &str) -> Value {
    json!({"model": "m", "done": true, "done_reason": reason, "prompt_eval_count": 5, "eval_count": 2})
}

fn provider(settings: ProviderSettings) -> Box<dyn Provider> {
    let base_url = Some("http://127.0.0.1:9".to_owned());
    build(
        "ollama",
        &ProviderSettings {
            base_url,
            name: "ollama".into(),
            ..settings
        },
    )
    .expect("sound")
}

fn wire(settings: ProviderSettings, request: &Request) -> Value {
    let wire = provider(settings).encode_request(request).expect("sound");
    serde_json::from_str(&wire).expect("JSON")
}

#[test]
fn the_memory_of_the_model_is_always_said() {
    let asked = Request {
        temperature: Some(0.5),
        ..request("hi")
    };
    let body = wire(ProviderSettings::default(), &asked);
    assert_eq!(
        body["options"],
        json!({"num_ctx": 16384, "num_predict": 1024, "temperature": 0.5})
    );
    assert_eq!(
        (
            body.get("think"),
            body.get("keep_alive"),
            body.get("format")
        ),
        (None, None, None)
    );
    assert_eq!(
        (&body["truncate"], &body["shift"], &body["stream"]),
        (&json!(false), &json!(false), &json!(true))
    );
    let settings = ProviderSettings {
        context_tokens: Some(4096),
        ..Default::default()
    };
    assert_eq!(wire(settings.clone(), &asked)["options"]["num_ctx"], 4096);
    let capabilities = provider(settings).capabilities("m");
    assert_eq!(
        (capabilities.window_tokens, capabilities.structured),
        (Some(4096), Structured::Native)
    );
}

#[test]
fn a_question_that_does_not_fit_is_refused_before_it_is_sent() {
    let with = |tokens| {
        provider(ProviderSettings {
            context_tokens: Some(tokens),
            ..Default::default()
        })
    };
    let long = request(&"many words ".repeat(1000));
    let refused = with(2048).encode_request(&long).expect_err("too long");
    assert_eq!(
        (refused.class, refused.phase),
        (ErrorClass::ContextOverflow, Phase::BeforeSend)
    );
    assert_eq!(refused.window_tokens, Some(2048));
    for part in [
        "1024 of answer",
        "2048",
        "`context_tokens`",
        "`ollama`",
        "`max_output_tokens`",
    ] {
        assert!(refused.message.contains(part), "{refused}");
    }
    let words: Vec<&str> = refused.message.split(' ').collect();
    let input: u32 = words[1].parse().expect("`about N tokens`");
    assert!(
        with(input + 1023).encode_request(&long).is_err(),
        "one token is missing"
    );
    assert!(with(input + 1024).encode_request(&long).is_ok());
    let other_script = request(&"語".repeat(3000));
    assert!(
        with(4000).encode_request(&other_script).is_err(),
        "a token for each of them"
    );
    assert!(with(5000).encode_request(&other_script).is_ok());
}

#[test]
fn settings_are_said_as_the_server_reads_them() {
    let body = |keep_alive: &str, think| {
        let keep_alive = Some(keep_alive.to_owned());
        wire(
            ProviderSettings {
                keep_alive,
                think: Some(think),
                ..Default::default()
            },
            &request("hi"),
        )
    };
    assert_eq!(body("30m", Think::Off)["keep_alive"], "30m");
    assert_eq!(body("-1", Think::Off)["keep_alive"], -1);
    assert_eq!(body("0", Think::Off)["think"], false);
    assert_eq!(body("0", Think::On)["think"], true);
    assert_eq!(body("0", Think::High)["think"], "high");
    let without = vec![Parameter::Reasoning, Parameter::Temperature];
    let asked = Request {
        temperature: Some(0.5),
        without,
        ..request("hi")
    };
    let body = wire(
        ProviderSettings {
            think: Some(Think::On),
            ..Default::default()
        },
        &asked,
    );
    assert_eq!(
        (body.get("think"), body["options"].get("temperature")),
        (None, None)
    );
}

#[test]
fn a_model_is_bound_to_a_schema_only_when_offered_no_tool() {
    let schema = json!({"type": "object", "required": ["ok"]});
    let output = Some(OutputSchema {
        name: "answer".into(),
        schema: schema.clone(),
    });
    let asked = Request {
        output,
        ..request("hi")
    };
    let body = wire(ProviderSettings::default(), &asked);
    assert_eq!(
        (body["tools"].as_array().map(Vec::len), body.get("format")),
        (Some(1), None)
    );
    assert!(
        body["messages"][0]["content"]
            .as_str()
            .is_some_and(|text| text.contains("\"required\""))
    );
    let last = Request {
        tool_choice: ToolChoice::None,
        ..asked
    };
    let body = wire(ProviderSettings::default(), &last);
    assert_eq!((body.get("tools"), &body["format"]), (None, &schema));
    assert!(!body["messages"].to_string().contains("required"));
    let refused = Request {
        without: vec![Parameter::OutputSchema],
        ..last
    };
    let body = wire(ProviderSettings::default(), &refused);
    assert_eq!(body.get("format"), None);
    assert!(body["messages"].to_string().contains("required"));
}

#[tokio::test]
async fn what_a_model_thought_goes_back_to_it_and_to_no_other() {
    let bytes = std::fs::read(fixture("ollama/thinking.ndjson")).expect("it exists");
    let mut response = decode_bytes(vec![&bytes]).await.expect("sound");
    assert_eq!(
        (response.stop.clone(), response.text().as_str()),
        (FinishReason::ToolUse, "Done.")
    );
    let Block::Thinking {
        text,
        provider_state: Some(state),
    } = &mut response.blocks[0]
    else {
        panic!("{:?}", response.blocks)
    };
    assert_eq!(text, "Let me think.");
    state.model = "model-x".into();
    let mut again = request("hi");
    again.messages.push(Message {
        role: Role::Assistant,
        blocks: response.blocks,
    });
    let body = wire(ProviderSettings::default(), &again);
    let expected = json!({"role": "assistant", "content": "Done.", "thinking": "Let me think.", "tool_calls": [
        {"function": {"name": "look", "arguments": {}}}, {"function": {"name": "list", "arguments": {"n": 1}}}]});
    assert_eq!(body["messages"][2], expected);
    let names: Vec<&Value> = (3..5)
        .map(|at| &body["messages"][at]["tool_name"])
        .collect();
    assert_eq!(
        names,
        ["look", "list"],
        "results are matched by name and order"
    );
    again.model = "another".into();
    assert!(
        !wire(ProviderSettings::default(), &again)
            .to_string()
            .contains("Let me think")
    );
}

#[tokio::test]
async fn every_reason_to_end_has_its_meaning() {
    let call = said(json!({"tool_calls": [{"function": {"name": "f", "arguments": {"n": 1}}}]}));
    let table = [
        ("stop", FinishReason::EndTurn, FinishReason::ToolUse),
        ("length", FinishReason::MaxTokens, FinishReason::MaxTokens),
        (
            "load",
            FinishReason::Other("load".into()),
            FinishReason::ToolUse,
        ),
    ];
    for (reason, plain, calling) in table {
        assert_eq!(
            decode(&[end(reason)]).await.expect("sound").stop,
            plain,
            "{reason}"
        );
        assert_eq!(
            decode(&[call.clone(), end(reason)])
                .await
                .expect("sound")
                .stop,
            calling,
            "{reason}"
        );
    }
    let older = json!({"model": "m", "done": true, "prompt_eval_count": 5, "eval_count": 2});
    assert_eq!(
        decode(std::slice::from_ref(&older))
            .await
            .expect("sound")
            .stop,
        FinishReason::EndTurn
    );
    assert_eq!(
        decode(&[call, older]).await.expect("sound").stop,
        FinishReason::ToolUse
    );
}

#[tokio::test]
async fn calls_get_ids_where_the_server_gives_none_or_one_twice() {
    let call = |id: &str| json!({"id": id, "function": {"name": "f", "arguments": null}});
    let calls = json!({"tool_calls": [call(""), call("a"), call("a")]});
    let response = decode(&[said(calls), end("stop")]).await.expect("sound");
    assert_eq!(
        response.calls().map(|(id, ..)| id).collect::<Vec<_>>(),
        ["call_0", "a", "call_2"]
    );
    let nameless = said(json!({"tool_calls": [{"function": {"arguments": {}}}]}));
    let broken = decode(&[nameless, end("stop")])
        .await
        .expect_err("nameless");
    assert_eq!(broken.class, ErrorClass::Protocol);
}

#[tokio::test]
async fn counts_that_are_missing_are_estimates_and_never_zero() {
    let text = said(json!({"content": "seven letters"}));
    let usage = |end: Value| async { decode(&[text.clone(), end]).await.expect("sound").usage };
    let counted = json!({"done": true, "prompt_eval_count": 9, "eval_count": 8});
    let exact = TokenUsage {
        input_tokens: 9,
        output_tokens: 8,
        ..Default::default()
    };
    assert_eq!(usage(counted).await, exact);
    let estimated = TokenUsage {
        input_tokens: 77,
        output_tokens: 8,
        estimated: true,
        ..exact
    };
    assert_eq!(
        usage(json!({"done": true, "eval_count": 8})).await,
        estimated
    );
    assert_eq!(
        usage(json!({"done": true, "prompt_eval_count": 0, "eval_count": 8})).await,
        estimated
    );
    let nothing = TokenUsage {
        input_tokens: 77,
        output_tokens: 4,
        estimated: true,
        ..exact
    };
    assert_eq!(usage(json!({"done": true})).await, nothing);
}

#[tokio::test]
async fn lines_end_with_a_line_feed_and_with_nothing_else() {
    let text = "a\u{2028}b\u{85}c\u{b}d";
    let lines = format!(
        "\n \r\n{}\r\n\n{}",
        said(json!({"content": text})),
        end("stop")
    );
    assert!(lines.contains('\u{2028}'), "it stands in the line as it is");
    let response = decode_bytes(vec![lines.as_bytes()])
        .await
        .expect("the last line needs no end");
    assert_eq!(response.text(), text);
}

#[tokio::test]
async fn what_is_no_line_of_an_answer_is_a_protocol_error() {
    let begun = said(json!({"content": "a"})).to_string();
    let long = "x".repeat(16 * 1024 * 1024 + 1);
    for line in ["<html>\n", "{}\n", "[]\n", "\"a\"\n", "\u{1}\n", &long] {
        let failed = decode_bytes(vec![begun.as_bytes(), b"\n", line.as_bytes()])
            .await
            .expect_err("nonsense");
        assert_eq!(
            (failed.class, failed.phase),
            (ErrorClass::Protocol, Phase::MidStream),
            "{line:.20}"
        );
    }
    let failed = decode_bytes(vec![b"\"\xff\"\n"])
        .await
        .expect_err("not UTF-8");
    assert_eq!(failed.class, ErrorClass::Protocol);
    let failed = decode_bytes(vec![begun.as_bytes(), b"\n", b"{\"done\":tr"])
        .await
        .expect_err("cut");
    assert_eq!(
        failed.class,
        ErrorClass::Transient,
        "the connection closed inside a line"
    );
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_reads_the_same() {
    let whole = json!({"model": "m", "message": {"content": "hi"}, "done": true, "done_reason": "stop", "eval_count": 1});
    let streamed = format!("{}\n{}\n", said(json!({"content": "hi"})), end("stop"));
    for body in [whole.to_string(), streamed] {
        let server = Server::start(vec![Reply::new(200, &[JSON], &body)]).await;
        let provider = adapter("ollama", &server.url);
        let wire = provider.encode_request(&request("hello")).expect("sound");
        let response = complete(&*provider, &wire, context())
            .await
            .expect("it answers");
        assert_eq!(
            (response.text().as_str(), response.stop),
            ("hi", FinishReason::EndTurn)
        );
    }
    let class = |body: &str| {
        OllamaDecoder::new(None, 0, 4096)
            .whole(body)
            .map_err(|e| e.class)
    };
    assert_eq!(
        class(r#"{"error":"server busy, please try again"}"#),
        Err(ErrorClass::Overloaded)
    );
    assert_eq!(
        class(r#"{"message":{"content":"hi"},"done":false}"#),
        Err(ErrorClass::Transient)
    );
    for nonsense in [
        "",
        "{}",
        "[]",
        "<html>",
        "{\"done\":true} x",
        "{\"done\":true}{\"done\":true}",
    ] {
        assert_eq!(class(nonsense), Err(ErrorClass::Protocol), "{nonsense}");
    }
}
