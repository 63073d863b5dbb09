//! Receivers that fail, hang, move away or want no more; and power cuts at every commit.

use super::receiver::{Answer, Receiver};
use super::{KEY, TAKEN, asks, deliveries, states, workspace};
use crate::app::db;
use crate::app::{TestApp, note};
use attache::store::{PowerCut, WebhookDeliveryState, WebhookStatus};
use attache::web::{Lookup, SystemLookup};
use attache::webhooks::{WebhookSender, Webhooks};
use futures_util::future::{BoxFuture, ready};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const FAILS: Answer = Answer::Status(500, "");

async fn status(app: &TestApp) -> WebhookStatus {
    let found = app.engine.store.webhook("ops").await.expect("a read");
    found.expect("a webhook")
}

async fn drain_after(app: &TestApp, span: Duration) {
    app.workspace.clock.advance(span);
    app.drain().await;
}

/// Kinds of the notices about webhooks.
async fn notices(app: &TestApp) -> Vec<String> {
    let sql = "SELECT kind FROM notices WHERE subject_kind = 'webhook' ORDER BY seq";
    let kinds = db::query_scalar(sql);
    let mut rows = app.workspace.rows().await;
    kinds.fetch_all(&mut rows).await.expect("notices")
}

/// Leads every name to this machine.
struct Home;

impl Lookup for Home {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(ready(Ok(vec![IpAddr::from([127, 0, 0, 1])])))
    }
}

