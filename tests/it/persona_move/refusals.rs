//! What refuses a move before anything is changed, and what a dry run says of it.

use super::cells::{Rows, ada, cell, count, lived, moved, other};
use crate::app::{Workspace, db};
use crate::replay::attache;
use attache::cli::name_catalog;
use attache::store::{OpenError, PersonaMoveError, PersonaMovePreview, Store, TransferError};
use serde_json::{Value, json};

async fn execute(workspace: &Workspace, sql: &'static str) {
    let mut rows = workspace.rows().await;
    rows.execute(sql).await.expect("a statement");
}

async fn refusals(from: &Workspace, to: &Workspace) -> Vec<String> {
    let places = (from.path(), to.path());
    let read = PersonaMovePreview::read(places, &ada(), &name_catalog()).await;
    read.expect("readable").refusals
}

/// Nothing has begun in either cell.
async fn nothing_begun(cells: [&Workspace; 2]) {
    for workspace in cells {
        let begun = "SELECT count(*) FROM persona_moves WHERE state = 'begun'";
        assert_eq!(count(workspace, begun).await, 0);
        let store = Store::open(workspace.path(), workspace.clock.clone()).await;
        store.expect("an engine starts").close().await;
    }
}

async fn pair() -> (Workspace, Workspace) {
    let from = lived(Rows::File).await.expect("a cell of a file");
    let to = other(Rows::File, "eva", &from).await;
    (from, to.expect("a cell of a file"))
}

#[tokio::test]
async fn a_persona_that_is_unknown_here_or_known_there_stays() {
    let (from, to) = pair().await;
    let target = to.path().to_str().expect("a path");
    let (code, _, stderr) = attache(from.path(), &["persona", "move", "zoe", "--to", target]);
    assert!(
        code == 66 && stderr.contains("no persona `zoe`"),
        "{stderr}"
    );
    for place in [from.path().to_str().expect("a path"), "nowhere"] {
        let (code, _, stderr) = attache(from.path(), &["persona", "move", "ada", "--to", place]);
        assert_eq!(code, 2, "{stderr}");
    }
    to.persona("ada", "Another Ada");
    let refused = moved(&from, &to).await.expect_err("a folder is there");
    assert!(
        matches!(refused, PersonaMoveError::Exists { .. }),
        "{refused:?}"
    );
    std::fs::remove_dir_all(to.path().join("personas/ada")).expect("gone");
    execute(&to, "INSERT INTO halts VALUES ('ada', 'a holiday', 'x')").await;
    let refused = moved(&from, &to).await.expect_err("rows are there");
    assert!(refused.to_string().contains("rows in `halts`"), "{refused}");
    assert_eq!(refusals(&from, &to).await.len(), 1);
    nothing_begun([&from, &to]).await;
    execute(&to, "DELETE FROM halts").await;
    assert_eq!(refusals(&from, &to).await, [] as [&str; 0]);
    moved(&from, &to).await.expect("the control");
}

#[tokio::test]
async fn the_configuration_of_the_target_must_take_the_persona() {
    let (from, to) = pair().await;
    let file = "personas/ada/persona.json";
    for (change, word) in [
        (
            json!({ "name": "Ada", "address": "eva" }),
            "eva@engine.test",
        ),
        (
            json!({ "name": "Ada", "address": "ada", "aliases": ["eva"] }),
            "eva@engine.test",
        ),
        (
            json!({ "name": "Ada", "address": "ada", "provider": "grok" }),
            "grok",
        ),
        (
            json!({ "name": "Ada", "address": "ada", "profile": "elsewhere" }),
            "elsewhere",
        ),
    ] {
        from.write_json(file, &change);
        let refused = moved(&from, &to).await.expect_err("a problem");
        assert!(
            matches!(refused, PersonaMoveError::Config { .. }),
            "{refused:?}"
        );
        assert!(refused.to_string().contains(word), "{refused}");
        let told = refusals(&from, &to).await;
        assert!(told.len() == 1 && told[0].contains(word), "{told:?}");
    }
    nothing_begun([&from, &to]).await;
    from.write_json(file, &json!({ "name": "Ada", "address": "ada" }));
    moved(&from, &to).await.expect("the control");
}

