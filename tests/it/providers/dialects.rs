//! What servers do differently from the vendor whose dialect they speak, one habit a test.

use super::conformance::decode_pieces;
use super::{adapter, fixture};
use attache::config::{ChatSwitches, ProviderSettings};
use attache::domain::ErrorClass;
use attache::providers::api::anthropic::decoder::AnthropicDecoder;
use attache::providers::api::openai::decoder::ChunkDecoder;
use attache::providers::transport::classify::Family;
use attache::providers::transport::decode::Decoder;
use attache::providers::{
    Block, FinishReason, Phase, ProviderError, Request, Response, ToolArgs, ToolChoice, build,
};
use serde_json::{Value, json};

async fn openai_with(usage_expected: bool, chunks: &[&str]) -> Result<Response, ProviderError> {
    let body: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    let decoder = ChunkDecoder::new(None, Family::OpenAi, usage_expected, 0);
    decode_pieces(Box::new(decoder), vec![body.as_bytes()]).await
}

async fn openai(chunks: &[&str]) -> Result<Response, ProviderError> {
    openai_with(false, chunks).await
}

fn calls(response: &Response) -> Vec<(String, String, Value)> {
    let read = |(id, name, args): (&str, &str, &ToolArgs)| match args {
        ToolArgs::Object(map) => (id.to_owned(), name.to_owned(), Value::Object(map.clone())),
        ToolArgs::Malformed { raw, .. } => {
            (id.to_owned(), name.to_owned(), Value::String(raw.clone()))
        }
    };
    response.calls().map(read).collect()
}

fn call(id: &str, name: &str, args: Value) -> (String, String, Value) {
    (id.to_owned(), name.to_owned(), args)
}

const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const DONE: &str = "[DONE]";

