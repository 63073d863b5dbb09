//! What becomes a draft, and what its owner does with it by mail.

use super::scene::{TEXT, drafting, drafts, edits, only_draft, says, to_carol};
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use attache::domain::{ApprovalKind, ApprovalState};
use attache::store::ApprovalVerdict;
use serde_json::{Value, json};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
async fn a_smarthost_that_takes_one_sender_gets_drafts_and_their_answers_by_it() {
    for (bounces, sender) in [("plain", "ada@engine.test"), ("tagged", "")] {
        let scene = Scene::with(&says(), |workspace| {
            workspace.set("personas/ada/persona.json", "/reply", json!("draft"));
            workspace.set(
                "configs/gateway.json",
                "/outbound/bounce_address",
                json!(bounces),
            );
        })
        .await;
        scene.writes(CONTACT, "l1", "").await;
        scene.owner_replies("y1", "perhaps").await;
        let app = &scene.world.app;
        let sql = "SELECT count(*) || '', min(envelope_from), max(envelope_from) FROM deliveries WHERE kind = $1";
        let found: Vec<String> = app
            .row(sql, "notice")
            .await
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect();
        assert_eq!(found, ["2", sender, sender], "{bounces}");
        assert_eq!(scene.to_owner().len(), 2);
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_final_text_waits_as_a_draft_and_a_yes_by_mail_sends_it_once() {
    let scene = drafting(&says()).await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let app = &scene.world.app;
    assert_eq!(
        app.outcome(&run).await,
        ("succeeded".into(), Some("answered".into()), None),
        "the run does not wait"
    );
    assert_eq!(to_carol(&scene), [] as [&str; 0]);
    let draft = only_draft(&scene).await;
    assert_eq!(
        (draft.kind, draft.state, draft.parks),
        (ApprovalKind::Draft, ApprovalState::Open, false)
    );
    let mails = scene.to_owner();
    assert_eq!(mails.len(), 1);
    assert!(
        mails[0].subject.starts_with("Ada: a draft for you ["),
        "{}",
        mails[0].subject
    );
    for shown in [
        "To: carol@partner.test  (in this thread)",
        "Subject: Re: Tuesday",
        TEXT,
        "`no` discards it",
    ] {
        assert!(mails[0].text.contains(shown), "{shown}: {}", mails[0].text);
    }
    let sql = "SELECT disposition FROM messages WHERE run_id = $1 AND direction = 'outbound'";
    assert_eq!(
        app.row(sql, &run).await[0].as_deref(),
        Some("withheld:draft")
    );

    scene.owner_replies("y1", "yes").await;
    assert_eq!(to_carol(&scene), [TEXT]);
    assert_eq!(only_draft(&scene).await.state, ApprovalState::Approved);
    scene.owner_replies("y2", "yes").await;
    assert_eq!(to_carol(&scene), [TEXT], "a second yes sends nothing");
    assert!(scene.to_owner()[1].text.contains("was approved already"));
    let sql = "SELECT d.bytes, a.mail_bytes FROM deliveries d JOIN approvals a ON a.run_id = d.run_id WHERE d.run_id = $1";
    let mails = app.row(sql, &run).await;
    assert_eq!(mails[0], mails[1], "sent is what was shown");
    app.check().await;
}

#[tokio::test]
async fn a_no_discards_a_draft_and_an_answer_that_is_neither_is_explained() {
    let scene = drafting(&says()).await;
    scene.writes(CONTACT, "l1", "").await;
    scene.owner_replies("e1", "edit: say Wednesday").await;
    assert_eq!(only_draft(&scene).await.state, ApprovalState::Open);
    let told = scene.to_owner();
    assert!(
        told[1].text.contains("attache drafts edit"),
        "{}",
        told[1].text
    );
    scene.owner_replies("n1", "No, she has called.").await;
    let draft = only_draft(&scene).await;
    assert_eq!(draft.state, ApprovalState::Rejected);
    assert_eq!(draft.words.as_deref(), Some("she has called."));
    assert_eq!(to_carol(&scene), [] as [&str; 0]);
    scene.world.app.check().await;
}

/// Somebody else's yes, or a forged one, sends nothing.
#[tokio::test]
async fn only_an_owner_sends_a_draft() {
    let scene = drafting(&says()).await;
    scene.writes(CONTACT, "l1", "").await;
    let to = scene.reply_address();
    let forged = scene
        .signed("Olga <olga@home.test>", &to, "f1", "", "yes")
        .replace("d=home.test", "d=evil.test");
    for letter in [scene.signed(CONTACT, &to, "c1", "", "yes"), forged] {
        // The forged one is refused already by the policy of the domain that it names.
        let _taken_or_refused = scene.deliver(&letter, &to).await;
        scene.world.app.drain().await;
    }
    assert_eq!(only_draft(&scene).await.state, ApprovalState::Open);
    assert_eq!(to_carol(&scene), [] as [&str; 0]);
}

#[tokio::test]
async fn a_draft_that_nobody_sends_is_reminded_of_and_then_discarded() {
    let scene = drafting(&says()).await;
    scene.writes(CONTACT, "l1", "").await;
    let app = &scene.world.app;
    app.workspace.clock.advance(DAY * 7);
    app.drain().await;
    let mails = scene.to_owner();
    assert_eq!(mails.len(), 2);
    assert!(
        mails[1].subject.starts_with("Reminder: Ada: a draft"),
        "{}",
        mails[1].subject
    );
    app.workspace.clock.advance(DAY * 7);
    app.drain().await;
    let draft = only_draft(&scene).await;
    assert_eq!(
        (draft.state, draft.via.as_deref()),
        (ApprovalState::Expired, Some("clock"))
    );
    assert_eq!(to_carol(&scene), [] as [&str; 0]);
    app.check().await;
}

/// The owner is who would decide.
#[tokio::test]
async fn a_mail_to_nobody_but_owners_is_sent_at_once() {
    let scene = drafting(&says()).await;
    let run = scene.writes(OWNER, "l1", "").await;
    assert_eq!(drafts(&scene).await, []);
    let sql = "SELECT disposition FROM messages WHERE run_id = $1 AND direction = 'outbound'";
    assert_eq!(
        scene.world.app.row(sql, &run).await[0].as_deref(),
        Some("sent")
    );
}

fn writes_to_eve(more: &Value) -> Value {
    let mut args =
        json!({ "to": ["eve@new.test"], "subject": "The plan", "body": "We meet on Tuesday." });
    for (key, value) in more.as_object().expect("an object") {
        args[key] = value.clone();
    }
    json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "send_email", "args": args }] },
        { "say": "Eve's mail: {{result}}" },
    ] })
}

