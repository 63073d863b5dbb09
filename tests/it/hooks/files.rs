//! `configs/hooks.json` and `attache hooks`: what is refused, and what is shown.

use super::{allows, program};
use crate::app::{TestApp, Workspace};
use crate::guest_house::attache;
use attache::config::ConfigErrors;
use serde_json::{Value, json};

fn workspace() -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    program(&workspace, "hooks/h", &allows());
    workspace.write("hooks/plain", "no program\n");
    workspace
}

fn problems(hook: Value) -> Vec<String> {
    let workspace = workspace();
    workspace.write_json("configs/hooks.json", &json!({ "hooks": [hook] }));
    match attache::config::load(workspace.path(), &attache::cli::name_catalog()) {
        Ok(_) => Vec::new(),
        Err(ConfigErrors { problems }) => problems
            .iter()
            .map(|problem| format!("{}: {}", problem.path, problem.message))
            .collect(),
    }
}

#[test]
fn a_hook_that_cannot_be_is_an_error_that_says_where() {
    let hook = |more: Value| {
        let mut hook = json!({ "id": "h", "event": "before_call", "command": ["hooks/h"] });
        for (key, value) in more.as_object().expect("an object") {
            hook[key] = value.clone();
        }
        hook
    };
    assert_eq!(problems(hook(json!({}))), [] as [&str; 0]);
    let cases = [
        (json!({ "event": "sometimes" }), "hooks[0].event: "),
        (json!({ "command": [] }), "hooks[0].command: "),
        (
            json!({ "command": [""] }),
            "hooks[0].command: names no program",
        ),
        (
            json!({ "command": ["hooks/none"] }),
            "hooks[0].command: `hooks/none` is not a program",
        ),
        (
            json!({ "command": ["hooks/plain"] }),
            "hooks[0].command: `hooks/plain` is not a program",
        ),
        (
            json!({ "command": ["sh", "personas/ada/workspace/x.sh"] }),
            "hooks[0].command: `personas/ada/workspace/x.sh` is in a persona's folder",
        ),
        (
            json!({ "command": ["sh", "hooks/../personas/x.sh"] }),
            "hooks[0].command: `hooks/../personas/x.sh` is in a persona's folder",
        ),
        (
            json!({ "persona": "nobody" }),
            "hooks[0].persona: no persona `nobody`",
        ),
        (
            json!({ "tools": ["send_mail"] }),
            "hooks[0].tools: no tool `send_mail`",
        ),
        (
            json!({ "event": "after_run", "tools": ["send_email"] }),
            "hooks[0].tools: `after_run` belongs to a run and not to a tool",
        ),
        (
            json!({ "timeout": "1h" }),
            "hooks[0].timeout: `1h` is out of range",
        ),
        (json!({ "colour": "red" }), "hooks[0].colour: "),
    ];
    for (more, wanted) in cases {
        let found = problems(hook(more));
        assert!(
            found.iter().any(|problem| problem.starts_with(wanted)),
            "{wanted}: {found:?}"
        );
    }
}

#[tokio::test]
async fn a_faulty_edit_is_told_and_what_was_read_stays_in_force() {
    for file in [
        "configs/policy.json",
        "configs/hooks.json",
        "personas/ada/policy.json",
    ] {
        let app = TestApp::start(json!({ "rules": [{ "say": "Seven." }] })).await;
        let mut edits = app.engine.reloader();
        app.workspace.write_json(file, &json!({}));
        for _seen_and_settled in 0..2 {
            edits.look().await.expect("looked");
        }
        let sql = "SELECT CAST(count(*) AS TEXT), max(summary) FROM notices WHERE kind = $1";
        let told = app.row(sql, "config_faulty").await;
        assert_eq!(told[0].as_deref(), Some("0"), "{file}: a good edit");
        app.workspace.write(file, "{ \"rules\": [ ");
        for _again in 0..4 {
            edits.look().await.expect("looked");
        }
        let told = app.row(sql, "config_faulty").await;
        assert_eq!(told[0].as_deref(), Some("1"), "{file}");
        assert!(
            told[1]
                .as_deref()
                .is_some_and(|text| text.starts_with(file)),
            "{told:?}"
        );
        app.run_of(&crate::app::note("q@guest.example", "", "When?"))
            .await;
        app.drain().await;
        assert_eq!(app.sent().len(), 1, "{file}: it works on");
    }
}

#[test]
fn the_command_lists_hooks_and_tries_one() {
    let workspace = workspace();
    program(&workspace, "hooks/dies", "exit 7");
    workspace.write_json(
        "configs/hooks.json",
        &json!({ "hooks": [
            { "id": "h", "event": "before_send", "command": ["hooks/h"] },
            { "id": "dies", "event": "after_run", "command": ["hooks/dies"] },
        ] }),
    );
    std::fs::create_dir_all(workspace.path().join("data")).expect("a folder");
    let say = |args: &[&str]| {
        let said = attache(workspace.path(), args).output().expect("it runs");
        (
            said.status.code(),
            String::from_utf8_lossy(&said.stdout).into_owned(),
        )
    };
    let (code, listed) = say(&["hooks", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!((code, listed.as_array().map(Vec::len)), (Some(0), Some(2)));
    assert_eq!(listed[0]["timeout"], "10s");
    assert_eq!(listed[0]["sha256"].as_str().map(str::len), Some(64));
    let (code, said) = say(&["hooks", "test", "h"]);
    assert!(code == Some(0) && said.contains("allow"), "{said}");
    let (code, said) = say(&["hooks", "test", "dies"]);
    assert!(code == Some(1) && said.contains("exit code 7"), "{said}");
    assert_eq!(say(&["hooks", "test", "none"]).0, Some(66));
    workspace.write("occasion.json", "{\"mine\": true}");
    let (_, said) = say(&[
        "hooks",
        "test",
        "h",
        "--occasion",
        "occasion.json",
        "--json",
    ]);
    assert!(
        said.contains("\"mine\":true") || said.contains("\"mine\": true"),
        "{said}"
    );
}
