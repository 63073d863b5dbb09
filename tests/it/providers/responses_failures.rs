//! Failures of the Responses API, inside a stream and before it; and its judges, judged by bad requests.

use super::judged::{Damage, push, refused, remove};
use super::responses::{BOTH, ask};
use super::server::Reply;
use super::{KEY, strict_responses};
use attache::domain::ErrorClass;
use attache::providers::{Parameter, Phase};
use serde_json::{Value, json};

pub fn events(list: &[Value]) -> Reply {
    let frame = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap_or("x")
        )
    };
    Reply::stream(&list.iter().map(frame).collect::<String>())
}

#[tokio::test]
async fn a_failure_inside_a_stream_has_the_class_that_it_has_before_it() {
    let failed = |code: &str, message: &str| {
        let error = json!({"code": code, "message": message});
        json!({"type": "response.failed", "response": {"id": "resp_1", "status": "failed", "error": error, "output": []}})
    };
    let bare = |code: &str, message: &str| json!({"type": "error", "code": code, "message": message, "param": null, "sequence_number": 3});
    let nested = json!({"type": "error", "error": {"type": "invalid_request_error", "code": "context_length_exceeded",
        "message": "Your input exceeds the context window of this model.", "param": "input"}});
    #[rustfmt::skip]
    let cases = [
        (failed("server_error", "An error occurred while processing your request."), ErrorClass::Transient, None),
        (failed("rate_limit_exceeded", "Rate limit reached. Please try again in 7s."), ErrorClass::RateLimited, None),
        (failed("insufficient_quota", "You exceeded your current quota"), ErrorClass::Billing, None),
        (failed("invalid_prompt", "Invalid prompt: it was flagged"), ErrorClass::ContentFilter, None),
        (failed("invalid_image_format", "Unsupported format"), ErrorClass::BadRequest, Some(Parameter::Images)),
        (failed("context_length_exceeded", "Your input exceeds the context window"), ErrorClass::ContextOverflow, None),
        (bare("server_is_overloaded", "Overloaded"), ErrorClass::Overloaded, None),
        (nested, ErrorClass::ContextOverflow, None),
        (json!({"type": "response.cancelled", "response": {"status": "cancelled", "output": []}}), ErrorClass::Transient, None),
    ];
    for (event, class, refused) in cases {
        let reply = events(std::slice::from_ref(&event));
        let error = ask("openai-responses", reply).await.expect_err("it failed");
        assert_eq!(
            (error.class, error.refused),
            (class, refused),
            "{event}: {error}"
        );
        assert_eq!(error.phase, Phase::MidStream);
    }
}

#[tokio::test]
async fn what_a_server_refuses_is_left_out_of_the_next_request() {
    let json = [("content-type", "application/json")];
    let refusal = |code: &str, message: &str| {
        let error = json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}});
        Reply::new(400, &json, &error.to_string())
    };
    let cases = [
        (
            refusal(
                "invalid_encrypted_content",
                "The encrypted content for item rs_1 could not be verified.",
            ),
            Parameter::SentReasoning,
        ),
        (
            refusal(
                "unsupported_parameter",
                "Encrypted content is not supported with this model.",
            ),
            Parameter::SentReasoning,
        ),
        (
            refusal(
                "x",
                "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
            ),
            Parameter::SentReasoning,
        ),
        (
            refusal("unsupported_value", "Unsupported parameter: 'text.format'"),
            Parameter::OutputSchema,
        ),
        (
            refusal(
                "unsupported_parameter",
                "Unsupported parameter: 'reasoning.effort'",
            ),
            Parameter::Reasoning,
        ),
    ];
    for (reply, parameter) in cases {
        let error = ask("openai-responses", reply).await.expect_err("refused");
        assert_eq!(error.refused, Some(parameter), "{error}");
    }
    let unknown = Reply::new(
        400,
        &json,
        r#"{"code":"invalid-argument","error":"Model not found: grok-9"}"#,
    );
    let error = ask("grok-responses", unknown).await.expect_err("refused");
    assert_eq!(error.class, ErrorClass::ModelNotFound);
}

const DAMAGES: &[(&str, Damage)] = &[
    ("Missing required parameter: 'model'", |b| {
        b["model"] = json!("");
    }),
    ("Unknown parameter: 'n'", |b| b["n"] = json!(1)),
    ("Unknown parameter: 'messages'", |b| {
        b["messages"] = json!([]);
    }),
    ("not stored", |b| b["store"] = json!(true)),
    ("Expected a value >= 16", |b| {
        b["max_output_tokens"] = json!(8);
    }),
    ("Expected a value <= 2", |b| b["temperature"] = json!(3)),
    ("reasoning.encrypted_content", |b| {
        b["include"] = json!(["x"]);
    }),
    ("'text.format.name'", |b| {
        b["text"] = json!({"format": {"type": "json_schema"}});
    }),
    ("Unknown parameter: 'text.form'", |b| {
        b["text"] = json!({"form": {}});
    }),
    ("empty array", |b| b["input"] = json!([])),
    ("empty array", |b| b["tools"] = json!([])),
    ("only allowed when 'tools'", |b| {
        b.as_object_mut().expect("a body").remove("tools");
    }),
    ("must be of type 'object'", |b| {
        b["tools"][0]["parameters"] = json!({});
    }),
    ("must be of type 'object'", |b| {
        b["tools"][0]
            .as_object_mut()
            .expect("a tool")
            .remove("strict");
    }),
    ("pattern", |b| b["tools"][0]["name"] = json!("email.send")),
    ("Unknown parameter: 'tools[0].function'", |b| {
        b["tools"][0]["function"] = json!({});
    }),
    ("No tool output found", |b| {
        let items = b["input"].as_array_mut().expect("items");
        let at = items
            .iter()
            .position(|item| item["type"] == "function_call_output");
        items.remove(at.expect("a result"));
    }),
    ("No tool call found", |b| {
        push(
            b,
            "/input",
            json!({"type": "function_call_output", "call_id": "zz", "output": "1"}),
        );
    }),
    ("without its required following item", |b| {
        push(
            b,
            "/input",
            json!({"type": "reasoning", "id": "rs_7", "summary": [], "encrypted_content": strict_responses::sealed("rs_7")}),
        );
    }),
    ("could not be verified", |b| {
        b["input"][0] =
            json!({"type": "reasoning", "id": "rs_7", "summary": [], "encrypted_content": "eA=="});
    }),
    ("Invalid value: 'tool'", |b| {
        b["input"][0]["type"] = json!("tool");
    }),
    ("Supported: 'user'", |b| {
        b["input"][0]["role"] = json!("owner");
    }),
    ("Supported: 'input_text'", |b| {
        b["input"][0]["content"][0]["type"] = json!("text");
    }),
    ("key stands outside", |b| b["model"] = json!(KEY)),
    ("No tool output found", |b| {
        let at = b["input"].as_array().expect("items").len() - 1;
        remove(b, "/input", at);
        let items = b["input"].as_array_mut().expect("items");
        items.retain(|item| item["type"] != "function_call_output");
    }),
];

#[test]
fn the_judges_of_the_responses_api_refuse_what_the_apis_refuse() {
    for id in BOTH {
        let adapter = id.trim_end_matches("-responses");
        refused(id, strict_responses::check_of(adapter), DAMAGES);
    }
}
