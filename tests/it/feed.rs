//! The feed of what happens: each event in the commit that makes it true, in one order for every reader, bounded.

use crate::app::database::is_postgres;
use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use crate::approvals::scene;
use crate::scheduler::world::{World, at};
use attache::clock::Clock;
use attache::domain::{ApprovalState, FeedKind, PersonaId, RunId, RunState, ThreadId, Timestamp};
use attache::runs::chat::question::{AskedAt, question};
use attache::store::{
    ApprovalVerdict, DeliveryState, FeedEvent, FeedFilter, FeedPage, ListPage, PowerCut, Store,
    StoreError,
};
use serde_json::json;
use std::time::Duration;

async fn page(store: &Store, since: i64) -> FeedPage {
    let page = store.feed_after(since, &FeedFilter::default(), 1000).await;
    page.expect("a page of the feed")
}

async fn kinds(store: &Store, since: i64) -> Vec<&'static str> {
    let events = page(store, since).await.events;
    events.iter().map(|event| event.kind.as_str()).collect()
}

/// Asks Ada without working on it.
pub async fn asks(app: &TestApp, store: &Store, text: &str) -> RunId {
    try_asking(app, store, text).await.expect("asked")
}

async fn try_asking(app: &TestApp, store: &Store, text: &str) -> Result<RunId, StoreError> {
    let id = PersonaId::parse("ada").expect("an id");
    let persona = app.engine.config.personas.get(&id).expect("ada").clone();
    let clock: &dyn Clock = app.workspace.clock.as_ref();
    let new = question(&persona, AskedAt::Terminal, clock, text, None);
    let run = new.run.id.clone();
    store.persona(&id).ask(new).await.map(|_thread| run)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_letter_and_its_answer_are_told_step_by_step() {
    let app = TestApp::start(json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "say": "From seven to ten." },
    ] }))
    .await;
    let run = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.workspace.clock.advance(Duration::from_secs(5));
    app.drain().await;
    let store = &app.engine.store;
    let events = page(store, 0).await.events;
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    let expected = [
        "letter.run",
        "run.running",
        "turn.answered",
        "call.begun",
        "call.finished",
        "turn.answered",
        "run.succeeded",
        "delivery.done",
    ];
    assert_eq!(kinds, expected);
    let numbers: Vec<i64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    let thread = events[0].thread.clone().expect("a thread");
    for event in &events {
        assert_eq!(event.run.as_ref().map(RunId::as_str), Some(run.as_str()));
        assert_eq!(event.thread.as_ref(), Some(&thread), "{event:?}");
        assert_eq!(event.persona.as_ref().map(PersonaId::as_str), Some("ada"));
    }
    let (first, rest) = events.split_first().expect("events");
    assert_eq!(first.at.to_string(), crate::app::START);
    let later = app.workspace.clock.now();
    assert!(rest.iter().all(|event| event.at == later), "{rest:?}");
    assert!(events[7].delivery.is_some() && events[7].message.is_some());
    assert_eq!(events[5].item.as_deref(), Some("[1,1]"));
    // A call is known by its id, at its begin and at its end.
    assert!(events[3].item.is_some() && events[3].item == events[4].item);
    app.check().await;
}

#[tokio::test]
async fn letters_without_a_run_and_imported_ones_are_told_apart() {
    let app = TestApp::start(json!({ "turns": [] })).await;
    let sent = note(
        "auto@guest.example",
        "Auto-Submitted: auto-replied\n",
        "I am away.",
    );
    app.receive(&sent).await.expect("taken");
    let events = page(&app.engine.store, 0).await.events;
    assert_eq!(events[0].kind, FeedKind::LetterFiled, "{events:?}");
    assert!(events[0].message.is_some() && events[0].run.is_none());
    let letter = events[0].message.clone().expect("a letter");
    app.engine
        .store
        .answer_message(&letter)
        .await
        .expect("a run after all");
    assert_eq!(kinds(&app.engine.store, 1).await, ["letter.run"]);
}

