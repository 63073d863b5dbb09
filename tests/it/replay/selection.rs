//! The part of a run that is asked for: one turn, one tool, what went wrong, a span of time.

use super::{fixture, play};
use crate::app::TestApp;
use crate::app::turns;
use attache::domain::{Timestamp, sha256_hex};
use attache::replay::select::Selection;
use attache::replay::{RunRecord, timeline};
use std::time::Duration;

/// Three turns, one of them tried twice, and three calls, of which one fails.
async fn mended() -> (TestApp, RunRecord) {
    let case = std::fs::read_to_string(fixture("mended.json")).expect("a case");
    play(&serde_json::from_str(&case).expect("JSON")).await
}

fn shape(record: &RunRecord, selection: &Selection) -> (Vec<(u32, u32)>, Vec<String>, usize) {
    let part = selection.of_run(record);
    let turns = part
        .turns
        .iter()
        .map(|turn| (turn.turn_index, turn.attempt))
        .collect();
    (
        turns,
        part.calls.iter().map(|call| call.id.clone()).collect(),
        part.mails.len(),
    )
}

#[tokio::test]
async fn a_selection_keeps_what_was_asked_and_says_what_it_left_out() {
    let (_app, record) = mended().await;
    let all = shape(&record, &Selection::default());
    assert_eq!((all.0.len(), all.1.len(), all.2), (4, 3, 1));
    assert_eq!(Selection::default().of_run(&record), record);

    let of_turn = shape(
        &record,
        &Selection {
            turn: Some(1),
            ..Selection::default()
        },
    );
    let asked_in_1 = record
        .calls
        .iter()
        .filter(|call| call.turn_index == Some(1))
        .count();
    assert!(
        of_turn.0.iter().all(|(turn, _)| *turn == 1)
            && of_turn.1.len() == asked_in_1
            && of_turn.2 == 0
    );

    let errors = Selection {
        errors: true,
        ..Selection::default()
    };
    let failed: Vec<String> = record
        .calls
        .iter()
        .filter(|call| !call.succeeded())
        .map(|call| call.id.clone())
        .collect();
    let of_errors = shape(&record, &errors);
    assert!(!failed.is_empty() && of_errors.1 == failed, "{of_errors:?}");
    let tried = record
        .turns
        .iter()
        .find(|turn| turn.state == "failed")
        .expect("a failed try");
    assert!(
        of_errors.0.contains(&(tried.turn_index, tried.attempt)) && of_errors.2 == 0,
        "{of_errors:?}"
    );
}

#[tokio::test]
async fn a_selection_by_tool_keeps_its_turns_and_the_head_its_counts() {
    let (_app, record) = mended().await;
    let errors = Selection {
        errors: true,
        ..Selection::default()
    };
    let tool = record.calls[0].tool.clone();
    let of_tool = Selection {
        tools: vec![tool.clone()],
        ..Selection::default()
    }
    .of_run(&record);
    assert!(!of_tool.calls.is_empty() && of_tool.calls.iter().all(|call| call.tool == tool));
    assert!(of_tool.turns.iter().all(|turn| {
        of_tool
            .calls
            .iter()
            .any(|call| call.turn_index == Some(turn.turn_index))
    }));
    assert_eq!(
        shape(
            &record,
            &Selection {
                tools: vec!["nope".into()],
                ..Selection::default()
            }
        ),
        (vec![], vec![], 0)
    );

    let text = timeline::plain(&timeline::part(&record, &errors.of_run(&record), false));
    assert!(
        text.contains("selected: ")
            && text.contains(" of 4 provider calls, ")
            && text.contains("0 of 1 mail"),
        "{text}"
    );
    assert!(
        text.contains("3 tool calls"),
        "the head is about the whole run: {text}"
    );
}

#[tokio::test]
async fn a_span_of_time_cuts_at_its_ends() {
    let (_app, record) = mended().await;
    let start = Timestamp::parse(&record.turns[0].started_at).expect("an instant");
    let later = start.plus(Duration::from_millis(1));
    let since = |since, until| {
        shape(
            &record,
            &Selection {
                since,
                until,
                ..Selection::default()
            },
        )
    };
    assert_eq!(
        since(Some(start), None),
        shape(&record, &Selection::default())
    );
    assert_eq!(
        since(None, Some(start)),
        (vec![], vec![], 0),
        "the end is not part of the span"
    );
    assert!(
        since(Some(later), None).0.len() < 4,
        "the clock stands still but for waits"
    );
}

#[tokio::test]
async fn the_context_is_told_by_shares_and_requests_come_back_exactly() {
    let (app, record) = mended().await;
    let text = timeline::plain(&timeline::context(&record));
    assert!(
        text.contains("BYTES") && text.contains("SHARE") && text.contains("current-input"),
        "{text}"
    );
    let mut rows = app.workspace.rows().await;
    let stored = turns::of_run(&app.engine.store, &mut rows, &record.run.id).await;
    for (turn, stored) in record.turns.iter().zip(stored) {
        assert_eq!(turn.request_sent(), stored.request_json);
        let digest = sha256_hex(&[stored.request_json.as_bytes()]);
        assert_eq!(digest, stored.request_sha256);
    }
    let odd = r#"{ "a": 1.0e2, "big": 123456789012345678901234567890 }"#;
    let turn = attache::replay::TurnRecord {
        request_text: Some(odd.into()),
        ..record.turns[0].clone()
    };
    let back: attache::replay::TurnRecord =
        serde_json::from_str(&serde_json::to_string(&turn).expect("JSON")).expect("a turn");
    assert_eq!(back.request_sent(), odd);
}
