//! Verification does nothing: no connection, no process, no byte of the workspace changed.

use super::identical;
use crate::app::database::is_sqlite_only;
use crate::app::{TestApp, Workspace, note};
use crate::fallback;
use crate::providers::server::Server;
use attache::config::ProviderSettings;
use attache::providers::{adapters, build, encoder};
use attache::store::PowerCut;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Every file below a folder with its bytes, but SQLite's index of shared memory, in which readers mark their places.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if path.extension().is_some_and(|ext| ext == "db-shm") => {}
            // An empty log is as good as none: whoever opens the database makes one.
            false if path.metadata().expect("a file").len() == 0 => {}
            false => drop(found.insert(
                path.display().to_string(),
                std::fs::read(&path).expect("a file"),
            )),
        }
    }
    found
}

/// Runs that asked a server, one of them interrupted; the engine is gone.
async fn past(server: &Server) -> Workspace {
    let app = fallback::workspace(server, None).start().await;
    for n in 0..3 {
        app.run_of(&note(&format!("{n}@guest.example"), "", "Hello?"))
            .await;
        app.drain().await;
    }
    app.run_of(&note("cut@guest.example", "", "Hello?")).await;
    app.engine.store.cut_power(PowerCut::BeforeCommit(3));
    let _cut = app.engine.drain().await;
    let app = app.restart().await;
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(600));
    app.drain().await;
    let TestApp { workspace, engine } = app;
    engine.store.clone().close().await;
    drop(engine);
    workspace
}

#[tokio::test]
async fn no_server_is_asked_and_no_file_is_changed() {
    let server = Server::start(
        (0..9)
            .map(|n| fallback::says(&format!("Answer {n}.")))
            .collect(),
    )
    .await;
    let place = past(&server).await;
    let (asked, before) = (server.seen().len(), files(place.path()));
    assert!(
        asked >= 4,
        "the control: the engine itself asked {asked} times"
    );
    assert_eq!(identical(&place.verified().await), 4);
    assert_eq!(server.seen().len(), asked, "somebody was asked");
    let after = files(place.path());
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>()
    );
    let changed: Vec<_> = before
        .iter()
        .filter(|(file, bytes)| after[*file] != **bytes)
        .collect();
    assert!(
        changed.is_empty(),
        "changed: {:?}",
        changed.iter().map(|(file, _)| file).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_store_that_is_open_to_read_cannot_write() {
    let app = TestApp::start(json!({ "turns": [{ "say": "Yes." }] })).await;
    let clock = app.workspace.clock.clone();
    let store = attache::store::Store::open_to_read(app.workspace.path(), clock)
        .await
        .expect("readable");
    assert!(store.recover_runs().await.is_err(), "it wrote");
    assert!(app.engine.store.recover_runs().await.is_ok(), "the control");
}

/// What only sending needs is not asked for: no key, no script, no program that is there.
#[test]
fn every_adapter_writes_requests_with_nothing_of_today() {
    for adapter in adapters() {
        // Of the configuration of then; the others have an address of their own.
        let base_url = (adapter.id == "compat").then(|| "https://models.example/v1".to_owned());
        let settings = ProviderSettings {
            base_url,
            script: Some("/nowhere/script.json".into()),
            ..ProviderSettings::default()
        };
        let wire = encoder(adapter.id, &settings, Path::new("/nowhere/agent"));
        assert!(wire.is_ok(), "{}: {:?}", adapter.id, wire.err());
    }
    assert!(
        build("anthropic", &ProviderSettings::default()).is_err(),
        "the control: who sends needs a key"
    );
    let settings = ProviderSettings {
        script: Some("/nowhere/script.json".into()),
        ..ProviderSettings::default()
    };
    assert!(
        build("scripted", &settings).is_err(),
        "the control: who sends needs it"
    );
}

/// The whole command, watched by the kernel's own record of its system calls.
#[tokio::test]
#[ignore = "second tier"]
async fn the_command_opens_no_socket_and_starts_no_process() {
    if is_sqlite_only("a database on a server is reached by a socket") {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        println!(
            "SKIPPED: strace is not installed, so system calls of `replay verify` were not watched"
        );
        return;
    }
    let server = Server::start(
        (0..9)
            .map(|n| fallback::says(&format!("Answer {n}.")))
            .collect(),
    )
    .await;
    let place = past(&server).await;
    let trace = place.path().join("trace");
    let mut watched = Command::new("strace");
    watched.args([
        "-f",
        "-qq",
        "-e",
        "trace=execve,execveat,fork,vfork,socket,connect,bind,sendto,sendmsg,kill",
        "-o",
    ]);
    watched.arg(&trace).arg(env!("CARGO_BIN_EXE_attache"));
    watched
        .args(["replay", "verify", "--all", "--json", "--workspace"])
        .arg(place.path());
    let output = watched.output().expect("strace");
    let told = String::from_utf8_lossy(&output.stdout);
    if !trace.exists() || !output.status.success() && told.is_empty() {
        println!(
            "SKIPPED: strace may not trace here: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    assert!(
        output.status.success() && told.contains("\"identical\": 4"),
        "{told}"
    );
    let calls = std::fs::read_to_string(&trace).expect("a trace");
    let calls: Vec<&str> = calls
        .lines()
        .filter(|line| !line.contains("+++ exited") && !line.contains("<detached ...>"))
        .collect();
    // The first is the start of the command itself.
    assert_eq!(calls.len(), 1, "{calls:#?}");
    assert!(calls[0].contains("execve("), "{calls:#?}");
}
