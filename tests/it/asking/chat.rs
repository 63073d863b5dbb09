//! `attache chat`: messages from a terminal or a pipe, each a run, in one thread until `/new`.

use super::{ask, house};
use crate::app::db;
use crate::app::{TestApp, Workspace};
use serde_json::{Value, json};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

fn listed(folder: &TempDir, what: &str) -> Vec<Value> {
    let shown = ask(folder, &["--json", what, "list"], "").1;
    serde_json::from_str(&shown).expect("JSON")
}

#[test]
fn in_a_pipe_the_answer_is_all_that_stdout_has() {
    let folder = house(&json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "list_files", "args": {} }] },
        { "say": "Until eight.\n\nLena" },
    ] }));
    let (code, stdout, stderr) = ask(&folder, &["chat", "concierge"], "hello\n");
    assert_eq!(
        (code, stdout.as_str()),
        (0, "Until eight.\n\nLena\n"),
        "{stderr}"
    );
    assert!(
        stderr.contains("· list_files") && stderr.contains("list_files: done"),
        "{stderr}"
    );
    assert!(!stderr.contains("you talk to"), "{stderr}");
    let runs = listed(&folder, "runs");
    assert_eq!(
        (runs.len(), &runs[0]["trigger"]),
        (1, &json!("chat")),
        "{runs:?}"
    );
    assert_eq!(
        ask(&folder, &["--json", "outbox", "list"], "").1.trim(),
        "[]"
    );
}

#[test]
#[ignore = "second tier"]
fn messages_go_on_in_one_thread_until_a_new_one_is_begun() {
    let folder = house(&json!({ "rules": [
        { "when": { "contains": "And then?" }, "say": "As I said." },
        { "say": "Until eight." },
    ] }));
    let typed = "Until when?\n\nAnd then?\n/run\n/new\nOf two \\\nlines\n/thread\n";
    let (code, stdout, stderr) = ask(&folder, &["chat", "concierge"], typed);
    assert_eq!(
        (code, stdout.as_str()),
        (0, "Until eight.\nAs I said.\nUntil eight.\n"),
        "{stderr}"
    );
    let (runs, threads) = (listed(&folder, "runs"), listed(&folder, "threads"));
    assert_eq!((runs.len(), threads.len()), (3, 2), "{runs:?}");
    let thread = threads[0]["id"].as_str().expect("an id");
    assert!(stderr.contains(&format!("thread {thread}")), "{stderr}");
    let second = runs[1]["id"].as_str().expect("an id");
    assert!(
        stderr.contains(&format!("run {second}: succeeded, ")),
        "{stderr}"
    );
    let shown = ask(&folder, &["--json", "threads", "show", thread], "").1;
    assert!(shown.contains("Of two \\nlines"), "{shown}");
    // Another process goes on in an earlier thread, by a piece of its id.
    let earlier = threads[1]["id"].as_str().expect("an id");
    let piece = &earlier[earlier.len() - 12..];
    let more = ask(
        &folder,
        &["chat", "concierge", "--thread", piece],
        "And then?\n/quit\nNever.\n",
    );
    assert_eq!((more.0, more.1.as_str()), (0, "As I said.\n"), "{}", more.2);
    let runs = listed(&folder, "runs");
    assert_eq!(
        (runs.len(), runs[0]["thread"].as_str()),
        (4, Some(earlier)),
        "{runs:?}"
    );
}

#[test]
fn the_first_message_without_an_answer_ends_a_pipe_with_its_exit_code() {
    let folder =
        house(&json!({ "rules": [{ "error": { "class": "auth", "message": "bad key" } }] }));
    let (code, stdout, stderr) = ask(&folder, &["chat", "concierge"], "hello\nand more\n");
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(
        stderr.contains("no answer: ") && stderr.contains("attache runs show"),
        "{stderr}"
    );
    assert_eq!(listed(&folder, "runs").len(), 1);
    for (args, typed, told) in [
        (vec!["chat", "nobody"], "hello\n", "no persona `nobody`"),
        (
            vec!["chat", "concierge", "--thread", "t-1"],
            "hello\n",
            "has no thread `t-1`",
        ),
        (
            vec!["chat", "concierge"],
            "/nope\n",
            "there is no command `/nope`",
        ),
    ] {
        let (code, _, stderr) = ask(&folder, &args, typed);
        assert!(code != 0 && stderr.contains(told), "{args:?}: {stderr}");
    }
    assert_eq!(listed(&folder, "runs").len(), 1);
}

/// What a chat beside a working engine says.
async fn beside_an_engine(workspace: Workspace, typed: &str) -> (i32, String, String, Workspace) {
    let TestApp { workspace, engine } = workspace.start().await;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    let mut chat = tokio::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    let chat = chat.current_dir(workspace.path()).args(["chat", "ada"]);
    let chat = chat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut chat = chat.spawn().expect("the binary runs");
    let mut stdin = chat.stdin.take().expect("standard input");
    stdin.write_all(typed.as_bytes()).await.expect("read");
    drop(stdin);
    let said = chat.wait_with_output().await.expect("it ends");
    stop.cancel();
    serving.await.expect("no panic").expect("a clean stop");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = said.status.code().expect("no signal");
    (code, text(said.stdout), text(said.stderr), workspace)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_working_engine_answers_and_the_chat_only_waits() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Forty seats." }] }));
    let (code, stdout, stderr, workspace) =
        beside_an_engine(workspace, "How many?\nReally?\n").await;
    assert_eq!(
        (code, stdout.as_str()),
        (0, "Forty seats.\nForty seats.\n"),
        "{stderr}"
    );
    let epochs =
        "SELECT count(DISTINCT epoch) FROM runs WHERE trigger = 'chat' AND state = 'succeeded'";
    let mut rows = workspace.rows().await;
    let epochs: i64 = db::query_scalar(epochs)
        .fetch_one(&mut rows)
        .await
        .expect("runs");
    assert_eq!(epochs, 1);
}

#[tokio::test]
async fn a_run_that_waits_for_its_owner_says_how_to_answer() {
    let workspace = Workspace::new(&crate::approvals::scene::asks()).talkative();
    let (code, stdout, stderr, workspace) =
        beside_an_engine(workspace, "Tell Eve about Tuesday.\n").await;
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    let open = "SELECT id FROM approvals WHERE state = 'open'";
    let mut rows = workspace.rows().await;
    let id: String = db::query_scalar(open)
        .fetch_one(&mut rows)
        .await
        .expect("a question");
    for told in [
        "waits for your decision on `send_email`",
        &format!("`attache approvals approve {id}`"),
        "· send_email",
    ] {
        assert!(stderr.contains(told), "{stderr}");
    }
}
