//! A final text that a rule holds until its owner has seen it.

use super::scene::{CONTACT, Scene};
use attache::store::ApprovalVerdict;
use serde_json::{Value, json};

fn script() -> Value {
    json!({ "rules": [
        { "when": { "contains": "say Wednesday" }, "say": "We meet on Wednesday." },
        { "say": "We meet on Tuesday." },
    ] })
}

async fn held() -> Scene {
    Scene::with(&script(), |workspace| {
        let rules = json!([{ "id": "see-first", "effect": "ask", "tool": "reply", "when": { "sender": "contact" } }]);
        workspace.write_json("configs/policy.json", &json!({ "rules": rules }));
    })
    .await
}

fn to_carol(scene: &Scene) -> Vec<String> {
    let sent = scene.world.app.sent().into_iter();
    let texts = sent.filter(|mail| mail.to.iter().any(|to| to.spec == "carol@partner.test"));
    texts.map(|mail| mail.text.trim().to_owned()).collect()
}

#[tokio::test]
async fn an_answer_waits_for_a_yes_and_is_then_sent_once() {
    let scene = held().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let app = &scene.world.app;
    assert_eq!(app.outcome(&run).await.0, "waiting_approval");
    assert_eq!(to_carol(&scene), [] as [&str; 0]);
    let question = scene.only_question().await;
    assert_eq!(
        (question.tool.as_str(), question.reason["rule"].as_str()),
        ("reply", Some("see-first"))
    );
    scene
        .decide(&question.id, ApprovalVerdict::Approve, "")
        .await;
    app.drain().await;
    assert_eq!(to_carol(&scene), ["We meet on Tuesday."]);
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    app.check().await;
}

#[tokio::test]
async fn an_answer_that_is_refused_is_stored_and_not_sent() {
    let scene = held().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    scene
        .decide(&question.id, ApprovalVerdict::Reject, "")
        .await;
    let app = &scene.world.app;
    app.drain().await;
    assert_eq!(to_carol(&scene), [] as [&str; 0]);
    let sql =
        "SELECT disposition, text_body FROM messages WHERE run_id = $1 AND direction = 'outbound'";
    let row = app.row(sql, &run).await;
    assert_eq!(row[0].as_deref(), Some("withheld:not_approved"));
    assert_eq!(row[1].as_deref(), Some("We meet on Tuesday."));
    app.check().await;
}

#[tokio::test]
async fn an_instruction_makes_another_answer_that_is_asked_about_again() {
    let scene = held().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let question = scene.only_question().await;
    scene
        .decide(&question.id, ApprovalVerdict::Edit, "say Wednesday")
        .await;
    let app = &scene.world.app;
    app.drain().await;
    assert_eq!(to_carol(&scene), [] as [&str; 0], "a second yes is needed");
    let newer = scene.only_question().await;
    assert!(
        newer.view.contains("We meet on Wednesday."),
        "{}",
        newer.view
    );
    assert_ne!(newer.sha256, question.sha256);
    scene.decide(&newer.id, ApprovalVerdict::Approve, "").await;
    app.drain().await;
    assert_eq!(to_carol(&scene), ["We meet on Wednesday."]);
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    app.check().await;
}

/// Without the rule, and for the owner, nothing waits.
#[tokio::test]
async fn an_answer_that_no_rule_holds_is_sent_at_once() {
    let scene = Scene::with(&script(), |_| {}).await;
    scene.writes(CONTACT, "l1", "").await;
    assert_eq!(to_carol(&scene), ["We meet on Tuesday."]);
    assert_eq!(scene.open().await, []);
}
