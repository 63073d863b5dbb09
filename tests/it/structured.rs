//! A responsibility whose answer must be JSON of a schema: asked for, held to it, repaired at most twice, stored.

use crate::app::db;
use crate::app::{TestApp, Workspace};
use attache::store::PowerCut;
use serde_json::{Value, json};
use std::time::Duration;

pub const SCHEMA: &str = r#"{
  "type": "object", "required": ["guests", "total"], "additionalProperties": false,
  "properties": { "guests": { "type": "array", "items": { "type": "string" } }, "total": { "type": "integer" } }
}"#;
const DUTY: &str = "---\nname: Arrivals\nschedule: \"*/5 * * * *\"\noutput_schema: schemas/arrivals.json\n---\n\nWho comes?\n";
pub const GOOD: &str = r#"{ "total": 2, "guests": ["Bob", "Eve"] }"#;
pub const CANONICAL: &str = r#"{"guests":["Bob","Eve"],"total":2}"#;
pub const WRONG: &str = r#"{ "total": "two", "guests": ["Bob", 7] }"#;

fn workspace(turns: &Value) -> Workspace {
    with_duty(Workspace::new(&json!({ "turns": turns })))
}

/// With the responsibility and its schema.
pub fn with_duty(workspace: Workspace) -> Workspace {
    workspace.write("personas/ada/schemas/arrivals.json", SCHEMA);
    workspace.write("personas/ada/responsibilities/arrivals.md", DUTY);
    workspace
}

fn say(texts: &[&str]) -> Value {
    texts.iter().map(|text| json!({ "say": text })).collect()
}

/// Fires the responsibility once and works it off.
pub async fn fire(workspace: Workspace) -> (TestApp, String) {
    let app = workspace.start().await;
    app.engine.scheduler().sync().await.expect("looked at");
    later(&app).await;
    app.check().await;
    let run = app
        .row(
            "SELECT id FROM runs WHERE trigger = $1 ORDER BY seq LIMIT 1",
            "schedule",
        )
        .await;
    let run = run[0].clone().expect("a run");
    (app, run)
}

async fn answered(turns: Value) -> (TestApp, String) {
    fire(workspace(&turns)).await
}

/// The next slot comes due, and everything is worked off.
async fn later(app: &TestApp) {
    app.workspace.clock.advance(Duration::from_secs(300));
    app.engine.scheduler().tick().await.expect("a tick");
    app.drain().await;
}

/// The stored value and how often it was repaired.
pub async fn output(app: &TestApp, run: &str) -> Option<(String, i64)> {
    let mut rows = app.workspace.rows().await;
    let sql = "SELECT json, repairs FROM run_outputs WHERE run_id = $1";
    let row = db::query(sql)
        .bind(run)
        .fetch_optional(&mut rows)
        .await
        .expect("rows");
    row.map(|row| (row.get(0), row.get(1)))
}

#[tokio::test]
async fn a_fitting_answer_is_stored_canonical_and_mailed_as_it_is() {
    let (app, run) = answered(say(&[GOOD])).await;
    assert_eq!(output(&app, &run).await, Some((CANONICAL.to_owned(), 0)));
    assert_eq!(
        app.outcome(&run).await,
        ("succeeded".into(), Some("answered".into()), None)
    );
    let [mail] = app.sent().try_into().expect("one mail");
    let laid_out = "{\n  \"total\": 2,\n  \"guests\": [\n    \"Bob\",\n    \"Eve\"\n  ]\n}";
    assert_eq!(mail.text.replace("\r\n", "\n").trim(), laid_out);
    let [request] = app.prompts(&run).await.try_into().expect("one turn");
    let system = request["system"].to_string();
    assert!(
        system.contains("JSON Schema") && system.contains("additionalProperties"),
        "{system}"
    );
}

#[tokio::test]
async fn whatever_holds_the_json_is_taken_off() {
    let fenced = format!("```json\n{GOOD}\n```");
    let (app, run) = answered(say(&[&format!(
        "Here they are:\n\n{fenced}\n\nAnything else?"
    )]))
    .await;
    assert_eq!(output(&app, &run).await, Some((CANONICAL.to_owned(), 0)));
}

#[tokio::test]
async fn a_model_is_told_where_its_answer_is_wrong_and_asked_again() {
    for (texts, repairs) in [
        (vec![WRONG, GOOD], 1),
        (vec!["Two guests come.", WRONG, GOOD], 2),
    ] {
        let (app, run) = answered(say(&texts)).await;
        assert_eq!(
            output(&app, &run).await,
            Some((CANONICAL.to_owned(), repairs))
        );
        let last = app
            .prompts(&run)
            .await
            .pop()
            .expect("a request")
            .to_string();
        for told in [
            "at `/total`",
            "at `/guests/1`",
            "7 is not of type",
            "[engine]",
        ] {
            assert!(last.contains(told), "{told}: {last}");
        }
        assert_eq!(app.sent().len(), 1, "only the answer that fits is mailed");
    }
}

