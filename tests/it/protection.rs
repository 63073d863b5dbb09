//! What the program keeps from everybody else on the machine: its files, its memory, its core.

use crate::app::{Workspace, blink};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const LETTER: &str = "From: bob@guest.example\nTo: ada@engine.test\nSubject: Keys\nMessage-ID: <a@guest.example>\n\nWhere?\n";
/// The user that owns nothing, on every Linux.
const NOBODY: u32 = 65534;

fn workspace() -> Workspace {
    let remember = json!([{ "tool": "update_memory", "args": { "append": "Bob lost his keys." } }]);
    let place =
        Workspace::new(&json!({ "turns": [{ "call": remember }, { "say": "By the door." }] }));
    place.write("letter.eml", LETTER);
    // Who only says to be Bob gets nothing remembered; a responsibility may.
    place.write(
        "personas/ada/responsibilities/note.md",
        "---\nname: Note\nschedule: \"0 9 * * *\"\ndeliver_to: store\n---\nNote it.\n",
    );
    place
}

/// Runs a command under a umask that denies nothing.
fn attache(place: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("/bin/sh");
    command
        .args([
            "-c",
            "umask 0; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_attache"),
        ])
        .args(args);
    let said = command
        .current_dir(place)
        .output()
        .expect("the binary runs");
    assert!(said.status.success(), "{args:?}: {said:?}");
    said
}

/// Everything below a folder, itself included, that somebody else may read, write or enter.
fn open_to_others(folder: &Path) -> Vec<PathBuf> {
    let (mut open, mut left, mut seen) = (Vec::new(), vec![folder.to_path_buf()], 0);
    while let Some(path) = left.pop() {
        let facts = path.symlink_metadata().expect("it is there");
        if facts.is_dir() {
            left.extend(
                std::fs::read_dir(&path)
                    .expect("a folder")
                    .map(|entry| entry.expect("an entry").path()),
            );
        }
        if facts.permissions().mode() & 0o077 != 0 {
            open.push(path);
        }
        seen += 1;
    }
    assert!(seen > 1, "nothing was written to {}", folder.display());
    open
}

#[test]
#[ignore = "second tier"]
fn everything_written_is_for_its_owner_alone_whatever_the_umask() {
    let place = workspace();
    attache(
        place.path(),
        &[
            "init",
            "fresh",
            "--domain",
            "fresh.test",
            "--owner",
            "olga@home.test",
        ],
    );
    attache(place.path(), &["ingest", "letter.eml"]);
    attache(place.path(), &["schedule", "run", "Note"]);
    attache(place.path(), &["drain"]);
    attache(place.path(), &["export", "persona", "ada", "exported"]);
    attache(place.path(), &["replay", "export", "last", "run.attache"]);
    attache(
        place.path(),
        &["replay", "import", "run.attache", "imported"],
    );
    attache(place.path(), &["backup", "copy.db"]);
    let written = [
        "fresh",
        "data",
        "data/outbox",
        "personas/ada/.memory",
        "exported",
        "imported",
    ];
    for folder in written {
        assert_eq!(
            open_to_others(&place.path().join(folder)),
            Vec::<PathBuf>::new()
        );
    }
    for file in [
        "personas/ada/active.md",
        "run.attache",
        "copy.db",
        "data/attache.db",
    ] {
        let mode = place
            .path()
            .join(file)
            .metadata()
            .expect(file)
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{file}");
    }
}

