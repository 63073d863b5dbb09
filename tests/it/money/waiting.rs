//! A run at the end of its money: it waits for the next day or answers as it can, and the owner is told once.

mod prices;

use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use attache::app::Engine;
use attache::config::ConfigErrors;
use attache::domain::{Allowance, ThreadBudget, ThreadId, Timestamp};
use serde_json::{Value, json};
use std::process::Command;

/// Says one thing for 50 output tokens; a call may have 100, at ten dollars a million, and nothing else costs anything. So a
/// call may cost 0.001 dollars and does cost 0.0005.
fn workspace(budget: Value) -> Workspace {
    let workspace = Workspace::new(
        &json!({ "rules": [{ "say": "From seven to ten.", "usage": { "output_tokens": 50 } }] }),
    );
    workspace.set("configs/inference.json", "/max_output_tokens", json!(100));
    workspace.set("configs/inference.json", "/budget", budget);
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "v1", "prices": [{ "provider": "scripted", "model": "*", "input": 0, "output": 10 }] }),
    );
    workspace.talkative()
}

async fn letters(app: &TestApp, count: usize) -> Vec<String> {
    let mut runs = Vec::new();
    for n in 0..count {
        runs.push(
            app.run_of(&note(&format!("{n}@guest.example"), "", "When?"))
                .await,
        );
    }
    runs
}

async fn states(app: &TestApp) -> Vec<(String, Option<String>, Option<String>)> {
    let sql = "SELECT state, error_class, next_attempt_at FROM runs ORDER BY seq";
    db::query_as(sql)
        .fetch_all(&mut app.workspace.rows().await)
        .await
        .expect("runs")
}

async fn succeeded(app: &TestApp) -> usize {
    states(app)
        .await
        .iter()
        .filter(|(state, ..)| state == "succeeded")
        .count()
}

#[tokio::test]
async fn runs_wait_for_the_next_day_and_the_owner_is_told_once_a_day() {
    let app = workspace(json!({ "day_usd_max": 0.0012, "timezone": "Europe/Berlin" }))
        .start()
        .await;
    letters(&app, 3).await;
    for _ in 0..3 {
        app.drain().await;
    }
    app.check().await;
    assert_eq!((succeeded(&app).await, app.sent().len()), (1, 1));
    let waiting = states(&app)
        .await
        .into_iter()
        .filter(|(state, ..)| state == "waiting_retry");
    let midnight = Some("2026-11-20T23:00:00.000Z".to_owned());
    assert!(waiting.clone().count() == 2);
    assert!(
        waiting
            .into_iter()
            .all(|(_, class, at)| class.as_deref() == Some("budget") && at == midnight)
    );
    let [told] = &app.notices()[..] else {
        panic!("{:?}", app.notices())
    };
    assert_eq!(
        told.subject,
        "[attache] the budget of the engine for the day 2026-11-20 is used up"
    );
    for said in [
        "0.001200 dollars",
        "0.000500 are spent",
        "up to 0.001000",
        "2026-11-20T23:00:00",
        "Europe/Berlin",
        "--budgets",
    ] {
        assert!(told.text.contains(said), "{said}: {}", told.text);
    }

    // More than run_attempts_max days: waiting is no failure.
    app.workspace
        .clock
        .set(Timestamp::parse("2026-11-20T22:59:59.000Z").expect("an instant"));
    app.drain().await;
    assert_eq!(succeeded(&app).await, 1, "a second too early");
    app.workspace
        .clock
        .set(Timestamp::parse("2026-11-20T23:00:00.000Z").expect("an instant"));
    app.drain().await;
    assert_eq!((succeeded(&app).await, app.notices().len()), (2, 2));
    app.workspace
        .clock
        .set(Timestamp::parse("2026-11-22T09:00:00.000Z").expect("an instant"));
    app.drain().await;
    assert_eq!((succeeded(&app).await, app.notices().len()), (3, 2));
    app.check().await;
}

