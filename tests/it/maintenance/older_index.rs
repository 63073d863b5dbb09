//! A database with the index of letters of earlier versions gets the new one beside its work.

use crate::app::db;
use crate::app::rows;
use attache::clock::ManualClock;
use attache::domain::{PersonaId, Timestamp};
use attache::store::{MessageSearch, Store};
use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection as _};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub const LETTERS: u32 = 250;

/// A database of the time before migration 0059, with letters.
pub async fn older_database(workspace: &Path) -> db::Connection {
    std::fs::create_dir_all(workspace.join("data")).expect("a folder");
    let file = workspace.join("data/attache.db");
    let options = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true);
    let mut conn = options.connect().await.expect("a database");
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut all = Migrator::new(all).await.expect("migrations");
    all.migrations
        .to_mut()
        .retain(|migration| migration.version < 59);
    all.run_direct(None, &mut conn, false)
        .await
        .expect("migrated");
    conn.close().await.expect("closed");
    let mut conn = db::Connection::file(&file).await;
    let at = "2026-11-01T00:00:00.000Z";
    rows::thread(&mut conn, ("ada", "t", ""), at, &["carol@partner.test"]).await;
    for n in 1..=LETTERS {
        let (id, body) = (
            format!("m{n}"),
            format!(
                "letter w{n} of the {}",
                if n == 7 { "quagga 4711AB" } else { "horse" }
            ),
        );
        let row = rows::Message {
            id: &id,
            persona: "ada",
            thread: "t",
            direction: "inbound",
            message_id: &id,
            sender: "carol@partner.test",
            recipients_json: "{}",
            subject: "",
            body: &body,
            received_at: at,
            trust: "contact",
            disposition: "run",
        };
        rows::message(&mut conn, row).await;
    }
    conn
}

async fn open(workspace: &Path) -> Store {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
    Store::open(workspace, clock).await.expect("a store")
}

async fn found(store: &Store, word: &str) -> Vec<String> {
    let ada = store.persona(&PersonaId::parse("ada").expect("an id"));
    let search = MessageSearch {
        query: Some(word.to_owned()),
        limit: 5,
        ..MessageSearch::default()
    };
    let found = ada.search_messages(&search).await.expect("a search");
    found.iter().map(|message| message.id.to_string()).collect()
}

#[tokio::test]
async fn letters_of_an_older_database_are_indexed_in_steps_and_once() {
    let workspace = tempfile::tempdir().expect("a folder");
    let mut conn = older_database(workspace.path()).await;
    let store = open(workspace.path()).await;
    assert_eq!(found(&store, "quagga").await, Vec::<String>::new());
    // A letter that is deleted or changed before its turn came; and one that came since.
    let before = "DELETE FROM messages WHERE id = 'm9'; UPDATE messages SET text_body = 'a zebra' WHERE id = 'm8';
        INSERT INTO messages (id, thread_id, persona_id, direction, message_id, sender, subject, text_body, received_at, trust)
        SELECT 'new', thread_id, persona_id, direction, 'new', sender, '', 'an okapi', received_at, trust
        FROM messages WHERE id = 'm1'";
    db::raw_sql(before)
        .execute(&mut conn)
        .await
        .expect("changed");
    assert_eq!(found(&store, "okapi").await, ["new"]);
    let stopped = CancellationToken::new();
    stopped.cancel();
    store.clone().index_older_letters(stopped).await;
    assert_eq!(
        db::number(&mut conn, "SELECT count(*) FROM letter_words_docsize").await,
        1
    );
    store
        .clone()
        .index_older_letters(CancellationToken::new())
        .await;
    for (word, id) in [
        ("quagga", "m7"),
        ("zebra", "m8"),
        ("okapi", "new"),
        ("w250", "m250"),
        ("711AB", "m7"),
    ] {
        assert_eq!(found(&store, word).await, [id], "{word}");
    }
    assert_eq!(found(&store, "w9").await, Vec::<String>::new());
    let letters = i64::from(LETTERS);
    assert_eq!(
        db::number(&mut conn, "SELECT count(*) FROM letter_words_docsize").await,
        letters
    );
    let old = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'messages_fts%'";
    assert_eq!(db::number(&mut conn, old).await, 0);
    assert_eq!(
        db::number(&mut conn, "SELECT count(*) FROM letter_words_build").await,
        0
    );
    let open = "SELECT (SELECT count(*) FROM letter_parts_build) + (SELECT count(*) FROM letter_parts_pending)";
    assert_eq!(db::number(&mut conn, open).await, 0);
    // The words of the index are those of the letters, as FTS5 itself compares them.
    for check in [
        "INSERT INTO letter_words (letter_words, rank) VALUES ('integrity-check', 1)",
        "INSERT INTO letter_parts (letter_parts, rank) VALUES ('integrity-check', 1)",
    ] {
        db::query(check)
            .execute(&mut conn)
            .await
            .expect("the same words");
    }
}

/// Control: without the setting the bytes of the word stay in a segment that is not merged yet.
#[tokio::test]
async fn a_deleted_letter_leaves_no_word_in_the_index() {
    let workspace = tempfile::tempdir().expect("a folder");
    let mut conn = older_database(workspace.path()).await;
    let store = open(workspace.path()).await;
    store
        .clone()
        .index_older_letters(CancellationToken::new())
        .await;
    let held =
        "SELECT count(*) FROM letter_words_data WHERE instr(block, CAST('quagga' AS BLOB)) > 0";
    assert_eq!(db::number(&mut conn, held).await, 1);
    let delete = db::query("DELETE FROM messages WHERE id = 'm7'");
    delete.execute(&mut conn).await.expect("deleted");
    assert_eq!(db::number(&mut conn, held).await, 0);
}
