//! How vectors come to be, and when they go.

use super::embedding_server::{DIMENSIONS, EmbeddingServer, Mood};
use super::{MODEL, column, workspace, writes};
use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::app::{PROVEN, TestApp, note};
use crate::identity::world::World;
use crate::mail_commands::{signed, taken};
use attache::domain::sha256_hex;
use serde_json::json;
use std::time::Duration;

/// Letters of one correspondent, each the beginning of a thread, all taken before the first is answered.
async fn letters_come(app: &TestApp, count: usize) {
    for number in 0..count {
        let id = format!("n{number}@guest.example");
        let eml = note(&id, PROVEN, &format!("Letter {number}."));
        app.receive(&eml).await.expect("taken");
    }
    app.drain().await;
}

#[tokio::test]
async fn each_letter_and_each_answer_gets_a_vector_of_its_text() {
    let server = EmbeddingServer::start().await;
    let app = workspace(&server).start().await;
    writes(&app, "a", "The boiler is broken.").await;
    assert_eq!(
        server.asked().len(),
        1,
        "one call for the letter and its answer"
    );
    let sql = "SELECT model || ' ' || persona_id || ' ' || length(vector) FROM letter_vectors ORDER BY seq";
    let expected = format!("{MODEL} ada {}", 4 * DIMENSIONS);
    assert_eq!(column(&app, sql).await, [expected.clone(), expected]);
    let text = "Breakfast\nThe boiler is broken.";
    assert!(
        server.asked()[0].contains(&text.to_owned()),
        "{:?}",
        server.asked()
    );
    let hashes = column(&app, "SELECT text_sha256 FROM letter_vectors").await;
    assert!(hashes.contains(&sha256_hex(&[text.as_bytes()])));
    // Nothing is left to do, and nothing is asked again.
    app.drain().await;
    assert_eq!(server.asked().len(), 1);
    app.check().await;
}

/// G8: what no model reads goes to no server of vectors either.
#[tokio::test]
async fn a_command_and_its_answer_get_no_vector() {
    let server = EmbeddingServer::start().await;
    let world = World::in_workspace(workspace(&server), json!({})).await;
    let letter = signed(&world, "a", "", "The boiler is broken.");
    assert_eq!(taken(&world, &letter).await, "run");
    for (n, line) in ["/status", "/help", "/statsu", "/pause", "/resume"]
        .into_iter()
        .enumerate()
    {
        let text = format!("{line}\r\n\r\nThe heron K_BELOW is mine.");
        let eml = signed(&world, &format!("c{n}"), "", &text);
        assert_eq!(taken(&world, &eml).await, "command", "{line}");
        world.app.drain().await;
    }
    assert_eq!(world.app.notices().len(), 5, "each was answered");
    let asked = server.asked().concat();
    assert_eq!(asked.len(), 2, "the letter and its answer: {asked:?}");
    assert!(
        asked
            .iter()
            .any(|text| text.ends_with("The boiler is broken.")),
        "{asked:?}"
    );
    let count = column(
        &world.app,
        "SELECT CAST(count(*) AS TEXT) FROM letter_vectors",
    )
    .await;
    assert_eq!(count, ["2"]);
    world.app.check().await;
}

