//! Objects in a bucket of an S3 service: signed, and what becomes of a letter while the service refuses, hangs or fails.

use super::server::{BUCKET, Fault, Server};
use super::{large, named, reads};
use crate::app::{TestApp, Workspace, letter};
use crate::crash_points::letters::hand_in;
use crate::maintenance::workspace::attache;
use crate::recovery::place::Running;
use attache::clock::Clock;
use attache::domain::{MessageId, sha256_hex};
use attache::gateway::intake_contract::Refusal;
use attache::keeping::ObjectWorker;
use attache::store::StoreError;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// A workspace with an object store in the bucket.
fn workspace(server: &Server) -> Workspace {
    let workspace = Workspace::new(&reads()).talkative();
    let objects = json!({ "url": format!("s3://{BUCKET}/cell/one"), "region": "eu-test-1", "endpoint": server.endpoint,
        "bytes_min": 1024, "timeout": "1s" });
    workspace.write_json("configs/keeping.json", &json!({ "objects": objects }));
    let key = "ATTACHE_OBJECTS_KEY_ID=key-id\nATTACHE_OBJECTS_SECRET_KEY=no-secret-at-all\n";
    workspace.write(".secrets", key);
    let path = workspace.path().join(".secrets");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("a mode");
    workspace
}

async fn raw(app: &TestApp, id: &str) -> Result<Vec<u8>, StoreError> {
    let sql = "SELECT id FROM messages WHERE message_id = $1";
    let message = app.row(sql, id).await[0].clone().expect("an id");
    let letter = app.engine.store.raw_letter(&MessageId::new(message)).await;
    letter.map(|letter| letter.bytes)
}

#[tokio::test]
async fn objects_of_a_bucket_are_signed_and_below_its_prefix_and_go_again() {
    let server = Server::start().await;
    let app = workspace(&server).start().await;
    let eml = large("q1@guest.example");
    app.run_of(&eml).await;
    app.drain().await;
    let (names, left) = named(&app).await;
    let keys: Vec<String> = server.bucket().objects.keys().cloned().collect();
    assert_eq!((keys.len() as i64, left), (names, 0));
    assert!(
        keys.iter().all(|key| key.starts_with("cell/one/")),
        "{keys:?}"
    );
    let bytes = raw(&app, "q1@guest.example").await.expect("bytes");
    assert_eq!(bytes, letter(&eml).bytes);
    app.check().await;
    // An orphan in the bucket goes; what has a row stays.
    let digest = sha256_hex(&[b"orphan"]);
    let owner = keys[0].rsplitn(3, '/').last().expect("an owner").to_owned();
    let orphan = format!("{owner}/{}/{digest}-1", &digest[..2]);
    server.bucket().objects.insert(orphan, b"orphan".to_vec());
    app.workspace
        .clock
        .advance(Duration::from_secs(2 * 24 * 3600));
    let mut worker = ObjectWorker::new(&app.engine.store);
    while worker.work_once().await.expect("a step") {}
    let after: Vec<String> = server.bucket().objects.keys().cloned().collect();
    let (token, after) = after.split_last().expect("names");
    assert_eq!(after, keys);
    assert_eq!(token, &format!("{owner}/token"), "behind all digests");
    // Pruned: gone there, too.
    let now = app.workspace.clock.now();
    for kind in ["turns", "letters", "attachments"] {
        let kind = crate::maintenance::gc::kind(kind);
        app.engine
            .store
            .prune_kind(kind, now, false)
            .await
            .expect("pruned");
    }
    assert_eq!(
        app.engine
            .store
            .delete_all_dropped()
            .await
            .expect("deleted"),
        0
    );
    let left: Vec<String> = server.bucket().objects.keys().cloned().collect();
    assert_eq!(left, [token.as_str()]);
}

