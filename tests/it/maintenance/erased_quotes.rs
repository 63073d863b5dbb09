//! Words of a person go to other personas, too: a letter there that quotes them is listed and taken as one of the same persona.

use super::erasure::{BOAT, CAROL, carol, erase, stopped};
use super::workspace::attache;
use crate::app::db;
use crate::app::{Workspace, proven_note};
use serde_json::json;

/// Carol writes to Ada, and Bob quotes her to Bea, to whom she never wrote.
async fn quoted_elsewhere() -> Workspace {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Thank you." }] })).talkative();
    workspace.persona("bea", "Bea");
    let app = workspace.start().await;
    app.run_of(&carol("c1", "", "Boat", BOAT)).await;
    app.drain().await;
    let quoting = proven_note("b1@guest.example", "", &format!("Carol wrote:\n> {BOAT}"));
    app.run_of(&quoting.replace("ada@engine.test", "bea@engine.test"))
        .await;
    app.drain().await;
    app.check().await;
    stopped(app).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_letter_to_another_persona_that_quotes_is_listed_and_taken_when_it_is_asked_for() {
    let workspace = quoted_elsewhere().await;
    let mut rows = workspace.rows().await;
    let id = "SELECT id FROM messages WHERE message_id = 'b1@guest.example'";
    let id: String = db::query_scalar(id)
        .fetch_one(&mut rows)
        .await
        .expect("a letter");
    // A letter that nobody has read yet quotes, too.
    let held = "INSERT INTO held_letters (id, persona_id, sha256, envelope_json, bytes, held_at, next_attempt_at)
        VALUES ('held', 'bea', 'x', '{}', CAST($1 AS BLOB), '', '')";
    let letter = format!("From: dave@partner.test\r\nSubject: x\r\n\r\n> {BOAT}\r\n");
    let insert = db::query(held).bind(letter).execute(&mut rows);
    insert.await.expect("a held letter");
    drop(rows);
    let dry = ["erase", "--contact", CAROL];
    let (code, stdout, stderr) = attache(workspace.path(), &dry).await;
    assert_eq!(code, 0, "{stderr}");
    let line = format!("quotes and stays without --quotes: message {id} of bea\n");
    assert!(stdout.contains(&line), "{stdout}");
    let report = erase(&workspace, &[]).await;
    let quoting = report["quoting"].as_array().expect("a list");
    assert!(
        quoting.contains(&json!({ "id": id, "persona": "bea" })),
        "{report}"
    );
    assert_eq!(report["remains"]["messages.text_body"], 1, "{report}");
    let held = json!([{ "id": "held", "persona": "bea" }]);
    assert_eq!(report["quoting_held"], held, "{report}");

    let workspace = quoted_elsewhere().await;
    let report = erase(&workspace, &["--quotes"]).await;
    assert_eq!(report["quoting"], json!([]));
    assert_eq!(report["remains"], json!({}), "{report}");
    let mut rows = workspace.rows().await;
    let words = "SELECT subject || text_body FROM messages WHERE message_id = 'b1@guest.example'";
    let words: String = db::query_scalar(words)
        .fetch_one(&mut rows)
        .await
        .expect("a letter");
    assert_eq!(words, "");
}
