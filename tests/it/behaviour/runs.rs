//! What a run is given, what it costs, and how it goes on after every kind of failure.

use crate::app::{TestApp, Workspace, proven_note as note};
use attache::domain::RunId;
use serde_json::{Value, json};

fn reply(app: &str, to: &str, body: &str) -> String {
    note(app, &format!("In-Reply-To: <{to}>\n"), body)
}

async fn report(app: &TestApp, run: &str) -> Vec<Value> {
    let row = app
        .row("SELECT context_report_json FROM runs WHERE id = $1", run)
        .await;
    let report: Value = serde_json::from_str(row[0].as_deref().expect("a report")).expect("json");
    report["entries"].as_array().expect("entries").clone()
}

fn entry<'e>(entries: &'e [Value], resolver: &str) -> &'e Value {
    entries
        .iter()
        .find(|entry| entry["resolver"] == resolver)
        .expect("an entry of that resolver")
}

/// A thread of `length` letters, each answered after one call; gives the id of the last run.
async fn correspondence(app: &TestApp, length: usize, last: &str) -> String {
    let mut run = String::new();
    for n in 0..length {
        let body = if n + 1 == length {
            last.to_owned()
        } else {
            format!("letter {n} {}", "word ".repeat(100))
        };
        let before = format!("q{}@guest.example", n.saturating_sub(1));
        run = app
            .run_of(&reply(&format!("q{n}@guest.example"), &before, &body))
            .await;
        app.drain().await;
    }
    run
}

fn reading() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "say": "From seven to ten." },
    ] })
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_long_letter_costs_history_nothing_while_there_is_room() {
    let mut histories = Vec::new();
    for last in ["Short.".to_owned(), "five thousand letters ".repeat(230)] {
        let app = Workspace::new(&reading()).talkative().start().await;
        let run = correspondence(&app, 6, &last).await;
        let entries = report(&app, &run).await;
        histories.push((
            entry(&entries, "thread-history")["tokens"].clone(),
            entries.len(),
        ));
        assert!(
            entries.iter().all(|entry| entry["outcome"] == "used"),
            "{entries:#?}"
        );
    }
    assert_eq!(histories[0], histories[1]);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_budget_drops_whole_old_exchanges_and_splits_no_call() {
    let workspace = Workspace::new(&reading()).talkative();
    workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "context_tokens_max": 2500 }),
    );
    let app = workspace.start().await;
    let long = "five thousand letters ".repeat(230);
    let run = correspondence(&app, 12, &long).await;
    let prompt = &app.prompts(&run).await[0];
    let text = prompt.to_string();
    let entries = report(&app, &run).await;
    assert_eq!(
        entry(&entries, "thread-history")["outcome"],
        "trimmed",
        "{entries:#?}"
    );
    assert!(
        text.contains("Ada answers letters.") && text.contains("letter 10 "),
        "{text}"
    );
    assert!(!text.contains("letter 0 "), "{text}");
    let used: u64 = entries
        .iter()
        // They stand beside the context.
        .filter(|entry| entry["resolver"] != "tools")
        .filter_map(|entry| entry["tokens"].as_u64())
        .sum();
    assert!(used <= 2500, "{used}");
    let (mut calls, mut results, mut letters) = (0, 0, 0);
    for message in prompt["messages"].as_array().expect("messages") {
        for block in message["blocks"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("tool_call") => calls += 1,
                Some("tool_result") => results += 1,
                _ => {
                    let text = block["text"].as_str().unwrap_or_default();
                    letters += usize::from(text.contains("subject=\"Breakfast\">"));
                }
            }
        }
    }
    assert!(
        calls > 0 && calls == results && calls == letters,
        "{calls} {results} {letters} {text}"
    );
}

#[tokio::test]
async fn a_persona_s_own_text_is_whole_or_the_run_says_why_not() {
    let workspace = Workspace::new(&reading());
    workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "context_tokens_max": 1000 }),
    );
    workspace.write(
        "personas/ada/PERSONA.md",
        &format!("Ada. {} The end.", "She knows a lot. ".repeat(500)),
    );
    let app = workspace.start().await;
    let run = app.run_of(&note("q@guest.example", "", "Hello?")).await;
    app.drain().await;
    let prompt = app.prompts(&run).await[0].to_string();
    assert!(
        prompt.contains("The end.") && prompt.contains("Hello?"),
        "{prompt}"
    );

    app.workspace.write(
        "personas/ada/PERSONA.md",
        &"She knows a lot. ".repeat(10_000),
    );
    let run = app
        .run_of(&note("q2@guest.example", "", "Hello again?"))
        .await;
    app.drain().await;
    assert_eq!(
        app.outcome(&run).await,
        (
            "failed".into(),
            Some("failed".into()),
            Some("config".into())
        )
    );
    let said = app
        .row("SELECT error_message FROM runs WHERE id = $1", &run)
        .await
        .remove(0)
        .expect("words");
    assert!(
        said.contains("PERSONA.md") && said.contains("larger than"),
        "{said}"
    );
}

