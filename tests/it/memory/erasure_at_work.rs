//! Runs that are at work with a text when their owner erases it: they go on, and lose their records when they have ended.

use super::erasure::{SECRET, concluded, is_in_files};
use super::scene::MemoryScene;
use crate::approvals::scene::{CONTACT, OWNER};
use attache::replay::verify::Outcome;
use attache::store::{ApprovalVerdict, ErasedMemory};
use serde_json::{Value, json};
use std::time::Duration;

/// As [`concluded`], and writes to somebody new, which an owner must approve.
fn concluded_and_writes() -> Value {
    let mut script = concluded(SECRET);
    let rules = script["rules"].as_array_mut().expect("rules");
    rules.insert(
        0,
        json!({ "when": { "turn": 0, "contains": "write to Eve" }, "call": [{ "tool": "send_email", "args":
            { "to": ["eve@new.test"], "subject": "The plan", "body": "We meet on Tuesday." } }] }),
    );
    rules.insert(
        0,
        json!({ "when": { "turn": 1, "after_tool": "send_email" }, "call": [{ "tool": "recall", "args":
            { "query": "marzipan quincunxes" } }] }),
    );
    script
}

/// What redacts a run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sweep {
    Engine,
    Forget,
    Gc,
}

async fn at_work(sweep: Sweep) {
    let scene = MemoryScene::with(&concluded_and_writes()).await;
    let app = &scene.scene.world.app;
    let store = &app.engine.store;
    scene
        .writes(CONTACT, "m1", "", "For tea: no sweets please, thank you.")
        .await;
    let id = scene.entries().await[0].id.clone();
    let told = scene
        .writes(CONTACT, "m2", "", "Please write to Eve.")
        .await;
    assert_eq!(app.outcome(&told).await.0, "waiting_approval");
    assert!(scene.prompt(&told).await.contains("zymotically"));
    let question = scene.scene.only_question().await.id;
    let other = scene.writes(OWNER, "m3", "", "Please write to Eve.").await;

    let erased: ErasedMemory = store
        .erase_memory(std::slice::from_ref(&id), "uid 7")
        .await
        .expect("erased");
    assert_eq!((erased.runs, erased.runs_at_work), (1, 1), "{erased:?}");
    assert!(
        scene.prompt(&told).await.contains("zymotically"),
        "a run at work keeps what it needs"
    );
    assert_eq!(store.redact_ended_runs().await.expect("a pass"), 0);

    let verdict = ApprovalVerdict::Approve;
    scene.scene.decide(&question, verdict, "").await;
    app.drain().await;
    assert_eq!(app.outcome(&told).await.0, "succeeded");
    let trace = scene.trace(&told).await;
    assert!(trace.contains(&"ok send_email".to_owned()), "{trace:?}");
    let attache = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
        command.current_dir(app.workspace.path()).args(args);
        let output = command.output().expect("attache");
        assert!(output.status.success(), "{output:?}");
    };
    match sweep {
        Sweep::Engine => {
            app.workspace.clock.advance(Duration::from_secs(61));
            app.drain().await;
        }
        Sweep::Forget => attache(&["memory", "forget", "--id", &id]),
        Sweep::Gc => attache(&["gc", "--older-than", "3650d"]),
    }
    assert_eq!(store.pending_redactions().await.expect("a count"), 0);
    for verified in app.workspace.verified().await {
        let is_redacted = matches!(verified.outcome, Outcome::Redacted { .. });
        let is_whole = matches!(verified.outcome, Outcome::Identical { .. });
        assert!(is_redacted || is_whole, "{sweep:?} {verified:#?}");
        assert_eq!(is_whole, verified.run == other, "{sweep:?} {verified:#?}");
    }
    assert!(scene.prompt(&other).await.contains("write to Eve"));
    assert_eq!(scene.trace(&told).await, trace, "what came of it stays");
    assert!(store.rewrite_file().await.expect("a file"));
    assert!(!is_in_files(app.workspace.path(), b"zymotically"));
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_at_work_is_redacted_by_the_engine_when_it_has_ended() {
    at_work(Sweep::Engine).await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_that_has_ended_is_redacted_by_the_next_command() {
    at_work(Sweep::Forget).await;
    at_work(Sweep::Gc).await;
}

/// What was erased before is not counted again, and a replay says who took what a run was told.
#[tokio::test]
async fn a_second_erasure_finds_nothing_and_replays_name_the_owner() {
    let scene = MemoryScene::with(&concluded(SECRET)).await;
    let app = &scene.scene.world.app;
    let run = scene
        .writes(CONTACT, "m1", "", "For tea: no sweets please, thank you.")
        .await;
    let id = scene.entries().await[0].id.clone();
    let attache = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
        command.current_dir(app.workspace.path()).args(args);
        let output = command.output().expect("attache");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).expect("text")
    };
    let first = attache(&["memory", "forget", "--id", &id]);
    assert!(first.contains("erased: 1 entry"), "{first}");
    let second = attache(&["memory", "forget", "--id", &id]);
    assert!(second.contains("nothing left to erase"), "{second}");
    assert!(!second.contains("erased: 1"), "{second}");
    assert_eq!(scene.acts(&id).await, ["added", "erased"]);
    for args in [
        &["replay", &run][..],
        &["replay", "show", &run, "--raw", "request", "--turn", "0"],
        &["replay", "fork", &run, "--at-turn", "0"],
        &["replay", "verify", &run],
    ] {
        let said = attache(args);
        assert!(said.contains("its owner erased"), "{args:?} {said}");
        assert!(!said.contains("pruned"), "{args:?} {said}");
    }
}

