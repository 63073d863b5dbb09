//! `attache import`: archives become history, once, in the order of time, and nobody is answered.

use crate::app::db;
use crate::app::{PROVEN, TestApp, Workspace, note};
use crate::corpora::corpus;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn command(workspace: &Path, archive: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .args(["--json", "import", "--persona", "ada"])
        .args(more)
        .arg(archive);
    command.env_clear().env("ATTACHE_WORKSPACE", workspace);
    command
}

/// Runs the command beside whatever engine is at work, and gives what it says.
fn import(workspace: &Workspace, archive: &Path, more: &[&str]) -> Value {
    let done = command(workspace.path(), archive, more)
        .output()
        .expect("the binary runs");
    assert!(
        matches!(done.status.code(), Some(0 | 65)),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    serde_json::from_slice(&done.stdout).expect("one JSON value")
}

fn counts(told: &Value) -> [u64; 4] {
    ["received", "own", "duplicates", "refused"].map(|key| told[key].as_u64().expect("a number"))
}

async fn number(workspace: &Workspace, sql: &'static str) -> i64 {
    db::query_scalar(sql)
        .fetch_one(&mut workspace.rows().await)
        .await
        .expect("a number")
}

/// A correspondence of Bob and Ada, newest letter first, as some programs write it.
fn correspondence() -> String {
    let letters = [
        (
            "ada@engine.test",
            "bob@guest.example",
            "a2",
            "b1",
            "Sun Nov  1 12:00:00 2026",
            "At half past nine, then.",
        ),
        (
            "bob@guest.example",
            "ada@engine.test",
            "b1",
            "a1",
            "Sun Nov  1 11:00:00 2026",
            "Seven is too early.",
        ),
        (
            "ada@engine.test",
            "bob@guest.example",
            "a1",
            "b0",
            "Sun Nov  1 10:00:00 2026",
            "From seven to ten.",
        ),
        (
            "bob@guest.example",
            "ada@engine.test",
            "b0",
            "",
            "Sun Nov  1 09:00:00 2026",
            "When is breakfast?",
        ),
    ];
    let mut mbox = String::new();
    for (from, to, id, parent, date, text) in letters {
        let parent = if parent.is_empty() {
            String::new()
        } else {
            format!("In-Reply-To: <{parent}@x.test>\n")
        };
        write!(
            mbox,
            "From {from} {date}\nFrom: {from}\nTo: {to}\nSubject: Breakfast\nMessage-ID: <{id}@x.test>\n{parent}\n{text}\n\n"
        )
        .expect("written");
    }
    mbox
}

#[tokio::test]
async fn a_correspondence_becomes_the_next_runs_history_in_time_order() {
    let app = TestApp::start(json!({ "rules": [{ "say": "Gladly." }] })).await;
    app.workspace.write("old.mbox", &correspondence());
    let archive = app.workspace.path().join("old.mbox");
    let told = import(&app.workspace, &archive, &[]);
    assert_eq!(
        (counts(&told), &told["imported"]),
        ([2, 2, 0, 0], &json!(4))
    );
    assert_eq!(
        counts(&import(&app.workspace, &archive, &[])),
        [0, 0, 4, 0],
        "the second time nothing is new"
    );
    assert_eq!(app.drain().await.runs, 0);
    assert_eq!(
        number(&app.workspace, "SELECT count(*) FROM deliveries").await,
        0
    );
    let run = app
        .run_of(&note(
            "b2@guest.example",
            "In-Reply-To: <a2@x.test>\n",
            "We shall be late.",
        ))
        .await;
    app.drain().await;
    let prompt = app.prompts(&run).await.remove(0).to_string();
    let words = [
        "When is breakfast?",
        "From seven to ten.",
        "Seven is too early.",
        "At half past nine",
        "We shall be late.",
    ];
    let places: Vec<_> = words.iter().map(|text| prompt.find(text)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?} in {prompt}"
    );
    let threads = number(&app.workspace, "SELECT count(*) FROM threads").await;
    assert_eq!(threads, 1);
    let sql = "SELECT group_concat(received_at, ' ') FROM (SELECT received_at FROM messages
        WHERE disposition = 'filed:import' AND direction = $1 ORDER BY seq) listed";
    let own = app.row(sql, "outbound").await[0].clone();
    assert_eq!(
        own.as_deref(),
        Some("2026-11-01T10:00:00.000Z 2026-11-01T12:00:00.000Z")
    );
    app.check().await;
}