#[tokio::test]
async fn a_failure_is_tried_again_on_the_schedule_under_its_id() {
    let receiver = Receiver::start(&[FAILS, FAILS, FAILS, TAKEN]).await;
    let more = json!({ "events": ["run.finished"] });
    let app = workspace(&receiver, &more).start().await;
    asks(&app, "q1", "When is breakfast?").await;
    // Twice in each wait: shortly before it is over, and after it.
    for (early, late, tries) in [(3, 4, 2), (230, 140, 3), (1430, 740, 4)] {
        drain_after(&app, Duration::from_secs(early)).await;
        assert_eq!(receiver.received().len(), tries - 1, "too early");
        drain_after(&app, Duration::from_secs(late)).await;
        assert_eq!(receiver.received().len(), tries, "too late");
    }
    drain_after(&app, 24 * HOUR).await;
    let tries = receiver.received();
    assert_eq!(tries.len(), 4, "told after it was taken");
    let header = |name: &str| -> Vec<String> {
        let all = tries.iter().map(|request| request.header(name).to_owned());
        all.collect()
    };
    let (ids, times) = (header("webhook-id"), header("webhook-timestamp"));
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    for request in &tries {
        assert!(request.is_signed_by(KEY));
        assert_eq!(request.body, tries[0].body);
    }
    let row = &deliveries(&app).await[0];
    assert_eq!((row.attempts, row.status), (4, Some(200)));
    assert_eq!(row.error, None);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn only_2xx_is_a_success_and_no_redirect_is_followed() {
    let elsewhere = Receiver::start(&[TAKEN]).await;
    let location: &'static str =
        Box::leak(format!("location: {}\r\n", elsewhere.url()).into_boxed_str());
    for (code, is_taken) in [
        (200, true),
        (201, true),
        (204, true),
        (299, true),
        (301, false),
        (302, false),
        (304, false),
        (307, false),
        (308, false),
        (400, false),
        (404, false),
        (500, false),
        (503, false),
    ] {
        let receiver = Receiver::start(&[Answer::Status(code, location)]).await;
        let more = json!({ "events": ["letter.stored"] });
        let app = workspace(&receiver, &more).start().await;
        asks(&app, "q1", "When is breakfast?").await;
        let expected = match is_taken {
            true => WebhookDeliveryState::Done,
            false => WebhookDeliveryState::Queued,
        };
        assert_eq!(states(&app).await, [expected], "{code}");
        assert_eq!(deliveries(&app).await[0].status, Some(code));
        assert_eq!(receiver.received().len(), 1);
    }
    assert_eq!(elsewhere.received().len(), 0, "a redirect was followed");
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_asked_no_more_and_the_owner_is_told() {
    let receiver = Receiver::start(&[Answer::Status(410, "")]).await;
    let more = json!({ "events": ["letter.stored"] });
    let app = workspace(&receiver, &more).start().await;
    asks(&app, "q1", "When is breakfast?").await;
    asks(&app, "q2", "And lunch?").await;
    drain_after(&app, 48 * HOUR).await;
    assert_eq!(receiver.received().len(), 1);
    let gone = status(&app).await;
    assert!(gone.disabled_at.is_some() && gone.reason.is_some_and(|why| why.contains("410")));
    assert_eq!(notices(&app).await, ["webhook_disabled"]);
    let mails = app.notices();
    let mail = mails.first().expect("a mail to the owner");
    assert_eq!(mail.subject, "[attache] the webhook `ops` is off");
    // What happened meanwhile is told when it is switched on again.
    receiver.answer(TAKEN);
    let app = app.restart().await;
    app.drain().await;
    assert_eq!(receiver.received().len(), 1, "a restart switched it on");
    let store = &app.engine.store;
    store.enable_webhook("ops", false).await.expect("enabled");
    app.drain().await;
    assert_eq!(receiver.events().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn three_days_of_failures_switch_a_webhook_off_and_the_owner_is_told() {
    let receiver = Receiver::start(&[FAILS]).await;
    let more = json!({ "events": ["letter.stored"] });
    let app = workspace(&receiver, &more).start().await;
    asks(&app, "q1", "When is breakfast?").await;
    for attempt in 1..10 {
        assert_eq!(receiver.received().len(), attempt);
        assert_eq!(status(&app).await.disabled_at, None, "after {attempt}");
        drain_after(&app, 30 * HOUR).await;
    }
    assert_eq!(receiver.received().len(), 10);
    assert_eq!(states(&app).await, [WebhookDeliveryState::Failed]);
    assert!(status(&app).await.disabled_at.is_some());
    assert_eq!(notices(&app).await, ["webhook_disabled"]);
    drain_after(&app, 300 * HOUR).await;
    assert_eq!(receiver.received().len(), 10);
}

#[tokio::test]
async fn an_event_that_a_living_receiver_never_takes_is_given_up_alone() {
    let receiver = Receiver::start(&[FAILS]).await;
    let more = json!({ "events": ["letter.stored"] });
    let app = workspace(&receiver, &more).start().await;
    asks(&app, "q1", "When is breakfast?").await;
    receiver.answer(TAKEN);
    app.workspace.clock.advance(Duration::from_secs(1));
    asks(&app, "q2", "And lunch?").await;
    receiver.answer(FAILS);
    for _ in 0..12 {
        drain_after(&app, 30 * HOUR).await;
    }
    let expected = [WebhookDeliveryState::Failed, WebhookDeliveryState::Done];
    assert_eq!(states(&app).await, expected);
    assert_eq!(status(&app).await.disabled_at, None);
    assert_eq!(notices(&app).await, ["webhook_failed"]);
    receiver.answer(TAKEN);
    asks(&app, "q3", "And supper?").await;
    assert_eq!(states(&app).await[2], WebhookDeliveryState::Done);
}

#[tokio::test]
async fn a_busy_receiver_is_left_alone_as_long_as_it_asks() {
    let busy = Answer::Status(503, "retry-after: 3600\r\n");
    let receiver = Receiver::start(&[busy, TAKEN]).await;
    let more = json!({ "events": ["letter.stored"] });
    let app = workspace(&receiver, &more).start().await;
    asks(&app, "q1", "When is breakfast?").await;
    asks(&app, "q2", "And lunch?").await;
    drain_after(&app, Duration::from_secs(3500)).await;
    assert_eq!(receiver.received().len(), 1);
    drain_after(&app, Duration::from_secs(200)).await;
    assert_eq!(states(&app).await, [WebhookDeliveryState::Done; 2]);
    assert_eq!(receiver.received().len(), 3);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_server_that_is_away_is_asked_once_and_not_once_an_event() {
    for (answer, asked) in [
        (Answer::Status(502, ""), 1),
        (Answer::Close, 1),
        // The control: each event has its own attempt where the server works.
        (FAILS, 4),
    ] {
        let receiver = Receiver::start(std::slice::from_ref(&answer)).await;
        let more = json!({ "events": ["letter.stored"] });
        let app = workspace(&receiver, &more).start().await;
        for n in 0..4 {
            let letter = note(&format!("q{n}@guest.example"), "", "When is breakfast?");
            app.receive(&letter).await.expect("taken");
        }
        app.drain().await;
        assert_eq!(receiver.received().len(), asked, "{answer:?}");
        assert_eq!(states(&app).await.len(), 4);
    }
}

#[tokio::test]
async fn a_slow_receiver_is_cut() {
    let receiver = Receiver::start(&[Answer::Silence]).await;
    let more = json!({ "events": ["letter.stored"] });
    let app = workspace(&receiver, &more).start().await;
    let letter = note("q1@guest.example", "", "When is breakfast?");
    app.receive(&letter).await.expect("taken");
    let sender = WebhookSender::new(Arc::new(SystemLookup), Duration::from_millis(200));
    let webhooks = Webhooks::new(&app.engine.store, &app.engine.config, sender);
    let worked = tokio::time::timeout(Duration::from_secs(20), webhooks.work_once()).await;
    assert_eq!(worked.expect("cut").expect("worked"), 2);
    let row = &deliveries(&app).await[0];
    assert_eq!(
        (row.state, row.status),
        (WebhookDeliveryState::Queued, None)
    );
    let error = row.error.as_deref().unwrap_or_default();
    assert!(error.contains("did not answer"), "{error}");
    assert!(status(&app).await.rests_until.is_some());
}

/// The guard looks at the addresses of the moment: a name that leads to this machine is not connected to, unless the
/// configuration opens it.
#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_not_connected_to() {
    let receiver = Receiver::start(&[TAKEN]).await;
    for (url, is_private, is_told) in [
        ("https://hooks.example.test/a".to_owned(), false, false),
        (
            format!("http://hooks.example.test:{}/a", receiver.port),
            true,
            true,
        ),
    ] {
        let more = json!({ "events": ["letter.stored"], "url": url, "private_target": is_private });
        let app = workspace(&receiver, &more).start().await;
        let letter = note("q1@guest.example", "", "When is breakfast?");
        app.receive(&letter).await.expect("taken");
        let sender = WebhookSender::new(Arc::new(Home), Duration::from_secs(20));
        let webhooks = Webhooks::new(&app.engine.store, &app.engine.config, sender);
        webhooks.work_once().await.expect("worked");
        let row = &deliveries(&app).await[0];
        let error = row.error.as_deref().unwrap_or_default();
        assert_eq!(row.state == WebhookDeliveryState::Done, is_told, "{error}");
        assert_eq!(error.contains("not public"), !is_told, "{error}");
        assert_eq!(receiver.received().len(), usize::from(is_told));
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_receiver_that_is_away_fills_no_table_and_what_the_feed_has_lost_is_told() {
    let receiver = Receiver::start(&[Answer::Status(503, "")]).await;
    let more = json!({ "events": ["run.finished"] });
    let app = workspace(&receiver, &more).start().await;
    let mut rows = app.workspace.rows().await;
    let flood = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
        INSERT INTO feed (kind, persona_id, run_id, at)
        SELECT 'run.succeeded', 'ada', 'run-' || i, '2026-11-20T09:00:00.000Z' FROM n";
    db::query(flood).execute(&mut rows).await.expect("events");
    app.drain().await;
    let behind = status(&app).await;
    assert_eq!((behind.queued, behind.through_seq), (1000, 1000));
    // Some are taken, and others come after them.
    receiver.answer(TAKEN);
    drain_until_caught_up(&app, 40).await;
    let on = status(&app).await;
    assert!(on.through_seq > 1000, "{on:?}");
    assert!(on.queued <= 1000);
    // The feed is pruned meanwhile: what is missing is told to the owner, not passed over.
    let prune = "DELETE FROM feed WHERE seq < 1400";
    db::query(prune).execute(&mut rows).await.expect("pruned");
    app.engine
        .store
        .enable_webhook("ops", false)
        .await
        .expect("enabled");
    drain_until_caught_up(&app, 400).await;
    assert_eq!(notices(&app).await, ["webhook_failed"]);
    let summary = "SELECT summary FROM notices WHERE subject_kind = $1";
    let told = app.row(summary, "webhook").await;
    let told = told[0].as_deref().expect("a sentence");
    assert!(told.contains("were pruned before"), "{told}");
}

async fn drain_until_caught_up(app: &TestApp, events: usize) {
    let webhooks = Webhooks::new(
        &app.engine.store,
        &app.engine.config,
        WebhookSender::default(),
    );
    app.workspace.clock.advance(HOUR);
    let mut worked = 0;
    while worked < events {
        worked += webhooks.work_once().await.expect("worked");
    }
}

/// At every commit of a letter's way, before and after it: whatever happened is told, nothing is told twice but what was under
/// way, and that under its old id.
#[tokio::test]
#[ignore = "second tier"]
async fn a_power_cut_at_any_commit_loses_no_event() {
    let mut was_repeated = false;
    for commit in 1..40 {
        let mut is_through = false;
        for cut in [
            PowerCut::BeforeCommit(commit),
            PowerCut::AfterCommit(commit),
        ] {
            let receiver = Receiver::start(&[TAKEN]).await;
            let app = workspace(&receiver, &json!({})).start().await;
            app.engine.store.cut_power(cut);
            let letter = note("q1@guest.example", "", "When is breakfast?");
            let taken = app.receive(&letter).await.is_ok();
            app.workspace.clock.advance(Duration::from_millis(10));
            let drained = taken && app.engine.drain().await.is_ok();
            is_through |= drained;
            let app = app.restart().await;
            if !taken {
                app.receive(&letter).await.expect("taken at last");
            }
            app.drain().await;
            drain_after(&app, Duration::from_secs(20)).await;
            let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for request in receiver.received() {
                let id = request.header("webhook-id").to_owned();
                told.entry(id).or_default().push(request.event());
            }
            let mut events: Vec<&str> = told.values().map(|tries| tries[0].as_str()).collect();
            events.sort_unstable();
            assert_eq!(events, ["letter.stored", "run.finished"], "{cut:?}");
            was_repeated |= told.values().any(|tries| tries.len() > 1);
            assert_eq!(
                states(&app).await,
                [WebhookDeliveryState::Done; 2],
                "{cut:?}"
            );
        }
        if is_through {
            assert!(was_repeated, "no cut came between an answer and its commit");
            return;
        }
    }
    panic!("a letter has more commits than this test looks at");
}
