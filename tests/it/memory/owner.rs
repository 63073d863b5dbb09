//! What the owner does with entries: each act one event, each undone to the byte.

use super::scene::MemoryScene;
use crate::app::db;
use crate::approvals::scene::{CONTACT, OWNER};
use attache::domain::{MemoryScope, MemoryStatus, Trust};
use attache::store::{MemoryAct, StoreError};

const TEA: &str = "Carol drinks green tea and never coffee.";
const BOAT: &str = "Carol keeps a small boat in Kiel.";
const BOB: &str = "Bob <bob@evil.test>";

fn edit(text: &str) -> MemoryAct {
    MemoryAct::Edit {
        text: text.to_owned(),
    }
}

fn reject() -> MemoryAct {
    MemoryAct::Reject {
        why: "no".to_owned(),
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn every_act_is_one_event_and_is_undone_to_the_byte() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TEA).await;
    scene.tells(CONTACT, "m2", BOAT).await;
    let entries = scene.entries().await;
    let tea = entries
        .iter()
        .find(|entry| entry.text == TEA)
        .expect("tea")
        .id
        .clone();
    let before = scene.told("n1").await;
    assert!(before.contains(TEA) && before.contains(BOAT), "{before}");
    let everybody = MemoryAct::Approve {
        for_everybody: true,
    };
    for (number, act) in [edit("Carol drinks tea."), reject(), everybody]
        .into_iter()
        .enumerate()
    {
        let events = scene.acts(&tea).await.len();
        let changed = scene.act(&tea, act.clone()).await.expect("done");
        assert_eq!(scene.acts(&tea).await.len(), events + 1, "{act:?}");
        let between = scene.told(&format!("o{number}")).await;
        assert_ne!(between, before, "{act:?}");
        // The entry that was changed, or the one that stands in its place: both lead back.
        let undone = scene
            .act(&changed, MemoryAct::Restore)
            .await
            .expect("undone");
        assert_eq!(undone, tea);
        assert_eq!(scene.told(&format!("p{number}")).await, before, "{act:?}");
    }
    // A model's correction and a model's farewell lead back, too.
    let body = "Coffee it is.\r\nid: c1\r\ncorrect: Carol drinks coffee these days.\r\nquote: Coffee it is.";
    scene.writes(CONTACT, "q1", "", body).await;
    assert!(!scene.told("q2").await.contains(TEA));
    scene.act(&tea, MemoryAct::Restore).await.expect("undone");
    assert_eq!(scene.told("q3").await, before);
    scene
        .writes(CONTACT, "q4", "", "Forget it.\r\nforget: c1")
        .await;
    assert!(!scene.told("q5").await.contains(TEA));
    scene.act(&tea, MemoryAct::Restore).await.expect("undone");
    assert_eq!(scene.told("q6").await, before);
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn what_waits_is_used_only_after_a_yes() {
    let scene = MemoryScene::start().await;
    scene
        .tells(BOB, "m1", "Bob has moved to Hamburg for good.")
        .await;
    let bob = scene.entries().await[0].id.clone();
    // Asked for again, it waits already.
    scene
        .tells(BOB, "m3", "Bob has moved to Hamburg for good.")
        .await;
    assert_eq!(scene.entries().await.len(), 1);
    let everybody = scene
        .act(
            &bob,
            MemoryAct::Approve {
                for_everybody: true,
            },
        )
        .await
        .expect("done");
    let told = scene.told("m4").await;
    assert!(
        told.contains("[p1] bob@evil.test wrote on") && told.contains("Hamburg"),
        "{told}"
    );
    let run = scene.writes(OWNER, "m5", "", "What do you know?").await;
    assert!(scene.prompt(&run).await.contains("Hamburg"));
    let entry = scene
        .scene
        .world
        .app
        .engine
        .store
        .memory_dossier(&everybody)
        .await
        .expect("an entry")
        .entry;
    assert_eq!(
        (entry.scope, entry.created_by.as_str()),
        (MemoryScope::Persona, "owner")
    );
    let run = scene
        .writes(CONTACT, "m6", "", "Forget it.\r\nforget: p1")
        .await;
    assert_eq!(
        scene.trace(&run).await.last().map(String::as_str),
        Some("not_yours forget")
    );
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn what_is_rejected_is_not_written_again() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TEA).await;
    let tea = scene.entries().await[0].id.clone();
    scene.act(&tea, reject()).await.expect("done");
    let run = scene.tells(CONTACT, "m7", TEA).await;
    assert_eq!(
        scene.trace(&run).await.last().map(String::as_str),
        Some("owner_rejected remember")
    );
    let refused = scene
        .act(
            &tea,
            MemoryAct::Approve {
                for_everybody: false,
            },
        )
        .await;
    assert!(
        matches!(refused, Err(StoreError::WrongState { .. })),
        "{refused:?}"
    );
    let waiting = scene
        .entries()
        .await
        .iter()
        .filter(|entry| entry.status == MemoryStatus::Proposed)
        .count();
    assert_eq!(waiting, 0);
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn what_the_owner_has_approved_lets_later_runs_remember() {
    let scene = MemoryScene::start().await;
    scene
        .tells(BOB, "m1", "Bob has moved to Hamburg for good.")
        .await;
    let bob = scene.entries().await[0].id.clone();
    // A stranger's words stay a stranger's where only the stranger's letters show them.
    let approve = MemoryAct::Approve {
        for_everybody: false,
    };
    let approved = scene.act(&bob, approve.clone()).await;
    approved.expect("approved");
    assert_eq!(scene.entries().await[0].trust, Trust::Unknown);
    scene.act(&bob, MemoryAct::Restore).await.expect("undone");
    let everybody = MemoryAct::Approve {
        for_everybody: true,
    };
    scene.act(&bob, everybody).await.expect("approved");
    // What everybody is shown is an entry of the owner's own.
    let trusts: Vec<(bool, Trust)> = scene
        .entries()
        .await
        .iter()
        .map(|entry| (entry.id == bob, entry.trust))
        .collect();
    assert_eq!(trusts, [(false, Trust::Owner), (true, Trust::Unknown)]);
    // Carol's run is shown the owner's entry; without the owner's word it would stand for a stranger's text.
    scene.tells(CONTACT, "m2", TEA).await;
    let tea = scene.entry(TEA).await;
    assert_eq!(
        (tea.status, tea.trust),
        (MemoryStatus::Active, Trust::Contact)
    );
    // What her run had read besides does not count any more once the owner has said yes.
    let mut rows = scene.scene.world.app.workspace.rows().await;
    let sunk = "UPDATE memory SET trust = 'unknown', status = 'proposed' WHERE id = $1";
    let sunk = db::query(sunk).bind(&tea.id).execute(&mut rows).await;
    assert_eq!(sunk.expect("sunk").rows_affected(), 1);
    scene.act(&tea.id, approve).await.expect("approved");
    assert_eq!(scene.entry(TEA).await.trust, Trust::Contact);
    scene
        .act(&tea.id, MemoryAct::Restore)
        .await
        .expect("undone");
    assert_eq!(scene.entry(TEA).await.trust, Trust::Unknown);
}

#[tokio::test]
async fn restoring_twice_does_and_undoes_the_same_change() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TEA).await;
    let body = "Coffee it is.\r\nid: c1\r\ncorrect: Carol drinks coffee these days.\r\nquote: Coffee it is.";
    scene.writes(CONTACT, "m2", "", body).await;
    scene
        .writes(CONTACT, "m3", "", "Forget it.\r\nforget: c2")
        .await;
    let coffee = scene.entry("Carol drinks coffee these days.").await.id;
    let tea = scene.entry(TEA).await.id;
    let states = || async {
        let mut found = Vec::new();
        for id in [&tea, &coffee] {
            let store = &scene.scene.world.app.engine.store;
            found.push(
                store
                    .memory_dossier(id)
                    .await
                    .expect("an entry")
                    .entry
                    .status,
            );
        }
        found
    };
    let forgotten = [MemoryStatus::Superseded, MemoryStatus::Forgotten];
    assert_eq!(states().await, forgotten);
    scene.act(&coffee, MemoryAct::Restore).await.expect("back");
    let used = [MemoryStatus::Superseded, MemoryStatus::Active];
    assert_eq!(states().await, used);
    scene.act(&coffee, MemoryAct::Restore).await.expect("away");
    assert_eq!(states().await, forgotten);
}

#[tokio::test]
async fn runs_at_the_same_time_write_an_entry_once() {
    let scene = MemoryScene::start().await;
    let app = &scene.scene.world.app;
    for number in 0..8 {
        let body = format!("{TEA}\r\nremember: {TEA}\r\nquote: {TEA}");
        let id = format!("m{number}");
        let eml = scene
            .scene
            .signed(CONTACT, "ada@engine.test", &id, "", &body);
        let taken = scene.scene.deliver(&eml, "ada@engine.test").await;
        taken.expect("taken");
    }
    app.drain().await;
    let entries = scene.entries().await;
    assert_eq!(entries.len(), 1, "{entries:#?}");
    assert_eq!(entries[0].confirmations, 7);
    app.check().await;
}
