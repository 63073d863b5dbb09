//! The Responses API: what goes back to the model and when it does not, how an answer ends, and that a record keeps the API
//! in which it was made.

use super::conformance::{decode_pieces, decoder, read, wire_of};
use super::responses_failures::events;
use super::server::{Reply, Server};
use super::strict::{Strict, say};
use super::threads::{long_run, restrict};
use super::{KEY, adapter, context, request, strict_openai, strict_responses};
use crate::app::{Workspace, note};
use attache::domain::ErrorClass;
use attache::providers::{
    Block, FinishReason, Message, Parameter, ProviderError, Request, Response, Role, complete,
};
use serde_json::{Value, json};

pub const BOTH: [&str; 2] = ["openai-responses", "grok-responses"];

pub async fn ask(id: &str, reply: Reply) -> Result<Response, ProviderError> {
    let server = Server::start(vec![reply]).await;
    let provider = adapter(id, &server.url);
    let wire = provider.encode_request(&request("hello")).expect("sound");
    complete(&*provider, &wire, context()).await
}

/// The items of the request that follows an answer, for the calls of which every result is there.
fn sent_back(id: &str, response: &Response, change: impl FnOnce(&mut Request)) -> Vec<Value> {
    let result = |(call, name, _): (&str, &str, &_)| Block::ToolResult {
        call_id: call.to_owned(),
        name: name.to_owned(),
        content: format!("{{\"of\":\"{call}\"}}"),
        is_error: false,
    };
    let results = response.calls().map(result).collect();
    let mut asked = request("Look twice");
    asked.messages.push(Message {
        role: Role::Assistant,
        blocks: response.blocks.clone(),
    });
    asked.messages.push(Message {
        role: Role::User,
        blocks: results,
    });
    change(&mut asked);
    let wire = adapter(id, "http://127.0.0.1:9")
        .encode_request(&asked)
        .expect("sound");
    let mut body: Value = serde_json::from_str(&wire).expect("JSON");
    assert_eq!(body["store"], false);
    let items = body["input"].as_array_mut().expect("items");
    items.remove(0);
    std::mem::take(items)
}

async fn thinking(id: &str) -> Response {
    let bytes = read(&format!("{id}/thinking.sse"));
    decode_pieces(decoder(id), vec![bytes.as_bytes()])
        .await
        .expect("sound")
}

#[tokio::test]
async fn reasoning_goes_back_whole_before_the_call_that_it_led_to() {
    for id in BOTH {
        let response = thinking(id).await;
        assert_eq!(response.stop, FinishReason::ToolUse);
        let thoughts: Vec<&str> = response
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Thinking { text, .. } if !text.is_empty() => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(thoughts, ["First thought.\n\nSecond."], "{id}");
        let summary = |texts: &[&str]| -> Vec<Value> {
            let part = |text| json!({"type": "summary_text", "text": text});
            texts.iter().map(part).collect()
        };
        let mut said = json!({"type": "message", "role": "assistant", "content": "I look."});
        if id == "openai-responses" {
            said["phase"] = json!("commentary");
        }
        let reasoning = |id: &str, texts: &[&str], sealed: &str| {
            json!({"type": "reasoning", "id": id, "summary": summary(texts),
                "encrypted_content": sealed})
        };
        let call = |id: &str, n: u8| {
            json!({"type": "function_call", "call_id": id, "name": "look",
                "arguments": format!("{{\"n\":{n}}}")})
        };
        let result = |id: &str| {
            json!({"type": "function_call_output", "call_id": id,
                "output": format!("{{\"of\":\"{id}\"}}")})
        };
        let expected = vec![
            reasoning("rs_0", &["First thought.", "Second."], "Zmlyc3Q="),
            said,
            call("call_a", 1),
            reasoning("rs_3", &[], "c2Vjb25k"),
            call("call_b", 2),
            result("call_a"),
            result("call_b"),
        ];
        assert_eq!(sent_back(id, &response, |_| {}), expected, "{id}");
    }
}

