//! Where agents may read and write: every spelling of a path, with the links of a real folder, by each agent's own words.

use super::Fake;
use super::lines::begin;
use attache::config::Tier;
use attache::domain::ErrorClass;
use attache::providers::agents::agent::Invocation;
use attache::providers::agents::opencode::parts::Parts;
use attache::providers::contract::traits::AgentOptions;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A persona's folder beside another one and the secrets, as the one in which the findings were made.
struct House(tempfile::TempDir);

impl House {
    fn new() -> Self {
        let house = Self(tempfile::tempdir().expect("a temporary folder"));
        for path in [
            "personas/ada/knowledge/house.md",
            "personas/ada/workspace/draft.md",
            "personas/ada/PERSONA.md",
            "personas/ada/notes.md",
            "personas/eve/PERSONA.md",
            ".secrets",
        ] {
            let path = house.path(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, "x").expect("a file");
        }
        let ada = house.path("personas/ada");
        for (name, to) in [
            ("secret", "../../.secrets"),
            ("eve", "../eve"),
            ("etc", "/etc"),
            ("inner", "knowledge"),
            ("workspace/up", ".."),
            ("workspace/later", "/nowhere/yet"),
            ("workspace/persona", "../PERSONA.md"),
        ] {
            symlink(to, ada.join(name)).expect("a link");
        }
        std::fs::hard_link(house.path(".secrets"), ada.join("second-name.md"))
            .expect("a second name");
        std::fs::hard_link(house.path(".secrets"), ada.join("workspace/same.md"))
            .expect("a third name");
        house
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn invocation(&self, agent: &str, tier: Tier) -> Invocation {
        let fake = Fake::new("");
        let mut request = fake.request("Hello?");
        let options = request.agent.as_mut().expect("terms");
        (options.tier, options.folder) = (tier, text(&self.path("personas/ada")));
        serde_json::from_str(&fake.agent(agent).encode_request(&request).expect("sound"))
            .expect("an invocation")
    }

    fn options(&self, tier: Tier) -> AgentOptions {
        self.invocation("pi", tier).options
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Whether Claude Code is allowed to.
fn claude(house: &House, tier: Tier, writes: bool, path: &str) -> bool {
    let mut reading = begin("claude", &house.invocation("claude", tier));
    let init =
        json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m", "tools": []});
    reading.line(&init.to_string()).expect("it begins");
    let name = if writes { "Write" } else { "Read" };
    let asks = json!({"type": "control_request", "request_id": "r", "request": {
        "subtype": "can_use_tool", "tool_name": name, "input": { "file_path": path }, "tool_use_id": "t"}});
    let said: Value =
        serde_json::from_str(&reading.line(&asks.to_string()).expect("an answer").stdin)
            .expect("JSON");
    said["response"]["response"]["behavior"] == "allow"
}

/// Whether Pi, which asks nobody, goes on.
fn pi(house: &House, tier: Tier, writes: bool, path: &str) -> bool {
    let mut reading = begin("pi", &house.invocation("pi", tier));
    let says = json!({"type": "message_start", "message": {"role": "assistant", "model": "m", "content": []}});
    reading.line(&says.to_string()).expect("it begins");
    let name = if writes { "write" } else { "read" };
    let call = json!({"type": "tool_execution_start", "toolCallId": "t", "toolName": name, "args": {"path": path}});
    match reading.line(&call.to_string()) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.class, ErrorClass::DisallowedTool, "{path}");
            false
        }
    }
}

