//! Replay: what a run leaves behind, read back as values and as a timeline.
//!
//! A case is `tests/fixtures/replay/NAME.json` (`letter`, the model's `script`, optional `set`: `file#pointer` ->
//! value) and the timeline that must come of it, `NAME.txt`, with ids and instants normalised; the clock is a manual
//! one. `ATTACHE_BLESS=1 cargo test --test it replay::` writes the timelines anew.

mod diff;
mod fork;
mod page;
mod bundle;
mod selection;

use crate::app::{TestApp, Workspace, proven_note as note};
use attache::domain::{RunId, ThreadId};
use attache::replay::{RunRecord, ThreadRecord, load_run, load_thread, timeline};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/replay")
        .join(name)
}

/// Works off the letter of a case; gives its run.
async fn play(case: &Value) -> (TestApp, RunRecord) {
    let workspace = Workspace::new(&case["script"]);
    for (place, value) in case["set"].as_object().into_iter().flatten() {
        let (file, pointer) = place.split_once('#').expect("file#pointer");
        workspace.set(file, pointer, value.clone());
    }
    let app = workspace.start().await;
    let letter = note(
        "q1@guest.example",
        "",
        case["letter"].as_str().expect("a letter"),
    );
    let run = app.run_of(&letter).await;
    app.drain().await;
    let record = load_run(&app.engine.store, &RunId::new(run))
        .await
        .expect("the run");
    (app, record)
}

/// Runs the program beside the engine; gives its exit code, stdout and stderr.
pub fn attache(workspace: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .env_remove("ATTACHE_LOG")
        .env("ATTACHE_WORKSPACE", workspace)
        .args(args);
    let output = command.output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    (
        output.status.code().expect("no signal"),
        text(output.stdout),
        text(output.stderr),
    )
}

/// UUIDs as `<id 1>`, `<id 2>`, … in the order in which they appear, instants as `<time>`.
fn normalised(text: &str) -> String {
    let (mut ids, mut out, mut rest) = (Vec::<&str>::new(), String::new(), text);
    while let Some(c) = rest.chars().next() {
        if let Some(id) = rest
            .get(..36)
            .filter(|piece| has_shape(piece, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh"))
        {
            let place = ids
                .iter()
                .position(|known| *known == id)
                .unwrap_or(ids.len());
            if place == ids.len() {
                ids.push(id);
            }
            out.push_str(&format!("<id {}>", place + 1));
            rest = &rest[36..];
        } else if rest
            .get(..24)
            .is_some_and(|piece| has_shape(piece, "hhhh-hh-hhThh:hh:hh.hhhZ"))
        {
            out.push_str("<time>");
            rest = &rest[24..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// `h` stands for a hexadecimal digit.
fn has_shape(piece: &str, shape: &str) -> bool {
    piece.chars().zip(shape.chars()).all(|(c, s)| {
        if s == 'h' {
            c.is_ascii_hexdigit()
        } else {
            c == s
        }
    })
}

#[tokio::test]
#[ignore = "second tier"]
async fn every_case_reads_as_its_timeline() {
    let mut names: Vec<String> = std::fs::read_dir(fixture(""))
        .expect("the cases")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 5, "{names:?}");
    let mut wrong = Vec::new();
    for name in names {
        let case = std::fs::read_to_string(fixture(&format!("{name}.json"))).expect("a case");
        let (app, record) = play(&serde_json::from_str(&case).expect("JSON")).await;
        let shown = normalised(&timeline::plain(&timeline::run(&record, false)));
        let expected = fixture(&format!("{name}.txt"));
        if std::env::var_os("ATTACHE_BLESS").is_some() {
            std::fs::write(&expected, &shown).expect("a written timeline");
        }
        if std::fs::read_to_string(&expected).unwrap_or_default() != shown {
            wrong.push(format!("{name}:\n{shown}"));
        }
        app.check().await;
    }
    assert!(
        wrong.is_empty(),
        "these timelines are other than their files:\n{}",
        wrong.join("\n")
    );
}

#[tokio::test]
async fn a_record_survives_its_json() {
    let case = std::fs::read_to_string(fixture("mended.json")).expect("a case");
    let (app, record) = play(&serde_json::from_str(&case).expect("JSON")).await;
    let json = serde_json::to_string(&record).expect("JSON");
    assert_eq!(
        serde_json::from_str::<RunRecord>(&json).expect("a record"),
        record
    );
    let sent = record.mails[0].message.rfc_message_id.clone();
    assert_eq!(app.sent()[0].message_id.as_deref(), Some(sent.as_str()));
    assert_eq!(
        record.turns.len(),
        4,
        "two turns, a failed try and a third turn"
    );
    assert_eq!(
        record
            .calls
            .iter()
            .filter(|call| call.result.is_some())
            .count(),
        3
    );
    assert_eq!(record.turns[0].request["messages"][0]["role"], "user");
    assert_eq!(record.run.usage.cost_micros, Some(2150));
}

#[tokio::test]
async fn a_thread_tells_every_letter_with_its_run_once() {
    let app = TestApp::start(json!({ "rules": [{ "say": "Seven." }] })).await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let answer = app.sent().remove(0).message_id.expect("an id");
    let run = app
        .run_of(&note(
            "q2@guest.example",
            &format!("In-Reply-To: <{answer}>\n"),
            "And dinner?",
        ))
        .await;
    app.drain().await;
    let run = load_run(&app.engine.store, &RunId::new(run))
        .await
        .expect("the run");
    let thread = ThreadId::new(&run.run.thread);
    let record = load_thread(&app.engine.store, &thread, 100, 100)
        .await
        .expect("the thread");
    let directions: Vec<&str> = record
        .messages
        .iter()
        .map(|message| message.direction.as_str())
        .collect();
    assert_eq!(directions, ["inbound", "outbound", "inbound", "outbound"]);
    let json = serde_json::to_string(&record).expect("JSON");
    assert_eq!(
        serde_json::from_str::<ThreadRecord>(&json).expect("a record"),
        record
    );
    let text = timeline::plain(&timeline::thread(&record, false));
    let pairs = |name: &str| {
        text.lines()
            .filter(|line| line.ends_with(&format!("  {name}")))
            .count()
    };
    assert_eq!((pairs("letter"), pairs("mail")), (2, 2), "{text}");
    for once in ["| When is breakfast?", "| And dinner?"] {
        assert_eq!(text.matches(once).count(), 1, "{once} in\n{text}");
    }
    let last = load_thread(&app.engine.store, &thread, 1, 1)
        .await
        .expect("the thread");
    let (messages, runs) = (last.messages.len(), last.runs.len());
    assert_eq!(
        (messages, runs, last.runs[0].run.id.as_str()),
        (1, 1, run.run.id.as_str())
    );
    let text = timeline::plain(&timeline::thread(&last, false));
    assert!(
        text.contains("| And dinner?"),
        "a run whose letter is cut off brings it along:\n{text}"
    );
}

#[tokio::test]
async fn what_was_cut_is_said_and_full_shows_it() {
    let case = std::fs::read_to_string(fixture("hostile.json")).expect("a case");
    let (_app, record) = play(&serde_json::from_str(&case).expect("JSON")).await;
    let short = timeline::plain(&timeline::run(&record, false));
    let full = timeline::plain(&timeline::run(&record, true));
    assert!(short.contains("more lines (--full shows all)") && short.contains("more characters)"));
    assert!(!full.contains("--full") && !full.contains("more characters)"));
    assert!(full.contains("           | 15\n") && !short.contains("           | 15\n"));
}
