//! Agents at the command line: what a trial captures can be read again, and who would go without tools is told.

use super::lines::{begin, read};
use super::{CLAUDE_ANSWERS, CLAUDE_BEGINS};
use crate::app::Workspace;
use attache::providers::Event;
use attache::providers::agents::agent::Invocation;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};

/// Not a name that a key's shape would give away.
const SECRET: &str = "swordfish-in-a-tin";

/// A workspace whose provider is this agent, played by the fake.
fn workspace(agent: &str, script: &str) -> Workspace {
    let place = Workspace::new(&json!({ "turns": [] }));
    let fake = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents/fake");
    let block = json!({ "binary": fake, "environment": ["FAKE", "FAKE_TOKEN"] });
    place.set("configs/inference.json", "/provider", agent.into());
    place.set(
        "configs/inference.json",
        "/budget",
        json!({ "day_tokens_max": 5_000_000 }),
    );
    place.set(
        "configs/inference.json",
        &format!("/providers/{agent}"),
        block,
    );
    place.write("script", script);
    place
}

fn attache(place: &Workspace, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("FAKE_TOKEN", SECRET);
    command
        .env("FAKE", place.path().join("script"))
        .current_dir(place.path())
        .args(args);
    command.output().expect("the binary runs")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn what_a_trial_captures_answers_the_same_without_the_secret() {
    let leak = "echo '{\"type\":\"noise\",\"token\":\"'$FAKE_TOKEN'\"}'";
    // A trial is of the tier `none`.
    let begins = CLAUDE_BEGINS.replace("\"Glob\",\"Grep\",\"Read\"", "");
    let place = workspace("claude", &[&begins, leak, CLAUDE_ANSWERS].join("\n"));
    let tried = attache(
        &place,
        &[
            "providers",
            "test",
            "claude",
            "--capture",
            "captured",
            "--json",
        ],
    );
    assert!(tried.status.success(), "{tried:?}");
    let told: Value = serde_json::from_slice(&tried.stdout).expect("JSON");
    let text =
        |name: &str| std::fs::read_to_string(place.path().join("captured").join(name)).expect(name);
    let (lines, sent) = (text("text.ndjson"), text("text.request.json"));
    assert!(
        lines.contains("\"type\":\"noise\"") && !lines.contains(SECRET),
        "{lines}"
    );
    let invocation: Invocation = serde_json::from_str(&sent).expect("what it was started with");
    let (events, response) =
        read(&mut *begin("claude", &invocation), lines.as_bytes()).expect("an answer");
    assert_eq!(response.text(), "Good morning.");
    assert_eq!(
        told["calls"][0]["response"],
        json!(response),
        "the same, all of it"
    );
    assert!(events.contains(&Event::Session("s-1".into())), "{events:?}");
}

#[test]
fn who_would_go_without_tools_is_told_before_a_letter_comes() {
    let place = workspace("pi", "case $1 in --version) echo 9.9.9;; esac");
    let told = "provider `pi` does not offer this persona's tools to its model";
    let checked = attache(&place, &["config", "check"]);
    assert!(
        checked.status.success(),
        "a warning is no problem: {checked:?}"
    );
    let warning = said(&checked.stderr);
    assert!(
        warning.contains("personas/ada/persona.json") && warning.contains("tools"),
        "{warning}"
    );
    assert!(warning.contains(told), "{warning}");
    let checked = attache(&place, &["providers", "check"]);
    assert!(checked.status.success(), "{checked:?}");
    assert!(
        said(&checked.stdout).contains("does not get the tools of persona `ada`"),
        "{checked:?}"
    );

    place.set("personas/ada/persona.json", "/reply", "tool_only".into());
    let checked = attache(&place, &["config", "check"]);
    assert_eq!(
        checked.status.code(),
        Some(65),
        "nobody could be answered: {checked:?}"
    );
    assert!(
        said(&checked.stdout).contains(told) && said(&checked.stdout).contains("reply"),
        "{checked:?}"
    );

    place.set("personas/ada/persona.json", "/reply", "final".into());
    place.set("personas/ada/persona.json", "/tools", json!([]));
    let checked = attache(&place, &["config", "check"]);
    assert!(
        checked.status.success() && checked.stderr.is_empty(),
        "none are wanted: {checked:?}"
    );

    // Claude Code is given our tools.
    let place = workspace("claude", "");
    let checked = attache(&place, &["config", "check"]);
    assert!(
        checked.status.success() && checked.stderr.is_empty(),
        "{checked:?}"
    );
    // A server that runs already is not.
    place.set("configs/inference.json", "/provider", "opencode".into());
    place.set("configs/inference.json", "/model", "acme/m1".into());
    place.set(
        "configs/inference.json",
        "/providers/opencode",
        json!({ "base_url": "http://127.0.0.1:9" }),
    );
    assert!(
        said(&attache(&place, &["config", "check"]).stderr)
            .contains("provider `opencode` does not offer")
    );
}
