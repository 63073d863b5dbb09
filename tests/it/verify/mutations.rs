//! One byte of a record changed: the first request that cannot be the same any more is named, and who made it differ.

use crate::app::db;
use crate::app::turns;
use crate::app::{TestApp, proven_note as note};
use crate::replay::attache;
use attache::replay::verify::{Difference, Outcome};
use serde_json::{Value, json};
use std::process::Command;

async fn app() -> (TestApp, String) {
    let house = json!([{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }]);
    let script = json!({ "turns": [{ "call": house, "say": "A look." }, { "call": house, "say": "Another." },
        { "say": "From seven to ten." }] });
    let app = TestApp::start(script).await;
    let run = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    app.check().await;
    (app, run)
}

/// Changes rows of the one run, and gives what is found.
async fn found(sql: &'static str) -> Difference {
    let (app, run) = app().await;
    let mut rows = app.workspace.rows().await;
    turns::unpack(&app.engine.store, &mut rows).await;
    let changed = db::query(sql)
        .bind(&run)
        .execute(&mut rows)
        .await
        .expect("changed")
        .rows_affected();
    assert!(changed > 0, "nothing changed");
    drop(rows);
    match app.workspace.verified().await.remove(0).outcome {
        Outcome::Differs(difference) => *difference,
        other => panic!("not found: {other:?}"),
    }
}

#[tokio::test]
async fn an_unreadable_row_is_one_runs_and_the_others_are_verified() {
    let (app, run) = app().await;
    let other = app
        .run_of(&note("q2@guest.example", "", "And supper?"))
        .await;
    app.drain().await;
    let spoil = "UPDATE messages SET references_json = '[oops'
        WHERE id = (SELECT trigger_message_id FROM runs WHERE id = $1)";
    db::query(spoil)
        .bind(&run)
        .execute(&mut app.workspace.rows().await)
        .await
        .expect("changed");
    let verified = app.workspace.verified().await;
    let outcome = |id: &str| {
        &verified
            .iter()
            .find(|one| one.run == id)
            .expect("a verdict")
            .outcome
    };
    assert!(
        matches!(outcome(&run), Outcome::Unreadable { .. }),
        "{:?}",
        outcome(&run)
    );
    assert!(
        matches!(outcome(&other), Outcome::Identical { .. }),
        "{:?}",
        outcome(&other)
    );
}

