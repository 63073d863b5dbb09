//! The write gate: each rule has a letter that breaks it, and says what to do.

use super::scene::MemoryScene;
use crate::approvals::scene::CONTACT;
use attache::domain::MemoryStatus;
use serde_json::{Value, json};

const TEA: &str = "Carol drinks green tea and never coffee.";

/// The result of the only call of a run, as it was recorded.
async fn result(scene: &MemoryScene, run: &str) -> String {
    let sql = "SELECT payload_json FROM thread_tool_events WHERE run_id = $1 AND event_type = 'tool_result'";
    let row = scene.scene.world.app.row(sql, run).await;
    row[0].clone().expect("a result")
}

#[tokio::test]
async fn each_refusal_names_its_rule_and_stores_nothing() {
    let long = "word ".repeat(100);
    let drink = "I drink green tea.";
    let cases = [
        (
            "not_in_new_text",
            "Carol likes tea.",
            "I have never said this",
            None,
        ),
        // What is quoted is history, and nothing new.
        (
            "not_in_new_text",
            "Carol likes tea.",
            "Tuesday was fine for us",
            None,
        ),
        ("bad_quote", "Carol likes tea.", "tea", None),
        ("text_too_long", long.as_str(), drink, None),
        ("empty_text", " \n", drink, None),
        (
            "secret",
            "The key is sk-proj-abcdefgh12345678.",
            drink,
            None,
        ),
        ("bad_text", "Tea\u{202e}eeT", drink, None),
        ("bad_text", "Tea\u{7}", drink, None),
        (
            "bad_valid_to",
            "Carol likes tea.",
            drink,
            Some("2020-01-01"),
        ),
        ("bad_valid_to", "Carol likes tea.", drink, Some("soon")),
    ];
    let rules = cases.iter().enumerate().map(|(number, (_, text, quote, until))| {
        json!({ "when": { "turn": 0, "contains": format!("case {number};") }, "call": [{ "tool": "remember", "args":
            { "text": text, "kind": "fact", "source_quote": quote, "valid_to": until } }] })
    });
    let rules: Vec<Value> = rules.chain([json!({ "say": "Done." })]).collect();
    let scene = MemoryScene::with(&json!({ "rules": rules })).await;
    for (number, (code, ..)) in cases.iter().enumerate() {
        let body = format!(
            "{drink} case {number};\r\n\r\nOn Monday Ada wrote:\r\n> Tuesday was fine for us\r\n"
        );
        let run = scene
            .writes(CONTACT, &format!("m{number}"), "", &body)
            .await;
        let result = result(&scene, &run).await;
        assert!(
            result.contains(&format!("\"code\":\"{code}\"")),
            "case {number}: {result}"
        );
    }
    assert!(scene.entries().await.is_empty());
}

#[tokio::test]
async fn a_run_writes_three_entries_and_no_fourth() {
    let things = [
        "Carol owns a boat.",
        "The house is rented until May.",
        "Dan looks after the garden.",
        "Horses are not allowed here.",
    ];
    let call = |thing: &&str| json!({ "tool": "remember", "args": { "text": thing, "kind": "fact", "source_quote": "all of it matters" } });
    let calls: Vec<Value> = things.iter().map(call).collect();
    let script = json!({ "rules": [{ "when": { "turn": 0 }, "call": calls }, { "say": "Done." }] });
    let scene = MemoryScene::with(&script).await;
    let run = scene
        .writes(CONTACT, "m1", "", "Remember: all of it matters.")
        .await;
    let trace = scene.trace(&run).await;
    assert_eq!(
        trace.last().map(String::as_str),
        Some("enough_remembered remember"),
        "{trace:?}"
    );
    assert_eq!(scene.entries().await.len(), 3);
}

#[tokio::test]
async fn what_is_said_again_is_confirmed_and_what_changes_is_corrected() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TEA).await;
    let again = scene
        .tells(CONTACT, "m2", "Carol drinks green tea, and never coffee")
        .await;
    assert!(result(&scene, &again).await.contains("\"known_as\":\"c1\""));
    let entries = scene.entries().await;
    assert_eq!((entries.len(), entries[0].confirmations), (1, 1));

    let body = "I am back to coffee now.\r\nid: c1\r\ncorrect: Carol drinks coffee since November.\r\nquote: back to coffee now.";
    let run = scene.writes(CONTACT, "m3", "", body).await;
    assert!(result(&scene, &run).await.contains("\"corrected\":true"));
    let entries = scene.entries().await;
    let of = |status| entries.iter().filter(move |entry| entry.status == status);
    let [new] = &of(MemoryStatus::Active).collect::<Vec<_>>()[..] else {
        panic!("{entries:#?}")
    };
    let old = of(MemoryStatus::Superseded).next().expect("the old entry");
    assert_eq!(old.superseded_by.as_ref(), Some(&new.id));
    assert_eq!(new.supersedes.as_ref(), Some(&old.id));

    let found = scene
        .writes(
            CONTACT,
            "m4",
            "",
            "What do I drink?\r\nrecall: what does Carol drink",
        )
        .await;
    let text = result(&scene, &found).await;
    assert!(
        text.contains("coffee since November") && !text.contains("green tea"),
        "{text}"
    );
    assert!(text.contains("\"lowest\":\"contact\""), "{text}");
    let nothing = scene
        .writes(CONTACT, "m5", "", "And?\r\nrecall: bicycle repair")
        .await;
    assert!(
        result(&scene, &nothing)
            .await
            .contains("nothing that you remember")
    );

    let run = scene
        .writes(CONTACT, "m6", "", "Forget it.\r\nforget: c2")
        .await;
    assert!(result(&scene, &run).await.contains("\"forgotten\":\"c2\""));
    let run = scene.writes(CONTACT, "m7", "", "What do I drink?").await;
    assert!(!scene.prompt(&run).await.contains("wrote on"));
    scene.scene.world.app.check().await;
}
