//! A database that 0.2.0 wrote, with a thousand letters and their runs: every later version opens it, migrates it, executes its runs
//! again and goes on with it.
//!
//! `ATTACHE_KEEP_DATABASE=1 cargo test kept_database -- --include-ignored` writes `tests/fixtures/kept_0_2_0.zst` anew. Nobody does
//! that any more once 0.2.0 is released: a later version adds a file of its own.

use super::erasure::stopped;
use crate::app::database::{self, Kept, is_sqlite_only};
use crate::app::{NOTE_DATE, PROVEN, TestApp, Workspace, dated_by, db};
use attache::replay::verify::Outcome;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LETTERS: usize = 1_000;
/// Letters of one thread.
const THREAD: usize = 4;
const BETWEEN: Duration = Duration::from_secs(900);

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kept_0_2_0.zst")
}

/// What the letters of a thread are about: a word that they have, and what the model does about it.
fn themes() -> [(&'static str, Vec<Value>); 7] {
    let call = |tool: &str, args: Value| json!({ "call": [{ "tool": tool, "args": args }] });
    let say = |text: &str| json!({ "say": text });
    [
        (
            "breakfast",
            vec![say(
                "Breakfast is from seven to ten, in the room by the lake.",
            )],
        ),
        (
            "house rules",
            vec![
                call("read_file", json!({ "path": "knowledge/house.md" })),
                say("The rules of the house are short: from seven to ten, and quiet after that."),
            ],
        ),
        (
            "boat",
            vec![
                call("search_email", json!({ "query": "boat" })),
                say("The boat is yours on that day. Life jackets are in the shed."),
            ],
        ),
        (
            "allergy",
            vec![
                call(
                    "update_memory",
                    json!({ "append": "A guest of room 12 eats no nuts." }),
                ),
                call(
                    "remember",
                    json!({ "text": "Eats no nuts.", "kind": "fact", "source_quote": "the guests of room" }),
                ),
                say("We have noted that, and the kitchen knows it."),
            ],
        ),
        (
            "picture",
            vec![say("Thank you for the picture of the lake.")],
        ),
        (
            "taxi",
            vec![
                call(
                    "send_email",
                    json!({ "to": ["cab@taxi.test"], "subject": "A guest", "body": "At nine, please." }),
                ),
                say("A taxi is ordered for nine."),
            ],
        ),
        (
            "thunder",
            vec![json!({ "error": { "class": "bad_request" } })],
        ),
    ]
}

fn house() -> Workspace {
    let mut rules = Vec::new();
    for (word, turns) in themes() {
        for (turn, answer) in turns.into_iter().enumerate() {
            let mut rule = answer;
            rule["when"] = json!({ "contains": word, "turn": turn });
            rules.push(rule);
        }
    }
    rules.push(json!({ "say": "Good." }));
    let workspace = Workspace::new(&json!({ "rules": rules })).talkative();
    workspace.write(
        "personas/ada/responsibilities/morning.md",
        "---\nname: Morning\nschedule: \"30 9 * * *\"\ntimezone: UTC\n---\nLook around.\n",
    );
    workspace
}

/// The letter of that number. Of some threads each run asks the owner, and the last five still wait; of some each fails.
fn letter(number: usize) -> (usize, String) {
    let thread = number / THREAD;
    let theme = match thread {
        _ if thread >= LETTERS / THREAD - 5 => 5,
        _ if thread % 20 == 18 && thread < 100 => 5,
        _ if thread % 20 == 19 && thread < 100 => 6,
        _ => thread % 5,
    };
    let (word, _) = &themes()[theme];
    let id = |number: usize| format!("<k{number}@guest.example>");
    let answers = match number % THREAD {
        0 => String::new(),
        _ => format!(
            "In-Reply-To: {}\nReferences: {}\n",
            id(number - 1),
            id(number - 1)
        ),
    };
    let text = format!(
        "Hello Ada,\n\nwe are the guests of room {thread} and this is question {number}: what about the {word} on day {}?\n\n\
         Guest {thread}",
        number % 28 + 1
    );
    let content = match theme {
        4 => format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/plain\n\n{text}\n--B\n\
             Content-Type: application/octet-stream\nContent-Disposition: attachment; filename=lake{number}.bin\n\
             Content-Transfer-Encoding: base64\n\nbGFrZQ==\n--B--\n"
        ),
        _ => format!("\n{text}\n"),
    };
    let letter = format!(
        "{PROVEN}From: Guest {thread} <g{thread}@guest.example>\nTo: ada@engine.test\nSubject: Room {thread}: {word}\n\
         Message-ID: {}\nDate: {NOTE_DATE}\n{answers}{content}",
        id(number)
    );
    (theme, letter)
}

