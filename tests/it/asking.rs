//! Questions at the machine: answered like a letter, mailed to nobody, in threads of their own.

pub mod stream;
mod agents;
mod chat;
mod engine_silent;

use crate::app::database::is_sqlite_only;
use crate::app::{TestApp, Workspace};
use crate::guest_house::{self, attache};
use attache::clock::Clock;
use attache::domain::{PersonaId, RunId, ThreadId};
use attache::runs::chat::question::{AskedAt, question};
use attache::runs::chat::watch::{RunProgress, RunWatch};
use attache::store::ListPage;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Asks Ada; gives the run and its thread.
async fn asks(app: &TestApp, text: &str, thread: Option<&ThreadId>) -> (RunId, ThreadId) {
    let id = PersonaId::parse("ada").expect("an id");
    let persona = app.engine.config.personas.get(&id).expect("ada").clone();
    let clock: &dyn Clock = app.workspace.clock.as_ref();
    let new = question(&persona, AskedAt::Terminal, clock, text, thread.cloned());
    let run = new.run.id.clone();
    let thread = app.engine.store.persona(&id).ask(new).await.expect("asked");
    app.drain().await;
    (run, thread)
}

#[tokio::test]
async fn a_question_is_answered_in_a_thread_of_its_own_and_mailed_to_nobody() {
    let script = json!({ "rules": [
        { "when": { "turn": 0, "contains": "seats" }, "call": [{ "tool": "list_files", "args": {} }] },
        { "when": { "contains": "seats" }, "say": "Forty seats." },
        { "say": "You asked about seats before." },
    ] });
    let app = Workspace::new(&script).start().await;
    let (run, thread) = asks(&app, "How many seats?\nRoughly.", None).await;
    assert_eq!(app.outcome(run.as_str()).await.0, "succeeded");
    assert_eq!(
        app.trace(run.as_str()).await,
        ["call list_files", "ok list_files"]
    );
    let sql =
        "SELECT text_body, disposition FROM messages WHERE run_id = $1 AND direction = 'outbound'";
    let row = app.row(sql, run.as_str()).await;
    assert_eq!(
        (row[0].as_deref(), row[1].as_deref()),
        (Some("Forty seats."), Some("withheld:store_only"))
    );
    let (again, same) = asks(&app, "And what did I ask before?", Some(&thread)).await;
    assert_eq!(same, thread);
    let prompt = app.prompts(again.as_str()).await.remove(0).to_string();
    assert!(
        prompt.contains("How many seats?") && prompt.contains("Forty seats."),
        "{prompt}"
    );
    let (other, elsewhere) = asks(&app, "Anything else?", None).await;
    assert_ne!(elsewhere, thread);
    let prompt = app.prompts(other.as_str()).await.remove(0).to_string();
    assert!(!prompt.contains("Forty seats."), "{prompt}");
    assert!(app.sent().is_empty() && app.notices().is_empty());
    app.check().await;
}

#[tokio::test]
async fn a_working_engine_answers_the_question_of_another_process() {
    let script = json!({ "rules": [{ "say": "Forty seats." }] });
    let TestApp { workspace, engine } = Workspace::new(&script).start().await;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    let mut asking = tokio::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    asking
        .current_dir(workspace.path())
        .args(["ask", "ada", "How many seats?"]);
    let said = asking.output().await.expect("the binary runs");
    assert_eq!(
        String::from_utf8_lossy(&said.stdout),
        "Forty seats.\n",
        "{said:?}"
    );
    stop.cancel();
    serving.await.expect("no panic").expect("a clean stop");
}

/// The guest house with a script of its own.
fn house(script: &Value) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    guest_house::write(folder.path());
    let file = folder.path().join("configs/demo-script.json");
    std::fs::write(file, script.to_string()).expect("a script");
    folder
}

fn ask(folder: &TempDir, args: &[&str], stdin: &str) -> (i32, String, String) {
    use std::io::Write;
    let mut command = attache(folder.path(), args);
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut given = child.stdin.take().expect("standard input");
    given.write_all(stdin.as_bytes()).expect("read");
    drop(given);
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        status.code().expect("no signal"),
        text(stdout),
        text(stderr),
    )
}

#[test]
fn the_command_shows_the_answer_and_refuses_what_is_no_question() {
    let folder = house(&json!({ "rules": [
        { "say": "Until eight.\n\nLena" },
    ] }));
    let answered = ask(&folder, &["ask", "concierge", "Until", "when?"], "");
    assert_eq!(
        (answered.0, answered.1.as_str()),
        (0, "Until eight.\n\nLena\n"),
        "{}",
        answered.2
    );
    let piped = ask(&folder, &["--json", "ask", "concierge"], "Until when?\n");
    assert_eq!(piped.0, 0, "{}", piped.2);
    let shown: Value = serde_json::from_str(&piped.1).expect("JSON");
    assert_eq!(
        (shown["state"].as_str(), shown["answer"].as_str()),
        (Some("succeeded"), Some("Until eight.\n\nLena"))
    );
    let thread = shown["thread"].as_str().expect("a thread");
    let more = ask(
        &folder,
        &["ask", "concierge", "--thread", thread, "-"],
        "And then?",
    );
    assert_eq!(more.0, 0, "{}", more.2);
    for (args, stdin, expected) in [
        (vec!["ask", "nobody", "x"], "", "no persona `nobody`"),
        (vec!["ask", "concierge"], " \n", "the question is empty"),
        (
            vec!["ask", "concierge", "--thread", "t-1", "x"],
            "",
            "has no thread `t-1`",
        ),
    ] {
        let (code, _, stderr) = ask(&folder, &args, stdin);
        assert!(
            code != 0 && stderr.contains(expected) && stderr.contains("hint:"),
            "{args:?}: {stderr}"
        );
    }
    let outbox = ask(&folder, &["--json", "outbox", "list"], "");
    assert_eq!(outbox.1.trim(), "[]", "{}", outbox.2);
}