#[tokio::test]
async fn an_answer_that_never_fits_fails_its_run_and_stays_to_be_seen() {
    let (app, run) = answered(say(&[WRONG, WRONG, WRONG, GOOD])).await;
    assert_eq!(
        app.outcome(&run).await,
        (
            "failed".into(),
            Some("failed".into()),
            Some("output_invalid".into())
        )
    );
    assert_eq!((output(&app, &run).await, app.sent().len()), (None, 0));
    assert_eq!(
        app.prompts(&run).await.len(),
        3,
        "asked, and asked again twice"
    );
    let why = app
        .row("SELECT error_message FROM runs WHERE id = $1", &run)
        .await[0]
        .clone()
        .expect("a reason");
    assert!(
        why.contains("after 2 repairs") && why.contains("at `/total`"),
        "{why}"
    );
    assert!(
        !why.contains("two") && !why.contains("Bob"),
        "nothing of the answer is told: {why}"
    );
    let record =
        attache::replay::load_run(&app.engine.store, &attache::domain::RunId::new(run.clone()))
            .await;
    let record = record.expect("a record");
    let shown = attache::replay::timeline::plain(&attache::replay::timeline::run(&record, true));
    assert_eq!(shown.matches("\"total\": \"two\"").count(), 3, "{shown}");
    // Whoever retries it asks anew, with two repairs.
    app.engine
        .store
        .retry_run(&attache::domain::RunId::new(run.clone()))
        .await
        .expect("queued");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(output(&app, &run).await, Some((CANONICAL.to_owned(), 0)));
}

#[tokio::test]
async fn repairs_keep_to_the_limits_of_the_run() {
    let place = workspace(&say(&[WRONG, GOOD]));
    place.set("configs/inference.json", "/max_tool_turns", json!(1));
    let (app, run) = fire(place).await;
    assert_eq!(app.outcome(&run).await.2.as_deref(), Some("output_invalid"));
    let why = app
        .row("SELECT error_message FROM runs WHERE id = $1", &run)
        .await[0]
        .clone()
        .expect("a reason");
    assert!(why.contains("`limit_turns` leaves no repair"), "{why}");

    let costly = json!([{ "say": WRONG, "usage": { "output_tokens": 600 } }, { "say": GOOD }]);
    let place = workspace(&costly);
    place.set(
        "configs/inference.json",
        "/budget",
        json!({ "tokens_max": 500 }),
    );
    let (app, run) = fire(place).await;
    assert_eq!(app.prompts(&run).await.len(), 1);
    assert_eq!(app.outcome(&run).await.2.as_deref(), Some("output_invalid"));
}

