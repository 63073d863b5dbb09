//! The commands that work and look, as their users meet them: the real binary on real workspaces.

use serde_json::Value;
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const LETTER: &str = "configs/demo/letter.eml";
/// Looks at an answer that must come; each look starts a process, which is pace enough.
const LOOKS_MAX: usize = 1000;

struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

fn attache(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    for name in [
        "ATTACHE_WORKSPACE",
        "ATTACHE_LOG",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(name);
    }
    command.current_dir(folder).args(args);
    command
}

fn answer(output: Output) -> Answer {
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    let code = output
        .status
        .code()
        .unwrap_or_else(|| panic!("{}: {output:?}", output.status));
    Answer {
        code,
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

struct Workspace(TempDir);

impl Workspace {
    fn new() -> Self {
        let workspace = Self(TempDir::new().expect("a temporary folder"));
        crate::guest_house::write(workspace.path());
        // Tests run side by side: the system chooses the port.
        workspace.edit("configs/gateway.json", "127.0.0.1:2525", "127.0.0.1:0");
        workspace.edit(
            "configs/security.json",
            "*@traveller.example",
            "*@*.example",
        );
        workspace.edit("configs/security.json", "*@spam.example", "*@spam.test");
        workspace
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path().join(path), text).expect("a written file");
    }
    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path().join(path)).expect("a file");
        assert!(text.contains(from), "{path} has no {from}");
        self.write(path, &text.replace(from, to));
    }
    fn script(&self, script: &Value) {
        self.write("configs/demo-script.json", &script.to_string());
    }
    fn letter(&self, name: &str, subject: &str, body: &str) {
        let head = "From: Bob <bob@guest.example>\nTo: concierge@guesthouse.example";
        self.write(
            name,
            &format!("{head}\nSubject: {subject}\nMessage-ID: <{name}@guest.example>\n\n{body}\n"),
        );
    }
    fn run(&self, args: &[&str]) -> Answer {
        answer(
            attache(self.path(), args)
                .output()
                .expect("the binary runs"),
        )
    }
    fn ok(&self, args: &[&str]) -> Answer {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {}{}", said.stdout, said.stderr);
        said
    }
    fn json(&self, args: &[&str]) -> Value {
        let said = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&said.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", said.stdout))
    }
    fn state(&self, run: &str) -> String {
        self.json(&["runs", "show", run])["run"]["state"]
            .as_str()
            .expect("a state")
            .to_owned()
    }
    fn wait_for(&self, run: &str, state: &str) {
        let reached = (0..LOOKS_MAX).any(|_| self.state(run) == state);
        assert!(reached, "run {run} is {}, not {state}", self.state(run));
    }
    fn serve(&self) -> Server {
        let mut command = attache(self.path(), &["serve", "--log", "warn"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe"))
            .read_line(&mut line)
            .expect("a line");
        Server { child, line }
    }
}

/// A serving engine; it is killed when a test fails before it has stopped.
struct Server {
    child: Child,
    /// What it said when it was ready.
    line: String,
}

impl Server {
    fn terminate(mut self) -> Answer {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .expect("kill runs")
                .success()
        );
        let status = self.child.wait().expect("it ends");
        let mut stderr = String::new();
        self.child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut stderr)
            .expect("text");
        Answer {
            code: status.code().expect("no signal"),
            stdout: String::new(),
            stderr,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing to do when it has ended.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn runs_of(ingested: &Value) -> Vec<String> {
    let copies = ingested
        .as_array()
        .expect("files")
        .iter()
        .flat_map(|file| file["copies"].as_array().expect("copies"));
    copies
        .filter_map(|copy| copy["run"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn the_demo_holds_what_it_claims_every_time() {
    let folder = TempDir::new().expect("a temporary folder");
    let run = |args: &[&str]| {
        answer(
            attache(folder.path(), args)
                .output()
                .expect("the binary runs"),
        )
    };
    let said = run(&["demo"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.is_empty(), "{}", said.stderr);
    assert!(
        !said.stdout.contains("FAILED") && !said.stdout.contains('\u{1b}'),
        "{}",
        said.stdout
    );
    for shown in [
        "S: 250 2.0.0",
        "file_not_found",
        "turn 2",
        "delivered",
        "What to try next",
    ] {
        assert!(
            said.stdout.contains(shown),
            "{shown} is missing in\n{}",
            said.stdout
        );
    }
    let again = run(&["demo", "--json"]);
    let story: Value = serde_json::from_str(&again.stdout).expect("one JSON value");
    assert_eq!((again.code, &story["holds"]), (0, &Value::Bool(true)));
    let claims = story["stations"]
        .as_array()
        .expect("stations")
        .iter()
        .flat_map(|s| s["claims"].as_array());
    assert!(claims.flatten().count() >= 15);
    for file in story["mails"].as_array().expect("mails") {
        let mail = std::fs::read(file.as_str().expect("a path")).expect("the mail is there");
        assert!(mail.windows(12).any(|bytes| bytes == b"In-Reply-To:"));
    }
    let demos = std::fs::read_dir(folder.path().join("data/demo"))
        .expect("the demos")
        .count();
    assert_eq!(demos, 2, "the two demos have folders of their own");
}

#[test]
fn the_commands_that_the_demo_recommends_work() {
    let folder = TempDir::new().expect("a temporary folder");
    let run = |args: &[&str]| {
        answer(
            attache(folder.path(), args)
                .output()
                .expect("the binary runs"),
        )
    };
    let said = run(&["demo"]).stdout;
    // They call the program as it was called, so that they work before anything is on the path.
    let program = format!("{} ", env!("CARGO_BIN_EXE_attache"));
    let commands: Vec<&str> = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix(&program))
        .collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands
        .iter()
        .filter(|command| !command.ends_with(" serve"))
    {
        let done = run(&command.split_whitespace().collect::<Vec<_>>());
        assert_eq!(done.code, 0, "{command}: {}", done.stderr);
        assert!(!done.stdout.is_empty(), "{command} says nothing");
    }
}

#[test]
fn a_letter_goes_in_by_hand_and_its_answer_comes_out() {
    let workspace = Workspace::new();
    let ingested = workspace.json(&["ingest", LETTER]);
    let run = runs_of(&ingested).remove(0);
    assert_eq!(workspace.state(&run), "queued");
    let drained = workspace.json(&["drain"]);
    assert_eq!(
        (&drained["runs"], &drained["ended"]["succeeded"]),
        (&1.into(), &1.into())
    );
    assert_eq!(drained["delivery_attempts"], 1);
    let again = workspace.ok(&["drain"]).stdout;
    assert!(
        again.starts_with("runs worked on     0 (") && again.contains("0 mails are still queued"),
        "{again}"
    );

    let timeline = workspace.ok(&["replay", "last"]).stdout;
    assert!(
        timeline.starts_with(&format!("run {run}  succeeded (answered)\n")),
        "{timeline}"
    );
    let record = workspace.json(&["replay", &run]);
    assert_eq!(record, workspace.json(&["replay", "last"]));
    assert_eq!(record, workspace.json(&["runs", "show", "last"]));
    let typed: attache::replay::RunRecord = serde_json::from_value(record).expect("a record");
    let delivery = typed.mails[0].delivery.as_ref().expect("a delivery");
    assert!(
        workspace
            .path()
            .join(format!("data/outbox/{}.eml", delivery.id))
            .is_file()
    );

    listings_show_it(&workspace, &run, &typed, &delivery.id);
}

/// Lists and pages name the run, its thread and its delivery.
fn listings_show_it(
    workspace: &Workspace,
    run: &str,
    typed: &attache::replay::RunRecord,
    delivery: &str,
) {
    let outbox = workspace.ok(&["outbox", "list", "--state", "done"]).stdout;
    assert!(outbox.contains(delivery), "{outbox}");
    let threads = workspace.json(&["threads", "list"]);
    assert_eq!(
        (
            threads[0]["messages"].as_u64(),
            threads[0]["open_runs"].as_u64()
        ),
        (Some(2), Some(0))
    );
    let thread = threads[0]["id"].as_str().expect("an id");
    assert_eq!(typed.run.thread, thread);
    assert_eq!(
        workspace.json(&["threads", "show", thread])["messages"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    assert_eq!(
        workspace.json(&["replay", thread])["runs"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    let shown = workspace.ok(&["threads", "show", thread]).stdout;
    assert!(
        shown.contains("timetable.csv") && shown.contains("| Dear Lena,"),
        "{shown}"
    );
    let listed = workspace.json(&[
        "runs",
        "list",
        "--state",
        "succeeded,failed",
        "--since",
        "1h",
    ]);
    assert_eq!(listed[0]["id"], run);
    assert_eq!(
        workspace.json(&["runs", "list", "--persona", "digest"]),
        serde_json::json!([])
    );
}

#[test]
fn every_file_is_told_of_and_one_refusal_decides_the_exit_code() {
    let workspace = Workspace::new();
    workspace.letter("one.eml", "One", "First.");
    workspace.write(
        "nobody.eml",
        "From: a@guest.example\nTo: b@guest.example\nSubject: Hi\n\nHello.\n",
    );
    workspace.write("empty.eml", "");
    let said = workspace.run(&[
        "ingest",
        "one.eml",
        "one.eml",
        "nobody.eml",
        "empty.eml",
        "absent.eml",
        "configs",
    ]);
    assert_eq!(said.code, 1);
    let outcomes: Vec<&str> = said
        .stdout
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(
        outcomes,
        [
            "accepted", "accepted", "refused", "refused", "refused", "refused"
        ]
    );
    assert!(
        said.stdout.contains("here already") && said.stdout.contains("no persona is addressed"),
        "{}",
        said.stdout
    );

    let redirected = workspace.json(&["ingest", "--to", "digest@guesthouse.example", "nobody.eml"]);
    assert_eq!(redirected[0]["copies"][0]["persona"], "digest");
    workspace.letter("bounce.eml", "Bounce", "It came back.");
    let filed = workspace.json(&["ingest", "--from", "<>", "bounce.eml"]);
    assert_eq!(
        (
            &filed[0]["copies"][0]["outcome"],
            &filed[0]["copies"][0]["rule"]
        ),
        (&"filed".into(), &"null_sender".into())
    );
    let nobody = workspace.run(&["ingest", "--to", "nobody@guesthouse.example", "one.eml"]);
    assert_eq!(nobody.code, 66, "{}", nobody.stderr);
    assert!(nobody.stderr.contains("nobody@guesthouse.example"));

    let mut command = attache(workspace.path(), &["ingest", "-", "--json"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let letter =
        "From: bob@guest.example\nTo: concierge@guesthouse.example\nSubject: Piped\n\nHello.\n";
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(letter.as_bytes())
        .expect("written");
    let said = answer(child.wait_with_output().expect("it ends"));
    let reports: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!((said.code, &reports[0]["outcome"]), (0, &"accepted".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_the_database_cannot_take_now_ends_with_75_and_is_taken_later() {
    let workspace = Workspace::new();
    workspace.ok(&["runs", "list"]);
    let file = SqliteConnectOptions::new().filename(workspace.path().join("data/attache.db"));
    let mut other = file.connect().await.expect("the database");
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut other)
        .await
        .expect("the write lock");
    let said = tokio::task::block_in_place(|| workspace.run(&["ingest", LETTER]));
    assert_eq!(said.code, 75, "{}{}", said.stdout, said.stderr);
    sqlx::query("ROLLBACK")
        .execute(&mut other)
        .await
        .expect("the lock is given back");
    let runs = runs_of(&tokio::task::block_in_place(|| {
        workspace.json(&["ingest", LETTER])
    }));
    assert_eq!(runs.len(), 1, "nothing of the first try was stored");
}

#[test]
fn drain_says_which_run_failed_and_retry_mends_it() {
    let workspace = Workspace::new();
    workspace.script(
        &serde_json::json!({ "rules": [{ "error": { "class": "auth", "message": "bad key" } }] }),
    );
    let run = runs_of(&workspace.json(&["ingest", LETTER])).remove(0);
    let drained = workspace.run(&["drain"]);
    assert_eq!(drained.code, 1);
    assert!(
        drained.stdout.contains(&run) && drained.stdout.contains("auth: bad key"),
        "{}",
        drained.stdout
    );
    workspace.script(&serde_json::json!({ "rules": [{ "say": "Yes." }] }));
    assert_eq!(
        workspace.json(&["runs", "retry", "last"])["outcome"],
        "queued"
    );
    workspace.ok(&["drain"]);
    assert_eq!(workspace.state(&run), "succeeded");
    let ended = workspace.run(&["runs", "retry", &run]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("succeeded"), "{}", ended.stderr);
    assert_eq!(workspace.run(&["runs", "cancel", &run]).code, 1);
}

#[test]
fn a_letter_that_no_rule_knows_gets_a_polite_answer() {
    let workspace = Workspace::new();
    workspace.letter("other.eml", "Bicycles", "Do you have bicycles?");
    workspace.ok(&["ingest", "other.eml"]);
    workspace.ok(&["drain"]);
    let record = workspace.json(&["replay", "last"]);
    let text = record["mails"][0]["message"]["text"]
        .as_str()
        .expect("a mail");
    assert!(
        text.contains("\"Bicycles\"") && text.contains("configs/inference.json"),
        "{text}"
    );
}

#[test]
fn what_is_not_there_is_said_with_a_hint() {
    let workspace = Workspace::new();
    let commands: [(&[&str], &str); 6] = [
        (&["replay", "last"], "attache ingest"),
        (&["replay", "0199aabbccdd"], "list"),
        (&["runs", "show", "0199aabbccdd"], "list"),
        (&["runs", "cancel", "nonsense"], "list"),
        (&["runs", "retry", "01"], "list"),
        (&["threads", "show", "0199aabbccdd"], "list"),
    ];
    for (args, way) in commands {
        let said = workspace.run(args);
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (66, ""),
            "{args:?}: {}",
            said.stderr
        );
        let hint = said.stderr.split_once("hint: ").map(|(_, hint)| hint);
        assert!(
            hint.is_some_and(|hint| hint.contains(way)),
            "{args:?}: {}",
            said.stderr
        );
    }
    let folder = TempDir::new().expect("a temporary folder");
    // A mail server that calls `ingest` must keep the letter while a disk is not mounted.
    for (args, code) in [
        (&["serve"][..], 78),
        (&["drain"], 78),
        (&["runs", "list"], 78),
        (&["ingest", "x.eml"], 75),
        (&["replay", "last"], 78),
    ] {
        let said = answer(
            attache(folder.path(), args)
                .output()
                .expect("the binary runs"),
        );
        assert_eq!(said.code, code, "{args:?}: {}", said.stderr);
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        0,
        "nothing was made by looking"
    );
}

#[test]
fn an_ambiguous_beginning_lists_what_it_could_mean() {
    let workspace = Workspace::new();
    workspace.letter("one.eml", "One", "First.");
    workspace.letter("two.eml", "Two", "Second.");
    let runs = runs_of(&workspace.json(&["ingest", "one.eml", "two.eml"]));
    let said = workspace.run(&["replay", &runs[0][..6]]);
    assert_eq!(said.code, 66, "{}", said.stderr);
    assert!(
        runs.iter().all(|run| said.stderr.contains(run)),
        "{}",
        said.stderr
    );
    let same = runs[0]
        .bytes()
        .zip(runs[1].bytes())
        .take_while(|(a, b)| a == b)
        .count();
    assert_eq!(
        workspace.json(&["replay", &runs[1][..=same]])["run"]["id"],
        runs[1].as_str()
    );
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let workspace = Workspace::new();
    workspace.ok(&["ingest", LETTER]);
    workspace.ok(&["drain"]);
    for args in [
        &["replay", "last", "--full"][..],
        &["replay", "last", "--json"],
        &["runs", "list"],
        &["demo"],
    ] {
        let mut command = attache(workspace.path(), args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        drop(child.stdout.take());
        let said = answer(child.wait_with_output().expect("it ends"));
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn text_from_mail_cannot_drive_the_terminal() {
    let workspace = Workspace::new();
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}";
    workspace.letter(
        "evil.eml",
        &format!("Hi {hostile}"),
        &format!("Look:\n{hostile}\nrun 0  succeeded"),
    );
    workspace.ok(&["ingest", "evil.eml"]);
    workspace.ok(&["drain"]);
    let thread = workspace.json(&["threads", "list"])[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let commands: [&[&str]; 7] = [
        &["replay", "last", "--full"],
        &["replay", &thread],
        &["replay", "last", "--json"],
        &["threads", "list"],
        &["threads", "show", &thread],
        &["runs", "list"],
        &["runs", "show", "last"],
    ];
    for args in commands {
        let said = workspace.ok(args).stdout;
        let driven = said
            .chars()
            .find(|c| !matches!(c, '\n' | '\t') && (c.is_control() || *c == '\u{202e}'));
        assert_eq!(driven, None, "{args:?} prints {driven:?}");
        let imitated = said.lines().any(|line| line.starts_with("run 0  "));
        assert!(!imitated, "{args:?} shows a line of the letter as its own");
    }
}

#[test]
fn an_engine_serves_alone_answers_what_is_ingested_beside_it_and_stops_on_sigterm() {
    let workspace = Workspace::new();
    let server = workspace.serve();
    assert!(
        server.line.contains("listening on 127.0.0.1:"),
        "{}",
        server.line
    );
    let pid = server.child.id().to_string();
    for args in [&["drain"][..], &["serve"]] {
        let second = workspace.run(args);
        assert_eq!(second.code, 78, "{args:?}: {}", second.stderr);
        assert!(
            second.stderr.contains(&format!("process {pid}")),
            "{args:?}: {}",
            second.stderr
        );
    }
    let run = runs_of(&workspace.json(&["ingest", LETTER])).remove(0);
    workspace.wait_for(&run, "succeeded");
    let ended = server.terminate();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    workspace.ok(&["drain"]);
}

#[test]
fn serve_takes_letters_without_a_persona_text_and_says_that_it_is_missing() {
    let workspace = Workspace::new();
    std::fs::remove_file(workspace.path().join("personas/concierge/PERSONA.md"))
        .expect("it is there");
    let ended = workspace.serve().terminate();
    assert_eq!(ended.code, 0);
    assert!(
        ended.stderr.contains("warning: ") && ended.stderr.contains("PERSONA.md"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_address_that_another_program_has_is_said_with_a_hint() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = taken.local_addr().expect("it is bound").to_string();
    let workspace = Workspace::new();
    workspace.edit("configs/gateway.json", "127.0.0.1:0", &address);
    let said = workspace.run(&["serve"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (1, ""),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains(&address) && said.stderr.contains("hint: another program"),
        "{}",
        said.stderr
    );
}

#[test]
fn drain_says_that_a_run_waits_and_where_to_look() {
    let workspace = Workspace::new();
    workspace.edit(
        "configs/inference.json",
        "\"provider\": \"scripted\"",
        "\"provider\": \"openai\"",
    );
    // Nobody listens on port 1.
    let nobody = "\"openai\": {\"base_url\": \"http://127.0.0.1:1/v1\"}, \"scripted\": {";
    workspace.edit("configs/inference.json", "\"scripted\": {", nobody);
    workspace.edit(
        "configs/inference.json",
        "\"max_tool_turns\": 8",
        "\"retry\": {\"call_attempts_max\": 1}",
    );
    workspace.ok(&["ingest", LETTER]);
    let said = workspace.ok(&["drain"]).stdout;
    assert!(
        said.contains("1 waiting for a retry") && said.contains("--state waiting_retry"),
        "{said}"
    );
    let waits = workspace
        .ok(&["runs", "list", "--state", "waiting_retry"])
        .stdout;
    assert!(waits.contains("transient"), "{waits}");
}

#[test]
fn a_running_run_is_cancelled_from_another_process() {
    let workspace = Workspace::new();
    workspace.script(&serde_json::json!({ "rules": [{ "hang": true }] }));
    let server = workspace.serve();
    let run = runs_of(&workspace.json(&["ingest", LETTER])).remove(0);
    workspace.wait_for(&run, "running");
    assert_eq!(
        workspace.json(&["runs", "cancel", &run])["outcome"],
        "requested"
    );
    workspace.wait_for(&run, "cancelled");
    assert_eq!(server.terminate().code, 0);
    let timeline = workspace.ok(&["replay", &run]).stdout;
    assert!(timeline.contains("cancelled"), "{timeline}");
    assert!(
        !PathBuf::from(workspace.path())
            .join("data/outbox")
            .read_dir()
            .is_ok_and(|mut d| d.next().is_some())
    );
}
