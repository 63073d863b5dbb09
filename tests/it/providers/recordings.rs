//! Answers of model APIs through the real adapters over a loopback connection, against what a careful reader makes of them
//! (`expected`): those that other projects recorded, used in place and skipped aloud where they are absent, and `quirks.jsonl`,
//! which is made up and holds each habit of a vendor that was once misread.

use super::server::{Reply, Server};
use super::{KEY, context, fixture, request};
use crate::app::{Workspace, note};
use crate::corpora::corpus;
use attache::config::ProviderSettings;
use attache::domain::Email;
use attache::providers::{
    Block, FinishReason, Provider, ProviderError, Response, ToolArgs, build, complete,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const DIALECTS: &[&str] = &[
    "anthropic",
    "compat",
    "gemini",
    "grok",
    "ollama",
    "openai",
    "openrouter",
];
/// Recordings that are read otherwise than the oracle reads them, and why that is right.
const EXPLAINED: &[(&str, &str)] = &[
    ("compat-785b7b0c31446088", CALL_UNREAD),
    ("compat-936db49e4ca0cd3e", CALL_UNREAD),
    ("compat-95dfd61c038ae533", CALL_UNREAD),
    (
        "gemini-504074fe41b3a321",
        "MODEL_ARMOR is a refusal; the oracle passes the vendor's word on",
    ),
];
/// Recorded answers that are no letters, or not only: what was recorded is not what is mailed.
const NO_LETTERS: &[&str] = &[
    "anthropic-f4ca24e0db2b0d89", // JSON, for a draft
    "compat-48d7051b62f9469e",    // the marks of a template, and a next turn
    "compat-78afcd013d8c6786",    // a thought that never ends
    "ollama-c29793600b593544",    // a thought before the letter
];
const CALL_UNREAD: &str =
    "Groq's tool_use_failed: the model is told that its call could not be read, and asked again";

/// The recordings of a dialect; `None` without the corpus.
pub fn recordings(dialect: &str) -> Option<Vec<Value>> {
    let file = corpus("providers")?.join(format!("{dialect}.json"));
    let text = std::fs::read_to_string(&file).expect("a file of the corpus");
    Some(serde_json::from_str(&text).expect("a list of recordings"))
}

/// The recorded answer as its server sent it.
pub fn reply(recording: &Value) -> Reply {
    let response = &recording["response"];
    let status = u16::try_from(response["status"].as_u64().expect("a status")).expect("a status");
    let headers = response["headers"].as_object().into_iter().flatten();
    let headers = headers.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    // The length is that of the body as it is here; the rest is about the recorder's own connection.
    let kept = headers.filter(|(name, _)| {
        ![
            "content-length",
            "content-encoding",
            "transfer-encoding",
            "connection",
        ]
        .contains(&name.to_ascii_lowercase().as_str())
    });
    Reply::new(
        status,
        &kept.collect::<Vec<_>>(),
        response["body"].as_str().expect("a body"),
    )
}

async fn ask(dialect: &str, recording: &Value) -> Result<Response, ProviderError> {
    let server = Server::start(vec![reply(recording)]).await;
    let settings = ProviderSettings {
        base_url: Some(server.url.clone()),
        api_key: Some(KEY.into()),
        ..ProviderSettings::default()
    };
    let provider: Box<dyn Provider> = build(dialect, &settings).expect("loopback is allowed");
    let wire = provider.encode_request(&request("hello")).expect("sound");
    complete(&*provider, &wire, context()).await
}

/// What differs from the oracle, each with both readings.
pub fn differences(expected: &Value, outcome: &Result<Response, ProviderError>) -> Vec<String> {
    let response = match (outcome, expected.get("error")) {
        (Err(error), Some(_)) => {
            let classes = expected["class"].as_array();
            let is_right =
                classes.is_none_or(|classes| classes.contains(&json!(error.class.as_str())));
            return if is_right {
                Vec::new()
            } else {
                vec![format!("class: {error:?}")]
            };
        }
        (Err(error), None) => return vec![format!("failed: {}: {error}", error.class)],
        (Ok(_), Some(_)) => return vec!["an error was taken for an answer".to_owned()],
        (Ok(response), None) => response,
    };
    let thought = |block: &Block| match block {
        Block::Thinking { text, .. } => Some(text.clone()),
        _ => None,
    };
    let args = |args: &ToolArgs| match args {
        ToolArgs::Object(map) => json!(map),
        ToolArgs::Malformed { raw, .. } => json!({ "__malformed__": raw }),
    };
    let usage = response.usage;
    let used = json!({
        "input": usage.input_tokens, "cache_read": usage.cache_read_tokens, "cache_write": usage.cache_write_tokens,
        "output": usage.output_tokens, "reasoning": usage.reasoning_tokens, "cost": usage.cost_micros,
    });
    let calls: Vec<Value> = response
        .calls()
        .map(|(_, name, a)| json!([name, args(a)]))
        .collect();
    #[rustfmt::skip]
    let own = [
        ("text", json!(response.text())),
        ("thinking", json!(response.blocks.iter().filter_map(thought).collect::<String>())),
        ("calls", json!(calls)),
        ("stop", serde_json::to_value(&response.stop).expect("a stop is JSON")),
        ("usage", if usage.estimated && expected["usage"].is_null() { Value::Null } else { used }),
        ("model", json!(response.model_served)),
    ];
    let wrong = own.into_iter().filter(|(what, own)| match *what {
        // Nobody said why it stopped: then what it holds tells.
        "stop" if expected["stop"].is_null() => {
            let wanted = if calls.is_empty() {
                FinishReason::EndTurn
            } else {
                FinishReason::ToolUse
            };
            response.stop != wanted
        }
        "usage" => differs(&expected["usage"], own, usage.estimated),
        what => expected[what] != *own,
    });
    wrong
        .map(|(what, own)| format!("{what}: {own} and not {}", expected[what]))
        .collect()
}

/// Whether a number that the oracle gives is another one here. A count that the vendor left out is 0 there and an estimate
/// here, which says that it is one.
fn differs(expected: &Value, own: &Value, is_estimated: bool) -> bool {
    match expected.as_object() {
        None => expected != own,
        Some(numbers) => numbers.iter().any(|(name, number)| match name.as_str() {
            // Dollars there, whole micro-dollars rounded up here.
            "cost" => number.as_f64().is_some_and(|cost| {
                let own = own["cost"].as_f64().expect("a cost");
                own < cost * 1e6 - 1e-3 || own >= cost * 1e6 + 1.0
            }),
            _ if is_estimated && number.as_u64() == Some(0) => false,
            name => !number.is_null() && own.get(name) != Some(number),
        }),
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn recorded_answers_are_read_as_their_oracle_reads_them() {
    let explained: BTreeMap<&str, &str> = EXPLAINED.iter().copied().collect();
    let (mut total, mut wrong, mut excused) = (0, Vec::new(), 0);
    for dialect in DIALECTS {
        let Some(recordings) = recordings(dialect) else {
            return;
        };
        let (mut tally, mut agree) = (BTreeMap::<String, (u32, u32)>::new(), 0);
        for recording in &recordings {
            let id = recording["id"].as_str().expect("an id");
            let outcome = ask(dialect, recording).await;
            let found = differences(&recording["expected"], &outcome);
            let kind = tally
                .entry(recording["kind"].as_str().expect("a kind").to_owned())
                .or_default();
            kind.1 += 1;
            match (found.is_empty(), explained.get(id)) {
                (true, None) => {
                    kind.0 += 1;
                    agree += 1;
                }
                (true, Some(_)) => wrong.push(format!(
                    "{id} is explained and agrees: take it from the list"
                )),
                (false, Some(_)) => excused += 1,
                (false, None) => wrong.push(format!(
                    "{id} ({}): {}",
                    recording["vendor"],
                    found.join("; ")
                )),
            }
        }
        let kinds: Vec<_> = tally
            .iter()
            .map(|(kind, (good, all))| format!("{kind} {good} of {all}"))
            .collect();
        println!(
            "{dialect}: {agree} of {} ({})",
            recordings.len(),
            kinds.join(", ")
        );
        total += recordings.len();
    }
    println!(
        "{total} recordings: {} differ and are explained, {} differ",
        excused,
        wrong.len()
    );
    assert!(total > 500, "the corpus has only {total} recordings");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        excused * 100 <= total,
        "more than one in a hundred is only explained"
    );
}

#[tokio::test]
async fn every_habit_of_a_vendor_that_was_once_misread_is_read() {
    let lines = std::fs::read_to_string(fixture("quirks.jsonl")).expect("it exists");
    let mut wrong = Vec::new();
    for line in lines.lines() {
        let quirk: Value = serde_json::from_str(line).expect("a case");
        let outcome = ask(quirk["dialect"].as_str().expect("a dialect"), &quirk).await;
        let mut found = differences(&quirk["expected"], &outcome);
        if let (Some(said), Err(error)) = (quirk["says"].as_str(), &outcome)
            && !error.message.contains(said)
        {
            found.push(format!("{} and nothing of {said:?}", error.message));
        }
        if !found.is_empty() {
            wrong.push(format!(
                "{} ({}): {}",
                quirk["case"],
                quirk["dialect"],
                found.join("; ")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        lines.lines().count(),
        wrong.join("\n")
    );
}

/// A workspace whose letters are answered by that server, asked once a turn.
fn house(dialect: &str, url: &str) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    let provider = if dialect == "compat" {
        "compat:house"
    } else {
        dialect
    };
    let block = json!({ "base_url": url, "api_key_variable": "HOUSE_KEY" });
    workspace.write_json(
        "configs/inference.json",
        &json!({
            "provider": provider, "model": "model-x", "retry": { "call_attempts_max": 1 },
            "providers": { provider: block },
        }),
    );
    workspace.write(".secrets", &format!("HOUSE_KEY={KEY}\n"));
    super::threads::restrict(&workspace.path().join(".secrets"));
    workspace
}

/// What must become of a letter that is answered so: the state of its run, and a class where it fails.
fn outcome(expected: &Value) -> (&'static [&'static str], Vec<String>) {
    let has_text = expected["text"]
        .as_str()
        .is_some_and(|text| !text.trim().is_empty());
    let classes = |classes: &[&str]| classes.iter().map(|class| (*class).to_owned()).collect();
    match (expected.get("error"), expected["stop"].as_str()) {
        (Some(_), _) => {
            let wanted = expected["class"].as_array().into_iter().flatten();
            (
                &["failed", "waiting_retry"],
                wanted
                    .filter_map(|c| c.as_str().map(str::to_owned))
                    .collect(),
            )
        }
        (None, Some("refused")) => (&["failed"], classes(&["content_filter"])),
        (None, _) if has_text => (&["succeeded"], Vec::new()),
        (None, Some("max_tokens")) => (&["failed"], classes(&["output_limit"])),
        (None, _) => (&["failed"], classes(&["protocol", "content_filter"])),
    }
}

/// Letters and digits: what marks and line breaks of Markdown leave.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_letter_answered_by_recording_ends_with_a_mail_or_a_notice() {
    let explained: Vec<&str> = EXPLAINED.iter().map(|(id, _)| *id).collect();
    let (mut total, mut wrong) = (BTreeMap::<&str, u32>::new(), Vec::new());
    for dialect in DIALECTS {
        let Some(recordings) = recordings(dialect) else {
            return;
        };
        let ends = |recording: &&Value| {
            let expected = &recording["expected"];
            let calls = expected["calls"]
                .as_array()
                .is_some_and(|calls| !calls.is_empty());
            !calls && !explained.contains(&recording["id"].as_str().expect("an id"))
        };
        let is_silent = |r: &Value| {
            outcome(&r["expected"])
                .1
                .contains(&"output_limit".to_owned())
        };
        // Every answer that used up its length, and a sample of the others.
        let chosen = recordings
            .iter()
            .filter(ends)
            .enumerate()
            .filter(|(at, r)| at % 9 == 0 || is_silent(r));
        for (_, recording) in chosen {
            let expected = &recording["expected"];
            let server = Server::start(vec![reply(recording)]).await;
            let app = house(dialect, &server.url).start().await;
            let run = app
                .run_of(&note("q@guest.example", "", "When is breakfast?"))
                .await;
            app.drain().await;
            let (state, stop, class) = app.outcome(&run).await;
            let (states, classes) = outcome(expected);
            let is_class = match &class {
                Some(class) => {
                    classes.is_empty() && state != "succeeded" || classes.contains(class)
                }
                None => state == "succeeded",
            };
            let wanted = plain(expected["text"].as_str().unwrap_or_default());
            let mails = app.sent();
            if NO_LETTERS.contains(&recording["id"].as_str().unwrap_or_default()) {
                let is_bare = |mail: &Email| {
                    !["<think>", "<|im_", "{\""]
                        .iter()
                        .any(|mark| mail.text.contains(mark))
                };
                assert!(mails.iter().all(is_bare), "{mails:?}");
                continue;
            }
            let is_mailed = match state.as_str() {
                "succeeded" => mails.iter().any(|mail| {
                    let beginning: String = wanted.chars().take(40).collect();
                    plain(&mail.text).contains(&beginning)
                }),
                _ => mails.is_empty(),
            };
            let sql = "SELECT CAST(count(*) AS TEXT) FROM notices WHERE $1 = $1";
            let facts = app.row(sql, "").await;
            let is_listed = state != "failed" || facts[0].as_deref() == Some("1");
            if !(states.contains(&state.as_str()) && is_class && is_mailed && is_listed) {
                let id = &recording["id"];
                wrong.push(format!(
                    "{id}: {state} {stop:?} {class:?}, {} mails, told: {is_listed}",
                    mails.len()
                ));
            }
            *total.entry(dialect).or_default() += 1;
        }
    }
    println!(
        "letters by dialect: {total:?}; {} went another way",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
