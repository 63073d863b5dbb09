//! How often an owner is asked: seldom in ordinary work, and never without end.

use crate::approvals::scene::{CONTACT, OWNER, Scene};
use attache::store::ApprovalVerdict;
use serde_json::{Value, json};

const RUNS: usize = 120;
/// Words of a letter, and what the persona does about them.
#[rustfmt::skip]
fn work() -> [(&'static str, Value); 7] {
    [
        ("breakfast", json!({ "tool": "read_file", "args": { "path": "knowledge/house.md" } })),
        ("which files", json!({ "tool": "list_files", "args": {} })),
        ("what did we say", json!({ "tool": "search_email", "args": { "query": "breakfast" } })),
        ("remember", json!({ "tool": "update_memory", "args": { "append": "- Tuesdays are busy." } })),
        ("tell olga", json!({ "tool": "send_email", "args": { "to": ["olga@home.test"], "subject": "A note", "body": "Carol comes on Tuesday." } })),
        ("write to me", json!({ "tool": "send_email", "args": { "to": ["{{sender}}"], "subject": "Apart", "body": "As you wished." } })),
        ("tell eve", json!({ "tool": "send_email", "args": { "to": ["eve@new.test"], "subject": "Tuesday", "body": "We meet on Tuesday." } })),
    ]
}

fn script() -> Value {
    let rule = |(words, call): &(&str, Value)| json!({ "when": { "contains": words, "turn": 0 }, "call": [call] });
    let mut rules: Vec<Value> = work().iter().map(rule).collect();
    rules.push(json!({ "say": "With pleasure." }));
    json!({ "rules": rules })
}

#[tokio::test]
#[ignore = "second tier"]
async fn ordinary_work_asks_seldom() {
    let scene = Scene::with(&script(), |_| {}).await;
    let app = &scene.world.app;
    for number in 0..RUNS {
        // One letter in thirty is for somebody new; the others go through the ordinary work, and just answers.
        let words = match (number % 30, number % 7) {
            (29, _) => "Please tell Eve.",
            (_, 6) => "Thank you, that is all.",
            (_, kind) => work()[kind].0,
        };
        let from = [OWNER, CONTACT][number / 7 % 2];
        let eml = scene.signed(from, "ada@engine.test", &format!("w{number}"), "", words);
        scene.deliver(&eml, "ada@engine.test").await.expect("taken");
        app.drain().await;
    }
    let row = app.row("SELECT CAST(count(*) AS TEXT), CAST(sum(state = 'succeeded') AS TEXT) FROM runs WHERE id > $1", "").await;
    let asked = app
        .row(
            "SELECT CAST(count(*) AS TEXT) FROM approvals WHERE id > $1",
            "",
        )
        .await;
    let number = |value: &Option<String>| {
        value
            .as_deref()
            .expect("a number")
            .parse::<usize>()
            .expect("a number")
    };
    let (runs, done, asked) = (number(&row[0]), number(&row[1]), number(&asked[0]));
    println!("B-7: {runs} ordinary runs, {done} done without a question, {asked} questions");
    assert_eq!(runs, RUNS);
    assert!(
        (4..=8).contains(&asked),
        "four letters are for somebody new: {asked}"
    );
    assert_eq!(runs - done, asked);
    app.check().await;
}

/// A model that asks five hundred times has its owner asked five times.
#[tokio::test]
#[ignore = "second tier"]
async fn five_hundred_asks_are_five_questions() {
    let turns = 30;
    let mail = |turn: usize, at: usize| {
        json!({ "tool": "send_email", "args": { "to": ["eve@new.test"], "subject": "Again",
        "body": format!("Please, for the {turn}-{at}th time.") } })
    };
    let mut rules: Vec<Value> = (0..turns)
        .map(|turn| json!({ "when": { "turn": turn }, "call": (0..20).map(|at| mail(turn, at)).collect::<Vec<_>>() }))
        .collect();
    rules.push(json!({ "say": "Enough." }));
    let scene = Scene::with(&json!({ "rules": rules }), |workspace| {
        workspace.set(
            "configs/inference.json",
            "/max_tool_turns",
            json!(turns + 1),
        );
        let budget =
            json!({ "tool_failures_max": 1000, "tool_calls_max": 1000, "tokens_max": 100_000_000 });
        workspace.set("configs/inference.json", "/budget", budget);
    })
    .await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let mut questions = 0;
    while let Some(question) = scene.open().await.pop() {
        questions += 1;
        assert!(questions <= 5, "no end of questions");
        scene
            .decide(&question.id, ApprovalVerdict::Reject, "")
            .await;
        scene.world.app.drain().await;
    }
    let trace = scene.world.app.trace(&run).await;
    let calls = trace
        .iter()
        .filter(|line| line.starts_with("call "))
        .count();
    println!("B-7: {calls} hostile asks of one run became {questions} questions");
    assert!(
        calls >= 500,
        "{calls}, {:?}",
        scene.world.app.outcome(&run).await
    );
    assert_eq!(questions, 5);
    assert!(scene.to_eve().is_empty());
    scene.world.app.check().await;
}
