//! What a letter gets at the door besides its rows: a trace, a count of its hops, and a queue that has an end.

use crate::app::{TestApp, Workspace, letter, note};
use attache::domain::Via;
use attache::gateway::intake::Intake;
use attache::gateway::intake_contract::{CopyOutcome, LetterIntake, Refusal};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Notify;

async fn app() -> TestApp {
    TestApp::start(json!({ "rules": [{ "say": "Yes." }] })).await
}

#[tokio::test]
async fn a_letter_keeps_its_bytes_with_its_received_field_beside_them() {
    let app = app().await;
    let mut letter = letter(&note(
        "q1@guest.example",
        "X-Odd:  two  blanks \n",
        "Is there parking?",
    ));
    letter.envelope.via = Via::Lmtp;
    letter.envelope.helo = "front.test".to_owned();
    letter.envelope.peer = Some("192.0.2.7".parse().unwrap());
    let accepted = app
        .engine
        .intake()
        .accept(letter.clone())
        .await
        .expect("taken");
    let message = &accepted.copies[0].message;
    let raw = app
        .engine
        .store
        .raw_letter(message)
        .await
        .expect("the letter");
    assert_eq!(raw.bytes, letter.bytes);
    let trace = raw.trace.expect("a trace");
    let begin = format!(
        "Received: from front.test ([192.0.2.7])\r\n by mail.engine.test (Attache) with LMTP id {message}\r\n \
         for <ada@engine.test>; Fri, 20 Nov 2026 09:00:00 +0000\r\n"
    );
    assert_eq!(trace, begin);
    // In front of the bytes, it is one more hop of the same mail.
    let whole = crate::app::parse(&[trace.as_bytes(), &raw.bytes].concat());
    assert_eq!(whole.automatic.received_count, 1);
    assert_eq!(whole.message_id.as_deref(), Some("q1@guest.example"));
    let found = app
        .engine
        .store
        .find_message(message.as_str())
        .await
        .expect("by its id");
    assert_eq!(&found, message);
    app.drain().await;
    app.check().await;
}

#[tokio::test]
async fn fifty_hops_are_mail_and_fifty_one_are_a_loop() {
    let app = app().await;
    let hops =
        |n: usize| "Received: from a.test by b.test; Fri, 20 Nov 2026 08:59:00 +0000\n".repeat(n);
    let most = app
        .receive(&note("q1@guest.example", &hops(50), "Far away"))
        .await
        .expect("taken");
    assert!(matches!(most.copies[0].outcome, CopyOutcome::Run(_)));
    let mut more = letter(&note("q2@guest.example", &hops(50), "Around and around"));
    more.bytes
        .splice(..0, hops(1).replace('\n', "\r\n").into_bytes());
    let more = app.engine.intake().accept(more).await;
    assert!(
        matches!(more, Err(Refusal::Hostile("too many hops"))),
        "{more:?}"
    );
    app.drain().await;
}

#[tokio::test]
async fn our_own_answer_that_comes_back_is_filed_and_not_answered() {
    let app = app().await;
    app.run_of(&note("q1@guest.example", "", "Is there parking?"))
        .await;
    app.drain().await;
    let folder = app.workspace.path().join("data/outbox");
    let file = std::fs::read_dir(folder)
        .unwrap()
        .next()
        .expect("an answer")
        .unwrap()
        .path();
    let answer = String::from_utf8(std::fs::read(file).unwrap()).unwrap();
    let mut letter = letter(&answer);
    letter.envelope.rcpt_to = vec![attache::domain::Address::parse("ada@engine.test").unwrap()];
    let accepted = app.engine.intake().accept(letter).await.expect("taken");
    assert!(
        matches!(accepted.copies[0].outcome, CopyOutcome::Filed(_)),
        "{:?}",
        accepted.copies[0]
    );
    assert_eq!(app.drain().await.runs, 0);
    assert_eq!(app.sent().len(), 1);
}

#[tokio::test]
async fn a_full_queue_has_no_room_until_runs_have_ended() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "open_runs_max": 3 }),
    );
    let app = workspace.start().await;
    let engine = &app.engine;
    let intake = Intake::new(
        engine.store.clone(),
        engine.config.clone(),
        Arc::new(Notify::new()),
    )
    .expect("an intake");
    let send = async |n: usize| {
        let note = note(&format!("q{n}@guest.example"), "", "Is there parking?");
        intake.accept(letter(&note)).await.expect("taken")
    };
    intake.count_queue().await.expect("counted");
    for n in 0..3 {
        assert!(intake.has_room(), "before letter {n}");
        send(n).await;
    }
    assert!(!intake.has_room());
    intake.count_queue().await.expect("counted");
    assert!(!intake.has_room(), "nothing has ended");
    app.drain().await;
    assert!(!intake.has_room(), "nobody has counted");
    intake.count_queue().await.expect("counted");
    assert!(intake.has_room());
    app.check().await;
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_takes_no_letter() {
    for (free_disk_bytes_min, has_room) in [(u64::MAX, false), (0, true)] {
        let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
        let limits = json!({ "free_disk_bytes_min": free_disk_bytes_min });
        workspace.set("configs/gateway.json", "/limits", limits);
        let app = workspace.start().await;
        assert_eq!(
            app.engine.intake().has_room(),
            has_room,
            "with {free_disk_bytes_min} bytes to keep free"
        );
    }
}
