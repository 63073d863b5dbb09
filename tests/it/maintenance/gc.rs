//! What is old goes, kind by kind, and nothing that is open, or that dedup, threading or a person's retry needs.

use super::workspace::{WITH_PICTURE, attache, lived};
use crate::app::db;
use crate::app::{PROVEN, TestApp, Workspace, note};
use crate::identity::world::World;
use attache::clock::Clock;
use attache::domain::{DeliveryId, Timestamp};
use attache::gateway::intake_contract::CopyOutcome;
use attache::store::gc::{KINDS, Pruned, PrunedKind};
use attache::store::{PowerCut, Store};
use serde_json::json;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

pub fn kind(name: &str) -> &'static PrunedKind {
    KINDS
        .iter()
        .find(|kind| kind.name == name)
        .unwrap_or_else(|| panic!("no kind {name}"))
}

async fn throw_all(store: &Store, before: Timestamp, dry: bool) -> Vec<(&'static str, Pruned)> {
    let mut thrown = Vec::new();
    for kind in KINDS {
        thrown.push((
            kind.name,
            store.prune_kind(kind, before, dry).await.expect("pruned"),
        ));
    }
    thrown
}

/// Rows and bytes of everything that may go.
async fn sizes(app: &TestApp) -> Vec<(String, i64, i64)> {
    let sql = "SELECT 'turns', count(*), sum(length(request_json) + coalesce(length(packed), 0)) FROM run_turns
        UNION ALL SELECT 'letters', count(*), sum(length(bytes)) FROM raw_letters
        UNION ALL SELECT 'attachments', count(*), sum(CASE WHEN encoding IS NOT NULL THEN size_bytes ELSE length(bytes) END) FROM attachments
        UNION ALL SELECT 'mails', count(*), sum(length(bytes)) FROM deliveries
        UNION ALL SELECT 'notices', count(*), 0 FROM notices
        UNION ALL SELECT 'decisions', count(*), 0 FROM audit_log
        UNION ALL SELECT 'counts', count(*), 0 FROM correspondence
        UNION ALL SELECT 'messages', count(*), sum(length(text_body)) FROM messages
        UNION ALL SELECT 'links', count(*), 0 FROM message_links
        UNION ALL SELECT 'steps', count(*), sum(length(payload_json)) FROM thread_tool_events
        UNION ALL SELECT 'books', count(*), sum(input_tokens) FROM usage_ledger";
    let rows = db::query(sql)
        .fetch_all(&mut app.workspace.rows().await)
        .await
        .expect("sizes");
    rows.iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect()
}

fn size(sizes: &[(String, i64, i64)], name: &str) -> (i64, i64) {
    sizes
        .iter()
        .find(|size| size.0 == name)
        .map(|size| (size.1, size.2))
        .expect("a table")
}

