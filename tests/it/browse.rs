//! Browsing threads and runs, and what an operator may do with a run.

use crate::app::{TestApp, note};
use attache::domain::{PersonaId, RunId, RunState};
use attache::store::{Cancellation, RunFilter, StoreError, ThreadFilter};
use serde_json::json;

fn answering() -> serde_json::Value {
    json!({ "rules": [{ "say": "Seven." }] })
}

async fn with_runs(count: usize) -> (TestApp, Vec<RunId>) {
    let app = TestApp::start(answering()).await;
    let mut runs = Vec::new();
    for n in 0..count {
        app.workspace
            .clock
            .advance(std::time::Duration::from_secs(1));
        runs.push(RunId::new(
            app.run_of(&note(
                &format!("q{n}@guest.example"),
                "",
                &format!("Letter {n}"),
            ))
            .await,
        ));
    }
    (app, runs)
}

#[tokio::test]
async fn pages_show_the_newest_first_and_miss_nothing() {
    let (app, runs) = with_runs(5).await;
    let store = &app.engine.store;
    let mut seen = Vec::new();
    for offset in [0, 2, 4] {
        let page = store
            .list_runs(&RunFilter {
                limit: 2,
                offset,
                ..RunFilter::default()
            })
            .await
            .expect("runs");
        seen.extend(page.into_iter().map(|run| run.id));
    }
    seen.reverse();
    assert_eq!(seen, runs);
    let mut threads = Vec::new();
    for offset in [0, 3] {
        let filter = ThreadFilter {
            persona: None,
            limit: 3,
            offset,
        };
        threads.extend(store.list_threads(&filter).await.expect("threads"));
    }
    assert_eq!(threads.len(), 5);
    assert!(
        threads
            .windows(2)
            .all(|pair| pair[0].updated_at > pair[1].updated_at)
    );
    let newest = &threads[0];
    assert_eq!((newest.messages, newest.runs, newest.open_runs), (1, 1, 1));
    assert_eq!(newest.participants, ["bob@guest.example"]);
}

