//! Each event: what its hook is given, and what a no does.

use super::{allows, answering, answers, denies, given, program, recorded, scene, with};
use crate::approvals::scene::{CONTACT, OWNER, Scene, asks};
use attache::store::ApprovalVerdict;
use serde_json::json;

/// A rule by which everybody may have mail sent to everybody: hooks alone decide.
fn open_to_all(workspace: &crate::app::Workspace) {
    let rule = json!({ "id": "all", "effect": "allow" });
    workspace.write_json("configs/policy.json", &json!({ "rules": [rule] }));
}

#[tokio::test]
async fn a_no_before_a_call_is_the_calls_result() {
    let scene = scene("before_call", &denies()).await;
    let run = scene.writes(OWNER, "o", "").await;
    let app = &scene.world.app;
    assert_eq!(
        app.trace(&run).await,
        ["call send_email", "hook_denied send_email"]
    );
    let last = app
        .prompts(&run)
        .await
        .pop()
        .expect("a request")
        .to_string();
    assert!(
        last.contains("the hook `h` does not allow it: not her"),
        "{last}"
    );
    assert!(scene.to_eve().is_empty() && scene.open().await.is_empty());
    let given = given(&scene, "h");
    assert_eq!(given.len(), 1);
    assert_eq!(given[0]["event"], "before_call");
    assert_eq!(given[0]["tool"], "send_email");
    assert_eq!(given[0]["args"]["to"][0], "eve@new.test");
    assert_eq!(given[0]["label"]["sender"], "owner");
    assert_eq!(given[0]["run"], run.as_str());
    assert_eq!(answers(&scene, &run).await, ["before_call send_email deny"]);
    // A replay asks nobody: it has the results.
    app.check().await;
    assert_eq!(super::given(&scene, "h").len(), 1);
}

#[tokio::test]
async fn a_yes_before_a_call_leaves_the_decision_to_the_policy() {
    let scene = scene("before_call", &allows()).await;
    scene.writes(OWNER, "o", "").await;
    assert_eq!(scene.open().await.len(), 1, "the table asks");
    assert!(scene.to_eve().is_empty());
}

#[tokio::test]
async fn a_hook_has_the_owner_asked_where_all_is_allowed() {
    let script = answering(r#"{"decision": "ask", "reason": "a new face"}"#);
    for event in ["before_call", "before_send"] {
        let scene = Scene::with(&asks(), |workspace| {
            open_to_all(workspace);
            program(workspace, "hooks/h", &script);
            let hook =
                json!({ "id": "h", "event": event, "tools": ["send_*"], "command": ["hooks/h"] });
            workspace.write_json("configs/hooks.json", &json!({ "hooks": [hook] }));
        })
        .await;
        scene.writes(OWNER, "o", "").await;
        let question = scene.only_question().await;
        assert!(
            question.reason.to_string().contains("a new face"),
            "{event}: {:?}",
            question.reason
        );
        scene
            .decide(&question.id, ApprovalVerdict::Approve, "")
            .await;
        scene.world.app.drain().await;
        assert_eq!(scene.to_eve().len(), 1, "{event}");
        assert_eq!(given(&scene, "h").len(), 1, "{event}: once for one call");
        scene.world.app.check().await;
    }
}

#[tokio::test]
async fn a_no_before_a_mail_keeps_it_and_the_answer_back() {
    let scene = Scene::with(&asks(), |workspace| {
        open_to_all(workspace);
        program(workspace, "hooks/h", &denies());
        let hook = json!({ "id": "h", "event": "before_send", "command": ["hooks/h"] });
        workspace.write_json("configs/hooks.json", &json!({ "hooks": [hook] }));
    })
    .await;
    let run = scene.writes(CONTACT, "c", "").await;
    let app = &scene.world.app;
    assert_eq!(
        app.trace(&run).await,
        ["call send_email", "hook_denied send_email"]
    );
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert!(app.sent().is_empty(), "{:?}", app.sent());
    let sql = "SELECT disposition FROM messages WHERE run_id = $1";
    let row = app.row(sql, &run).await;
    assert_eq!(row[0].as_deref(), Some("withheld:hook_denied"));
    let given = given(&scene, "h");
    assert_eq!(given[0]["mail"]["to"][0], "eve@new.test");
    assert_eq!(given[0]["mail"]["text"], "We meet on Tuesday.");
    assert_eq!(given[1]["tool"], "reply");
    assert_eq!(given[1]["mail"]["to"][0], "carol@partner.test");
    app.check().await;
}

#[tokio::test]
async fn a_no_after_a_call_withholds_its_result_and_its_mail() {
    let model = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "when": { "turn": 1 }, "call": [{ "tool": "send_email", "args":
            { "to": ["olga@home.test"], "subject": "The plan", "body": "We meet on Tuesday." } }] },
        { "say": "It is done, or it is not." },
    ] });
    let scene = with(&model, "after_call", &denies()).await;
    let run = scene.writes(CONTACT, "c", "").await;
    let app = &scene.world.app;
    let trace = app.trace(&run).await;
    assert_eq!(
        trace,
        [
            "call read_file",
            "hook_denied read_file",
            "call send_email",
            "hook_denied send_email"
        ]
    );
    let prompts = app.prompts(&run).await;
    assert!(
        !prompts
            .iter()
            .any(|prompt| prompt["messages"].to_string().contains("From seven to ten"))
    );
    assert_eq!(app.sent().len(), 1, "the answer alone");
    assert!(
        given(&scene, "h")[0]["result"]
            .to_string()
            .contains("From seven to ten")
    );
    app.check().await;
}