/// What a person does: `--all` over a database in which the row of a run itself, and not only of its record, is spoiled.
#[tokio::test]
#[ignore = "second tier"]
async fn verify_all_and_sweep_get_past_a_run_whose_row_is_unreadable() {
    let spoils = [
        "UPDATE runs SET created_at = 'yesterday' WHERE id = $1",
        "UPDATE runs SET persona_id = 'No One' WHERE id = $1",
        "DELETE FROM messages WHERE id = (SELECT trigger_message_id FROM runs WHERE id = $1)",
    ];
    for spoil in spoils {
        let (app, run) = app().await;
        app.run_of(&note("q2@guest.example", "", "And supper?"))
            .await;
        app.drain().await;
        let mut rows = app.workspace.rows().await;
        rows.unchecked().await;
        db::query(spoil)
            .bind(&run)
            .execute(&mut rows)
            .await
            .expect("changed");
        drop(rows);
        let (code, out, err) = attache(
            app.workspace.path(),
            &["replay", "verify", "--all", "--json"],
        );
        let told: Value =
            serde_json::from_str(&out).unwrap_or_else(|_| panic!("{spoil}: {out}{err}"));
        assert_eq!(
            (code, &told["runs"], &told["unreadable"]),
            (1, &json!(2), &json!(1)),
            "{spoil}: {out}{err}"
        );
        let spoiled = told["verdicts"]
            .as_array()
            .expect("verdicts")
            .iter()
            .find(|one| one["run"] == *run);
        assert_eq!(
            spoiled.expect("its verdict")["verdict"],
            "unreadable",
            "{spoil}: {out}"
        );
        let (code, out, err) = attache(
            app.workspace.path(),
            &[
                "replay",
                "sweep",
                "--change",
                "configs/context.json",
                "--since",
                "2020-01-01",
                "--json",
            ],
        );
        let told: Value =
            serde_json::from_str(&out).unwrap_or_else(|_| panic!("{spoil}: {out}{err}"));
        assert_eq!((code, &told["runs"]), (0, &json!(2)), "{spoil}: {out}{err}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_of_earlier_rules_that_would_differ_is_said_to_be_one() {
    for (is_earlier, is_changed) in [(true, true), (true, false), (false, true)] {
        let (app, run) = app().await;
        let mut rows = app.workspace.rows().await;
        turns::unpack(&app.engine.store, &mut rows).await;
        if is_changed {
            let change = "UPDATE run_turns SET request_json = replace(request_json, 'Lists the files', 'Names the files')
                WHERE run_id = $1";
            db::query(change)
                .bind(&run)
                .execute(&mut rows)
                .await
                .expect("changed");
            let read = "SELECT turn_index, request_json FROM run_turns WHERE run_id = $1";
            let turns: Vec<(i64, String)> = db::query_as(read)
                .bind(&run)
                .fetch_all(&mut rows)
                .await
                .expect("turns");
            for (turn, request) in turns {
                let digest = "UPDATE run_turns SET request_sha256 = $3 WHERE run_id = $1 AND turn_index = $2";
                let digest = db::query(digest).bind(&run).bind(turn);
                let digest = digest.bind(attache::domain::sha256_hex(&[request.as_bytes()]));
                digest.execute(&mut rows).await.expect("changed");
            }
        }
        if is_earlier {
            let earlier = "UPDATE run_turns SET begun_json = json_remove(begun_json, '$.rules') WHERE run_id = $1";
            db::query(earlier)
                .bind(&run)
                .execute(&mut rows)
                .await
                .expect("changed");
        }
        drop(rows);
        let outcome = app.workspace.verified().await.remove(0).outcome;
        let is_right = match (&outcome, is_earlier, is_changed) {
            (Outcome::NotVerifiable { reason }, true, true) => {
                reason.contains("rules 0") && reason.contains("Names the files")
            }
            (Outcome::Identical { .. }, true, false) | (Outcome::Differs(_), false, true) => true,
            _ => false,
        };
        assert!(is_right, "{is_earlier} {is_changed}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_result_of_a_tool_is_named_by_its_step() {
    let found = found(
        "UPDATE thread_tool_events SET payload_json = replace(payload_json, 'seven', 'eight')
         WHERE run_id = $1 AND step_index = 1",
    )
    .await;
    assert_eq!(
        (found.turn, found.cause.as_str()),
        (1, "step 1 (result of read_file)"),
        "{found}"
    );
    assert!(
        found.place.recorded.contains("seven") && found.place.replayed.contains("eight"),
        "{found}"
    );
}

#[tokio::test]
async fn an_answer_is_named_by_its_turn() {
    let found = found(
        "UPDATE run_turns SET response_json = replace(response_json, 'Another.', 'An other')
         WHERE run_id = $1 AND turn_index = 1",
    )
    .await;
    assert_eq!(
        (found.turn, found.cause.as_str()),
        (2, "answer of turn 1"),
        "{found}"
    );
}

#[tokio::test]
async fn the_last_answer_is_held_against_the_mail() {
    let found = found(
        "UPDATE run_turns SET response_json = replace(response_json, 'to ten', 'to two')
         WHERE run_id = $1 AND turn_index = 2",
    )
    .await;
    assert_eq!(found.cause, "answer of turn 2, as it is mailed", "{found}");
}

#[tokio::test]
async fn a_byte_of_memory_is_named_by_its_resolver() {
    let found = found(
        "UPDATE contents SET bytes = CAST(replace(CAST(bytes AS TEXT), 'Nothing new', 'Nothing net') AS BLOB)
         WHERE CAST(bytes AS TEXT) LIKE 'Nothing new%' AND $1 <> ''",
    )
    .await;
    assert_eq!((found.turn, found.attempt), (0, 1));
    assert!(found.cause.starts_with("resolver active-memory"), "{found}");
}

#[tokio::test]
async fn a_request_that_was_changed_itself_is_no_evidence() {
    let found = found(
        "UPDATE run_turns SET request_json = replace(request_json, 'breakfast', 'Breakfast')
         WHERE run_id = $1 AND turn_index = 1",
    )
    .await;
    assert!(found.cause.starts_with("record: "), "{found}");
}

#[tokio::test]
async fn arguments_of_a_call_are_named_by_their_step() {
    let found = found(
        "UPDATE thread_tool_events SET payload_json = replace(payload_json, 'house', 'horse')
         WHERE run_id = $1 AND step_index = 2",
    )
    .await;
    assert_eq!(found.cause, "step 2 (call of read_file)", "{found}");
}

/// Runs of an engine that did not write down what decided beside the rows are not said to be identical.
#[tokio::test]
async fn an_older_record_is_not_verifiable_and_says_so() {
    let (app, run) = app().await;
    let mut rows = app.workspace.rows().await;
    let sql = "UPDATE run_turns SET begun_json = NULL WHERE run_id = $1";
    db::query(sql)
        .bind(&run)
        .execute(&mut rows)
        .await
        .expect("changed");
    let outcome = app.workspace.verified().await.remove(0).outcome;
    assert!(
        matches!(&outcome, Outcome::NotVerifiable { reason } if reason.contains("older")),
        "{outcome:?}"
    );
    for (args, code) in [
        (&["replay", "verify", "--all"][..], 0),
        (&["replay", "verify", "--all", "--strict"], 1),
    ] {
        let command = Command::new(env!("CARGO_BIN_EXE_attache"))
            .args(args)
            .current_dir(app.workspace.path())
            .output();
        let output = command.expect("it ran");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}