#[tokio::test]
async fn filters_narrow_what_is_listed() {
    let (app, runs) = with_runs(3).await;
    let store = &app.engine.store;
    assert_eq!(
        store.request_cancel(&runs[1]).await.expect("cancelled"),
        Cancellation::Done
    );
    let list = async |filter: RunFilter| {
        let found = store
            .list_runs(&RunFilter {
                limit: 10,
                ..filter
            })
            .await
            .expect("runs");
        found.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    let cancelled = RunFilter {
        states: vec![RunState::Cancelled],
        ..RunFilter::default()
    };
    assert_eq!(list(cancelled).await, [runs[1].clone()]);
    let since = store.run_summary(&runs[2]).await.expect("a run").created_at;
    assert_eq!(
        list(RunFilter {
            since: Some(since),
            ..RunFilter::default()
        })
        .await,
        [runs[2].clone()]
    );
    let ended = RunFilter {
        ended_since: Some(since),
        ..RunFilter::default()
    };
    assert_eq!(list(ended).await, [runs[1].clone()]);
    let ada = PersonaId::parse("ada").expect("an id");
    assert_eq!(
        list(RunFilter {
            persona: Some(ada.clone()),
            ..RunFilter::default()
        })
        .await
        .len(),
        3
    );
    let nobody = Some(PersonaId::parse("nobody").expect("an id"));
    assert!(
        list(RunFilter {
            persona: nobody.clone(),
            ..RunFilter::default()
        })
        .await
        .is_empty()
    );
    for (persona, wanted) in [(Some(ada), 3), (nobody, 0)] {
        let filter = ThreadFilter {
            persona,
            limit: 10,
            offset: 0,
        };
        assert_eq!(
            store.list_threads(&filter).await.expect("threads").len(),
            wanted
        );
    }
}

#[tokio::test]
async fn an_id_may_be_cut_as_long_as_it_is_the_only_one() {
    let (app, runs) = with_runs(2).await;
    let store = &app.engine.store;
    let (whole, other) = (runs[0].as_str(), runs[1].as_str());
    assert_eq!(store.find_run(whole).await.expect("whole"), runs[0]);
    assert_eq!(
        store.find_run(&whole.to_uppercase()).await.expect("whole"),
        runs[0]
    );
    let same = whole
        .bytes()
        .zip(other.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    assert!(same >= 6, "ids of one hour begin alike");
    assert_eq!(store.find_run(&whole[..=same]).await.expect("cut"), runs[0]);
    match store.find_run(&whole[..same]).await {
        Err(StoreError::Ambiguous { found, .. }) => assert_eq!(found, [whole, other]),
        found => panic!("{found:?}"),
    }
    for nothing in [
        "",
        &whole[..5],
        "zzzzzzzz",
        "ffffffff",
        "%",
        "______",
        "' OR 1=1 --",
    ] {
        let found = store.find_run(nothing).await;
        assert!(
            matches!(found, Err(StoreError::Missing { kind: "run", .. })),
            "{nothing}: {found:?}"
        );
    }
}

#[tokio::test]
async fn the_end_of_an_id_will_do() {
    let (app, runs) = with_runs(2).await;
    let store = &app.engine.store;
    let (whole, other) = (runs[0].as_str(), runs[1].as_str());
    // As lists show them: the end, which chance made, where letters of one second share their beginning.
    let tail = &whole[whole.len() - 8..];
    assert_eq!(store.find_run(tail).await.expect("its end"), runs[0]);
    assert_eq!(
        store.find_run(&tail.to_uppercase()).await.expect("its end"),
        runs[0]
    );
    assert!(
        matches!(
            store.find_run(&tail[3..]).await,
            Err(StoreError::Missing { .. })
        ),
        "five are too few"
    );
    let shared = whole
        .bytes()
        .rev()
        .zip(other.bytes().rev())
        .take_while(|(a, b)| a == b)
        .count();
    assert!(shared < 8, "the clock of the tests counts ids up");
    assert_eq!(
        store.newest_run().await.expect("a run"),
        Some(runs[1].clone())
    );
    let thread = store.run_summary(&runs[0]).await.expect("a run").thread;
    assert_eq!(
        store
            .find_thread(thread.as_str())
            .await
            .expect("the thread"),
        thread
    );
    assert!(matches!(
        store.find_thread(whole).await,
        Err(StoreError::Missing { kind: "thread", .. })
    ));
}

#[tokio::test]
async fn a_queued_run_is_cancelled_at_once_and_may_be_queued_again() {
    let (app, runs) = with_runs(1).await;
    let (store, run) = (&app.engine.store, &runs[0]);
    assert_eq!(
        store.request_cancel(run).await.expect("cancelled"),
        Cancellation::Done
    );
    assert_eq!(app.drain().await.runs, 0);
    let ended = (
        "cancelled".to_owned(),
        Some("cancelled".to_owned()),
        Some("cancelled".to_owned()),
    );
    assert_eq!(app.outcome(run.as_str()).await, ended);
    let again = store.request_cancel(run).await;
    assert!(
        matches!(&again, Err(StoreError::WrongState { state, .. }) if state == "cancelled"),
        "{again:?}"
    );
    store.retry_run(run).await.expect("queued");
    assert_eq!(app.drain().await.runs, 1);
    assert_eq!(
        app.outcome(run.as_str()).await,
        ("succeeded".to_owned(), Some("answered".to_owned()), None)
    );
    assert_eq!(app.sent().len(), 1);
    for ended in [
        store.retry_run(run).await.err(),
        store.request_cancel(run).await.err(),
    ] {
        assert!(
            matches!(&ended, Some(StoreError::WrongState { state, .. }) if state == "succeeded"),
            "{ended:?}"
        );
    }
    let nobody = RunId::new("00000000-0000-7000-8000-000000000000");
    for missing in [
        store.retry_run(&nobody).await.err(),
        store.request_cancel(&nobody).await.err(),
    ] {
        assert!(
            matches!(missing, Some(StoreError::Missing { kind: "run", .. })),
            "{missing:?}"
        );
    }
    let row = app
        .row(
            "SELECT group_concat(decision, ' ') FROM audit_log WHERE subject_id = $1",
            run.as_str(),
        )
        .await;
    assert_eq!(row[0].as_deref(), Some("cancel retry"));
    app.check().await;
}

#[tokio::test]
async fn a_running_run_is_marked_for_the_engine_that_works_on_it() {
    let (app, runs) = with_runs(1).await;
    let (store, run) = (&app.engine.store, &runs[0]);
    assert_eq!(store.claim_runs(1, 1).await.expect("claimed").len(), 1);
    assert_eq!(
        store.request_cancel(run).await.expect("marked"),
        Cancellation::Requested
    );
    assert_eq!(
        store.request_cancel(run).await.expect("marked again"),
        Cancellation::Requested
    );
    assert_eq!(
        store.cancel_requests().await.expect("marks"),
        std::slice::from_ref(run)
    );
    assert!(store.retry_run(run).await.is_err());
}

#[tokio::test]
async fn a_retried_run_goes_on_from_its_journal() {
    let app = TestApp::start(json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "when": { "turn": 1 }, "say": "Seven.", "error": { "class": "auth", "times": 1 } },
    ] }))
    .await;
    let run = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        app.outcome(&run).await,
        ("failed".into(), Some("failed".into()), Some("auth".into()))
    );
    app.engine
        .store
        .retry_run(&RunId::new(&run))
        .await
        .expect("queued");
    app.drain().await;
    assert_eq!(
        app.outcome(&run).await,
        ("succeeded".into(), Some("answered".into()), None)
    );
    assert_eq!(app.trace(&run).await, ["call read_file", "ok read_file"]);
    assert_eq!(
        app.prompts(&run).await.len(),
        3,
        "the first turn is not asked for again"
    );
    assert_eq!(app.sent().len(), 1);
    app.check().await;
}