#[tokio::test]
async fn what_an_engine_has_left_in_hand_is_finished_first() {
    let (from, to) = pair().await;
    let changes = [
        (
            "UPDATE runs SET state = 'running' WHERE persona_id = 'ada' AND state = 'queued'",
            "UPDATE runs SET state = 'queued' WHERE state = 'running'",
        ),
        (
            "UPDATE deliveries SET state = 'committing' WHERE seq = (SELECT min(seq) FROM deliveries WHERE persona_id = 'ada')",
            "UPDATE deliveries SET state = 'done' WHERE state = 'committing'",
        ),
    ];
    for (change, back) in changes {
        execute(&from, change).await;
        let refused = moved(&from, &to).await.expect_err("in hand");
        assert!(
            matches!(refused, PersonaMoveError::InHand { .. }),
            "{refused:?}"
        );
        execute(&from, back).await;
    }
    let erasure = "INSERT INTO erasures (id, contact_sha256, addresses_json, with_quotes, state, started_by, started_at)
        VALUES ('e', 'x', '[]', 0, 'begun', 'olga', 'x')";
    execute(&from, erasure).await;
    let refused = moved(&from, &to).await.expect_err("an erasure");
    assert!(
        matches!(refused, PersonaMoveError::ErasureOpen),
        "{refused:?}"
    );
    execute(&from, "DELETE FROM erasures").await;
    nothing_begun([&from, &to]).await;
    moved(&from, &to).await.expect("the control");
}

#[tokio::test]
async fn an_engine_at_work_and_tables_of_another_version_refuse() {
    let (from, to) = pair().await;
    for workspace in [&from, &to] {
        let engine = Store::open(workspace.path(), workspace.clock.clone()).await;
        let engine = engine.expect("an engine");
        let refused = moved(&from, &to).await.expect_err("at work");
        let PersonaMoveError::Rows(TransferError::Open(refused)) = refused else {
            panic!("{refused:?}")
        };
        assert!(matches!(refused, OpenError::InUse { .. }), "{refused:?}");
        engine.close().await;
    }
    let older =
        "DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)";
    execute(&to, older).await;
    let refused = moved(&from, &to).await.expect_err("older");
    let PersonaMoveError::Rows(TransferError::Open(refused)) = refused else {
        panic!("{refused:?}")
    };
    assert!(matches!(refused, OpenError::Older(_)), "{refused:?}");
}

#[tokio::test]
async fn a_dry_run_counts_and_changes_nothing() {
    let from = lived(Rows::File).await.expect("a cell of a file");
    let to = cell(Rows::File, "eva").await.expect("a cell of a file");
    let target = to.path().to_str().expect("a path");
    let args = [
        "--json",
        "persona",
        "move",
        "ada",
        "--to",
        target,
        "--dry-run",
    ];
    let (code, stdout, stderr) = attache(from.path(), &args);
    assert_eq!(code, 0, "{stderr}");
    let told: Value = serde_json::from_str(&stdout).expect("one JSON value");
    let told = &told[0];
    assert_eq!(told["refusals"], json!([]));
    assert!(
        told["mails"].as_u64() > Some(10) && told["mail_bytes"].as_u64() > Some(1000),
        "{told}"
    );
    assert!(told["folder"]["files"].as_u64() > Some(3), "{told}");
    let of_table = |name: &str| {
        let tables = told["tables"].as_array().expect("tables").iter();
        let mut found = tables.filter(|count| count["table"] == name);
        found
            .next()
            .map_or(0, |count| count["rows"].as_u64().expect("a count"))
    };
    let runs = "SELECT count(*) FROM runs WHERE persona_id = 'ada'";
    assert_eq!(of_table("runs"), count(&from, runs).await.unsigned_abs());
    assert!(
        !to.path().join("data/attache.db").exists(),
        "no database was made"
    );
    assert!(from.path().join("personas/ada").is_dir());
    let (code, stdout, stderr) = attache(from.path(), &args[..6]);
    assert_eq!(code, 0, "{stderr}");
    let done: Value = serde_json::from_str(&stdout).expect("one JSON value");
    assert_eq!(done[0]["rows"], told["rows"]);
    assert_eq!(done[0]["folder"], told["folder"]);
    let mut rows = to.rows().await;
    let kept =
        db::query_scalar::<String>("SELECT counts_json FROM persona_moves WHERE direction = 'in'");
    let kept = kept.fetch_one(&mut rows).await.expect("a record");
    assert_eq!(
        serde_json::from_str::<Value>(&kept).expect("json"),
        done[0]["tables"]
    );
}