/// Nobody erases by mistake: what would go is shown first, and more than one entry goes only with a word.
#[tokio::test]
#[ignore = "second tier"]
async fn what_would_go_is_shown_and_nothing_changes() {
    let scene = MemoryScene::with(&concluded(SECRET)).await;
    let app = &scene.scene.world.app;
    scene
        .writes(CONTACT, "m1", "", "For tea: no sweets please, thank you.")
        .await;
    scene.tells(CONTACT, "m2", "Carol keeps a boat.").await;
    let files = || {
        let names = ["attache.db", "attache.db-wal"];
        names.map(|name| std::fs::read(app.workspace.path().join("data").join(name)).ok())
    };
    let attache = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
        command.current_dir(app.workspace.path());
        let output = command.args(["memory", "forget"]).args(args).output();
        let output = output.expect("attache");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let ids: Vec<String> = scene.entries().await.into_iter().map(|e| e.id).collect();
    let of_carol = ["--contact", "carol@partner.test"];
    let before = files();
    for (args, end) in [
        (
            &["--id", &ids[0], "--id", &ids[1], "--dry-run"][..],
            "nothing was changed\n",
        ),
        (&of_carol[..], "nothing was changed; say --yes to do it\n"),
        (
            &["--since", "2020-01-01"][..],
            "nothing was changed; say --yes to do it\n",
        ),
    ] {
        let shown = attache(args);
        assert!(shown.contains("would be erased: 2 entries"), "{shown}");
        assert!(
            shown.contains(&ids[0]) && shown.contains("abhors"),
            "{shown}"
        );
        assert!(shown.contains("of `messages."), "{shown}");
        assert!(!shown.contains("`memory.text`"), "{shown}");
        assert!(shown.ends_with(end), "{shown}");
        assert!(files() == before, "{args:?} has changed the database");
    }
    let dry: Value =
        serde_json::from_str(&attache(&[&of_carol[..], &["--json"]].concat())).expect("json");
    assert_eq!(
        (&dry["dry_run"], &dry["entries"]),
        (&json!(true), &json!(2))
    );
    let done = attache(&[&of_carol[..], &["--yes"]].concat());
    assert!(done.contains("erased: 2 entries"), "{done}");
    assert!(
        scene
            .entries()
            .await
            .iter()
            .all(|entry| entry.text.is_empty())
    );
    let runs = format!("of {} runs", dry["runs"]);
    assert!(done.contains(&runs), "{done} {dry}");
}
