//! Which level decides on length, temperature, turns, tool calls and times: the duty, then the persona, then the provider's
//! block, then the file; and that a run says where each came from.

use super::{fire, ready, work};
use crate::app::{TestApp, Workspace, note};
use crate::fallback::{refuses, says, tries, workspace};
use crate::providers::server::{Reply, Seen, Server, Then};
use serde_json::{Value, json};

const INFERENCE: &str = "configs/inference.json";
const PERSONA: &str = "personas/ada/persona.json";

/// The output limit and the temperature of a request.
fn asked(seen: &Seen) -> (Value, Value) {
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    (
        body["max_completion_tokens"].clone(),
        body["temperature"].clone(),
    )
}

/// Where a run says that a setting came from, and what it is.
async fn in_force(app: &TestApp, run: &str, setting: &str) -> String {
    let row = app
        .row("SELECT limits_json FROM runs WHERE id = $1", run)
        .await;
    let limits: Value = serde_json::from_str(row[0].as_deref().expect("limits")).expect("JSON");
    let found = limits
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["setting"] == setting);
    let found = found.expect("the setting");
    format!(
        "{} of {}",
        found["value"],
        found["origin"].as_str().unwrap_or_default()
    )
}

#[tokio::test]
async fn the_nearest_level_decides_for_each_setting_and_each_provider() {
    let one = Server::start(vec![
        says("By its duty."),
        refuses(503, &[]),
        says("A letter's."),
    ])
    .await;
    let two = Server::start(vec![says("By the fallback.")]).await;
    let place = workspace(&one, Some(&two));
    place.set(INFERENCE, "/max_output_tokens", json!(300));
    place.set(INFERENCE, "/temperature", json!(1));
    place.set(
        INFERENCE,
        "/providers/compat:one/max_output_tokens",
        json!(700),
    );
    place.set(INFERENCE, "/providers/compat:one/temperature", json!(0.5));
    place.set(INFERENCE, "/providers/compat:two/temperature", json!(0.7));
    let duty = json!({ "temperature": 0.2, "tool_calls_max": 7, "call_timeout_ms": 60000 });
    let app = ready(place, &duty).await;
    let first = work(&app).await;
    assert_eq!(
        asked(&one.seen()[0]),
        (json!(700), json!(0.2)),
        "the block's length, the duty's temperature"
    );
    assert_eq!(
        in_force(&app, &first, "max_output_tokens").await,
        "700 of provider"
    );
    assert_eq!(
        in_force(&app, &first, "temperature").await,
        "0.2 of responsibility"
    );
    assert_eq!(
        in_force(&app, &first, "tool_calls_max").await,
        "7 of responsibility"
    );
    assert_eq!(
        in_force(&app, &first, "timeouts.call").await,
        "\"1m\" of responsibility"
    );
    assert_eq!(
        in_force(&app, &first, "max_tool_turns").await,
        "6 of global"
    );
    assert_eq!(
        in_force(&app, &first, "duration_max").await,
        "\"10m\" of default"
    );
    let second = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        tries(&app, &second).await,
        ["0 compat:one/m1 overloaded", "0 compat:two/m2 answered"]
    );
    assert_eq!(
        asked(&one.seen()[1]),
        (json!(700), json!(0.5)),
        "a letter has no duty"
    );
    assert_eq!(
        asked(&two.seen()[0]),
        (json!(300), json!(0.7)),
        "the fallback has its own block"
    );
    app.check().await;
}

#[tokio::test]
async fn a_persona_decides_before_the_block_and_the_file() {
    let one = Server::start(vec![says("Seven.")]).await;
    let place = workspace(&one, None);
    place.set(
        INFERENCE,
        "/providers/compat:one/max_output_tokens",
        json!(700),
    );
    place.set(PERSONA, "/max_output_tokens", json!(800));
    place.set(PERSONA, "/temperature", json!(0));
    place.set(
        PERSONA,
        "/budget",
        json!({ "duration_max": "2m", "tool_calls_max": 3 }),
    );
    let app = ready(place, &json!({ "max_output_tokens": 900 })).await;
    let letter = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(asked(&one.seen()[0]), (json!(800), json!(0.0)));
    assert_eq!(
        in_force(&app, &letter, "tool_calls_max").await,
        "3 of persona"
    );
    assert_eq!(
        in_force(&app, &letter, "duration_max").await,
        "\"2m\" of persona"
    );
    fire(&app).await;
    app.drain().await;
    assert_eq!(
        asked(&one.seen()[1]),
        (json!(900), json!(0.0)),
        "the duty is nearer"
    );
    app.check().await;
}

/// The control is the first letter: the file lets a run ask four times.
#[tokio::test]
async fn a_persona_may_ask_fewer_times_and_call_fewer_tools_than_the_file_says() {
    let call = json!([{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }]);
    let cases = [
        (json!({}), "answered"),
        (json!({ "max_tool_turns": 1 }), "limit_turns"),
        (
            json!({ "budget": { "tool_calls_max": 1 } }),
            "limit_tool_calls",
        ),
    ];
    for (own, stop) in cases {
        let place = Workspace::new(
            &json!({ "turns": [{ "call": call }, { "say": "From seven." }, { "say": "Done." }] }),
        );
        for (key, value) in own.as_object().expect("settings") {
            place.set(PERSONA, &format!("/{key}"), value.clone());
        }
        let app = place.start().await;
        let run = app
            .run_of(&note("q@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        assert_eq!(app.outcome(&run).await.1.as_deref(), Some(stop), "{own}");
        app.check().await;
    }
}

#[tokio::test]
async fn a_block_has_its_own_timeouts() {
    let held = Server::start(vec![Reply::chunked(": wait\n\n", Then::Hold)]).await;
    let two = Server::start(vec![says("In time.")]).await;
    let place = workspace(&held, Some(&two));
    place.set(
        INFERENCE,
        "/providers/compat:one/timeouts",
        json!({ "idle": "200ms" }),
    );
    let app = place.start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        tries(&app, &run).await,
        ["0 compat:one/m1 timeout", "0 compat:two/m2 answered"]
    );
    app.check().await;
}
