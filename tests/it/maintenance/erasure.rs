//! What a person wrote goes: no byte of it is left in any file, what others wrote is as it was, and a signed report says so.

use super::workspace::attache;
use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::app::rows::unpacked;
use crate::app::{TestApp, Workspace, proven, proven_note as note};
use attache::domain::PersonaId;
use attache::replay::verify::Outcome;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Points that these tests come to, in place of a workload of the sweep.
pub const POINTS: &[&str] = &["E1", "E2", "E3"];

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;
pub const CAROL: &str = "carol@partner.test";
pub const BOAT: &str = "The yellow boat leaves at seven from the northern pier on Sunday.";
pub const VIOLIN: &str = "My sister keeps her violin in the cellar of the old mill.";
/// Pieces of what Carol wrote; the last is the beginning of her attachment as it travels.
const HERS: [&str; 5] = [
    "northern pier",
    "violin in the cellar",
    "lanterns of the regatta",
    "choir that nobody",
    "QSBjaG9pciB0aGF0IG5vYm9ke",
];

fn script() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0, "contains": "yellow boat" }, "call": [{ "tool": "update_memory",
            "args": { "append": format!("Carol says: {BOAT}") } }] },
        { "when": { "contains": "yellow boat" }, "say": format!("You wrote: {BOAT}") },
        { "say": "From seven to ten." },
    ] })
}

pub fn carol(id: &str, more: &str, subject: &str, body: &str) -> String {
    let header = format!("{}{more}", proven("partner.test"));
    format!(
        "From: Carol <{CAROL}>\nTo: ada@engine.test\nSubject: {subject}\nMessage-ID: <{id}@partner.test>\n\
         Date: Fri, 20 Nov 2026 08:59:00 +0000\n{header}\n{body}\n"
    )
}

fn with_attachment() -> String {
    let more = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n";
    let body = format!(
        "--B\nContent-Type: text/plain\n\n{BOAT}\n--B\nContent-Type: text/plain\n\
         Content-Disposition: attachment; filename=choir.txt\nContent-Transfer-Encoding: base64\n\n\
         QSBjaG9pciB0aGF0IG5vYm9keSBldmVyIGhlYXJkIG9mIGJlZm9yZSBzaW5ncw==\n--B--"
    );
    carol(
        "c1",
        more,
        "All lanterns of the regatta are lit tonight",
        &body,
    )
}

