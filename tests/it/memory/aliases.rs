//! Two addresses of one person: what was said from one is known at the other, once the owner has said so.

use super::scene::MemoryScene;
use crate::app::db;
use crate::approvals::scene::CONTACT;
use attache::domain::{MemoryScope, MemoryStatus};
use attache::store::{MemoryAct, StoreError};

const REED: &str = "Carol Reed <reed@partner.test>";
const DAN: &str = "Dan <dan@partner.test>";
const TRAIN: &str = "Carol always takes the early train to Bonn.";
const BOAT: &str = "Carol keeps a small boat in Kiel.";
const PRIVATE: &str = "reed@partner.test";
const WORK: &str = "carol@partner.test";

async fn aliased(scene: &MemoryScene, address: &str, person: &str) -> Result<usize, StoreError> {
    let store = &scene.scene.world.app.engine.store;
    store.add_contact_alias(address, person, "uid 7").await
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_was_said_from_one_address_is_known_at_the_other() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TRAIN).await;
    scene.tells(REED, "m2", BOAT).await;
    let run = scene.writes(REED, "m3", "", "When do I travel?").await;
    let apart = scene.prompt(&run).await;
    assert!(apart.contains(BOAT) && !apart.contains(TRAIN), "{apart}");

    assert_eq!(aliased(&scene, PRIVATE, WORK).await.expect("said"), 1);
    for (from, id) in [(REED, "m4"), (CONTACT, "m5")] {
        let run = scene.writes(from, id, "", "What do you know?").await;
        let together = scene.prompt(&run).await;
        assert!(together.contains(&format!("(fact): {TRAIN}")), "{together}");
        assert!(
            together.contains("[c2] reed@partner.test wrote on"),
            "{together}"
        );
        // What the notes say may be told to the person at either address.
        let sql = "SELECT disposition FROM messages WHERE direction = 'outbound' AND run_id = $1";
        let app = &scene.scene.world.app;
        assert_eq!(
            app.row(sql, &run).await[0].as_deref(),
            Some("sent"),
            "{from}"
        );
    }
    let run = scene.writes(DAN, "m6", "", "What do you know?").await;
    let others = scene.prompt(&run).await;
    assert!(
        !others.contains(TRAIN) && !others.contains(BOAT),
        "{others}"
    );

    // What the other address says from now on stands under the person, and may correct what the first has said.
    let body =
        "Never by train.\r\nid: c1\r\ncorrect: Carol drives to Bonn.\r\nquote: Never by train.";
    scene.writes(REED, "m7", "", body).await;
    let drives = scene.entry("Carol drives to Bonn.").await;
    assert_eq!(drives.scope, MemoryScope::Contact(WORK.to_owned()));
    assert_eq!(
        (drives.said_by.as_str(), drives.status),
        (PRIVATE, MemoryStatus::Active)
    );
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn what_others_read_along_is_still_theirs_to_know() {
    let scene = MemoryScene::start().await;
    aliased(&scene, PRIVATE, WORK).await.expect("said");
    scene.tells(CONTACT, "m1", TRAIN).await;
    let with_dan = format!("Cc: {DAN}\r\n");
    let run = scene
        .writes(REED, "m2", &with_dan, "When do I travel?")
        .await;
    assert!(!scene.prompt(&run).await.contains(TRAIN));
    let with_herself = format!("Cc: {CONTACT}\r\n");
    let run = scene
        .writes(REED, "m3", &with_herself, "When do I travel?")
        .await;
    assert!(scene.prompt(&run).await.contains(TRAIN));
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn moved_entries_keep_what_they_were_and_go_with_the_person() {
    let scene = MemoryScene::start().await;
    scene.tells(REED, "m1", BOAT).await;
    scene.tells(REED, "m2", TRAIN).await;
    let (boat, train) = (scene.entry(BOAT).await, scene.entry(TRAIN).await);
    let why = "no".to_owned();
    scene
        .act(&train.id, MemoryAct::Reject { why })
        .await
        .expect("rejected");
    scene.act(&boat.id, MemoryAct::Pin).await.expect("pinned");
    assert_eq!(aliased(&scene, PRIVATE, WORK).await.expect("said"), 2);
    let old = scene
        .entries()
        .await
        .into_iter()
        .find(|entry| entry.id == boat.id)
        .expect("kept");
    assert_eq!(old.status, MemoryStatus::Superseded);
    let new = old.superseded_by.expect("another one in its place");
    let store = &scene.scene.world.app.engine.store;
    let moved = store.memory_dossier(&new).await.expect("an entry");
    assert!(moved.entry.pinned && moved.entry.created_by == "model");
    assert_eq!(
        (
            &moved.entry.said_by,
            moved.entry.said_at,
            moved.entry.trust,
            moved.entry.confirmed_at
        ),
        (&boat.said_by, boat.said_at, boat.trust, boat.confirmed_at)
    );
    assert_eq!(moved.sources[0].quote, BOAT);
    // Rejected words stay rejected, whichever address says them.
    let run = scene.tells(CONTACT, "m3", TRAIN).await;
    let trace = scene.trace(&run).await;
    assert_eq!(
        trace.last().map(String::as_str),
        Some("owner_rejected remember")
    );
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn what_has_moved_is_restored_only_when_the_address_stands_for_itself_again() {
    let scene = MemoryScene::start().await;
    scene.tells(REED, "m1", BOAT).await;
    let boat = scene.entry(BOAT).await;
    aliased(&scene, PRIVATE, WORK).await.expect("said");
    let store = &scene.scene.world.app.engine.store;
    // While the address belongs to the person, its old row would be shown to nobody.
    let undone = scene.act(&boat.id, MemoryAct::Restore).await;
    assert!(
        matches!(undone, Err(StoreError::WrongState { .. })),
        "{undone:?}"
    );
    let back = store.remove_contact_alias(PRIVATE, "uid 7").await;
    assert_eq!(back.expect("taken back"), Some(1));
    let again = store.remove_contact_alias(PRIVATE, "uid 7").await;
    assert_eq!(again.expect("nothing to take back"), None);
    let run = scene.writes(REED, "m4", "", "What do you know?").await;
    assert!(
        scene
            .prompt(&run)
            .await
            .contains("[c2] reed@partner.test wrote on")
    );
    let run = scene.writes(CONTACT, "m5", "", "What do you know?").await;
    assert!(!scene.prompt(&run).await.contains(BOAT));
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn a_person_has_no_more_entries_than_one_correspondent_may() {
    let scene = MemoryScene::start().await;
    scene.tells(CONTACT, "m1", TRAIN).await;
    scene.tells(REED, "m2", BOAT).await;
    // As many as a correspondent may have.
    let app = &scene.scene.world.app;
    let more = "INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust, readers_json,
          audience_json, said_by, said_at, created_at, created_by, confirmed_at)
        WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
        SELECT 'entry-' || n.i, persona_id, scope, scope_key, n.i, kind, 'Entry ' || n.i, n.i, status, trust, readers_json, audience_json,
          said_by, said_at, created_at, created_by, confirmed_at FROM memory, n WHERE scope_key = $1 AND number = 1";
    let mut rows = app.workspace.rows().await;
    let filled = db::query(more).bind(WORK).execute(&mut rows).await;
    assert_eq!(filled.expect("filled").rows_affected(), 99);
    let refused = aliased(&scene, PRIVATE, WORK).await;
    assert!(
        matches!(refused, Err(StoreError::MemoryFull)),
        "{refused:?}"
    );
    let store = &app.engine.store;
    assert_eq!(store.contact_aliases().await.expect("aliases"), []);
    assert_eq!(
        scene.entry(BOAT).await.scope,
        MemoryScope::Contact(PRIVATE.to_owned())
    );
}

#[tokio::test]
async fn whoever_is_erased_is_erased_at_all_addresses() {
    let scene = MemoryScene::start().await;
    scene.tells(REED, "m1", BOAT).await;
    aliased(&scene, PRIVATE, WORK).await.expect("said");
    scene.tells(CONTACT, "m2", TRAIN).await;
    let attache = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
        command
            .current_dir(scene.scene.world.app.workspace.path())
            .args(args);
        let output = command.output().expect("attache");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let listed = attache(&["memory", "list", "--contact", PRIVATE]);
    assert!(listed.contains(TRAIN) && listed.contains(BOAT), "{listed}");
    attache(&["memory", "forget", "--contact", PRIVATE, "--yes"]);
    let left: Vec<String> = scene
        .entries()
        .await
        .into_iter()
        .map(|entry| entry.text)
        .collect();
    assert!(left.iter().all(String::is_empty), "{left:?}");
}

#[tokio::test]
async fn no_address_stands_for_a_person_that_stands_for_it() {
    let scene = MemoryScene::start().await;
    aliased(&scene, PRIVATE, WORK).await.expect("said");
    let turned = aliased(&scene, WORK, PRIVATE).await;
    assert!(
        matches!(turned, Err(StoreError::WrongState { .. })),
        "{turned:?}"
    );
    // An alias of an alias belongs to the person, and goes along when that one gets another address.
    aliased(&scene, "c@partner.test", PRIVATE)
        .await
        .expect("said");
    aliased(&scene, WORK, "new@partner.test")
        .await
        .expect("said");
    let store = &scene.scene.world.app.engine.store;
    let aliases = store.contact_aliases().await.expect("aliases");
    let persons = aliases.iter().map(|alias| alias.person.as_str());
    assert_eq!(persons.collect::<Vec<_>>(), ["new@partner.test"; 3]);
}
