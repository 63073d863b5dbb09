//! C-9: after the owner erases, no byte of the text is in the file or its log, and records say that they were redacted.

use super::consolidation::tidying;
use super::scene::{MemoryScene, obedient, with_memory};
use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::app::{Workspace, proven_note};
use crate::approvals::scene::CONTACT;
use attache::replay::verify::Outcome;
use attache::store::{ErasedMemory, MemoryAct, MemoryFilter};
use serde_json::Value;
use std::path::Path;

/// Words that stand in no letter: what the model made of one.
pub const SECRET: &str = "Carol zymotically \"abhors\" marzipan quincunxes";

/// A letter from which the model concludes something in its own words.
pub fn concluded(text: &str) -> Value {
    let mut script = obedient();
    let rules = script["rules"].as_array_mut().expect("rules");
    rules.insert(
        0,
        serde_json::json!({ "when": { "turn": 0, "contains": "no sweets please" }, "call": [{ "tool": "remember", "args":
            { "text": text, "kind": "preference", "source_quote": "no sweets please" } }] }),
    );
    rules.insert(
        0,
        serde_json::json!({ "when": { "turn": 1, "contains": "no sweets please" }, "say": "I have noted it." }),
    );
    rules.insert(
        0,
        serde_json::json!({ "when": { "turn": 1, "after_tool": "recall" }, "say": "I know." }),
    );
    script
}

/// Whether bytes stand in the database file or in its log.
pub fn is_in_files(workspace: &Path, bytes: &[u8]) -> bool {
    let files = ["attache.db", "attache.db-wal"].map(|name| workspace.join("data").join(name));
    let mut contents = files.iter().filter_map(|file| std::fs::read(file).ok());
    contents.any(|content| content.windows(bytes.len()).any(|window| window == bytes))
}

#[tokio::test]
#[ignore = "second tier"]
async fn c9_no_byte_is_left_and_records_say_redacted() {
    if is_sqlite_only("bytes of the database's file are looked at") {
        return;
    }
    let scene = MemoryScene::with(&concluded(SECRET)).await;
    let app = &scene.scene.world.app;
    let first = scene
        .writes(CONTACT, "m1", "", "For tea: no sweets please, thank you.")
        .await;
    let shown = scene.writes(CONTACT, "m2", "", "What do you know?").await;
    let found = scene
        .writes(CONTACT, "m3", "", "And?\r\nrecall: marzipan quincunxes")
        .await;
    let other = scene
        .writes("Olga <olga@home.test>", "m4", "", "Nothing of Carol here.")
        .await;
    assert!(
        is_in_files(app.workspace.path(), b"zymotically"),
        "it stood there"
    );

    let store = &app.engine.store;
    let entries = scene.entries().await;
    let ids: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
    let erased: ErasedMemory = store.erase_memory(&ids, "uid 7").await.expect("erased");
    assert_eq!((erased.entries, erased.runs), (1, 3), "{erased:?}");
    assert!(erased.remains.is_empty(), "{erased:?}");
    assert!(
        store.rewrite_file().await.expect("a file"),
        "the file is held"
    );
    assert!(
        !is_in_files(app.workspace.path(), b"zymotically"),
        "it stands there still"
    );

    let entry = &scene.entries().await[0];
    assert!(entry.text.is_empty() && entry.erased_at.is_some());
    assert_eq!(entry.text_sha256, entries[0].text_sha256);
    for verified in app.workspace.verified().await {
        let is_redacted = matches!(verified.outcome, Outcome::Redacted { .. });
        let is_hers = [&first, &shown, &found].contains(&&verified.run);
        assert_eq!(is_redacted, is_hers, "{verified:#?}");
        assert!(
            is_hers || matches!(verified.outcome, Outcome::Identical { .. }),
            "{other} {verified:#?}"
        );
    }
    let next = scene.writes(CONTACT, "m5", "", "What do you know?").await;
    assert!(!scene.prompt(&next).await.contains("wrote on"));
    app.check().await;
}