#[tokio::test]
async fn what_came_by_mail_or_was_sent_is_a_duplicate_in_an_archive() {
    let app = TestApp::start(json!({ "rules": [{ "say": "Gladly." }] })).await;
    app.run_of(&note("live@guest.example", "", "Is there a room?"))
        .await;
    app.drain().await;
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(100 * 24 * 3600));
    let sent = std::fs::read_dir(app.workspace.path().join("data/outbox")).expect("a folder");
    let sent: Vec<PathBuf> = sent.map(|entry| entry.expect("an entry").path()).collect();
    let sent: Vec<_> = sent
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "eml"))
        .collect();
    app.workspace.write(
        "archive/a.eml",
        &note("live@guest.example", "X-Moved: yes\n", "Is there a room?"),
    );
    std::fs::copy(sent[0], app.workspace.path().join("archive/b.eml")).expect("copied");
    let told = import(&app.workspace, &app.workspace.path().join("archive"), &[]);
    assert_eq!(counts(&told), [0, 0, 2, 0], "{told}");
}

#[tokio::test]
async fn a_maildir_has_flags_and_times_and_its_owner_is_the_persona() {
    let workspace = Workspace::new(&json!([]));
    workspace.write("box/tmp/1700000000.x", "not delivered yet");
    workspace.write("box/new/1700000001.a.host", &note("m1@x.test", "", "one"));
    workspace.write(
        "box/cur/1700000002.b.host:2,RS",
        &note("m2@x.test", "", "two"),
    );
    workspace.write(
        "box/cur/1700000003.c.host:2,ST",
        &note("m3@x.test", "", "pruned"),
    );
    workspace.write(
        "box/cur/1700000004.d.host:2,D",
        &note("m4@x.test", "", "never sent"),
    );
    let own =
        note("m5@x.test", "", "by the clerk").replace("bob@guest.example", "clerk@engine.test");
    workspace.write(
        "box/cur/1700000005.e.host:2,S",
        &own.replace("To: ada@engine.test", "To: bob@guest.example"),
    );
    let archive = workspace.path().join("box");
    let told = import(
        &workspace,
        &archive,
        &["--mailbox-owner", "clerk@engine.test"],
    );
    assert_eq!(counts(&told), [2, 1, 0, 0], "{told}");
    assert_eq!(
        counts(&import(&workspace, &archive, &["--format", "maildir"])),
        [0, 0, 3, 0]
    );
    let sql = "SELECT count(*) FROM messages WHERE received_at IN
        ('2023-11-14T22:13:21.000Z', '2023-11-14T22:13:22.000Z', '2023-11-14T22:13:25.000Z')";
    assert_eq!(number(&workspace, sql).await, 3);
    let strangers = "SELECT count(*) FROM thread_participants WHERE address LIKE '%engine.test'";
    assert_eq!(number(&workspace, strangers).await, 0);
}

