//! A call that waits: what a yes, a no, an instruction, the clock, a cancellation and a later letter make of it.

use super::scene::{CONTACT, OWNER, Scene, asks, decision};
use crate::app::rows::unpacked;
use attache::domain::{ApprovalState, sha256_hex};
use attache::store::{ApprovalVerdict, DecisionOutcome};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn what_an_owner_approves_is_sent_as_it_was_shown_and_once() {
    let scene = Scene::start().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let app = &scene.world.app;
    assert_eq!(app.outcome(&run).await.0, "waiting_approval");
    assert!(scene.to_eve().is_empty());
    let question = scene.only_question().await;
    assert_eq!(question.tool, "send_email");
    assert!(
        question.view.starts_with(
            "To: eve@new.test  (NEW: neither in this thread nor in send_allow)\nSubject: The plan\n"
        ),
        "{}",
        question.view
    );
    assert!(
        question.view.contains("We meet on Tuesday."),
        "{}",
        question.view
    );
    let frozen = frozen_digest(&scene, &question.id).await;

    let outcome = scene
        .decide(&question.id, ApprovalVerdict::Approve, "")
        .await;
    assert_eq!(outcome, DecisionOutcome::Decided(ApprovalState::Approved));
    app.drain().await;
    assert_eq!(scene.to_eve().len(), 1);
    let sql = "SELECT hex(d.bytes) FROM deliveries d JOIN delivery_recipients r ON r.delivery_id = d.id WHERE r.recipient = $1";
    let sent = app.row(sql, "eve@new.test").await[0]
        .clone()
        .expect("bytes");
    assert_eq!(
        sha256_hex(&[&unpacked(&unhex(&sent))]),
        frozen,
        "the bytes that were asked about"
    );
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(app.trace(&run).await, ["call send_email", "ok send_email"]);

    // Nobody decides twice.
    let again = scene
        .decide(&question.id, ApprovalVerdict::Reject, "")
        .await;
    assert!(
        matches!(&again, DecisionOutcome::Already { state: ApprovalState::Approved, by, .. } if by == "olga@home.test"),
        "{again:?}"
    );
    app.drain().await;
    assert_eq!(scene.to_eve().len(), 1);
    app.check().await;
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}

async fn frozen_digest(scene: &Scene, id: &str) -> String {
    let sql = "SELECT call_json FROM approvals WHERE id = $1";
    let call = scene.world.app.row(sql, id).await[0]
        .clone()
        .expect("a call");
    let call: Value = serde_json::from_str(&call).expect("json");
    call["mail"]["sha256"]
        .as_str()
        .expect("a digest")
        .to_owned()
}

#[tokio::test]
async fn a_no_is_final_and_the_model_hears_it_in_the_owners_words() {
    let scene = Scene::start().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    scene
        .decide(&question.id, ApprovalVerdict::Reject, "Eve has left")
        .await;
    let app = &scene.world.app;
    app.drain().await;
    assert_eq!(
        app.trace(&run).await,
        ["call send_email", "approval_rejected send_email"]
    );
    assert!(scene.to_eve().is_empty());
    let prompts = app.prompts(&run).await;
    let last = prompts.last().expect("a request").to_string();
    assert!(last.contains("Eve has left"), "{last}");
    app.check().await;
}