/// By the command line, with another engine's database: entries of one correspondent, and none of others.
#[tokio::test]
async fn c9_forget_by_contact_takes_that_contact_alone() {
    let workspace = Workspace::new(&obedient()).talkative();
    with_memory(&workspace);
    let app = workspace.start().await;
    for (number, name) in ["bob", "dan"].into_iter().enumerate() {
        let what = format!("{name} collects stamps of islands");
        let body = format!("{what}\r\nremember: {what}\r\nquote: {what}");
        app.run_of(&proven_note(&format!("q{number}@guest.example"), "", &body))
            .await;
        app.drain().await;
    }
    let filter = MemoryFilter {
        limit: 10,
        ..MemoryFilter::default()
    };
    let all = app
        .engine
        .store
        .memory_entries(&filter)
        .await
        .expect("entries");
    assert!(!all.is_empty(), "nothing was remembered");
    let attache = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
        command.current_dir(app.workspace.path()).args(args);
        command.output().expect("attache")
    };
    let output = attache(&["memory", "forget", "--contact", "nobody@guest.example"]);
    assert!(!output.status.success());
    let output = attache(&["memory", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!(listed.as_array().map(Vec::len), Some(all.len()));
    assert_eq!(listed[0]["scope"], "contact");
    let short = &all[0].id[all[0].id.len() - 8..];
    let shown = attache(&["memory", "show", short]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(
        shown.contains("collects stamps") && shown.contains("rests on message"),
        "{shown}"
    );
    let rejected = attache(&["memory", "reject", short, "--reason", "not so"]);
    assert!(rejected.status.success(), "{rejected:?}");
    let exported = attache(&["memory", "export"]);
    let exported = String::from_utf8(exported.stdout).expect("text");
    let first: Value =
        serde_json::from_str(exported.lines().next().expect("a line")).expect("json");
    assert_eq!(first["status"], "rejected");
    let last = first["events"].as_array().and_then(|events| events.last());
    assert_eq!(last.expect("an event")["act"], "rejected");
    let restored = attache(&["memory", "restore", short]);
    assert!(restored.status.success(), "{restored:?}");
    let output = attache(&[
        "memory",
        "forget",
        "--contact",
        "bob@guest.example",
        "--yes",
        "--json",
    ]);
    let erased: Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!(erased["entries"], all.len(), "{output:?}");
    // The letters say the same and stay; the report says so.
    let remains = erased["remains"].to_string();
    assert!(remains.contains("\"messages\""), "{remains}");
}

/// C-2: what is in use rests on letters that say so, and goes with its letter, what derives from it included.
#[tokio::test]
#[ignore = "second tier"]
async fn c2_entries_go_with_the_letter_on_which_they_rest() {
    let scene = MemoryScene::with(&tidying()).await;
    let (tea, boat) = ("Carol drinks green tea.", "Carol keeps a boat in Kiel.");
    let both = "Carol drinks green tea and keeps a boat in Kiel.";
    scene.tells(CONTACT, "m1", tea).await;
    scene.tells(CONTACT, "m2", boat).await;
    scene.tidies(&format!("action: merge\ntext: {both}")).await;
    let merged = scene.entry(both).await.id;
    let approve = MemoryAct::Approve {
        for_everybody: false,
    };
    scene.act(&merged, approve).await.expect("approved");
    let app = &scene.scene.world.app;
    // Its checks say so of every entry and every source.
    app.check().await;
    let attache = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
        let output = command
            .current_dir(app.workspace.path())
            .args(args)
            .output();
        output.expect("attache")
    };
    let store = &app.engine.store;
    let of_tea = scene.entry(tea).await.id;
    let dossier = store.memory_dossier(&of_tea).await.expect("an entry");
    let letter = dossier.sources[0].message.to_string();
    let output = attache(&["memory", "forget", "--message", &letter, "--json"]);
    let erased: Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!(erased["entries"], 2, "{erased}");
    let left: Vec<String> = scene
        .entries()
        .await
        .into_iter()
        .filter(|entry| entry.erased_at.is_none())
        .map(|entry| entry.text)
        .collect();
    assert_eq!(left, [boat], "what derives from another letter stays");
    let output = attache(&["memory", "forget", "--message", &letter]);
    assert!(
        output.status.success(),
        "an erased one is found by its letter still"
    );
    let of_boat = scene.entry(boat).await.id;
    scene.act(&of_boat, MemoryAct::Restore).await.expect("back");
    assert!(scene.told("n1").await.contains(boat));

    let output = attache(&["memory", "forget", "--since", "2100-01-01"]);
    assert!(!output.status.success());
    let output = attache(&["memory", "forget", "--since", "2020-01-01", "--yes"]);
    assert!(output.status.success(), "{output:?}");
    assert!(
        scene
            .entries()
            .await
            .iter()
            .all(|entry| entry.text.is_empty())
    );
    app.check().await;
}

/// What stands in the declaration of a tool stands in every request; no run was told it.
#[tokio::test]
#[ignore = "second tier"]
async fn common_words_take_only_the_runs_that_were_told_them_by_the_entry() {
    const WORDS: &str = "it is over";
    let scene = MemoryScene::start().await;
    let app = &scene.scene.world.app;
    let first = scene.tells(CONTACT, "m1", "Carol keeps a boat.").await;
    let id = scene.entries().await[0].id.clone();
    let text = WORDS.to_owned();
    let edited = scene.act(&id, MemoryAct::Edit { text }).await;
    let told = scene.writes(CONTACT, "m2", "", "What do you know?").await;
    let other = scene
        .writes("Olga <olga@home.test>", "m3", "", "Nothing of Carol here.")
        .await;
    assert!(scene.prompt(&other).await.contains(WORDS), "in no request");
    let store = &app.engine.store;
    let ids = [edited.expect("edited")];
    let erased: ErasedMemory = store.erase_memory(&ids, "uid 7").await.expect("erased");
    assert_eq!((erased.entries, erased.runs), (2, 2), "{erased:?}");
    assert_eq!(app.redacted().await, sorted([first, told]));
    app.check().await;
}

/// Why an entry should be used no longer is no text of an entry: it goes from the record of the run that said it, and no other.
#[tokio::test]
async fn the_reason_of_a_proposal_is_looked_for_where_it_was_given() {
    const WHY: &str = "they belong together";
    let scene = MemoryScene::with(&tidying()).await;
    let app = &scene.scene.world.app;
    let first = scene.tells(CONTACT, "m1", "Carol keeps a boat.").await;
    let duty = scene.tidies("action: expire").await;
    let body = format!("Apples and pears, {WHY}.");
    let other = scene.writes("Olga <olga@home.test>", "m3", "", &body).await;
    let store = &app.engine.store;
    let entries = scene.entries().await;
    let ids: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
    assert!(entries.iter().any(|entry| entry.text == WHY), "{entries:?}");
    let erased: ErasedMemory = store.erase_memory(&ids, "uid 7").await.expect("erased");
    assert_eq!((erased.entries, erased.runs), (2, 2), "{erased:?}");
    assert!(scene.prompt(&other).await.contains(WHY));
    let sql = "SELECT group_concat(payload_json) FROM thread_tool_events WHERE run_id = $1";
    let payloads = app.row(sql, &duty).await[0].clone().expect("steps");
    assert!(
        !payloads.contains(WHY) && payloads.contains("redacted"),
        "{payloads}"
    );
    assert_eq!(app.redacted().await, sorted([first, duty]));
}

/// The file is as large as a limit on files does not allow a second time: the entry is gone, and the report says what is not done.
#[tokio::test]
#[ignore = "second tier"]
async fn a_full_disk_keeps_the_file_as_it_is_and_the_report_says_so() {
    if is_sqlite_only("a disk that its file fills") {
        return;
    }
    const LIMIT_BYTES: usize = 4 << 20;
    let workspace = Workspace::new(&obedient()).talkative();
    with_memory(&workspace);
    let app = workspace.start().await;
    let body =
        "Bob collects stamps.\r\nremember: Bob collects stamps.\r\nquote: Bob collects stamps.";
    app.run_of(&proven_note("q@guest.example", "", body)).await;
    app.drain().await;
    let mut rows = app.workspace.rows().await;
    let fill = format!(
        "INSERT INTO contents (sha256, bytes) VALUES ('filler', zeroblob({}))",
        3 * LIMIT_BYTES
    );
    for sql in [fill.as_str(), "PRAGMA wal_checkpoint(TRUNCATE)"] {
        let done = db::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut rows);
        done.await.expect("done");
    }
    drop(rows);
    let crate::app::TestApp { workspace, engine } = app;
    drop(engine);
    // A write beyond the limit fails, as on a full disk, and does not end the program.
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", LIMIT_BYTES / 512);
    let forget = |limit: &str| {
        let mut command = std::process::Command::new("sh");
        command.current_dir(workspace.path()).args([
            "-c",
            limit,
            "sh",
            env!("CARGO_BIN_EXE_attache"),
        ]);
        let output = command
            .args([
                "memory",
                "forget",
                "--contact",
                "bob@guest.example",
                "--json",
            ])
            .output();
        let output = output.expect("attache");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), report, output.stderr)
    };
    let full = loop {
        let full = forget(&limited);
        // An engine that was let go ends in its own time, and the file is not written anew beside one.
        match &full.1["not_rewritten"] {
            Value::Null if full.1["is_rewritten"] == false => crate::app::glance().await,
            _ => break full,
        }
    };
    assert_eq!(full.0, Some(75), "{full:?}");
    assert!(full.1["not_rewritten"].is_string(), "{full:?}");
    assert!(
        is_in_files(workspace.path(), b"Bob collects"),
        "no letter says so"
    );
    let again = forget("exec \"$@\"");
    assert_eq!(again.0, Some(0), "{again:?}");
    assert_eq!(again.1["is_rewritten"], true, "{again:?}");
    assert_eq!(again.1["entries"], 0, "{again:?}");
}

fn sorted(runs: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut runs: Vec<String> = runs.into_iter().collect();
    runs.sort();
    runs
}

impl crate::app::TestApp {
    /// Runs of which a verification says that they were redacted; all others are as they were.
    async fn redacted(&self) -> Vec<String> {
        let mut redacted = Vec::new();
        for verified in self.workspace.verified().await {
            match verified.outcome {
                Outcome::Redacted { .. } => redacted.push(verified.run),
                Outcome::Identical { .. } => {}
                _ => panic!("{verified:#?}"),
            }
        }
        sorted(redacted)
    }
}