/// Whether OpenCode is granted it when it asks, and goes on when it does not ask.
fn opencode(house: &House, tier: Tier, writes: bool, path: &str) -> bool {
    let name = if writes { "edit" } else { "read" };
    let mut parts = Parts::new("s", &house.options(tier));
    let asked = json!({ "type": "permission.asked", "properties": { "id": "p", "sessionID": "s", "permission": name,
        "metadata": { "filepath": path } } });
    let is_granted = parts.frame(&asked).1.expect("an answer").is_granted;
    let mut parts = Parts::new("s", &house.options(tier));
    let state = json!({ "status": "completed", "input": { "filePath": path }, "output": "done" });
    let part = json!({ "type": "tool", "id": "t", "sessionID": "s", "messageID": "m", "callID": "c", "tool": name,
        "state": state });
    parts.frame(&json!({ "type": "message.part.updated", "properties": { "part": part } }));
    assert_eq!(parts.trespass().is_none(), is_granted, "{name} {path}");
    is_granted
}

#[test]
fn links_and_second_names_lead_no_agent_where_it_may_not_change() {
    let house = House::new();
    let absolute = |path: &str| text(&house.path(path));
    let (inside, outside) = (
        absolute("personas/ada/notes.md"),
        absolute("personas/eve/PERSONA.md"),
    );
    // Path -> may it be read, and written, at the tier `write`; and written at `full`.
    let cases: &[(&str, bool, bool, bool)] = &[
        ("notes.md", true, false, true),
        (&inside, true, false, true),
        ("new/folder/file.md", true, false, true),
        ("workspace/draft.md", true, true, true),
        ("workspace/new/deep/er.md", true, true, true),
        ("./workspace/../workspace/x.md", true, true, true),
        ("inner/house.md", true, false, false),
        ("PERSONA.md", true, false, false),
        ("persona.MD", true, false, false),
        ("persona.json", true, false, false),
        ("active.md", true, false, false),
        (".memory/active-1.md", true, false, false),
        ("responsibilities/evil.md", true, false, false),
        ("workspace/../responsibilities/evil.md", true, false, false),
        ("schemas/x.json", true, false, false),
        ("knowledge/house.md", true, false, false),
        ("workspace/up/knowledge/house.md", true, false, false),
        ("workspace/up/notes.md", true, false, true),
        ("workspace/persona", true, false, false),
        ("workspace/same.md", false, false, true),
        ("second-name.md", false, false, true),
        ("secret", false, false, true),
        ("eve/PERSONA.md", false, false, true),
        ("etc/passwd", false, false, true),
        // Two readings, and only one of them is inside.
        ("eve/../eve/PERSONA.md", false, false, true),
        ("workspace/later", false, false, true),
        ("workspace/later/x.md", false, false, true),
        (&outside, false, false, true),
        ("../eve/PERSONA.md", false, false, true),
        ("../ada2/x.md", false, false, true),
        ("~/.ssh/id", false, false, true),
        ("/etc/passwd", false, false, true),
    ];
    for agent in [claude, pi, opencode] {
        for (path, reads, writes, writes_full) in cases {
            assert_eq!(
                agent(&house, Tier::Write, false, path),
                *reads,
                "read {path}"
            );
            assert_eq!(
                agent(&house, Tier::Write, true, path),
                *writes,
                "write {path}"
            );
            assert_eq!(
                agent(&house, Tier::Full, true, path),
                *writes_full,
                "write {path} at `full`"
            );
            assert!(
                agent(&house, Tier::Full, false, path),
                "read {path} at `full`"
            );
        }
    }
}

#[test]
fn codex_works_in_the_one_folder_that_it_may_write_in() {
    let house = House::new();
    for (tier, folder) in [
        (Tier::ReadOnly, "personas/ada"),
        (Tier::Write, "personas/ada/workspace"),
        (Tier::Full, "personas/ada"),
    ] {
        let argv = house.invocation("codex", tier).argv;
        assert!(
            argv.contains(&format!("--cd={}", text(&house.path(folder)))),
            "{argv:?}"
        );
    }
    // Its sandbox makes that folder writable, so nothing else that it is told may name another.
    assert!(
        !house
            .invocation("codex", Tier::Write)
            .argv
            .iter()
            .any(|argument| argument.contains("writable_roots"))
    );
}
