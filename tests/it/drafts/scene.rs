//! A persona whose mails to others wait for its owner.

use crate::approvals::scene::Scene;
use attache::domain::Trigger;
use attache::runs::approvals::edit::{NewText, edit};
use attache::store::{ApprovalView, StoreError};
use serde_json::{Value, json};

pub const TEXT: &str = "We meet on Tuesday.";

/// Answers every letter with the same sentence.
pub fn says() -> Value {
    json!({ "rules": [{ "say": TEXT }] })
}

/// Ada, with `reply: draft`.
pub async fn drafting(script: &Value) -> Scene {
    Scene::with(script, |workspace| {
        workspace.set("personas/ada/persona.json", "/reply", json!("draft"));
    })
    .await
}

pub fn to_carol(scene: &Scene) -> Vec<String> {
    let sent = scene.world.app.sent().into_iter();
    let texts = sent.filter(|mail| mail.to.iter().any(|to| to.spec == "carol@partner.test"));
    texts.map(|mail| mail.text.trim().to_owned()).collect()
}

/// The drafts in any state, the newest first.
pub async fn drafts(scene: &Scene) -> Vec<ApprovalView> {
    let store = &scene.world.app.engine.store;
    store.drafts(None, None, 100).await.expect("drafts")
}

pub async fn only_draft(scene: &Scene) -> ApprovalView {
    let mut found = drafts(scene).await;
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

/// Edits a draft as its owner does on the command line.
pub async fn edits(scene: &Scene, id: &str, subject: &str, text: &str) -> Result<(), StoreError> {
    let app = &scene.world.app;
    let store = &app.engine.store;
    let names = attache::cli::name_catalog();
    let config = attache::config::load(app.workspace.path(), &names).expect("a configuration");
    let record = store.draft(id).await.expect("a draft");
    let new = NewText {
        subject,
        text,
        at: None,
    };
    let edit = edit(
        &config,
        store,
        &record,
        Trigger::Email,
        &new,
        "uid 0".to_owned(),
        "cli",
    )
    .expect("an edit");
    store.edit_draft(id, edit).await
}