#[tokio::test]
async fn a_no_before_a_run_ends_it_before_the_model_is_asked() {
    let scene = scene("before_run", &denies()).await;
    let run = scene.writes(CONTACT, "c", "").await;
    let app = &scene.world.app;
    let (state, _, class) = app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), class.as_deref()),
        ("failed", Some("hook_denied"))
    );
    assert!(app.prompts(&run).await.is_empty());
    let given = given(&scene, "h");
    assert_eq!(given[0]["letter"]["from"], CONTACT);
    assert!(given[0]["letter"]["text"].to_string().contains("Tell Eve"));
    assert_eq!(answers(&scene, &run).await, ["before_run  deny"]);
    app.check().await;
}

/// A run that waits for its owner, and goes on in another engine, began once.
#[tokio::test]
async fn a_run_that_goes_on_is_not_asked_about_again() {
    let scene = scene("before_run", &allows()).await;
    let run = scene.writes(CONTACT, "c", "").await;
    let id = scene.only_question().await.id;
    scene.decide(&id, ApprovalVerdict::Approve, "").await;
    scene.world.app.drain().await;
    assert_eq!(scene.to_eve().len(), 1);
    assert_eq!(answers(&scene, &run).await, ["before_run  allow"]);
}

#[tokio::test]
async fn the_end_of_a_run_is_told_whatever_it_is() {
    let scene = scene("after_run", &denies()).await;
    let run = scene.writes("Mallory <mallory@evil.test>", "m", "").await;
    let app = &scene.world.app;
    assert_eq!(
        app.outcome(&run).await.0,
        "succeeded",
        "a no comes too late"
    );
    assert_eq!(answers(&scene, &run).await, ["after_run  deny"]);
    assert_eq!(given(&scene, "h")[0]["ending"]["stop_reason"], "answered");

    let broken = json!({ "rules": [{ "error": { "class": "bad_request", "message": "no" } }] });
    let scene = with(&broken, "after_run", &allows()).await;
    let run = scene.writes(CONTACT, "c", "").await;
    assert_eq!(scene.world.app.outcome(&run).await.0, "failed");
    let given = given(&scene, "h");
    assert_eq!(given[0]["ending"]["error"]["class"], "bad_request");
}

/// The first that denies decides; a hook for another persona or tool is not asked.
#[tokio::test]
async fn hooks_are_asked_in_order_until_one_denies() {
    let scene = Scene::with(&asks(), |workspace| {
        workspace.persona("bea", "Bea");
        for (id, script) in [("a", allows()), ("b", denies()), ("c", allows()), ("d", denies())] {
            program(workspace, &format!("hooks/{id}"), &script);
        }
        let hook = |id: &str| json!({ "id": id, "event": "before_call", "command": [format!("hooks/{id}")] });
        let (mut of_bea, mut of_files) = (hook("d"), hook("d"));
        of_bea["persona"] = json!("bea");
        (of_files["id"], of_files["tools"]) = (json!("e"), json!(["read_*"]));
        let hooks = json!([of_bea, of_files, hook("a"), hook("b"), hook("c")]);
        workspace.write_json("configs/hooks.json", &json!({ "hooks": hooks }));
    })
    .await;
    let run = scene.writes(OWNER, "o", "").await;
    let asked: Vec<String> = recorded(&scene, &run)
        .await
        .into_iter()
        .map(|call| call.hook)
        .collect();
    assert_eq!(asked, ["a", "b"]);
}

/// The same program with other bytes is another hook in the record.
#[tokio::test]
async fn an_answer_is_recorded_with_the_digest_of_its_program() {
    let scene = scene("before_call", &denies()).await;
    let first = scene.writes(OWNER, "o1", "").await;
    let again = scene.writes(OWNER, "o2", "").await;
    program(
        &scene.world.app.workspace,
        "hooks/h",
        &format!("{}\n# edited", denies()),
    );
    let edited = scene.writes(OWNER, "o3", "").await;
    let mut digests = Vec::new();
    for run in [&first, &again, &edited] {
        digests.push(recorded(&scene, run).await.remove(0).hook_sha256);
    }
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
}

/// Keys of providers and other secrets of the engine are not in a hook's environment.
#[tokio::test]
async fn a_hook_sees_no_secret_of_the_engine() {
    let script = "env >data/environment\necho '{\"decision\": \"allow\"}'";
    let scene = scene("before_call", script).await;
    scene.writes(OWNER, "o", "").await;
    let seen = std::fs::read_to_string(scene.world.app.workspace.path().join("data/environment"));
    let seen = seen.expect("an environment");
    let names: Vec<&str> = seen
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    assert!(
        ["ATTACHE_HOOK", "PATH", "TRACEPARENT"]
            .iter()
            .all(|name| names.contains(name)),
        "{names:?}"
    );
    let known = [
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "TZ",
        "ATTACHE_HOOK",
        "TRACEPARENT",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    ];
    let others: Vec<&&str> = names.iter().filter(|name| !known.contains(name)).collect();
    // The last one marks its processes, so that none outlives the engine.
    assert!(
        others.iter().all(|name| name.starts_with("ATTACHE_")),
        "{others:?}"
    );
}
