//! What a vendor's cache can serve: the beginning of a request of a thread is byte for byte that of the letter before, and
//! what the cache served is counted and priced.

use super::instances::answer;
use super::server::{Reply, Seen, Server};
use super::strict::say;
use super::{strict_openai, strict_responses, threads};
use crate::app::{TestApp, Workspace, proven_note as note};
use serde_json::{Value, json};
use std::time::Duration;

/// A request in the order in which vendors cache: tools, system, then the parts of the messages, without the marks.
fn parts(seen: &Seen) -> Vec<String> {
    let mut body: Value = serde_json::from_str(&seen.body).expect("JSON");
    unmark(&mut body);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let messages = list(&body["messages"]).into_iter().flat_map(|message| {
        let role = message["role"].clone();
        let parts = match &message["content"] {
            Value::Array(parts) => parts.clone(),
            content => vec![message["tool_calls"].clone(), content.clone()],
        };
        parts.into_iter().map(move |part| json!([role, part]))
    });
    let all = list(&body["tools"])
        .into_iter()
        .chain(list(&body["system"]))
        .chain(messages);
    all.map(|part| part.to_string()).collect()
}

fn unmark(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("cache_control");
            members.values_mut().for_each(unmark);
        }
        Value::Array(items) => items.iter_mut().for_each(unmark),
        _ => {}
    }
}

/// Length of the common beginning of two requests, in parts.
fn common(one: &[String], two: &[String]) -> usize {
    one.iter().zip(two).take_while(|(a, b)| a == b).count()
}

/// Places of the marks among the parts.
fn marks(seen: &Seen) -> Vec<usize> {
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let messages = list(&body["messages"]).into_iter();
    let messages = messages.flat_map(|message| list(&message["content"]));
    let all = list(&body["tools"])
        .into_iter()
        .chain(list(&body["system"]))
        .chain(messages);
    let marked = all
        .enumerate()
        .filter(|(_, part)| part.get("cache_control").is_some());
    marked.map(|(place, _)| place).collect()
}

/// A workspace with the standing texts and the pipeline that `attache init` writes.
fn shipped(provider: &str, url: &str) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    workspace.write(
        "configs/prompts/system.md",
        include_str!("../../../configs/prompts/system.md"),
    );
    workspace.write(
        "configs/prompts/security.md",
        include_str!("../../../configs/prompts/security.md"),
    );
    workspace.write(
        "configs/context.json",
        include_str!("../../../configs/context.json"),
    );
    workspace.write(
        "personas/ada/knowledge/parking.md",
        "# Parking\n\nTwo cars in the yard.\n",
    );
    let inference = json!({
        "provider": provider, "model": "claude-x",
        "providers": { provider: { "base_url": url } },
    });
    workspace.write_json("configs/inference.json", &inference);
    let price = json!({ "provider": "*", "model": "*", "input": 10, "output": 0, "cache_read": 1, "cache_write": 12.5 });
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "t", "prices": [price] }),
    );
    workspace
}

/// A letter of the thread that the first one began.
fn reply(id: &str, first: &str, text: &str) -> String {
    note(
        id,
        &format!("In-Reply-To: <{first}>\nReferences: <{first}>\n"),
        text,
    )
}

/// Three letters of one thread, an hour and days apart, while the memory changes.
async fn three_letters(app: &TestApp) -> Vec<String> {
    let mut runs = vec![
        app.run_of(&note("1@guest.example", "", "When is breakfast?"))
            .await,
    ];
    app.drain().await;
    for (id, text) in [
        ("2@guest.example", "And where do I park?"),
        ("3@guest.example", "Is breakfast in the yard?"),
    ] {
        app.workspace.clock.advance(Duration::from_secs(3600));
        app.workspace
            .write("personas/ada/active.md", &format!("- Asked before {id}.\n"));
        runs.push(app.run_of(&reply(id, "1@guest.example", text)).await);
        app.drain().await;
    }
    runs
}

