//! Two engines on one workspace: the second is refused, or replaces the first; the first then stores and sends nothing.

use super::place::{Client, Running, Sink, attache, send, until, workspace};
use crate::app::db;
use crate::app::{TestApp, audit, note};
use attache::app::Engine;
use attache::clock::Clock;
use attache::config;
use attache::domain::DeliveryId;
use attache::store::{Store, StoreError};
use rustix::process::Signal;
use serde_json::json;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

async fn rows(folder: &Path) -> db::Connection {
    db::Connection::open(folder).await
}

async fn replaced(app: &TestApp) -> Engine {
    let names = attache::cli::name_catalog();
    let config = config::load(app.workspace.path(), &names).expect("a good configuration");
    Engine::take_over(config, app.workspace.clock.clone())
        .await
        .expect("an engine in its place")
}

fn is_fenced(error: &StoreError) -> bool {
    matches!(error, StoreError::Fenced { .. } | StoreError::Buried)
}

#[tokio::test]
async fn a_replaced_engine_stores_nothing_and_its_serving_ends() {
    let app = TestApp::start(json!({ "turns": [{ "say": "From seven to ten." }] })).await;
    app.receive(&note("before@guest.example", "", "When?"))
        .await
        .expect("taken");
    let second = replaced(&app).await;
    let TestApp {
        workspace,
        engine: first,
    } = app;
    let mut rows = workspace.rows().await;
    let before = db::contents::every_row(&mut rows).await;

    let intake = first.intake();
    let letter = crate::app::letter(&note("after@guest.example", "", "When?"));
    assert!(
        intake.accept(letter).await.is_err(),
        "no yes from an engine that was replaced"
    );
    let store = first.store.clone();
    for refused in [
        store.claim_runs(9, 9).await.map(|_| ()),
        store
            .claim_deliveries(9, workspace.clock.now())
            .await
            .map(|_| ()),
        store.recover_deliveries(false).await.map(|_| ()),
        store.recover_runs().await.map(|_| ()),
        store.expire_deliveries(Duration::ZERO).await.map(|_| ()),
        store.mark_committing(&DeliveryId::new("none")).await,
        store.forget_sessions(Duration::ZERO).await.map(|_| ()),
    ] {
        assert!(
            matches!(refused, Err(StoreError::Fenced { .. } | StoreError::Buried)),
            "{refused:?}"
        );
    }
    let serving = first.serve(Vec::new(), CancellationToken::new());
    let ended = tokio::time::timeout(Duration::from_secs(1), serving)
        .await
        .expect("it ends at once");
    let error = ended.expect_err("an engine that was replaced does not end well");
    assert!(error.downcast_ref().is_some_and(is_fenced), "{error:?}");
    assert!(
        db::contents::every_row(&mut rows).await == before,
        "something was written"
    );

    // The control: the same write by whoever is no engine is not refused, so it is the epoch that speaks.
    let beside = Store::open_shared(workspace.path(), workspace.clock.clone())
        .await
        .expect("a store");
    beside
        .forget_sessions(Duration::ZERO)
        .await
        .expect("stored");
    drop(beside);
    let app = TestApp {
        workspace,
        engine: second,
    };
    app.drain().await;
    app.check().await;
    assert_eq!(app.sent().len(), 1);
}

#[test]
fn a_second_engine_is_refused_and_told_who_has_the_workspace() {
    let dir = workspace(
        Sink::default().open(),
        &json!({ "turns": [{ "say": "Yes." }] }),
    );
    let first = Running::start(dir.path(), &[]);
    let began = Instant::now();
    let second = attache(dir.path(), &["serve"])
        .output()
        .expect("the binary runs");
    let (took, said) = (
        began.elapsed(),
        String::from_utf8_lossy(&second.stderr).into_owned(),
    );
    assert_eq!(second.status.code(), Some(78), "{said}");
    assert!(said.contains(&format!("process {}", first.pid())), "{said}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    send(first.port, "still@guest.example", "When?");
}

/// The first engine is stopped with a letter, a run and a mail in its hands, and wakes when all is over.
#[tokio::test]
#[ignore = "second tier"]
async fn a_stopped_replaced_engine_writes_and_sends_nothing_on_waking() {
    let sink = Sink::default();
    let script = json!({ "rules": [
        { "when": { "contains": "slow" }, "say": "Slowly.", "delay_ms": 1500 },
        { "say": "From seven to ten." },
    ] });
    let dir = workspace(sink.open(), &script);
    sink.stalls.store(true, Ordering::SeqCst);
    let first = Running::start(dir.path(), &[]);
    send(first.port, "mail@guest.example", "When?");
    until("the first mail on its way", || {
        sink.asked.load(Ordering::SeqCst) == 1
    });
    send(first.port, "run@guest.example", "a slow one");
    let mut half = Client::begin(first.port).expect("a dialogue");
    let mut rows = rows(dir.path()).await;
    let asked = "SELECT count(*) FROM run_turns WHERE state = 'started'";
    while db::number(&mut rows, asked).await == 0 {
        crate::app::glance().await;
    }
    first.stop_between_writes(dir.path()).await;

    let refused = attache(dir.path(), &["serve"])
        .output()
        .expect("the binary runs");
    assert_eq!(refused.status.code(), Some(78));
    sink.stalls.store(false, Ordering::SeqCst);
    // The first one's dialogue stalls where it is: what it hears when it wakes is an old yes to DATA.
    let second = Running::start(dir.path(), &["--take-over"]);
    send(second.port, "new@guest.example", "When?");
    until("three answers", || {
        sink.mails.lock().expect("a lock").len() == 3
    });
    second.signal(Signal::TERM);
    let (status, said, _) = second.ended();
    assert_eq!(status.code(), Some(0), "{said}");

    let before = db::contents::every_row(&mut rows).await;
    half.letter("half@guest.example", "When?").expect("sent");
    first.signal(Signal::CONT);
    let (status, said, took) = first.ended();
    // On PostgreSQL a node may be started again at once.
    let (code, words) = match crate::app::database::is_postgres() {
        true => (75, "another node has taken its work over"),
        false => (78, "another engine has taken this workspace over"),
    };
    assert_eq!(status.code(), Some(code), "{said}");
    assert!(said.contains(words), "{said}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let reply = half.append().unwrap_or_default();
    assert!(!reply.starts_with("250"), "{reply}");
    assert!(
        db::contents::every_row(&mut rows).await == before,
        "something was written"
    );
    assert_eq!(
        sink.mails.lock().expect("a lock").len(),
        3,
        "something was sent"
    );
    audit(&mut rows).await;
    assert_eq!(
        db::number(
            &mut rows,
            "SELECT count(*) FROM runs WHERE state = 'succeeded'"
        )
        .await,
        3
    );
}
