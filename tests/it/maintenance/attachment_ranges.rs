//! An attachment is a range of its letter, or has bytes of its own: whichever it is, what throws away one of the two leaves the other.

use super::erasure::stopped;
use super::gc::kind;
use super::workspace::{WITH_PICTURE, attache};
use crate::app::{PROVEN, TestApp, db};
use attache::domain::PersonaId;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::time::Duration;

/// What happens to a letter and its attachment, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    PruneLetter,
    PruneAttachment,
    Erase,
}
use Step::{Erase, PruneAttachment, PruneLetter};

/// Steps, and whether the letter and the attachment can be read after them.
const COMBINATIONS: &[(&[Step], bool, bool)] = &[
    (&[], true, true),
    (&[PruneAttachment], true, false),
    (&[PruneLetter], false, true),
    (&[PruneLetter, PruneAttachment], false, false),
    (&[PruneAttachment, PruneLetter], false, false),
    (&[Erase], false, false),
    (&[PruneLetter, Erase], false, false),
    (&[PruneAttachment, Erase], false, false),
];

async fn row(app: &TestApp, sql: &'static str) -> String {
    app.row(sql, "").await[0].clone().expect("a cell")
}

/// A letter with a file, answered and old.
async fn with_file(has_own_bytes: bool) -> TestApp {
    let app = TestApp::start(json!({ "rules": [{ "say": "Thank you." }] })).await;
    app.run_of(&format!("{PROVEN}{WITH_PICTURE}")).await;
    app.drain().await;
    let encoding = row(
        &app,
        "SELECT coalesce(encoding, '') FROM attachments WHERE $1 = $1",
    )
    .await;
    assert_eq!(encoding, "base64");
    if has_own_bytes {
        let own = "UPDATE attachments SET bytes = CAST('lake' AS BLOB), encoding = NULL, range_start = NULL, range_len = NULL";
        let mut rows = app.workspace.rows().await;
        db::raw_sql(own).execute(&mut rows).await.expect("a row");
    }
    app.workspace
        .clock
        .advance(Duration::from_secs(86_400 * 100));
    app
}

async fn take(app: &TestApp, step: Step) {
    let kind = kind(if step == PruneLetter {
        "letters"
    } else {
        "attachments"
    });
    let before = app.engine.store.clock().now();
    let pruned = app.engine.store.prune_kind(kind, before, false).await;
    assert_eq!(pruned.expect("pruned").rows, 1, "{step:?}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_attachment_stays_and_goes_as_it_would_with_bytes_of_its_own() {
    for has_own_bytes in [false, true] {
        for (steps, letter_is_there, file_is_there) in COMBINATIONS {
            let app = with_file(has_own_bytes).await;
            for step in steps.iter().filter(|step| **step != Erase) {
                take(&app, *step).await;
            }
            let id = row(&app, "SELECT id FROM attachments WHERE $1 = $1").await;
            let persona = PersonaId::parse("ada").expect("a persona");
            let read = app
                .engine
                .store
                .persona(&persona)
                .attachment_bytes(&id)
                .await;
            let read = read.expect("readable").expect("an attachment");
            if steps.contains(&Erase) {
                let workspace = stopped(app).await;
                let order = ["erase", "--contact", "bob@guest.example", "--yes"];
                let (code, said, failed) = attache(workspace.path(), &order).await;
                assert_eq!(code, 0, "{said}{failed}");
                let mut rows = workspace.rows().await;
                let left = "SELECT max(length(l.bytes)) + max(length(a.bytes)) + count(a.encoding) + max(length(a.filename))
                    FROM messages m JOIN raw_letters l ON l.id = m.raw_id JOIN attachments a ON a.message_id = m.id";
                let left: i64 = db::query_scalar(left)
                    .fetch_one(&mut rows)
                    .await
                    .expect("a number");
                assert_eq!(left, 0, "{steps:?}");
                continue;
            }
            let is = (if *file_is_there { "lake" } else { "" }).as_bytes();
            assert_eq!(read, is, "{steps:?}, own bytes: {has_own_bytes}");
            let letter = row(
                &app,
                "SELECT CAST(length(bytes) AS TEXT) FROM raw_letters WHERE $1 = $1",
            )
            .await;
            assert_eq!(letter != "0", *letter_is_there, "{steps:?}");
            app.check().await;
        }
    }
}

/// Before, a letter with a file was kept 1.8 times: as it came, and its file once more.
#[tokio::test]
async fn a_large_file_is_kept_once() {
    let app = TestApp::start(json!({ "rules": [{ "say": "Thank you." }] })).await;
    let mut state = 7_u32;
    let file: Vec<u8> = (0..1_000_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    let text = STANDARD.encode(&file);
    let lines: Vec<&str> = (0..text.len())
        .step_by(76)
        .map(|at| &text[at..text.len().min(at + 76)])
        .collect();
    let letter = format!(
        "{PROVEN}{}",
        WITH_PICTURE.replace("bGFrZQ==", &lines.join("\n"))
    );
    app.run_of(&letter).await;
    app.drain().await;
    let sql = "SELECT CAST(l.size_bytes AS TEXT), CAST(length(l.bytes) + length(a.bytes) AS TEXT), a.id
        FROM messages m JOIN raw_letters l ON l.id = m.raw_id JOIN attachments a ON a.message_id = m.id WHERE $1 = $1";
    let found = app.row(sql, "").await;
    let number = |at: usize| {
        found[at]
            .as_deref()
            .expect("a cell")
            .parse::<f64>()
            .expect("a number")
    };
    let kept = number(1) / number(0);
    println!("kept {kept:.2} of a letter of {} bytes", number(0));
    assert!(kept < 0.8, "{kept}");
    let persona = PersonaId::parse("ada").expect("a persona");
    let id = found[2].as_deref().expect("an id");
    let read = app
        .engine
        .store
        .persona(&persona)
        .attachment_bytes(id)
        .await;
    assert!(read.expect("readable").expect("an attachment") == file);
    app.check().await;
}