#[tokio::test]
async fn tools_work_as_usual_before_the_answer() {
    let call = json!([{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }]);
    let (app, run) = answered(json!([{ "call": call }, { "say": WRONG }, { "say": GOOD }])).await;
    assert_eq!(app.trace(&run).await, ["call read_file", "ok read_file"]);
    assert_eq!(output(&app, &run).await, Some((CANONICAL.to_owned(), 1)));
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_asked_for_anew() {
    let cut = json!([{ "say": "{ \"total\": 2, \"gue", "stop": "max_tokens" }, { "say": GOOD }]);
    let (app, run) = answered(cut).await;
    assert_eq!(output(&app, &run).await, Some((CANONICAL.to_owned(), 1)));
    let last = app
        .prompts(&run)
        .await
        .pop()
        .expect("a request")
        .to_string();
    assert!(last.contains("cut off at its length limit"), "{last}");
}

#[tokio::test]
async fn a_run_keeps_the_schema_with_which_its_slot_fired() {
    let app = workspace(&say(&[WRONG, WRONG, GOOD])).start().await;
    app.engine.scheduler().sync().await.expect("looked at");
    app.workspace.clock.advance(Duration::from_secs(300));
    let mut rows = app.workspace.rows().await;
    let anything = "UPDATE responsibilities SET output_schema = '{}'";
    app.engine.scheduler().tick().await.expect("a tick");
    db::query(anything)
        .execute(&mut rows)
        .await
        .expect("changed");
    app.drain().await;
    let run = app
        .row("SELECT id FROM runs WHERE trigger = $1", "schedule")
        .await[0]
        .clone()
        .expect("a run");
    assert_eq!(output(&app, &run).await, Some((CANONICAL.to_owned(), 2)));
}

#[tokio::test]
async fn an_unusable_schema_stops_its_responsibility_alone() {
    let place = workspace(&say(&[GOOD, GOOD, GOOD, GOOD]));
    let plain = "---\nname: Plain\nschedule: \"*/5 * * * *\"\n---\n\nSay it.\n";
    place.write("personas/ada/responsibilities/plain.md", plain);
    place.write(
        "personas/ada/schemas/arrivals.json",
        r#"{ "type": "objekt" }"#,
    );
    let app = place.start().await;
    let report = app.engine.scheduler().sync().await.expect("looked at");
    let [problem] = report.problems.try_into().expect("one problem");
    assert_eq!(problem.file, "personas/ada/responsibilities/arrivals.md");
    assert!(
        problem
            .problem
            .starts_with("line 4: `output_schema`: `schemas/arrivals.json` is no JSON Schema"),
        "{problem:?}"
    );
    later(&app).await;
    let names = "SELECT group_concat(subject) FROM messages WHERE direction = $1";
    assert_eq!(
        app.row(names, "synthetic").await[0].as_deref(),
        Some("Plain")
    );
    // The file of the responsibility stays as it is; only its schema changes.
    app.workspace
        .write("personas/ada/schemas/arrivals.json", SCHEMA);
    assert_eq!(
        app.engine
            .scheduler()
            .sync()
            .await
            .expect("looked at")
            .problems,
        []
    );
    assert_eq!(
        app.engine.scheduler().sync().await.expect("looked at"),
        Default::default()
    );
    later(&app).await;
    let runs = app
        .row(
            "SELECT CAST(count(*) AS TEXT) FROM run_outputs WHERE $1 = $1",
            "",
        )
        .await;
    assert_eq!(runs[0].as_deref(), Some("1"));
    std::fs::remove_file(
        app.workspace
            .path()
            .join("personas/ada/schemas/arrivals.json"),
    )
    .expect("removed");
    let gone = app
        .engine
        .scheduler()
        .sync()
        .await
        .expect("looked at")
        .problems;
    assert!(
        gone.len() == 1 && gone[0].problem.contains("cannot be read"),
        "{gone:?}"
    );
}

/// Rows that tell how the run went, without ids and times.
async fn state(app: &TestApp) -> Vec<String> {
    let mut rows = app.workspace.rows().await;
    let mut lines = Vec::new();
    for sql in [
        "SELECT state || coalesce(stop_reason, '') || coalesce(error_class, '') FROM runs ORDER BY seq",
        "SELECT turn_index || (response_json ->> '$.blocks') FROM run_turns WHERE state = 'answered' ORDER BY turn_index",
        "SELECT json || repairs || schema_sha256 FROM run_outputs",
        "SELECT direction || disposition || iif(disposition = 'notice', '', text_body) FROM messages ORDER BY seq",
        "SELECT state FROM deliveries",
    ] {
        lines.extend(
            db::query_scalar::<String>(sql)
                .fetch_all(&mut rows)
                .await
                .expect("rows"),
        );
    }
    lines
}

/// The road with the power going at a commit of the second half, when the slot fires; and whether it went.
async fn road(turns: &Value, cut: Option<PowerCut>) -> (Vec<String>, bool) {
    let app = workspace(turns).start().await;
    app.engine.scheduler().sync().await.expect("looked at");
    app.workspace.clock.advance(Duration::from_secs(300));
    if let Some(cut) = cut {
        app.engine.store.cut_power(cut);
    }
    let ticked = app
        .engine
        .scheduler()
        .tick()
        .await
        .expect("a tick")
        .problems
        .is_empty();
    let struck = !ticked || app.engine.drain().await.is_err();
    let mut app = app.restart().await;
    for _ in 0..3 {
        // Less than to the next slot: what was parked is due again.
        app.workspace.clock.advance(Duration::from_secs(80));
        app.engine.scheduler().tick().await.expect("a tick");
        app.drain().await;
        app = app.restart().await;
    }
    app.check().await;
    (state(&app).await, struck)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_power_cut_at_any_commit_forgets_and_repeats_no_repair() {
    for texts in [vec![WRONG, WRONG, GOOD], vec![WRONG, WRONG, WRONG]] {
        let turns = say(&texts);
        let (wanted, _) = road(&turns, None).await;
        // Every second commit on each side, so that each is struck on one of them.
        for (first, side) in [
            (1, PowerCut::BeforeCommit as fn(u64) -> PowerCut),
            (2, PowerCut::AfterCommit),
        ] {
            let mut struck_at = 0;
            for commit in (first..40).step_by(2) {
                let (found, struck) = road(&turns, Some(side(commit))).await;
                assert_eq!(found, wanted, "after a power cut at {:?}", side(commit));
                if !struck {
                    break;
                }
                struck_at = commit;
            }
            assert!(
                (4..39).contains(&struck_at),
                "only {struck_at} commits were tried"
            );
        }
    }
}
