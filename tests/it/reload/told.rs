//! What a reading is to tell is told once, also when the database refuses it for a while.

use super::answering;
use crate::app::TestApp;
use attache::app::Reloader;

const EVENTS: &str = "SELECT CAST(count(*) AS TEXT) FROM feed WHERE kind = $1";

async fn events(app: &TestApp, kind: &str) -> String {
    app.row(EVENTS, kind).await[0].clone().unwrap_or_default()
}

/// Looks so often that an edit is seen, and read; gives the last look's result.
async fn settled(reloader: &mut Reloader) -> Result<(), attache::store::StoreError> {
    reloader.look().await.expect("seen, and not read");
    reloader.look().await
}

#[tokio::test]
async fn what_was_put_in_force_is_told_when_the_database_takes_it() {
    let app = TestApp::start(answering()).await;
    let mut reloader = app.engine.reloader();
    let mut rows = app.workspace.rows().await;
    let when = "new.kind LIKE 'configuration.%'";
    rows.refuse("no_room", "INSERT ON feed", when).await;
    app.workspace.persona("eve", "Eve");
    settled(&mut reloader).await.expect_err("not stored");
    let personas = app.engine.config_in_force().personas.iter().count();
    assert_eq!(personas, 2, "it is in force");
    reloader.reload().await.expect_err("not stored");
    assert_eq!(events(&app, "configuration.reloaded").await, "0");
    rows.allow("no_room", "feed").await;
    for _again in 0..3 {
        reloader.reload().await.expect("stored");
        assert_eq!(events(&app, "configuration.reloaded").await, "1");
    }
}

#[tokio::test]
async fn a_refused_edit_is_told_once_though_its_notice_is_not_stored() {
    let app = TestApp::start(answering()).await;
    let mut reloader = app.engine.reloader();
    let mut rows = app.workspace.rows().await;
    let when = "new.kind = 'config_faulty'";
    rows.refuse("no_room", "INSERT ON notices", when).await;
    app.workspace.write("configs/policy.json", "{");
    settled(&mut reloader).await.expect_err("not stored");
    for _again in 0..3 {
        reloader.reload().await.expect_err("not stored");
        assert_eq!(events(&app, "configuration.refused").await, "1");
    }
    rows.allow("no_room", "notices").await;
    reloader.reload().await.expect("stored");
    assert_eq!(events(&app, "configuration.refused").await, "1");
    let told = "SELECT CAST(count(*) AS TEXT) FROM notices WHERE kind = $1";
    assert_eq!(
        app.row(told, "config_faulty").await[0].as_deref(),
        Some("1")
    );
    // The control: another fault is another event.
    app.workspace.write("configs/policy.json", "[");
    settled(&mut reloader).await.expect("stored");
    assert_eq!(events(&app, "configuration.refused").await, "2");
}
