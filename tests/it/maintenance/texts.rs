//! What turns and forks leave behind goes with them, and nothing that another one still needs; a run whose turns have
//! gone is neither different nor identical.

use super::gc::{kind, old};
use super::workspace::attache;
use crate::app::db;
use crate::app::{NOTE_DATE, TestApp, Workspace, proven_note as note, turns};
use attache::domain::{Timestamp, sha256_hex};
use attache::replay::verify::{Outcome, Verified};
use serde_json::{Value, json};
use std::time::Duration;

/// The date of a letter that comes a hundred days after the others; an old one would prove nothing, and see no memory.
const IN_HUNDRED_DAYS: &str = "Sun, 28 Feb 2027 09:00:00 +0000";

async fn texts(app: &TestApp) -> Vec<String> {
    let mut rows = app.workspace.rows().await;
    let sql = rows.on(
        "SELECT CAST(bytes AS TEXT) FROM contents ORDER BY 1",
        "SELECT text_of(bytes) FROM contents ORDER BY 1",
    );
    db::query_scalar(sql)
        .fetch_all(&mut rows)
        .await
        .expect("texts")
}

fn has(texts: &[String], wanted: &str) -> bool {
    texts.iter().any(|text| text == wanted)
}

fn count(verified: &[Verified], is_it: fn(&Outcome) -> bool) -> usize {
    verified.iter().filter(|run| is_it(&run.outcome)).count()
}

/// Control: with `TEXTS_NAMED` giving nothing, the texts of the young run go too and it cannot be verified.
#[tokio::test]
#[ignore = "second tier"]
async fn texts_go_with_the_last_turn_naming_them_the_rest_verifies() {
    let (app, before) = old().await;
    app.workspace
        .write("personas/ada/active.md", "Bob likes the lake.");
    app.drain().await;
    let was = texts(&app).await;
    assert!(
        has(&was, "Nothing new.") && has(&was, "Bob likes the lake."),
        "{was:#?}"
    );
    let turns = kind("turns");
    let said = app
        .engine
        .store
        .prune_kind(turns, before, true)
        .await
        .expect("counted");
    assert_eq!(texts(&app).await, was);
    let gone = app
        .engine
        .store
        .prune_kind(turns, before, false)
        .await
        .expect("pruned");
    assert_eq!(gone, said);
    let is = texts(&app).await;
    assert!(
        !has(&is, "Nothing new.") && has(&is, "Bob likes the lake."),
        "{is:#?}"
    );
    // Told to both: the persona, the configuration and its files.
    assert!(
        has(&is, "Ada answers letters.") && is.iter().any(|text| text.contains("\"engine\":")),
        "{is:#?}"
    );
    let verified = app.workspace.verified().await;
    let pruned = count(&verified, |outcome| {
        matches!(outcome, Outcome::Pruned { .. })
    });
    let identical = count(&verified, |outcome| {
        matches!(outcome, Outcome::Identical { .. })
    });
    assert_eq!(
        (pruned, identical),
        (verified.len() - 1, 1),
        "{verified:#?}"
    );
    app.check().await;

    // A text that was there, and is again, is stored again.
    app.workspace
        .write("personas/ada/active.md", "Nothing new.");
    let now = note("q9@guest.example", "", "And now?").replace(NOTE_DATE, IN_HUNDRED_DAYS);
    app.run_of(&now).await;
    app.drain().await;
    assert!(has(&texts(&app).await, "Nothing new."));
    app.check().await;
}

/// An old run that was told "Nothing new.", and a young one whose letter has that text's digest for a word, and other words
/// of 64 characters. With the instant between them, and the young run.
async fn with_words_like_digests() -> (TestApp, Timestamp, String) {
    let workspace =
        Workspace::new(&json!({ "rules": [{ "say": "From seven to ten." }] })).talkative();
    let steps = json!([
        "persona",
        "active-memory",
        "knowledge",
        "thread-history",
        "current-input"
    ]);
    workspace.set("configs/context.json", "/thread", steps);
    // Too much to be given whole, so that each letter is searched for.
    let rules = "# Rule\n\nKeep the door shut at night, and the light on.\n\n".repeat(300);
    workspace.write("personas/ada/knowledge/rules.md", &rules);
    let app = workspace.start().await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    app.workspace
        .clock
        .advance(Duration::from_secs(100 * 24 * 60 * 60));
    app.workspace
        .write("personas/ada/active.md", "Bob likes the lake.");
    let before = app.engine.store.clock().now();
    let told = sha256_hex(&[b"Nothing new."]);
    let body = format!(
        "The digests are {told} and {} and {}.",
        "ab12".repeat(16),
        "z".repeat(64)
    );
    let young = note("q2@guest.example", "", &body).replace(NOTE_DATE, IN_HUNDRED_DAYS);
    let young = app.run_of(&young).await;
    app.drain().await;
    let mut rows = app.workspace.rows().await;
    let turns = turns::of_run(&app.engine.store, &mut rows, &young).await;
    let note = turns[0].sources_json.as_deref().expect("a note");
    assert!(
        note.contains(&told) && note.contains(&"z".repeat(64)),
        "the words were searched for: {note}"
    );
    (app, before, young)
}

#[tokio::test]
async fn a_word_like_a_digest_in_a_letter_names_no_text_for_the_audit() {
    let (app, before, _) = with_words_like_digests().await;
    app.check().await;
    assert!(has(&texts(&app).await, "Nothing new."));
    app.engine
        .store
        .prune_kind(kind("turns"), before, false)
        .await
        .expect("pruned");
    let is = texts(&app).await;
    assert!(
        !has(&is, "Nothing new.") && has(&is, "Bob likes the lake."),
        "{is:#?}"
    );
    app.check().await;
}