#[tokio::test]
async fn a_raised_budget_lets_waiting_runs_go_at_the_next_start() {
    let app = workspace(json!({ "persona_day_usd_max": 0.0012 }))
        .start()
        .await;
    letters(&app, 4).await;
    app.drain().await;
    assert_eq!(succeeded(&app).await, 1);
    let app = app.restart().await;
    app.drain().await;
    assert_eq!(
        succeeded(&app).await,
        1,
        "the same budget is as empty as before"
    );
    app.workspace.set(
        "personas/ada/persona.json",
        "/budget",
        json!({ "day_usd_max": 1 }),
    );
    let app = app.restart().await;
    app.drain().await;
    assert_eq!(succeeded(&app).await, 4);
    assert_eq!(app.notices().len(), 1);
    app.check().await;
}

#[tokio::test]
async fn with_answer_a_run_without_a_word_has_failed_and_the_owner_is_told() {
    let app = workspace(json!({ "day_usd_max": 0.0005, "on_budget": "answer" }))
        .start()
        .await;
    let runs = letters(&app, 3).await;
    app.drain().await;
    app.check().await;
    for run in &runs {
        let (state, stop, class) = app.outcome(run).await;
        let ended = (state.as_str(), stop.as_deref(), class.as_deref());
        assert_eq!(ended, ("failed", Some("limit_cost"), Some("no_answer")));
        assert!(app.prompts(run).await.is_empty(), "nobody was asked");
    }
    assert!(app.sent().is_empty(), "a sentence of ours is no answer");
    // Of the budget, and of the runs.
    assert_eq!(app.notices().len(), 2);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_keeps_enough_for_its_last_words() {
    let call = json!({ "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }],
        "usage": { "output_tokens": 100 } });
    let script =
        json!({ "rules": [{ "when": { "tools": false }, "say": "In short: seven." }, call] });
    // A call and its last words, two calls, none.
    for (usd, turns, said) in [
        (0.002, 2, "In short"),
        (0.003, 3, "In short"),
        (0.0009, 0, ""),
    ] {
        let workspace = workspace(json!({ "cost_usd_max": usd }));
        workspace.write("configs/script.json", &script.to_string());
        let app = workspace.start().await;
        let run = letters(&app, 1).await.remove(0);
        app.drain().await;
        let (state, stop, _) = app.outcome(&run).await;
        let is_told = if said.is_empty() {
            "failed"
        } else {
            "succeeded"
        };
        assert_eq!(
            (state.as_str(), stop.as_deref()),
            (is_told, Some("limit_cost")),
            "{usd}"
        );
        assert_eq!(app.prompts(&run).await.len(), turns, "{usd}");
        let sent = app.sent();
        assert_eq!(sent.len(), usize::from(!said.is_empty()), "{usd}");
        assert!(
            sent.iter().all(|mail| mail.text.contains(said)),
            "{usd}: {sent:?}"
        );
        let row = app
            .row("SELECT CAST(coalesce(cost_micros, 0) AS TEXT), limits_json FROM runs WHERE id = $1", &run)
            .await;
        let cost: f64 = row[0]
            .as_deref()
            .and_then(|text| text.parse().ok())
            .expect("a cost");
        assert!(cost <= usd * 1e6, "{usd}: {cost}");
        let failed = usize::from(said.is_empty());
        assert_eq!(
            app.notices().len(),
            failed,
            "the bound of one run is no news, a message without an answer is"
        );
        app.check().await;
    }
}

#[tokio::test]
async fn a_thread_s_own_budget_holds_until_it_is_taken_back() {
    let app = workspace(json!({})).start().await;
    let run = letters(&app, 1).await.remove(0);
    let thread = app
        .row("SELECT thread_id FROM runs WHERE id = $1", &run)
        .await[0]
        .clone()
        .expect("a thread");
    let thread = ThreadId::new(thread);
    let day = Allowance {
        cost_micros_max: Some(999),
        tokens_max: None,
    };
    let budget = ThreadBudget {
        run: Allowance::default(),
        day,
    };
    app.engine
        .store
        .set_thread_budget(&thread, Some(budget))
        .await
        .expect("set");
    app.receive(&note("other@guest.example", "", "Another thread"))
        .await
        .expect("taken");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "waiting_retry");
    assert_eq!(succeeded(&app).await, 1, "another thread is another purse");
    let [told] = &app.notices()[..] else {
        panic!("{:?}", app.notices())
    };
    let command = format!("attache threads budget {thread}");
    assert!(
        told.text.contains(&command) && told.text.contains("may cost up to 0.001000"),
        "{}",
        told.text
    );
    // The commands that the owner is told of, beside the running engine.
    let attache = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
        let said = command
            .args(args)
            .current_dir(app.workspace.path())
            .output()
            .expect("the binary runs");
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).expect("text")
    };
    let shown = attache(&[
        "threads",
        "budget",
        thread.as_str(),
        "--run-usd",
        "0.5",
        "--json",
    ]);
    let shown: Value = serde_json::from_str(&shown).expect("json");
    assert_eq!(
        (&shown["day_micros_max"], &shown["run_micros_max"]),
        (&json!(999), &json!(500_000))
    );
    attache(&["threads", "budget", thread.as_str(), "--clear"]);
    app.drain().await;
    assert_eq!(succeeded(&app).await, 2);
    app.check().await;
}

