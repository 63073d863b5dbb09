//! A run that takes engine after engine down is put aside and named; whoever was only beside it is answered.

use super::place::{Running, Sink, attache, send, until, workspace};
use crate::app::db;
use crate::app::{TestApp, Workspace, audit, note};
use attache::domain::{RunId, RunState, StopReason};
use attache::store::{ClaimedRun, JournalEntry, RunFinished, RunKey};
use rustix::process::Signal;
use serde_json::json;
use sqlx::AssertSqlSafe;
use std::time::Duration;

/// How long an engine lives without a suspect before it tries it.
pub const WITHOUT: Duration = Duration::from_secs(60);

pub async fn one_run(script: serde_json::Value) -> (TestApp, String) {
    let app = Workspace::new(&script).talkative().start().await;
    let run = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    (app, run)
}

pub fn answer() -> serde_json::Value {
    json!({ "turns": [{ "say": "From seven to ten." }] })
}

pub async fn claim(app: &TestApp) -> Vec<ClaimedRun> {
    app.engine.store.claim_runs(20, 20).await.expect("claimed")
}

/// The engine dies with its runs in its hands; suspects were tried.
pub async fn dies(app: TestApp, runs: usize) -> TestApp {
    app.workspace.clock.advance(WITHOUT);
    assert_eq!(claim(&app).await.len(), runs);
    app.restart().await
}

/// A turn of the run, as its journal would have it.
async fn turn(app: &TestApp, index: u32, attempt: u32, state: &str) {
    let insert = format!(
        "INSERT INTO run_turns (run_id, turn_index, attempt, persona_id, request_json, request_sha256, provider, model,
           state, started_at)
         SELECT id, {index}, {attempt}, persona_id, '{{}}', '', 'scripted', 'test', '{state}', created_at FROM runs"
    );
    db::query(AssertSqlSafe(insert))
        .execute(&mut app.workspace.rows().await)
        .await
        .expect("a turn");
}

async fn said(app: &TestApp, run: &str) -> String {
    let row = app
        .row(
            "SELECT state || ': ' || coalesce(error_message, '') FROM runs WHERE id = $1",
            run,
        )
        .await;
    row[0].clone().unwrap_or_default()
}

#[tokio::test]
async fn a_run_that_stops_three_engines_is_put_aside_and_told_once() {
    let (mut app, run) = one_run(answer()).await;
    for crash in 1..=3 {
        assert_eq!(app.outcome(&run).await.0, "queued", "before crash {crash}");
        app = dies(app, 1).await;
    }
    let outcome = app.outcome(&run).await;
    assert_eq!(
        outcome,
        (
            "failed".into(),
            Some("failed".into()),
            Some("crashed".into())
        )
    );
    let said = said(&app, &run).await;
    assert!(
        said.contains("stopped 3 times in a row at the same step of this run: its context"),
        "{said}"
    );
    assert!(claim(&app).await.is_empty());
    app.run_of(&note("q2@guest.example", "", "When is lunch?"))
        .await;
    app.drain().await;
    app.drain().await;
    assert_eq!((app.sent().len(), app.notices().len()), (1, 1));
    assert!(
        app.notices()[0].text.contains("the same step of this run"),
        "{}",
        app.notices()[0].text
    );
    app.check().await;
}

#[tokio::test]
async fn a_crash_counts_anew_at_a_later_step_but_not_at_a_repeat() {
    let (mut app, run) = one_run(answer()).await;
    for _ in 0..2 {
        app = dies(app, 1).await;
    }
    turn(&app, 0, 1, "answered").await;
    for attempt in 1..=3 {
        assert_eq!(
            app.outcome(&run).await.0,
            "queued",
            "before attempt {attempt}"
        );
        turn(&app, 1, attempt, "started").await;
        app = dies(app, 1).await;
    }
    let said = said(&app, &run).await;
    assert!(
        said.contains("3 times in a row at the same step of this run: turn 2, while test on"),
        "{said}"
    );
}

#[tokio::test]
async fn an_orderly_stop_is_neither_a_crash_nor_an_attempt() {
    let (mut app, run) = one_run(answer()).await;
    for _ in 0..5 {
        let claimed = claim(&app).await;
        assert_eq!(claimed[0].attempt, 1);
        app.engine
            .store
            .requeue_run(&claimed[0].id, Duration::ZERO)
            .await
            .expect("put back");
        app = app.restart().await;
    }
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    app.check().await;
}

#[tokio::test]
async fn a_person_who_retries_a_run_has_it_counted_anew() {
    let (mut app, run) = one_run(answer()).await;
    for _ in 0..3 {
        app = dies(app, 1).await;
    }
    app.engine
        .store
        .retry_run(&RunId::new(run.clone()))
        .await
        .expect("queued");
    for _ in 0..2 {
        app = dies(app, 1).await;
    }
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
}

