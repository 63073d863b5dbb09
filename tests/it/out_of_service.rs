//! A persona whose own file is wrong does not work, and nobody else notices: its mail, runs and duties wait for its mending.

use crate::app::db;
use crate::app::{TestApp, Workspace, letter};
use attache::config::{ConfigErrors, load};
use attache::domain::Address;
use attache::gateway::intake_contract::{CopyOutcome, RecipientVerdict, Refusal};
use serde_json::{Value, json};
use std::time::Duration;

const TO_EVE: &str = "From: bob@client.example\nTo: eve@engine.test\nMessage-ID: <e@client.example>\nSubject: hi\n\nHello?\n";
const TO_ADA: &str = "From: bob@client.example\nTo: ada@engine.test\nMessage-ID: <a@client.example>\nSubject: hi\n\nHello?\n";
const TO_BOTH: &str = "From: bob@client.example\nTo: eve@engine.test, ada@engine.test\nMessage-ID: <b@client.example>\nSubject: hi\n\nHello?\n";

fn workspace() -> Workspace {
    let workspace = Workspace::new(
        &json!({ "turns": [{ "say": "Good morning." }, { "say": "Good evening." }] }),
    );
    workspace.persona("eve", "Eve");
    workspace.set(
        "configs/gateway.json",
        "/notices",
        json!({ "persona": "ada" }),
    );
    workspace
}

fn verdict(app: &TestApp, address: &str) -> RecipientVerdict {
    app.engine
        .intake()
        .recipient(&Address::parse(address).expect("an address"))
}

