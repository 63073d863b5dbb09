//! What our adapters send, judged by servers that refuse what the real ones refuse; and the judges, judged by bad requests.

use super::history::any_history;
use super::server::Seen;
use super::strict::Check;
use super::{
    KEY, adapter, fixture, request, strict_anthropic, strict_openai, strict_responses, tool,
};
use attache::providers::{Provider, Request, ToolChoice};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The judge of an adapter.
type Judge = fn(&str) -> Check;

/// Every adapter that a judge exists for.
const JUDGED: &[(&str, Judge)] = &[
    ("anthropic", |_| strict_anthropic::check),
    ("openai", strict_openai::check_of),
    ("grok", strict_openai::check_of),
    ("openrouter", strict_openai::check_of),
    ("compat", strict_openai::check_of),
    ("openai-responses", responses),
    ("grok-responses", responses),
];

fn responses(id: &str) -> Check {
    strict_responses::check_of(id.trim_end_matches("-responses"))
}

/// Each adapter once: its connection pool is the expensive part of it.
fn provider(id: &str) -> &'static dyn Provider {
    static BUILT: LazyLock<Vec<(&str, Box<dyn Provider>)>> = LazyLock::new(|| {
        JUDGED
            .iter()
            .map(|(id, _)| (*id, adapter(id, "http://127.0.0.1:9")))
            .collect()
    });
    let (_, provider) = BUILT
        .iter()
        .find(|(name, _)| *name == id)
        .expect("an adapter with a judge");
    provider.as_ref()
}

fn head(adapter: &str) -> String {
    match adapter {
        "anthropic" => format!(
            "POST /v1/messages HTTP/1.1\r\nx-api-key: {KEY}\r\nanthropic-version: 2023-06-01\r\ncontent-type: application/json"
        ),
        id if id.ends_with("-responses") => format!(
            "POST /v1/responses HTTP/1.1\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json"
        ),
        _ => format!(
            "POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json"
        ),
    }
}

fn seen(adapter: &str, body: String) -> Seen {
    Seen {
        head: head(adapter),
        body,
    }
}

/// The body of a conversation with calls, results and text in one message, as our adapter words it.
pub fn sound(id: &str) -> Value {
    let text = std::fs::read_to_string(fixture("requests/history.json")).expect("it exists");
    let history: Request = serde_json::from_str(&text).expect("a request");
    let wire = provider(id).encode_request(&history).expect("sound");
    serde_json::from_str(&wire).expect("JSON")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "second tier"]
    fn whatever_was_said_every_vendor_takes_what_its_adapter_sends(
        history in any_history(),
        has_tools in any::<bool>(),
        last_call in any::<bool>(),
    ) {
        let mut asked = Request { messages: history, ..request("") };
        asked.tools = if has_tools { vec![tool("look")] } else { Vec::new() };
        asked.tool_choice = if last_call { ToolChoice::None } else { ToolChoice::Auto };
        for (id, check) in JUDGED {
            // Nothing but blanks: there is nothing to send.
            let Ok(wire) = provider(id).encode_request(&asked) else { continue };
            let verdict = check(id)(&seen(id, wire.clone()));
            prop_assert!(verdict.is_ok(), "{id} refuses: {:?}\n{wire}", verdict.err().map(|refusal| refusal.why));
        }
    }
}

pub type Damage = fn(&mut Value);

/// Damages a sound body in one way; the judge must complain in these words.
pub fn refused(id: &str, check: Check, cases: &[(&str, Damage)]) {
    let whole = sound(id);
    assert!(
        check(&seen(id, whole.to_string())).is_ok(),
        "{id}: the body without damage is taken"
    );
    for (complaint, damage) in cases {
        let mut body = whole.clone();
        damage(&mut body);
        assert_ne!(body, whole, "{id}: no damage for `{complaint}`");
        let refusal = check(&seen(id, body.to_string())).expect_err(complaint);
        assert!(
            refusal.why.contains(complaint),
            "{id}: `{}` instead of `{complaint}`",
            refusal.why
        );
        assert_eq!(refusal.status, 400, "{complaint}");
    }
}

pub fn push(body: &mut Value, pointer: &str, value: Value) {
    body.pointer_mut(pointer)
        .and_then(Value::as_array_mut)
        .expect(pointer)
        .push(value);
}

