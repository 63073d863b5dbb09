//! The wall clock is set while something waits for it: back by a day or two hours, or forward. Nothing waits longer
//! than it was told to, nothing is done twice, and what is written says the time that it was.

use crate::app::{START, TestApp, Workspace, note};
use crate::outbound::server::{Fault, Script, Server, Verb};
use crate::outbound::world::{House, start};
use attache::clock::Clock;
use attache::domain::Timestamp;
use attache::store::DeliveryState;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The longest first wait of a mail or a run, with all that chance adds.
const FIRST_WAIT: Duration = Duration::from_secs(80);

/// A run that waits for its provider to come to its senses; from now on the provider answers.
async fn parked_run() -> (TestApp, String) {
    let workspace = Workspace::new(&json!({ "rules": [{ "hang": true }] }));
    workspace.set(
        "configs/inference.json",
        "/timeouts",
        json!({ "call": "20ms", "idle": "20ms" }),
    );
    workspace.set(
        "configs/inference.json",
        "/retry",
        json!({ "call_attempts_max": 1 }),
    );
    let app = workspace.start().await;
    let run = app.run_of(&note("q@guest.example", "", "Hello?")).await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "waiting_retry");
    app.workspace.write(
        "configs/script.json",
        &json!({ "rules": [{ "say": "Yes." }] }).to_string(),
    );
    (app.restart().await, run)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_waiting_run_is_not_kept_waiting_by_a_clock_set_back() {
    for (back, minded) in [(DAY, true), (2 * HOUR, true), (DAY, false)] {
        let (app, run) = parked_run().await;
        let clock = app.workspace.clock.clone();
        let before = app.engine.scheduler().times();
        clock.set(clock.now().minus(back));
        if minded {
            let (after, stepped) = app.engine.scheduler().mind_clock(before).await;
            assert!(stepped, "set back by {back:?}");
            assert!(
                !app.engine.scheduler().mind_clock(after).await.1,
                "once is enough"
            );
        }
        clock.advance(FIRST_WAIT);
        app.drain().await;
        // The control: a clock that nobody minds keeps the run waiting for a day.
        let expected = if minded { "succeeded" } else { "waiting_retry" };
        assert_eq!(app.outcome(&run).await.0, expected, "set back by {back:?}");
        assert_eq!(app.sent().len(), usize::from(minded));
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_clock_set_forward_makes_due_what_waits_and_doubles_nothing() {
    let (app, run) = parked_run().await;
    let clock = app.workspace.clock.clone();
    let before = app.engine.scheduler().times();
    clock.set(clock.now().plus(DAY));
    assert!(app.engine.scheduler().mind_clock(before).await.1);
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    clock.set(Timestamp::parse(START).expect("an instant"));
    app.drain().await;
    assert_eq!(app.sent().len(), 1);
    app.check().await;
}

#[tokio::test]
async fn a_waiting_mail_is_not_kept_waiting_by_a_clock_set_back() {
    for (back, minded) in [(DAY, true), (2 * HOUR, true), (2 * HOUR, false)] {
        let house = House::new().await;
        let script = Script {
            fault: Some((Verb::Rcpt, Fault::Temporary)),
            ..Script::default()
        };
        let server = Server::start(script).await;
        let outbound = house.outbound(&server);
        let id = house.mail("mail", &["you@example.test"]).await;
        assert_eq!(outbound.work_once().await.expect("the store works"), 1);
        server.set(|script| script.fault = None);
        let wait = house
            .delivery(&id)
            .await
            .next_attempt_at
            .expect("a time")
            .since(start());
        house.clock.set(start().minus(back));
        if minded {
            assert_eq!(
                house
                    .store
                    .bring_forward(back)
                    .await
                    .expect("the store works"),
                1
            );
            let delivery = house.delivery(&id).await;
            assert_eq!(
                delivery.next_attempt_at,
                Some(start().minus(back).plus(wait))
            );
            assert_eq!(
                delivery.recipients[0].next_attempt_at,
                delivery.next_attempt_at
            );
        }
        house.clock.advance(FIRST_WAIT);
        let sent = outbound.work_once().await.expect("the store works");
        assert_eq!(sent, usize::from(minded), "set back by {back:?}");
        let expected = if minded {
            DeliveryState::Done
        } else {
            DeliveryState::Queued
        };
        assert_eq!(house.delivery(&id).await.state, expected);
    }
}

#[tokio::test]
async fn a_clock_set_back_during_downtime_is_seen_by_impossible_waits() {
    for (back, sent) in [(DAY, 1), (2 * HOUR, 0)] {
        let house = House::new().await;
        let server = Server::start(Script::default()).await;
        house.mail("mail", &["you@example.test"]).await;
        house.clock.set(start().minus(back));
        let outbound = house.outbound(&server);
        // Two hours may be a wait that was meant; they are waited for.
        assert_eq!(
            outbound.work_once().await.expect("the store works"),
            sent,
            "set back by {back:?}"
        );
    }
}

#[tokio::test]
async fn what_is_written_bears_the_time_that_it_was() {
    let app = TestApp::start(json!({ "rules": [{ "say": "Yes." }] })).await;
    let clock = app.workspace.clock.clone();
    let mut runs = Vec::new();
    let here = Timestamp::parse(START).expect("an instant");
    for (n, now) in [here, here.plus(DAY), here.minus(DAY), here.minus(2 * HOUR)]
        .into_iter()
        .enumerate()
    {
        clock.set(now);
        runs.push(
            app.run_of(&note(&format!("{n}@guest.example"), "", "Hello?"))
                .await,
        );
        app.drain().await;
        let date = app.sent().iter().filter_map(|mail| mail.date).find(|date| {
            date.since(clock.now()).max(clock.now().since(*date)) < Duration::from_secs(60)
        });
        assert!(
            date.is_some(),
            "no answer is dated about {now}: {:?}",
            app.sent()
        );
    }
    for run in &runs {
        assert_eq!(app.outcome(run).await.0, "succeeded");
    }
    app.check().await;
}

/// What an engine of the real binary logs until it serves.
fn logged_at_start(workspace: &Workspace) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .args(["serve", "--log", "warn"])
        .env_remove("ATTACHE_WORKSPACE");
    command
        .current_dir(workspace.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut engine = command.spawn().expect("the binary runs");
    let (mut line, out) = (String::new(), engine.stdout.take().expect("a pipe"));
    BufReader::new(out).read_line(&mut line).expect("a line");
    engine.kill().expect("killed");
    let said = engine.wait_with_output().expect("its log");
    String::from_utf8(said.stderr).expect("UTF-8")
}

#[tokio::test]
async fn an_engine_whose_clock_is_behind_its_rows_says_so_at_its_start() {
    for (at, is_behind) in [(START, false), ("2099-01-01T09:00:00.000Z", true)] {
        let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
        workspace
            .clock
            .set(Timestamp::parse(at).expect("an instant"));
        let app = workspace.start().await;
        app.run_of(&note("q@guest.example", "", "Hello?")).await;
        app.drain().await;
        let TestApp { workspace, engine } = app;
        engine.store.clone().close().await;
        drop(engine);
        let log = logged_at_start(&workspace);
        let is_said = log.contains("the clock is earlier than the newest row")
            && log.contains("2099-01-01T09:00:00");
        assert_eq!(is_said, is_behind, "{at}: {log}");
    }
}