#[tokio::test]
async fn a_run_that_is_parked_retried_cancelled_or_fails_tells_each_state() {
    let app = TestApp::start(json!({ "rules": [
        { "when": { "contains": "later" }, "error": { "class": "rate_limited", "times": 1, "retry_after_ms": 3_600_000 }, "say": "So." },
        { "error": { "class": "auth" } },
    ] }))
    .await;
    let store = &app.engine.store;
    let parked = asks(&app, store, "later").await;
    app.workspace.clock.advance(Duration::from_secs(1));
    app.drain().await;
    let parks = page(store, 0).await.events;
    let park = parks
        .iter()
        .find(|event| event.kind == FeedKind::RunWaitingRetry);
    let park = park.unwrap_or_else(|| panic!("not parked: {parks:?}"));
    assert_eq!(
        (park.run.as_ref(), park.at),
        (Some(&parked), app.workspace.clock.now())
    );
    let seen = store.feed_newest().await.expect("a number");
    store.retry_run(&parked).await.expect("retried");
    let cancelled = asks(&app, store, "never").await;
    store.request_cancel(&cancelled).await.expect("cancelled");
    assert_eq!(
        kinds(store, seen).await,
        ["run.queued", "run.queued", "run.cancelled"]
    );
    app.drain().await;
    let seen = store.feed_newest().await.expect("a number");
    let failed = asks(&app, store, "now").await;
    app.drain().await;
    let of_run = FeedFilter {
        run: Some(failed),
        ..FeedFilter::default()
    };
    let events = store
        .feed_after(seen, &of_run, 1000)
        .await
        .expect("a page")
        .events;
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    let expected = [
        "run.queued",
        "run.running",
        "turn.failed",
        "run.failed",
        "notice.opened",
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_question_to_the_owner_its_decision_and_the_mail_are_told() {
    let app = Workspace::new(&scene::asks()).talkative().start().await;
    let store = &app.engine.store;
    asks(&app, store, "Tell Eve about Tuesday.").await;
    app.drain().await;
    let told = kinds(store, 0).await;
    assert!(
        told.contains(&"approval.asked") && told.contains(&"run.waiting_approval"),
        "{told:?}"
    );
    let seen = store.feed_newest().await.expect("a number");
    let open = store
        .approvals(Some(ApprovalState::Open), None, ListPage::first(2))
        .await
        .expect("questions");
    let decided = store.decide_approval(&open[0].id, scene::decision(ApprovalVerdict::Approve, ""));
    decided.await.expect("decided");
    let events = page(store, seen).await.events;
    assert_eq!(events[0].kind, FeedKind::ApprovalApproved, "{events:?}");
    assert_eq!(events[0].approval.as_deref(), Some(open[0].id.as_str()));
    assert_eq!(events.last().expect("events").kind, FeedKind::RunQueued);
    app.drain().await;
    assert!(kinds(store, seen).await.contains(&"delivery.done"));
    app.check().await;
}

#[tokio::test]
async fn slots_that_fire_and_are_missed_are_told_with_the_instant_at_which_that_was() {
    let world = World::at("2026-11-20T09:00:30.000Z").await;
    world.write(
        "hourly.md",
        "---\nname: Hourly\nschedule: \"0 * * * *\"\n---\n\nLook.\n",
    );
    world.sync().await;
    world.tick_at("2026-11-20T10:00:01.000Z").await;
    let events = page(&world.store, 0).await.events;
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["slot.fired", "run.queued"]);
    assert_eq!(events[0].run, events[1].run);
    let slot = events[0].item.as_deref().expect("a slot");
    assert!(slot.contains("2026-11-20T10:00:00"), "{slot}");
    assert_eq!(events[0].at, at("2026-11-20T10:00:01.000Z"));
}

#[test]
fn every_state_of_a_row_has_a_kind() {
    let known = |subject: &str, state: &str| {
        let kind = format!("{subject}.{state}");
        assert!(
            FeedKind::parse(&kind).is_some(),
            "the feed does not know `{kind}`"
        );
    };
    RunState::ALL
        .iter()
        .for_each(|state| known("run", state.as_str()));
    let in_flight = [DeliveryState::Sending, DeliveryState::Committing];
    let outcomes = DeliveryState::ALL
        .iter()
        .filter(|state| !in_flight.contains(state));
    outcomes.for_each(|state| known("delivery", state.as_str()));
    let decided = ApprovalState::ALL
        .iter()
        .filter(|state| **state != ApprovalState::Open);
    decided.for_each(|state| known("approval", state.as_str()));
    for state in ["waiting", "fired", "skipped_overlap", "missed", "paused"] {
        known("slot", state);
    }
    ["answered", "failed"]
        .iter()
        .for_each(|state| known("turn", state));
}

#[tokio::test]
async fn the_feed_never_refuses_the_commit_of_a_row_that_says_less_than_usual() {
    let app = TestApp::start(json!({ "turns": [{ "say": "Seven." }] })).await;
    asks(&app, &app.engine.store, "first").await;
    app.drain().await;
    let seen = app.engine.store.feed_newest().await.expect("a number");
    let odd = "UPDATE run_turns SET state = 'started', finished_at = NULL;
        UPDATE run_turns SET state = 'failed';
        UPDATE runs SET state = 'running', finished_at = NULL, state_at = NULL;
        UPDATE runs SET state = 'failed'";
    let mut rows = app.workspace.rows().await;
    db::raw_sql(odd).execute(&mut rows).await.expect("stored");
    let expected = ["turn.failed", "run.running", "run.failed"];
    assert_eq!(kinds(&app.engine.store, seen).await, expected);
}

#[tokio::test]
async fn what_did_not_commit_is_not_told() {
    let app = TestApp::start(json!({ "turns": [] })).await;
    asks(&app, &app.engine.store, "first").await;
    let seen = app.engine.store.feed_newest().await.expect("a number");
    app.engine.store.cut_power(PowerCut::BeforeCommit(1));
    let letter = note("q1@guest.example", "", "When is breakfast?");
    assert!(app.receive(&letter).await.is_err());
    assert_eq!(page(&app.engine.store, seen).await.events, []);
    let app = app.restart().await;
    app.receive(&letter).await.expect("taken");
    let event = &page(&app.engine.store, seen).await.events[0];
    assert_eq!(event.kind, FeedKind::LetterRun);
    // The number that was not committed is given again, so there is no gap either; PostgreSQL gives none twice.
    assert!(event.seq == seen + 1 || is_postgres() && event.seq > seen);
}

/// Writers of one process and of another, and readers that look as fast as they can.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "second tier"]
async fn no_reader_misses_an_event_or_sees_one_twice_while_several_processes_write() {
    const EACH: usize = 40;
    let app = TestApp::start(json!({ "turns": [] })).await;
    let path = app.workspace.path();
    let clock = app.workspace.clock.clone();
    let other = Store::open_shared(path, clock.clone())
        .await
        .expect("opened beside");
    let watcher = Store::open_to_read(path, clock)
        .await
        .expect("opened to read");
    let total = i64::try_from(4 * EACH).expect("few");
    let write = async |store: &Store| {
        for n in 0..EACH {
            // A process that is busy for long has the other one try again.
            while let Err(error) = try_asking(&app, store, &format!("question {n}")).await {
                assert!(matches!(error, StoreError::NotCommitted(_)), "{error}");
            }
        }
    };
    let read = async |store: &Store, limit: u32| {
        let (mut seen, mut since) = (Vec::<FeedEvent>::new(), 0);
        while since < total {
            // A page is read on this thread: those who write would never have their turn.
            tokio::task::yield_now().await;
            let page = store.feed_after(since, &FeedFilter::default(), limit).await;
            let page = page.expect("a page");
            assert!(!page.has_gap);
            seen.extend(page.events);
            since = page.through;
        }
        seen
    };
    let store = &app.engine.store;
    let (_, _, _, _, ours, beside, reading) = tokio::join!(
        write(store),
        write(&other),
        write(store),
        write(&other),
        read(store, 3),
        read(&other, 1000),
        read(&watcher, 7)
    );
    let whole = page(store, 0).await.events;
    let numbers: Vec<i64> = whole.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=total).collect::<Vec<_>>());
    for seen in [ours, beside, reading] {
        assert_eq!(seen, whole);
    }
}

