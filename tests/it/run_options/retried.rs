//! How often a run is tried.

use super::{fire, ready};
use crate::app::TestApp;
use crate::fallback::{refuses, says, workspace};
use crate::providers::server::{Reply, Server};
use serde_json::{Value, json};
use std::time::Duration;

/// Works on a run until it rests for good; gives its state and how often it was tried.
async fn worked_off(app: &TestApp, run: &str) -> (String, String) {
    for _ in 0..12 {
        app.drain().await;
        let row = app
            .row(
                "SELECT state, CAST(attempt AS TEXT) FROM runs WHERE id = $1",
                run,
            )
            .await;
        let state = row[0].clone().unwrap_or_default();
        if state != "waiting_retry" {
            return (state, row[1].clone().unwrap_or_default());
        }
        app.workspace.clock.advance(Duration::from_secs(7200));
    }
    panic!("run {run} is tried for ever");
}

/// A responsibility under these terms whose provider fails so for ever.
async fn failing(options: &Value, status: u16) -> (String, String) {
    let server = Server::start((0..40).map(|_| refuses(status, &[])).collect()).await;
    let app = ready(workspace(&server, None), options).await;
    let run = fire(&app).await;
    worked_off(&app, &run).await
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_passing_failure_is_tried_again_but_a_lasting_one_never() {
    for (retries, attempts) in [(0, "1"), (1, "2"), (3, "4")] {
        let options = json!({ "retries": retries });
        assert_eq!(
            failing(&options, 503).await,
            ("failed".to_owned(), attempts.to_owned()),
            "{retries} retries"
        );
    }
    for status in [401, 402, 403, 404] {
        assert_eq!(
            failing(&json!({ "retries": 3 }), status).await,
            ("failed".to_owned(), "1".to_owned()),
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_run_that_is_tried_again_succeeds_once_its_provider_does() {
    let replies: Vec<Reply> = vec![refuses(529, &[]), refuses(503, &[]), says("At last.")];
    let server = Server::start(replies).await;
    let app = ready(workspace(&server, None), &json!({ "retries": 2 })).await;
    let run = fire(&app).await;
    assert_eq!(
        worked_off(&app, &run).await,
        ("succeeded".to_owned(), "3".to_owned())
    );
    assert_eq!(app.sent().len(), 1);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn without_retries_of_its_own_the_configuration_says_how_often() {
    let (_, usual) = failing(&json!({}), 503).await;
    let server = Server::start((0..40).map(|_| refuses(503, &[])).collect()).await;
    let place = workspace(&server, None);
    place.set(
        "configs/inference.json",
        "/retry/run_attempts_max",
        json!(2),
    );
    let app = ready(place, &json!({})).await;
    let run = fire(&app).await;
    assert_eq!(
        worked_off(&app, &run).await,
        ("failed".to_owned(), "2".to_owned())
    );
    assert_ne!(usual, "2");
}