#[tokio::test]
async fn reasoning_of_another_model_api_or_adapter_stays_away() {
    let response = thinking("openai-responses").await;
    let of_another_model = |asked: &mut Request| {
        for block in &mut asked.messages[1].blocks {
            if let Block::Thinking {
                provider_state: Some(state),
                ..
            } = block
            {
                state.model = "model-y".into();
            }
        }
    };
    let refused = |asked: &mut Request| asked.without.push(Parameter::SentReasoning);
    let is_reasoning = |item: &Value| item["type"] == "reasoning";
    let items = sent_back("openai-responses", &response, of_another_model);
    assert!(
        !items.iter().any(is_reasoning) && items.len() == 5,
        "{items:?}"
    );
    let items = sent_back("openai-responses", &response, refused);
    assert!(
        !items.iter().any(is_reasoning) && items.len() == 5,
        "{items:?}"
    );
    let items = sent_back("grok-responses", &response, |_| {});
    assert!(!items.iter().any(is_reasoning), "{items:?}");
    // Chat completions get none of it, and what they left means nothing here.
    let mut again = request("hi");
    again.messages.push(Message {
        role: Role::Assistant,
        blocks: response.blocks,
    });
    let chat = adapter("openai", "http://127.0.0.1:9");
    let wire = chat.encode_request(&again).expect("sound");
    assert!(
        !wire.contains("Zmlyc3Q=") && !wire.contains("commentary"),
        "{wire}"
    );
    let chunk = json!({"model": "model-x", "choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {
        "reasoning_content": "Hm.", "tool_calls": [{"index": 0, "id": "call_a",
            "function": {"name": "look", "arguments": "{}"}}]}}]});
    let mut stream = super::conformance::wire_of("openai").stream_of("one_call");
    stream = format!("data: {chunk}\n\ndata: [DONE]\n\n{stream}");
    let response = decode_pieces(decoder("openai"), vec![stream.as_bytes()])
        .await
        .expect("sound");
    let items = sent_back("openai-responses", &response, |_| {});
    assert!(!items.iter().any(is_reasoning), "{items:?}");
}

/// A whole response, as a server sends it that ignores `stream`.
fn whole(change: Value) -> String {
    let mut response = json!({"id": "resp_9", "object": "response", "status": "completed", "error": null,
        "incomplete_details": null, "model": "model-x-1", "output": [], "usage": null});
    for (key, value) in change.as_object().into_iter().flatten() {
        response[key] = value.clone();
    }
    response.to_string()
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

#[tokio::test]
async fn an_answer_ends_for_the_reason_that_the_vendor_gives() {
    let cut = json!({"type": "function_call", "call_id": "call_a", "name": "look", "status": "incomplete",
        "arguments": "{\"n\":"});
    let odd =
        json!([{"type": "web_search_call", "id": "ws_1", "status": "completed"}, message("Pong")]);
    let two = json!([message("One."), {"type": "reasoning", "id": "rs_1", "summary": []}, message("Two.")]);
    let incomplete = |reason: &str| json!({"status": "incomplete", "incomplete_details": {"reason": reason}, "output": [message("Po")]});
    let cases = [
        (
            json!({"output": [message("Pong")]}),
            "Pong",
            FinishReason::EndTurn,
        ),
        (
            json!({"status": "complete", "output": odd}),
            "Pong",
            FinishReason::EndTurn,
        ),
        (
            json!({"output": two}),
            "One.\n\nTwo.",
            FinishReason::EndTurn,
        ),
        (
            incomplete("max_output_tokens"),
            "Po",
            FinishReason::MaxTokens,
        ),
        (incomplete("max_tokens"), "Po", FinishReason::MaxTokens),
        (incomplete("content_filter"), "Po", FinishReason::Refused),
        (
            incomplete("weather"),
            "Po",
            FinishReason::Other("weather".into()),
        ),
        (
            json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [cut]}),
            "",
            FinishReason::MaxTokens,
        ),
    ];
    for (change, text, stop) in cases {
        let body = whole(change);
        let json = [("content-type", "application/json")];
        let answer = ask("openai-responses", Reply::new(200, &json, &body)).await;
        let answer = answer.expect(&body);
        assert_eq!(
            (answer.text().as_str(), answer.stop),
            (text, stop),
            "{body}"
        );
        assert!(answer.usage.estimated, "{body}");
    }
}

#[tokio::test]
async fn the_finished_items_decide_and_missing_deltas_are_made_up_for() {
    // ChatGPT's server leaves `output` of the last event empty; others send no deltas.
    let done =
        json!({"type": "response.output_item.done", "output_index": 0, "item": message("Pong")});
    let ended = json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "model": "m", "output": []}});
    let answer = ask("openai-responses", events(&[done, ended])).await;
    assert_eq!(answer.expect("an answer").text(), "Pong");
    // Nothing at all is an answer without words; the loop says what becomes of it.
    let empty =
        json!({"type": "response.completed", "response": {"status": "completed", "output": []}});
    let answer = ask("openai-responses", events(&[empty]))
        .await
        .expect("an answer");
    assert_eq!(
        (answer.blocks.len(), answer.stop),
        (0, FinishReason::EndTurn)
    );
    // A stream that only its marker ends was cut.
    let text = wire_of("openai-responses").stream_of("missing_terminal");
    let error = ask(
        "openai-responses",
        Reply::stream(&format!("{text}data: [DONE]\n\n")),
    )
    .await;
    assert_eq!(error.expect_err("cut").class, ErrorClass::Transient);
}

