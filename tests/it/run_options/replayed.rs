//! Runs under terms, executed once more.

use super::{ready, saying, set_terms, work};
use crate::app::TestApp;
use crate::app::db;
use crate::fallback::{says, workspace};
use crate::providers::server::Server;
use crate::replay::attache;
use crate::verify::identical;
use attache::domain::RunId;
use attache::replay::diff::compare;
use attache::replay::verify::Outcome;
use attache::replay::{RunRecord, load_run};
use serde_json::{Value, json};

fn all() -> Value {
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
        let set =
            db::query("UPDATE responsibility_slots SET run_options_json = $2 WHERE run_id = $1");
        set.bind(&run)
            .bind(&change)
            .execute(&mut rows)
            .await
            .expect("changed");
        let [verified] = app.workspace.verified().await.try_into().expect("one run");
        let Outcome::Differs(difference) = &verified.outcome else {
            panic!("{change:?}: {verified:?}")
        };
        assert_eq!(
            difference.cause, "record: the terms of the run were changed in the database",
            "{change:?}"
        );
    }
}

#[tokio::test]
async fn terms_that_were_given_to_a_run_without_any_are_found_too() {
    let app = ready(saying(&["Three lines."]), &json!({})).await;
    work(&app).await;
    assert_eq!(identical(&app.workspace.verified().await), 1);
    let mut rows = app.workspace.rows().await;
    let set = "UPDATE responsibility_slots SET run_options_json = '{\"deliver_to\":\"store\"}'";
    db::query(set).execute(&mut rows).await.expect("changed");
    let verified = app.workspace.verified().await;
    assert!(
        matches!(verified[0].outcome, Outcome::Differs(_)),
        "{verified:?}"
    );
}

/// Ada's responsibility under all its terms, worked off by the script.
async fn scripted(words: &[&str]) -> (TestApp, String) {
    let app = ready(saying(words), &all()).await;
    let run = work(&app).await;
    (app, run)
}

#[tokio::test]
async fn a_fork_is_held_to_the_terms_of_its_run() {
    let (app, run) = scripted(&["Three lines.", "Three lines.", "Four lines."]).await;
    let fork = |more: &[&str]| {
        let said = attache(
            app.workspace.path(),
            &[&["replay", "fork", &run, "--json"], more].concat(),
        );
        assert_eq!(said.0, 0, "{said:?}");
        let value: Value = serde_json::from_str(&said.1).expect("JSON");
        serde_json::from_value::<RunRecord>(value["fork"].clone()).expect("a record")
    };
    let record = load_run(&app.engine.store, &RunId::new(run.clone()))
        .await
        .expect("a record");
    let again = fork(&["--at-turn", "0"]);
    let comparison = compare(&record, &again, false);
    assert!(comparison.same, "{:#?}", comparison.first);
    assert_eq!(again.turns[0].model, "large");
    assert_eq!(again.mails[0].message.disposition, "withheld:store_only");
    let other = fork(&["--at-turn", "0", "--model", "small"]);
    assert_eq!(
        other.turns[0].model, "small",
        "what is asked for goes before the terms"
    );
    assert_eq!(
        other.turns[0].request["tools"].as_array().map(Vec::len),
        Some(1),
        "the others hold"
    );
    app.check().await;
}

#[tokio::test]
async fn a_difference_of_terms_is_the_first_that_is_told() {
    let (app, one) = scripted(&["Three lines.", "Three lines."]).await;
    let mut options = all();
    options["model"] = json!("small");
    set_terms(&app, &options).await;
    let two = work(&app).await;
    let store = &app.engine.store;
    let one = load_run(store, &RunId::new(one)).await.expect("a record");
    let two = load_run(store, &RunId::new(two)).await.expect("a record");
    let comparison = compare(&one, &two, false);
    let pair = comparison
        .pairs
        .iter()
        .find(|pair| pair.name == "terms")
        .expect("a stage");
    let [difference] = &pair.differences[..] else {
        panic!("{pair:#?}")
    };
    assert_eq!(
        (difference.place.as_str(), difference.a.as_deref()),
        ("model", Some("large"))
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_exported_run_brings_its_terms_and_is_verified_elsewhere() {
    let (app, run) = scripted(&["Three lines."]).await;
    let file = app.workspace.path().join("runs.jsonl");
    let (file, there) = (
        file.to_str().expect("a path"),
        app.workspace.path().join("elsewhere"),
    );
    let said = attache(app.workspace.path(), &["replay", "export", &run, file]);
    assert_eq!(said.0, 0, "{said:?}");
    let said = attache(
        app.workspace.path(),
        &["replay", "import", file, there.to_str().expect("a path")],
    );
    assert_eq!(said.0, 0, "{said:?}");
    let said = attache(&there, &["replay", "verify", &run]);
    assert!(
        said.0 == 0 && said.1.contains("1 identical (1 request"),
        "{said:?}"
    );
    let shown = attache(&there, &["replay", "show", &run]);
    assert!(
        shown.1.contains("of Report (scheduled)") && shown.1.contains("uses only read_file"),
        "{shown:?}"
    );
    let mut rows = db::Connection::file(&there.join("data/attache.db")).await;
    let changed = "UPDATE responsibility_slots SET run_options_json = '{}'";
    db::query(changed)
        .execute(&mut rows)
        .await
        .expect("a change");
    let said = attache(&there, &["replay", "verify", &run]);
    assert!(
        said.0 == 1 && said.1.contains("1 different"),
        "the control: {said:?}"
    );
}

#[tokio::test]
async fn everybody_can_see_which_terms_held() {
    let (app, run) = scripted(&["Three lines."]).await;
    let shown = attache(app.workspace.path(), &["runs", "show", &run]);
    for told in [
        "2026-11-20T09:05:00.000Z of Report (scheduled)",
        "asks large; uses only read_file; its answer is only stored; tried again at most 1 time",
        "withheld:store_only",
    ] {
        assert!(shown.0 == 0 && shown.1.contains(told), "{told}: {shown:?}");
    }
    let shown = attache(app.workspace.path(), &["runs", "show", &run, "--json"]);
    let record: Value = serde_json::from_str(&shown.1).expect("JSON");
    let slot = json!({
        "responsibility": "Report", "slot_at": "2026-11-20T09:05:00.000Z", "kind": "scheduled", "model": "large",
        "tools": ["read_file"], "deliver_to": "store", "retries": 1, "has_output_schema": false,
    });
    assert_eq!(record["slot"], slot);
    let page = attache(
        app.workspace.path(),
        &["replay", "show", &run, "--html", "-"],
    );
    assert!(
        page.0 == 0 && page.1.contains("its answer is only stored"),
        "{page:?}"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn another_model_of_the_persona_changes_no_run_with_its_own() {
    for (options, changed) in [(all(), "0 of 1 run "), (json!({}), "1 of 1 run ")] {
        let app = ready(saying(&["Three lines."]), &options).await;
        work(&app).await;
        app.workspace
            .set("personas/ada/persona.json", "/model", json!("other"));
        let change = "personas/ada/persona.json";
        let said = attache(
            app.workspace.path(),
            &[
                "replay",
                "sweep",
                "--since",
                "2026-01-01",
                "--change",
                change,
            ],
        );
        assert!(
            said.0 == 0 && said.1.contains(changed),
            "{options}: {said:?}"
        );
    }
}