/// A house that lived a hundred days ago, and got a letter with an attachment just now that nobody has worked on.
pub async fn old() -> (TestApp, Timestamp) {
    let app = lived().await;
    app.workspace.clock.advance(DAY * 100);
    let young = WITH_PICTURE
        .replace("picture@", "young@")
        .replace("A picture", "Young");
    // Dated, because a relay's word about an old letter proves nothing, and memory is not for the unproven.
    app.run_of(&format!(
        "{PROVEN}Date: Sun, 28 Feb 2027 09:00:00 +0000\n{young}"
    ))
    .await;
    let before = app.engine.store.clock().now().minus(DAY * 90);
    (app, before)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_dry_run_changes_nothing_and_says_exactly_what_will_go() {
    let (app, before) = old().await;
    let was = sizes(&app).await;
    let said = throw_all(&app.engine.store, before, true).await;
    assert_eq!(sizes(&app).await, was);
    let gone = throw_all(&app.engine.store, before, false).await;
    assert_eq!(gone, said);
    for name in [
        "turns",
        "letters",
        "attachments",
        "mails",
        "decisions",
        "counts",
    ] {
        let thrown = gone
            .iter()
            .find(|(kind, _)| *kind == name)
            .expect("a kind")
            .1;
        assert!(thrown.rows > 0 && thrown.bytes > 0, "{name}: {thrown:?}");
    }
    let is = sizes(&app).await;
    for name in ["messages", "links", "steps", "books"] {
        assert_eq!(size(&is, name), size(&was, name), "{name}");
    }
    // The letter that waits kept its bytes, and is the only one.
    let left = size(&is, "letters").1;
    assert!(left > 0 && left < size(&was, "letters").1, "{left}");
    assert_eq!(size(&is, "attachments").1, 4);
    assert_eq!((size(&is, "turns").1, size(&is, "mails").1), (0, 0));
    let again = throw_all(&app.engine.store, before, false).await;
    assert!(
        again.iter().all(|(_, thrown)| *thrown == Pruned::default()),
        "{again:?}"
    );
    app.drain().await;
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_reply_to_a_letter_whose_bytes_have_gone_joins_its_thread() {
    let (app, before) = old().await;
    throw_all(&app.engine.store, before, false).await;
    let run = app
        .run_of(&note(
            "q9@guest.example",
            "In-Reply-To: <q1@guest.example>\n",
            "And now?",
        ))
        .await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let sql = "SELECT (SELECT thread_id FROM messages WHERE message_id = 'q1@guest.example'),
        (SELECT thread_id FROM runs WHERE id = $1)";
    let threads = app.row(sql, &run).await;
    assert_eq!(threads[0], threads[1]);
    assert!(
        app.prompts(&run).await[0]
            .to_string()
            .contains("When is breakfast?")
    );
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_failed_can_be_retried_and_mail_without_bytes_cannot() {
    let (app, before) = old().await;
    let fail = "UPDATE deliveries SET state = 'failed' WHERE seq = (SELECT min(seq) FROM deliveries);
        UPDATE delivery_recipients SET state = 'failed'
          WHERE delivery_id = (SELECT id FROM deliveries ORDER BY seq LIMIT 1);
        UPDATE runs SET state = 'failed', error_class = 'transient' WHERE seq = (SELECT min(seq) FROM runs)";
    db::raw_sql(fail)
        .execute(&mut app.workspace.rows().await)
        .await
        .expect("rows");
    throw_all(&app.engine.store, before, false).await;
    let kept = "SELECT length(bytes) > 0, (SELECT min(length(packed)) > 0 FROM run_turns
        WHERE run_id = (SELECT id FROM runs ORDER BY seq LIMIT 1)), id FROM deliveries WHERE seq >= $1 ORDER BY seq";
    let rows = db::query(kept)
        .bind(0)
        .fetch_all(&mut app.workspace.rows().await)
        .await
        .expect("rows");
    assert!(
        rows[0].get::<bool>(0) && rows[0].get::<bool>(1),
        "what failed has gone"
    );
    assert!(!rows[1].get::<bool>(0), "what was delivered is there");
    let (failed, gone) = (rows[0].get::<String>(2), rows[1].get::<String>(2));
    // It comes back after all: there is nothing to send once more.
    let bounce = "UPDATE deliveries SET state = 'failed' WHERE pruned_at IS NOT NULL;
        UPDATE delivery_recipients SET state = 'failed'";
    db::raw_sql(bounce)
        .execute(&mut app.workspace.rows().await)
        .await
        .expect("rows");
    app.engine
        .store
        .retry_delivery(&DeliveryId::new(failed))
        .await
        .expect("queued");
    let refusal = app
        .engine
        .store
        .retry_delivery(&DeliveryId::new(gone))
        .await
        .expect_err("nothing to send");
    assert!(refusal.to_string().contains("pruned"), "{refusal}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn thrown_away_midway_and_again_all_is_gone_and_the_audit_clean() {
    for commit in 1..=4 {
        let (app, before) = old().await;
        app.engine.store.cut_power(PowerCut::AfterCommit(commit));
        let mut cut = false;
        for kind in KINDS {
            cut |= app
                .engine
                .store
                .prune_kind(kind, before, false)
                .await
                .is_err();
        }
        assert!(cut, "the power did not go at commit {commit}");
        let app = app.restart().await;
        app.drain().await;
        app.check().await;
        throw_all(&app.engine.store, before, false).await;
        let left = throw_all(&app.engine.store, before, true).await;
        assert!(left.iter().all(|(_, thrown)| thrown.rows == 0), "{left:?}");
        app.check().await;
    }
}

#[tokio::test]
async fn only_the_kind_that_was_named_goes() {
    let (app, before) = old().await;
    let was = sizes(&app).await;
    app.engine
        .store
        .prune_kind(kind("mails"), before, false)
        .await
        .expect("pruned");
    let is = sizes(&app).await;
    assert_eq!(size(&is, "mails").1, 0);
    for name in [
        "turns",
        "letters",
        "attachments",
        "notices",
        "decisions",
        "counts",
    ] {
        assert_eq!(size(&is, name), size(&was, name), "{name}");
    }
}

#[tokio::test]
async fn replay_says_that_a_run_was_thrown_away() {
    let (app, before) = old().await;
    let run: String = db::query_scalar("SELECT id FROM runs ORDER BY seq LIMIT 1")
        .fetch_one(&mut app.workspace.rows().await)
        .await
        .expect("a run");
    let (code, _, stderr) = attache(app.workspace.path(), &["replay", "show", &run]).await;
    assert_eq!((code, stderr.contains("pruned")), (0, false), "{stderr}");
    app.engine
        .store
        .prune_kind(kind("turns"), before, false)
        .await
        .expect("pruned");
    let (code, _, stderr) = attache(app.workspace.path(), &["replay", "show", &run]).await;
    assert_eq!((code, stderr.contains("pruned")), (0, true), "{stderr}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn counts_a_bound_may_ask_for_stay_a_future_day_is_refused() {
    let (app, _) = old().await;
    app.receive(&crate::app::note("new@guest.example", "", "When?"))
        .await
        .expect("taken");
    app.drain().await;
    let now = app.workspace.clock.now();
    let counts = "SELECT count(*) FROM correspondence";
    let count = async || -> i64 {
        db::query_scalar(counts)
            .fetch_one(&mut app.workspace.rows().await)
            .await
            .expect("counts")
    };
    app.engine
        .store
        .prune_kind(kind("counts"), now, false)
        .await
        .expect("pruned");
    assert!(
        count().await > 0,
        "who was answered a moment ago is not to be forgotten"
    );
    let later = now.plus(std::time::Duration::from_secs(25 * 60 * 60));
    app.workspace.clock.set(later);
    app.engine
        .store
        .prune_kind(kind("counts"), later, false)
        .await
        .expect("pruned");
    assert_eq!(count().await, 0);
    let (code, _, stderr) = attache(
        app.workspace.path(),
        &["gc", "--older-than", "2099-01-01", "--dry-run"],
    )
    .await;
    assert_eq!(
        (code, stderr.contains("in the future")),
        (2, true),
        "{stderr}"
    );
}

#[tokio::test]
async fn the_command_counts_first_and_throws_away_then() {
    let (app, _) = old().await;
    let gc = ["gc", "--older-than", "2026-11-21T00:00:00Z", "--json"];
    let (code, dry, stderr) =
        attache(app.workspace.path(), &[&gc[..], &["--dry-run"]].concat()).await;
    assert_eq!(code, 0, "{stderr}");
    let (code, done, stderr) = attache(app.workspace.path(), &gc).await;
    assert_eq!(code, 0, "{stderr}");
    let (dry, done): (serde_json::Value, serde_json::Value) = (
        serde_json::from_str(&dry).expect("JSON"),
        serde_json::from_str(&done).expect("JSON"),
    );
    assert_eq!(dry["kinds"], done["kinds"]);
    assert!(dry["kinds"][0]["rows"].as_u64() > Some(0), "{dry}");
}

/// A letter with a file: its id, its sender, further header lines.
fn with_file(world: &World, id: &str, from: &str, more: &str) -> String {
    let header =
        format!("{more}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n");
    let eml = world.plain(from, id, &header);
    let (head, _) = eml.split_once("\r\n\r\n").expect("a header");
    format!(
        "{head}\r\n\r\n--B\r\nContent-Type: text/plain\r\n\r\nSee the lake, {id}.\r\n--B\r\nContent-Type: application/octet-stream\r\n\
         Content-Disposition: attachment; filename=lake.bin\r\nContent-Transfer-Encoding: base64\r\n\r\nbGFrZQ==\r\n--B--\r\n"
    )
}

#[tokio::test]
async fn unproven_letters_that_were_filed_keep_their_head_text_and_digest_alone() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] })).talkative();
    let world = World::in_workspace(workspace, json!({})).await;
    let app = &world.app;
    let list = "List-Id: <news.partner.test>\r\n";
    let carol = with_file(&world, "c1", "carol@partner.test", list);
    let unproven = with_file(&world, "u1", "bob@guest.test", "");
    // What is handed over, whether it is filed, and whether it loses its bytes.
    let old = [
        (unproven.clone(), true, true),
        (with_file(&world, "u2", "bob@guest.test", list), true, true),
        (with_file(&world, "u3", "bob@guest.test", ""), true, true),
        (world.signed("partner.test", &carol), true, false),
        // Allow-listed, so it is answered, though it proves nothing.
        (with_file(&world, "r1", "bob@strict.test", ""), false, false),
    ];
    let mut letters = Vec::new();
    let mut hand_over = async |eml: &str, is_filed: bool, goes: bool| {
        let taken = world.hand_over(eml, None).await.expect("taken");
        let copy = &taken.copies[0];
        let filed = matches!(copy.outcome, CopyOutcome::Filed(_));
        assert_eq!(filed, is_filed, "{:?}: {eml}", copy.outcome);
        letters.push((copy.message.to_string(), goes));
    };
    for (eml, is_filed, goes) in &old {
        hand_over(eml, *is_filed, *goes).await;
    }
    app.drain().await;
    app.workspace.clock.advance(DAY * 3);
    let young = with_file(&world, "y1", "bob@guest.test", "");
    hand_over(&young, true, false).await;
    let before = app.engine.store.clock().now().minus(DAY * 2);
    // A letter of an archive proves nothing either, and is what somebody wanted to have.
    let archived = with_file(&world, "i1", "bob@guest.test", "");
    let archived = archived.replacen(
        "Subject:",
        "Date: Mon, 4 Mar 2019 10:00:00 +0000\r\nSubject:",
        1,
    );
    app.workspace.write(
        "old.mbox",
        &format!(
            "From bob@guest.test Mon Mar  4 10:00:00 2019\n{}",
            archived.replace("\r\n", "\n")
        ),
    );
    let (code, said, failed) = attache(
        app.workspace.path(),
        &["import", "--persona", "ada", "old.mbox"],
    )
    .await;
    assert_eq!(code, 0, "{said}{failed}");
    let imported = "SELECT id FROM messages WHERE disposition = 'filed:import' AND message_id = $1";
    let imported = app.row(imported, "i1@x.test").await[0].clone();
    letters.push((imported.expect("an imported letter"), false));
    // Of one, the bytes went before, by an age of their own; its file goes now.
    let bytes =
        "UPDATE raw_letters SET bytes = CAST('' AS BLOB), pruned_at = '2026-11-20T09:00:00.000Z'
        WHERE id = (SELECT raw_id FROM messages WHERE message_id = 'u3@x.test')";
    let mut rows = app.workspace.rows().await;
    db::raw_sql(bytes).execute(&mut rows).await.expect("a row");
    drop(rows);
    let store = &app.engine.store;
    let pruned = async |dry: bool| store.prune_kind(kind("unproven"), before, dry).await;
    let said = pruned(true).await.expect("counted");
    assert_eq!(said.rows, 5, "{said:?}");
    assert_eq!(pruned(false).await.expect("pruned"), said);
    assert_eq!(pruned(false).await.expect("pruned"), Pruned::default());
    let sql = "SELECT CAST(length(l.bytes) AS TEXT), CAST(CASE WHEN a.encoding IS NOT NULL THEN a.size_bytes ELSE length(a.bytes) END AS TEXT), l.sha256, a.sha256, m.text_body, m.subject
        FROM messages m JOIN raw_letters l ON l.id = m.raw_id JOIN attachments a ON a.message_id = m.id WHERE m.id = $1";
    for (message, goes) in &letters {
        let row = app.row(sql, message).await;
        let row: Vec<&str> = row
            .iter()
            .map(|cell| cell.as_deref().expect("a cell"))
            .collect();
        assert_eq!((row[0] == "0", row[1] == "0"), (*goes, *goes), "{row:?}");
        assert_eq!((row[2].len(), row[3].len()), (64, 64), "{row:?}");
        assert!(
            row[4].contains("See the lake") && row[5] == "Breakfast",
            "{row:?}"
        );
    }
    let again = world.hand_over(&unproven, None).await.expect("taken");
    assert_eq!(again.copies[0].outcome, CopyOutcome::Duplicate);
    app.check().await;
}