/// A model that asks again for what was refused is not heard.
#[tokio::test]
async fn a_refused_call_is_not_asked_about_again() {
    let stubborn = json!({ "rules": [
        { "when": { "contains": "impossible" }, "say": "never" },
        { "when": { "turn": 3 }, "say": "I give up." },
        { "call": [{ "tool": "send_email", "args":
            { "to": ["eve@new.test"], "subject": "The plan", "body": "We meet on Tuesday." } }] },
    ] });
    let scene = Scene::with(&stubborn, |_| {}).await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    scene
        .decide(&question.id, ApprovalVerdict::Reject, "")
        .await;
    let app = &scene.world.app;
    app.drain().await;
    assert_eq!(scene.open().await, []);
    assert_eq!(
        app.trace(&run).await[1..4],
        [
            "approval_rejected send_email",
            "call send_email",
            "approval_rejected send_email"
        ]
    );
    assert!(scene.to_eve().is_empty());
    app.check().await;
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_as_a_no() {
    let scene = Scene::start().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    let app = &scene.world.app;
    app.workspace
        .clock
        .advance(Duration::from_secs(72 * 3600 - 60));
    app.drain().await;
    assert_eq!(scene.open().await.len(), 1, "a minute too early");
    app.workspace.clock.advance(Duration::from_secs(60));
    app.drain().await;
    assert_eq!(
        scene.approval(&question.id).await.state,
        ApprovalState::Expired
    );
    assert_eq!(
        app.trace(&run).await,
        ["call send_email", "approval_expired send_email"]
    );
    assert!(scene.to_eve().is_empty());
    // A yes behind the end decides nothing, however early the clock says it is.
    let late = scene
        .decide(&question.id, ApprovalVerdict::Approve, "")
        .await;
    assert!(matches!(
        late,
        DecisionOutcome::Already {
            state: ApprovalState::Expired,
            ..
        }
    ));
    app.check().await;
}

#[tokio::test]
async fn a_yes_that_comes_at_the_end_counts_as_a_no() {
    let scene = Scene::start().await;
    scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    // The sweep has not come by.
    scene
        .world
        .app
        .workspace
        .clock
        .advance(Duration::from_secs(72 * 3600));
    let outcome = scene
        .decide(&question.id, ApprovalVerdict::Approve, "")
        .await;
    assert_eq!(outcome, DecisionOutcome::Decided(ApprovalState::Expired));
    scene.world.app.drain().await;
    assert!(scene.to_eve().is_empty());
}

#[tokio::test]
async fn a_waiting_run_outlives_restarts_and_a_cancelled_one_asks_no_more() {
    let scene = Scene::start().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    let mut app = scene.world.app;
    for _ in 0..3 {
        app = app.restart().await;
        assert_eq!(app.drain().await.runs, 0, "it waits without a worker");
        app.check().await;
    }
    assert_eq!(app.outcome(&run).await.0, "waiting_approval");
    let id = attache::domain::RunId::new(run.clone());
    app.engine
        .store
        .request_cancel(&id)
        .await
        .expect("cancelled");
    let view = app
        .engine
        .store
        .approval(&question.id)
        .await
        .expect("a question");
    assert_eq!(view.state, ApprovalState::Cancelled);
    let late = app
        .engine
        .store
        .decide_approval(&question.id, decision(ApprovalVerdict::Approve, ""))
        .await;
    assert!(
        matches!(late, Ok(DecisionOutcome::Already { .. })),
        "{late:?}"
    );
    assert_eq!(
        app.trace(&run).await,
        ["call send_email", "approval_cancelled send_email"]
    );
    app.check().await;
}

#[tokio::test]
async fn a_later_letter_of_the_thread_is_answered_in_its_place() {
    let scene = Scene::start().await;
    let first = scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    let second = scene
        .writes(
            CONTACT,
            "l2",
            "In-Reply-To: <l1@x.test>\r\nReferences: <l1@x.test>\r\n",
        )
        .await;
    let app = &scene.world.app;
    assert_eq!(app.outcome(&first).await.0, "cancelled");
    assert_eq!(
        scene.approval(&question.id).await.state,
        ApprovalState::Superseded
    );
    assert_eq!(app.outcome(&second).await.0, "waiting_approval");
    let newer = scene.only_question().await;
    assert_ne!(newer.id, question.id);
    scene.decide(&newer.id, ApprovalVerdict::Approve, "").await;
    app.drain().await;
    assert_eq!(scene.to_eve().len(), 1);
    app.check().await;
}

#[tokio::test]
async fn a_digest_of_something_else_decides_nothing() {
    let scene = Scene::start().await;
    scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    let store = &scene.world.app.engine.store;
    let mut other = decision(ApprovalVerdict::Approve, "");
    other.sha256 = Some("0".repeat(64));
    let outcome = store.decide_approval(&question.id, other).await;
    assert_eq!(outcome.ok(), Some(DecisionOutcome::OtherBytes));
    let mut right = decision(ApprovalVerdict::Approve, "");
    right.sha256 = Some(question.sha256.clone());
    let outcome = store.decide_approval(&question.id, right).await;
    assert_eq!(
        outcome.ok(),
        Some(DecisionOutcome::Decided(ApprovalState::Approved))
    );
}

/// An unknown sender gets no question put before the owner, unless a rule says so.
#[tokio::test]
async fn strangers_put_no_questions_before_the_owner() {
    for (rules, asked) in [
        (json!([]), 0),
        (
            json!([{ "id": "ask", "effect": "ask", "tool": "send_email", "when": { "recipients": "outside" } }]),
            1,
        ),
    ] {
        let scene = Scene::with(&asks(), |workspace| {
            workspace.write_json("configs/policy.json", &json!({ "rules": rules }));
        })
        .await;
        let run = scene.writes("Mallory <mallory@evil.test>", "l1", "").await;
        assert_eq!(scene.open().await.len(), asked);
        if asked == 0 {
            assert_eq!(
                scene.world.app.trace(&run).await,
                ["call send_email", "recipient_not_allowed send_email"]
            );
        }
        assert!(scene.to_eve().is_empty());
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn questions_are_bounded_for_a_persona_and_for_a_run() {
    let scene = Scene::with(&asks(), |workspace| {
        workspace.write_json(
            "configs/policy.json",
            &json!({ "approvals": { "open_max": 2 } }),
        );
    })
    .await;
    let mut runs = Vec::new();
    for id in ["a", "b", "c"] {
        runs.push(scene.writes(CONTACT, id, "").await);
    }
    let app = &scene.world.app;
    assert_eq!(scene.open().await.len(), 2);
    assert_eq!(app.outcome(&runs[2]).await.0, "succeeded");
    assert_eq!(
        app.trace(&runs[2]).await,
        ["call send_email", "approvals_used_up send_email"]
    );
    assert!(scene.to_eve().is_empty());
    app.check().await;

    // Each of its mails is another one, and each is refused: it asks five times and not a sixth.
    let endless = json!({ "rules": [
        { "when": { "turn": 7 }, "say": "Enough." },
        { "call": [{ "tool": "send_email", "args":
            { "to": ["eve@new.test"], "subject": "Again", "body": "{{result}}?" } }] },
    ] });
    let scene = Scene::with(&endless, |workspace| {
        workspace.set("configs/inference.json", "/max_tool_turns", json!(20));
        workspace.set(
            "configs/inference.json",
            "/budget",
            json!({ "tool_failures_max": 20 }),
        );
    })
    .await;
    let run = scene.writes(OWNER, "l1", "").await;
    for number in 0..5 {
        let question = scene.only_question().await;
        scene
            .decide(
                &question.id,
                ApprovalVerdict::Reject,
                &format!("no {number}"),
            )
            .await;
        scene.world.app.drain().await;
    }
    assert_eq!(scene.open().await, []);
    let trace = scene.world.app.trace(&run).await;
    let count = |what: &str| trace.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!(
        (count("approval_rejected"), count("approvals_used_up") > 0),
        (5, true),
        "{trace:?}"
    );
    scene.world.app.check().await;
}

/// Sixty-four decide at once: one of them does, and the others hear who.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_deciders_one_decides() {
    let scene = Scene::start().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    let mut deciders = tokio::task::JoinSet::new();
    for number in 0..64 {
        let (store, id) = (scene.world.app.engine.store.clone(), question.id.clone());
        deciders.spawn(async move {
            let verdict = match number % 2 {
                0 => ApprovalVerdict::Approve,
                _ => ApprovalVerdict::Reject,
            };
            let mut decision = decision(verdict, "");
            decision.by = format!("decider {number}");
            store
                .decide_approval(&id, decision)
                .await
                .expect("an outcome")
        });
    }
    let outcomes = deciders.join_all().await;
    let decided: Vec<_> = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, DecisionOutcome::Decided(_)))
        .collect();
    assert_eq!(decided.len(), 1);
    let view = scene.approval(&question.id).await;
    let winner = view.decided_by.expect("somebody");
    let told = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, DecisionOutcome::Already { by, .. } if *by == winner))
        .count();
    assert_eq!(told, 63);
    scene.world.app.drain().await;
    let wanted = usize::from(view.state == ApprovalState::Approved);
    assert_eq!(scene.to_eve().len(), wanted);
    assert_eq!(scene.world.app.outcome(&run).await.0, "succeeded");
    scene.world.app.check().await;
}
