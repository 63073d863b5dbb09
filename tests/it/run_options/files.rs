//! From the file to the run: terms as people write them, and the responsibilities that ship.

use super::{fire, saying};
use crate::replay::attache;
use attache::domain::RunId;
use attache::replay::load_run;
use serde_json::{Value, json};

const DUTY: &str = "---
name: Report
schedule: '*/5 * * * *'
model: large
tools: [read_file, search_email]
profile: thread
deliver_to:
  mail: [ann@home.test]
retries: 2
budget: 0.25
---
What came in?
";

#[tokio::test]
async fn what_a_file_says_its_run_is_held_to() {
    let place = saying(&["Three lines."]);
    place.set(
        "configs/security.json",
        "/send_allow",
        json!(["ann@home.test"]),
    );
    place.set(
        "personas/ada/persona.json",
        "/tools",
        json!(["read_file", "search_email", "list_files"]),
    );
    let price = json!({ "provider": "scripted", "model": "*", "input": 1, "output": 1 });
    place.write_json(
        "configs/prices.json",
        &json!({ "version": "test", "prices": [price] }),
    );
    place.write("personas/ada/responsibilities/report.md", DUTY);
    let app = place.start().await;
    assert_eq!(
        app.engine
            .scheduler()
            .sync()
            .await
            .expect("looked at")
            .problems,
        []
    );
    let run = fire(&app).await;
    let row = app
        .row(
            "SELECT profile, CAST(attempts_max AS TEXT), CAST(budget_micros AS TEXT) FROM runs WHERE id = $1",
            &run,
        )
        .await;
    assert_eq!(
        row,
        [
            Some("thread".to_owned()),
            Some("3".to_owned()),
            Some("250000".to_owned())
        ]
    );
    app.drain().await;
    let record = load_run(&app.engine.store, &RunId::new(run))
        .await
        .expect("a record");
    let slot = record.slot.expect("a slot");
    assert_eq!(
        slot.options(),
        "asks large; uses only read_file, search_email; its answer goes to ann@home.test; tried again at most 2 times"
    );
    assert_eq!(record.turns[0].model, "large");
    let tools = record.turns[0].request["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 2);
    assert_eq!(
        record.mails[0].message.recipients["to"],
        json!(["ann@home.test"])
    );
    app.check().await;
}

#[test]
#[ignore = "second tier"]
fn shipped_responsibilities_are_due_as_they_say_and_run_by_hand() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let house = folder.path().join("house");
    let json = |args: &[&str]| -> Value {
        let said = attache(&house, &[args, &["--json"]].concat());
        assert_eq!(said.0, 0, "{args:?}: {said:?}");
        serde_json::from_str(&said.1).expect("one JSON value")
    };
    crate::guest_house::write(&house);
    let checked = attache(&house, &["config", "check"]);
    assert!(
        checked.0 == 0 && checked.1.contains("the configuration is good"),
        "{checked:?}"
    );
    let listed = json(&["schedule", "list"]);
    let rows = listed.as_array().expect("a list");
    let of = |name: &str| {
        rows.iter()
            .find(|row| row["name"] == name)
            .unwrap_or_else(|| panic!("{listed:#}"))
    };
    assert_eq!(
        (rows.len(), &of("Weekday digest")["state"]),
        (3, &json!("on"))
    );
    assert_eq!(of("Evening notes")["state"], json!("off"));
    assert_eq!(of("Memory review")["state"], json!("off"));
    let next = json(&["schedule", "next", "Weekday digest", "--limit", "6"]);
    let next = next.as_array().expect("slots");
    let is_nine = |slot: &Value| {
        slot["local"]
            .as_str()
            .is_some_and(|at| at.contains("T09:00:00+0"))
    };
    assert!(next.len() == 6 && next.iter().all(is_nine), "{next:?}");
    for name in ["Weekday digest", "Evening notes"] {
        json(&["schedule", "run", name]);
    }
    assert_eq!(attache(&house, &["drain"]).0, 0);
    let history = json(&["schedule", "history"]);
    let states: Vec<_> = history
        .as_array()
        .expect("slots")
        .iter()
        .map(|slot| &slot["run_state"])
        .collect();
    assert_eq!(
        states,
        [&json!("succeeded"), &json!("succeeded")],
        "{history:#}"
    );
    let verified = attache(&house, &["replay", "verify", "--all"]);
    assert!(
        verified.0 == 0 && verified.1.contains("2 identical"),
        "{verified:?}"
    );
}
