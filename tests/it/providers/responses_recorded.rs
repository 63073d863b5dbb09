//! Answers of the Responses API that other projects recorded, where somebody has put them into `responses.json` of the corpus:
//! each is read as its oracle reads it, and what goes back after its calls is what came.

use super::recordings::{differences, reply};
use super::server::Server;
use super::{KEY, context, request};
use crate::corpora::corpus;
use attache::config::{ChatApi, ChatSwitches, ProviderSettings};
use attache::providers::{Block, Message, Provider, Response, Role, build, complete};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn provider(dialect: &str, url: &str) -> Box<dyn Provider> {
    let settings = ProviderSettings {
        base_url: Some(url.to_owned()),
        api_key: Some(KEY.into()),
        chat: ChatSwitches {
            api: ChatApi::Responses,
            ..ChatSwitches::default()
        },
        ..ProviderSettings::default()
    };
    build(dialect, &settings).expect("loopback is allowed")
}

/// The items of an answer's output, as a request may hold them; `None` where it has none.
fn output(body: &str) -> Option<Vec<Value>> {
    let response = match serde_json::from_str::<Value>(body) {
        Ok(response) => response,
        Err(_) => {
            let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
            let mut events =
                data.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
            let is_last = |event: &Value| {
                event["type"] == "response.completed" || event["type"] == "response.incomplete"
            };
            events.find(is_last)?["response"].clone()
        }
    };
    let items = response["output"]
        .as_array()
        .filter(|items| !items.is_empty())?;
    Some(items.iter().filter_map(returned).collect())
}

/// An item of the output as it has to come back; ids of messages and calls are the server's own.
fn returned(item: &Value) -> Option<Value> {
    let is_said = |value: &Value| !value.is_null() && *value != json!([]);
    match item["type"].as_str()? {
        "reasoning" => {
            let seals = item["encrypted_content"]
                .as_str()
                .is_some_and(|text| !text.is_empty());
            let members = ["id", "summary", "content", "encrypted_content"];
            let mut kept = json!({"type": "reasoning"});
            for name in members {
                if name == "summary" || is_said(&item[name]) {
                    kept[name] = item[name].clone();
                }
            }
            (seals || is_said(&item["content"])).then_some(kept)
        }
        "message" => {
            let parts = item["content"].as_array()?.iter();
            let text: String = parts
                .filter_map(|part| part["text"].as_str().or(part["refusal"].as_str()))
                .collect();
            let mut kept = json!({"type": "message", "role": "assistant", "content": text});
            if is_said(&item["phase"]) {
                kept["phase"] = item["phase"].clone();
            }
            (!text.trim().is_empty()).then_some(kept)
        }
        "function_call" => {
            let raw = item["arguments"].as_str()?;
            // An answer that was cut inside a call: the model reads what it wrote.
            let args = serde_json::from_str::<Value>(raw)
                .unwrap_or_else(|_| json!({ "malformed_arguments": raw }));
            Some(json!({"type": "function_call", "name": item["name"], "arguments": args}))
        }
        _ => None,
    }
}

/// What the next request holds of an answer.
fn sent_back(provider: &dyn Provider, response: &Response) -> Vec<Value> {
    let result = |(id, name, _): (&str, &str, &_)| Block::ToolResult {
        call_id: id.to_owned(),
        name: name.to_owned(),
        content: "{}".into(),
        is_error: false,
    };
    let mut asked = request("hello");
    let results = response.calls().map(result).collect();
    for (role, blocks) in [
        (Role::Assistant, response.blocks.clone()),
        (Role::User, results),
    ] {
        asked.messages.push(Message { role, blocks });
    }
    let wire = provider.encode_request(&asked).expect("sound");
    let body: Value = serde_json::from_str(&wire).expect("JSON");
    let items = body["input"].as_array().expect("items").iter().skip(1);
    let ours = items.filter(|item| item["type"] != "function_call_output");
    let plain = |item: &Value| {
        let mut item = item.clone();
        if item["type"] == "function_call" {
            let args = item["arguments"].as_str().unwrap_or_default().to_owned();
            item["arguments"] = serde_json::from_str(&args).expect("an object");
            item.as_object_mut().expect("an item").remove("call_id");
        }
        item
    };
    ours.map(plain).collect()
}

#[tokio::test]
async fn recorded_answers_of_the_responses_api_are_read_and_go_back_whole() {
    let Some(folder) = corpus("providers") else {
        return;
    };
    let Ok(text) = std::fs::read_to_string(folder.join("responses.json")) else {
        eprintln!("SKIPPED: no `responses.json` in the corpus of providers");
        return;
    };
    let recordings: Vec<Value> = serde_json::from_str(&text).expect("a list of recordings");
    let (mut tally, mut wrong) = (BTreeMap::<String, (u32, u32)>::new(), Vec::new());
    let (mut returned, mut reasoned) = (0, 0);
    for recording in &recordings {
        let dialect = recording["dialect"].as_str().expect("a dialect");
        let server = Server::start(vec![reply(recording)]).await;
        let provider = provider(dialect, &server.url);
        let wire = provider.encode_request(&request("hello")).expect("sound");
        let outcome = complete(&*provider, &wire, context()).await;
        let mut found = differences(&recording["expected"], &outcome);
        if let Ok(response) = &outcome
            && response.calls().count() > 0
            && let Some(expected) = output(recording["response"]["body"].as_str().expect("a body"))
        {
            let own = sent_back(&*provider, response);
            returned += 1;
            reasoned += u32::from(own.iter().any(|item| item["type"] == "reasoning"));
            if own != expected {
                found.push(format!("sent back: {own:?} and not {expected:?}"));
            }
        }
        let kind = format!("{dialect} {}", recording["kind"].as_str().expect("a kind"));
        let count = tally.entry(kind).or_default();
        count.1 += 1;
        count.0 += u32::from(found.is_empty());
        if !found.is_empty() {
            wrong.push(format!(
                "{} ({}): {}",
                recording["id"],
                recording["vendor"],
                found.join("; ")
            ));
        }
    }
    println!("responses: {tally:?}; {returned} sent back, {reasoned} with reasoning");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