pub fn remove(body: &mut Value, pointer: &str, at: usize) {
    body.pointer_mut(pointer)
        .and_then(Value::as_array_mut)
        .expect(pointer)
        .remove(at);
}

/// Complaint and damage.
const ANTHROPIC: &[(&str, Damage)] = &[
    ("max_tokens", |b| {
        b.as_object_mut().expect("a body").remove("max_tokens");
    }),
    ("Extra inputs", |b| b["n"] = json!(1)),
    ("temperature", |b| b["temperature"] = json!(1.5)),
    ("thinking is enabled", |b| {
        b["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    }),
    ("non-empty", |b| b["system"][0]["text"] = json!("")),
    ("cache_control", |b| {
        for _ in 0..5 {
            push(
                b,
                "/system",
                json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}),
            );
        }
    }),
    ("at least one message", |b| b["messages"] = json!([])),
    ("first message", |b| remove(b, "/messages", 0)),
    ("alternate", |b| {
        push(
            b,
            "/messages",
            json!({"role": "user", "content": [{"type": "text", "text": "x"}]}),
        );
    }),
    ("'user' or 'assistant'", |b| {
        b["messages"][0]["role"] = json!("system");
    }),
    ("non-empty content", |b| {
        b["messages"][0]["content"] = json!([]);
    }),
    ("non-whitespace", |b| {
        b["messages"][0]["content"][0]["text"] = json!(" \n");
    }),
    ("trailing whitespace", |b| {
        push(
            b,
            "/messages",
            json!({"role": "assistant", "content": [{"type": "text", "text": "Well, "}]}),
        );
    }),
    ("without `tool_result`", |b| {
        remove(b, "/messages/2/content", 0);
    }),
    ("without `tool_result`", |b| {
        remove(b, "/messages", 2);
    }),
    ("single result", |b| {
        let again = b["messages"][2]["content"][0].clone();
        b["messages"][2]["content"]
            .as_array_mut()
            .expect("blocks")
            .insert(0, again);
    }),
    ("unexpected `tool_use_id`", |b| {
        b["messages"][2]["content"][0]["tool_use_id"] = json!("zz");
    }),
    ("come first", |b| {
        b["messages"][2]["content"]
            .as_array_mut()
            .expect("blocks")
            .rotate_right(1);
    }),
    ("tool_use.id", |b| {
        b["messages"][1]["content"][2]["id"] = json!("a b");
    }),
    ("must be unique", |b| {
        b["messages"][1]["content"][2]["id"] = json!("b");
    }),
    ("tool_use.name", |b| {
        b["messages"][1]["content"][2]["name"] = json!("email.send");
    }),
    ("valid dictionary", |b| {
        b["messages"][1]["content"][2]["input"] = json!("{}");
    }),
    ("signature", |b| {
        b["messages"][1]["content"][0]
            .as_object_mut()
            .expect("a block")
            .remove("signature");
    }),
    ("cannot be `thinking`", |b| {
        b["messages"][1]["content"]
            .as_array_mut()
            .expect("blocks")
            .rotate_left(1);
    }),
    ("must define tools", |b| {
        b.as_object_mut().expect("a body").remove("tools");
    }),
    ("names must be unique", |b| {
        let again = b["tools"][0].clone();
        push(b, "/tools", again);
    }),
    ("input_schema.type", |b| {
        b["tools"][0]["input_schema"] = json!({});
    }),
    ("tools.0.name", |b| {
        b["tools"][0]["name"] = json!("email.send");
    }),
    ("key stands outside", |b| {
        b["metadata"] = json!({"user_id": KEY});
    }),
];

/// The same for chat completions.
const CHAT: &[(&str, Damage)] = &[
    ("model parameter", |b| b["model"] = json!("")),
    ("at the same time", |b| {
        b["max_tokens"] = json!(9);
        b["max_completion_tokens"] = json!(9);
    }),
    ("Unrecognized request argument", |b| b["top_n"] = json!(1)),
    ("Expected a value", |b| b["temperature"] = json!(3)),
    ("only allowed when 'stream'", |b| b["stream"] = json!(false)),
    ("Missing required parameter", |b| {
        b["response_format"] = json!({"type": "json_schema"});
    }),
    ("empty array", |b| b["messages"] = json!([])),
    ("at the beginning", |b| {
        push(b, "/messages", json!({"role": "system", "content": "x"}));
    }),
    ("alternate", |b| {
        push(b, "/messages", json!({"role": "user", "content": "x"}));
    }),
    ("alternate", |b| remove(b, "/messages", 1)),
    ("expected a string, got null", |b| {
        b["messages"][1]["content"] = Value::Null;
    }),
    ("Invalid value", |b| {
        b["messages"][1]["role"] = json!("owner");
    }),
    ("did not have response messages", |b| {
        remove(b, "/messages", 3);
    }),
    ("must be a response", |b| {
        b["messages"][3]["tool_call_id"] = json!("zz");
    }),
    ("must be a response", |b| {
        let again = b["messages"][3].clone();
        b["messages"]
            .as_array_mut()
            .expect("messages")
            .insert(3, again);
    }),
    ("did not have response", |b| {
        b["messages"].as_array_mut().expect("messages").swap(5, 6);
    }),
    ("expected a string", |b| {
        b["messages"][3]["content"] = json!({"ok": true});
    }),
    ("string too long", |b| {
        b["messages"][2]["tool_calls"][0]["id"] = json!("a".repeat(41));
    }),
    ("Invalid or repeated id", |b| {
        b["messages"][2]["tool_calls"][0]["id"] = json!("b");
    }),
    ("pattern", |b| {
        b["messages"][2]["tool_calls"][0]["function"]["name"] = json!("email.send");
    }),
    ("expected a string, but got an object", |b| {
        b["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({});
    }),
    ("not a JSON object", |b| {
        b["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!("{");
    }),
    ("empty array", |b| {
        b["messages"][2]["tool_calls"] = json!([]);
    }),
    ("empty array", |b| b["tools"] = json!([])),
    ("only allowed when 'tools'", |b| {
        b.as_object_mut().expect("a body").remove("tools");
    }),
    ("pattern", |b| {
        b["tools"][0]["function"]["name"] = json!("email.send");
    }),
    ("type 'object'", |b| {
        b["tools"][0]["function"]["parameters"] = json!({});
    }),
    ("temperature", |b| {
        b["model"] = json!("o9");
        let limit = b.as_object_mut().expect("a body").remove("max_tokens");
        if let Some(limit) = limit {
            b["max_completion_tokens"] = limit;
        }
    }),
    ("key stands outside", |b| b["model"] = json!(KEY)),
];

#[test]
fn the_judge_of_anthropic_refuses_what_the_api_refuses() {
    refused("anthropic", strict_anthropic::check, ANTHROPIC);
}

#[test]
fn the_judges_of_chat_completions_refuse_what_the_apis_refuse() {
    for id in ["openai", "grok", "openrouter", "compat"] {
        refused(id, strict_openai::check_of(id), CHAT);
    }
}

#[test]
fn the_judges_look_at_heads_too() {
    for (id, check) in JUDGED {
        let (check, whole) = (check(id), seen(id, sound(id).to_string()));
        let status = |head: String| {
            check(&Seen {
                head,
                body: whole.body.clone(),
            })
            .err()
            .map(|refusal| refusal.status)
        };
        assert_eq!(status(whole.head.clone()), None, "{id}");
        assert_eq!(
            status(whole.head.replace(KEY, "")),
            Some(401),
            "{id} without a key"
        );
        assert_eq!(
            status(whole.head.replace("POST /v1", "POST /v9")),
            Some(404),
            "{id} elsewhere"
        );
        assert_eq!(
            status(
                whole
                    .head
                    .replace(" HTTP/1.1", &format!("?key={KEY} HTTP/1.1"))
            ),
            Some(404),
            "{id}"
        );
        assert!(
            status(whole.head.replace("application/json", "text/plain")).is_some(),
            "{id}"
        );
        let broken = check(&Seen {
            body: "{".into(),
            ..whole.clone()
        });
        assert_eq!(
            broken.err().map(|refusal| refusal.status),
            Some(400),
            "{id}"
        );
    }
    let aged = head("anthropic").replace("2023-06-01", "2020-01-01");
    let verdict = strict_anthropic::check(&Seen {
        head: aged,
        body: sound("anthropic").to_string(),
    });
    assert!(verdict.is_err_and(|refusal| refusal.why.contains("anthropic-version")));
}