#[test]
#[ignore = "second tier"]
fn what_a_serving_engine_writes_is_for_its_owner_alone_whatever_the_umask() {
    let place = workspace();
    let gateway = place.path().join("configs/gateway.json");
    let text = std::fs::read_to_string(&gateway).expect("a file");
    let mut settings: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    settings["listeners"] = json!([
        { "kind": "smtp", "address": "127.0.0.1:0" },
        { "kind": "http", "address": "unix:data/sockets/pages.sock" },
    ]);
    settings["folders"] = json!([{ "path": "data/incoming" }]);
    place.write_json("configs/gateway.json", &settings);
    attache(place.path(), &["ingest", "letter.eml"]);
    attache(place.path(), &["schedule", "run", "Note"]);
    let log = std::fs::File::create(place.path().join("log")).expect("a file");
    let mut engine = Command::new("/bin/sh")
        .args([
            "-c",
            "umask 0; exec \"$0\" serve",
            env!("CARGO_BIN_EXE_attache"),
        ])
        .current_dir(place.path())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the binary runs");
    let begun = Instant::now();
    let data = place.path().join("data");
    let is_done = || data.join("sockets/pages.sock").exists() && data.join("outbox").exists();
    while !is_done() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it does not serve"
        );
        blink();
    }
    let open = open_to_others(&data);
    engine.kill().expect("SIGKILL");
    engine.wait().expect("it is gone");
    assert_eq!(open, Vec::<PathBuf>::new());
    attache(place.path(), &["drain"]);
    attache(
        place.path(),
        &["gc", "--older-than", "1d", "--kind", "turns"],
    );
    attache(place.path(), &["doctor", "--quick"]);
    assert_eq!(open_to_others(&data), Vec::<PathBuf>::new());
}

#[test]
fn what_others_may_read_from_before_is_said_and_nothing_changed() {
    let place = workspace();
    attache(place.path(), &["ingest", "letter.eml"]);
    let set = |path: &str, mode: u32| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path().join(path), mode).expect("a mode");
    };
    let doctor =
        || String::from_utf8(attache(place.path(), &["doctor", "--quick"]).stdout).expect("UTF-8");
    for folder in ["personas", "data"] {
        set(folder, 0o700);
    }
    assert!(
        !doctor().contains("other users"),
        "nobody comes to what lies in them"
    );
    set("data", 0o755);
    assert!(
        !doctor().contains("other users"),
        "its files are for their owner alone"
    );
    set("data/attache.db", 0o644);
    let said = doctor();
    assert!(
        said.contains("data/attache.db") && said.contains("chmod -R go= data personas"),
        "{said}"
    );
    set("data", 0o700);
    assert!(!doctor().contains("other users"));
}

#[test]
fn no_memory_or_core_of_an_engine_is_for_others_of_its_user() {
    let place = workspace();
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .arg("serve")
        .current_dir(place.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // As root everything in `/proc` is root's anyway.
    if place.path().metadata().expect("a folder").uid() == 0 {
        hand_over(place.path());
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut engine = command.spawn().expect("the binary runs");
    let begun = Instant::now();
    while !place.path().join("data/attache.db").exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it does not start"
        );
        blink();
    }
    let of = |name: &str| PathBuf::from(format!("/proc/{}/{name}", engine.id()));
    let owner = of("environ").metadata().expect("a living process").uid();
    let limits = std::fs::read_to_string(of("limits")).expect("its limits");
    engine.kill().expect("SIGKILL");
    engine.wait().expect("it is gone");
    assert_eq!(owner, 0, "its environment is root's");
    let core: Vec<&str> = limits
        .lines()
        .find(|line| line.contains("core file"))
        .expect("a limit")
        .split_whitespace()
        .collect();
    assert_eq!(core[core.len() - 3..], ["0", "0", "bytes"], "{limits}");
}

fn hand_over(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("a folder") {
            hand_over(&entry.expect("an entry").path());
        }
    }
}

#[test]
fn a_workspace_of_somebody_else_is_said_to_be_theirs() {
    let place = workspace();
    let owner = place.path().metadata().expect("a folder").uid();
    let mode = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path(), mode).expect("a mode");
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    let path = place.path().display().to_string();
    command
        .args(["runs", "list", "--workspace", &path])
        .current_dir("/");
    match owner {
        // Root may enter anything, and so asks as another.
        0 => {
            mode(0o700);
            command.uid(NOBODY).gid(NOBODY);
        }
        _ => mode(0),
    }
    let said = command.output().expect("the binary runs");
    mode(0o700);
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(
        text.contains("cannot be opened: Permission denied")
            && text.contains(&format!("it belongs to the user with the number {owner}")),
        "{text}"
    );
    assert!(!text.contains("attache init"), "{text}");
}
