//! What is edited while an engine works is not in force, and both the engine and the commands beside it say so.

use crate::app::{TestApp, Workspace, note};
use attache::config::in_force::{Edits, edited_since_start, note as note_in_force};
use serde_json::json;

fn answering() -> serde_json::Value {
    json!({ "rules": [{ "say": "Seven." }] })
}

fn own_pid() -> String {
    std::process::id().to_string()
}

#[tokio::test]
async fn each_edit_is_told_once_what_is_put_back_is_in_force_again() {
    let app = TestApp::start(answering()).await;
    let (place, snapshot) = (
        app.engine.config.workspace.clone(),
        app.engine.config.snapshot.clone(),
    );
    note_in_force(&snapshot, &place).expect("written down");
    let mut edits = Edits::since(&snapshot, &place);
    assert_eq!(edits.new_edits(), Vec::<String>::new());
    let security = place.join("configs/security.json");
    let before = std::fs::read_to_string(&security).expect("a file");
    std::fs::write(&security, format!("{before}\n\n")).expect("an edit");
    app.workspace.write(
        "personas/nora/persona.json",
        r#"{"name": "Nora", "address": "nora"}"#,
    );
    let wanted = ["configs/security.json", "personas/nora/persona.json"];
    assert_eq!(edits.new_edits(), wanted);
    assert_eq!(edits.new_edits(), Vec::<String>::new(), "once");
    assert_eq!(
        edited_since_start(&place, &own_pid()),
        Some(wanted.map(str::to_owned).to_vec())
    );
    assert_eq!(
        edited_since_start(&place, "1"),
        None,
        "another process left it"
    );
    std::fs::write(&security, &before).expect("put back");
    assert_eq!(edits.new_edits(), Vec::<String>::new());
    assert_eq!(
        edited_since_start(&place, &own_pid()),
        Some(vec![wanted[1].to_owned()])
    );
    std::fs::write(&security, format!("{before}\n")).expect("an edit");
    assert_eq!(
        edits.new_edits(),
        ["configs/security.json"],
        "again, because it is another edit"
    );
    app.workspace.write(".secrets", "OPENAI_API_KEY=new\n");
    assert_eq!(edits.new_edits(), [".secrets"]);
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