#[tokio::test]
async fn a_call_that_may_be_billed_is_kept_one_turned_away_is_not() {
    let failing = |status: Option<u16>| {
        let mut error = json!({ "class": "bad_request" });
        if let Some(status) = status {
            error["status"] = json!(status);
        }
        json!({ "rules": [{ "error": error }] })
    };
    for (status, kept) in [(Some(400), 0), (Some(504), 1000), (None, 1000)] {
        let workspace = workspace(json!({ "day_usd_max": 1 }));
        workspace.write("configs/script.json", &failing(status).to_string());
        let app = workspace.start().await;
        letters(&app, 1).await;
        app.drain().await;
        let sql =
            "SELECT CAST(sum(spent_micros) AS TEXT), CAST(sum(reserved_micros) AS TEXT) FROM budget_accounts
            WHERE scope = 'engine' AND period = $1";
        let account = app.row(sql, "2026-11-20").await;
        assert_eq!(
            account,
            [Some(kept.to_string()), Some("0".to_owned())],
            "{status:?}"
        );
        let lost = app
            .row(
                "SELECT CAST(count(*) AS TEXT) FROM usage_ledger WHERE state = $1",
                "lost",
            )
            .await;
        assert_eq!(
            lost[0].as_deref(),
            Some(if kept > 0 { "1" } else { "0" }),
            "{status:?}"
        );
    }
}

#[tokio::test]
async fn a_budget_that_is_raised_beside_the_engine_lets_its_runs_go_on() {
    let app = workspace(json!({ "day_usd_max": 0.0012 })).start().await;
    letters(&app, 3).await;
    app.drain().await;
    assert_eq!(succeeded(&app).await, 1);
    let raised = json!({ "day_usd_max": 5 });
    app.workspace
        .set("configs/inference.json", "/budget", raised);
    app.engine.reload().await.expect("a good configuration");
    app.drain().await;
    assert_eq!(succeeded(&app).await, 3);
    app.check().await;
}

/// Stdout of a command in the workspace.
fn printed(app: &TestApp, args: &[&str]) -> String {
    let said = Command::new(env!("CARGO_BIN_EXE_attache"))
        .args(args)
        .current_dir(app.workspace.path())
        .output();
    String::from_utf8(said.expect("the binary runs").stdout).expect("text")
}

