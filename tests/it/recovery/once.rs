//! A tool that must not be run twice, in an engine that is a real process and is killed while the tool runs: before it
//! acts, after it has acted, and at moments around that. It never acts twice, and every call has one result.
//!
//! The engine is this test binary, started once more with [`CHILD`] set: the product has no such tool.

use crate::app::db;
use crate::app::{Workspace, audit, letter, note};
use attache::app::Engine;
use attache::clock::SystemClock;
use attache::runs::deps::WorkerDeps;
use attache::runs::worker::Worker;
use attache::tools::{
    Effects, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass, ToolDeclaration, ToolError,
    ToolOutcome,
};
use futures_util::future::BoxFuture;
use serde_json::json;
use std::future::pending;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The class of the tool, in the environment of a process that is to be the engine.
const CHILD: &str = "ATTACHE_TEST_ONCE";
const KILLS: u32 = 24;
/// What the tool has done: a line for each time.
const DONE: &str = "personas/ada/done.txt";

/// Writes a line to disk. Says when it begins and when it has acted, and hangs there if its word begins so.
#[derive(Clone, Copy)]
struct Act(ToolClass);

impl Tool for Act {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "act".to_owned(),
            description: "Acts.".to_owned(),
            input_schema: json!({ "type": "object", "properties": { "word": { "type": "string" } },
                "required": ["word"], "additionalProperties": false })
            .into(),
            class: self.0,
            effects: Effects::NONE,
            result_words: ResultWords::Engine,
            capabilities: ToolCapabilities {
                files: true,
                ..ToolCapabilities::NONE
            },
        }
    }
    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let word = call.args["word"].as_str().expect("a word");
            say("begins");
            if word.starts_with("before") {
                pending::<()>().await;
            }
            let mut open = cap_std::fs_utf8::OpenOptions::new();
            let file = call
                .env
                .files()?
                .open_with("done.txt", open.create(true).append(true));
            let mut file = file.expect("a file");
            writeln!(file, "{word}").expect("a line");
            file.sync_all().expect("on disk");
            say("acted");
            if word.starts_with("after") {
                pending::<()>().await;
            }
            Ok(ToolOutcome {
                result: json!({ "done": true }),
                ..ToolOutcome::default()
            })
        })
    }
}

static ONCE: Act = Act(ToolClass::Once);
static REPEATABLE: Act = Act(ToolClass::Repeatable);

/// Tells the parent; the test binary's own words may stand before it in the line.
fn say(what: &str) {
    println!("\n{what}");
}

/// Is the engine: works off what was left, and then the letter that lies there.
async fn as_engine(tool: &'static Act) {
    let folder = std::env::current_dir().expect("a folder");
    let config =
        attache::config::load(&folder, &attache::cli::name_catalog()).expect("a configuration");
    let engine = Engine::open(config, Arc::new(SystemClock::new()))
        .await
        .expect("an engine");
    let mut deps = WorkerDeps::set_up(engine.store.clone(), engine.config.clone(), Arc::default())
        .expect("a desk");
    deps.tools = deps.tools.with(vec![Box::new(*tool)]).expect("a new name");
    let mut worker = Worker::new(Arc::new(deps));
    worker.drain().await.expect("drained");
    if let Ok(eml) = std::fs::read_to_string("letter.eml") {
        std::fs::remove_file("letter.eml").expect("removed");
        engine.intake().accept(letter(&eml)).await.expect("taken");
        worker.drain().await.expect("drained");
    }
    engine.drain().await.expect("drained");
    say("rests");
}

/// The engine as another process; killed when it is dropped.
struct Other(Child, Receiver<String>);