async fn make() {
    let app = house().start().await;
    app.engine
        .scheduler()
        .sync()
        .await
        .expect("responsibilities");
    for number in 0..LETTERS {
        let (theme, letter) = letter(number);
        app.receive(&dated_by(&app.workspace.clock, &letter))
            .await
            .expect("taken");
        app.drain().await;
        app.workspace.clock.advance(BETWEEN);
        if number % 48 == 0 && theme != 5 {
            app.engine.scheduler().tick().await.expect("a tick");
            app.drain().await;
        }
    }
    let workspace = stopped(app).await;
    let Kept::File(bytes) = database::keep(workspace.path()).await else {
        return;
    };
    let packed = zstd::encode_all(&*bytes, 19).expect("packed");
    println!("{} bytes of {}", packed.len(), bytes.len());
    std::fs::write(kept(), packed).expect("a fixture");
}

async fn count(app: &TestApp, sql: &'static str) -> i64 {
    let mut rows = app.workspace.rows().await;
    let count = db::query_scalar(sql).fetch_one(&mut rows).await;
    count.expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_database_of_0_2_0_is_migrated_executed_again_and_gone_on_with() {
    if is_sqlite_only("its file") {
        return;
    }
    if std::env::var_os("ATTACHE_KEEP_DATABASE").is_some() {
        make().await;
    }
    let packed = std::fs::File::open(kept()).expect("the database that was kept");
    let bytes = zstd::decode_all(packed).expect("its bytes");
    let workspace = house();
    let letters = u32::try_from(LETTERS).expect("a small number");
    workspace.clock.advance(BETWEEN * letters);
    database::put(&Kept::File(bytes), workspace.path()).await;
    let app = workspace.start().await;
    let inbound = "SELECT count(*) FROM messages WHERE direction = 'inbound'";
    assert_eq!(count(&app, inbound).await, 1_000);
    let waiting = "SELECT count(*) FROM approvals WHERE state = 'open'";
    assert_eq!(count(&app, waiting).await, 5);
    for sql in [
        "SELECT count(*) FROM runs WHERE state = 'failed'",
        "SELECT count(*) FROM runs WHERE trigger = 'schedule'",
        "SELECT count(*) FROM attachments WHERE encoding IS NOT NULL",
        "SELECT count(*) FROM memory",
    ] {
        assert!(count(&app, sql).await > 3, "{sql}");
    }
    let (mut identical, mut other) = (0, Vec::new());
    for run in app.workspace.verified().await {
        match run.outcome {
            Outcome::Identical { .. } => identical += 1,
            Outcome::NothingAsked => {}
            outcome => other.push(outcome),
        }
    }
    assert!(other.is_empty(), "{other:#?}");
    assert!(identical >= 900, "only {identical} runs are identical");
    crate::app::audit(&mut app.workspace.rows().await).await;
    // A letter to an old thread has its history, and a search finds what was written then.
    let next = letter(978).1.replace("<k978@", "<next@");
    let run = app.run_of(&dated_by(&app.workspace.clock, &next)).await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let prompts = app.prompts(&run).await;
    assert!(prompts[0].to_string().contains("this is question 977"));
}
