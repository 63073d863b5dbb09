//! A run whose standing text is gone waits for it, and its owner is told; a text of one trigger or thread may be missing.

use crate::app::{TestApp, Workspace, proven_note as note};
use attache::app::Reloader;
use attache::config::in_force::InForce;
use attache::config::load;
use attache::domain::{PersonaId, RunId};
use attache::runs::record::as_of::AsOf;
use attache::store::files::guard::guard;
use serde_json::{Value, json};
use std::time::Duration;

const SECURITY: &str = "configs/prompts/security.md";
const STEP: &str = "load-file(configs/prompts/security.md)";

fn workspace(step: &Value) -> Workspace {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
    workspace.set(
        "configs/context.json",
        "/thread",
        json!(["persona", step, "current-input"]),
    );
    workspace.set(
        "configs/gateway.json",
        "/notices",
        json!({ "persona": "ada" }),
    );
    workspace
}

/// Lets so much time pass that whatever waits for a file has looked again.
async fn later(app: &TestApp) {
    app.workspace.clock.advance(Duration::from_secs(6 * 60));
    app.drain().await;
}

fn remove(app: &TestApp, path: &str) {
    std::fs::remove_file(app.workspace.path().join(path)).expect("a removal");
}

async fn attempt(app: &TestApp, run: &str) -> Option<String> {
    let sql = "SELECT CAST(attempt AS TEXT) FROM runs WHERE id = $1";
    app.row(sql, run).await.remove(0)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_waits_for_a_prompt_that_is_gone_and_is_answered_once() {
    for step in [
        json!(STEP),
        json!({ "use": "load-file", "args": [SECURITY], "required": true }),
    ] {
        let workspace = workspace(&step);
        workspace.write(SECURITY, "Tell nobody the code of the door.");
        let app = workspace.start().await;
        remove(&app, SECURITY);
        let run = app.run_of(&note("q1@guest.example", "", "Hello?")).await;
        let follow = app.run_of(&note("q2@guest.example", "", "And me?")).await;
        app.drain().await;
        // More often than a run may be attempted.
        for _ in 0..12 {
            later(&app).await;
        }
        for run in [&run, &follow] {
            let waits = ("waiting_retry".into(), None, Some("config".into()));
            assert_eq!(app.outcome(run).await, waits, "{step}");
            assert_eq!(attempt(&app, run).await.as_deref(), Some("0"));
            assert!(app.prompts(run).await.is_empty(), "nobody was asked");
        }
        assert!(app.sent().is_empty());
        let told: Vec<String> = app.notices().iter().map(|mail| mail.text.clone()).collect();
        assert_eq!(told.len(), 1, "{told:#?}");
        for words in [
            "configs/prompts/security.md is gone",
            &run,
            "put the file back",
        ] {
            assert!(told[0].contains(words), "no {words}: {}", told[0]);
        }

        app.workspace
            .write(SECURITY, "Tell nobody the code of the door.");
        let app = app.restart().await;
        app.drain().await;
        for run in [&run, &follow] {
            assert_eq!(app.outcome(run).await.0, "succeeded", "{step}");
            let prompt = app.prompts(run).await[0].to_string();
            assert!(prompt.contains("code of the door"), "{prompt}");
        }
        later(&app).await;
        assert_eq!((app.sent().len(), app.notices().len()), (2, 1));
        app.check().await;
    }
}

#[tokio::test]
async fn a_prompt_that_comes_back_is_seen_without_a_restart() {
    let app = workspace(&json!(STEP)).start().await;
    let run = app.run_of(&note("q1@guest.example", "", "Hello?")).await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "waiting_retry");
    app.workspace.write(SECURITY, "Be careful.");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "waiting_retry", "not looked yet");
    later(&app).await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    // A reload looks at once.
    remove(&app, SECURITY);
    let run = app.run_of(&note("q2@guest.example", "", "Hello?")).await;
    app.drain().await;
    app.workspace.write(SECURITY, "Be careful.");
    app.engine.reload().await.expect("read again");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_text_of_one_trigger_or_one_that_may_be_missing_holds_nothing_up() {
    let optional = json!({ "use": "load-file", "args": [SECURITY], "required": false });
    let of_some = ["trigger", "thread_id", "persona_id"]
        .map(|name| json!(format!("load-file(configs/prompts/{{{name}}}.md)")));
    for step in of_some.into_iter().chain([optional]) {
        let app = workspace(&step).start().await;
        let run = app.run_of(&note("q1@guest.example", "", "Hello?")).await;
        app.drain().await;
        assert_eq!(app.outcome(&run).await.0, "succeeded", "{step}");
        assert_eq!((app.sent().len(), app.notices().len()), (1, 0), "{step}");
        app.check().await;
    }
}

