//! A hook that hangs, dies or answers nonsense: a no, and the owner is told.

use super::{allows, answers, given, program, recorded, scene, with};
use crate::approvals::scene::{CONTACT, OWNER, Scene, asks};
use serde_json::json;

const HANGS: &str = "sleep 600 & sleep 600";

/// What is wrong, and the script.
fn failures() -> Vec<(&'static str, String)> {
    vec![
        ("hangs", HANGS.to_owned()),
        (
            "hangs after its answer",
            format!("echo '{{\"decision\": \"allow\"}}'\n{HANGS}"),
        ),
        ("ignores its end", format!("trap '' TERM\n{HANGS}")),
        ("dies", "kill -KILL $$".to_owned()),
        (
            "exits with one",
            "echo '{\"decision\": \"allow\"}'\nexit 1".to_owned(),
        ),
        ("says nothing", "cat >/dev/null".to_owned()),
        ("answers in words", "echo allow".to_owned()),
        (
            "answers twice",
            "echo '{\"decision\": \"allow\"}'\necho '{\"decision\": \"allow\"}'".to_owned(),
        ),
        (
            "answers something else",
            "echo '{\"decision\": \"perhaps\"}'".to_owned(),
        ),
        (
            "writes without an end",
            "yes '{\"decision\": \"allow\"}'".to_owned(),
        ),
        (
            "writes bytes that are no text",
            "printf '\\377\\376'".to_owned(),
        ),
    ]
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_hook_that_gives_no_answer_counts_as_a_no() {
    for (what, script) in failures() {
        let scene = Scene::with(&asks(), |workspace| {
            program(workspace, "hooks/h", &script);
            let hook = json!({ "id": "h", "event": "before_call", "command": ["hooks/h"], "timeout": "700ms" });
            workspace.write_json("configs/hooks.json", &json!({ "hooks": [hook] }));
            let rule = json!({ "id": "all", "effect": "allow" });
            workspace.write_json("configs/policy.json", &json!({ "rules": [rule] }));
        })
        .await;
        let run = scene.writes(OWNER, "o", "").await;
        let trace = scene.world.app.trace(&run).await;
        assert_eq!(
            trace,
            ["call send_email", "hook_failed send_email"],
            "{what}"
        );
        assert!(scene.to_eve().is_empty(), "{what}");
        assert_eq!(
            answers(&scene, &run).await,
            ["before_call send_email failed"],
            "{what}"
        );
        let sql = "SELECT kind, summary FROM notices WHERE subject_id = $1";
        let notice = scene.world.app.row(sql, "h").await;
        assert_eq!(notice[0].as_deref(), Some("hook_failed"), "{what}");
        scene.world.app.check().await;
    }
}

/// The control: the same scene with a hook that answers.
#[tokio::test]
async fn a_hook_that_allows_lets_the_mail_go() {
    let scene = Scene::with(&asks(), |workspace| {
        program(workspace, "hooks/h", &allows());
        let hook = json!({ "id": "h", "event": "before_call", "command": ["hooks/h"] });
        workspace.write_json("configs/hooks.json", &json!({ "hooks": [hook] }));
        let rule = json!({ "id": "all", "effect": "allow" });
        workspace.write_json("configs/policy.json", &json!({ "rules": [rule] }));
    })
    .await;
    scene.writes(OWNER, "o", "").await;
    assert_eq!(scene.to_eve().len(), 1);
}

#[tokio::test]
async fn a_program_that_is_gone_counts_as_a_no() {
    for event in ["before_run", "before_send"] {
        let scene = scene(event, &allows()).await;
        std::fs::remove_file(scene.world.app.workspace.path().join("hooks/h")).expect("removed");
        let run = scene.writes(CONTACT, "c", "").await;
        let reasons: Vec<String> = recorded(&scene, &run)
            .await
            .into_iter()
            .map(|call| call.reason)
            .collect();
        assert!(
            reasons
                .iter()
                .all(|reason| reason == "`hooks/h` is not a program"),
            "{reasons:?}"
        );
        assert!(
            !reasons.is_empty() && scene.world.app.sent().is_empty(),
            "{event}"
        );
    }
}

/// Only before a call and before a mail is there something that an owner could be asked about.
#[tokio::test]
async fn ask_is_no_answer_elsewhere() {
    let script = super::answering(r#"{"decision": "ask"}"#);
    let scene = with(&asks(), "before_run", &script).await;
    let run = scene.writes(CONTACT, "c", "").await;
    assert_eq!(
        scene.world.app.outcome(&run).await.2.as_deref(),
        Some("hook_denied")
    );
    assert_eq!(answers(&scene, &run).await, ["before_run  failed"]);
}

/// Twenty failures of a day are one notice.
#[tokio::test]
#[ignore = "second tier"]
async fn the_owner_is_told_once_a_day() {
    let scene = scene("before_call", "exit 3").await;
    for number in 0..20 {
        scene.writes(OWNER, &format!("o{number}"), "").await;
    }
    let sql = "SELECT CAST(count(*) AS TEXT), max(summary) FROM notices WHERE kind = $1";
    let row = scene.world.app.row(sql, "hook_failed").await;
    assert_eq!(row[0].as_deref(), Some("1"));
    assert!(
        row[1]
            .as_deref()
            .is_some_and(|text| text.contains("exit code 3")),
        "{row:?}"
    );
    assert!(given(&scene, "h").is_empty());
}

/// A hook that others may write says no, as one that gives no answer does.
#[tokio::test]
async fn a_hook_that_others_may_write_is_not_started() {
    let scene = Scene::with(&asks(), |workspace| {
        program(
            workspace,
            "hooks/h",
            "touch started; echo '{\"decision\": \"allow\"}'",
        );
        let hook = json!({ "id": "h", "event": "before_call", "command": ["hooks/h"] });
        workspace.write_json("configs/hooks.json", &json!({ "hooks": [hook] }));
        let rule = json!({ "id": "all", "effect": "allow" });
        workspace.write_json("configs/policy.json", &json!({ "rules": [rule] }));
    })
    .await;
    let root = scene.world.app.workspace.path();
    for (path, mode) in [("", 0o755), ("hooks", 0o755), ("hooks/h", 0o777)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(root.join(path), mode).expect("a mode");
    }
    let run = scene.writes(OWNER, "o", "").await;
    let trace = scene.world.app.trace(&run).await;
    assert_eq!(trace, ["call send_email", "hook_failed send_email"]);
    assert!(!root.join("started").exists());
    assert!(scene.to_eve().is_empty());
}
