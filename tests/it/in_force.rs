//! What is edited beside a working engine and not in force yet, as commands beside it see it.

use crate::app::{TestApp, Workspace, note};
use attache::config::in_force::{FileStamps, InForce, StartedListeners, after_restart};
use serde_json::json;

fn answering() -> serde_json::Value {
    json!({ "rules": [{ "say": "Seven." }] })
}

#[tokio::test]
async fn an_edit_is_seen_once_by_its_stamp_and_named_until_it_is_put_back() {
    let app = TestApp::start(answering()).await;
    let config = app.engine.config.clone();
    let place = config.workspace.clone();
    let own = InForce::from_snapshot(
        &config.snapshot,
        StartedListeners::from_gateway(&config.gateway),
    );
    own.note(&place).expect("written down");
    assert_eq!(own.edited(&place), Vec::<String>::new());
    let looks = FileStamps::from_config(&config);
    let security = place.join("configs/security.json");
    let before = std::fs::read_to_string(&security).expect("a file");
    std::fs::write(&security, format!("{before}\n\n")).expect("an edit");
    app.workspace.write(
        "personas/nora/persona.json",
        r#"{"name": "Nora", "address": "nora"}"#,
    );
    let wanted = ["configs/security.json", "personas/nora/persona.json"];
    let again = FileStamps::from_config(&config);
    assert_eq!(again.changed_since(&looks), wanted);
    assert_eq!(
        FileStamps::from_config(&config).changed_since(&again),
        Vec::<String>::new(),
        "once"
    );
    let stored = InForce::read(&place, &own.pid).expect("of this process");
    assert_eq!(stored.edited(&place), wanted);
    assert!(
        InForce::read(&place, "1").is_none(),
        "another process left it"
    );
    std::fs::write(&security, &before).expect("put back");
    assert_eq!(stored.edited(&place), [wanted[1]]);
    app.workspace.write(".secrets", "OPENAI_API_KEY=new\n");
    let secrets = FileStamps::from_config(&config).changed_since(&again);
    assert!(secrets.contains(&".secrets".to_owned()), "{secrets:?}");
}

#[tokio::test]
async fn a_run_of_an_unknown_persona_waits_until_the_engine_knows_it() {
    let workspace = Workspace::new(&answering());
    workspace.persona("eve", "Eve");
    let app = workspace.start().await;
    let to_eve = note("e1@guest.example", "", "Hello").replace("ada@", "eve@");
    let run = app.run_of(&to_eve).await;
    let (home, away) = (
        app.workspace.path().join("personas/eve"),
        app.workspace.path().join("eve-away"),
    );
    std::fs::rename(&home, &away).expect("away");
    // This engine was told of Ada alone; letters to her come after the one that waits.
    let app = app.restart().await;
    let other = app.run_of(&note("a1@guest.example", "", "To Ada")).await;
    app.drain().await;
    assert_eq!(app.outcome(&other).await.0, "succeeded");
    assert_eq!(app.outcome(&run).await, ("queued".to_owned(), None, None));
    assert_eq!(
        app.row("SELECT CAST(attempt AS TEXT) FROM runs WHERE id = $1", &run)
            .await,
        [Some("0".to_owned())]
    );
    assert_eq!(app.notices().len(), 1);
    let text = app.notices()[0].text.clone();
    assert!(
        text.contains("no persona `eve`") && text.contains("attache runs cancel"),
        "{text}"
    );
    std::fs::rename(&away, &home).expect("back");
    let app = app.restart().await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    app.check().await;
}

/// An edit of the listeners, and what a new start alone brings.
#[tokio::test]
async fn an_edited_listener_is_said_to_need_a_restart_before_the_engine_has_read_it() {
    let app = TestApp::start(answering()).await;
    let config = app.engine.config.clone();
    let started = StartedListeners::from_gateway(&config.gateway);
    InForce::from_snapshot(&config.snapshot, started.clone())
        .note(&config.workspace)
        .expect("written down");
    let stored = InForce::read(&config.workspace, &std::process::id().to_string());
    let stored = stored.expect("of this process");
    let names = attache::cli::name_catalog();
    let smtp = |port: u16| json!({ "kind": "smtp", "address": format!("127.0.0.1:{port}") });
    let pages = json!({ "kind": "http", "address": "127.0.0.1:8025" });
    let cases = [
        (
            json!([smtp(2526)]),
            vec!["listeners: listening on 127.0.0.1:2526"],
        ),
        (
            json!([smtp(2526), smtp(2527)]),
            vec!["listeners: listening on 127.0.0.1:2526, 127.0.0.1:2527"],
        ),
        (
            json!([pages]),
            vec!["http_listeners: listening on 127.0.0.1:8025"],
        ),
        (
            json!([smtp(2526), pages]),
            vec![
                "listeners: listening on 127.0.0.1:2526",
                "http_listeners: listening on 127.0.0.1:8025",
            ],
        ),
        (
            json!([{ "kind": "lmtp", "address": "unix:data/lmtp.sock" }]),
            vec!["listeners: listening on unix:"],
        ),
    ];
    for (listeners, wanted) in cases {
        app.workspace
            .set("configs/gateway.json", "/listeners", listeners);
        assert_eq!(stored.edited(&config.workspace), ["configs/gateway.json"]);
        let said = crate::guest_house::run(app.workspace.path(), &["config", "check"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        for words in &wanted {
            let what = "in force after a restart of the engine that works here";
            let line = format!("{what}: configs/gateway.json: {words}");
            assert!(said.stderr.contains(&line), "{line}: {}", said.stderr);
        }
        let edited = attache::config::load(app.workspace.path(), &names).expect("good");
        let found = after_restart(&stored.started, &edited.gateway);
        let new: Vec<&String> = found
            .iter()
            .filter(|one| !one.contains("no longer"))
            .collect();
        assert_eq!(new.len(), wanted.len(), "{found:?}");
        assert!(
            new.iter()
                .zip(&wanted)
                .all(|(one, words)| one.contains(words)),
            "{found:?}"
        );
    }
    app.workspace
        .set("configs/gateway.json", "/owners", json!(["nora@home.test"]));
    app.workspace
        .set("configs/gateway.json", "/listeners", json!([]));
    let edited = attache::config::load(app.workspace.path(), &names).expect("good");
    let found = after_restart(&stored.started, &edited.gateway);
    assert!(
        found
            .iter()
            .all(|one| one.contains("no longer listening on")),
        "{found:?}"
    );
}
