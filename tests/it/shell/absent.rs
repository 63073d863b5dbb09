//! No sandbox, no commands (SH07, D-6).

use super::{Yard, is_there};
use attache::shell::{CommandLimits, CommandSandbox, SandboxError};
use std::os::unix::fs::PermissionsExt;

/// A program in place of bubblewrap.
fn bubblewrap(script: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("bwrap");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    (folder, path)
}

#[tokio::test]
async fn sh07_without_a_working_bubblewrap_nothing_is_started() {
    let yard = Yard::new();
    let program = || env!("CARGO_BIN_EXE_attache").into();
    let (_kept, refuses) =
        bubblewrap("echo 'bwrap: No permissions to create new namespace' >&2; exit 1");
    // It would run the command without any namespace.
    let marker = yard.folder.path().join("ran");
    let (_also, careless) = bubblewrap(&format!("touch {}; exit 0", marker.display()));
    let rows = [
        (None, "not installed"),
        (Some(refuses), "No permissions"),
        (Some(careless), "ended"),
    ];
    for (bubblewrap, why) in rows {
        let sandbox =
            CommandSandbox::with_bubblewrap(program(), bubblewrap, CommandLimits::default());
        assert!(!sandbox.is_usable());
        let tried = sandbox.trial().await.expect_err("no sandbox");
        assert!(tried.contains(why), "{tried}");
        assert!(!sandbox.is_usable());
        let order = yard.order(&["touch", "made"]);
        let refused = sandbox.run(&order).await.expect_err("no sandbox");
        assert!(matches!(refused, SandboxError::NoSandbox(_)), "{refused}");
        assert!(!yard.folder.path().join("made").exists());
    }
}

#[tokio::test]
async fn a_sandbox_is_tried_once_and_only_when_it_is_used() {
    if !is_there(&["bwrap"]) {
        return;
    }
    let yard = Yard::new();
    assert!(!yard.sandbox.is_usable(), "nothing was started yet");
    let began = std::time::Instant::now();
    yard.sandbox.trial().await.expect("a sandbox");
    println!("the trial took {:?}", began.elapsed());
    assert!(yard.sandbox.is_usable());
    yard.run(&["true"]).await;
}
