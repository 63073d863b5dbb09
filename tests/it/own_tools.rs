//! Tools that are programs of the owner's: what they are given, what becomes of their answers, and what bounds them.

mod configuration;
#[cfg(target_os = "linux")]
mod orphans;

use crate::app::{TestApp, Workspace};
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use crate::maintenance::workspace::attache;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// Writes an own tool with a shell script as its program; `more` replaces members of its definition.
pub fn own_tool(workspace: &Workspace, name: &str, script: &str, more: &Value) {
    let folder = format!("configs/tools/{name}");
    workspace.write(&format!("{folder}/run"), &format!("#!/bin/sh\n{script}\n"));
    let program = workspace.path().join(&folder).join("run");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut definition = json!({
        "description": "Says how warm it is in a city.",
        "arguments": { "properties": { "city": { "type": "string", "description": "Name of the city." } }, "required": ["city"] },
        "command": ["./run"],
        "class": "repeatable",
        "effects": {},
    });
    let members = more.as_object().expect("members");
    definition
        .as_object_mut()
        .expect("an object")
        .extend(members.clone());
    workspace.write_json(&format!("{folder}/tool.json"), &definition);
}

/// Asks how warm it is, and answers what it was told.
fn asks() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "weather", "args": { "city": "Oslo" } }] },
        { "say": "It is so: {{result}}" },
    ] })
}

async fn scene(script: &str, more: Value) -> Scene {
    Scene::with(&asks(), |workspace| {
        own_tool(workspace, "weather", script, &more);
    })
    .await
}

async fn last_prompt(app: &TestApp, run: &str) -> String {
    let prompts = app.prompts(run).await;
    prompts.last().expect("a request").to_string()
}

#[tokio::test]
async fn a_letter_is_answered_by_what_the_program_says_and_replayed_without_it() {
    let scene = scene(
        "tee given.json | grep -c Oslo >/dev/null && echo 'minus 4 degrees'",
        json!({}),
    )
    .await;
    let run = scene.writes(CONTACT, "w1", "").await;
    let app = &scene.world.app;
    assert!(
        app.sent()[0].text.contains("minus 4 degrees"),
        "{}",
        app.sent()[0].text
    );
    let folder = app.workspace.path().join("configs/tools/weather");
    let given: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("given.json")).expect("given"))
            .expect("JSON");
    assert_eq!(given["arguments"], json!({ "city": "Oslo" }));
    assert_eq!(
        (given["tool"].as_str(), given["run"].as_str()),
        (Some("weather"), Some(run.as_str()))
    );
    assert_eq!(given["sender"]["trust"], "contact");
    // The program is gone, and every run is executed again with what was recorded.
    std::fs::remove_file(folder.join("run")).expect("removed");
    app.check().await;
}

