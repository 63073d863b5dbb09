//! The real binary: drafts on the command line, and a process that dies while a draft is written, edited or sent.

use crate::app::Workspace;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// Point that these tests come to, in place of a workload of the sweep.
pub const POINTS: &[&str] = &["A5"];

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;

fn command(place: &Workspace, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.current_dir(place.path()).args(args);
    for name in ["ATTACHE_CRASH", "ATTACHE_WORKSPACE", "VISUAL", "EDITOR"] {
        command.env_remove(name);
    }
    command
}

fn attache(place: &Workspace, args: &[&str]) -> Output {
    let output = command(place, args).output().expect("the binary runs");
    assert!(output.status.success(), "{args:?}: {output:?}");
    output
}

fn dies(place: &Workspace, args: &[&str], point: &str) {
    let mut command = command(place, args);
    command.env("ATTACHE_CRASH", format!("{point}:1"));
    let output = command.output().expect("the binary runs");
    assert_eq!(output.status.signal(), Some(SIGABRT), "{point}: {output:?}");
}

fn read(place: &Workspace, args: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    serde_json::from_slice(&attache(place, &args).stdout).expect("json")
}

/// A responsibility whose mail to Eve is made a draft by a rule.
fn place() -> Workspace {
    let args = json!({ "to": ["eve@new.test"], "subject": "Plan", "body": "Tuesday.", "attachments": ["knowledge/house.md"] });
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "send_email", "args": args }] },
        { "say": "Done." },
    ] });
    let workspace = Workspace::new(&script);
    workspace.write(
        "personas/ada/responsibilities/plan.md",
        "---\nname: Plan\nschedule: \"0 4 29 2 *\"\ntimezone: UTC\n---\nTell Eve.\n",
    );
    let rules = json!([{ "id": "mine", "effect": "draft", "tool": "send_email" }]);
    workspace.write_json("configs/policy.json", &json!({ "rules": rules }));
    attache(&workspace, &["schedule", "run", "Plan"]);
    workspace
}

fn waiting(place: &Workspace) -> Vec<String> {
    let list = read(place, &["drafts", "list"]);
    let ids = list.as_array().expect("a list").iter();
    ids.map(|draft| draft["id"].as_str().expect("an id").to_owned())
        .collect()
}

fn to_eve(place: &Workspace) -> Vec<(String, String, usize)> {
    let sent = place.sent().into_iter();
    let hers = sent.filter(|mail| mail.to.iter().any(|to| to.spec == "eve@new.test"));
    hers.map(|mail| {
        (
            mail.subject,
            mail.text.trim().to_owned(),
            mail.attachments.len(),
        )
    })
    .collect()
}

fn sound(place: &Workspace) {
    attache(place, &["doctor", "--audit"]);
    let verified = read(place, &["replay", "verify", "--all"]);
    assert!(!verified.to_string().contains("differs"), "{verified}");
}

#[test]
#[ignore = "second tier"]
fn a_draft_is_listed_shown_edited_from_a_file_and_sent() {
    let place = place();
    attache(&place, &["drain"]);
    let ids = waiting(&place);
    assert_eq!(ids.len(), 1);
    let short = &ids[0][ids[0].len() - 8..];
    let shown =
        String::from_utf8(attache(&place, &["drafts", "show", short]).stdout).expect("text");
    assert!(
        shown.contains("To: eve@new.test") && shown.contains("Tuesday."),
        "{shown}"
    );
    place.write("new.md", "Subject: The new plan\n\nWednesday, then.\n");
    attache(&place, &["drafts", "edit", short, "--file", "new.md"]);
    let record = read(&place, &["drafts", "show", short]);
    assert_eq!(record["text"], "Wednesday, then.");
    assert_eq!(record["versions"][0]["text"], "Tuesday.");
    let stale = command(&place, &["drafts", "send", short, "--hash", "00"])
        .output()
        .expect("runs");
    assert_eq!(stale.status.code(), Some(1), "{stale:?}");
    let hash = record["draft"]["sha256"]
        .as_str()
        .expect("a digest")
        .to_owned();
    attache(&place, &["drafts", "send", short, "--hash", &hash]);
    attache(&place, &["drain"]);
    assert_eq!(
        to_eve(&place),
        [("The new plan".to_owned(), "Wednesday, then.".to_owned(), 1)]
    );
    let again = command(&place, &["drafts", "send", short])
        .output()
        .expect("runs");
    let complaint = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        complaint.contains("does not wait any more: sent"),
        "{complaint}"
    );
    assert_eq!(waiting(&place), [] as [&str; 0]);
    sound(&place);
}

