//! A persona comes over whole or not at all: what was left out comes with the next migration, and nothing is left unnamed.

use super::findings;
use super::fixture::{ProtegeFolder, tree};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;

fn has(report: &Value, kind: &str, wanted: &str) {
    let found = findings(report, kind);
    assert!(
        found.iter().any(|finding| finding.contains(wanted)),
        "`{wanted}` is missing in {found:#?}"
    );
}

/// Ids, addresses and aliases of the personas that came over.
fn addresses(report: &Value) -> Vec<Value> {
    let personas = report["personas"].as_array().expect("personas").iter();
    personas
        .map(|persona| json!([persona["id"], persona["address"], persona["aliases"]]))
        .collect()
}

/// Two personas, with these local parts and aliases.
async fn of_two(ada: (&str, &[&str]), eve: (&str, &[&str])) -> ProtegeFolder {
    let folder = ProtegeFolder::new().await;
    folder.second().await;
    for (id, (local, aliases)) in [("ada", ada), ("eve", eve)] {
        folder.write_json(
            &format!("personas/{id}/persona.json"),
            &json!({ "email_local_part": local, "aliases": aliases }),
        );
    }
    folder
}

#[tokio::test]
async fn a_main_address_wins_over_an_alias_and_shared_aliases_go_to_neither() {
    let folder = of_two(
        ("ada", &["desk", "pier"]),
        ("eve", &["ada", "desk", "quay"]),
    )
    .await;
    for _ in ["new", "again"] {
        let told = folder.migrate(&[]);
        assert_eq!(
            addresses(&told),
            [
                json!(["ada", "ada@harbour.test", ["pier@harbour.test"]]),
                json!(["eve", "eve@harbour.test", ["quay@harbour.test"]]),
            ]
        );
        has(
            &told,
            "broken",
            "personas/eve: its alias `ada@harbour.test` is an address of ada, which keeps it",
        );
        has(
            &told,
            "broken",
            "personas: the alias `desk@harbour.test` belongs to ada and to eve; neither got it",
        );
    }
}

#[tokio::test]
async fn where_no_persona_is_left_the_findings_are_shown_and_nothing_is_written() {
    let equal = of_two(("desk", &["ada"]), ("desk", &["eve"])).await;
    let empty = ProtegeFolder::new().await;
    std::fs::remove_dir_all(empty.path().join("personas/ada")).expect("removed");
    let misnamed = ProtegeFolder::new().await;
    let personas = misnamed.path().join("personas");
    std::fs::rename(personas.join("ada"), personas.join("A da")).expect("renamed");
    let cases = [
        (
            equal,
            "its main address `desk@harbour.test` belongs to eve too",
        ),
        (empty, "personas: no persona can be taken over"),
        (misnamed, "personas/A da: the folder's name is no id"),
    ];
    for (folder, wanted) in cases {
        for more in [&["--dry-run"][..], &[]] {
            let told = folder.migrate(more);
            has(&told, "broken", wanted);
            assert_eq!(
                (&told["personas"], &told["files"]),
                (&json!([]), &json!([]))
            );
            let done = folder.output(more);
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(
                done.status.code() == Some(65)
                    && said.contains(wanted)
                    && said.ends_with("nothing was written\n"),
                "{done:?}"
            );
            assert!(!folder.workspace().exists());
        }
    }
}

#[tokio::test]
async fn a_persona_that_cannot_be_read_comes_whole_once_it_is_mended() {
    let whole = ProtegeFolder::new().await;
    whole.second().await;
    whole.migrate(&[]);
    let ours = |folder: &ProtegeFolder| {
        let eve = folder.workspace().join("personas/eve");
        let files = tree(&eve).into_iter();
        files
            .map(|(path, bytes)| (path.strip_prefix(&eve).expect("below").to_owned(), bytes))
            .collect::<Vec<_>>()
    };
    let broken: [(&str, &[u8], &str); 4] = [
        (
            "PERSONA.md",
            b"# Eve\nF\xfchre\n",
            "PERSONA.md: line 2 is not UTF-8; the persona was not",
        ),
        ("PERSONA.md", b"", "PERSONA.md: cannot be read: "),
        (
            "persona.json",
            b"{\n",
            "persona.json: says no address; the persona was not taken over",
        ),
        (
            "persona.json",
            b"{\"email\": \"eve @\"}",
            "persona.json: `eve @` is no mail address",
        ),
    ];
    for (file, bytes, wanted) in broken {
        let folder = ProtegeFolder::new().await;
        folder.second().await;
        let path = folder.path().join("personas/eve").join(file);
        let good = std::fs::read(&path).expect("a file");
        std::fs::remove_file(&path).expect("removed");
        match bytes {
            b"" => symlink("/etc/hostname", &path).expect("a link"),
            bytes => std::fs::write(&path, bytes).expect("a file"),
        }
        let told = folder.migrate(&[]);
        has(&told, "broken", &format!("personas/eve/{wanted}"));
        has(
            &told,
            "broken",
            "memory/eve/protege.db: lies in the folder of no persona",
        );
        assert_eq!(addresses(&told).len(), 1, "the rest goes on");
        assert!(
            !folder.workspace().join("personas/eve").exists(),
            "{wanted}"
        );
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, good).expect("a file");
        let told = folder.migrate(&[]);
        assert_eq!(findings(&told, "kept"), Vec::<String>::new());
        assert_eq!(told["personas"][1]["letters"]["received"], 2);
        assert!(ours(&folder) == ours(&whole), "{wanted}: it is not whole");
    }
}

