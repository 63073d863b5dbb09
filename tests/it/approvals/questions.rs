//! What the model asks its owner by itself: a question, and a plan before it acts.

use super::scene::{CONTACT, OWNER, Scene};
use attache::domain::{ApprovalKind, ApprovalState};
use attache::store::ApprovalVerdict;
use serde_json::{Value, json};

const STRANGER: &str = "Mallory <mallory@evil.test>";

fn asks_colour() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "ask_owner", "args": { "question": "Which room, the blue or the red one?" } }] },
        { "say": "Your owner says: {{result}}" },
    ] })
}

#[tokio::test]
async fn an_owner_is_asked_a_question_and_the_reply_is_the_answer() {
    let scene = Scene::with(&asks_colour(), |_| {}).await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let app = &scene.world.app;
    assert_eq!(app.outcome(&run).await.0, "waiting_approval");
    let question = scene.only_question().await;
    assert_eq!(question.kind, ApprovalKind::Question);
    let mail = &scene.to_owner()[0];
    assert!(
        mail.subject.starts_with("Ada asks: a question ["),
        "{}",
        mail.subject
    );
    assert!(
        mail.text.contains("Which room, the blue or the red one?"),
        "{}",
        mail.text
    );
    scene
        .owner_replies("a1", "The blue one; the red is being painted.\r\n")
        .await;
    assert_eq!(
        scene.approval(&question.id).await.state,
        ApprovalState::Answered
    );
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let answers: Vec<_> = app
        .sent()
        .into_iter()
        .filter(|mail| mail.to[0].spec == "carol@partner.test")
        .collect();
    assert_eq!(answers.len(), 1);
    assert!(
        answers[0]
            .text
            .contains("The blue one; the red is being painted."),
        "{}",
        answers[0].text
    );
    app.check().await;
}

/// An answer is no approval: words such as `yes` approve nothing else.
#[tokio::test]
async fn an_answer_approves_nothing() {
    let model = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "ask_owner", "args": { "question": "May I write to Eve?" } }] },
        { "when": { "turn": 1 }, "call": [{ "tool": "send_email", "args":
            { "to": ["eve@new.test"], "subject": "The plan", "body": "We meet on Tuesday." } }] },
        { "say": "Done." },
    ] });
    let scene = Scene::with(&model, |_| {}).await;
    scene.writes(CONTACT, "l1", "").await;
    let first = scene.only_question().await;
    assert!(matches!(
        scene.decide(&first.id, ApprovalVerdict::Approve, "").await,
        attache::store::DecisionOutcome::NotFitting
    ));
    scene.owner_replies("a1", "yes").await;
    let second = scene.only_question().await;
    assert_eq!(second.kind, ApprovalKind::Call);
    assert!(scene.to_eve().is_empty());
}

#[tokio::test]
async fn strangers_put_no_question_before_an_owner() {
    let scene = Scene::with(&asks_colour(), |_| {}).await;
    let run = scene.writes(STRANGER, "m1", "").await;
    let app = &scene.world.app;
    assert_eq!(
        app.trace(&run).await,
        ["call ask_owner", "unknown_tool ask_owner"]
    );
    let prompt = app.prompts(&run).await.swap_remove(0)["tools"].to_string();
    assert!(!prompt.contains("ask_owner"), "{prompt}");
    assert!(scene.open().await.is_empty() && scene.to_owner().is_empty());
    // The control: a contact is.
    let run = scene.writes(CONTACT, "l1", "").await;
    let prompt = app.prompts(&run).await.swap_remove(0)["tools"].to_string();
    assert!(
        prompt.contains("ask_owner") && !prompt.contains("propose_plan"),
        "{prompt}"
    );
    assert_eq!(scene.open().await.len(), 1);
}

fn planned() -> Value {
    let mail = |to: &str| json!({ "tool": "send_email", "args": { "to": [to], "subject": "Tuesday", "body": "We meet." } });
    let plan = json!({ "goal": "Tell Eve", "steps": [
        { "tool": "send_email", "what": "Tell Eve about Tuesday", "recipients": ["Eve@new.test"] },
        { "tool": "update_memory", "what": "Note that Eve knows" },
    ] });
    json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "update_memory", "args": { "append": "- Eve knows." } }] },
        { "when": { "turn": 1 }, "call": [{ "tool": "propose_plan", "args": plan }] },
        { "when": { "turn": 2 }, "call": [mail("eve@new.test"), { "tool": "update_memory", "args": { "append": "- Eve knows." } }] },
        { "when": { "turn": 3 }, "call": [mail("frank@new.test")] },
        { "say": "Done." },
    ] })
}