#[tokio::test]
async fn a_reader_is_told_when_what_it_missed_is_gone_and_when_the_numbers_are_not_its_own() {
    let app = TestApp::start(json!({ "turns": [] })).await;
    let store = &app.engine.store;
    asks(&app, store, "first").await;
    app.workspace.clock.advance(Duration::from_secs(3600));
    for n in 0..3 {
        asks(&app, store, &format!("question {n}")).await;
    }
    assert!(!page(store, 0).await.has_gap);
    let kind = crate::maintenance::gc::kind("feed");
    let before = app.workspace.clock.now();
    let pruned = store.prune_kind(kind, before, false).await.expect("pruned");
    assert_eq!(pruned.rows, 1);
    let missed = page(store, 0).await;
    assert!(missed.has_gap, "{missed:?}");
    assert_eq!(missed.events[0].seq, 2);
    // A reader that had seen what is gone misses nothing.
    assert!(!page(store, 1).await.has_gap);
    let foreign = page(store, 400).await;
    assert!(foreign.has_gap, "{foreign:?}");
    assert_eq!((foreign.events.len(), foreign.through), (3, 4));
    // The newest stays whatever its age, or its number would be given again.
    let later = before.plus(Duration::from_secs(60));
    app.workspace.clock.advance(Duration::from_secs(3600));
    store.prune_kind(kind, later, false).await.expect("pruned");
    assert_eq!(page(store, 3).await.events.len(), 1);
    asks(&app, store, "one more").await;
    assert_eq!(store.feed_newest().await.expect("a number"), 5);
}

