//! What is sent is what was shown, whatever changes between the question and the yes.

use super::dice::many;
use crate::approvals::scene::{CONTACT, Scene};
use attache::domain::sha256_hex;
use attache::store::ApprovalVerdict;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The digests of all files that the outbox holds.
fn outbox(scene: &Scene) -> BTreeSet<String> {
    let folder = scene.world.app.workspace.path().join("data/outbox");
    let files = std::fs::read_dir(folder).expect("an outbox");
    files
        .map(|file| sha256_hex(&[&std::fs::read(file.expect("a file").path()).expect("bytes")]))
        .collect()
}

/// Changes everything that the mail was made of.
fn change(scene: &Scene, number: usize) {
    let workspace = &scene.world.app.workspace;
    workspace.write(
        "personas/ada/knowledge/house.md",
        &format!("Changed {number} times.\n"),
    );
    workspace.write("personas/ada/PERSONA.md", &format!("Ada, {number}."));
    workspace.set(
        "personas/ada/persona.json",
        "/name",
        json!(format!("Ada {number}")),
    );
    workspace.write_json(
        "configs/policy.json",
        &json!({ "approvals": { "open_max": number + 2 } }),
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_is_sent_is_what_was_shown_whatever_changes() {
    let many = many("ATTACHE_APPROVALS", 24);
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "send_email", "args": { "to": ["eve@new.test"], "subject": "The plan",
            "body": "{{body}}", "attachments": ["knowledge/house.md"] } }] },
        { "say": "Done." },
    ] });
    let mut scene = Scene::with(&script, |_| {}).await;
    let (mut shown, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..many {
        scene.writes(CONTACT, &format!("l{number}"), "").await;
        let question = scene.only_question().await;
        assert!(
            asked.insert(question.sha256.clone()),
            "a changed file is another question"
        );
        change(&scene, number);
        if number % 4 == 0 {
            scene.world.app = scene.world.app.restart().await;
        }
        scene
            .decide(&question.id, ApprovalVerdict::Approve, "")
            .await;
        scene.world.app.drain().await;
        let call = scene
            .world
            .app
            .row(
                "SELECT call_json FROM approvals WHERE id = $1",
                &question.id,
            )
            .await;
        let call: Value = serde_json::from_str(call[0].as_deref().expect("a call")).expect("json");
        let digest = call["mail"]["sha256"]
            .as_str()
            .expect("a digest")
            .to_owned();
        assert!(
            !outbox(&scene).is_disjoint(&BTreeSet::from([digest.clone()])),
            "{number}"
        );
        shown.insert(digest);
    }
    let sent = outbox(&scene).intersection(&shown).count();
    println!("B-3: {many} approvals, {sent} mails with the bytes that were shown");
    assert_eq!((sent, scene.to_eve().len()), (many, many));
}
