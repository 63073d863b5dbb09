//! Retention by the engine itself: what has an age goes, in bounded steps that go on after a restart; without an age nothing goes.

use super::workspace::{attache, lived, script};
use crate::app::db;
use crate::app::{TestApp, Workspace};
use attache::keeping::{RetentionPause, RetentionWorker};
use attache::store::gc::KINDS;
use serde_json::{Value, json};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
const ROWS: u64 = 100_000;
/// Most rows of a transaction.
const STEP_MAX: u64 = 500;

fn worker(app: &TestApp) -> RetentionWorker {
    RetentionWorker::new(&app.engine.store, &app.engine.config)
}

/// Decisions of the last hundred days, a thousand a day.
async fn decisions(app: &TestApp) {
    let sql = "INSERT INTO audit_log (persona_id, subject_kind, subject_id, decision, rule, detail, created_at)
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
        SELECT 'ada', 'message', 'm' || i, 'filed', 'rule', 'detail', strftime('%Y-%m-%dT%H:%M:%fZ', $2, '-' || (1 + ($1 - i) / 1000) || ' days') FROM n";
    let mut rows = app.workspace.rows().await;
    db::query(sql)
        .bind(i64::try_from(ROWS).expect("a number"))
        .bind(app.engine.store.clock().now().to_string())
        .execute(&mut rows)
        .await
        .expect("rows");
}

async fn left(app: &TestApp) -> u64 {
    let count = app.row(
        "SELECT CAST(count(*) AS TEXT) FROM audit_log WHERE rule = $1",
        "rule",
    );
    let count = count.await[0].clone();
    count.expect("a count").parse().expect("a number")
}

async fn went(app: &TestApp) -> u64 {
    let pass = app.engine.store.retention_pass("decisions").await;
    pass.expect("readable").map_or(0, |pass| pass.total_rows)
}

/// Makes steps until nothing is to be done, or so many; returns how many and the most rows of one.
async fn work(app: &TestApp, steps_max: usize) -> (usize, u64) {
    let (worker, mut most) = (worker(app), 0);
    for step in 0..steps_max {
        let before = went(app).await;
        if worker.work_once().await.expect("a step") == RetentionPause::Idle {
            return (step, most);
        }
        most = most.max(went(app).await - before);
    }
    (steps_max, most)
}

fn aged(decisions: &str) -> Workspace {
    let workspace = Workspace::new(&script());
    let ages = json!({ "retention": { "decisions": decisions } });
    workspace.write_json("configs/keeping.json", &ages);
    workspace
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_hundred_thousand_rows_go_in_bounded_steps_and_on_after_a_restart() {
    let app = aged("30d").start().await;
    decisions(&app).await;
    assert_eq!(left(&app).await, ROWS);
    let (steps, most) = work(&app, 60).await;
    assert_eq!((steps, most), (60, STEP_MAX));
    assert_eq!(left(&app).await, ROWS - 60 * STEP_MAX);
    let app = app.restart().await;
    let (steps, most) = work(&app, 10_000).await;
    // Rows of the last thirty days stay, and the steps before the restart are not made again.
    assert_eq!(left(&app).await, 30_000);
    assert_eq!((steps, most), (80 + 1, STEP_MAX));
    let (steps, _) = work(&app, 10).await;
    assert_eq!(steps, 0, "a pass a day");
    app.workspace.clock.advance(DAY);
    work(&app, 10).await;
    assert_eq!(left(&app).await, 29_000);
    let (code, stdout, stderr) = attache(app.workspace.path(), &["gc", "--report", "--json"]).await;
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    let report = report.as_array().expect("a list").iter();
    let kind = report.clone().find(|kind| kind["kind"] == "decisions");
    let kind = kind.expect("a kind");
    assert_eq!(kind["age"], "30d");
    assert_eq!(kind["last"]["pass_rows"], 1000);
    assert_eq!(kind["last"]["total_rows"], 71_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_age_that_is_raised_in_the_middle_of_a_pass_counts_at_once() {
    let app = aged("30d").start().await;
    decisions(&app).await;
    work(&app, 4).await;
    let ages = json!({ "retention": { "decisions": "90d" } });
    app.workspace.write_json("configs/keeping.json", &ages);
    let app = app.restart().await;
    work(&app, 10_000).await;
    assert_eq!(left(&app).await, 90_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_age_nothing_goes() {
    let app = Workspace::new(&script()).start().await;
    decisions(&app).await;
    app.workspace.clock.advance(DAY * 4000);
    assert_eq!(work(&app, 10).await, (0, 0));
    assert_eq!(left(&app).await, ROWS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_engine_throws_away_is_what_gc_says_and_the_rest_is_whole() {
    let app = lived().await;
    let ages = json!({ "retention": { "turns": "10d", "letters": "10d", "mails": "20d", "attachments": "10d" } });
    app.workspace.write_json("configs/keeping.json", &ages);
    let app = app.restart().await;
    app.workspace.clock.advance(DAY * 15);
    let dry = ["gc", "--configured", "--dry-run", "--json"];
    // The command goes by the clock of the machine, so it is asked with the instant of the test's.
    let now = app.engine.store.clock().now();
    let older = now.minus(DAY * 10).to_string();
    let args = [
        "gc",
        "--older-than",
        &older,
        "--kind",
        "turns,letters,attachments",
        "--dry-run",
        "--json",
    ];
    let (code, stdout, stderr) = attache(app.workspace.path(), &args).await;
    assert_eq!(code, 0, "{stderr}");
    let said: Value = serde_json::from_str(&stdout).expect("JSON");
    work(&app, 1000).await;
    for kind in said["kinds"].as_array().expect("kinds") {
        let name = kind["kind"].as_str().expect("a name");
        let pass = app
            .engine
            .store
            .retention_pass(name)
            .await
            .expect("readable");
        let pass = pass.expect("a pass");
        assert!(kind["rows"].as_u64() > Some(0), "{name}");
        assert_eq!(Some(pass.pass_rows), kind["rows"].as_u64(), "{name}");
    }
    let mails = app
        .engine
        .store
        .retention_pass("mails")
        .await
        .expect("readable");
    assert_eq!(mails.expect("a pass").pass_rows, 0, "they are too young");
    let (code, _, stderr) = attache(app.workspace.path(), &dry).await;
    assert_eq!(code, 0, "{stderr}");
    app.check().await;
}

#[test]
fn every_kind_of_gc_may_have_an_age() {
    let ages = attache::config::RetentionAges::default().kinds();
    let ages: Vec<&str> = ages.iter().map(|(kind, _)| *kind).collect();
    let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(ages, kinds);
}