impl Other {
    fn start(test: &str, tool: &Act, folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([
            &format!("recovery::once::{test}"),
            "--exact",
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        let class = if tool.0 == ToolClass::Once {
            "once"
        } else {
            "repeatable"
        };
        command
            .env(CHILD, class)
            .current_dir(folder)
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (said, heard) = channel();
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| said.send(line))
        });
        Self(child, heard)
    }

    /// Waits until it says this; `false` if it says to rest before.
    fn until(&mut self, what: &str) -> bool {
        loop {
            match self.1.recv_timeout(Duration::from_secs(30)) {
                Ok(line) if line == what => return true,
                Ok(line) if line == "rests" => return false,
                Ok(_) => {}
                Err(error) => panic!("it does not say `{what}`: {error}"),
            }
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Both fail when it has ended, which is as good.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Acts on the subject; where that hangs, asks for the same once more.
fn house() -> Workspace {
    let act = json!([{ "tool": "act", "args": { "word": "{{subject}}" } }]);
    Workspace::new(&json!({ "rules": [
        { "when": { "turn": 0 }, "call": act },
        { "when": { "turn": 1, "contains": "Subject: before" }, "call": act },
        { "when": { "turn": 1, "contains": "Subject: after" }, "call": act },
        { "say": "Well." },
    ] }))
    .talkative()
}

/// Kills the engine while it acts on a letter of that subject.
fn kill(test: &str, tool: &Act, house: &Workspace, subject: &str) {
    let eml = note(&format!("{subject}@guest.example"), "", "Please.");
    house.write(
        "letter.eml",
        &eml.replace("Subject: Breakfast", &format!("Subject: {subject}")),
    );
    let mut engine = Other::start(test, tool, house.path());
    let moment = if subject.starts_with("after") {
        "acted"
    } else {
        "begins"
    };
    assert!(engine.until(moment), "{subject}: the tool was not called");
    if let Some(n) = subject.strip_prefix("around-") {
        let wait = Duration::from_micros(n.parse::<u64>().expect("a number") * 250);
        let began = Instant::now();
        while began.elapsed() < wait {
            std::hint::spin_loop();
        }
    }
}

/// The results of the calls of a letter's run, in order.
async fn results(house: &Workspace, subject: &str) -> Vec<String> {
    let sql = "SELECT coalesce(e.payload_json ->> '$.error.code', 'ok') FROM thread_tool_events e
        JOIN messages m ON m.id = e.parent_message_id
        WHERE m.subject = $1 AND e.event_type = 'tool_result' ORDER BY e.step_index";
    db::query_scalar(sql)
        .bind(subject)
        .fetch_all(&mut house.rows().await)
        .await
        .expect("results")
}

fn done(house: &Workspace, subject: &str) -> usize {
    let done = std::fs::read_to_string(house.path().join(DONE)).unwrap_or_default();
    done.lines().filter(|line| *line == subject).count()
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_call_not_to_be_made_twice_acts_at_most_once_after_a_kill() {
    let test = "a_call_not_to_be_made_twice_acts_at_most_once_after_a_kill";
    if std::env::var(CHILD).is_ok() {
        return as_engine(&ONCE).await;
    }
    let house = house();
    let subject = |n: u32| format!("{}-{n}", ["before", "after", "around"][n as usize % 3]);
    for n in 0..KILLS {
        kill(test, &ONCE, &house, &subject(n));
    }
    assert!(
        !Other::start(test, &ONCE, house.path()).until("nothing more"),
        "it comes to rest"
    );
    let mut unknown = 0;
    for n in 0..KILLS {
        let subject = subject(n);
        let (acted, results) = (done(&house, &subject), results(&house, &subject).await);
        let results: Vec<&str> = results.iter().map(String::as_str).collect();
        let is_right = match (n % 3, &results[..]) {
            (0, ["outcome_unknown", "not_again"]) => acted == 0,
            (1, ["outcome_unknown", "not_again"]) => acted == 1,
            (2, ["outcome_unknown"]) => acted <= 1,
            (2, ["ok"]) => acted == 1,
            _ => false,
        };
        assert!(is_right, "{subject} acted {acted} times: {results:?}");
        unknown += i64::from(results[0] == "outcome_unknown");
    }
    println!("{KILLS} kills in the middle of a call: of {unknown} nobody knows the outcome");
    let mut rows = house.rows().await;
    audit(&mut rows).await;
    let left = "SELECT (SELECT count(*) FROM runs WHERE state = 'succeeded'),
        (SELECT count(*) FROM notices WHERE kind = 'outcome_unknown')";
    let left: (i64, i64) = db::query_as(left)
        .fetch_one(&mut rows)
        .await
        .expect("counts");
    assert_eq!(left, (i64::from(KILLS), unknown));
}

/// The control: what may be repeated is repeated after a kill that came when it had acted.
#[tokio::test]
async fn a_call_that_may_be_made_twice_acts_twice_after_a_kill() {
    let test = "a_call_that_may_be_made_twice_acts_twice_after_a_kill";
    if std::env::var(CHILD).is_ok() {
        return as_engine(&REPEATABLE).await;
    }
    let house = house();
    kill(test, &REPEATABLE, &house, "after-1");
    assert!(Other::start(test, &REPEATABLE, house.path()).until("acted"));
    assert_eq!(done(&house, "after-1"), 2);
}
