//! What a server of chat completions wants otherwise: each switch, and each refused parameter, seen in the body.

use super::{KEY, fixture, request, tool};
use attache::config::{ChatSwitches, DataCollection, Effort, ProviderSettings, StructuredOutput};
use attache::providers::{
    Block, Message, OutputSchema, Parameter, Request, Role, Structured, ToolArgs, build,
};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

/// A conversation in which a tool was called, with everything that a switch may touch.
fn conversation() -> Request {
    let call = Block::ToolCall {
        id: "a".into(),
        name: "look".into(),
        args: ToolArgs::Object(Map::new()),
        provider_state: None,
    };
    let result = Block::ToolResult {
        call_id: "a".into(),
        name: "look".into(),
        content: "\"found\"".into(),
        is_error: false,
    };
    Request {
        messages: vec![
            Message::user("Look"),
            Message {
                role: Role::Assistant,
                blocks: vec![call],
            },
            Message {
                role: Role::User,
                blocks: vec![result, Block::text("and?")],
            },
        ],
        tools: vec![tool("look")],
        temperature: Some(0.5),
        output: Some(OutputSchema {
            name: "answer".into(),
            schema: json!({"type": "object"}),
        }),
        ..request("Look")
    }
}

fn body_of(id: &str, chat: ChatSwitches, request: &Request) -> Value {
    let (base_url, api_key) = (
        Some("http://127.0.0.1:9".to_owned()),
        Some(SecretString::from(KEY)),
    );
    let settings = ProviderSettings {
        base_url,
        api_key,
        chat,
        ..Default::default()
    };
    let wire = build(id, &settings)
        .expect("sound")
        .encode_request(request)
        .expect("sound");
    serde_json::from_str(&wire).expect("JSON")
}

fn at(body: &Value, pointer: &str) -> Value {
    body.pointer(pointer).cloned().unwrap_or(Value::Null)
}

type Set = fn(&mut ChatSwitches);

#[test]
fn every_switch_changes_the_body_and_only_where_it_says() {
    let effort = json!("low");
    // Switch, place, what stands there without it and with it.
    #[rustfmt::skip]
    let table: &[(Set, &str, Value, Value)] = &[
        (|s| s.legacy_max_tokens = true, "/max_tokens", Value::Null, json!(1024)),
        (|s| s.legacy_max_tokens = true, "/max_completion_tokens", json!(1024), Value::Null),
        (|s| s.no_stream_usage = true, "/stream_options", json!({"include_usage": true}), Value::Null),
        (|s| s.no_temperature = true, "/temperature", json!(0.5), Value::Null),
        (|s| s.no_store = true, "/store", Value::Null, json!(false)),
        (|s| s.developer_role = true, "/messages/0/role", json!("system"), json!("developer")),
        (|s| s.named_tool_results = true, "/messages/3/name", Value::Null, json!("look")),
        (|s| s.assistant_after_tools = true, "/messages/4/role", json!("user"), json!("assistant")),
        (|s| s.assistant_after_tools = true, "/messages/5/content", Value::Null, json!("and?")),
        (|s| s.strict_schemas = true, "/tools/0/function/strict", Value::Null, json!(true)),
        (|s| s.strict_schemas = true, "/response_format/json_schema/strict", Value::Null, json!(true)),
        (|s| s.reasoning_effort = Some(Effort::Low), "/reasoning_effort", Value::Null, effort.clone()),
        (
            |s| s.structured_output = StructuredOutput::JsonObject,
            "/response_format",
            json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}),
            json!({"type": "json_object"}),
        ),
        (
            |s| s.structured_output = StructuredOutput::None,
            "/response_format/type",
            json!("json_schema"),
            Value::Null,
        ),
    ];
    for id in ["openai", "grok", "compat"] {
        let plain = body_of(id, ChatSwitches::default(), &conversation());
        for (set, place, without, with) in table {
            let mut switches = ChatSwitches::default();
            set(&mut switches);
            let switched = body_of(id, switches, &conversation());
            assert_eq!(
                (at(&plain, place), at(&switched, place)),
                (without.clone(), with.clone()),
                "{id} {place}"
            );
        }
    }
}

#[test]
fn a_server_that_wants_an_empty_list_of_tools_gets_one() {
    let closed = Request {
        tools: vec![],
        ..conversation()
    };
    let body = |empty_tools| {
        body_of(
            "compat",
            ChatSwitches {
                empty_tools,
                ..Default::default()
            },
            &closed,
        )
    };
    let plain = body(false);
    assert_eq!(
        (
            at(&plain, "/tools/0/function/name"),
            at(&plain, "/tool_choice")
        ),
        (json!("look"), json!("none"))
    );
    let switched = body(true);
    assert_eq!(
        (at(&switched, "/tools"), at(&switched, "/tool_choice")),
        (json!([]), Value::Null)
    );
    // Where nothing was ever called there is nothing to say, and what is offered stays.
    let fresh = Request {
        tools: vec![],
        ..request("hi")
    };
    let switches = ChatSwitches {
        empty_tools: true,
        ..Default::default()
    };
    assert_eq!(
        body_of("compat", switches.clone(), &fresh).get("tools"),
        None
    );
    assert_eq!(
        at(
            &body_of("compat", switches, &conversation()),
            "/tools/0/function/name"
        ),
        json!("look")
    );
}

