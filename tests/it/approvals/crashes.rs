//! The real binary dies while it asks, while somebody decides, and while what was approved begins: in the end everything has
//! happened once.

use crate::app::Workspace;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// Points that these tests come to, in place of a workload of the sweep.
pub const POINTS: &[&str] = &["A1", "A2", "A3", "A4"];

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;

fn attache(place: &Workspace, args: &[&str], crash: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.current_dir(place.path()).args(args);
    command
        .env_remove("ATTACHE_CRASH")
        .env_remove("ATTACHE_WORKSPACE");
    crash.map(|point| command.env("ATTACHE_CRASH", format!("{point}:1")));
    let output = command.output().expect("the binary runs");
    match crash {
        Some(point) => assert_eq!(output.status.signal(), Some(SIGABRT), "{point}: {output:?}"),
        None => assert!(output.status.success(), "{args:?}: {output:?}"),
    }
    output
}

fn read(place: &Workspace, args: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    serde_json::from_slice(&attache(place, &args, None).stdout).expect("json")
}

/// A responsibility whose run makes this call and then ends.
fn place(call: Value, policy: Value) -> Workspace {
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [call] },
        { "say": "Done." },
    ] });
    let workspace = Workspace::new(&script);
    workspace.write(
        "personas/ada/responsibilities/plan.md",
        "---\nname: Plan\nschedule: \"0 4 29 2 *\"\ntimezone: UTC\n---\nTell Eve.\n",
    );
    workspace.write_json("configs/policy.json", &policy);
    attache(&workspace, &["schedule", "run", "Plan"], None);
    workspace
}

fn mail_to_eve() -> Value {
    json!({ "tool": "send_email", "args": { "to": ["eve@new.test"], "subject": "Plan", "body": "Tuesday." } })
}

fn open_questions(place: &Workspace) -> Vec<String> {
    let open = read(place, &["approvals", "list"]);
    let ids = open.as_array().expect("a list").iter();
    ids.map(|question| question["id"].as_str().expect("an id").to_owned())
        .collect()
}

fn mails_to_eve(place: &Workspace) -> usize {
    let sent = place.sent().into_iter();
    sent.filter(|mail| mail.to.iter().any(|to| to.spec == "eve@new.test"))
        .count()
}

fn ended(place: &Workspace) -> String {
    let runs = read(place, &["runs", "list"]);
    runs[0]["state"].as_str().expect("a state").to_owned()
}

#[test]
#[ignore = "second tier"]
fn a_question_that_was_being_asked_is_asked_once() {
    let place = place(mail_to_eve(), json!({}));
    attache(&place, &["drain"], Some("A1"));
    assert_eq!(open_questions(&place), [] as [&str; 0]);
    attache(&place, &["drain"], None);
    let open = open_questions(&place);
    assert_eq!(open.len(), 1);
    assert_eq!(mails_to_eve(&place), 0);
    attache(&place, &["approvals", "approve", &open[0]], None);
    attache(&place, &["drain"], None);
    assert_eq!(
        (mails_to_eve(&place), ended(&place).as_str()),
        (1, "succeeded")
    );
    attache(&place, &["doctor", "--audit"], None);
}

#[test]
#[ignore = "second tier"]
fn a_decision_that_was_being_made_is_made_or_is_not() {
    for point in ["A2", "A3"] {
        let place = place(mail_to_eve(), json!({}));
        attache(&place, &["drain"], None);
        let open = open_questions(&place);
        attache(&place, &["approvals", "approve", &open[0]], Some(point));
        assert_eq!(open_questions(&place), open, "{point}");
        attache(&place, &["drain"], None);
        assert_eq!(mails_to_eve(&place), 0, "{point}");
        attache(&place, &["approvals", "approve", &open[0]], None);
        // The mail is queued in the commit of the decision; the engine dies when it has claimed it.
        attache(&place, &["drain"], Some("O2"));
        attache(&place, &["drain"], None);
        assert_eq!(
            (mails_to_eve(&place), ended(&place).as_str()),
            (1, "succeeded"),
            "{point}"
        );
        attache(&place, &["doctor", "--audit"], None);
        let verified = read(&place, &["replay", "verify", "--all"]);
        assert!(!verified.to_string().contains("differs"), "{verified}");
    }
}

#[test]
#[ignore = "second tier"]
fn an_approved_call_that_had_begun_goes_by_its_class() {
    let rules = json!({ "rules": [{ "id": "ask", "effect": "ask", "tool": "update_memory" }] });
    let call = json!({ "tool": "update_memory", "args": { "append": "Eve is new." } });
    let place = place(call, rules);
    attache(&place, &["drain"], None);
    let memory =
        || std::fs::read_to_string(place.path().join("personas/ada/active.md")).expect("a memory");
    assert!(!memory().contains("Eve"));
    attache(
        &place,
        &["approvals", "approve", &open_questions(&place)[0]],
        None,
    );
    attache(&place, &["drain"], Some("A4"));
    attache(&place, &["drain"], None);
    assert_eq!(memory().matches("Eve is new.").count(), 1, "{}", memory());
    assert_eq!(ended(&place), "succeeded");
    attache(&place, &["doctor", "--audit"], None);
}
