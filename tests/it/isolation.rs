//! Two personas on one engine: one letter to both is stored in one transaction and answered twice, and whatever the
//! handle of one is asked for, rows of the other never come.

use crate::app::{TestApp, Workspace, note};
use attache::domain::{MessageId, PersonaId, RunId, ThreadId};
use attache::gateway::intake_contract::{Accepted, CopyOutcome};
use attache::store::{
    Executor, JournalEntry, MessageSearch, PersonaStore, PowerCut, RunKey, Step, StepKind,
    StoreError,
};
use serde_json::{Value, json};

/// Each reads its own file, then says its own word. `alabaster` is only in Ada's rows, `basalt` only in Ben's.
fn script() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "when": { "contains": "alabaster" }, "say": "The alabaster hall." },
        { "when": { "contains": "basalt" }, "say": "The basalt cellar." },
        { "when": { "system_contains": "Ada answers" }, "say": "The alabaster hall." },
        { "when": { "system_contains": "Ben answers" }, "say": "The basalt cellar." },
    ] })
}

fn workspace() -> Workspace {
    let workspace = Workspace::new(&script());
    workspace.persona("ben", "Ben");
    workspace.write(
        "personas/ada/knowledge/house.md",
        "# Rooms\n\nThe alabaster hall is upstairs.\n",
    );
    workspace.write(
        "personas/ben/knowledge/house.md",
        "# Rooms\n\nThe basalt cellar is downstairs.\n",
    );
    workspace
}

fn letter_to_both() -> String {
    note(
        "both@guest.example",
        "Cc: ben@engine.test\n",
        "Where is my room?",
    )
}

/// What one persona has of the letter.
struct Side {
    store: PersonaStore,
    word: &'static str,
    message: MessageId,
    run: RunId,
    thread: ThreadId,
}

async fn sides(app: &TestApp, accepted: &Accepted) -> [Side; 2] {
    let mut sides = Vec::new();
    for (name, word) in [("ada", "alabaster"), ("ben", "basalt")] {
        let persona = PersonaId::parse(name).expect("an id");
        let copy = accepted
            .copies
            .iter()
            .find(|copy| copy.persona == persona)
            .expect("a copy each");
        let CopyOutcome::Run(run) = &copy.outcome else {
            panic!("no run but {:?}", copy.outcome)
        };
        let store = app.engine.store.persona(&persona);
        let thread = store
            .message(&copy.message)
            .await
            .expect("its own message")
            .thread;
        sides.push(Side {
            store,
            word,
            message: copy.message.clone(),
            run: run.clone(),
            thread,
        });
    }
    sides.try_into().unwrap_or_else(|_| panic!("two sides"))
}

async fn answered() -> (TestApp, [Side; 2]) {
    let app = workspace().start().await;
    let accepted = app.receive(&letter_to_both()).await.expect("taken");
    assert_eq!(accepted.copies.len(), 2);
    assert_eq!(app.drain().await.runs, 2);
    let sides = sides(&app, &accepted).await;
    (app, sides)
}

fn is_missing<T>(answer: Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Missing { .. }))
}

#[tokio::test]
async fn a_letter_to_both_runs_once_for_each_and_each_answers() {
    let (app, sides) = answered().await;
    for side in &sides {
        assert_eq!(app.outcome(side.run.as_str()).await.0, "succeeded");
        assert_eq!(
            app.trace(side.run.as_str()).await,
            ["call read_file", "ok read_file"]
        );
        let mails = side.store.mails_of_run(&side.run).await.expect("a read");
        assert_eq!(mails.len(), 1);
        assert!(mails[0].text_body.contains(side.word), "{:?}", mails[0]);
    }
    let mut senders: Vec<String> = app
        .sent()
        .iter()
        .map(|mail| mail.from[0].spec.clone())
        .collect();
    senders.sort();
    assert_eq!(senders, ["ada@engine.test", "ben@engine.test"]);
    let again = app.receive(&letter_to_both()).await.expect("taken");
    assert!(
        again
            .copies
            .iter()
            .all(|copy| copy.outcome == CopyOutcome::Duplicate)
    );
    assert_eq!(app.drain().await.runs, 0);
    app.check().await;
}