#[test]
fn what_a_server_refused_is_left_out_or_said_the_other_way() {
    let all = ChatSwitches {
        strict_schemas: true,
        reasoning_effort: Some(Effort::High),
        ..ChatSwitches::default()
    };
    #[rustfmt::skip]
    let table = [
        (Parameter::Temperature, "/temperature", json!(0.5), Value::Null),
        (Parameter::StreamUsage, "/stream_options/include_usage", json!(true), Value::Null),
        (Parameter::MaxCompletionTokens, "/max_completion_tokens", json!(1024), Value::Null),
        (Parameter::MaxCompletionTokens, "/max_tokens", Value::Null, json!(1024)),
        (Parameter::Strict, "/tools/0/function/strict", json!(true), Value::Null),
        (Parameter::Strict, "/response_format/json_schema/strict", json!(true), Value::Null),
        (Parameter::OutputSchema, "/response_format/type", json!("json_schema"), Value::Null),
        (Parameter::Reasoning, "/reasoning_effort", json!("high"), Value::Null),
    ];
    for id in ["openai", "grok", "compat"] {
        let plain = body_of(id, all.clone(), &conversation());
        for (parameter, place, before, after) in table.clone() {
            let request = Request {
                without: vec![parameter],
                ..conversation()
            };
            let body = body_of(id, all.clone(), &request);
            assert_eq!(
                (at(&plain, place), at(&body, place)),
                (before, after),
                "{id} {parameter:?}"
            );
        }
    }
    // Whoever said the older name says the newer one.
    let older = ChatSwitches {
        legacy_max_tokens: true,
        ..ChatSwitches::default()
    };
    let request = Request {
        without: vec![Parameter::MaxCompletionTokens],
        ..conversation()
    };
    let body = body_of("openai", older, &request);
    assert_eq!(
        (
            at(&body, "/max_tokens"),
            at(&body, "/max_completion_tokens")
        ),
        (Value::Null, json!(1024))
    );
}

#[test]
fn anthropic_leaves_out_the_temperature_that_it_refused() {
    let body = |without| {
        body_of(
            "anthropic",
            ChatSwitches::default(),
            &Request {
                without,
                ..conversation()
            },
        )
    };
    assert_eq!(at(&body(vec![]), "/temperature"), json!(0.5));
    assert_eq!(body(vec![Parameter::Temperature]).get("temperature"), None);
    assert_eq!(
        at(&body(vec![Parameter::StreamUsage]), "/temperature"),
        json!(0.5)
    );
}

#[test]
fn a_schema_that_does_not_travel_must_stand_in_the_prompt() {
    let structured = |id: &str, structured_output| {
        let chat = ChatSwitches {
            structured_output,
            ..Default::default()
        };
        let base_url = Some("http://127.0.0.1:9".to_owned());
        let settings = ProviderSettings {
            base_url,
            chat,
            ..Default::default()
        };
        build(id, &settings)
            .expect("sound")
            .capabilities("m")
            .structured
    };
    for id in ["openai", "grok", "openrouter", "compat"] {
        assert_eq!(
            structured(id, StructuredOutput::JsonSchema),
            Structured::Native,
            "{id}"
        );
        assert_eq!(
            structured(id, StructuredOutput::JsonObject),
            Structured::Prompted,
            "{id}"
        );
        assert_eq!(
            structured(id, StructuredOutput::None),
            Structured::Prompted,
            "{id}"
        );
    }
    // No documented member of its API was verified, so the prompt has the schema.
    assert_eq!(
        structured("anthropic", StructuredOutput::JsonSchema),
        Structured::Prompted
    );
}

#[test]
fn openrouter_is_told_who_may_serve_and_how_hard_to_think() {
    let plain = body_of("openrouter", ChatSwitches::default(), &conversation());
    assert_eq!(
        (plain.get("provider"), plain.get("reasoning")),
        (None, None)
    );
    assert_eq!(
        (
            at(&plain, "/max_tokens"),
            plain.get("max_completion_tokens")
        ),
        (json!(1024), None)
    );
    let chat = ChatSwitches {
        data_collection: Some(DataCollection::Deny),
        reasoning_effort: Some(Effort::Medium),
        ..Default::default()
    };
    let body = body_of("openrouter", chat.clone(), &conversation());
    assert_eq!(at(&body, "/provider"), json!({"data_collection": "deny"}));
    assert_eq!(
        (at(&body, "/reasoning"), body.get("reasoning_effort")),
        (json!({"effort": "medium"}), None)
    );
    let without = vec![Parameter::Reasoning, Parameter::MaxCompletionTokens];
    let body = body_of(
        "openrouter",
        chat.clone(),
        &Request {
            without,
            ..conversation()
        },
    );
    assert_eq!(
        (body.get("reasoning"), at(&body, "/max_completion_tokens")),
        (None, json!(1024))
    );
    // Nobody else has such members.
    assert_eq!(
        body_of("compat", chat, &conversation()).get("provider"),
        None
    );
}

#[test]
fn the_vendors_of_one_dialect_word_a_history_alike() {
    let text = std::fs::read_to_string(fixture("requests/history.json")).expect("it exists");
    let history: Request = serde_json::from_str(&text).expect("a request");
    let body = |id| body_of(id, ChatSwitches::default(), &history);
    assert_eq!(body("grok"), body("openai"));
    assert_eq!(body("compat"), body("openai"));
    assert_eq!(body("openrouter")["messages"], body("openai")["messages"]);
}
