//! `attache tail`: what happens, line by line, beside an engine and without one, until Ctrl-C or a closed pipe.

use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use crate::guest_house::{self, attache};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The guest house with a script of its own.
fn house(script: &Value) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    guest_house::write(folder.path());
    let file = folder.path().join("configs/demo-script.json");
    std::fs::write(file, script.to_string()).expect("a script");
    folder
}

fn says(text: &str) -> Value {
    json!({ "rules": [{ "say": text }] })
}

fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = attache(folder, args).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = status.code().expect("no signal");
    (code, text(stdout), text(stderr))
}

/// The events that `tail --json` prints.
fn events(folder: &Path, args: &[&str]) -> Vec<Value> {
    let args = [&["--json", "tail"], args].concat();
    let (code, stdout, stderr) = run(folder, &args);
    assert_eq!(code, 0, "{stderr}");
    let lines = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object"));
    lines.collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["kind"].as_str().expect("a kind"))
        .collect()
}

/// Follows in a process of its own.
fn follow(folder: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = attache(folder, &["--json", "tail", "--follow", "--lines", "0"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let lines = BufReader::new(child.stdout.take().expect("stdout"));
    (child, lines)
}

#[test]
#[ignore = "second tier"]
fn a_question_and_its_answer_show_as_lines_and_a_number_resumes_behind_it() {
    let folder = house(&says("Until eight."));
    let path = folder.path();
    assert_eq!(events(path, &[]), Vec::<Value>::new());
    assert_eq!(run(path, &["ask", "concierge", "Until when?"]).0, 0);
    let all = events(path, &[]);
    let expected = [
        "run.queued",
        "run.running",
        "turn.answered",
        "run.succeeded",
    ];
    assert_eq!(kinds(&all), expected);
    assert!(
        all.iter().all(|event| event["subject"] == "Until when?"),
        "{all:?}"
    );
    assert!(
        all[3]["run"].is_string() && all[3]["trigger"] == "chat",
        "{all:?}"
    );
    let (_, lines, _) = run(path, &["tail"]);
    let cells: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(cells.len(), 4, "{lines}");
    let last = &cells[3];
    assert_eq!(last.len(), 6, "{lines}");
    assert_eq!(
        (last[0], last[2], last[3], last[4]),
        ("4", "concierge", "run.succeeded", "Until when?")
    );
    assert_eq!(kinds(&events(path, &["--since", "2"])), expected[2..]);
    assert_eq!(kinds(&events(path, &["--since", "1h"])), expected);
    assert_eq!(kinds(&events(path, &["--lines", "1"])), expected[3..]);
    assert_eq!(run(path, &["ask", "concierge", "Really?"]).0, 0);
    assert_eq!(kinds(&events(path, &["--run", "last"])), expected);
    assert_eq!(events(path, &["--persona", "concierge"]).len(), 8);
    let (code, _, stderr) = run(path, &["tail", "--persona", "nobody"]);
    assert!(
        code == 66 && stderr.contains("no persona `nobody`"),
        "{stderr}"
    );
    let (code, _, stderr) = run(path, &["tail", "--since", "yesterday"]);
    assert!(code == 2 && stderr.contains("hint:"), "{stderr}");
    // A number of another database: what there is, and a word that something is missing.
    let (code, stdout, stderr) = run(path, &["tail", "--since", "900"]);
    assert_eq!((code, stdout.lines().count()), (0, 8), "{stderr}");
    assert!(
        stderr.contains("event 900 is not in this database's feed"),
        "{stderr}"
    );
}

#[test]
fn what_other_programs_call_logs_is_the_same_and_each_line_of_the_log_names_its_run() {
    let folder = house(&says("Until eight."));
    let path = folder.path();
    let (code, _, log) = run(path, &["--log", "info", "ask", "concierge", "Until when?"]);
    assert_eq!(code, 0, "{log}");
    let all = events(path, &[]);
    let id = all[3]["run"].as_str().expect("a run");
    let ended = log.lines().find(|line| line.contains("run ended"));
    let ended = ended.unwrap_or_else(|| panic!("no end in {log}"));
    assert!(ended.contains(&format!("run{{id={id}}}")), "{ended}");
    assert_eq!(
        run(path, &["logs", "--run", id]),
        run(path, &["tail", "--run", id])
    );
    let (_, lines, _) = run(path, &["logs", "--run", id, "-n", "20"]);
    assert_eq!(lines.lines().count(), 4, "{lines}");
}

#[test]
fn an_error_is_told_in_few_words_and_control_characters_can_be_seen() {
    let folder =
        house(&json!({ "rules": [{ "error": { "class": "auth", "message": "bad key" } }] }));
    let path = folder.path();
    assert_eq!(
        run(path, &["ask", "concierge", "Hi\u{1b}]0;owned\u{7} there"]).0,
        1
    );
    let (_, lines, _) = run(path, &["tail"]);
    let failed = lines.lines().find(|line| line.contains("run.failed"));
    let failed = failed.unwrap_or_else(|| panic!("no failure in {lines}"));
    assert!(
        failed.contains("auth: ") && failed.contains("bad key"),
        "{failed}"
    );
    assert!(failed.contains("Hi␛]0;owned␇ there"), "{failed:?}");
    assert!(!lines.contains(['\u{1b}', '\u{7}']), "{lines:?}");
}

#[test]
fn following_shows_what_another_process_does_and_ends_at_ctrl_c() {
    let folder = house(&says("Until eight."));
    let path = folder.path();
    assert_eq!(run(path, &["ask", "concierge", "First"]).0, 0);
    let (mut child, mut lines) = follow(path);
    let asking = attache(path, &["ask", "concierge", "Until when?"]).output();
    assert!(asking.expect("the binary runs").status.success());
    let mut seen = Vec::new();
    while seen
        .last()
        .is_none_or(|kind: &String| kind != "run.succeeded")
    {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).expect("a line"), 0, "{seen:?}");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        seen.push(event["kind"].as_str().expect("a kind").to_owned());
    }
    assert!(seen.contains(&"turn.answered".to_owned()), "{seen:?}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("interrupted");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("stderr"), &mut rest)
        .expect("UTF-8");
    assert_eq!(child.wait().expect("an end").code(), Some(0), "{rest}");
    assert!(rest.contains("attache tail --follow --since 8"), "{rest}");
}

#[test]
fn following_ends_when_nobody_reads_it_although_nothing_happens() {
    let folder = house(&says("Until eight."));
    let path = folder.path();
    assert_eq!(run(path, &["ask", "concierge", "First"]).0, 0);
    let (mut child, lines) = follow(path);
    drop(lines);
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[tokio::test]
async fn beside_a_working_engine_it_reads_and_writes_nothing() {
    let script = json!({ "turns": [{ "say": "From seven to ten." }] });
    let app = TestApp::start(script).await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let TestApp { workspace, engine } = app;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    let before = hash(&workspace).await;
    let mut tail = tokio::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    let tail = tail.current_dir(workspace.path()).args(["tail"]);
    let shown = tail.output().await.expect("the binary runs");
    let shown = String::from_utf8(shown.stdout).expect("UTF-8");
    let delivered = shown.lines().last().expect("a line");
    assert!(
        delivered.contains("delivery.done") && delivered.contains("to bob@guest.example"),
        "{shown}"
    );
    assert!(shown.contains("letter.run\tBreakfast\tfrom "), "{shown}");
    assert_eq!(hash(&workspace).await, before);
    stop.cancel();
    serving.await.expect("no panic").expect("a clean stop");
}

/// What changes with every commit.
async fn hash(workspace: &Workspace) -> i64 {
    let mut rows = workspace.rows().await;
    let sql = "SELECT (SELECT max(seq) FROM feed) + (SELECT epoch FROM engine) + (SELECT count(*) FROM audit_log)";
    db::query_scalar(sql)
        .fetch_one(&mut rows)
        .await
        .expect("a number")
}