#[tokio::test]
async fn a_word_in_a_letter_that_is_a_digest_exports_no_text() {
    let (app, _, young) = with_words_like_digests().await;
    let (code, said, stderr) = attache(
        app.workspace.path(),
        &["replay", "export", &young, "young.jsonl"],
    )
    .await;
    assert_eq!(code, 0, "{said}{stderr}");
    let file = std::fs::read_to_string(app.workspace.path().join("young.jsonl")).expect("a file");
    let is_text = |line: &&str| line.starts_with("{\"text\":");
    let exported: Vec<&str> = file.lines().filter(is_text).collect();
    let says = |digest: &str| exported.iter().any(|line| line.contains(digest));
    assert!(
        says(&sha256_hex(&[b"Bob likes the lake."])),
        "{exported:#?}"
    );
    assert!(!says(&sha256_hex(&[b"Nothing new."])), "{exported:#?}");
}

#[tokio::test]
async fn what_a_run_that_failed_was_told_stays() {
    let (app, before) = old().await;
    let fail = "UPDATE runs SET state = 'failed', error_class = 'transient' WHERE seq = (SELECT min(seq) FROM runs)";
    db::raw_sql(fail)
        .execute(&mut app.workspace.rows().await)
        .await
        .expect("a row");
    app.workspace
        .write("personas/ada/active.md", "Bob likes the lake.");
    app.engine
        .store
        .prune_kind(kind("turns"), before, false)
        .await
        .expect("pruned");
    assert!(has(&texts(&app).await, "Nothing new."));
}

#[tokio::test]
async fn verify_counts_what_was_thrown_away_apart_and_does_not_fail() {
    let (app, before) = old().await;
    app.drain().await;
    app.engine
        .store
        .prune_kind(kind("turns"), before, false)
        .await
        .expect("pruned");
    let verify = ["replay", "verify", "--all", "--strict", "--json"];
    let (code, said, stderr) = attache(app.workspace.path(), &verify).await;
    assert_eq!(code, 0, "{said}{stderr}");
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let number = |name: &str| said[name].as_u64().expect("a number");
    assert_eq!(
        (
            number("identical"),
            number("different"),
            number("not_verifiable")
        ),
        (1, 0, 0),
        "{said}"
    );
    assert_eq!(number("pruned"), number("runs") - 1, "{said}");
}

async fn fork(app: &TestApp, run: &str) -> String {
    let (code, said, stderr) = attache(
        app.workspace.path(),
        &["replay", "fork", run, "--at-turn", "0", "--json"],
    )
    .await;
    assert_eq!(code, 0, "{said}{stderr}");
    let said: Value = serde_json::from_str(&said).expect("JSON");
    said["fork"]["run"]["id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

async fn gc_of_forks(app: &TestApp, age: &str, more: &[&str]) -> (u64, u64) {
    let gc = [
        &["gc", "--kind", "forks", "--json", "--older-than", age],
        more,
    ]
    .concat();
    let (code, said, stderr) = attache(app.workspace.path(), &gc).await;
    assert_eq!(code, 0, "{said}{stderr}");
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let number = |name: &str| said["kinds"][0][name].as_u64().expect("a number");
    (number("rows"), number("bytes"))
}

#[tokio::test]
#[ignore = "second tier"]
async fn old_forks_lose_record_and_folder_and_keep_their_number() {
    let (app, _) = old().await;
    app.drain().await;
    let sql = "SELECT id FROM runs ORDER BY seq LIMIT 1";
    let run: String = db::query_scalar(sql)
        .fetch_one(&mut app.workspace.rows().await)
        .await
        .expect("a run");
    let id = fork(&app, &run).await;
    let folder = app.workspace.path().join("data/forks").join(&id);
    let stray = app.workspace.path().join("data/forks/nobodys");
    std::fs::create_dir_all(stray.join("persona")).expect("a folder");
    assert!(folder.join("persona/active.md").exists());
    // The control: what is younger stays.
    assert_eq!(gc_of_forks(&app, "2020-01-01T00:00:00Z", &[]).await, (0, 0));
    let far = "0s";
    let (rows, bytes) = gc_of_forks(&app, far, &["--dry-run"]).await;
    assert!(folder.exists() && stray.exists() && rows == 1 && bytes > 0);
    let (code, ..) = attache(app.workspace.path(), &["replay", "show", &id]).await;
    assert_eq!(code, 0);
    assert_eq!(gc_of_forks(&app, far, &[]).await, (rows, bytes));
    assert!(!folder.exists() && !stray.exists());
    let (code, said, stderr) = attache(app.workspace.path(), &["replay", "show", &id]).await;
    assert!(
        code > 0 && code != 101 && stderr.contains("pruned"),
        "{code} {said}{stderr}"
    );
    assert_eq!(gc_of_forks(&app, far, &[]).await, (0, 0));
    // The next one has a number of its own in the books.
    let next = fork(&app, &run).await;
    let rows = "SELECT count(*), count(DISTINCT rowid) FROM forks";
    let rows = db::query(rows)
        .fetch_one(&mut app.workspace.rows().await)
        .await
        .expect("counts");
    assert_eq!((rows.get::<i64>(0), rows.get::<i64>(1)), (2, 2));
    assert!(app.workspace.path().join("data/forks").join(next).exists());
    app.check().await;
}