#[tokio::test]
async fn a_required_step_fails_the_run_until_it_gives_something() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
    let step = json!({ "use": "load-file", "args": ["notes/rules.md"], "required": true });
    workspace.set(
        "configs/context.json",
        "/thread",
        json!([step, { "use": "load-file", "args": ["notes/none.md"], "required": false }, "current-input"]),
    );
    workspace.write("notes/rules.md", "\n");
    let app = workspace.start().await;
    let run = app.run_of(&note("q@guest.example", "", "Hello?")).await;
    app.drain().await;
    assert_eq!(
        app.outcome(&run).await,
        (
            "failed".into(),
            Some("failed".into()),
            Some("config".into())
        )
    );
    let said = app
        .row("SELECT error_message FROM runs WHERE id = $1", &run)
        .await
        .remove(0)
        .expect("words");
    assert!(
        said.contains("load-file") && said.contains("notes/rules.md"),
        "{said}"
    );
    assert!(app.prompts(&run).await.is_empty(), "nobody was asked");

    app.workspace.write("notes/rules.md", "Be kind.");
    app.engine
        .store
        .retry_run(&RunId::new(&run))
        .await
        .expect("queued");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let entries = report(&app, &run).await;
    assert_eq!(
        (&entries[1]["outcome"], &entries[1]["source"]),
        (&json!("empty"), &json!("notes/none.md"))
    );
    app.check().await;
}

#[tokio::test]
async fn usage_is_the_sum_of_answered_tries_over_retries_and_attempts() {
    let usage = json!({ "input_tokens": 100, "output_tokens": 10, "cost_micros": 7 });
    let app = TestApp::start(json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }],
          "usage": usage, "error": { "class": "rate_limited", "status": 429, "retry_after_ms": 1, "times": 1 } },
        { "when": { "turn": 1 }, "say": "Seven.", "usage": usage, "error": { "class": "auth", "status": 401, "times": 1 } },
    ] }))
    .await;
    let run = app.run_of(&note("q@guest.example", "", "Hello?")).await;
    app.drain().await;
    app.engine
        .store
        .retry_run(&RunId::new(&run))
        .await
        .expect("queued");
    // A provider that refused the account is left alone for a minute.
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(60));
    app.drain().await;
    let sql =
        "SELECT state, CAST(input_tokens AS TEXT), CAST(output_tokens AS TEXT), CAST(cost_micros AS TEXT),
        (SELECT CAST(sum(input_tokens) || '/' || count(*) AS TEXT) FROM usage_ledger WHERE run_id = runs.id)
        FROM runs WHERE id = $1";
    let row = app.row(sql, &run).await;
    let row: Vec<&str> = row
        .iter()
        .map(|value| value.as_deref().expect("a value"))
        .collect();
    assert_eq!(row, ["succeeded", "200", "20", "14", "200/2"]);
    app.check().await;
}

/// File, JSON pointer, value.
type Setting = (&'static str, &'static str, Value);

/// A way to fail, what mends it, and how many provider calls that makes.
struct Mending {
    script: Value,
    /// Set before the failure.
    broken: Option<Setting>,
    class: &'static str,
    /// Set before the retry.
    mended: Vec<Setting>,
    calls: usize,
    model: &'static str,
}

fn mendings() -> Vec<Mending> {
    let cured = || ("configs/script.json", "/rules/0/error", Value::Null);
    let plain = |class: &'static str| Mending {
        script: json!({ "rules": [{ "say": "Yes.", "error": { "class": class } }] }),
        broken: None,
        class,
        mended: vec![cured()],
        calls: 2,
        model: "test",
    };
    let outbound = ("configs/gateway.json", "/outbound");
    let inference = "configs/inference.json";
    vec![
        plain("auth"),
        plain("billing"),
        // Once more, with fewer tools.
        Mending {
            calls: 3,
            ..plain("context_overflow")
        },
        plain("content_filter"),
        // Somebody misspelt the model, and mends it before trying again.
        Mending {
            mended: vec![cured(), (inference, "/model", json!("better"))],
            model: "better",
            ..plain("model_not_found")
        },
        // The model refused; who retries wants it asked again.
        Mending {
            script: json!({ "turns": [{ "say": "I will not.", "stop": "refused" }, { "say": "Yes." }] }),
            broken: None,
            class: "content_filter",
            mended: Vec::new(),
            calls: 2,
            model: "test",
        },
        // The answer is there already: nobody is asked again, it is only sent.
        Mending {
            script: json!({ "rules": [{ "say": "Yes." }] }),
            broken: Some((outbound.0, outbound.1, Value::Null)),
            class: "outbound_not_configured",
            mended: vec![(
                outbound.0,
                outbound.1,
                json!({ "kind": "folder", "path": "data/outbox" }),
            )],
            calls: 1,
            model: "test",
        },
    ]
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_that_failed_can_be_retried_after_the_cause_is_mended() {
    for case in mendings() {
        let workspace = Workspace::new(&case.script);
        if let Some((file, pointer, value)) = case.broken {
            workspace.set(file, pointer, value);
        }
        let app = workspace.start().await;
        let run = app.run_of(&note("q@guest.example", "", "Hello?")).await;
        app.drain().await;
        let (state, _, class) = app.outcome(&run).await;
        assert_eq!(
            (state.as_str(), class.as_deref()),
            ("failed", Some(case.class)),
            "{}",
            case.script
        );
        assert!(app.sent().is_empty());
        for (file, pointer, value) in case.mended {
            app.workspace.set(file, pointer, value);
        }
        let app = app.restart().await;
        app.engine
            .store
            .retry_run(&RunId::new(&run))
            .await
            .expect("queued");
        app.drain().await;
        assert_eq!(
            app.outcome(&run).await,
            ("succeeded".into(), Some("answered".into()), None),
            "{}",
            case.script
        );
        assert_eq!(app.prompts(&run).await.len(), case.calls, "{}", case.script);
        let model = app
            .row("SELECT model FROM runs WHERE id = $1", &run)
            .await
            .remove(0);
        assert_eq!(model.as_deref(), Some(case.model), "{}", case.script);
        let sent = app.sent();
        assert_eq!(sent.len(), 1, "{}", case.script);
        assert!(sent[0].text.contains("Yes."));
        app.check().await;
    }
}

