//! What only Ollama does: lines, a memory that is set with each request, counts that are missing.

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
fn a_model_that_must_not_call_is_offered_no_tool_and_only_then_is_bound_to_a_schema() {
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

#[tokio::test]
async fn what_the_server_refuses_is_told_apart() {
    let table = [
        (
            404,
            r#"model "model-x" not found, try pulling it first"#,
            ErrorClass::ModelNotFound,
            None,
        ),
        (
            400,
            r#""model-x" does not support thinking"#,
            ErrorClass::BadRequest,
            Some(Parameter::Reasoning),
        ),
        (
            400,
            r#""model-x" does not support tools"#,
            ErrorClass::BadRequest,
            None,
        ),
        (
            503,
            "server busy, please try again.  maximum pending requests exceeded",
            ErrorClass::Overloaded,
            None,
        ),
        (
            500,
            "llama runner process has terminated: signal: killed",
            ErrorClass::Transient,
            None,
        ),
        (401, "unauthorized", ErrorClass::Auth, None),
    ];
    for (status, message, class, refused) in table {
        let body = json!({"error": message}).to_string();
        let server = Server::start(vec![Reply::new(status, &[JSON], &body)]).await;
        let provider = adapter("ollama", &server.url);
        let wire = provider.encode_request(&request("hello")).expect("sound");
        let failed = complete(&*provider, &wire, context())
            .await
            .expect_err("refused");
        assert_eq!(
            (failed.class, failed.refused),
            (class, refused),
            "{message}"
        );
        let hint = failed.message.contains("`ollama pull model-x`");
        assert_eq!(hint, class == ErrorClass::ModelNotFound, "{failed}");
    }
}

#[tokio::test]
async fn an_error_on_a_line_of_its_own_ends_the_answer() {
    let table = [
        ("server busy, please try again", ErrorClass::Overloaded),
        (
            "the input length exceeds the context length of 4096",
            ErrorClass::ContextOverflow,
        ),
        (
            "prompt too long; exceeded max context length by 12 tokens",
            ErrorClass::ContextOverflow,
        ),
        (
            "an error was encountered while running the model",
            ErrorClass::Transient,
        ),
    ];
    for (message, class) in table {
        let failed = decode(&[said(json!({"content": "a"})), json!({"error": message})]).await;
        let failed = failed.expect_err("an error");
        assert_eq!(
            (failed.class, failed.phase),
            (class, Phase::MidStream),
            "{message}"
        );
    }
}

#[tokio::test]
async fn an_overflow_that_the_server_finds_says_the_size_of_the_memory() {
    // What the runner says comes as a text within the text.
    let runner = json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000,
        "n_ctx": 8192, "message": "request (9000 tokens) exceeds the available context size (8192 tokens)"}});
    let body = json!({"error": runner.to_string()}).to_string();
    let server = Server::start(vec![Reply::new(400, &[JSON], &body)]).await;
    let provider = adapter("ollama", &server.url);
    let wire = provider.encode_request(&request("hello")).expect("sound");
    let failed = complete(&*provider, &wire, context())
        .await
        .expect_err("too long");
    assert_eq!(
        (failed.class, failed.window_tokens),
        (ErrorClass::ContextOverflow, Some(8192))
    );
    assert_eq!(
        failed.provider_code.as_deref(),
        Some("exceed_context_size_error")
    );
}

#[tokio::test]
async fn an_answer_to_a_question_that_was_cut_is_no_answer() {
    let counted = |input: u64, answer: u64| json!({"done": true, "done_reason": "stop", "prompt_eval_count": input, "eval_count": answer});
    for (input, answer) in [(4096, 0), (4096, 9), (4000, 97), (9000, 1)] {
        let failed = decode(&[said(json!({"content": "a"})), counted(input, answer)])
            .await
            .expect_err("cut");
        let told = (failed.class, failed.phase, failed.window_tokens);
        assert_eq!(
            told,
            (ErrorClass::ContextOverflow, Phase::MidStream, Some(4096)),
            "{input} {answer}"
        );
    }
    assert!(decode(&[counted(4000, 96)]).await.is_ok(), "it just fits");
}

#[tokio::test]
async fn a_check_tells_the_version_and_the_models() {
    let version = Reply::new(200, &[JSON], r#"{"version":"0.13.1"}"#);
    let tags = |list: &str| Reply::new(200, &[JSON], &format!(r#"{{"models":{list}}}"#));
    let server = Server::start(vec![
        version.clone(),
        tags(r#"[{"name":"qwen3:8b"},{"odd":1}]"#),
    ])
    .await;
    let health = adapter("ollama", &server.url)
        .check(context())
        .await
        .expect("it answers");
    let (endpoint, version_told) = (Some(server.url.clone()), Some("0.13.1".to_owned()));
    let expected = ProviderCheck {
        endpoint,
        version: version_told,
        models: vec!["qwen3:8b".into()],
        note: None,
    };
    assert_eq!(health, expected);
    let lines: Vec<String> = server
        .seen()
        .iter()
        .map(|seen| seen.head.lines().next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        lines,
        ["GET /api/version HTTP/1.1", "GET /api/tags HTTP/1.1"]
    );
    let server = Server::start(vec![version, tags("[]")]).await;
    let health = adapter("ollama", &server.url)
        .check(context())
        .await
        .expect("it answers");
    assert!(health.note.is_some_and(|note| note.contains("ollama pull")));
    for (reply, class) in [
        (
            Reply::new(302, &[("location", "http://127.0.0.1:9/")], ""),
            ErrorClass::Config,
        ),
        (
            Reply::new(401, &[JSON], &format!(r#"{{"error":"no {KEY}"}}"#)),
            ErrorClass::Auth,
        ),
        (Reply::new(200, &[JSON], "no JSON"), ErrorClass::Protocol),
    ] {
        let server = Server::start(vec![reply]).await;
        let failed = adapter("ollama", &server.url)
            .check(context())
            .await
            .expect_err("it fails");
        assert_eq!(failed.class, class);
        assert!(!failed.message.contains(KEY), "{failed}");
    }
}

#[test]
fn no_key_is_needed_anywhere_but_https_is() {
    let at = |base_url: &str, key: Option<&str>| {
        let api_key = key.map(SecretString::from);
        let settings = ProviderSettings {
            base_url: Some(base_url.into()),
            api_key,
            ..Default::default()
        };
        build("ollama", &settings)
            .map(|_| ())
            .map_err(|e| (e.class, e.phase))
    };
    assert_eq!(
        build("ollama", &ProviderSettings::default())
            .map(|_| ())
            .map_err(|e| e.message),
        Ok(())
    );
    assert_eq!(at("https://models.example", None), Ok(()));
    assert_eq!(at("https://models.example", Some(KEY)), Ok(()));
    assert_eq!(
        at("http://models.example", None),
        Err((ErrorClass::Config, Phase::Config))
    );
}
