//! Letters that are refused for want of something: the owner is told once an hour, and the log once a minute.

use crate::app::database::is_sqlite_only;
use crate::app::{TestApp, Workspace};
use attache::config::Config;
use attache::gateway::intake::Intake;
use attache::gateway::intake_contract::{LetterIntake, Shortage};
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const MORE_THAN_ANY_DISK: u64 = 1 << 60;

/// An engine, and a door of it whose shortages nobody else tells of.
async fn house(limits: serde_json::Value) -> (TestApp, Intake) {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    workspace.set("configs/gateway.json", "/limits", limits);
    let app = workspace.start().await;
    let config: Arc<Config> = app.engine.config.clone();
    let intake =
        Intake::new(app.engine.store.clone(), config, Arc::new(Notify::new())).expect("a door");
    (app, intake)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_disk_below_its_reserve_refuses_letters_and_tells_the_owner() {
    if is_sqlite_only("the disk below its file") {
        return;
    }
    let (app, intake) = house(json!({ "free_disk_bytes_min": MORE_THAN_ANY_DISK })).await;
    assert!(!intake.has_room() && !intake.has_room());
    intake.tell_shortages().await;
    app.drain().await;
    let told = app.notices();
    assert_eq!(told.len(), 1);
    assert_eq!(
        told[0].subject,
        "[attache] letters are refused for want of disk space"
    );
    let text = told[0].text.clone();
    assert!(
        text.contains(&MORE_THAN_ANY_DISK.to_string()) && text.contains("refused so far: 2"),
        "{text}"
    );
    assert!(text.contains("free_disk_bytes_min"), "{text}");
    app.check().await;
    let doctor = Command::new(env!("CARGO_BIN_EXE_attache"))
        .args(["doctor", "--audit"])
        .env_remove("ATTACHE_WORKSPACE")
        .current_dir(app.workspace.path())
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(
        doctor.status.success() && said.contains("letters are refused: the disk below `data` has"),
        "{said}"
    );
}

#[tokio::test]
async fn each_shortage_is_one_fact_an_hour_however_many_are_refused() {
    let (app, intake) = house(json!({})).await;
    assert!(intake.has_room());
    let facts = "SELECT CAST(count(*) AS TEXT) FROM notices WHERE kind = 'letters_refused' AND subject_id = $1";
    for expected in ["1", "1", "2"] {
        for _ in 0..1000 {
            intake.short_of(Shortage::Connections);
        }
        intake.short_of(Shortage::LetterMemory);
        intake.tell_shortages().await;
        for what in ["connections", "memory"] {
            assert_eq!(
                app.row(facts, what).await[0].as_deref(),
                Some(expected),
                "{what}"
            );
        }
        app.workspace.clock.advance(Duration::from_secs(31 * 60));
    }
    intake.tell_shortages().await;
    assert_eq!(
        app.row(facts, "connections").await[0].as_deref(),
        Some("2"),
        "nobody was refused since"
    );
}

#[tokio::test]
async fn what_cannot_be_told_now_is_told_when_there_is_room() {
    let (app, intake) = house(json!({})).await;
    let mut rows = app.workspace.rows().await;
    let full = rows.on(
        "CREATE TRIGGER no_room BEFORE INSERT ON notices BEGIN SELECT raise(ABORT, 'no room'); END",
        "CREATE FUNCTION no_room() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room'; END $$;
         CREATE TRIGGER no_room BEFORE INSERT ON notices FOR EACH ROW EXECUTE FUNCTION no_room()",
    );
    rows.execute(full).await.expect("a full disk");
    for _ in 0..3 {
        intake.short_of(Shortage::Disk);
        intake.tell_shortages().await;
    }
    assert!(app.notices().is_empty());
    let room = rows.on("DROP TRIGGER no_room", "DROP TRIGGER no_room ON notices");
    rows.execute(room).await.expect("room");
    for _ in 0..2 {
        intake.tell_shortages().await;
        app.drain().await;
        let told = app.notices();
        assert_eq!(told.len(), 1);
        let text = &told[0].text;
        assert!(
            text.contains("refused so far: 3") && text.contains("no room for a write"),
            "{text}"
        );
    }
}