#[tokio::test]
async fn a_model_that_hangs_costs_its_time_limit_and_the_run_waits() {
    let workspace = Workspace::new(&json!({ "rules": [{ "hang": true }] }));
    workspace.set(
        "configs/inference.json",
        "/timeouts",
        json!({ "call": "20ms", "idle": "20ms" }),
    );
    workspace.set(
        "configs/inference.json",
        "/retry",
        json!({ "call_attempts_max": 1 }),
    );
    let app = workspace.start().await;
    let run = app.run_of(&note("q@guest.example", "", "Hello?")).await;
    app.drain().await;
    assert_eq!(
        app.outcome(&run).await,
        ("waiting_retry".into(), None, Some("timeout".into()))
    );
    assert_eq!(app.prompts(&run).await.len(), 1);
    // The next letter of the thread waits for it, another thread's does not.
    app.workspace.write(
        "configs/script.json",
        &json!({ "rules": [{ "say": "Yes." }] }).to_string(),
    );
    let app = app.restart().await;
    let next = app
        .run_of(&reply("r@guest.example", "q@guest.example", "And?"))
        .await;
    let other = app
        .run_of(&note("o@guest.example", "", "Something else?"))
        .await;
    assert_eq!(app.drain().await.runs, 1);
    assert_eq!(
        (
            app.outcome(&next).await.0.as_str(),
            app.outcome(&other).await.0.as_str()
        ),
        ("queued", "succeeded")
    );
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(3600));
    assert_eq!(app.drain().await.runs, 2);
    for run in [&run, &next] {
        assert_eq!(app.outcome(run).await.0, "succeeded");
    }
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn history_says_where_a_letter_is_cut_and_a_thread_has_more() {
    let app = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }))
        .talkative()
        .start()
        .await;
    app.run_of(&note(
        "q0@guest.example",
        "",
        &format!("{} unseen", "five thousand letters ".repeat(400)),
    ))
    .await;
    app.drain().await;
    let second = app
        .run_of(&reply("q1@guest.example", "q0@guest.example", "And?"))
        .await;
    app.drain().await;
    let prompt = app.prompts(&second).await[0].to_string();
    assert!(
        prompt.contains("the rest is stored and not shown") && !prompt.contains("unseen"),
        "{prompt}"
    );
    assert_eq!(
        entry(&report(&app, &second).await, "thread-history")["outcome"],
        "used"
    );
    for n in 2..22 {
        let before = format!("q{}@guest.example", n - 1);
        app.run_of(&reply(&format!("q{n}@guest.example"), &before, "And?"))
            .await;
        app.drain().await;
    }
    let last = app
        .run_of(&reply("q22@guest.example", "q21@guest.example", "And?"))
        .await;
    app.drain().await;
    let entries = report(&app, &last).await;
    let history = entry(&entries, "thread-history");
    assert_eq!(
        (&history["outcome"], &history["why"]),
        (
            &json!("trimmed"),
            &json!("the last 40 messages of the thread")
        )
    );
}

#[tokio::test]
async fn a_slow_run_delays_nobody_but_its_own_thread() {
    let app = TestApp::start(json!({ "rules": [
        { "when": { "contains": "think long" }, "say": "At last.", "delay_ms": 300 },
        { "say": "At once." },
    ] }))
    .await;
    app.run_of(&note("slow@guest.example", "", "Please think long."))
        .await;
    app.run_of(&reply("next@guest.example", "slow@guest.example", "And?"))
        .await;
    app.run_of(&note("quick@guest.example", "", "Hello?")).await;
    assert_eq!(app.drain().await.runs, 3);
    let sql = "SELECT group_concat(in_reply_to, ' ') FROM
        (SELECT in_reply_to FROM messages WHERE direction = 'outbound' AND $1 = $1 ORDER BY seq) listed";
    let order = app.row(sql, "").await.remove(0);
    assert_eq!(
        order.as_deref(),
        Some("quick@guest.example slow@guest.example next@guest.example")
    );
    app.check().await;
}