#[tokio::test]
async fn a_model_leaves_a_mail_as_a_draft_and_its_run_goes_on() {
    let scene = Scene::with(&writes_to_eve(&json!({ "draft": true })), |_| {}).await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let app = &scene.world.app;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let answers = to_carol(&scene);
    assert_eq!(answers.len(), 1, "the final text is no draft");
    assert!(answers[0].contains("kept as a draft"), "{answers:?}");
    let draft = only_draft(&scene).await;
    assert_eq!(draft.tool, "send_email");
    assert!(
        draft.view.starts_with("To: eve@new.test  (NEW"),
        "{}",
        draft.view
    );
    assert_eq!(scene.to_eve().len(), 0);
    scene.decide(&draft.id, ApprovalVerdict::Approve, "").await;
    app.drain().await;
    assert_eq!(scene.to_eve().len(), 1);
    app.check().await;
}

/// What a table or a rule denies does not become a draft, and what a rule makes a draft needs no mode.
#[tokio::test]
async fn a_rule_makes_drafts_and_another_denies_them() {
    let rules = |effect: &str| json!({ "rules": [{ "id": "mine", "effect": effect, "tool": ["reply", "send_email"] }] });
    for (effect, wanted) in [("draft", 2), ("deny", 0)] {
        let scene = Scene::with(&writes_to_eve(&json!({})), |workspace| {
            workspace.write_json("configs/policy.json", &rules(effect));
            workspace.set("personas/ada/persona.json", "/reply", json!("draft"));
        })
        .await;
        let run = scene.writes(CONTACT, "l1", "").await;
        assert_eq!(scene.world.app.outcome(&run).await.0, "succeeded");
        let found = drafts(&scene).await;
        assert_eq!(found.len(), wanted, "{effect}");
        assert!(found.iter().all(|draft| draft.reason["rule"] == "mine"));
        assert_eq!(
            (scene.to_eve().len(), to_carol(&scene).len()),
            (0, 0),
            "{effect}"
        );
        scene.world.app.check().await;
    }
}

