//! Checks every claim of the demo against rows, files, and the mails as another program parses
//! them.

use super::visit::{DemoExchange, FIRST_ID, GUEST, SAMPLE, SECOND_ID, SECOND_QUESTION};
use crate::replay::RunRecord;
use serde::Serialize;

/// One claim, with `true` when it holds.
#[derive(Serialize)]
pub struct DemoClaim {
    pub what: String,
    pub holds: bool,
}

/// A station of the letter's path and the claims about it.
#[derive(Serialize)]
pub struct Station {
    pub name: &'static str,
    pub claims: Vec<DemoClaim>,
}

fn claim(what: impl Into<String>, holds: bool) -> DemoClaim {
    DemoClaim {
        what: what.into(),
        holds,
    }
}

/// All stations of both exchanges, in the order in which a letter passes them.
pub fn stations([first, second]: &[DemoExchange; 2]) -> Vec<Station> {
    vec![
        Station {
            name: "gateway: the letter comes in over SMTP",
            claims: arrival(first),
        },
        Station {
            name: "context: what the model is told",
            claims: context(first),
        },
        Station {
            name: "model and tools: a call fails, the model mends it",
            claims: work(first),
        },
        Station {
            name: "outbox: the answer goes out",
            claims: delivery(first, FIRST_ID),
        },
        Station {
            name: "thread: the guest writes again",
            claims: memory(first, second),
        },
        Station {
            name: "outbox: the second answer goes out",
            claims: delivery(second, SECOND_ID),
        },
    ]
}

fn arrival(exchange: &DemoExchange) -> Vec<DemoClaim> {
    let letter = &exchange.run.trigger;
    let stored = exchange
        .spoken
        .iter()
        .rev()
        .find(|spoken| spoken.by_server && spoken.line.starts_with("250"));
    let attached = letter
        .attachments
        .iter()
        .any(|a| a.filename == "timetable.csv" && a.size_bytes > 0);
    let is_named = exchange.answer.text.contains("timetable.csv");
    let quoted = "room 5 is yours";
    vec![
        claim(
            "the server said 250, and letter and run are in the database",
            stored.is_some(),
        ),
        claim(
            "its attachment timetable.csv is kept; the model is told its name",
            attached && is_named,
        ),
        claim(
            "what it quotes stays in it: no letter here holds that",
            letter.text.contains(quoted) && letter.fresh_text.is_none(),
        ),
    ]
}

fn context(exchange: &DemoExchange) -> Vec<DemoClaim> {
    let entries = exchange
        .run
        .context
        .as_ref()
        .map(|context| context.entries.as_slice())
        .unwrap_or_default();
    let uses = |resolver: &str| {
        entries
            .iter()
            .any(|e| e.resolver == resolver && e.outcome == "used")
    };
    let tokens: u64 = entries.iter().map(|entry| entry.tokens).sum();
    let assembled = format!("persona, knowledge and letter are in it, about {tokens} tokens");
    let all = [
        "persona",
        "knowledge",
        "invocation-metadata",
        "current-input",
    ];
    let offered: Vec<&str> = tools_of(&exchange.run);
    let known = crate::tools::builtin();
    let reads = |effects: crate::tools::Effects| {
        !(effects.sends_out || effects.changes_state || effects.runs_code)
    };
    let is_reader = |name: &&str| known.find(name).is_some_and(|tool| reads(tool.effects()));
    let only_reads = offered.contains(&"search_email") && offered.iter().all(is_reader);
    vec![
        claim(assembled, all.into_iter().all(uses)),
        claim(
            "the letter has no signature: the persona's notes stay out of it, and its tools only read",
            !uses("active-memory") && only_reads,
        ),
        claim(
            "the first letter of a thread has no history",
            !uses("thread-history"),
        ),
    ]
}

/// Names of the tools that the model was offered.
fn tools_of(run: &RunRecord) -> Vec<&str> {
    let tools = run
        .turns
        .first()
        .and_then(|turn| turn.request["tools"].as_array());
    tools
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["name"].as_str())
        .collect()
}