#[tokio::test]
async fn a_question_to_the_owner_says_where_the_answer_will_be() {
    let app = Workspace::new(&crate::approvals::scene::asks())
        .talkative()
        .start()
        .await;
    let (_run, thread) = asks(&app, "Tell Eve about Tuesday.", None).await;
    let open = app
        .engine
        .store
        .approvals(None, None, ListPage::first(10))
        .await;
    let open = open.expect("questions");
    assert_eq!(open.len(), 1, "{open:?}");
    let told = format!("`attache threads show {thread}` shows it");
    assert!(open[0].view.contains(&told), "{}", open[0].view);
    let mails = app.notices();
    assert!(
        mails
            .iter()
            .any(|mail| mail.text.replace('\n', " ").contains(thread.as_str())),
        "{mails:?}"
    );
}

/// A script whose first call meets a full provider.
fn fails_once(retry_after_ms: u64) -> TempDir {
    let folder = house(&json!({ "rules": [
        { "error": { "class": "rate_limited", "times": 1, "retry_after_ms": retry_after_ms }, "say": "Forty seats." },
    ] }));
    let file = folder.path().join("configs/inference.json");
    let text = std::fs::read_to_string(&file).expect("a file");
    let mut inference: Value = serde_json::from_str(&text).expect("JSON");
    // Every wait parks the run.
    inference["retry"] = json!({ "inline_wait_max": "1ms" });
    std::fs::write(&file, inference.to_string()).expect("written");
    folder
}

/// The minute until the next attempt passes in seconds, where libfaketime is.
#[test]
#[ignore = "second tier"]
fn without_an_engine_a_question_waits_for_the_next_attempt_of_its_provider() {
    if is_sqlite_only(
        "the clock of a server is not that of this test, and a node whose clock is off stores nothing",
    ) {
        return;
    }
    let folder = fails_once(10);
    let mut command = Command::new("faketime");
    command.args(["-f", "+0 x30", env!("CARGO_BIN_EXE_attache")]);
    command.args(["ask", "concierge", "How many seats?"]);
    let Ok(output) = command.current_dir(folder.path()).output() else {
        println!("SKIPPED: faketime is not installed");
        return;
    };
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    let code = output.status.code().expect("no signal");
    assert_eq!((code, stdout.as_str()), (0, "Forty seats.\n"), "{stderr}");
    let waited = stderr.contains("the next attempt is at") && stderr.contains("Ctrl-C cancels it");
    assert!(waited && !stderr.contains("no answer"), "{stderr}");
}

#[test]
fn ctrl_c_cancels_a_question_that_waits_for_the_next_attempt() {
    let folder = fails_once(3_600_000);
    let mut command = attache(folder.path(), &["ask", "concierge", "How many seats?"]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let mut said = Vec::new();
    for line in lines {
        said.push(line.expect("UTF-8"));
        if said
            .last()
            .is_some_and(|line| line.contains("the next attempt is at"))
        {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("interrupted");
        }
    }
    assert_eq!(child.wait().expect("an end").code(), Some(1), "{said:?}");
    assert!(
        said.iter()
            .any(|line| line.contains("cancelled by the operator")),
        "{said:?}"
    );
    let runs = ask(&folder, &["--json", "runs", "list"], "").1;
    let runs: Value = serde_json::from_str(&runs).expect("JSON");
    assert_eq!(runs[0]["state"], "cancelled", "{runs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_shows_once_however_often_its_run_is_looked_at() {
    let calls: Vec<_> = (0..20)
        .map(|n| json!({ "tool": "search_email", "args": { "query": format!("{n}") } }))
        .collect();
    let script = json!({ "rules": [{ "when": { "turn": 0 }, "call": calls }, { "say": "So." }] });
    let app = Workspace::new(&script).start().await;
    let id = PersonaId::parse("ada").expect("an id");
    let persona = app.engine.config.personas.get(&id).expect("ada").clone();
    let clock: &dyn Clock = app.workspace.clock.as_ref();
    let new = question(&persona, AskedAt::Terminal, clock, "How many?", None);
    let rows = app.engine.store.persona(&id);
    let mut watch = RunWatch::new(rows.clone(), app.workspace.path(), &new.run.id);
    rows.ask(new).await.expect("asked");
    let has_ended = CancellationToken::new();
    let working = async {
        app.drain().await;
        has_ended.cancel();
    };
    let watching = async {
        let mut shown = Vec::new();
        let mut is_last = false;
        while !is_last {
            is_last = has_ended.is_cancelled();
            // A look reads on this thread: the work would never have its turn.
            tokio::task::yield_now().await;
            let called = watch.look().await.expect("looked").into_iter();
            shown.extend(called.filter_map(|progress| match progress {
                RunProgress::Called { arguments, .. } => Some(arguments),
                RunProgress::Returned { .. } | RunProgress::Piece(_) => None,
            }));
        }
        shown
    };
    let ((), shown) = tokio::join!(working, watching);
    let expected: Vec<_> = (0..20).map(|n| format!("{{\"query\":\"{n}\"}}")).collect();
    assert_eq!(shown, expected);
}