#[tokio::test]
async fn copies_of_a_migration_that_was_killed_are_removed_by_the_next() {
    let folder = ProtegeFolder::new().await;
    let killed = folder.command(&[]).env("ATTACHE_CRASH", "W1:1").output();
    let killed = killed.expect("the binary runs");
    assert_eq!(killed.status.signal(), Some(SIGABRT), "{killed:?}");
    assert!(!tree(&folder.temporary()).is_empty(), "no copy was left");
    // One of a process that lives, and a folder of another's.
    let living = format!("attache-migrate-{}-0", std::process::id());
    for name in [&living, "attache-migrate-notes"] {
        std::fs::create_dir(folder.temporary().join(name)).expect("a folder");
    }
    folder.migrate(&[]);
    let left = std::fs::read_dir(folder.temporary()).expect("a folder");
    let mut left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, [living.as_str(), "attache-migrate-notes"]);
}

#[tokio::test]
async fn what_nobody_reads_is_named() {
    let folder = ProtegeFolder::new().await;
    folder.second().await;
    std::fs::rename(
        folder.path().join("memory/eve"),
        folder.path().join("memory/ghost"),
    )
    .expect("renamed");
    folder.write("extensions/extensions.json", "{}");
    folder.write("extensions/hooks/greet/index.ts", "x");
    folder.write("prompts/old.md", "Old.");
    folder.write_json(
        "personas/eve/persona.json",
        &json!({ "email_local_part": "eve", "display_name": "Eve\r\nBcc: x" }),
    );
    symlink("/etc", folder.path().join("personas/outside")).expect("a link");
    let told = folder.migrate(&["--dry-run"]);
    has(
        &told,
        "broken",
        "memory/ghost/protege.db: lies in the folder of no persona",
    );
    has(
        &told,
        "broken",
        "personas/outside: is a link that leads out of the folder",
    );
    for place in [
        "extensions/extensions.json",
        "extensions/hooks/greet",
        "prompts/old.md",
    ] {
        has(&told, "no_counterpart", &format!("{place}: "));
    }
    let unread = findings(&told, "no_counterpart");
    assert!(
        !unread
            .iter()
            .any(|finding| finding.starts_with("prompts/system.md"))
    );
    has(
        &told,
        "changed",
        "personas/eve/persona.json: the name `Eve Bcc: x` has several lines",
    );
}

#[tokio::test]
async fn own_files_are_steps_in_every_spelling() {
    let folder = ProtegeFolder::new().await;
    let steps = [
        "load-file(PERSONA.md)",
        "load-file(./memory/active.md)",
        "load-file(\"active.md\")",
    ];
    folder.write_json(
        "configs/context.json",
        &json!({ "thread": steps, "responsibility": ["load-file({persona_id}/PERSONA.md)"] }),
    );
    let told = folder.migrate(&[]);
    assert_eq!(findings(&told, "broken"), Vec::<String>::new());
    let text = std::fs::read_to_string(folder.workspace().join("configs/context.json"));
    let context: Value = serde_json::from_str(&text.expect("a file")).expect("json");
    let input = json!({ "use": "current-input", "required": true });
    assert_eq!(
        context["thread"],
        json!(["persona", "active-memory", "active-memory", input])
    );
    assert_eq!(context["responsibility"], json!(["persona", input]));
}

#[tokio::test]
async fn a_text_that_is_too_long_is_told_by_its_own_length() {
    let folder = ProtegeFolder::new().await;
    let mut rows = folder.connect(&folder.database_of("ada")).await;
    let sql = "UPDATE messages SET text_body = $1 WHERE id = 'm3'";
    let changed = sqlx::query(sql).bind("x".repeat(3_000_000));
    changed.execute(&mut rows).await.expect("a row");
    sqlx::Connection::close(rows).await.expect("closed");
    has(
        &folder.migrate(&[]),
        "broken",
        "memory/ada/protege.db: messages, row m3: `text_body` has 3000000 bytes",
    );
}
