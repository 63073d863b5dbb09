//! Runs under terms, executed once more.

use super::{ready, saying, work};
use crate::app::TestApp;
use crate::fallback::{says, workspace};
use crate::providers::server::Server;
use crate::verify::identical;
use attache::replay::verify::Outcome;
use serde_json::json;

fn all() -> serde_json::Value {
    json!({ "model": "large", "tools": ["read_file"], "deliver_to": "store", "retries": 1 })
}

async fn worked() -> (TestApp, String) {
    let one = Server::start(vec![says("Three lines.")]).await;
    let app = ready(workspace(&one, None), &all()).await;
    let run = work(&app).await;
    (app, run)
}

#[tokio::test]
async fn a_run_under_terms_goes_the_same_way_again() {
    let (app, _run) = worked().await;
    assert_eq!(identical(&app.workspace.verified().await), 1);
}

#[tokio::test]
async fn whoever_changes_the_terms_of_a_slot_is_found() {
    let (app, run) = worked().await;
    let mut rows = app.workspace.rows().await;
    let mut changes = vec![Some("{}".to_owned()), None];
    for (key, value) in [
        ("model", json!("m1")),
        ("tools", json!([])),
        ("deliver_to", json!({ "thread": "t" })),
        ("retries", json!(2)),
        ("profile", json!("thread")),
    ] {
        let mut changed = all();
        changed[key] = value;
        changes.push(Some(changed.to_string()));
    }
    for change in changes {
        let set = sqlx::query("UPDATE responsibility_slots SET run_terms_json = $2 WHERE run_id = $1");
        set.bind(&run).bind(&change).execute(&mut rows).await.expect("changed");
        let [verified] = app.workspace.verified().await.try_into().expect("one run");
        let Outcome::Differs(difference) = &verified.outcome else { panic!("{change:?}: {verified:?}") };
        assert_eq!(
            difference.culprit, "record: the terms of the run were changed in the database",
            "{change:?}"
        );
    }
    let set = sqlx::query("UPDATE responsibility_slots SET run_terms_json = '{}' WHERE run_id = $1");
    set.bind(&run).execute(&mut rows).await.expect("changed");
}

#[tokio::test]
async fn terms_that_were_given_to_a_run_without_any_are_found_too() {
    let app = ready(saying(&["Three lines."]), &json!({})).await;
    work(&app).await;
    assert_eq!(identical(&app.workspace.verified().await), 1);
    let mut rows = app.workspace.rows().await;
    let set = "UPDATE responsibility_slots SET run_terms_json = '{\"deliver_to\":\"store\"}'";
    sqlx::query(set).execute(&mut rows).await.expect("changed");
    let verified = app.workspace.verified().await;
    assert!(matches!(verified[0].outcome, Outcome::Differs(_)), "{verified:?}");
}