#[tokio::test]
async fn a_responsibility_bounds_its_runs_and_the_listing_says_so() {
    let workspace = workspace(json!({ "cost_usd_max": 1, "day_usd_max": 5 }));
    workspace.write(
        "personas/ada/responsibilities/digest.md",
        "---\nname: Digest\nschedule: 0 10 * * *\nbudget_usd: 0.002\n---\nWrite the digest.",
    );
    let app = workspace.start().await;
    app.engine.scheduler().sync().await.expect("read");
    app.workspace
        .clock
        .set(Timestamp::parse("2026-11-20T10:00:00.000Z").expect("an instant"));
    app.engine.scheduler().tick().await.expect("fired");
    app.drain().await;
    let row = app
        .row(
            "SELECT CAST(budget_micros AS TEXT), limits_json FROM runs WHERE $1 = $1",
            "",
        )
        .await;
    assert_eq!(row[0].as_deref(), Some("2000"));
    let limits: Value = serde_json::from_str(row[1].as_deref().expect("limits")).expect("json");
    assert_eq!(
        limits[0]["cost_max"],
        json!({ "usd": "0.002000", "origin": "responsibility" })
    );
    assert_eq!(
        limits[1]["cost_max"],
        json!({ "usd": "5.000000", "origin": "global" })
    );
    let attache = |args: &[&str]| printed(&app, args);
    let shown = attache(&["runs", "show", "last"]);
    assert!(
        shown.contains("0.002000 usd") && shown.contains("responsibility"),
        "{shown}"
    );
    let used = attache(&[
        "usage",
        "--since",
        "2026-11-20T00:00:00Z",
        "--by",
        "persona",
    ]);
    assert!(
        used.contains("ada") && used.contains("0.000500") && used.contains("price_table v1"),
        "{used}"
    );
    let used: Value = serde_json::from_str(&attache(&[
        "usage",
        "--since",
        "2026-11-20T00:00:00Z",
        "--json",
    ]))
    .expect("json");
    assert_eq!(
        (&used["total"]["cost_micros"], &used["sums"][0]["what"]),
        (&json!(500), &json!("2026-11-20"))
    );
    let budgets = attache(&["usage", "--budgets"]);
    for said in [
        "the engine",
        "5.000000",
        "global",
        "persona ada",
        "each run",
        "1.000000",
        "UTC",
    ] {
        assert!(budgets.contains(said), "{said}: {budgets}");
    }
}

#[tokio::test]
async fn a_thread_that_becomes_one_with_another_takes_its_budget() {
    let app = workspace(json!({})).start().await;
    let thread_of = async |run: &str| {
        let row = app
            .row("SELECT thread_id FROM runs WHERE id = $1", run)
            .await;
        ThreadId::new(row[0].clone().expect("a thread"))
    };
    let first = app.run_of(&note("a@guest.example", "", "One")).await;
    let second = app.run_of(&note("b@guest.example", "", "Two")).await;
    app.drain().await;
    let (old, young) = (thread_of(&first).await, thread_of(&second).await);
    assert_ne!(old, young);
    let day = |cost_micros_max, tokens_max| ThreadBudget {
        run: Allowance::default(),
        day: Allowance {
            cost_micros_max,
            tokens_max,
        },
    };
    let store = &app.engine.store;
    store
        .set_thread_budget(&old, Some(day(Some(7_000), Some(9))))
        .await
        .expect("set");
    store
        .set_thread_budget(&young, Some(day(Some(5_000), None)))
        .await
        .expect("set");
    let both = "References: <a@guest.example> <b@guest.example>\n";
    app.run_of(&note("c@guest.example", both, "Both")).await;
    assert_eq!(thread_of(&second).await, old);
    assert_eq!(
        store.thread_budget(&old).await.expect("a budget"),
        day(Some(5_000), Some(9))
    );
    let sql = "SELECT CAST(spent_micros AS TEXT) FROM budget_accounts WHERE scope = 'thread' AND owner = $1";
    assert_eq!(
        app.row(sql, old.as_str()).await[0].as_deref(),
        Some("1000"),
        "both have spent 500"
    );
}