#[tokio::test]
async fn a_service_that_fails_once_or_cuts_an_answer_is_asked_again() {
    let server = Server::start().await;
    let app = workspace(&server).start().await;
    server.bucket().faults = [Fault::Fails, Fault::Swallows].into();
    let eml = large("q1@guest.example");
    app.run_of(&eml).await;
    let puts = server.bucket().asked.len();
    assert_eq!(
        puts,
        4,
        "two objects, each put twice: {:?}",
        server.bucket().asked
    );
    for fault in [Fault::Fails, Fault::Cuts] {
        server.bucket().faults = [fault].into();
        let bytes = raw(&app, "q1@guest.example").await.expect("bytes");
        assert_eq!(bytes, letter(&eml).bytes, "{fault:?}");
    }
    // The control: one that fails for good is an error, and nothing else.
    server.bucket().always = Some(Fault::Cuts);
    let error = raw(&app, "q1@guest.example").await.expect_err("cut");
    assert!(
        matches!(&error, StoreError::Object(away) if !away.is_lost()),
        "{error}"
    );
    server.bucket().always = None;
    app.drain().await;
    app.check().await;
}

#[tokio::test]
async fn a_letter_is_not_taken_while_the_service_refuses_or_hangs_and_nothing_of_it_is_stored() {
    let server = Server::start().await;
    let app = workspace(&server).start().await;
    for fault in [Fault::Refuses, Fault::Hangs, Fault::Fails] {
        server.bucket().always = Some(fault);
        let refused = app.receive(&large("q1@guest.example")).await;
        assert!(
            matches!(refused, Err(Refusal::NotStored(StoreError::Object(_)))),
            "{fault:?}: {refused:?}"
        );
    }
    let stored = "SELECT CAST((SELECT count(*) FROM messages) + (SELECT count(*) FROM raw_letters) AS TEXT) WHERE $1 = $1";
    assert_eq!(app.row(stored, "").await, [Some("0".to_owned())]);
    server.bucket().always = None;
    app.run_of(&large("q1@guest.example")).await;
    app.drain().await;
    app.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_hears_451_while_the_service_hangs_and_250_after() {
    let server = Server::start().await;
    let workspace = workspace(&server);
    crate::app::database::provide_to_binary(workspace.path());
    let engine = Running::start(workspace.path(), &[]);
    server.bucket().always = Some(Fault::Hangs);
    let eml = large("q1@guest.example");
    let refused = hand_in(engine.port, &eml).await.expect_err("no yes");
    assert!(refused.to_string().starts_with("451 4.3.0"), "{refused}");
    server.bucket().always = None;
    hand_in(engine.port, &eml).await.expect("a yes");
    assert!(server.bucket().objects.len() >= 2);
}

#[tokio::test]
async fn doctor_tries_the_service_and_says_what_to_do() {
    let server = Server::start().await;
    let workspace = workspace(&server);
    crate::app::database::provide(workspace.path()).await;
    // The database has rows of an engine that was here.
    let app = workspace.start().await;
    let workspace = crate::maintenance::whole_backup::stopped(app).await;
    let asked = ["doctor", "--online", "--quick"];
    attache(workspace.path(), &asked).await;
    let tried: Vec<String> = std::mem::take(&mut server.bucket().asked);
    let verbs: Vec<&str> = tried
        .iter()
        .filter_map(|one| one.split(' ').next())
        .collect();
    // The last look is at the token, which is not there yet.
    assert_eq!(verbs, ["PUT", "GET", "DELETE", "GET"], "{tried:?}");
    assert_eq!(server.bucket().objects.len(), 0);
    server.bucket().always = Some(Fault::Refuses);
    let (code, said, _) = attache(workspace.path(), &asked).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("objects cannot be stored"), "{said}");
    assert!(said.contains("keys in `.secrets`"), "{said}");
}

#[tokio::test]
async fn a_bucket_without_its_key_is_a_problem_of_the_configuration() {
    let server = Server::start().await;
    let workspace = workspace(&server);
    std::fs::remove_file(workspace.path().join(".secrets")).expect("no secrets");
    let (code, said, _) = attache(workspace.path(), &["config", "check"]).await;
    assert_eq!(code, 65, "{said}");
    for words in [
        "ATTACHE_OBJECTS_KEY_ID is not set",
        "ATTACHE_OBJECTS_SECRET_KEY is not set",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let url = json!({ "objects": { "url": "s3://id:hunter2@mail" } });
    workspace.write_json("configs/keeping.json", &url);
    let (code, said, _) = attache(workspace.path(), &["config", "check"]).await;
    assert_eq!(code, 65, "{said}");
    assert!(
        said.contains("holds no key") && !said.contains("hunter2"),
        "{said}"
    );
    assert!(server.bucket().asked.is_empty());
}
