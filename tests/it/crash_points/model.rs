//! A model behind HTTP that does what a letter's `Q=word` asks for, turn by turn, and counts how often it was asked.

use crate::providers::server::{Reply, Seen, Server, Then};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What one request gets.
pub enum Answer {
    Says(&'static str),
    /// Tools and their arguments.
    Calls(Vec<(&'static str, Value)>),
    /// A status, the first time; the same question gets the next answer.
    FailsOnce(Box<Answer>),
    /// Begins to answer and never ends.
    Hangs,
}

/// The answer to a word in a turn, counted from 0.
pub type Script = fn(&str, usize) -> Answer;

pub struct Model {
    pub server: Server,
    /// Requests by `word turn`.
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Model {
    pub async fn start(script: Script) -> Self {
        let asked: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let counted = asked.clone();
        let server = Server::answering(move |seen, _| {
            let (word, turn) = question(seen);
            let mut asked = counted.lock().expect("no test failed in here");
            let times = asked.entry(format!("{word} {turn}")).or_default();
            *times += 1;
            reply(script(&word, turn), *times)
        });
        Self {
            server: server.await,
            asked,
        }
    }

    pub fn asked(&self) -> BTreeMap<String, usize> {
        self.asked.lock().expect("no test failed in here").clone()
    }
}

/// The word of the newest letter in a request, and how often it was answered already.
fn question(seen: &Seen) -> (String, usize) {
    let body: Value = serde_json::from_str(&seen.body).expect("a JSON body");
    let messages = body["messages"].as_array().expect("messages");
    let word = |message: &Value| -> Option<String> {
        let text = message["content"]
            .as_str()
            .filter(|_| message["role"] == "user")?;
        let (_, rest) = text.rsplit_once("Q=")?;
        Some(
            rest.chars()
                .take_while(char::is_ascii_alphanumeric)
                .collect(),
        )
    };
    let (at, word) = messages
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, message)| word(message).map(|word| (at, word)))
        .unwrap_or_else(|| panic!("no question in {}", seen.body));
    let turn = messages[at..]
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    (word, turn)
}

fn reply(answer: Answer, times: usize) -> Reply {
    match answer {
        Answer::Says(text) => stream(&json!({ "content": text }), "stop"),
        Answer::Calls(calls) => calling(&calls),
        Answer::FailsOnce(_) if times == 1 => {
            Reply::new(500, &[], r#"{"error":{"message":"the model stumbled"}}"#)
        }
        Answer::FailsOnce(then) => reply(*then, times - 1),
        Answer::Hangs => {
            let delta = json!({ "choices": [{ "index": 0, "delta": { "content": "Well, " } }] });
            Reply::chunked(&format!("data: {delta}\n\n"), Then::Hold)
        }
    }
}

/// An answer that calls tools.
pub fn calling(calls: &[(&str, Value)]) -> Reply {
    let call = |(index, (name, args)): (usize, &(&str, Value))| {
        let function = json!({ "name": name, "arguments": args.to_string() });
        json!({ "index": index, "id": format!("call_{index}"), "type": "function", "function": function })
    };
    let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
    stream(&json!({ "tool_calls": calls }), "tool_calls")
}

fn stream(delta: &Value, reason: &str) -> Reply {
    let delta = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let usage =
        json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 10 } });
    Reply::stream(&format!(
        "data: {delta}\n\ndata: {usage}\n\ndata: [DONE]\n\n"
    ))
}