#[tokio::test]
async fn a_later_letter_of_a_thread_begins_as_the_one_before_up_to_its_input() {
    let usage = json!({ "input_tokens": 100, "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 400, "output_tokens": 1 });
    let cached = move |_: &Seen, _: usize| -> Reply { answer("As you say.", &usage) };
    let server = Server::answering(cached).await;
    let app = shipped("anthropic:cached", &server.url).start().await;
    let runs = three_letters(&app).await;
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    let [one, two, three] = [0, 1, 2].map(|at| parts(&seen[at]));
    // The last part of each is its own letter; everything before it is shared.
    assert_eq!(common(&one, &two), one.len() - 1, "{one:#?}\n{two:#?}");
    assert_eq!(common(&two, &three), two.len() - 1, "{two:#?}\n{three:#?}");
    assert!(two.len() >= one.len() + 2 && three.len() >= two.len() + 2);
    // Nothing that changes stands in what is shared.
    let shared = three[..two.len() - 1].concat();
    let message = app
        .row(
            "SELECT trigger_message_id FROM runs WHERE id = $1",
            &runs[2],
        )
        .await;
    let message = message[0].clone().expect("an id");
    for changing in [
        runs[2].as_str(),
        &message,
        "Today is",
        "Asked before",
        "</invocation>",
    ] {
        assert!(!shared.contains(changing), "{changing}");
    }
    // All of a small folder of knowledge is the same for each letter.
    assert!(shared.contains("From seven to ten") && shared.contains("Two cars in the yard"));
    let own = three.last().expect("a part");
    assert!(own.contains("Asked before 3@guest"), "{own}");
    // At most four marks: tools, system, the thread's past, the end.
    for (seen, parts) in seen.iter().zip([&one, &two, &three]) {
        let marks = marks(seen);
        assert!(
            marks.len() <= 4 && marks.last() == Some(&(parts.len() - 1)),
            "{marks:?}"
        );
    }
    assert!(
        marks(&seen[1]).contains(&(two.len() - 2)) && marks(&seen[2]).contains(&(three.len() - 2))
    );
    // 100 * 10 + 2000 * 1 + 400 * 12.5 micro-dollars.
    let row = "SELECT CAST(cost_micros AS TEXT), CAST(cache_read_tokens AS TEXT), CAST(cache_write_tokens AS TEXT) FROM runs WHERE id = $1";
    let counted = app.row(row, &runs[2]).await;
    assert_eq!(
        counted,
        ["8000", "2000", "400"].map(|text| Some(text.to_owned()))
    );
    app.check().await;
}

/// The control: with a date in the system text, as templates may have it, hardly anything is shared a day later.
#[tokio::test]
async fn a_date_in_the_system_text_costs_the_cache_of_the_whole_thread() {
    let server = Server::start(vec![answer(
        "As you say.",
        &json!({ "input_tokens": 1, "output_tokens": 1 }),
    )])
    .await;
    let workspace = shipped("anthropic", &server.url);
    workspace.write(
        "configs/prompts/system.md",
        "You are {{ persona.name }}. Today is {{ date }}.",
    );
    let app = workspace.start().await;
    app.run_of(&note("1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    app.workspace.clock.advance(Duration::from_secs(24 * 3600));
    app.run_of(&reply("2@guest.example", "1@guest.example", "And dinner?"))
        .await;
    app.drain().await;
    let [one, two] = [0, 1].map(|at| parts(&server.seen()[at]));
    let tools = one
        .iter()
        .filter(|part| part.contains("input_schema"))
        .count();
    assert_eq!(common(&one, &two), tools, "the tools alone");
}

/// The key of the thread in a request: its member, or xAI's header of chat completions.
fn cache_key(seen: &Seen) -> Option<String> {
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    let member = body["prompt_cache_key"].as_str().map(str::to_owned);
    let mut lines = seen.head.lines();
    let header = lines.find_map(|line| line.strip_prefix("x-grok-conv-id: "));
    member.or(header.map(str::to_owned))
}

/// Messages of a request.
fn said(seen: &Seen) -> Vec<Value> {
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    let list = body.get("messages").or(body.get("input"));
    list.and_then(Value::as_array).cloned().unwrap_or_default()
}

#[tokio::test]
#[ignore = "second tier"]
async fn every_letter_of_a_thread_has_its_key_where_a_vendor_knows_one() {
    let responses = json!({ "api": "responses" });
    for (provider, more, is_told) in [
        ("openai", json!({}), true),
        ("openai", responses.clone(), true),
        ("grok", json!({}), true),
        ("grok", responses, true),
        ("openrouter", json!({}), false),
        ("compat:house", json!({}), false),
        ("compat:house", json!({ "prompt_cache_key": true }), true),
    ] {
        let turns = vec![say("As you say.")];
        let server = match more.get("api") {
            Some(_) => strict_responses::server(provider, turns).await,
            None => strict_openai::server(provider, turns).await,
        };
        let workspace = shipped(provider, server.url());
        threads::serve_from(&workspace, &[(provider, &server)]);
        for (name, value) in more.as_object().into_iter().flatten() {
            let place = format!("/providers/{provider}/{name}");
            workspace.set("configs/inference.json", &place, value.clone());
        }
        let app = workspace.start().await;
        three_letters(&app).await;
        app.run_of(&note("9@guest.example", "", "Is there a lift?"))
            .await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider} {more}");
        let seen = server.seen();
        let keys: Vec<Option<String>> = seen.iter().map(cache_key).collect();
        let [one, two, three, other] = &keys[..] else {
            panic!("{provider} {more}: {keys:?}")
        };
        assert_eq!(one.is_some(), is_told, "{provider} {more}");
        assert!(one == two && two == three, "{provider} {more}: {keys:?}");
        // Another thread has another; neither holds anything of its thread.
        assert_eq!(one == other, !is_told, "{provider} {more}: {keys:?}");
        let is_digest =
            |key: &String| key.len() == 32 && key.chars().all(|c| c.is_ascii_hexdigit());
        assert!(keys.iter().flatten().all(is_digest), "{keys:?}");
        // What the key leads to is the same beginning.
        let [first, second] = [0, 1].map(|at| said(&seen[at]));
        let shared = first.len() - 1;
        assert_eq!(first[..shared], second[..shared], "{provider} {more}");
        app.check().await;
    }
}
