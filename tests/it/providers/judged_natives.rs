//! What the adapters `gemini` and `ollama` send, judged; and the two judges, judged by bad requests.

use super::history::any_history;
use super::server::Seen;
use super::strict::Check;
use super::{KEY, adapter, fixture, request, strict_gemini, strict_ollama, tool};
use attache::providers::{OutputSchema, Request, ToolChoice};
use proptest::prelude::*;
use serde_json::{Value, json};

const JUDGED: &[(&str, Check)] = &[
    ("gemini", strict_gemini::check),
    ("ollama", strict_ollama::check),
];

fn seen(id: &str, model: &str, body: String) -> Seen {
    let head = match id {
        "gemini" => format!(
            "POST /v1beta/models/{model}:streamGenerateContent?alt=sse HTTP/1.1\r\nx-goog-api-key: {KEY}\r\n\
             content-type: application/json"
        ),
        _ => format!(
            "POST /api/chat HTTP/1.1\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json"
        ),
    };
    Seen { head, body }
}

fn wire(id: &str, asked: &Request) -> Option<String> {
    adapter(id, "http://127.0.0.1:9").encode_request(asked).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "second tier"]
    fn whatever_was_said_natives_take_what_their_adapters_send(
        history in any_history(),
        has_tools in any::<bool>(),
        last_call in any::<bool>(),
        bound in any::<bool>(),
        model in prop::sample::select(&["model-x", "gemini-2.5-pro"][..]),
    ) {
        let mut asked = Request { messages: history, model: model.to_owned(), ..request("") };
        asked.tools = if has_tools { vec![tool("look")] } else { Vec::new() };
        asked.tool_choice = if last_call { ToolChoice::None } else { ToolChoice::Auto };
        asked.output = bound.then(|| OutputSchema { name: "answer".into(), schema: json!({"type": "object"}) });
        for (id, check) in JUDGED {
            // Nothing but blanks: there is nothing to send.
            let Some(wire) = wire(id, &asked) else { continue };
            let verdict = check(&seen(id, model, wire.clone()));
            prop_assert!(verdict.is_ok(), "{id} refuses: {:?}\n{wire}", verdict.err().map(|refusal| refusal.why));
        }
    }
}

/// A conversation with calls, results and text in one message, as our adapter words it.
fn sound(id: &str) -> Value {
    let text = std::fs::read_to_string(fixture("requests/history.json")).expect("it exists");
    let history: Request = serde_json::from_str(&text).expect("a request");
    serde_json::from_str(&wire(id, &history).expect("sound")).expect("JSON")
}

type Damage = fn(&mut Value);

/// Damages a sound body in one way; the judge must complain in these words.
fn refused(id: &str, check: Check, cases: &[(&str, Damage)]) {
    let whole = sound(id);
    assert!(
        check(&seen(id, "model-x", whole.to_string())).is_ok(),
        "{id}: the body without damage is taken"
    );
    for (complaint, damage) in cases {
        let mut body = whole.clone();
        damage(&mut body);
        assert_ne!(body, whole, "{id}: no damage for `{complaint}`");
        let refusal = check(&seen(id, "model-x", body.to_string())).expect_err(complaint);
        assert!(
            refusal.why.contains(complaint),
            "{id}: `{}` instead of `{complaint}`",
            refusal.why
        );
        assert_eq!(refusal.status, 400, "{complaint}");
    }
}

fn list<'a>(body: &'a mut Value, pointer: &str) -> &'a mut Vec<Value> {
    body.pointer_mut(pointer)
        .and_then(Value::as_array_mut)
        .expect("a list")
}

fn forget(body: &mut Value, pointer: &str, member: &str) {
    body.pointer_mut(pointer)
        .and_then(Value::as_object_mut)
        .expect("an object")
        .remove(member);
}

