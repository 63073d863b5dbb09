//! What is particular to xAI, OpenRouter and servers that the configuration names.

use super::conformance::{read, wire_of};
use super::server::{Reply, Server};
use super::{KEY, adapter, context, request};
use attache::config::{ChatSwitches, ProviderSettings};
use attache::domain::ErrorClass;
use attache::providers::{
    Block, FinishReason, Message, Phase, Provider, ProviderError, Response, Role, build, complete,
};
use secrecy::SecretString;
use serde_json::{Value, json};

async fn ask(provider: &dyn Provider) -> Result<Response, ProviderError> {
    let wire = provider.encode_request(&request("hello"))?;
    complete(provider, &wire, context()).await
}

async fn answered(id: &str, chunks: &[Value]) -> Result<Response, ProviderError> {
    let body: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    wire_of(id)
        .decoded(vec![format!("{body}data: [DONE]\n\n").as_bytes()])
        .await
}

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn usage(usage: Value) -> Value {
    json!({"model": "m", "choices": [], "usage": usage})
}

#[tokio::test]
async fn xai_counts_reasoning_apart_only_where_its_total_says_so() {
    let table = [
        // Beside: 10 + 3 + 4 = 17.
        (
            json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 17}),
            7,
        ),
        // Within, as OpenAI does.
        (
            json!({"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17}),
            7,
        ),
        // Without a total nothing is added.
        (json!({"prompt_tokens": 10, "completion_tokens": 7}), 7),
    ];
    for (mut counts, output) in table {
        counts["completion_tokens_details"] = json!({"reasoning_tokens": 4});
        let chunks = [
            chunk(json!({"content": "a"}), None),
            chunk(json!({}), Some("stop")),
            usage(counts.clone()),
        ];
        for id in ["grok", "openai"] {
            let usage = answered(id, &chunks).await.expect("sound").usage;
            assert_eq!(
                (usage.output_tokens, usage.reasoning_tokens),
                (output, 4),
                "{id} {counts}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_without_usage_is_estimated_and_says_so() {
    let body = format!(
        "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
        chunk(json!({"content": "seven letters"}), None),
        chunk(json!({}), Some("stop"))
    );
    let server = Server::start(vec![Reply::stream(&body)]).await;
    let usage = ask(&*adapter("compat", &server.url))
        .await
        .expect("it answers")
        .usage;
    assert!(
        usage.estimated && usage.input_tokens > 20 && usage.output_tokens == 4,
        "{usage:?}"
    );
}

#[tokio::test]
async fn a_cost_is_only_believed_where_its_unit_is_known() {
    let counts = json!({"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.000_140_01});
    let chunks = [chunk(json!({"content": "a"}), Some("stop")), usage(counts)];
    assert_eq!(
        answered("openrouter", &chunks)
            .await
            .expect("sound")
            .usage
            .cost_micros,
        Some(141)
    );
    assert_eq!(
        answered("compat", &chunks)
            .await
            .expect("sound")
            .usage
            .cost_micros,
        None
    );
    for (cost, micros) in [
        (json!(0), Some(0)),
        (json!(0.0003), Some(300)),
        (json!(-1), None),
        (json!("1"), None),
    ] {
        let counts = json!({"prompt_tokens": 1, "completion_tokens": 1, "cost": cost});
        let chunks = [chunk(json!({"content": "a"}), Some("stop")), usage(counts)];
        let told = answered("openrouter", &chunks)
            .await
            .expect("sound")
            .usage
            .cost_micros;
        assert_eq!(told, micros, "{cost}");
    }
    let can = |id| {
        adapter(id, "http://127.0.0.1:9")
            .capabilities("m")
            .reports_cost
    };
    assert_eq!(
        (can("openrouter"), can("openai"), can("compat")),
        (true, false, false)
    );
}

#[tokio::test]
async fn openrouters_reasoning_goes_back_as_it_came_to_nobody_else() {
    let bytes = wire_of("openrouter").stream_of("thinking");
    let response = wire_of("openrouter")
        .decoded(vec![bytes.as_bytes()])
        .await
        .expect("sound");
    let details = json!([
        {"type": "reasoning.text", "text": "Let me think.", "format": "anthropic-claude-v1", "index": 0, "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "ZW5j", "format": "anthropic-claude-v1", "index": 1},
    ]);
    let Block::Thinking {
        text,
        provider_state: Some(state),
    } = &response.blocks[0]
    else {
        panic!("{:?} is not reasoning", response.blocks)
    };
    assert_eq!(
        (text.as_str(), state.family.as_str(), &state.state),
        ("Let me think.", "openrouter", &details)
    );
    let mut again = request("hi");
    again.messages.push(Message {
        role: Role::Assistant,
        blocks: response.blocks,
    });
    let body = |id: &str| -> Value {
        let wire = adapter(id, "http://127.0.0.1:9")
            .encode_request(&again)
            .expect("sound");
        serde_json::from_str(&wire).expect("JSON")
    };
    assert_eq!(
        body("openrouter")["messages"][2]["reasoning_details"],
        details
    );
    for id in ["openai", "grok", "compat", "anthropic", "gemini", "ollama"] {
        let body = body(id).to_string();
        assert!(
            !body.contains("ZW5j") && !body.contains("reasoning"),
            "{id}: {body}"
        );
    }
}

#[tokio::test]
async fn the_reason_of_the_vendor_behind_openrouter_counts() {
    let table = [
        ("stop", "end_turn", FinishReason::EndTurn),
        ("stop", "refusal", FinishReason::Refused),
        ("stop", "SAFETY", FinishReason::Refused),
        (
            "stop",
            "MALFORMED_FUNCTION_CALL",
            FinishReason::MalformedCall,
        ),
        (
            "length",
            "model_context_window_exceeded",
            FinishReason::ContextExhausted,
        ),
        ("stop", "stop_sequence", FinishReason::StopSequence),
        ("length", "max_tokens", FinishReason::MaxTokens),
    ];
    for (reason, native, stop) in table {
        let mut end = chunk(json!({}), Some(reason));
        end["choices"][0]["native_finish_reason"] = json!(native);
        let chunks = [chunk(json!({"content": "a"}), None), end];
        assert_eq!(
            answered("openrouter", &chunks).await.expect("sound").stop,
            stop,
            "{reason} {native}"
        );
    }
}

#[tokio::test]
async fn an_error_of_openrouter_inside_status_200_is_an_error() {
    let late = json!({"id": "gen-1", "model": "m", "error": {"code": 429, "message": "Provider returned error",
        "metadata": {"raw": "slow down"}}, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]});
    let within = json!({"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "error",
        "error": {"code": 402, "message": "Insufficient credits"}}]});
    let bare = chunk(json!({}), Some("error"));
    for (last, class) in [
        (late, ErrorClass::RateLimited),
        (within, ErrorClass::Billing),
        (bare, ErrorClass::Transient),
    ] {
        let error = answered("openrouter", &[chunk(json!({"content": "a"}), None), last])
            .await
            .expect_err("failed");
        assert_eq!((error.class, error.phase), (class, Phase::MidStream));
    }
    let whole = r#"{"error":{"code":403,"message":"flagged","metadata":{"reasons":["hate"],"flagged_input":"x"}}}"#;
    let json = [("content-type", "application/json")];
    let server = Server::start(vec![Reply::new(200, &json, whole)]).await;
    let error = ask(&*adapter("openrouter", &server.url))
        .await
        .expect_err("failed");
    assert_eq!(
        (error.class, error.phase),
        (ErrorClass::ContentFilter, Phase::MidStream)
    );
}

#[tokio::test]
async fn openrouter_hears_who_calls_and_from_where_if_that_is_wished() {
    let text = wire_of("openrouter").stream_of("text");
    for url in [None, Some("https://letters.example")] {
        let server = Server::start(vec![Reply::stream(&text)]).await;
        let chat = ChatSwitches {
            attribution_url: url.map(str::to_owned),
            ..Default::default()
        };
        let (base_url, api_key) = (
            Some(format!("{}/api/v1", server.url)),
            Some(SecretString::from(KEY)),
        );
        let settings = ProviderSettings {
            base_url,
            api_key,
            chat,
            ..Default::default()
        };
        ask(&*build("openrouter", &settings).expect("sound"))
            .await
            .expect("it answers");
        let seen = server.seen().remove(0);
        assert!(
            seen.head.starts_with("POST /api/v1/chat/completions "),
            "{}",
            seen.head
        );
        assert_eq!(
            (seen.header("x-title"), seen.header("http-referer")),
            (Some("Attache"), url)
        );
        assert_eq!(
            seen.header("authorization"),
            Some(format!("Bearer {KEY}").as_str())
        );
    }
}

#[tokio::test]
async fn openrouters_key_is_tried_before_its_list_open_to_everybody() {
    let json = [("content-type", "application/json")];
    let refused = Reply::new(
        401,
        &json,
        r#"{"error":{"code":401,"message":"No auth credentials found"}}"#,
    );
    let server = Server::start(vec![refused]).await;
    let error = adapter("openrouter", &server.url)
        .check(context())
        .await
        .expect_err("a wrong key");
    assert_eq!(
        (error.class, error.http_status),
        (ErrorClass::Auth, Some(401))
    );
    let list = Reply::new(200, &json, r#"{"data":[{"id":"vendor/model-x"}]}"#);
    let server = Server::start(vec![Reply::new(200, &json, "{\"data\":{}}"), list]).await;
    let health = adapter("openrouter", &server.url)
        .check(context())
        .await
        .expect("a good key");
    assert_eq!(health.models, ["vendor/model-x"]);
}

#[tokio::test]
async fn a_wrong_key_and_a_deferred_answer_of_xai_are_what_they_are() {
    let json = [("content-type", "application/json")];
    let wrong = r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***bc. You can obtain an API key from https://console.x.ai."}"#;
    let server = Server::start(vec![Reply::new(400, &json, wrong)]).await;
    let error = ask(&*adapter("grok", &server.url))
        .await
        .expect_err("refused");
    assert_eq!(
        (error.class, error.http_status),
        (ErrorClass::Auth, Some(400))
    );
    assert_eq!(
        error.provider_code.as_deref(),
        Some("Client specified an invalid argument")
    );
    let server = Server::start(vec![Reply::new(202, &json, r#"{"request_id":"x"}"#)]).await;
    assert_eq!(
        ask(&*adapter("grok", &server.url))
            .await
            .expect_err("no answer")
            .class,
        ErrorClass::Protocol
    );
}

#[tokio::test]
async fn a_configured_server_bears_its_name_and_needs_a_url_not_a_key() {
    let nowhere = ProviderSettings {
        name: "compat:groq".into(),
        ..Default::default()
    };
    let error = build("compat:groq", &nowhere).err().expect("no URL");
    assert_eq!(
        (error.class, error.phase),
        (ErrorClass::Config, Phase::Config)
    );
    assert!(
        error.message.contains("`compat:groq`") && error.message.contains("base_url"),
        "{error}"
    );
    let server = Server::start(vec![Reply::stream(&read("compat/text.sse"))]).await;
    let base_url = Some(format!("{}/openai/v1", server.url));
    let settings = ProviderSettings {
        name: "compat:groq".into(),
        base_url,
        ..Default::default()
    };
    let provider = build("compat:groq", &settings).expect("sound");
    assert_eq!(provider.id(), "compat:groq");
    ask(&*provider).await.expect("it answers");
    let seen = server.seen().remove(0);
    assert!(
        seen.head.starts_with("POST /openai/v1/chat/completions "),
        "{}",
        seen.head
    );
    assert_eq!(seen.header("authorization"), None);
}