/// Ends a run as its own work would.
async fn ends_well(app: &TestApp, run: &ClaimedRun) {
    let key = RunKey {
        run: run.id.clone(),
        trigger_message: run.trigger_message.clone(),
    };
    let end = RunFinished {
        state: RunState::Succeeded,
        stop_reason: StopReason::NoReply,
        error: None,
    };
    let journal = app.engine.store.persona(&run.persona);
    journal
        .journal(&key, vec![JournalEntry::Finished(end)])
        .await
        .expect("ended");
}

#[tokio::test]
async fn runs_only_beside_a_poisonous_one_are_cleared_one_by_one() {
    let mut app = Workspace::new(&answer()).talkative().start().await;
    let mut runs = Vec::new();
    for n in 0..10 {
        runs.push(
            app.run_of(&note(
                &format!("q{n}@guest.example"),
                "",
                "When is breakfast?",
            ))
            .await,
        );
    }
    let poison = runs.remove(4);
    for _ in 0..2 {
        app = dies(app, 10).await;
    }
    // The control: by counting alone, all ten would be put aside now.
    let counted = "SELECT CAST(count(*) AS TEXT) FROM runs WHERE crashes = 2 AND $1 = $1";
    assert_eq!(app.row(counted, "").await[0].as_deref(), Some("10"));
    app.workspace.clock.advance(WITHOUT);
    for innocent in runs.iter().take(4) {
        let claimed = claim(&app).await;
        assert_eq!(claimed.len(), 1, "suspects are alone");
        assert_eq!(claimed[0].id.as_str(), innocent);
        assert!(claim(&app).await.is_empty(), "nobody joins a suspect");
        ends_well(&app, &claimed[0]).await;
    }
    let claimed = claim(&app).await;
    assert!(claimed.len() == 1 && claimed[0].id.as_str() == poison);
    app = app.restart().await;
    assert_eq!(app.outcome(&poison).await.2.as_deref(), Some("crashed"));
    app.run_of(&note("l@guest.example", "", "When is lunch?"))
        .await;
    assert_eq!(
        claim(&app).await.len(),
        6,
        "those who waited while an engine died are suspected no more"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_engine_killed_by_a_letter_serves_the_others_all_the_while() {
    let script = json!({ "rules": [
        { "when": { "contains": "poison" }, "hang": true },
        { "say": "From seven to ten." },
    ] });
    let sink = Sink::default();
    let dir = workspace(sink.open(), &script);
    let asked = "SELECT count(*) FROM run_turns WHERE state = 'started'";
    for kill in 1..=2 {
        let engine = Running::start(dir.path(), &[]);
        if kill == 1 {
            send(engine.port, "poison@guest.example", "poison");
        }
        let mut rows = db::Connection::open(dir.path()).await;
        while db::query_scalar::<i64>(asked)
            .fetch_one(&mut rows)
            .await
            .expect("turns")
            < kill
        {
            crate::app::glance().await;
        }
        engine.signal(Signal::KILL);
        engine.ended();
    }
    let mut rows = db::Connection::open(dir.path()).await;
    let engine = Running::start(dir.path(), &[]);
    send(engine.port, "breakfast@guest.example", "When is breakfast?");
    until("an answer, while the suspect waits", || {
        sink.mails.lock().expect("a lock").len() == 1
    });
    engine.signal(Signal::TERM);
    assert_eq!(engine.ended().0.code(), Some(0));
    // Who works off the queue does not wait for it; this is what kills it.
    let mut drain = attache(dir.path(), &["drain"])
        .spawn()
        .expect("the binary runs");
    while db::query_scalar::<i64>(asked)
        .fetch_one(&mut rows)
        .await
        .expect("turns")
        < 3
    {
        crate::app::glance().await;
    }
    drain.kill().and_then(|()| drain.wait()).expect("killed");
    let engine = Running::start(dir.path(), &[]);
    send(engine.port, "lunch@guest.example", "When is lunch?");
    until("an answer", || {
        sink.mails.lock().expect("a lock").len() == 2
    });
    engine.signal(Signal::TERM);
    assert_eq!(engine.ended().0.code(), Some(0));
    let told = "SELECT summary FROM notices WHERE kind = 'run_failed'";
    let told: Vec<String> = db::query_scalar(told)
        .fetch_all(&mut rows)
        .await
        .expect("notices");
    assert!(
        told.len() == 1 && told[0].contains("turn 1, while"),
        "{told:?}"
    );
    audit(&mut rows).await;
}
