//! The folder transport.

use super::world::{House, bytes};
use crate::app::db;
use attache::clock::Clock;
use attache::config::TransportSettings as Settings;
use attache::gateway::outbound::{Setup, SetupError, transport};
use attache::store::{DeliveryState, RecipientState};
use std::path::Path;
use std::sync::Arc;

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

fn folder_transport(
    house: &House,
    path: &Path,
) -> Result<Arc<dyn attache::gateway::outbound::Transport>, SetupError> {
    let clock: Arc<dyn Clock> = house.clock.clone();
    let settings = Settings::Folder(path.to_owned());
    transport(&Setup {
        transport: &settings,
        host_name: "engine.test",
        clock: &clock,
    })
}

#[tokio::test]
async fn each_mail_becomes_one_file_and_stays_one_when_sent_again() {
    let house = House::new().await;
    let out = house.folder.path().join("data/out");
    let outbound = house.outbound_over(folder_transport(&house, &out).expect("the folder is made"));
    let id = house
        .mail("first", &["you@example.test", "me@example.test"])
        .await;
    house.mail("second", &["you@example.test"]).await;
    assert_eq!(outbound.work_once().await.expect("the store works"), 2);
    assert_eq!(files(&out), ["first.eml", "second.eml"]);
    assert_eq!(
        std::fs::read(out.join("first.eml")).expect("it is there"),
        bytes("first")
    );
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (delivery.state, delivery.possible_duplicate),
        (DeliveryState::Done, false)
    );
    assert!(
        delivery
            .recipients
            .iter()
            .all(|recipient| recipient.state == RecipientState::Delivered)
    );

    // As after a crash between the file and the commit.
    let again =
        "UPDATE deliveries SET state = 'queued', next_attempt_at = created_at WHERE id = 'first'";
    let open = "UPDATE delivery_recipients SET state = 'queued' WHERE delivery_id = 'first'";
    let mut conn = house.database().await;
    for sql in [again, open] {
        db::query(sql).execute(&mut conn).await.expect("a row");
    }
    assert_eq!(outbound.work_once().await.expect("the store works"), 1);
    assert_eq!(files(&out), ["first.eml", "second.eml"]);
    assert_eq!(
        std::fs::read(out.join("first.eml")).expect("it is there"),
        bytes("first")
    );
}

#[tokio::test]
async fn an_unwritable_folder_defers_an_unmakable_is_said_at_start() {
    let house = House::new().await;
    let out = house.folder.path().join("out");
    let outbound = house.outbound_over(folder_transport(&house, &out).expect("the folder is made"));
    std::fs::remove_dir(&out).expect("it is empty");
    std::fs::write(&out, "in the way").expect("a file");
    let id = house.mail("first", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Queued, RecipientState::Deferred)
    );
    assert!(matches!(
        folder_transport(&house, &out),
        Err(SetupError::Folder { .. })
    ));
}