/// A workspace whose letters that server answers, by that API.
fn house(provider: &str, server: &Strict, api: Value) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    let key = if provider == "grok" {
        "XAI_API_KEY"
    } else {
        "OPENAI_API_KEY"
    };
    workspace.write(".secrets", &format!("{key}={KEY}\n"));
    restrict(&workspace.path().join(".secrets"));
    let block = json!({ provider: {"base_url": server.url(), "api": api} });
    workspace.set("configs/inference.json", "/providers", block);
    workspace.set("configs/inference.json", "/provider", json!(provider));
    workspace.set("configs/inference.json", "/model", json!("model-x"));
    workspace
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_of_several_turns_sends_all_reasoning_back_and_replays() {
    for provider in ["openai", "grok"] {
        let server = strict_responses::server(provider, long_run()).await;
        let app = house(provider, &server, json!("responses")).start().await;
        let run = app
            .run_of(&note("q1@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        assert_eq!(app.outcome(&run).await.1.as_deref(), Some("answered"));
        let bodies = server.accepted();
        assert_eq!(
            bodies,
            app.prompts(&run).await,
            "{provider}: what was stored was sent"
        );
        let last = bodies.last().expect("a request");
        let kinds = |kind: &str| {
            let items = last["input"].as_array().expect("items").iter();
            items.filter(|item| item["type"] == kind).count()
        };
        // One before each answer's first call and one before its second.
        assert_eq!(
            (
                kinds("reasoning"),
                kinds("function_call"),
                kinds("function_call_output")
            ),
            (4, 5, 5)
        );
        let phases = last["input"].as_array().expect("items").iter();
        assert_eq!(
            phases.filter(|item| item["phase"] == "commentary").count(),
            1
        );
        app.check().await;
    }
}

#[tokio::test]
async fn a_record_keeps_the_api_in_which_it_was_made() {
    let chat = strict_openai::server("openai", long_run()).await;
    let app = house("openai", &chat, Value::Null).start().await;
    let first = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(app.outcome(&first).await.0, "succeeded");
    let answers = strict_responses::server("openai", vec![say("At eight.")]).await;
    let block = json!({"base_url": answers.url(), "api": "responses"});
    app.workspace
        .set("configs/inference.json", "/providers/openai", block);
    let app = app.restart().await;
    let answer = app.sent().remove(0).message_id.expect("an id");
    let header = format!("In-Reply-To: <{answer}>\n");
    let second = app
        .run_of(&note("q2@guest.example", &header, "Or later?"))
        .await;
    app.drain().await;
    assert_eq!(answers.refused(), Vec::<String>::new());
    assert_eq!(app.outcome(&second).await.0, "succeeded");
    assert!(app.prompts(&first).await[0]["messages"].is_array());
    assert!(app.prompts(&second).await[0]["input"].is_array());
    // Executes both runs again, each in its own form.
    app.check().await;
}

#[tokio::test]
async fn images_reach_the_model_and_its_form_is_asked_for() {
    let provider = adapter("openai-responses", "http://127.0.0.1:9");
    let mut asked = request("Count");
    asked.output = Some(attache::providers::OutputSchema {
        name: "answer".into(),
        schema: json!({"type": "object", "additionalProperties": false}),
    });
    asked.max_output_tokens = 1;
    let body: Value =
        serde_json::from_str(&provider.encode_request(&asked).expect("sound")).expect("JSON");
    assert_eq!(
        body["text"]["format"],
        json!({"type": "json_schema", "name": "answer", "schema": {"type": "object", "additionalProperties": false}, "strict": false})
    );
    assert_eq!(body["max_output_tokens"], 16);
    asked.without = vec![
        Parameter::OutputSchema,
        Parameter::ToolChoice,
        Parameter::SentReasoning,
    ];
    let body: Value =
        serde_json::from_str(&provider.encode_request(&asked).expect("sound")).expect("JSON");
    assert!(
        body.get("text").is_none()
            && body.get("tool_choice").is_none()
            && body.get("include").is_none()
    );
}
