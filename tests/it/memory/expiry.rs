//! Entries end: by their last day, or when no run has needed them for long; and come back if their owner says so.

use super::scene::MemoryScene;
use crate::approvals::scene::CONTACT;
use attache::domain::{MemoryCircle, MemoryStatus, PersonaId, ThreadId, Trust};
use attache::store::{MemoryAct, StoreError};

const TEA: &str = "Carol drinks green tea and never coffee.";
const BOAT: &str = "Carol keeps a small boat in Kiel.";
const DAN: &str = "Dan <dan@evil.test>";

impl MemoryScene {
    /// The texts of which a letter of Carol's would be told. Signatures of half a year ahead are not believed, so there is
    /// none.
    async fn shown_to_carol(&self) -> Vec<String> {
        let carol = "carol@partner.test".to_owned();
        let circle = MemoryCircle {
            sender: Some(carol.clone()),
            trust: Trust::Contact,
            thread: ThreadId::new("none"),
            people: [carol].into(),
        };
        let ada = PersonaId::parse("ada").expect("a name");
        let store = self.scene.world.app.engine.store.persona(&ada);
        let now = self.scene.world.now();
        let shown = store.memory(&circle).active(now).await.expect("entries");
        shown.into_iter().map(|entry| entry.text).collect()
    }
}

#[tokio::test]
async fn an_entry_that_no_context_was_given_for_180_days_expires_unless_it_is_pinned() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TEA).await;
    scene.tells(CONTACT, "m2", BOAT).await;
    let (tea, boat) = (scene.entry(TEA).await, scene.entry(BOAT).await);
    // The second letter was given the first entry.
    assert_eq!((tea.uses, boat.uses), (1, 0));
    assert!(tea.last_used_at.is_some() && boat.last_used_at.is_none());
    scene.act(&boat.id, MemoryAct::Pin).await.expect("pinned");
    scene
        .act(&boat.id, MemoryAct::Pin)
        .await
        .expect("pinned already");
    assert_eq!(scene.acts(&boat.id).await, ["added", "pinned"]);

    scene.days_pass(179).await;
    assert_eq!(scene.entry(TEA).await.status, MemoryStatus::Active);
    scene.days_pass(2).await;
    assert_eq!(scene.entry(TEA).await.status, MemoryStatus::Expired);
    assert_eq!(scene.entry(BOAT).await.status, MemoryStatus::Active);
    assert_eq!(scene.acts(&tea.id).await, ["added", "expired"]);
    assert_eq!(scene.shown_to_carol().await, [BOAT]);

    // Brought back, it counts as used.
    scene.act(&tea.id, MemoryAct::Restore).await.expect("back");
    scene.days_pass(1).await;
    assert_eq!(scene.shown_to_carol().await, [BOAT, TEA]);
    scene
        .act(&boat.id, MemoryAct::Unpin)
        .await
        .expect("unpinned");
    scene.days_pass(181).await;
    assert_eq!(scene.entry(BOAT).await.status, MemoryStatus::Expired);
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn an_entry_expires_after_its_last_day_and_comes_back_for_90_days() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TEA).await;
    scene.tells(CONTACT, "m2", BOAT).await;
    let boat = scene.entry(BOAT).await.id;
    let before = scene.told("n1").await;
    let app = &scene.scene.world.app;
    let end = scene
        .scene
        .world
        .now()
        .plus(std::time::Duration::from_secs(24 * 3600));
    let sql = "UPDATE memory SET valid_to = $1 WHERE text LIKE '%boat%' RETURNING id";
    app.row(sql, &end.to_string()).await;
    scene.days_pass(2).await;
    assert_eq!(scene.entry(BOAT).await.status, MemoryStatus::Expired);
    assert!(!scene.told("n2").await.contains(BOAT));
    scene.act(&boat, MemoryAct::Restore).await.expect("back");
    let entry = scene.entry(BOAT).await;
    assert_eq!((entry.status, entry.valid_to), (MemoryStatus::Active, None));
    assert_eq!(scene.told("n3").await, before);

    scene.days_pass(200).await;
    scene.days_pass(91).await;
    let late = scene.act(&boat, MemoryAct::Restore).await;
    assert!(
        matches!(&late, Err(StoreError::WrongState { hint, .. }) if hint.contains("90 days")),
        "{late:?}"
    );
    app.check().await;
}

#[tokio::test]
async fn what_a_search_found_counts_as_used() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TEA).await;
    let body = "And?\r\nrecall: green tea coffee";
    scene.writes(CONTACT, "m2", "", body).await;
    assert_eq!(
        scene.entry(TEA).await.uses,
        2,
        "once in the context, once found"
    );
    // Somebody else's letter uses nothing of hers.
    scene.writes(DAN, "m3", "", body).await;
    assert_eq!(scene.entry(TEA).await.uses, 2);
    scene.scene.world.app.check().await;
}

/// Many at once: each pass takes some of them, and the next one goes on.
#[tokio::test]
#[ignore = "second tier"]
async fn entries_expire_in_small_steps() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TEA).await;
    let app = &scene.scene.world.app;
    for number in 2..=250 {
        let sql = "INSERT INTO memory SELECT id || $1, persona_id, scope, scope_key || $1, number, kind, text, text_sha256, status, trust,
            readers_json, audience_json, said_by, said_at, valid_to, created_at, created_run, created_by, confirmed_at, confirmations,
            supersedes, superseded_by, erased_at, uses, last_used_at, pinned, proposes FROM memory ORDER BY length(id) LIMIT 1 RETURNING id";
        app.row(sql, &format!("-{number}")).await;
    }
    let store = &app.engine.store;
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(181 * 24 * 3600));
    let mut passes = Vec::new();
    loop {
        match store.expire_memory().await.expect("a pass") {
            0 => break,
            expired => passes.push(expired),
        }
    }
    assert_eq!(passes, [100, 100, 50]);
}
