//! A provider that is down, or that refuses the account, is not asked by every run of a burst.

use crate::app::db;
use crate::app::{TestApp, note};
use crate::fallback::{refuses, says, tries, workspace};
use crate::providers::server::{Reply, Server};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Letters of `count` people, each in a thread of its own.
async fn burst(app: &TestApp, count: usize) -> Vec<String> {
    let mut runs = Vec::new();
    for n in 0..count {
        let letter = note(&format!("{n}@guest.example"), "", "When is breakfast?");
        runs.push(
            app.run_of(&letter.replace("bob@", &format!("bob{n}@")))
                .await,
        );
    }
    runs
}

/// How many runs are in this state, with this class.
async fn count(app: &TestApp, state: &'static str, class: &str) -> usize {
    let mut rows = app.workspace.rows().await;
    let sql = "SELECT count(*) FROM runs WHERE state = $1 AND coalesce(error_class, '') = $2";
    let found = db::query_scalar::<i64>(sql).bind(state).bind(class);
    usize::try_from(found.fetch_one(&mut rows).await.expect("a count")).expect("a size")
}

fn then(failing: usize, reply: Reply, well: Reply) -> Vec<Reply> {
    std::iter::repeat_n(reply, failing).chain([well]).collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn five_failures_rest_the_provider_and_one_run_tries_it_again() {
    for (status, class) in [(503, "overloaded"), (500, "transient"), (504, "timeout")] {
        let one = Server::start(then(6, refuses(status, &[]), says("Seven."))).await;
        let app = workspace(&one, None).start().await;
        burst(&app, 12).await;
        app.drain().await;
        assert_eq!(
            (one.seen().len(), count(&app, "waiting_retry", class).await),
            (5, 12)
        );
        app.workspace
            .clock
            .advance(MINUTE + Duration::from_secs(15));
        app.drain().await;
        assert_eq!(one.seen().len(), 6, "one probe, and it fails");
        assert_eq!(count(&app, "waiting_retry", class).await, 12);
        app.workspace.clock.advance(MINUTE * 6);
        app.drain().await;
        assert_eq!((one.seen().len(), app.sent().len()), (18, 12), "{class}");
        app.check().await;
    }
}

#[tokio::test]
async fn a_rested_run_says_why_it_waits_and_until_when() {
    let one = Server::start(vec![refuses(503, &[])]).await;
    let app = workspace(&one, None).start().await;
    let runs = burst(&app, 6).await;
    app.drain().await;
    assert!(
        tries(&app, &runs[5]).await.is_empty(),
        "it was never asked for"
    );
    let row = app
        .row(
            "SELECT error_message, next_attempt_at FROM runs WHERE id = $1",
            &runs[5],
        )
        .await;
    let said = row[0].clone().expect("words");
    assert!(
        said.contains("provider `compat:one` rests for 60 s") && said.contains("HTTP 503"),
        "{said}"
    );
    assert!(
        row[1]
            .as_deref()
            .is_some_and(|at| at > "2026-11-20T09:01:00"),
        "{row:?}"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_resting_providers_fallback_answers_without_asking_it() {
    let one = Server::start(vec![refuses(503, &[])]).await;
    let two = Server::start(vec![says("Seven.")]).await;
    let app = workspace(&one, Some(&two)).start().await;
    let runs = burst(&app, 10).await;
    app.drain().await;
    assert_eq!(
        (one.seen().len(), two.seen().len(), app.sent().len()),
        (5, 10, 10)
    );
    assert_eq!(tries(&app, &runs[9]).await, ["0 compat:two/m2 answered"]);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_success_or_an_answer_of_another_kind_restarts_the_count() {
    let bad = || refuses(503, &[]);
    let others = [
        says("Seven."),
        refuses(400, &[]),
        refuses(429, &[("retry-after", "3600")]),
    ];
    for other in others {
        let mut replies = vec![bad(), bad(), bad(), bad(), other];
        replies.extend([bad(), bad(), bad(), bad(), says("Seven.")]);
        let one = Server::start(replies).await;
        let app = workspace(&one, None).start().await;
        burst(&app, 10).await;
        app.drain().await;
        assert_eq!(one.seen().len(), 10);
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_refused_account_is_asked_once_a_minute_not_once_a_letter() {
    for (status, class) in [(401, "auth"), (402, "billing")] {
        let one = Server::start(vec![refuses(status, &[])]).await;
        let app = workspace(&one, None).start().await;
        burst(&app, 100).await;
        app.drain().await;
        assert_eq!(one.seen().len(), 1, "{class}");
        assert_eq!(
            (
                count(&app, "failed", class).await,
                count(&app, "waiting_retry", class).await
            ),
            (1, 99)
        );
        let waits = [75, 320, 920, 3620];
        for (nth, seconds) in waits.into_iter().enumerate() {
            app.workspace.clock.advance(Duration::from_secs(seconds));
            app.drain().await;
            assert_eq!(one.seen().len(), 2 + nth, "one probe each time");
        }
        // A refused key is no reason to hold up threads for ever: after its attempts, each run fails.
        assert_eq!(count(&app, "failed", class).await, 100);
        app.check().await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_mended_account_brings_the_waiting_runs_back_by_themselves() {
    let one = Server::start(then(1, refuses(402, &[]), says("Seven."))).await;
    let app = workspace(&one, None).start().await;
    burst(&app, 20).await;
    app.drain().await;
    app.workspace
        .clock
        .advance(MINUTE + Duration::from_secs(15));
    app.drain().await;
    assert_eq!(
        (
            count(&app, "succeeded", "").await + count(&app, "succeeded", "billing").await,
            app.sent().len()
        ),
        (19, 19)
    );
    assert_eq!(count(&app, "failed", "billing").await, 1);
}