#[tokio::test]
async fn letters_not_storable_are_named_with_reasons_the_others_taken() {
    let workspace = Workspace::new(&json!([]));
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "letter_bytes_max": 2000 }),
    );
    workspace.write("mail/1.eml", &note("e1@x.test", "", "fine"));
    workspace.write("mail/2.eml", &note("e2@x.test", "", &"x".repeat(3000)));
    workspace.write("mail/deep/3.eml", "no letter at all");
    workspace.write("mail/deep/4.eml", &note("e4@x.test", "", "fine, too"));
    workspace.write("mail/notes.txt", "not a letter file");
    let told = import(&workspace, &workspace.path().join("mail"), &[]);
    assert_eq!(counts(&told), [2, 0, 0, 2], "{told}");
    assert_eq!(
        told["refused_because"],
        json!({ "larger than letters may be": 1, "not a letter": 1 })
    );
    assert!(
        told["refused_letters"][0]["letter"]
            .as_str()
            .expect("a path")
            .ends_with("mail/2.eml")
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_import_that_is_killed_is_finished_by_the_next() {
    const LETTERS: u64 = 1500;
    let workspace = Workspace::new(&json!([]));
    let mut mbox = String::new();
    for number in 0..LETTERS {
        let letter = note(
            &format!("k{number}@guest.example"),
            "",
            "The same every day.",
        );
        write!(
            mbox,
            "From bob@guest.example Fri Nov 20 09:00:00 2026\n{letter}\n"
        )
        .expect("written");
    }
    workspace.write("big.mbox", &mbox);
    let archive = workspace.path().join("big.mbox");
    let mut child = command(workspace.path(), &archive, &[])
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let stored = async || {
        if !workspace.path().join("data/attache.db").exists() {
            return None;
        }
        let mut rows = db::Connection::open(workspace.path()).await;
        db::query_scalar::<i64>("SELECT count(*) FROM messages")
            .fetch_one(&mut rows)
            .await
            .ok()
    };
    while stored().await.unwrap_or(0) == 0 && child.try_wait().expect("a child").is_none() {
        crate::app::glance().await;
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    let before = u64::try_from(stored().await.expect("readable")).expect("a number");
    assert!(
        before > 0 && before < LETTERS,
        "{before} letters were stored when it died"
    );
    let told = import(&workspace, &archive, &[]);
    assert_eq!(counts(&told), [LETTERS - before, 0, before, 0]);
    assert_eq!(
        number(&workspace, "SELECT count(*) FROM messages").await,
        i64::try_from(LETTERS).expect("few")
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn archives_of_the_field_are_imported_once() {
    let mut archives = Vec::new();
    for name in ["threads-imaptest", "threads-ponymail"] {
        let Some(folder) = corpus(name) else { return };
        collect(&folder, &mut archives);
    }
    archives.sort();
    assert!(archives.len() > 10, "{archives:?}");
    for archive in archives {
        let text = std::fs::read(&archive).expect("an mbox");
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let begins = |line: &[u8]| line.starts_with(b"From ");
        let separators = lines.iter().filter(|line| begins(line)).count() as u64;
        // One of them has no header at all.
        let bare = lines
            .windows(2)
            .filter(|pair| begins(pair[0]) && pair[1].is_empty())
            .count() as u64;
        let workspace = Workspace::new(&json!([]));
        let name = archive.display();
        let [new, own, twice, refused] = counts(&import(&workspace, &archive, &[]));
        // Some archives hold a letter twice.
        assert_eq!(
            (new + twice, own, refused),
            (separators - bare, 0, bare),
            "{name}"
        );
        assert!(new > 0 && twice <= new, "{name}: {new} new, {twice} twice");
        assert_eq!(
            counts(&import(&workspace, &archive, &[])),
            [0, 0, separators - bare, bare],
            "{name}"
        );
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "mbox")
        {
            found.push(path);
        }
    }
}

/// G1: two letters whose answers come with an archive before the persona has read them.
#[tokio::test]
async fn an_imported_answer_stands_in_no_history_before_its_letter() {
    let app = TestApp::start(json!({ "rules": [{ "say": "Noted." }] })).await;
    let letter = |n: usize| {
        let parent = match n {
            0 => String::new(),
            _ => format!("In-Reply-To: <z{}@guest.example>\n", n - 1),
        };
        let id = format!("z{n}@guest.example");
        note(&id, &format!("{PROVEN}{parent}"), &format!("K_LETTER{n}"))
    };
    let runs = [app.run_of(&letter(0)).await, app.run_of(&letter(1)).await];
    let mut mbox = String::new();
    for n in 0..2 {
        write!(
            mbox,
            "From ada@engine.test Fri Nov 20 08:59:0{n} 2026\nFrom: ada@engine.test\nTo: bob@guest.example\nSubject: Re: Breakfast\n\
             Message-ID: <a{n}@engine.test>\nIn-Reply-To: <z{n}@guest.example>\n\nK_ANSWER{n}\n\n"
        )
        .expect("written");
    }
    app.workspace.write("own.mbox", &mbox);
    let archive = app.workspace.path().join("own.mbox");
    assert_eq!(counts(&import(&app.workspace, &archive, &[])), [0, 2, 0, 0]);
    app.drain().await;
    for (n, run) in runs.iter().enumerate() {
        let read = app.prompts(run).await[0]["messages"].to_string();
        for later in n..2 {
            assert!(!read.contains(&format!("K_ANSWER{later}")), "{n}: {read}");
        }
        assert!(!read.contains("begins with a message of yours"), "{read}");
    }
    // A letter after the archive has the whole past, each answer behind its letter.
    let last = app.run_of(&letter(2)).await;
    app.drain().await;
    let read = app.prompts(&last).await[0]["messages"].to_string();
    for n in 0..2 {
        let places = ["K_LETTER", "K_ANSWER"].map(|word| read.find(&format!("{word}{n}")));
        let is_behind = places[0].is_some() && places[0] < places[1];
        assert!(is_behind, "{n}: {places:?} in {read}");
    }
    let threads = number(&app.workspace, "SELECT count(*) FROM threads").await;
    assert_eq!(threads, 1);
    app.check().await;
}
