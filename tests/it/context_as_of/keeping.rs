//! What is kept, and what is not: each text once, no secret, and nothing of the time before.

use super::workspace::{configs, contexts, correspond, house, meddle};
use crate::app::TestApp;
use crate::app::{db, turns};
use attache::domain::{RunId, sha256_hex};
use attache::runs::record::as_of::{AsOf, AsOfError};
use serde_json::json;

async fn kept(app: &TestApp) -> Vec<(String, String)> {
    let mut rows = app.workspace.rows().await;
    let rows = db::query("SELECT sha256, bytes FROM contents")
        .fetch_all(&mut rows)
        .await
        .expect("contents");
    let text = |row: &db::Row| {
        (
            row.get::<String>(0),
            String::from_utf8(row.get::<Vec<u8>>(1)).expect("UTF-8"),
        )
    };
    rows.iter().map(text).collect()
}

#[tokio::test]
async fn each_text_is_kept_once_under_its_digest() {
    let app = house().start().await;
    correspond(&app).await;
    let texts = kept(&app).await;
    assert!(
        texts
            .iter()
            .all(|(digest, text)| *digest == sha256_hex(&[text.as_bytes()]))
    );
    let count = |wanted: &str| texts.iter().filter(|(_, text)| text == wanted).count();
    assert_eq!(
        (count("Ada answers letters."), count("Nothing new.")),
        (1, 1)
    );
    let before = texts.len();
    app.run_of(&crate::app::note(
        "again@guest.example",
        "",
        "When is breakfast?",
    ))
    .await;
    app.drain().await;
    assert_eq!(kept(&app).await.len(), before, "nothing new was read");
}

#[tokio::test]
async fn a_text_that_was_swept_away_is_kept_again_by_the_next_run() {
    let app = house().start().await;
    correspond(&app).await;
    meddle(&app, "DELETE FROM contents").await;
    let run = app
        .run_of(&crate::app::note(
            "again@guest.example",
            "",
            "When is breakfast?",
        ))
        .await;
    app.drain().await;
    assert_eq!(super::workspace::cause(&app, &RunId::new(run)).await, None);
}

#[tokio::test]
async fn the_configuration_is_kept_without_secrets_and_loads_again() {
    let workspace = house();
    workspace.write(".secrets", "ATTACHE_LOOP_KEY=not-for-the-database\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(workspace.path().join(".secrets"), mode).expect("a mode");
    let app = workspace.start().await;
    let runs = correspond(&app).await;
    let then = contexts(&app, &runs[0]).await.remove(0);
    assert!(
        kept(&app)
            .await
            .iter()
            .all(|(_, text)| !text.contains("not-for-the-database"))
    );
    let store = app.engine.store.persona(&then.persona);
    app.workspace.write("configs/context.json", "{}");
    app.workspace
        .set("personas/ada/persona.json", "/name", json!("Eve"));
    let config = configs(&app)
        .get(&store, &then.config)
        .await
        .expect("the configuration of then");
    assert_eq!(config.personas.get(&then.persona).expect("Ada").name, "Ada");
    assert_eq!(config.context, app.engine.config.context);
    assert_eq!(config.snapshot, app.engine.config.snapshot);
    assert!(config.loop_key.is_none());
    meddle(
        &app,
        "UPDATE contents SET bytes = CAST(replace(CAST(bytes AS TEXT), 'Ada', 'Eve') AS BLOB)
        WHERE CAST(bytes AS TEXT) LIKE '{%\"name\"%'",
    )
    .await;
    let changed = configs(&app).get(&store, &then.config).await;
    assert!(matches!(&changed, Err(AsOfError::ConfigChanged(_))));
}

#[tokio::test]
async fn runs_of_the_time_before_are_said_to_be_old() {
    let app = house().start().await;
    let runs = correspond(&app).await;
    turns::unpack(&app.engine.store, &mut app.workspace.rows().await).await;
    meddle(&app, "UPDATE run_turns SET sources_json = NULL").await;
    let old = AsOf::of_run(&app.engine.store, &runs[0]).await;
    assert!(matches!(old, Err(AsOfError::NotRecorded(_))));
    meddle(&app, "UPDATE run_turns SET context_json = NULL").await;
    let none = AsOf::of_run(&app.engine.store, &runs[0]).await;
    assert!(matches!(none, Err(AsOfError::NoContext(_))));
}