async fn count(app: &TestApp, sql: &'static str) -> i64 {
    let mut rows = app.workspace.rows().await;
    db::query(sql)
        .fetch_one(&mut rows)
        .await
        .expect("a count")
        .get(0)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_bad_persona_file_stops_that_persona_and_nobody_else() {
    // What is wrong -> an address whose mail must come again, one that is unknown for good.
    let cases: &[(&str, &str, &str)] = &[
        (
            r#"{"name": "Eve", "address": "eve", "aliases": ["night"], "colour": "red"}"#,
            "night@engine.test",
            "nobody@engine.test",
        ),
        (
            r#"{"name": "Eve", "address": "eve", "tools": ["no_such_tool"]}"#,
            "eve+tag@engine.test",
            "nobody@engine.test",
        ),
        (
            r#"{"name": "Eve", "address": "eve", "provider": "openai"}"#,
            "eve@engine.test",
            "nobody@engine.test",
        ),
        // Nobody knows any more which addresses it has; that of a domain of its own stands in the text.
        (
            r#"{"name": "Eve", "address": "eve@night.test",,}"#,
            "eve@night.test",
            "eve@elsewhere.test",
        ),
        ("{", "eve@engine.test", "eve@elsewhere.test"),
        (
            r#"{"name": "Eve"}"#,
            "whoever@engine.test",
            "eve@elsewhere.test",
        ),
        // An owner who writes from it would be answered by the engine itself.
        (
            r#"{"name": "Eve", "address": "olga@home.test"}"#,
            "olga@home.test",
            "nobody@engine.test",
        ),
    ];
    for (file, waits, unknown) in cases {
        let workspace = workspace();
        workspace.write("personas/eve/persona.json", file);
        let app = workspace.start().await;
        assert_eq!(
            verdict(&app, waits),
            RecipientVerdict::OutOfService,
            "{file}"
        );
        assert!(!verdict(&app, unknown).is_ours(), "{file}: {unknown}");
        app.run_of(TO_ADA).await;
        app.drain().await;
        assert_eq!(app.sent().len(), 1, "{file}: the other persona answers");
        assert_eq!(app.notices().len(), 1, "{file}");
        let text = &app.notices()[0].text;
        assert!(
            text.contains("`eve` is out of service") && text.contains("attache config check"),
            "{text}"
        );
        assert!(
            app.engine
                .warnings()
                .iter()
                .any(|warning| warning.to_string().contains("out of service")),
            "{file}"
        );
        app.check().await;
    }
}

#[tokio::test]
async fn letters_runs_and_duties_wait_for_a_persona_out_of_service() {
    let workspace = workspace();
    workspace.write(
        "personas/eve/responsibilities/tea.md",
        "---\nname: Tea\nschedule: \"0 10 * * *\"\ntimezone: UTC\n---\nMake tea.\n",
    );
    let app = workspace.start().await;
    app.engine.scheduler().sync().await.expect("files are read");
    let waiting = app.run_of(TO_EVE).await;

    app.workspace
        .set("personas/eve/persona.json", "/colour", json!("red"));
    let app = app.restart().await;
    for eml in [TO_EVE, TO_BOTH] {
        let refused = app.engine.intake().accept(letter(eml)).await;
        assert!(matches!(refused, Err(Refusal::OutOfService)), "{refused:?}");
    }
    app.workspace.clock.advance(Duration::from_secs(2 * 3600));
    app.engine.scheduler().sync().await.expect("files are read");
    let tick = app.engine.scheduler().tick().await.expect("a tick");
    assert!(tick.fired.is_empty(), "{tick:?}");
    app.drain().await;
    assert_eq!(app.outcome(&waiting).await.0, "queued");
    assert_eq!(
        count(
            &app,
            "SELECT count(*) FROM responsibilities WHERE removed_at IS NULL AND error IS NULL"
        )
        .await,
        1
    );
    // The same reason is told once a day, however often the engine starts.
    let app = app.restart().await;
    app.drain().await;
    assert_eq!(app.notices().len(), 1, "{:?}", app.notices());

    app.workspace.persona("eve", "Eve");
    let app = app.restart().await;
    app.drain().await;
    assert_eq!(app.outcome(&waiting).await.0, "succeeded");
    app.engine.scheduler().sync().await.expect("files are read");
    let tick = app.engine.scheduler().tick().await.expect("a tick");
    assert_eq!(
        tick.fired.len(),
        1,
        "its slot of today comes late: {tick:?}"
    );
    let accepted = app.receive(TO_BOTH).await.expect("it comes again");
    assert!(
        accepted
            .copies
            .iter()
            .all(|copy| matches!(copy.outcome, CopyOutcome::Run(_)))
    );
}

#[tokio::test]
async fn two_personas_with_one_address_are_out_of_service_a_third_not() {
    let workspace = workspace();
    workspace.persona("carl", "Carl");
    workspace.set("personas/carl/persona.json", "/aliases", json!(["eve"]));
    let app = workspace.start().await;
    for address in ["eve@engine.test", "carl@engine.test"] {
        assert_eq!(
            verdict(&app, address),
            RecipientVerdict::OutOfService,
            "{address}"
        );
    }
    assert!(matches!(
        verdict(&app, "ada@engine.test"),
        RecipientVerdict::Persona(_)
    ));
}

#[tokio::test]
async fn folder_and_command_letters_wait_for_a_persona_out_of_service() {
    let workspace = workspace();
    workspace.set(
        "configs/gateway.json",
        "/folders",
        json!([{ "path": "data/in", "fallback": "eve", "poll": "5ms" }]),
    );
    workspace.write("personas/eve/persona.json", "{");
    workspace.write("to-eve.eml", TO_EVE);
    for args in [
        &["ingest", "to-eve.eml"][..],
        &["ingest", "--to", "eve@engine.test", "to-eve.eml"],
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
        let said = command
            .args(args)
            .current_dir(workspace.path())
            .output()
            .expect("the binary runs");
        assert_eq!(
            said.status.code(),
            Some(75),
            "a mail server keeps it: {said:?}"
        );
    }
    // One that names nobody is the fallback's, and waits as well.
    workspace.write(
        "data/in/lost.eml",
        "From: bob@client.example\nTo: list@lists.example\n\nHello?\n",
    );
    workspace.write("data/in/to-ada.eml", TO_ADA);
    let app = workspace.start().await;
    let (path, stop) = (
        app.workspace.path().to_path_buf(),
        tokio_util::sync::CancellationToken::new(),
    );
    let TestApp { workspace, engine } = app;
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    while !path.join("data/in/processed/to-ada.eml").exists() {
        crate::app::glance().await;
    }
    stop.cancel();
    serving.await.expect("no panic").expect("an orderly end");
    assert!(
        path.join("data/in/lost.eml").exists(),
        "it stays where it is"
    );
    drop(workspace);
}

#[test]
fn a_check_names_what_is_wrong_and_no_persona_means_no_start() {
    let workspace = workspace();
    workspace.set("personas/eve/persona.json", "/colour", json!("red"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .args(["config", "check", "--json"])
        .current_dir(workspace.path());
    let said = command.output().expect("the binary runs");
    assert_eq!(said.status.code(), Some(65), "{said:?}");
    let told: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let problem = &told["problems"][0];
    assert_eq!(
        (problem["file"].as_str(), problem["path"].as_str()),
        (Some("personas/eve/persona.json"), Some("colour"))
    );

    workspace.write("personas/ada/persona.json", "{");
    let loaded: Result<_, ConfigErrors> = load(workspace.path(), &attache::cli::name_catalog());
    let errors = loaded.expect_err("nobody is left");
    assert_eq!(errors.problems.len(), 2, "{errors}");
}