fn work(exchange: &DemoExchange) -> Vec<DemoClaim> {
    let run = &exchange.run;
    let trace: Vec<String> = run
        .calls
        .iter()
        .map(|call| format!("{} {}", call.tool, ending(call)))
        .collect();
    let wanted = ["read_file file_not_found", "read_file ok"];
    let answered = run
        .turns
        .iter()
        .filter(|turn| turn.state == "answered")
        .count();
    let stop = run.run.stop_reason.as_deref().unwrap_or_default();
    vec![
        claim(format!("the calls: {}", trace.join(", ")), trace == wanted),
        claim(
            format!("after {answered} turns the run {} ({stop})", run.run.state),
            answered == 3 && run.run.state == "succeeded" && stop == "answered",
        ),
    ]
}

fn ending(call: &crate::replay::CallRecord) -> String {
    match &call.result {
        None => "without a result".to_owned(),
        Some(_) if call.succeeded() => "ok".to_owned(),
        Some(result) => result["error"]["code"]
            .as_str()
            .unwrap_or("failed")
            .to_owned(),
    }
}

/// Claims about the answer as the guest's mail program reads it.
fn delivery(exchange: &DemoExchange, letter: &str) -> Vec<DemoClaim> {
    let (answer, file) = (
        &exchange.answer,
        exchange
            .file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy(),
    );
    let delivery = exchange
        .run
        .mails
        .iter()
        .find_map(|mail| mail.delivery.as_ref());
    let delivered = delivery.is_some_and(|delivery| {
        delivery.state == "done" && delivery.recipients.iter().all(|to| to.state == "delivered")
    });
    let stored = exchange
        .run
        .mails
        .first()
        .map(|mail| mail.message.rfc_message_id.as_str());
    let to_guest = answer.to.iter().any(|to| to.spec == GUEST) && answer.to.len() == 1;
    let from_sample = answer.from.iter().any(|from| from.spec == SAMPLE);
    vec![
        claim(
            format!("delivered to {GUEST} as data/outbox/{file}"),
            delivered && to_guest && from_sample,
        ),
        claim(
            "In-Reply-To and References lead to the letter",
            answer.in_reply_to == [letter]
                && answer.references.last().map(String::as_str) == Some(letter),
        ),
        claim(
            "its Message-ID is the one that is stored, and it says that a machine wrote it",
            stored.is_some()
                && answer.message_id.as_deref() == stored
                && answer.automatic.auto_submitted.as_deref() == Some("auto-replied"),
        ),
    ]
}

fn memory(first: &DemoExchange, second: &DemoExchange) -> Vec<DemoClaim> {
    let prompt = first_prompt(&second.run);
    let answer = &first
        .run
        .mails
        .first()
        .map(|mail| mail.message.text.clone())
        .unwrap_or_default();
    let shown = [
        "Can we still get in",
        "late-arrivals.md",
        "opening-hours.md",
        SECOND_QUESTION,
    ];
    let says_answer = answer
        .lines()
        .filter(|line| line.contains("key box"))
        .all(|line| prompt.contains(line));
    let calls = second.run.calls.len();
    vec![
        claim(
            "it joins the first letter's thread",
            first.run.run.thread == second.run.run.thread,
        ),
        claim(
            "the model is shown the first letter, its tool calls and the first answer",
            says_answer && !answer.is_empty() && shown.iter().all(|text| prompt.contains(text)),
        ),
        claim(
            "it needs no tool to answer",
            calls == 0
                && second.run.run.state == "succeeded"
                && second.answer.text.contains("18:00"),
        ),
    ]
}

/// All text of the exact first request of a run.
fn first_prompt(run: &RunRecord) -> String {
    fn collect(value: &serde_json::Value, text: &mut String) {
        match value {
            serde_json::Value::String(piece) => {
                text.push_str(piece);
                text.push('\n');
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, text)),
            serde_json::Value::Object(members) => {
                members.values().for_each(|member| collect(member, text));
            }
            _ => {}
        }
    }
    let mut text = String::new();
    if let Some(turn) = run.turns.first() {
        // Names of tools that are only offered would prove nothing.
        collect(&turn.request["messages"], &mut text);
    }
    text
}
