//! A person who was erased is erased: what has no words left is claimed by no second report.

use super::erasure::{CAROL, carol, erase, lived, stopped};
use super::workspace::attache;
use crate::app::db;
use crate::app::{START, Workspace};
use serde_json::{Value, json};

const RAIN: &str = "Fourteen umbrellas stand in the hall and none of them is mine.";

fn reports(workspace: &Workspace) -> usize {
    let folder = workspace.path().join("data/erasures");
    std::fs::read_dir(folder).expect("reports").count()
}

async fn is_nothing_left(workspace: &Workspace) {
    let before = reports(workspace);
    for how in ["--dry-run", "--yes"] {
        let args = ["erase", "--contact", CAROL, "--quotes", how];
        let (code, stdout, stderr) = attache(workspace.path(), &args).await;
        assert_eq!(code, 66, "{how}: {stdout}{stderr}");
        assert!(stderr.contains("nothing of this person is there"));
        assert!(stderr.contains("what was erased before has no words left"));
    }
    assert_eq!(reports(workspace), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn what_was_erased_is_not_claimed_again_and_a_new_letter_is() {
    let workspace = stopped(lived().await).await;
    let first = erase(&workspace, &["--quotes"]).await;
    assert!(first["counts"]["message_texts"].as_u64() > Some(1));
    is_nothing_left(&workspace).await;
    let app = workspace.start().await;
    let again = "In-Reply-To: <c1@partner.test>\nReferences: <c1@partner.test>\n";
    app.run_of(&carol("c9", again, "Rain", RAIN)).await;
    app.drain().await;
    let workspace = stopped(app).await;
    let senders = "SELECT group_concat(sender) FROM (SELECT sender FROM messages WHERE direction = 'inbound' ORDER BY seq) AS letters";
    let mut rows = workspace.rows().await;
    let before: String = db::query_scalar(senders)
        .fetch_one(&mut rows)
        .await
        .expect("senders");
    drop(rows);
    let dry = ["erase", "--contact", CAROL, "--quotes", "--json"];
    let (code, stdout, stderr) = attache(workspace.path(), &dry).await;
    assert_eq!(code, 0, "{stderr}");
    let forecast: Value = serde_json::from_str(&stdout).expect("JSON");
    // Her new letter and its answer, in the thread that was hers alone.
    assert_eq!(forecast["counts"]["letters_of_the_person"], 1, "{forecast}");
    assert_eq!(forecast["counts"]["messages"], 2, "{forecast}");
    assert_eq!(forecast["counts"]["whole_threads"], 1, "{forecast}");
    assert_eq!(forecast["counts"]["runs"], 1, "{forecast}");
    let second = erase(&workspace, &["--quotes"]).await;
    assert_eq!(second["counts"]["message_texts"], 2, "{second}");
    assert_eq!(second["remains"], json!({}), "{second}");
    let mut rows = workspace.rows().await;
    let after: String = db::query_scalar(senders)
        .fetch_one(&mut rows)
        .await
        .expect("senders");
    drop(rows);
    let bare = before.replace(&format!("Carol <{CAROL}>"), CAROL);
    assert_eq!(after, bare, "a tombstone lost its address");
    is_nothing_left(&workspace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_of_whom_there_is_but_a_held_letter_is_erased() {
    let app = Workspace::new(&json!({ "turns": [] })).start().await;
    let held = "INSERT INTO held_letters (id, persona_id, sha256, envelope_json, bytes, held_at, next_attempt_at)
        VALUES ($1, 'ada', $1, json_object('mail_from', $2), CAST($3 AS BLOB), $4, $4)";
    let mut rows = app.workspace.rows().await;
    // Another person's letter may name her, and her address may be the end of another.
    let hops = "Received: from a.test by b.test; Mon, 2 Jun 2025 10:00:00 +0000\r\n".repeat(51);
    for (id, hops, from, to) in [
        ("by its header", "", format!("Carol <{CAROL}>"), CAROL),
        ("after a long way", hops.as_str(), CAROL.to_owned(), CAROL),
        ("of another", "", format!("not.{CAROL}"), "ada@engine.test"),
        ("about her", "", "dave@partner.test".to_owned(), CAROL),
    ] {
        let letter =
            format!("{hops}From: {from}\r\nTo: {to}\r\nSubject: x\r\n\r\nAs she said.\r\n");
        let insert = db::query(held).bind(id).bind("bounces@relay.test");
        let insert = insert.bind(letter).bind(START);
        insert.execute(&mut rows).await.expect("a held letter");
    }
    // The file is written anew, which needs it alone.
    drop(rows);
    let workspace = stopped(app).await;
    let count = "SELECT count(*) FROM held_letters";
    for (contact, code_wanted, left) in [
        ("erin@partner.test", 66, 4_i64),
        (CAROL, 0, 2),
        (CAROL, 66, 2),
    ] {
        let args = ["erase", "--contact", contact, "--yes"];
        let (code, said, error) = attache(workspace.path(), &args).await;
        assert_eq!(code, code_wanted, "{contact}: {said}{error}");
        if code == 0 {
            let stays = "quotes or names and stays: held letter ";
            let named: Vec<&str> = said
                .lines()
                .filter_map(|line| line.strip_prefix(stays))
                .collect();
            assert_eq!(named, ["about her to ada"], "{said}");
        }
        let held: i64 = db::query_scalar(count)
            .fetch_one(&mut workspace.rows().await)
            .await
            .expect("a count");
        assert_eq!(held, left, "{contact}");
    }
}