#[test]
#[ignore = "second tier"]
fn an_editor_changes_a_draft_and_its_file_is_gone_afterwards() {
    let place = place();
    attache(&place, &["drain"]);
    let id = &waiting(&place)[0];
    let without = command(&place, &["drafts", "edit", id])
        .output()
        .expect("runs");
    let complaint = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(
        complaint.contains("EDITOR") && complaint.contains("--file"),
        "{complaint}"
    );
    place.write(
        "editor.sh",
        "#!/bin/sh\nsed -i s/Tuesday/Thursday/ \"$2\"\n",
    );
    let program = place.path().join("editor.sh");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("executable");
    let mut edit = command(&place, &["drafts", "edit", id, "--send"]);
    edit.env("EDITOR", format!("{} --wait", program.display()));
    let output = edit.output().expect("runs");
    assert!(output.status.success(), "{output:?}");
    attache(&place, &["drain"]);
    assert_eq!(
        to_eve(&place),
        [("Plan".to_owned(), "Thursday.".to_owned(), 1)]
    );
    let left = std::fs::read_dir(place.path().join("data")).expect("a folder");
    let left = left
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("draft-"));
    assert_eq!(left.count(), 0);
    sound(&place);
}

#[test]
#[ignore = "second tier"]
fn a_discarded_draft_and_bad_texts_send_nothing() {
    let place = place();
    attache(&place, &["drain"]);
    let id = &waiting(&place)[0];
    for (text, says) in [
        ("Subject: x\n\n", "the text is empty"),
        ("Subject: \n\nHello.\n", "the subject must be one line"),
    ] {
        place.write("new.md", text);
        let refused = command(&place, &["drafts", "edit", id, "--file", "new.md"])
            .output()
            .expect("runs");
        let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(complaint.contains(says), "{complaint}");
    }
    let approved = command(&place, &["approvals", "edit", id, "shorter"])
        .output()
        .expect("runs");
    assert!(
        String::from_utf8_lossy(&approved.stderr).contains("attache drafts edit"),
        "{approved:?}"
    );
    attache(&place, &["drafts", "discard", id, "--reason", "not now"]);
    attache(&place, &["drain"]);
    assert_eq!(to_eve(&place).len(), 0);
    let all = read(&place, &["drafts", "list", "--all"]);
    assert_eq!(
        (&all[0]["state"], &all[0]["words"]),
        (&json!("rejected"), &json!("not now"))
    );
    sound(&place);
}

/// The draft and its call are one commit; a process that dies behind it, before the result, finds the draft again.
#[test]
#[ignore = "second tier"]
fn a_draft_that_was_being_written_is_there_once() {
    for point in ["A1", "R9", "R7"] {
        let place = place();
        let mut died = command(&place, &["drain"]);
        died.env("ATTACHE_CRASH", format!("{point}:1"));
        let _died_or_not = died.output().expect("the binary runs");
        attache(&place, &["drain"]);
        let ids = waiting(&place);
        assert_eq!(ids.len(), 1, "{point}");
        attache(&place, &["drafts", "send", &ids[0]]);
        attache(&place, &["drain"]);
        assert_eq!(to_eve(&place).len(), 1, "{point}");
        sound(&place);
    }
}

#[test]
#[ignore = "second tier"]
fn an_edit_or_a_decision_that_was_being_made_is_made_or_is_not() {
    let place = place();
    attache(&place, &["drain"]);
    let ids = waiting(&place);
    place.write("new.md", "Wednesday.\n");
    dies(
        &place,
        &["drafts", "edit", &ids[0], "--file", "new.md"],
        "A5",
    );
    let record = read(&place, &["drafts", "show", &ids[0]]);
    assert_eq!(
        (&record["text"], &record["versions"]),
        (&json!("Tuesday."), &json!([]))
    );
    attache(&place, &["drafts", "edit", &ids[0], "--file", "new.md"]);
    dies(&place, &["drafts", "send", &ids[0]], "A2");
    assert_eq!(waiting(&place), ids);
    attache(&place, &["drafts", "send", &ids[0]]);
    // The engine dies when it has claimed the mail.
    dies(&place, &["drain"], "O2");
    attache(&place, &["drain"]);
    assert_eq!(
        to_eve(&place),
        [("Plan".to_owned(), "Wednesday.".to_owned(), 1)]
    );
    sound(&place);
}
