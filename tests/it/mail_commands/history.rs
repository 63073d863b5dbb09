//! What a model is told of commands and of the engine's mail: nothing; and what it is told of letters that are answered late.

use super::{letter, taken};
use crate::app::{TestApp, Workspace, db, note};
use crate::identity::world::World;
use crate::summaries::{ASKED, small_house};
use attache::domain::{MessageId, RunId};
use attache::gateway::intake_contract::CopyOutcome;
use serde_json::json;

const FIELDS: [&str; 6] = ["From", "To", "Subject", "Date", "Message-ID", "In-Reply-To"];
/// Each command, as an owner types it.
const COMMANDS: [&str; 11] = [
    "/status",
    "/help",
    "/cancel",
    "/pause",
    "/resume",
    "/reset",
    "/approve 0123456789",
    "/reject 0123456789 for a reason",
    "/statsu",
    "/resume now",
    "/HELP!",
];

/// A world whose model searches when it is asked to find something.
async fn world() -> World {
    let script = json!({ "rules": [
        { "when": { "contains": "Please find", "turn": 0 }, "call": [{ "tool": "search_email", "args": { "query": "heron" } }] },
        { "say": "Noted." },
    ] });
    World::in_workspace(Workspace::new(&script), json!({})).await
}

/// A signed letter of the owner into the thread of `x0`.
fn reply(world: &World, id: &str, text: &str) -> String {
    let eml = letter(world, id, "In-Reply-To: <x0@x.test>\r\n", text);
    world.signed_with("home.test", &eml, &FIELDS, |signer| signer)
}