#[tokio::test]
async fn the_feed_keeps_a_hundred_thousand_events_and_a_narrow_reader_reads_in_windows() {
    let app = TestApp::start(json!({ "turns": [] })).await;
    let mut rows = app.workspace.rows().await;
    let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 103500)
        INSERT INTO feed (kind, persona_id, run_id, at)
        SELECT 'run.queued', 'ada', 'r-' || (i % 50000), '2026-11-20T09:00:00.000Z' FROM n";
    db::query(fill).execute(&mut rows).await.expect("filled");
    let store = &app.engine.store;
    let page = page(store, 0).await;
    assert_eq!(page.events[0].seq, 3001);
    assert!(page.has_gap && page.has_more());
    let narrow = FeedFilter {
        run: Some(RunId::new("r-49999")),
        ..FeedFilter::default()
    };
    let (mut since, mut found, mut pages) = (3000, Vec::new(), 0);
    loop {
        let page = store.feed_after(since, &narrow, 10).await.expect("a page");
        found.extend(page.events.iter().map(|event| event.seq));
        (since, pages) = (page.through, pages + 1);
        if !page.has_more() {
            break;
        }
    }
    assert_eq!((found, pages), (vec![49_999, 99_999], 11));
    let nobody = FeedFilter {
        thread: Some(ThreadId::new("t-0")),
        ..FeedFilter::default()
    };
    let page = store
        .feed_after(103_000, &nobody, 10)
        .await
        .expect("a page");
    assert_eq!((page.events.len(), page.through), (0, 103_500));
    let start = Timestamp::parse(crate::app::START).expect("an instant");
    let first = store.feed_before(start).await.expect("a number");
    assert_eq!(first, 3000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_hears_at_once_of_what_a_command_commits_and_later_where_nothing_can_be_said() {
    if is_postgres() {
        return;
    }
    let app = TestApp::start(json!({ "rules": [{ "say": "Yes." }] })).await;
    let store = app.engine.store.clone();
    let (mut others, mut all) = (store.commits_of_others(), store.commits());
    let watching = tokio::spawn(async move { store.watch_others().await });
    let word = app.workspace.path().join("data/commits");
    while !word.exists() {
        crate::app::glance().await;
    }
    let clock = app.workspace.clock.clone();
    let beside = Store::open_shared(app.workspace.path(), clock).await;
    let beside = beside.expect("a store beside the engine");
    asks(&app, &beside, "Is there tea?").await;
    // Well before the next look at the log.
    let heard = tokio::time::timeout(Duration::from_millis(1500), others.changed());
    heard.await.expect("at once").expect("it watches");
    std::fs::remove_file(&word).expect("removed");
    others.mark_unchanged();
    asks(&app, &beside, "And cake?").await;
    let found = tokio::time::timeout(Duration::from_secs(30), others.changed());
    found.await.expect("by a look").expect("it watches");
    all.mark_unchanged();
    asks(&app, &app.engine.store, "And coffee?").await;
    assert!(
        all.has_changed().expect("open"),
        "its own commits are told when they are made"
    );
    watching.abort();
}