#[tokio::test]
async fn arguments_that_do_not_fit_start_nothing() {
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "weather", "args": { "town": "Oslo" } }] },
        { "say": "It is so: {{result}}" },
    ] });
    let scene = Scene::with(&script, |workspace| {
        own_tool(workspace, "weather", "touch started", &json!({}));
    })
    .await;
    let run = scene.writes(CONTACT, "w1", "").await;
    let app = &scene.world.app;
    assert_eq!(
        app.trace(&run).await,
        ["call weather", "invalid_arguments weather"]
    );
    assert!(
        !app.workspace
            .path()
            .join("configs/tools/weather/started")
            .exists()
    );
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_answer_is_a_text_or_json_or_an_error_of_its_own() {
    for (script, expected) in [
        ("echo ' 21 '", r#"\"content\":\"21\""#),
        (
            r#"echo '{"content": {"degrees": 21}}'"#,
            r#"\"degrees\":21"#,
        ),
        (
            r#"echo '{"content": "no such city", "is_error": true}'"#,
            r#"\"content\":\"no such city\",\"is_error\":true"#,
        ),
        (r#"echo '{"degrees": 21}'"#, r#"degrees"#),
        ("true", r#"\"content\":\"\""#),
    ] {
        let scene = scene(script, json!({})).await;
        let run = scene.writes(CONTACT, "w1", "").await;
        let prompt = last_prompt(&scene.world.app, &run).await;
        assert!(
            prompt.contains(expected)
                || prompt
                    .replace('\\', "")
                    .contains(&expected.replace('\\', "")),
            "{script}: {prompt}"
        );
        let is_error = script.contains("is_error");
        let trace = scene.world.app.trace(&run).await;
        let outcome = if is_error { "tool_error" } else { "ok" };
        assert_eq!(trace[1], format!("{outcome} weather"));
        let told = prompt.replace('\\', "").contains(r#""is_error":true"#);
        assert_eq!(told, is_error, "{prompt}");
        // The owner sees the same, in the record and when they try it.
        let workspace = scene.world.app.workspace.path();
        let (_, shown, _) = attache(workspace, &["replay", &run]).await;
        assert_eq!(shown.contains("no such city"), is_error, "{shown}");
        let args = ["tools", "try", "weather", r#"{"city": "Oslo"}"#];
        let (code, tried, _) = attache(workspace, &args).await;
        assert_eq!(code, i32::from(is_error), "{tried}");
        // An error holds the words of others as any result does.
        let sql = "SELECT payload_json FROM thread_tool_events WHERE run_id = $1 AND event_type <> 'tool_call'";
        let row = scene.world.app.row(sql, &run).await;
        let recorded = row[0].clone().expect("a result");
        assert!(
            recorded.contains(r#""label":{"lowest":"unknown""#),
            "{recorded}"
        );
        scene.world.app.check().await;
    }
}

#[tokio::test]
async fn the_time_of_a_call_is_the_one_that_is_set_by_its_name() {
    let scene = Scene::with(&asks(), |workspace| {
        own_tool(workspace, "weather", "sleep 300", &json!({}));
        let times = json!({ "weather": "300ms" });
        workspace.set("configs/inference.json", "/tool_timeouts", times);
    })
    .await;
    let run = scene.writes(CONTACT, "w1", "").await;
    let app = &scene.world.app;
    let trace = app.trace(&run).await;
    assert_eq!(trace, ["call weather", "tool_timeout weather"]);
    let prompt = last_prompt(app, &run).await;
    assert!(prompt.contains("300ms"), "{prompt}");
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_program_that_fails_hangs_or_floods_is_a_sentence_to_the_model() {
    let long = "sleep 300 & echo $! >child; sleep 300";
    for (script, timeout, code) in [
        ("echo secret-path >&2; exit 3", "30s", "tool_failed weather"),
        (long, "300ms", "tool_timeout weather"),
        ("yes flood | head -c 2000000", "30s", "tool_failed weather"),
        ("kill -KILL $$", "30s", "tool_failed weather"),
    ] {
        let scene = scene(script, json!({ "timeout": timeout })).await;
        let run = scene.writes(CONTACT, "w1", "").await;
        let app = &scene.world.app;
        assert_eq!(app.trace(&run).await, ["call weather", code], "{script}");
        let prompt = last_prompt(app, &run).await;
        assert!(
            !prompt.contains("secret-path") && !prompt.contains("flood\\n"),
            "{prompt}"
        );
        assert_eq!(app.outcome(&run).await.0, "succeeded", "the run goes on");
        if script == long {
            let child = app.workspace.path().join("configs/tools/weather/child");
            let child = std::fs::read_to_string(child).expect("a child");
            let is_dead = || {
                let status = std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
                status.map_or(true, |status| status.contains(") Z "))
            };
            assert!(
                is_dead(),
                "what the program started is gone when the run goes on"
            );
        }
        app.check().await;
    }
}

#[tokio::test]
async fn a_result_is_an_unknown_authors_words_unless_the_owner_vouches_for_it() {
    let label = |trusted: bool| async move {
        let scene = scene("echo mild", json!({ "trusted_result": trusted })).await;
        let run = scene.writes(OWNER, "w1", "").await;
        let sql = "SELECT payload_json FROM thread_tool_events WHERE event_type = 'tool_result' AND run_id = $1";
        let row = scene.world.app.row(sql, &run).await;
        let payload: Value =
            serde_json::from_str(row[0].as_deref().expect("a payload")).expect("JSON");
        payload["label"]["lowest"].clone()
    };
    assert_eq!(label(false).await, "unknown");
    assert_eq!(label(true).await, Value::Null);
}

#[tokio::test]
#[ignore = "second tier"]
async fn effects_decide_who_gets_a_tool() {
    for (effects, is_for_strangers) in [(json!({}), true), (json!({ "runs_code": true }), false)] {
        let workspace = Workspace::new(&asks());
        own_tool(
            &workspace,
            "weather",
            "echo mild",
            &json!({ "effects": effects }),
        );
        let app = workspace.start().await;
        let proven = app
            .run_of(&crate::app::proven_note(
                "p1@guest.example",
                "",
                "How warm?",
            ))
            .await;
        let unproven = app
            .run_of(&crate::app::note("u1@guest.example", "", "How warm?"))
            .await;
        app.drain().await;
        assert_eq!(app.trace(&proven).await[1], "ok weather", "{effects}");
        let expected = match is_for_strangers {
            true => "ok weather",
            false => "tool_closed weather",
        };
        assert_eq!(app.trace(&unproven).await[1], expected, "{effects}");
        app.check().await;
    }
}

#[tokio::test]
async fn what_not_everybody_may_read_leaves_through_no_program_without_the_owner() {
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "search_email", "args": { "query": "KAPPA" } }] },
        { "when": { "turn": 1 }, "call": [{ "tool": "weather", "args": { "city": "Oslo" } }] },
        { "say": "It is so: {{result}}" },
    ] });
    for (effects, expected) in [(json!({ "sends_out": true }), 1), (json!({}), 0)] {
        let scene = Scene::with(&script, |workspace| {
            own_tool(
                workspace,
                "weather",
                "touch started; echo mild",
                &json!({ "effects": effects }),
            );
        })
        .await;
        let quiet = "List-Id: <quiet.partner.test>\r\n";
        let secret = scene.signed(CONTACT, "ada@engine.test", "k", quiet, "KAPPA is the word.");
        scene
            .deliver(&secret, "ada@engine.test")
            .await
            .expect("filed");
        scene.writes(OWNER, "w1", "").await;
        assert_eq!(scene.open().await.len(), expected, "{effects}");
        let started = scene
            .world
            .app
            .workspace
            .path()
            .join("configs/tools/weather/started");
        assert_eq!(started.exists(), expected == 0, "{effects}");
    }
}

#[tokio::test]
async fn a_tool_is_for_the_personas_that_it_names() {
    let scene = Scene::with(&asks(), |workspace| {
        workspace.persona("bea", "Bea");
        own_tool(
            workspace,
            "weather",
            "echo mild",
            &json!({ "personas": ["bea"] }),
        );
    })
    .await;
    let run = scene.writes(CONTACT, "w1", "").await;
    let trace = scene.world.app.trace(&run).await;
    assert_eq!(trace, ["call weather", "unknown_tool weather"]);
}

/// R12: a program that other users of the machine may write is nobody's word, and is not started.
#[tokio::test]
#[ignore = "second tier"]
async fn a_program_that_others_may_write_is_not_started() {
    let tool = "configs/tools/weather";
    for (path, mode) in [
        ("run", 0o777),
        ("run", 0o776),
        ("run", 0o757),
        ("", 0o777),
        ("..", 0o773),
        ("../..", 0o777),
    ] {
        let scene = scene("touch started; echo warm", json!({})).await;
        let app = &scene.world.app;
        let root = app.workspace.path();
        let chmod = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        };
        for folder in ["", "configs", "configs/tools", tool] {
            chmod(&root.join(folder), 0o755);
        }
        // The engine works already: nothing of the configuration is read again.
        chmod(&root.join(tool).join(path), mode);
        let run = scene.writes(CONTACT, "w1", "").await;
        assert_eq!(
            app.trace(&run).await,
            ["call weather", "tool_failed weather"],
            "{path} {mode:o}"
        );
        assert!(!root.join(tool).join("started").exists(), "{path} {mode:o}");
        chmod(root, 0o700);
        let run = scene.writes(CONTACT, "w2", "").await;
        assert_eq!(
            app.trace(&run).await,
            ["call weather", "ok weather"],
            "{path} {mode:o}: nobody else reaches it"
        );
        app.check().await;
    }
}