#[tokio::test]
async fn a_letter_to_both_is_stored_for_both_or_for_neither() {
    for (cut, stored) in [
        (PowerCut::BeforeCommit(0), "0"),
        (PowerCut::AfterCommit(0), "2"),
    ] {
        let app = workspace().start().await;
        app.engine.store.cut_power(cut);
        let answer = app.receive(&letter_to_both()).await;
        assert!(
            answer.is_err(),
            "nobody is told yes by an engine that lost its power"
        );
        let app = app.restart().await;
        for sql in [
            "SELECT CAST(count(*) AS TEXT) FROM messages WHERE $1 = $1",
            "SELECT CAST(count(*) AS TEXT) FROM runs WHERE $1 = $1",
        ] {
            assert_eq!(app.row(sql, "").await[0].as_deref(), Some(stored), "{sql}");
        }
        app.drain().await;
        app.check().await;
    }
}

#[tokio::test]
async fn search_and_knowledge_find_only_ones_own() {
    let (_app, [ada, ben]) = answered().await;
    for (own, other) in [(&ada, &ben), (&ben, &ada)] {
        for filter in [
            MessageSearch {
                query: Some("room".into()),
                ..MessageSearch::default()
            },
            MessageSearch {
                from: Some("bob".into()),
                ..MessageSearch::default()
            },
            MessageSearch::default(),
        ] {
            let found = own
                .store
                .search_messages(&MessageSearch {
                    limit: 50,
                    ..filter.clone()
                })
                .await;
            let found = found.expect("a read");
            assert!(
                found.iter().any(|message| message.id == own.message),
                "{filter:?}: {found:?}"
            );
            assert!(
                found.iter().all(|message| message.thread_id == own.thread),
                "{filter:?}: {found:?}"
            );
        }
        let words = MessageSearch {
            query: Some(other.word.into()),
            limit: 50,
            ..MessageSearch::default()
        };
        assert_eq!(own.store.search_messages(&words).await.expect("a read"), []);

        let terms = ["rooms".to_owned(), ada.word.to_owned(), ben.word.to_owned()];
        let hits = own
            .store
            .search_knowledge(&terms, 50)
            .await
            .expect("a read");
        assert_eq!(hits.len(), 1, "{hits:?}");
        assert!(hits[0].body.contains(own.word), "{hits:?}");
        assert_eq!(own.store.knowledge_state().await.expect("a read").len(), 1);
    }
}

/// The run of another persona has no steps, turns, mails or report here.
async fn the_run_opens_nothing(store: &PersonaStore, other: &Side) {
    assert_eq!(
        store.steps_of_run(&other.run).await.expect("a read").len(),
        0
    );
    assert_eq!(
        store
            .timed_steps_of_run(&other.run)
            .await
            .expect("a read")
            .len(),
        0
    );
    assert_eq!(
        store.turns_of_run(&other.run).await.expect("a read").len(),
        0
    );
    assert_eq!(
        store.mails_of_run(&other.run).await.expect("a read").len(),
        0
    );
    assert_eq!(
        store
            .deliveries_of_run(&other.run)
            .await
            .expect("a read")
            .len(),
        0
    );
    assert_eq!(
        store.context_report(&other.run).await.expect("a read"),
        None
    );
    let journal = store.journal_so_far(&other.run).await.expect("a read");
    assert_eq!(
        format!("{journal:?}"),
        format!("{:?}", attache::store::JournalSoFar::default())
    );
}

