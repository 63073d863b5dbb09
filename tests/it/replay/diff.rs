//! `replay diff`: two runs of the same thing are the same, and of two that are not, the first cause is named.

use super::{attache, play};
use crate::app::{TestApp, proven_note as note};
use attache::domain::RunId;
use attache::replay::diff::{Comparison, compare};
use attache::replay::{RunRecord, load_run};
use serde_json::{Value, json};

fn case(reply: &str, path: &str) -> Value {
    json!({
        "letter": "When is breakfast?",
        "script": { "turns": [
            { "call": [{ "tool": "list_files", "args": { "path": path } }] },
            { "say": reply },
        ]},
    })
}

async fn against(other: &Value) -> Comparison {
    let (_a, a) = play(&case("At seven.", ".")).await;
    let (_b, b) = play(other).await;
    compare(&a, &b, false)
}

fn first(comparison: &Comparison) -> (String, String) {
    let first = comparison.first.clone().expect("a difference");
    assert!(!comparison.same);
    (first.pair, first.place)
}

#[tokio::test]
async fn two_runs_of_one_thing_are_the_same_but_for_ids_and_times() {
    let (_a, a) = play(&case("At seven.", ".")).await;
    let (_b, mut b) = play(&case("At seven.", ".")).await;
    let comparison = compare(&a, &b, false);
    assert!(comparison.same, "{:#?}", comparison.first);
    let names: Vec<&str> = comparison
        .pairs
        .iter()
        .map(|pair| pair.name.as_str())
        .collect();
    let expected = [
        "letter",
        "context",
        "turn 0 request",
        "turn 0 answer",
        "turn 0 call c0_0",
        "turn 0 result c0_0",
        "turn 1 request",
        "turn 1 answer",
        "mail 1",
        "end",
    ];
    assert_eq!(names, expected);
    // A text that names its thread.
    let named = |record: &RunRecord| {
        let json = serde_json::to_string(record).expect("JSON");
        json.replace(
            "subject: ",
            &format!("thread: {}, subject: ", record.run.thread),
        )
    };
    let a: RunRecord = serde_json::from_str(&named(&a)).expect("a record");
    let json = named(&b);
    b = serde_json::from_str(&json).expect("a record");
    let other = json.replace(&b.run.id, "019a0000-0000-7000-8000-0000000000ff");
    let elsewhere =
        serde_json::from_str(&other.replace(&b.run.thread, "019a0000-0000-7000-8000-0000000000fe"));
    let elsewhere = elsewhere.expect("a record");
    assert!(
        compare(&a, &elsewhere, false).same,
        "under other ids it is the same"
    );
    assert!(
        !compare(&a, &elsewhere, true).same,
        "exactly, their ids differ"
    );
    assert!(compare(&a, &a, true).same);
    // One character of what a turn was asked is enough.
    let body = b.turns[1].request["messages"][0]["blocks"][0]["text"]
        .as_str()
        .map(str::to_owned);
    let text = body.unwrap_or_else(|| panic!("{:#}", b.turns[1].request));
    b.turns[1].request["messages"][0]["blocks"][0]["text"] = json!(format!("{text}."));
    let (pair, place) = first(&compare(&a, &b, false));
    assert_eq!(pair, "turn 1 request");
    assert!(place.ends_with("messages[0].blocks[0].text"), "{place}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_first_cause_is_named_before_what_follows_from_it() {
    let of_reply = against(&case("At eight.", ".")).await;
    let (pair, place) = first(&of_reply);
    assert_eq!(
        (pair.as_str(), place.as_str()),
        ("turn 1 answer", "blocks[0].text")
    );
    let found = of_reply.first.clone().expect("a difference");
    assert_eq!(
        (found.a.as_deref(), found.b.as_deref()),
        (Some("At seven."), Some("At eight."))
    );
    let differing: Vec<&str> = of_reply
        .pairs
        .iter()
        .filter(|pair| !pair.differences.is_empty())
        .map(|s| s.name.as_str())
        .collect();
    assert_eq!(differing, ["turn 1 answer", "mail 1"]);

    assert_eq!(
        first(&against(&case("At seven.", "knowledge")).await).0,
        "turn 0 answer"
    );

    let shorter =
        json!({ "letter": "When is breakfast?", "script": { "turns": [{ "say": "At seven." }] } });
    let comparison = against(&shorter).await;
    assert_eq!(first(&comparison).0, "turn 0 answer");
    let gone = comparison
        .pairs
        .iter()
        .find(|pair| pair.name == "turn 1 request")
        .expect("a stage");
    assert!(gone.differences[0].a.is_some() && gone.differences[0].b.is_none());

    let other_letter =
        json!({ "letter": "When is dinner?", "script": case("At seven.", ".")["script"] });
    assert_eq!(first(&against(&other_letter).await).0, "letter");
}

#[tokio::test]
async fn a_resolver_that_gave_something_else_is_named() {
    let script = json!({ "rules": [{ "say": "Seven." }] });
    let app = TestApp::start(script).await;
    let one = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    app.workspace.write(
        "personas/ada/active.md",
        "# Open\n\nThe boiler man comes on Monday.\n",
    );
    let two = app
        .run_of(&note("q2@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let a = load_run(&app.engine.store, &RunId::new(&one))
        .await
        .expect("a run");
    let b = load_run(&app.engine.store, &RunId::new(&two))
        .await
        .expect("a run");
    let (pair, place) = first(&compare(&a, &b, false));
    assert_eq!(
        (pair.as_str(), place.as_str()),
        ("context", "active-memory")
    );

    let said = attache(app.workspace.path(), &["replay", "diff", &one, &two]);
    assert_eq!(said.0, 1, "{said:?}");
    assert!(
        said.1
            .contains("they went apart first at: context, active-memory"),
        "{}",
        said.1
    );
    let same = attache(
        app.workspace.path(),
        &["replay", "diff", &one, &one, "--exact", "--json"],
    );
    let value: Value = serde_json::from_str(&same.1).expect("JSON");
    assert_eq!(
        (same.0, &value["same"], &value["first"]),
        (0, &json!(true), &Value::Null)
    );
    assert!(
        !said.1.lines().any(|line| line.ends_with(" same")),
        "only what differs: {}",
        said.1
    );
    assert!(said.1.contains("the same in both: "), "{}", said.1);
    let whole = attache(
        app.workspace.path(),
        &["replay", "diff", &one, &two, "--full"],
    );
    assert!(
        whole
            .1
            .lines()
            .any(|line| line.starts_with("letter") && line.ends_with(" same")),
        "{}",
        whole.1
    );
    let missing = attache(
        app.workspace.path(),
        &["replay", "diff", &one, "0199aabbccdd"],
    );
    assert_eq!(missing.0, 66, "{missing:?}");
}

#[tokio::test]
async fn raw_views_and_pages_come_from_the_command_line() {
    let (app, record) = play(&case("At seven.", ".")).await;
    let (path, run) = (app.workspace.path(), record.run.id.as_str());
    let exact = attache(
        path,
        &[
            "replay", "show", run, "--raw", "request", "--turn", "1", "--exact",
        ],
    );
    assert_eq!(
        (exact.0, exact.1.as_str()),
        (0, record.turns[1].request_sent().as_str())
    );
    let pretty = attache(path, &["replay", run, "--raw", "response", "--turn", "0"]);
    let value: Value = serde_json::from_str(&pretty.1).expect("JSON");
    assert_eq!(Some(value), record.turns[0].response);
    assert!(pretty.1.lines().count() > 5, "{}", pretty.1);
    for (args, code, expected) in [
        (&["--raw", "request"][..], 2, "hint: its turns: 0"),
        (&["--context", "--turn", "1"], 2, "cannot be used with"),
        (
            &["--since", "2026-11-20T10:00:00Z", "--until", "2026-11-20"],
            2,
            "hint: --since is the earlier one",
        ),
        (
            &["--since", "2026-11-20", "--until", "2026-11-20"],
            2,
            "nothing is after --since",
        ),
        (&["--since", "2026-11-31"], 2, "a day such as 2026-11-20"),
        (&["--since", "999999999999d"], 2, "is not a time"),
        (
            &["--html", "-", "--json"],
            2,
            "leave --json out, or name a file",
        ),
        (
            &["--html", "/nowhere/at/all.html"],
            73,
            "hint: make its folder first",
        ),
    ] {
        let said = attache(path, &[&["replay", "show", run][..], args].concat());
        assert!(
            said.0 == code && said.2.contains(expected),
            "{args:?}: {said:?}"
        );
    }
}

#[tokio::test]
async fn a_period_selects_turns_and_a_turn_that_is_not_there_is_said() {
    let (app, record) = play(&case("At seven.", ".")).await;
    let (path, run) = (app.workspace.path(), record.run.id.as_str());
    // The run began at nine o'clock of that day.
    let within = attache(
        path,
        &[
            "replay",
            run,
            "--since",
            "2026-11-20",
            "--until",
            "2026-11-21",
            "--json",
        ],
    );
    let within: Value = serde_json::from_str(&within.1).expect("JSON");
    assert_eq!(within["turns"].as_array().map(Vec::len), Some(2));
    let later = attache(path, &["replay", run, "--since", "2026-11-21", "--json"]);
    let later: Value = serde_json::from_str(&later.1).expect("JSON");
    assert_eq!(later["turns"].as_array().map(Vec::len), Some(0));
    for args in [
        &["--raw", "request", "--turn", "7"][..],
        &["--turn", "7"],
        &["--raw", "request", "--turn", "1", "--try", "3"],
    ] {
        let said = attache(path, &[&["replay", "show", run][..], args].concat());
        assert_eq!(said.0, 66, "{args:?}: {said:?}");
        assert!(
            said.2
                .contains("its turns: 0 (try 1, answered), 1 (try 1, answered)"),
            "{}",
            said.2
        );
    }
}

#[tokio::test]
async fn a_page_is_written_and_never_over_another_file() {
    use std::os::unix::fs::PermissionsExt;
    let (app, record) = play(&case("At seven.", ".")).await;
    let (path, run) = (app.workspace.path(), record.run.id.as_str());
    let file = path.join("run.html");
    let args = [
        "replay",
        "show",
        run,
        "--html",
        file.to_str().expect("a path"),
    ];
    assert_eq!(attache(path, &args).0, 0);
    let page = std::fs::read_to_string(&file).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.contains("When is breakfast?"));
    assert_eq!(attache(path, &args).0, 73, "never over another file");
    assert_eq!(
        attache(path, &["replay", "show", run, "--html", "-"]).1,
        page,
        "`-` is standard output"
    );
    assert_eq!(
        std::fs::metadata(&file)
            .expect("a file")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let of_tool = attache(
        path,
        &["replay", "show", run, "--tool", "list_files", "--json"],
    );
    let part: Value = serde_json::from_str(&of_tool.1).expect("JSON");
    assert_eq!(
        (
            part["calls"].as_array().map(Vec::len),
            part["turns"].as_array().map(Vec::len)
        ),
        (Some(1), Some(1))
    );
}

/// A tool that can be checked after a crash notes before its work what it found and what it will leave.
#[tokio::test]
async fn what_only_the_engine_notes_of_a_call_is_no_difference() {
    let case = json!({
        "letter": "When is breakfast?",
        "script": { "turns": [
            { "call": [{ "tool": "update_memory", "args": { "content": "Bob asks about breakfast." } }] },
            { "say": "At seven." },
        ]},
    });
    let (_a, a) = play(&case).await;
    let mut b = a.clone();
    assert!(
        b.calls[0].call["begun"]["foreseen"].is_object(),
        "the control: {:#}",
        b.calls[0].call
    );
    b.calls[0].call["begun"]["foreseen"]["before"] = json!("another");
    assert!(compare(&a, &b, false).same);
    b.calls[0].call["args"]["content"] = json!("Bob asks about dinner.");
    assert_eq!(first(&compare(&a, &b, false)).1, "call.args.content");
}

#[tokio::test]
async fn a_mail_that_both_have_is_no_difference_in_another_place() {
    let (_a, a) = play(&case("At seven.", ".")).await;
    let mut b = a.clone();
    let mut more = b.mails[0].clone();
    more.message.text = "Also this.".to_owned();
    b.mails.insert(0, more);
    let comparison = compare(&a, &b, false);
    let of_mails: Vec<usize> = comparison
        .pairs
        .iter()
        .filter(|pair| pair.name.starts_with("mail"))
        .map(|pair| pair.differences.len())
        .collect();
    assert_eq!(of_mails, [1, 0]);
    let (pair, place) = first(&comparison);
    assert_eq!((pair.as_str(), place.as_str()), ("mail 1", ""));
}