#[tokio::test]
async fn a_text_that_has_a_vector_is_not_sent_again() {
    let server = EmbeddingServer::start().await;
    let app = workspace(&server).start().await;
    writes(&app, "a", "The boiler is broken.").await;
    let before = server.asked().concat().len();
    writes(&app, "b", "The boiler is broken.").await;
    let asked = server.asked().concat();
    let letters = asked
        .iter()
        .filter(|text| text.ends_with("The boiler is broken."))
        .count();
    assert_eq!(letters, 1, "{asked:?}");
    assert!(asked.len() <= before + 1, "{asked:?}");
    let count = column(&app, "SELECT CAST(count(*) AS TEXT) FROM letter_vectors").await;
    assert_eq!(count, ["4"]);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn many_letters_are_sent_in_steps_the_newest_first() {
    let server = EmbeddingServer::start().await;
    server.set(Mood::Refuses(500));
    let app = workspace(&server).start().await;
    letters_come(&app, 70).await;
    server.set(Mood::Answers);
    let before = server.asked().len();
    app.drain().await;
    let asked = &server.asked()[before..];
    assert!(
        asked.len() >= 3 && asked.iter().all(|texts| texts.len() <= 64),
        "{}",
        asked.len()
    );
    let place = |letter: &str| {
        let has = |texts: &Vec<String>| texts.iter().any(|text| text.ends_with(letter));
        asked.iter().position(has)
    };
    assert!(place("Letter 69.") < place("Letter 0."), "{asked:?}");
    app.check().await;
}

#[tokio::test]
async fn a_batch_that_is_refused_is_tried_in_smaller_ones() {
    let server = EmbeddingServer::start().await;
    server.set(Mood::TakesFewerThan(3));
    let app = workspace(&server).start().await;
    letters_come(&app, 5).await;
    let count = column(&app, "SELECT CAST(count(*) AS TEXT) FROM letter_vectors").await;
    assert_eq!(count, ["10"]);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_request_that_is_wrong_for_every_letter_is_not_tried_for_each() {
    let server = EmbeddingServer::start().await;
    server.set(Mood::Refuses(400));
    let app = workspace(&server).start().await;
    letters_come(&app, 30).await;
    assert!(server.asked().len() < 30, "{}", server.asked().len());
    app.check().await;
}

#[tokio::test]
async fn a_server_that_fails_costs_no_letter_and_is_asked_again() {
    let server = EmbeddingServer::start().await;
    server.set(Mood::Refuses(503));
    let app = workspace(&server).start().await;
    let run = writes(&app, "a", "The boiler is broken.").await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert!(
        column(&app, "SELECT model FROM letter_vectors")
            .await
            .is_empty()
    );
    app.check().await;
    server.set(Mood::Answers);
    app.drain().await;
    assert_eq!(
        column(&app, "SELECT model FROM letter_vectors").await.len(),
        2
    );
    app.check().await;
}

/// The worker of a serving engine: it begins by itself, waits after a failure, and stops when it is told to.
#[tokio::test]
async fn a_serving_engine_makes_them_and_stops_when_it_is_told() {
    let server = EmbeddingServer::start().await;
    server.set(Mood::Refuses(503));
    let app = workspace(&server).start().await;
    writes(&app, "a", "The boiler is broken.").await;
    let crate::app::TestApp { workspace, engine } = app;
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    let before = server.asked().len();
    let made = async {
        while server.asked().len() == before {
            crate::app::glance().await;
        }
        server.set(Mood::Answers);
        let mut rows = workspace.rows().await;
        loop {
            let count: i64 = db::query_scalar("SELECT count(*) FROM letter_vectors")
                .fetch_one(&mut rows)
                .await
                .expect("a count");
            if count == 2 {
                return;
            }
            crate::app::glance().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), made)
        .await
        .expect("made in time");
    stop.cancel();
    serving.await.expect("no panic").expect("stopped");
}

/// Whether the bytes of the only vector stand in the database file.
async fn is_in_file(app: &crate::app::TestApp, vector: &[u8]) -> bool {
    let mut rows = app.workspace.rows().await;
    let fold = db::query("PRAGMA wal_checkpoint(TRUNCATE)");
    fold.execute(&mut rows).await.expect("folded in");
    let folder = app.workspace.path().join("data");
    ["attache.db", "attache.db-wal"].iter().any(|file| {
        let bytes = std::fs::read(folder.join(file)).unwrap_or_default();
        bytes.windows(vector.len()).any(|window| window == vector)
    })
}

#[tokio::test]
async fn no_vector_of_a_letter_is_left_that_goes_or_loses_its_text() {
    if is_sqlite_only("bytes of its file") {
        return;
    }
    for change in [
        "DELETE FROM messages WHERE direction = 'outbound' AND run_id IS NOT NULL",
        "UPDATE messages SET fresh_text = '', text_body = '' WHERE direction = 'outbound'",
    ] {
        let server = EmbeddingServer::start().await;
        let app = workspace(&server).start().await;
        writes(&app, "a", "The boiler is broken.").await;
        let mut rows = app.workspace.rows().await;
        let vector = "SELECT v.vector FROM letter_vectors v JOIN messages m ON m.seq = v.seq WHERE m.direction = 'outbound'";
        let vector: Vec<u8> = db::query_scalar(vector)
            .fetch_one(&mut rows)
            .await
            .expect("a vector");
        assert!(
            is_in_file(&app, &vector).await,
            "the control: it is found while it is there"
        );
        // As erasure does it: pages are overwritten, and what refers to the letter is not asked about.
        rows.unchecked().await;
        let change = format!("PRAGMA secure_delete = ON; {change}");
        db::raw_sql(sqlx::AssertSqlSafe(change))
            .execute(&mut rows)
            .await
            .expect("changed");
        let left = column(&app, "SELECT CAST(count(*) AS TEXT) FROM letter_vectors").await;
        assert_eq!(left, ["1"]);
        assert!(!is_in_file(&app, &vector).await);
    }
}

#[tokio::test]
async fn another_model_has_vectors_of_its_own() {
    let server = EmbeddingServer::start().await;
    let app = workspace(&server).start().await;
    writes(&app, "a", "The boiler is broken.").await;
    let crate::app::TestApp { workspace, engine } = app;
    drop(engine);
    let shorter = serde_json::json!({ "provider": "compat:local", "model": "topics", "dimensions": DIMENSIONS });
    workspace.set("configs/inference.json", "/embeddings", shorter);
    let app = workspace.start().await;
    app.drain().await;
    let models = column(
        &app,
        "SELECT DISTINCT model FROM letter_vectors ORDER BY model",
    )
    .await;
    assert_eq!(models, [MODEL.to_owned(), format!("{MODEL}@{DIMENSIONS}")]);
    app.check().await;
}