async fn is_waiting_for_its_time(app: &TestApp, run: &str) -> bool {
    let sql = "SELECT next_attempt_at FROM runs WHERE id = $1 AND state = 'waiting_retry'";
    app.row(sql, run).await[0].is_some()
}

/// Looks often enough that an edit is seen, and read.
async fn settled(reloader: &mut Reloader) {
    for _seen_and_read in 0..2 {
        reloader.look().await.expect("looked");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn readings_that_find_nothing_new_wake_nobody() {
    let app = workspace(&json!("load-file(notes/house.md)")).start().await;
    let mut reloader = app.engine.reloader();
    let run = app.run_of(&note("q1@guest.example", "", "Hello?")).await;
    app.drain().await;
    // Read at every look, because an agent works in the folder of an edited persona.
    let ada = PersonaId::parse("ada").expect("an id");
    let home = app.engine.config.workspace.join("personas/ada");
    let now = app.engine.store.clock().now();
    guard(&home, &ada, &RunId::new("r"), now).expect("an agent works");
    app.workspace.persona("ada", "Another");
    let began = InForce::read(app.workspace.path(), &std::process::id().to_string());
    let began = began.expect("noted").reads;
    for _look in 0..5 {
        settled(&mut reloader).await;
        assert!(is_waiting_for_its_time(&app, &run).await, "it sleeps on");
    }
    let read = InForce::read(app.workspace.path(), &std::process::id().to_string());
    assert!(read.expect("noted").reads > began + 5, "it is read often");
    // The control: the same reading finds the text, which no look at files sees.
    app.workspace.write("notes/house.md", "Be careful.");
    settled(&mut reloader).await;
    assert!(!is_waiting_for_its_time(&app, &run).await, "woken");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
}

#[tokio::test]
async fn a_prompt_that_comes_back_beside_a_faulty_file_is_seen_at_once() {
    let app = workspace(&json!(STEP)).start().await;
    let mut reloader = app.engine.reloader();
    let run = app.run_of(&note("q1@guest.example", "", "Hello?")).await;
    app.drain().await;
    app.workspace
        .write("configs/policy.json", "{ \"rules\": [ ");
    settled(&mut reloader).await;
    assert!(is_waiting_for_its_time(&app, &run).await, "still gone");
    app.workspace.write(SECURITY, "Be careful.");
    settled(&mut reloader).await;
    assert!(!is_waiting_for_its_time(&app, &run).await, "woken");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert!(
        app.engine.reload().await.is_err(),
        "the other is faulty still"
    );
}

#[tokio::test]
async fn a_required_text_of_some_fails_its_run_and_only_it_is_a_problem_of_the_check() {
    let of_persona = |required: Option<bool>| {
        let mut step = json!({ "use": "load-file", "args": ["notes/{persona_id}.md"] });
        if let Some(required) = required {
            step["required"] = json!(required);
        }
        step
    };
    for (required, state, problems) in [
        (None, "succeeded", 0),
        (Some(false), "succeeded", 0),
        (Some(true), "failed", 1),
    ] {
        let app = workspace(&of_persona(required)).start().await;
        let found = app.engine.reload().await.expect("good files").kept;
        assert_eq!(found.len(), problems, "{required:?}: {found:?}");
        let run = app.run_of(&note("q1@guest.example", "", "Hello?")).await;
        app.drain().await;
        let (found, _, class) = app.outcome(&run).await;
        assert_eq!(found, state, "{required:?}");
        assert_eq!(class.is_some(), problems > 0, "{class:?}");
    }
}

/// Engines before this rule answered without the file, and recorded that it was missing.
#[tokio::test]
async fn a_run_that_was_answered_without_the_file_is_assembled_again_alike() {
    let optional = json!({ "use": "load-file", "args": [SECURITY], "required": false });
    let app = workspace(&optional).start().await;
    let run = app.run_of(&note("q1@guest.example", "", "Hello?")).await;
    app.drain().await;
    app.workspace.set(
        "configs/context.json",
        "/thread",
        json!(["persona", STEP, "current-input"]),
    );
    let names = attache::cli::name_catalog();
    let config = load(app.workspace.path(), &names).expect("a configuration");
    let told = AsOf::of_run(&app.engine.store, &RunId::new(&run)).await;
    let told = told.expect("its context");
    assert_eq!(told.len(), 1);
    let cause = told[0].cause(&config).await.expect("assembled");
    assert!(cause.is_none(), "{cause:?}");
    let again = app.run_of(&note("q2@guest.example", "", "Hello?")).await;
    let app = app.restart().await;
    app.drain().await;
    assert_eq!(app.outcome(&again).await.0, "waiting_retry", "a new one");
}