#[tokio::test]
async fn ids_of_the_other_open_nothing() {
    let (_app, [ada, ben]) = answered().await;
    for (own, other) in [(&ada, &ben), (&ben, &ada)] {
        let store = &own.store;
        assert!(is_missing(store.message(&other.message).await));
        assert!(is_missing(store.trigger_message(&other.message, &[]).await));
        assert_eq!(
            store
                .attachment_infos(&other.message)
                .await
                .expect("a read")
                .len(),
            0
        );
        assert_eq!(
            store
                .past_messages(&other.thread, (i64::MAX, 50), 500, &[])
                .await
                .expect("a read")
                .len(),
            0
        );
        assert_eq!(
            store
                .past_steps(&[&other.message], 500)
                .await
                .expect("a read")
                .len(),
            0
        );
        assert_eq!(
            store
                .thread_messages(&other.thread, 50)
                .await
                .expect("a read")
                .len(),
            0
        );
        assert_eq!(
            store
                .thread_runs(&other.thread, 50)
                .await
                .expect("a read")
                .len(),
            0
        );
        assert_eq!(
            store
                .thread_participants(&other.thread)
                .await
                .expect("a read"),
            Vec::<String>::new()
        );
        the_run_opens_nothing(store, other).await;
    }
}

#[tokio::test]
async fn the_same_ids_open_what_is_ones_own() {
    let (_app, sides) = answered().await;
    for own in &sides {
        let store = &own.store;
        assert_eq!(
            store
                .past_messages(&own.thread, (i64::MAX, 50), 500, &[])
                .await
                .expect("a read")
                .len(),
            2
        );
        assert_eq!(
            store
                .past_steps(&[&own.message], 500)
                .await
                .expect("a read")
                .len(),
            2
        );
        assert_eq!(
            store
                .thread_messages(&own.thread, 50)
                .await
                .expect("a read")
                .len(),
            2
        );
        assert_eq!(
            store
                .thread_runs(&own.thread, 50)
                .await
                .expect("a read")
                .len(),
            1
        );
        assert!(
            !store
                .thread_participants(&own.thread)
                .await
                .expect("a read")
                .is_empty()
        );
        assert_eq!(store.steps_of_run(&own.run).await.expect("a read").len(), 2);
        assert_eq!(store.turns_of_run(&own.run).await.expect("a read").len(), 2);
        assert_eq!(
            store
                .deliveries_of_run(&own.run)
                .await
                .expect("a read")
                .len(),
            1
        );
        assert!(
            store
                .context_report(&own.run)
                .await
                .expect("a read")
                .is_some()
        );
    }
}

#[tokio::test]
async fn nobody_writes_into_the_run_of_the_other() {
    let app = workspace().start().await;
    let accepted = app.receive(&letter_to_both()).await.expect("taken");
    let [ada, ben] = sides(&app, &accepted).await;
    let claimed = app.engine.store.claim_runs(10, 10).await.expect("a claim");
    assert_eq!(claimed.len(), 2);
    let key = RunKey {
        run: ben.run.clone(),
        trigger_message: ben.message.clone(),
    };
    let step = Step {
        kind: StepKind::Call,
        executor: Executor::Engine,
        tool_name: "read_file".into(),
        tool_call_id: "c1".into(),
        payload_json: "{}".into(),
    };
    let foreign = ada
        .store
        .journal(&key, vec![JournalEntry::Step(step.clone())])
        .await;
    assert!(
        matches!(foreign, Err(StoreError::WrongState { .. })),
        "{foreign:?}"
    );
    assert_eq!(
        ben.store
            .steps_of_run(&ben.run)
            .await
            .expect("a read")
            .len(),
        0
    );
    ben.store
        .journal(&key, vec![JournalEntry::Step(step)])
        .await
        .expect("its own run");
    assert_eq!(
        ben.store
            .steps_of_run(&ben.run)
            .await
            .expect("a read")
            .len(),
        1
    );
}

#[tokio::test]
async fn what_one_forgets_stays_with_the_other() {
    let (_app, [ada, ben]) = answered().await;
    ada.store
        .remove_knowledge_file("knowledge/house.md")
        .await
        .expect("a write");
    assert_eq!(ada.store.knowledge_state().await.expect("a read").len(), 0);
    let hits = ben
        .store
        .search_knowledge(&["basalt".to_owned()], 5)
        .await
        .expect("a read");
    assert_eq!(hits.len(), 1);
}
