//! `attache schedule`, as a person or a script calls it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The guest house with our fixtures as the only responsibilities.
pub(super) fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    crate::guest_house::write(folder.path());
    let personas = folder.path().join("personas");
    for persona in std::fs::read_dir(&personas).expect("personas").flatten() {
        let folder = persona.path().join("responsibilities");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).expect("an emptied persona");
        }
    }
    let persona = std::fs::read_dir(&personas)
        .expect("personas")
        .flatten()
        .next()
        .expect("a persona");
    let duties = persona.path().join("responsibilities");
    std::fs::create_dir_all(&duties).expect("a folder");
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scheduler");
    for fixture in ["digest.md", "misspelt.md"] {
        std::fs::copy(fixtures.join(fixture), duties.join(fixture)).expect("a fixture");
    }
    folder
}

pub(super) fn attache(workspace: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .env_remove("ATTACHE_LOG")
        .arg("--workspace")
        .arg(workspace)
        .args(args)
        .output()
        .expect("the binary runs")
}

pub(super) fn json(workspace: &Path, args: &[&str]) -> Value {
    let output = attache(workspace, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

#[test]
fn list_next_run_and_history_tell_one_story() {
    let folder = workspace();
    let list = json(folder.path(), &["schedule", "list"]);
    let states: Vec<_> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["state"].as_str())
        .collect();
    assert_eq!(states, [Some("on"), Some("unusable")]);
    assert!(
        list[1]["error"]
            .as_str()
            .is_some_and(|error| error.contains("misspelt.md: line 3")),
        "{list}"
    );

    let next = json(
        folder.path(),
        &["schedule", "next", "digest", "--limit", "3"],
    );
    let next = next.as_array().expect("a list");
    assert_eq!(next.len(), 3);
    assert!(
        next.iter().all(|slot| slot["local"]
            .as_str()
            .is_some_and(|at| at.contains("T09:00:00+"))),
        "{next:?}"
    );
    assert_eq!(next[0]["slot_at"], list[0]["next_slot_at"]);

    let run = json(folder.path(), &["schedule", "run", "MORNING digest"]);
    let history = json(folder.path(), &["schedule", "history", "digest.md"]);
    assert_eq!(history[0]["run_id"], run["run_id"]);
    assert_eq!(
        (&history[0]["kind"], &history[0]["run_state"]),
        (&"manual".into(), &"queued".into())
    );
}

#[test]
fn an_unknown_name_and_an_unusable_file_are_said_to_be_so() {
    let folder = workspace();
    let missing = attache(folder.path(), &["schedule", "run", "nope"]);
    assert_eq!(missing.status.code(), Some(66));
    assert!(
        String::from_utf8_lossy(&missing.stderr).contains("`Morning digest`"),
        "{missing:?}"
    );
    let spoilt = attache(folder.path(), &["schedule", "run", "misspelt"]);
    assert_eq!(spoilt.status.code(), Some(65));
    assert!(
        String::from_utf8_lossy(&spoilt.stderr).contains("did you mean `schedule`?"),
        "{spoilt:?}"
    );
}

#[test]
#[ignore = "second tier"]
fn a_file_is_checked_wherever_it_lies_and_tells_its_next_slots() {
    let folder = workspace();
    let outside = folder.path().join("draft.md");
    let text = "---\nname: Draft\nschedule: 0 9 * * 1-5\ntimezone: Europe/Berlin\nenabled: false\n---\nLook.\n";
    std::fs::write(&outside, text).expect("a file");
    let path = outside.to_str().expect("UTF-8");
    let nobody = attache(folder.path(), &["schedule", "validate", path]);
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
    assert!(
        String::from_utf8_lossy(&nobody.stderr).contains("--persona ID"),
        "{nobody:?}"
    );
    let found = json(
        folder.path(),
        &["schedule", "validate", path, "--persona", "digest"],
    );
    let next = found["next"].as_array().expect("slots");
    assert_eq!((next.len(), &found["enabled"]), (5, &Value::Bool(false)));
    assert!(
        next.iter()
            .all(|slot| slot.as_str().is_some_and(|at| at.contains("T09:00:00+0"))),
        "{found}"
    );
    assert!(
        !json(folder.path(), &["schedule", "list"])
            .to_string()
            .contains("Draft"),
        "nothing was stored"
    );

    std::fs::write(&outside, text.replace("0 9 * * 1-5", "0 0 31 2 *")).expect("a file");
    let never = attache(
        folder.path(),
        &["schedule", "validate", path, "--persona", "digest"],
    );
    assert_eq!(never.status.code(), Some(65), "{never:?}");
    let said = String::from_utf8_lossy(&never.stderr);
    assert!(
        said.contains("draft.md: line 3: ") && said.contains("never comes due"),
        "{said}"
    );
    let past = text.replace("schedule: 0 9 * * 1-5", "at: 2026-01-01 09:00");
    std::fs::write(&outside, past).expect("a file");
    let past = attache(
        folder.path(),
        &["schedule", "validate", path, "--persona", "digest"],
    );
    assert!(
        past.status.success() && String::from_utf8_lossy(&past.stderr).contains("never be due"),
        "{past:?}"
    );
    let gone = attache(
        folder.path(),
        &[
            "schedule",
            "validate",
            "no-such-file.md",
            "--persona",
            "digest",
        ],
    );
    assert_eq!(gone.status.code(), Some(66), "{gone:?}");
}

#[test]
fn a_file_is_named_as_the_notices_name_it() {
    let folder = workspace();
    let list = json(folder.path(), &["schedule", "list"]);
    let file = list[0]["file"].as_str().expect("a path");
    assert_eq!(
        json(folder.path(), &["schedule", "show", file])["id"],
        list[0]["id"]
    );
}

#[test]
#[ignore = "second tier"]
fn a_pause_lasts_until_somebody_resumes_it() {
    let folder = workspace();
    let paused = json(folder.path(), &["schedule", "pause", "digest"]);
    assert_eq!(
        (&paused["state"], &paused["paused_by"]),
        (&"paused".into(), &"owner".into())
    );
    let again = attache(folder.path(), &["schedule", "pause", "digest"]);
    assert!(
        again.status.success() && String::from_utf8_lossy(&again.stderr).contains("before"),
        "{again:?}"
    );
    let list = attache(folder.path(), &["schedule", "list"]);
    assert!(
        String::from_utf8_lossy(&list.stderr).contains("`attache schedule resume`"),
        "{list:?}"
    );
    assert_eq!(
        json(folder.path(), &["schedule", "next", "digest"]),
        Value::Array(Vec::new())
    );
    let resumed = json(folder.path(), &["schedule", "resume", "digest"]);
    assert_eq!(
        (&resumed["state"], &resumed["paused_at"]),
        (&"on".into(), &Value::Null)
    );
    assert_eq!(
        json(folder.path(), &["schedule", "next", "digest"])
            .as_array()
            .map(Vec::len),
        Some(10)
    );
    let again = attache(folder.path(), &["schedule", "resume", "digest"]);
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("not paused"),
        "{again:?}"
    );
}