fn delta(delta: &str) -> String {
    format!(r#"{{"model":"m","choices":[{{"delta":{delta},"finish_reason":null}}]}}"#)
}
fn fragment(fragment: &str) -> String {
    delta(&format!(r#"{{"tool_calls":[{fragment}]}}"#))
}

#[tokio::test]
async fn fragments_without_an_index_are_told_apart_by_id_and_by_name() {
    let chunks = [
        fragment(r#"{"id":"a","function":{"name":"f","arguments":"{\"n\":"}}"#),
        fragment(r#"{"function":{"arguments":"1}"}}"#),
        fragment(r#"{"id":"b","function":{"name":"g","arguments":"{"}}"#),
        fragment(r#"{"id":"b","function":{"arguments":"}"}}"#),
        fragment(r#"{"function":{"name":"h","arguments":"{}"}}"#),
    ];
    let chunks: Vec<&str> = chunks
        .iter()
        .map(String::as_str)
        .chain([STOP, DONE])
        .collect();
    let response = openai(&chunks).await.expect("sound");
    let expected = vec![
        call("a", "f", json!({"n": 1})),
        call("b", "g", json!({})),
        call("call_2", "h", json!({})),
    ];
    assert_eq!(calls(&response), expected);
    assert_eq!(
        response.stop,
        FinishReason::ToolUse,
        "`stop` with calls present means the calls"
    );
}

#[tokio::test]
async fn parallel_calls_that_all_claim_index_0_are_separate_calls() {
    let chunks = [
        fragment(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}"#),
        fragment(r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{\"n\":2}"}}"#),
    ];
    let response = openai(&[&chunks[0], &chunks[1], STOP, DONE])
        .await
        .expect("sound");
    assert_eq!(
        calls(&response),
        vec![
            call("a", "f", json!({"n": 1})),
            call("b", "f", json!({"n": 2}))
        ]
    );
}

#[tokio::test]
async fn an_id_that_changes_inside_a_call_is_ignored() {
    let chunks = [
        fragment(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\""}}"#),
        fragment(r#"{"index":0,"id":"z","function":{"name":"f","arguments":":1}"}}"#),
        fragment(r#"{"index":0,"id":"y","function":{"name":"f","arguments":""}}"#),
    ];
    let response = openai(&[&chunks[0], &chunks[1], &chunks[2], STOP, DONE])
        .await
        .expect("sound");
    assert_eq!(calls(&response), vec![call("a", "f", json!({"n": 1}))]);
}

#[tokio::test]
async fn ids_that_repeat_inside_an_answer_become_unique() {
    let chunks = [
        fragment(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#),
        fragment(r#"{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}"#),
    ];
    let response = openai(&[&chunks[0], &chunks[1], STOP, DONE])
        .await
        .expect("sound");
    assert_eq!(
        calls(&response),
        vec![call("a", "f", json!({})), call("call_1", "g", json!({}))]
    );
}

#[tokio::test]
async fn arguments_may_come_as_an_object_and_calls_in_the_older_form() {
    let whole = fragment(r#"{"index":0,"id":"a","function":{"name":"f","arguments":{"n":[1]}}}"#);
    let response = openai(&[&whole, STOP, DONE]).await.expect("sound");
    assert_eq!(calls(&response), vec![call("a", "f", json!({"n": [1]}))]);
    let older = [
        delta(r#"{"function_call":{"name":"f","arguments":"{\"n\""}}"#),
        delta(r#"{"function_call":{"arguments":":1}"}}"#),
    ];
    let response = openai(&[&older[0], &older[1], STOP, DONE])
        .await
        .expect("sound");
    assert_eq!(calls(&response), vec![call("call_0", "f", json!({"n": 1}))]);
}

#[tokio::test]
async fn reasoning_beside_the_answer_stays_out_of_the_text() {
    for key in ["reasoning_content", "reasoning", "reasoning_text"] {
        let thought = delta(&format!(r#"{{"{key}":"hm","content":null}}"#));
        let response = openai(&[&thought, &delta(r#"{"content":"hi"}"#), STOP, DONE])
            .await
            .expect("sound");
        assert_eq!(response.text(), "hi");
        let thinking = Block::Thinking {
            text: "hm".into(),
            provider_state: None,
        };
        assert_eq!(response.blocks[0], thinking);
    }
}

#[tokio::test]
async fn content_may_come_in_parts_and_usage_inside_the_choice() {
    let parts = delta(r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#);
    let end = r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":2}}]}"#;
    let response = openai_with(true, &[&parts, end])
        .await
        .expect("usage came, so no `[DONE]` is needed");
    assert_eq!(
        (response.text().as_str(), response.usage.input_tokens),
        ("ab", 9)
    );
}

#[tokio::test]
async fn with_neither_done_nor_usage_the_answer_was_cut() {
    let text = delta(r#"{"content":"a"}"#);
    let error = openai_with(true, &[&text, STOP]).await.expect_err("cut");
    assert_eq!(
        (error.class, error.phase),
        (ErrorClass::Transient, Phase::MidStream)
    );
    assert!(error.message.contains("no_stream_usage"));
    assert_eq!(
        openai_with(false, &[&text, STOP])
            .await
            .expect("complete")
            .text(),
        "a"
    );
    assert_eq!(
        openai_with(true, &[&text, STOP, DONE])
            .await
            .expect("complete")
            .text(),
        "a"
    );
}

/// A complete answer without usage is one, whatever ends its last line: some servers close behind `[DONE]`.
#[tokio::test]
async fn an_answer_that_says_done_is_whole_without_usage_and_without_its_last_blank_line() {
    let text = delta(r#"{"content":"a"}"#);
    let with_end = async |end: &str, size: usize| {
        let body = format!("data: {text}\n\ndata: {STOP}\n\n{end}");
        let decoder = ChunkDecoder::new(None, Family::OpenAi, true, 7);
        decode_pieces(Box::new(decoder), body.as_bytes().chunks(size).collect()).await
    };
    for end in [
        "data: [DONE]",
        "data:[DONE]",
        "data: [DONE] ",
        "data: [DONE]\n",
        "data: [DONE]\r",
        "data: [DONE]\r\n",
        "data: [DONE]\n\n",
        ": ping\n\ndata: [DONE]",
        ": ping\ndata: [DONE]\n",
        "event: done\ndata: [DONE]",
        "id: 7\ndata: [DONE]\n",
    ] {
        for size in [1, 3, 1000] {
            let response = with_end(end, size).await.expect("complete");
            assert_eq!(response.text(), "a", "{end:?}");
            assert!(response.usage.estimated, "{end:?}");
            assert_eq!(response.usage.input_tokens, 7, "{end:?}");
        }
    }
    for end in [
        "",
        "data: [DON",
        "data: [DONE",
        "data:",
        "data: {\"choices\":[]}",
        ": [DONE]",
        "[DONE]",
    ] {
        let error = with_end(end, 1000).await.expect_err("cut");
        assert_eq!(error.class, ErrorClass::Transient, "{end:?}");
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_fails_by_its_own_code() {
    let cases = [
        (
            r#"{"error":{"message":"x","code":429}}"#,
            ErrorClass::RateLimited,
        ),
        (
            r#"{"error":{"message":"x","code":402}}"#,
            ErrorClass::Billing,
        ),
        (
            r#"{"error":{"message":"x","code":"insufficient_quota"}}"#,
            ErrorClass::Billing,
        ),
        (
            r#"{"error":{"message":"maximum context length is 9 tokens","code":400}}"#,
            ErrorClass::ContextOverflow,
        ),
        (
            r#"{"error":{"message":"x","type":"server_error"}}"#,
            ErrorClass::Transient,
        ),
        (r#"{"error":"it broke"}"#, ErrorClass::Transient),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#,
            ErrorClass::Transient,
        ),
        (r#"{"object":"nothing of ours"}"#, ErrorClass::Protocol),
        ("{\"choices\":", ErrorClass::Protocol),
        ("<html>", ErrorClass::Protocol),
    ];
    for (chunk, class) in cases {
        let error = openai(&[&delta(r#"{"content":"a"}"#), chunk, DONE])
            .await
            .expect_err(chunk);
        assert_eq!(
            (error.class, error.phase),
            (class, Phase::MidStream),
            "{chunk}"
        );
    }
}

#[tokio::test]
async fn every_finish_reason_has_its_meaning() {
    let with_call = fragment(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}"#);
    let table = [
        ("stop", FinishReason::EndTurn, FinishReason::ToolUse),
        ("length", FinishReason::MaxTokens, FinishReason::MaxTokens),
        (
            "content_filter",
            FinishReason::Refused,
            FinishReason::Refused,
        ),
        (
            "tool_calls",
            FinishReason::Other("tool_calls".into()),
            FinishReason::ToolUse,
        ),
        (
            "tired",
            FinishReason::Other("tired".into()),
            FinishReason::ToolUse,
        ),
    ];
    for (reason, plain, calling) in table {
        let end = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        assert_eq!(
            openai(&[&delta("{}"), &end, DONE])
                .await
                .expect("sound")
                .stop,
            plain,
            "{reason}"
        );
        assert_eq!(
            openai(&[&with_call, &end, DONE]).await.expect("sound").stop,
            calling,
            "{reason}"
        );
    }
}

async fn anthropic(events: &[Value]) -> Result<Response, ProviderError> {
    let body: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    decode_pieces(Box::new(AnthropicDecoder::new(None)), vec![body.as_bytes()]).await
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {"input_tokens": 1}}})
}
fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ]
}

#[tokio::test]
async fn every_stop_reason_has_its_meaning() {
    let table = [
        ("end_turn", FinishReason::EndTurn),
        ("max_tokens", FinishReason::MaxTokens),
        ("stop_sequence", FinishReason::StopSequence),
        (
            "model_context_window_exceeded",
            FinishReason::ContextExhausted,
        ),
        ("refusal", FinishReason::Refused),
        ("pause_turn", FinishReason::Paused),
        ("tool_use", FinishReason::Other("tool_use".into())),
        ("tired", FinishReason::Other("tired".into())),
    ];
    for (reason, stop) in table {
        let [delta, stopped] = end(reason);
        let response = anthropic(&[start(), delta, stopped]).await.expect("sound");
        assert_eq!(
            (response.stop, response.provider_request_id.as_deref()),
            (stop, Some("m1"))
        );
    }
}

#[tokio::test]
async fn a_stream_that_breaks_its_own_rules_is_a_protocol_error() {
    let open = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}});
    let grow = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "b"}});
    let close = json!({"type": "content_block_stop", "index": 0});
    let nameless = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a"}});
    let [delta, stopped] = end("end_turn");
    let sound = [
        start(),
        open.clone(),
        grow.clone(),
        close.clone(),
        delta.clone(),
        stopped.clone(),
    ];
    assert_eq!(anthropic(&sound).await.expect("sound").text(), "ab");
    let broken: &[&[&Value]] = &[
        &[&open, &close, &delta, &stopped],
        &[&start(), &start()],
        &[&start(), &grow],
        &[&start(), &close],
        &[&start(), &open, &open],
        &[&start(), &open, &close, &grow],
        &[&start(), &open, &delta, &stopped],
        &[&start(), &open, &close, &stopped],
        &[&start(), &nameless, &close, &delta, &stopped],
    ];
    for events in broken {
        let events: Vec<Value> = events.iter().map(|event| (*event).clone()).collect();
        let error = anthropic(&events).await.expect_err("broken");
        assert_eq!(
            (error.class, error.phase),
            (ErrorClass::Protocol, Phase::MidStream),
            "{events:?}"
        );
    }
}

#[test]
fn a_whole_answer_reads_like_a_streamed_one() {
    let message = json!({"id": "m1", "model": "m", "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 4},
        "content": [{"type": "text", "text": "ok"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"n": 1}}]});
    let completion = json!({"id": "m1", "model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "ok",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"n\":1}"}}]}}]});
    let read = |decoder: &mut dyn Decoder, body: Value| match decoder
        .whole(&body.to_string())
        .expect("sound")
        .pop()
    {
        Some(attache::providers::Event::Finished(response)) => response,
        other => panic!("{other:?} is not the end"),
    };
    let one = read(&mut AnthropicDecoder::new(None), message);
    let other = read(
        &mut ChunkDecoder::new(None, Family::OpenAi, true, 0),
        completion,
    );
    assert_eq!(one, other);
    assert_eq!(
        (
            one.text().as_str(),
            one.stop.clone(),
            one.usage.output_tokens
        ),
        ("ok", FinishReason::ToolUse, 4)
    );
}

#[test]
fn a_whole_error_or_nonsense_with_status_200_is_an_error() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#;
    let mut decoder = AnthropicDecoder::new(None);
    assert_eq!(
        decoder.whole(overloaded).map_err(|e| e.class),
        Err(ErrorClass::Overloaded)
    );
    for body in [
        "{}",
        "",
        "[]",
        "<html>",
        r#"{"choices":[]}"#,
        r#"{"content":[]}"#,
    ] {
        let mut decoder = AnthropicDecoder::new(None);
        assert_eq!(
            decoder.whole(body).map_err(|e| e.class),
            Err(ErrorClass::Protocol),
            "{body}"
        );
        let mut decoder = ChunkDecoder::new(None, Family::OpenAi, true, 0);
        assert_eq!(
            decoder.whole(body).map_err(|e| e.class),
            Err(ErrorClass::Protocol),
            "{body}"
        );
    }
}

fn history() -> Request {
    let text = std::fs::read_to_string(fixture("requests/history.json")).expect("it exists");
    serde_json::from_str(&text).expect("a request")
}

#[test]
fn a_request_is_worded_exactly_as_the_vendor_wants_it() {
    for dialect in ["anthropic", "openai", "gemini", "ollama"] {
        let expected = std::fs::read_to_string(fixture(&format!("requests/{dialect}.json")))
            .expect("it exists");
        let expected: Value = serde_json::from_str(&expected).expect("JSON");
        let wire = adapter(dialect, "http://127.0.0.1:9")
            .encode_request(&history())
            .expect("sound");
        assert_eq!(wire, expected.to_string(), "{dialect}");
    }
}

#[test]
fn the_last_call_at_a_limit_has_no_tool_settings_change_names() {
    let request = Request {
        tool_choice: ToolChoice::None,
        temperature: None,
        ..history()
    };
    let wire = |id: &str, settings: &ProviderSettings| -> Value {
        let provider = build(id, settings).expect("sound");
        serde_json::from_str(&provider.encode_request(&request).expect("sound")).expect("JSON")
    };
    let base_url = Some("http://localhost:9/v1/".to_owned());
    let plain = ProviderSettings {
        base_url,
        ..Default::default()
    };
    let body = wire("anthropic", &plain);
    assert_eq!(
        (&body["tool_choice"], body.get("temperature")),
        (&json!({"type": "none"}), None)
    );
    let chat = ChatSwitches {
        legacy_max_tokens: true,
        no_stream_usage: true,
        ..Default::default()
    };
    let older = ProviderSettings { chat, ..plain };
    let body = wire("openai", &older);
    assert_eq!(
        (&body["tool_choice"], &body["max_tokens"]),
        (&json!("none"), &json!(1024))
    );
    assert_eq!(
        (
            body.get("max_completion_tokens"),
            body.get("stream_options")
        ),
        (None, None)
    );
}