/// Bob alone, then Carol alone, then both in one thread, in which Bob quotes her.
pub async fn lived() -> TestApp {
    let workspace = Workspace::new(&script()).talkative();
    // The model's words stand in this file; so nobody finds Carol's there.
    let escaped = script().to_string().replace('e', "\\u0065");
    workspace.write("configs/script.json", &escaped);
    workspace.write(
        "personas/ada/workspace/notes.txt",
        &format!("Tea at four.\n{VIOLIN}\nScones at five.\n"),
    );
    let app = workspace.start().await;
    app.run_of(&note("b1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    app.run_of(&with_attachment()).await;
    app.drain().await;
    let both = format!("Cc: {CAROL}\n");
    app.run_of(&note(
        "s1@guest.example",
        &both,
        "Shall the three of us meet?",
    ))
    .await;
    app.drain().await;
    let reply =
        "Cc: bob@guest.example\nIn-Reply-To: <s1@guest.example>\nReferences: <s1@guest.example>\n";
    app.run_of(&carol("s2", reply, "Re: Breakfast", VIOLIN))
        .await;
    app.drain().await;
    let quoting =
        format!("> {VIOLIN}\n\nThe key hangs at the door of the house, as it always did.");
    let answer = format!(
        "{both}In-Reply-To: <s2@partner.test>\nReferences: <s1@guest.example> <s2@partner.test>\n"
    );
    app.run_of(&note("s3@guest.example", &answer, &quoting))
        .await;
    app.drain().await;
    app.check().await;
    app
}

/// Writes letters, mails and attachments as they were before they were packed, so that words can be looked for in the file.
async fn plain(app: &TestApp) {
    let mut rows = app.workspace.rows().await;
    let persona = PersonaId::parse("ada").expect("a persona");
    let store = app.engine.store.persona(&persona);
    let ids = db::query_scalar::<String>("SELECT id FROM attachments").fetch_all(&mut rows);
    for id in ids.await.expect("attachments") {
        let bytes = store.attachment_bytes(&id).await.expect("read");
        let own = "UPDATE attachments SET bytes = $2, encoding = NULL, range_start = NULL, range_len = NULL WHERE id = $1";
        let own = db::query(own).bind(id).bind(bytes.expect("a file"));
        own.execute(&mut rows).await.expect("a row");
    }
    for (read, write) in [
        (
            "SELECT id, bytes FROM raw_letters",
            "UPDATE raw_letters SET bytes = $2 WHERE id = $1",
        ),
        (
            "SELECT id, bytes FROM deliveries",
            "UPDATE deliveries SET bytes = $2 WHERE id = $1",
        ),
    ] {
        for row in db::query(read).fetch_all(&mut rows).await.expect("rows") {
            let (id, bytes): (&str, &[u8]) = (row.get(0), row.get(1));
            let row = db::query(write).bind(id).bind(unpacked(bytes));
            row.execute(&mut rows).await.expect("a row");
        }
    }
}

pub async fn stopped(app: TestApp) -> Workspace {
    let TestApp { workspace, engine } = app;
    engine.store.clone().close().await;
    drop(engine);
    workspace
}

pub fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path().is_dir() {
            true => files(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}

/// Files of a workspace with the pieces of Carol's words in them, whatever they are.
fn holding(workspace: &Workspace) -> Vec<String> {
    let (mut all, mut holding) = (Vec::new(), Vec::new());
    files(workspace.path(), &mut all);
    for file in all {
        // SQLite removes its files when the last connection of an engine that was stopped is closed.
        let bytes = match std::fs::read(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            bytes => bytes.expect("a file"),
        };
        for piece in HERS {
            if bytes
                .windows(piece.len())
                .any(|window| window == piece.as_bytes())
            {
                holding.push(format!("{}: {piece}", file.display()));
            }
        }
    }
    holding
}

/// The rows of Bob's own thread, whole.
pub async fn bobs_thread(workspace: &Workspace) -> Vec<String> {
    let mut rows = workspace.rows().await;
    let thread = "(SELECT thread_id FROM messages WHERE message_id = 'b1@guest.example')";
    let sources = [
        format!(
            "SELECT json_array(id, sender, subject, text_body, fresh_text, metadata_json, readers_json) FROM messages WHERE thread_id = {thread} ORDER BY seq"
        ),
        format!(
            "SELECT json_array(t.run_id, t.request_sha256, hex(t.packed), t.request_json, t.response_json, t.pruned_at) FROM run_turns t JOIN runs r ON r.id = t.run_id WHERE r.thread_id = {thread} ORDER BY 1"
        ),
        format!(
            "SELECT json_array(id, payload_json) FROM thread_tool_events WHERE thread_id = {thread} ORDER BY step_index"
        ),
        format!(
            "SELECT json_array(d.id, hex(d.bytes)) FROM deliveries d JOIN messages m ON m.id = d.message_id WHERE m.thread_id = {thread} ORDER BY 1"
        ),
    ];
    let mut found = Vec::new();
    for sql in sources {
        let texts = db::query_scalar::<String>(sqlx::AssertSqlSafe(sql)).fetch_all(&mut rows);
        found.extend(texts.await.expect("rows"));
    }
    found
}

pub async fn erase(workspace: &Workspace, more: &[&str]) -> Value {
    let args = [&["erase", "--contact", CAROL, "--yes", "--json"], more].concat();
    let (code, stdout, stderr) = attache(workspace.path(), &args).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    serde_json::from_str(&stdout).expect("a report")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn no_byte_of_what_a_person_wrote_is_left_and_other_threads_are_as_they_were() {
    if is_sqlite_only("bytes of its file") {
        return;
    }
    let app = lived().await;
    plain(&app).await;
    let workspace = stopped(app).await;
    let before = bobs_thread(&workspace).await;
    assert!(before.len() >= 4, "{before:#?}");
    // The control: the search finds what is there.
    let there = holding(&workspace).join("\n");
    for piece in HERS {
        assert!(
            there.contains(piece),
            "{piece} was not there before:\n{there}"
        );
    }
    let report = erase(&workspace, &["--quotes"]).await;
    assert_eq!(holding(&workspace), [] as [String; 0]);
    assert_eq!(report["remains"], json!({}), "{report}");
    assert_eq!(report["is_rewritten"], true);
    assert_eq!(bobs_thread(&workspace).await, before);
    let notes = std::fs::read_to_string(workspace.path().join("personas/ada/workspace/notes.txt"));
    assert_eq!(notes.expect("notes"), "Tea at four.\nScones at five.\n");
    let text = report.to_string();
    assert!(!text.contains(CAROL) && !text.contains("Carol"), "{text}");
    let app = workspace.start().await;
    let (mut erased, mut verified) = (0, 0);
    for run in app.workspace.verified().await {
        match run.outcome {
            Outcome::Redacted { .. } => erased += 1,
            Outcome::Identical { .. } => verified += 1,
            other => panic!("{}: {other:?}", run.run),
        }
    }
    assert!(erased >= 3 && verified >= 1, "{erased} {verified}");
    // Her thread is still one: she may write again.
    let again = "In-Reply-To: <c1@partner.test>\nReferences: <c1@partner.test>\n";
    let run = app
        .run_of(&carol("c9", again, "Hello", "Are you there?"))
        .await;
    app.drain().await;
    let threads = "SELECT CAST((SELECT thread_id FROM messages WHERE message_id = 'c1@partner.test') = thread_id AS TEXT)
        FROM runs WHERE id = $1";
    assert_eq!(app.row(threads, &run).await, [Some("1".to_owned())]);
    app.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn what_others_quote_is_listed_and_stays_unless_it_is_asked_for() {
    if is_sqlite_only("a copy of its file") {
        return;
    }
    let workspace = stopped(lived().await).await;
    let dry = ["erase", "--contact", CAROL, "--json"];
    let (code, stdout, stderr) = attache(workspace.path(), &dry).await;
    assert_eq!(code, 0, "{stderr}");
    let forecast: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(forecast["dry_run"], true);
    assert!(
        !holding(&workspace).is_empty(),
        "a dry run changed something"
    );
    let report = erase(&workspace, &[]).await;
    assert_eq!(report["quoting"], forecast["quoting"]);
    let quoting = report["quoting"].as_array().expect("ids");
    assert!(!quoting.is_empty(), "{report}");
    let mut rows = workspace.rows().await;
    let bobs = "SELECT text_body FROM messages WHERE message_id = 's3@guest.example'";
    let text: String = db::query_scalar(bobs)
        .fetch_one(&mut rows)
        .await
        .expect("a letter");
    assert!(
        text.contains("The key hangs") && text.contains("violin"),
        "{text}"
    );
    let left = holding(&workspace).join("\n");
    assert!(
        !left.contains("northern pier") && !left.contains("choir that nobody"),
        "{left}"
    );
    let (code, stdout, stderr) = attache(workspace.path(), &["doctor", "--audit"]).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn all_addresses_of_a_person_are_followed() {
    let app = lived().await;
    let store = &app.engine.store;
    let added = store
        .add_contact_alias(CAROL, "carol@home.test", "olga")
        .await;
    added.expect("an alias");
    let workspace = stopped(app).await;
    let args = [
        "erase",
        "--contact",
        "Carol@Home.test",
        "--quotes",
        "--yes",
        "--json",
    ];
    let (code, stdout, stderr) = attache(workspace.path(), &args).await;
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert_eq!(holding(&workspace), [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_report_is_known_by_its_signature_and_by_no_other_workspace() {
    let workspace = stopped(lived().await).await;
    let report = erase(&workspace, &["--quotes"]).await;
    let id = report["id"].as_str().expect("an id");
    let file = workspace.path().join(format!("data/erasures/{id}.json"));
    let path = file.to_string_lossy().into_owned();
    let verify = ["erase", "--verify", &path];
    assert_eq!(attache(workspace.path(), &verify).await.0, 0);
    let other = stopped(Workspace::new(&script()).start().await).await;
    assert_eq!(attache(other.path(), &verify).await.0, 65);
    let text = std::fs::read_to_string(&file).expect("a report");
    let changed = text.replace("\"is_rewritten\": true", "\"is_rewritten\": false");
    assert_ne!(changed, text);
    std::fs::write(&file, changed).expect("written");
    assert_eq!(attache(workspace.path(), &verify).await.0, 65);
    let again = ["erase", "--contact", "nobody@nowhere.test", "--yes"];
    assert_eq!(attache(workspace.path(), &again).await.0, 66);
}

/// Every place where an owner looks tells of an erasure that is not finished.
async fn is_told_of_half(workspace: &Workspace, point: &str) {
    for args in [
        &["doctor", "--quick"][..],
        &["status"],
        &["erase", "--contact", CAROL, "--dry-run"],
    ] {
        let (_, stdout, stderr) = attache(workspace.path(), args).await;
        assert!(
            format!("{stdout}{stderr}").contains("attache erase --resume"),
            "{point}: {args:?}: {stdout}{stderr}"
        );
    }
    let (_, status, _) = attache(workspace.path(), &["status", "--json"]).await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["records"]["interrupted_erasures"], 1, "{point}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn an_erasure_beside_an_engine_is_refused_and_one_that_died_is_finished() {
    let app = lived().await;
    let order = ["erase", "--contact", CAROL, "--quotes", "--yes"];
    let (code, _, stderr) = attache(app.workspace.path(), &order).await;
    assert_eq!(code, 78, "{stderr}");
    drop(app);
    for point in POINTS {
        let workspace = stopped(lived().await).await;
        let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
        command
            .current_dir(workspace.path())
            .args(order)
            .env_remove("ATTACHE_WORKSPACE")
            .env("ATTACHE_CRASH", format!("{point}:1"));
        let output = command.output().expect("the binary runs");
        assert_eq!(output.status.signal(), Some(SIGABRT), "{point}: {output:?}");
        is_told_of_half(&workspace, point).await;
        let resume = ["erase", "--resume", "--json"];
        let (code, stdout, stderr) = attache(workspace.path(), &resume).await;
        assert_eq!(code, 0, "{point}: {stdout}{stderr}");
        let report: Value = serde_json::from_str(&stdout).expect("a report");
        assert_eq!(report["was_interrupted"], true, "{point}");
        assert!(
            report["counts"]["message_texts"].as_u64() > Some(0),
            "{point}: {report}"
        );
        assert_eq!(holding(&workspace), [] as [String; 0], "{point}");
        let mut rows = workspace.rows().await;
        let open = "SELECT count(*) FROM erasures WHERE state <> 'done' OR addresses_json <> '[]'";
        let open: i64 = db::query_scalar(open)
            .fetch_one(&mut rows)
            .await
            .expect("a count");
        assert_eq!(open, 0, "{point}");
    }
}