/// What the model is asked about a letter, all turns.
async fn asked(world: &World, eml: &str) -> String {
    let accepted = world.hand_over(eml, None).await.expect("taken");
    world.app.drain().await;
    let CopyOutcome::Run(run) = &accepted.copies[0].outcome else {
        panic!("no run but {:?}", accepted.copies[0].outcome);
    };
    let prompts = world.app.prompts(run.as_str()).await;
    let messages = prompts.iter().map(|prompt| prompt["messages"].to_string());
    messages.collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_model_reads_a_command_nor_what_the_engine_answered() {
    let world = world().await;
    asked(&world, &reply(&world, "x0", "The word is egret.")).await;
    for (n, line) in COMMANDS.into_iter().enumerate() {
        let eml = reply(
            &world,
            &format!("c{n}"),
            &format!("{line}\r\n\r\nThe heron K_BELOW is mine."),
        );
        assert_eq!(taken(&world, &eml).await, "command", "{line}");
        world.app.drain().await;
        // What stops the persona is taken back.
        if line == "/pause" {
            let lift = reply(&world, "lift", "/resume");
            assert_eq!(taken(&world, &lift).await, "command");
            world.app.drain().await;
        }
        let read = asked(&world, &reply(&world, &format!("q{n}"), "Please find it.")).await;
        assert!(!read.contains("K_BELOW"), "{line}: {read}");
        for words in [
            "not halted",
            "is no command that I know",
            "Commands for ada",
            "was not carried out",
            "to cancel",
            "has that number",
        ] {
            assert!(!read.contains(words), "{line}: {words}: {read}");
        }
        assert!(
            !read.contains("begins with a message of yours"),
            "{line}: {read}"
        );
        let is_reset = COMMANDS[..=n].contains(&"/reset");
        assert_eq!(read.contains("egret"), !is_reset, "the control: {line}");
    }
    for verified in world.app.workspace.verified().await {
        let outcome = &verified.outcome;
        assert!(
            matches!(outcome, attache::replay::verify::Outcome::Identical { .. }),
            "{outcome:?}"
        );
    }
    world.app.check().await;
}

/// G8: what a thread's past is boiled down to has no more of them than the past.
#[tokio::test]
#[ignore = "second tier"]
async fn no_summary_is_asked_for_with_a_command_or_its_answer() {
    let world = World::in_workspace(small_house(&json!({ "say": "{{text}}" })), json!({})).await;
    let long = "The weir is quiet at dusk and the path along it is dry again today. ".repeat(4);
    asked(&world, &reply(&world, "x0", &format!("{long}100 eels."))).await;
    for n in 1..12 {
        let line = ["/status", "/help", "/statsu"][n % 3];
        let below = format!("{line}\r\n\r\nThe heron K_BELOW is mine.");
        assert_eq!(
            taken(&world, &reply(&world, &format!("c{n}"), &below)).await,
            "command"
        );
        world.app.drain().await;
        let text = format!("{long}{} eels.", 100 + n);
        asked(&world, &reply(&world, &format!("x{n}"), &text)).await;
    }
    let mut rows = world.app.workspace.rows().await;
    let sql = "SELECT id FROM runs WHERE trigger = 'summary' ORDER BY seq";
    let runs: Vec<String> = db::query_scalar(sql)
        .fetch_all(&mut rows)
        .await
        .expect("runs");
    assert!(!runs.is_empty());
    for (at, run) in runs.iter().enumerate() {
        let prompts = world.app.prompts(run).await;
        let read: String = prompts.iter().map(ToString::to_string).collect();
        assert!(read.contains(ASKED) && read.contains(" eels"), "{read}");
        assert!(at > 0 || read.contains("100 eels"), "the control: {read}");
        for words in [
            "K_BELOW",
            "/status",
            "not halted",
            "is no command that I know",
            "Commands for ada",
        ] {
            assert!(!read.contains(words), "{words}: {read}");
        }
    }
    world.app.check().await;
}

/// A thread that begins with a command has no past.
#[tokio::test]
async fn a_thread_that_begins_with_a_command_begins_with_the_letter_after_it() {
    let world = world().await;
    assert_eq!(
        taken(&world, &reply(&world, "x0", "/status")).await,
        "command"
    );
    world.app.drain().await;
    let read = asked(&world, &reply(&world, "x1", "And now?")).await;
    assert!(
        !read.contains("/status") && !read.contains("message of yours"),
        "{read}"
    );
    world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_waits_for_the_open_command_of_its_thread() {
    for line in COMMANDS {
        let world = world().await;
        asked(&world, &reply(&world, "x0", "The word is egret.")).await;
        assert_eq!(taken(&world, &reply(&world, "c", line)).await, "command");
        assert_eq!(
            taken(&world, &reply(&world, "q", "What was the word?")).await,
            "run"
        );
        let other = letter(&world, "other", "", "Something else.");
        let other = world.signed_with("home.test", &other, &FIELDS, |signer| signer);
        assert_eq!(taken(&world, &other).await, "run");
        // The engine works on runs before it has carried the command out.
        let store = &world.app.engine.store;
        let claimed = store.claim_runs(9, 9).await.expect("claimed");
        assert_eq!(claimed.len(), 1, "{line}: the run of the other thread");
        let open = store.open_commands().await.expect("commands");
        for command in &open {
            store
                .act_on_command(command.seq, &[])
                .await
                .expect("carried out");
        }
        let claimed = store.claim_runs(9, 9).await.expect("claimed");
        let is_open = !matches!(line, "/pause" | "/cancel");
        assert_eq!(
            claimed.len(),
            usize::from(is_open),
            "{line}: now its own, unless it was told to wait or to end"
        );
    }
}

#[tokio::test]
async fn a_letter_right_after_a_reset_is_answered_without_what_was_before() {
    let world = world().await;
    asked(&world, &reply(&world, "x0", "The word is egret.")).await;
    assert_eq!(
        taken(&world, &reply(&world, "c", "/reset")).await,
        "command"
    );
    let read = asked(&world, &reply(&world, "q", "What was the word?")).await;
    assert!(!read.contains("egret"), "{read}");
    world.app.check().await;
}

/// Letters of a stranger are filed; the owner has them answered in any order.
#[tokio::test]
#[ignore = "second tier"]
async fn an_answer_to_a_later_letter_stands_in_no_earlier_history() {
    for order in [
        [0, 1, 2],
        [2, 1, 0],
        [1, 0, 2],
        [2, 0, 1],
        [1, 2, 0],
        [0, 2, 1],
    ] {
        let workspace = Workspace::new(&json!({ "rules": [
            { "when": { "contains": "K_LETTER2" , "turn": 0 }, "say": "K_ANSWER2" },
            { "when": { "contains": "K_LETTER1", "turn": 0 }, "say": "K_ANSWER1" },
            { "say": "K_ANSWER0" },
        ] }));
        workspace.set("configs/security.json", "/access", json!({ "allow": [] }));
        let app = workspace.start().await;
        let mut letters = Vec::new();
        for n in 0..3 {
            let parent = match n {
                0 => String::new(),
                _ => format!("In-Reply-To: <z{}@stranger.example>\n", n - 1),
            };
            let eml = note(
                &format!("z{n}@stranger.example"),
                &parent,
                &format!("K_LETTER{n}"),
            );
            let eml = eml.replace("guest.example", "stranger.example");
            let accepted = app.receive(&eml).await.expect("taken");
            letters.push(accepted.copies[0].message.clone());
        }
        app.drain().await;
        for n in order {
            let run = answer(&app, &letters[n]).await;
            let prompts = app.prompts(run.as_str()).await;
            let messages = prompts.iter().map(|prompt| prompt["messages"].to_string());
            let read: String = messages.collect();
            for later in n + 1..3 {
                assert!(
                    !read.contains(&format!("K_ANSWER{later}")),
                    "{order:?}: {later} in {n}: {read}"
                );
            }
            assert!(
                !read.contains("begins with a message of yours"),
                "{order:?}: {n}: {read}"
            );
            for earlier in 0..n {
                assert!(
                    read.contains(&format!("K_LETTER{earlier}")),
                    "{order:?}: {earlier} in {n}"
                );
            }
        }
        app.check().await;
    }
}

async fn answer(app: &TestApp, message: &MessageId) -> RunId {
    let run = app.engine.store.answer_message(message).await;
    let run = run.expect("queued");
    app.drain().await;
    run
}

/// The answer to an earlier letter that was written after a later one came in stays with its letter.
#[tokio::test]
async fn a_late_answer_to_an_earlier_letter_is_history() {
    let world = world().await;
    assert_eq!(
        taken(&world, &reply(&world, "x0", "The word is egret.")).await,
        "run"
    );
    assert_eq!(
        taken(&world, &reply(&world, "x1", "What was it?")).await,
        "run"
    );
    world.app.drain().await;
    let read = asked(&world, &reply(&world, "x2", "And?")).await;
    assert_eq!(read.matches("Noted.").count(), 2, "{read}");
    world.app.check().await;
}

/// A run that failed is queued again after its letter was taken back: it goes on with what it read before, and is told so.
#[tokio::test]
async fn a_retried_run_is_told_that_later_letters_were_answered() {
    for is_overtaken in [true, false] {
        let app = TestApp::start(json!({ "rules": [
            { "when": { "contains": "Forget it" }, "say": "It is cancelled." },
            { "when": { "contains": "K_PRICE", "turn": 0 }, "say": "90.", "error": { "class": "bad_request", "times": 1 } },
            { "say": "Noted." },
        ] }))
        .await;
        let first = app
            .run_of(&note(
                "p1@guest.example",
                crate::app::PROVEN,
                "What is the price? K_PRICE",
            ))
            .await;
        app.drain().await;
        assert_eq!(app.outcome(&first).await.0, "failed");
        if is_overtaken {
            let more = format!("{}In-Reply-To: <p1@guest.example>\n", crate::app::PROVEN);
            let later = note("p2@guest.example", &more, "Forget it, cancel my booking.");
            let later = app.run_of(&later).await;
            app.drain().await;
            assert_eq!(app.outcome(&later).await.0, "succeeded");
        }
        app.engine
            .store
            .retry_run(&RunId::new(first.clone()))
            .await
            .expect("queued");
        app.drain().await;
        assert_eq!(app.outcome(&first).await.0, "succeeded");
        let prompts = app.prompts(&first).await;
        let read = prompts.last().expect("a request")["messages"].to_string();
        assert_eq!(read.contains("answered late"), is_overtaken, "{read}");
        for verified in app.workspace.verified().await {
            let outcome = &verified.outcome;
            assert!(
                matches!(outcome, attache::replay::verify::Outcome::Identical { .. }),
                "{outcome:?}"
            );
        }
        app.check().await;
    }
}
