//! Processes that open one database at once: whoever comes first makes it and brings it up to date, the others wait.

use super::place::{Running, Sink, attache, until, workspace};
use crate::app::Workspace;
use crate::app::database::is_sqlite_only;
use attache::store::Store;
use rustix::process::Signal;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};

const ROUNDS: usize = 3;
const PROCESSES: usize = 6;

/// Takes the lock that openings stand in line at.
fn opening(data: &Path) -> File {
    std::fs::create_dir_all(data).expect("a folder");
    let lock = File::create(data.join("opening.lock")).expect("a file");
    lock.try_lock().expect("nobody opens it");
    lock
}

fn ingest(folder: &Path, number: usize) -> Child {
    let mut command = attache(folder, &["ingest", "-"]);
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let letter = format!(
        "From: bob@guest.example\r\nTo: concierge@guesthouse.example\r\nMessage-ID: <{number}@guest.example>\r\n\r\nHi\r\n"
    );
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(letter.as_bytes())
        .expect("it reads");
    child
}

#[test]
#[ignore = "second tier"]
fn an_engine_and_commands_at_once_all_find_a_new_workspace_made() {
    for round in 0..ROUNDS {
        let dir = workspace(
            Sink::default().open(),
            &json!({ "rules": [{ "say": "At ten." }] }),
        );
        let commands: Vec<Child> = (0..PROCESSES)
            .map(|number| ingest(dir.path(), number))
            .collect();
        let engine = Running::start(dir.path(), &[]);
        for command in commands {
            let ended = command.wait_with_output().expect("it ends");
            assert_eq!(
                ended.status.code(),
                Some(0),
                "round {round}: {}",
                String::from_utf8_lossy(&ended.stderr)
            );
        }
        engine.signal(Signal::TERM);
        let (status, said, _) = engine.ended();
        assert_eq!(status.code(), Some(0), "round {round}: {said}");
    }
}

#[tokio::test]
async fn an_opening_goes_on_when_the_one_before_it_is_done() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let held = opening(&workspace.path().join("data"));
    let (path, clock) = (workspace.path().to_owned(), workspace.clock.clone());
    let waits = tokio::spawn(async move { Store::open_shared(&path, clock).await.map(drop) });
    crate::app::glance().await;
    assert!(!waits.is_finished());
    drop(held);
    waits.await.expect("no panic").expect("a database");
}

#[test]
#[ignore = "second tier"]
fn a_server_that_cannot_open_the_database_asks_for_a_restart() {
    let dir = workspace(Sink::default().open(), &json!({ "rules": [] }));
    let _held = opening(&dir.path().join("data"));
    let mut server = attache(dir.path(), &["serve"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    until("its end", || server.try_wait().expect("a child").is_some());
    let ended = server.wait_with_output().expect("it ended");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(75), "{said}");
    assert!(
        said.contains("is opening the database") && said.contains("try again"),
        "{said}"
    );
    assert!(!dir.path().join("data/attache.db").exists());
}

#[test]
#[ignore = "second tier"]
fn a_database_whose_making_was_killed_is_brought_up_to_date() {
    if is_sqlite_only("a file that is made") {
        return;
    }
    const STEP_BYTES: u64 = 40_000;
    let mut killed = 0;
    for round in 0..12 {
        let dir = workspace(Sink::default().open(), &json!({ "rules": [] }));
        let written = || {
            let size = |file: &str| {
                dir.path()
                    .join("data")
                    .join(file)
                    .metadata()
                    .map_or(0, |found| found.len())
            };
            size("attache.db") + size("attache.db-wal")
        };
        let mut first = attache(dir.path(), &["drain"])
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary runs");
        until("so much to be written, or the end", || {
            written() > round * STEP_BYTES || first.try_wait().expect("a child").is_some()
        });
        first.kill().expect("SIGKILL");
        killed += u32::from(!first.wait().expect("it ended").success());
        for command in [["drain"].as_slice(), &["doctor", "--at-rest"]] {
            let ended = attache(dir.path(), command)
                .output()
                .expect("the binary runs");
            assert!(
                ended.status.success(),
                "round {round}, {command:?}: {ended:?}"
            );
        }
    }
    assert!(
        killed > 6,
        "{killed} of 12 were killed before they were done"
    );
}