#[tokio::test]
async fn drafts_are_bounded_and_one_too_many_is_stored() {
    let scene = Scene::with(&says(), |workspace| {
        workspace.set("personas/ada/persona.json", "/reply", json!("draft"));
        let bounds = json!({ "approvals": { "drafts_open_max": 1 } });
        workspace.write_json("configs/policy.json", &bounds);
    })
    .await;
    scene.writes(CONTACT, "l1", "").await;
    let second = scene.writes(CONTACT, "l2", "").await;
    let app = &scene.world.app;
    assert_eq!(drafts(&scene).await.len(), 1);
    let sql = "SELECT disposition FROM messages WHERE run_id = $1 AND direction = 'outbound'";
    assert_eq!(
        app.row(sql, &second).await[0].as_deref(),
        Some("withheld:drafts_used_up")
    );
    assert_eq!(app.outcome(&second).await.0, "succeeded");
    assert_eq!(to_carol(&scene), [] as [&str; 0]);
    app.check().await;
}

#[tokio::test]
async fn a_yes_to_a_draft_before_its_edit_sends_nothing() {
    let scene = drafting(&says()).await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let id = only_draft(&scene).await.id;
    let before = scene.reply_address();
    edits(&scene, &id, "Re: Tuesday", "We meet on *Wednesday*.")
        .await
        .expect("edited");
    let eml = scene.signed(OWNER, &before, "y1", "", "yes");
    scene.deliver(&eml, &before).await.expect("taken");
    let app = &scene.world.app;
    app.drain().await;
    assert_eq!(to_carol(&scene), [] as [&str; 0]);
    let mails = scene.to_owner();
    assert!(mails.iter().any(|mail| {
        mail.text
            .contains("edited after the mail that you answered")
    }));
    let shown = mails
        .iter()
        .rev()
        .find(|mail| mail.subject.contains("as you edited it"));
    assert!(
        shown
            .expect("asked anew")
            .text
            .contains("We meet on *Wednesday*.")
    );

    scene.owner_replies("y2", "yes").await;
    assert_eq!(to_carol(&scene), ["We meet on Wednesday."]);
    let sql = "SELECT text_body FROM messages WHERE run_id = $1 AND direction = 'outbound' AND disposition = 'sent'";
    assert_eq!(
        app.row(sql, &run).await[0].as_deref(),
        Some("We meet on *Wednesday*.")
    );
    let record = app.engine.store.draft(&id).await.expect("a draft");
    assert_eq!(record.versions.len(), 1);
    assert_eq!(record.versions[0].text, TEXT, "the original is kept");
    let sent = app
        .sent()
        .into_iter()
        .find(|mail| mail.to[0].spec == "carol@partner.test");
    let sent = sent.expect("sent");
    assert_eq!(sent.in_reply_to, ["l1@x.test"], "threading stays");
    // An edit of what was sent, or of another version, changes nothing.
    assert!(edits(&scene, &id, "Re: Tuesday", "Never.").await.is_err());
    app.check().await;
}