async fn planning() -> Scene {
    Scene::with(&planned(), |workspace| {
        workspace.set("personas/ada/persona.json", "/plan", json!("ask"));
        workspace.set("configs/inference.json", "/max_tool_turns", json!(10));
    })
    .await
}

#[tokio::test]
async fn what_an_approved_plan_names_is_not_asked_about_again() {
    let scene = planning().await;
    let run = scene.writes(OWNER, "o1", "").await;
    let app = &scene.world.app;
    let plan = scene.only_question().await;
    assert_eq!(plan.kind, ApprovalKind::Plan);
    assert!(
        plan.view
            .starts_with("To (step 1): Eve@new.test\nGoal: Tell Eve\n\n1. send_email: Tell Eve"),
        "{}",
        plan.view
    );
    assert!(scene.to_eve().is_empty());
    scene.owner_replies("y1", "yes").await;
    assert_eq!(
        scene.approval(&plan.id).await.state,
        ApprovalState::Approved
    );
    let next = scene.only_question().await;
    assert!(
        next.view.contains("frank@new.test"),
        "the plan does not name him: {}",
        next.view
    );
    assert_eq!(
        app.trace(&run).await,
        [
            "call update_memory",
            "plan_first update_memory",
            "call propose_plan",
            "ok propose_plan",
            "call send_email",
            "ok send_email",
            "call update_memory",
            "ok update_memory",
            "call send_email",
        ]
    );
    assert_eq!(scene.to_eve().len(), 1);
    scene.decide(&next.id, ApprovalVerdict::Reject, "").await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    app.check().await;
}

#[tokio::test]
async fn without_an_approved_plan_nothing_is_sent_or_changed() {
    let scene = planning().await;
    let run = scene.writes(OWNER, "o1", "").await;
    let plan = scene.only_question().await;
    scene
        .decide(&plan.id, ApprovalVerdict::Reject, "not now")
        .await;
    let app = &scene.world.app;
    app.drain().await;
    let trace = app.trace(&run).await;
    assert!(
        !trace
            .iter()
            .any(|line| line == "ok send_email" || line == "ok update_memory"),
        "{trace:?}"
    );
    assert!(scene.to_eve().is_empty() && scene.open().await.is_empty());
    app.check().await;
}

/// A rule that denies is not opened by a plan.
#[tokio::test]
async fn a_plan_opens_nothing_that_a_rule_denies() {
    let scene = Scene::with(&planned(), |workspace| {
        workspace.set("personas/ada/persona.json", "/plan", json!("ask"));
        let rule = json!({ "id": "never-eve", "effect": "deny", "tool": "send_email", "when": { "recipient": "eve@*" } });
        workspace.write_json("configs/policy.json", &json!({ "rules": [rule] }));
    })
    .await;
    let run = scene.writes(OWNER, "o1", "").await;
    scene.owner_replies("y1", "yes").await;
    let trace = scene.world.app.trace(&run).await;
    assert!(
        trace.contains(&"policy_denied send_email".to_owned()),
        "{trace:?}"
    );
    assert!(scene.to_eve().is_empty());
}

/// A responsibility decides for itself whether it proposes a plan.
#[tokio::test]
async fn a_responsibility_may_act_without_a_plan_or_with_one() {
    for (plan, first) in [
        ("ask", "plan_first update_memory"),
        ("none", "ok update_memory"),
    ] {
        let scene = planning().await;
        let app = &scene.world.app;
        app.workspace.write(
            "personas/ada/responsibilities/tell.md",
            &format!("---\nname: Tell\nschedule: \"*/5 * * * *\"\nplan: {plan}\n---\nTell Eve.\n"),
        );
        app.engine.scheduler().sync().await.expect("looked at");
        let run = crate::run_options::fire(app).await;
        app.drain().await;
        assert_eq!(app.trace(&run).await[1], first, "{plan}");
    }
}