/// A part of the refusal, and the change to the request that causes it.
type Fault = (&'static str, fn(&mut Value));

const RESPONSE: &str = "/contents/2/parts/0/functionResponse";
/// Faults that Gemini refuses, with a part of its sentence.
const GEMINI_FAULTS: &[Fault] = &[
    ("Unknown name \"n\"", |b| b["n"] = json!(1)),
    ("Unknown name \"max_tokens\"", |b| {
        b["generationConfig"]["max_tokens"] = json!(1);
    }),
    ("max_output_tokens", |b| {
        b["generationConfig"]["maxOutputTokens"] = json!(0);
    }),
    ("temperature", |b| {
        b["generationConfig"]["temperature"] = json!(2.5);
    }),
    ("mime type", |b| {
        b["generationConfig"]["responseJsonSchema"] = json!({});
    }),
    ("only one of", |b| {
        b["generationConfig"]["thinkingConfig"] =
            json!({"thinkingBudget": 1, "thinkingLevel": "low"});
    }),
    ("contents is not specified", |b| b["contents"] = json!([])),
    ("empty system instruction", |b| {
        b["systemInstruction"]["parts"] = json!([]);
    }),
    ("valid role", |b| {
        b["contents"][1]["role"] = json!("assistant");
    }),
    ("alternate", |b| {
        list(b, "/contents").push(json!({"role": "user", "parts": [{"text": "x"}]}));
    }),
    ("alternate", |b| {
        list(b, "/contents").remove(0);
    }),
    ("parts must not be empty", |b| {
        b["contents"][0]["parts"] = json!([]);
    }),
    ("oneof field", |b| {
        b["contents"][0]["parts"][0]["text"] = json!("");
    }),
    ("oneof field", |b| {
        b["contents"][1]["parts"][0]["text"] = json!(" ");
    }),
    ("number of function response parts", |b| {
        list(b, "/contents/2/parts").remove(0);
    }),
    ("number of function response parts", |b| {
        let again = b["contents"][2]["parts"][0].clone();
        list(b, "/contents/2/parts").push(again);
    }),
    ("number of function response parts", |b| {
        // Not in the next content.
        let result = list(b, "/contents/2/parts").remove(0);
        list(b, "/contents").push(json!({"role": "model", "parts": [{"text": "x"}]}));
        list(b, "/contents").push(json!({"role": "user", "parts": [result]}));
    }),
    ("answered", |b| {
        list(b, "/contents").remove(2);
    }),
    ("name does not match", |b| {
        b.pointer_mut(RESPONSE).expect("a result")["name"] = json!("list");
    }),
    ("id does not match", |b| {
        b.pointer_mut(RESPONSE).expect("a result")["id"] = json!("fc-1");
    }),
    ("(Struct)", |b| {
        b.pointer_mut(RESPONSE).expect("a result")["response"] = json!("done");
    }),
    ("(Struct)", |b| {
        b.pointer_mut(RESPONSE).expect("a result")["response"] = json!([1]);
    }),
    ("(Struct)", |b| {
        b["contents"][1]["parts"][1]["functionCall"]["args"] = json!("{}");
    }),
    ("function name", |b| {
        b["contents"][1]["parts"][1]["functionCall"]["name"] = json!("9look");
    }),
    ("never gave", |b| {
        b["contents"][1]["parts"][1]["functionCall"]["id"] = json!("c0_1");
    }),
    ("missing a thought_signature", |b| {
        forget(b, "/contents/1/parts/1", "thoughtSignature");
    }),
    ("Corrupted", |b| {
        b["contents"][1]["parts"][1]["thoughtSignature"] = json!("c2ln");
    }),
    ("Duplicate", |b| {
        let again = b["tools"][0]["functionDeclarations"][0].clone();
        list(b, "/tools/0/functionDeclarations").push(again);
    }),
    ("should not be empty", |b| {
        b["tools"][0]["functionDeclarations"] = json!([]);
    }),
    ("without function_declarations", |b| forget(b, "", "tools")),
    ("'tool_config", |b| {
        b["toolConfig"]["functionCallingConfig"]["mode"] = json!("auto");
    }),
    ("exclusive", |b| {
        b["tools"][0]["functionDeclarations"][0]["parameters"] = json!({});
    }),
    ("additionalProperties", |b| {
        forget(b, "/tools/0/functionDeclarations/0", "parametersJsonSchema");
        b["tools"][0]["functionDeclarations"][0]["parameters"] =
            json!({"type": "object", "additionalProperties": false});
    }),
    ("key stands outside", |b| {
        b["contents"][0]["parts"][0]["text"] = json!(KEY);
    }),
];

#[test]
fn the_judge_of_gemini_refuses_what_the_api_refuses() {
    refused("gemini", strict_gemini::check, GEMINI_FAULTS);
}

#[test]
fn the_judge_of_gemini_looks_at_heads_and_the_age_of_the_model() {
    let whole = seen("gemini", "model-x", sound("gemini").to_string());
    let status = |head: String| {
        let refusal = strict_gemini::check(&Seen {
            head,
            ..whole.clone()
        });
        refusal.err().map(|refusal| refusal.status)
    };
    assert_eq!(status(whole.head.clone()), None);
    assert_eq!(status(whole.head.replace(KEY, "")), Some(403));
    assert_eq!(status(whole.head.replace("?alt=sse", "")), Some(404));
    assert_eq!(status(whole.head.replace("model-x", "a/b")), Some(404));
    assert_eq!(
        status(whole.head.replace("?alt=sse", "?alt=sse&key=x")),
        Some(400)
    );
    assert_eq!(
        status(whole.head.replace("application/json", "text/plain")),
        Some(400)
    );
    let broken = strict_gemini::check(&Seen {
        body: "{".into(),
        ..whole.clone()
    });
    assert_eq!(broken.err().map(|refusal| refusal.status), Some(400));
    let mut body = sound("gemini");
    forget(&mut body, "/contents/1/parts/1", "thoughtSignature");
    let older =
        |body: &Value| strict_gemini::check(&seen("gemini", "gemini-2.5-pro", body.to_string()));
    assert!(
        older(&body).is_ok(),
        "the older models ask for no signature"
    );
    body["generationConfig"]["responseMimeType"] = json!("application/json");
    assert!(older(&body).is_err_and(|refusal| refusal.why.contains("mime type")));
}

/// Faults that Ollama refuses or would get wrong, with a part of the sentence.
const OLLAMA_FAULTS: &[Fault] = &[
    ("model is required", |b| b["model"] = json!("")),
    ("nobody reads `max_tokens`", |b| b["max_tokens"] = json!(1)),
    ("without num_ctx", |b| forget(b, "/options", "num_ctx")),
    ("without num_predict", |b| {
        forget(b, "/options", "num_predict");
    }),
    ("invalid option", |b| b["options"]["num_context"] = json!(1)),
    ("input length exceeds", |b| {
        b["options"]["num_ctx"] = json!(1100);
    }),
    ("forgotten", |b| forget(b, "", "truncate")),
    ("forgotten", |b| b["shift"] = json!(true)),
    ("think value", |b| b["think"] = json!("hard")),
    ("ChatRequest.format", |b| b["format"] = json!("schema")),
    ("cannot call", |b| b["format"] = json!({"type": "object"})),
    ("missing unit", |b| b["keep_alive"] = json!("30")),
    ("messages are required", |b| b["messages"] = json!([])),
    ("invalid role", |b| {
        b["messages"][1]["role"] = json!("owner");
    }),
    ("messages.content", |b| {
        b["messages"][1]["content"] = json!([{"text": "x"}]);
    }),
    ("nobody reads `messages.tool_call_id`", |b| {
        b["messages"][3]["tool_call_id"] = json!("a");
    }),
    ("an empty message", |b| {
        b["messages"][1]["content"] = json!("");
    }),
    ("speaks twice", |b| {
        list(b, "/messages").push(json!({"role": "user", "content": "x"}));
    }),
    ("speaks first", |b| {
        list(b, "/messages").remove(1);
    }),
    ("in the middle", |b| {
        list(b, "/messages").push(json!({"role": "system", "content": "x"}));
    }),
    ("without its call", |b| {
        let result = list(b, "/messages").remove(3);
        list(b, "/messages").insert(2, result);
    }),
    ("not answered before", |b| {
        list(b, "/messages").remove(3);
    }),
    ("not answered at the end", |b| {
        list(b, "/messages").truncate(5);
    }),
    ("not its call's", |b| {
        b["messages"][3]["tool_name"] = json!("list");
    }),
    ("function.arguments", |b| {
        b["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!("{}");
    }),
    ("a call without a name", |b| {
        b["messages"][2]["tool_calls"][0]["function"]["name"] = json!("");
    }),
    ("tool type", |b| b["tools"][0]["type"] = json!("code")),
    ("function.parameters", |b| {
        b["tools"][0]["function"]["parameters"] = json!({});
    }),
    ("key stands outside", |b| b["model"] = json!(KEY)),
];

#[test]
fn ollamas_judge_refuses_what_the_server_refuses_or_gets_wrong() {
    refused("ollama", strict_ollama::check, OLLAMA_FAULTS);
    let whole = seen("ollama", "model-x", sound("ollama").to_string());
    let elsewhere = Seen {
        head: whole.head.replace("/api/chat", "/v1/chat/completions"),
        ..whole
    };
    assert_eq!(
        strict_ollama::check(&elsewhere)
            .err()
            .map(|refusal| refusal.status),
        Some(404)
    );
}
