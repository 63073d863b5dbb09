//! When the transport itself does not work: it rests, and the mail pays nothing for it.

use super::server::{Fault, Script, Server, Verb};
use super::world::{GIVE_UP_AFTER, House, only, patient, reopened, start};
use crate::app::db;
use attache::domain::BreakerState;
use attache::domain::DeliveryId;
use attache::store::{DeliveryState, PowerCut, RecipientState, TransportState};
use secrecy::SecretString;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn third_failures_rest_the_transport_and_cost_no_more_attempts() {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((Verb::Connect, Fault::Drop)),
        ..Script::default()
    })
    .await;
    let outbound = house.outbound_with(&server, patient(), |smarthost| {
        smarthost.connections_max = 1;
    });
    let mut ids: Vec<DeliveryId> = Vec::new();
    for n in 0..6 {
        ids.push(
            house
                .mail(&format!("mail-{n}"), &["you@example.test"])
                .await,
        );
    }
    outbound.work_once().await.expect("the store works");
    server.heard(|heard| assert_eq!(heard.connections, 3, "the others were not tried"));
    let mut attempts = Vec::new();
    for id in &ids {
        let delivery = house.delivery(id).await;
        attempts.push(delivery.attempts);
        assert_eq!(delivery.state, DeliveryState::Queued);
    }
    assert_eq!(attempts, [1, 1, 0, 0, 0, 0]);
    assert_eq!(
        house.delivery(&ids[2]).await.next_attempt_at,
        Some(start().plus(MINUTE))
    );

    // Nothing is tried during the pause; then one mail finds out, and the pause doubles.
    for pause in [1, 2, 4, 8, 16, 30, 30] {
        let before = server.heard(|heard| heard.connections);
        house
            .clock
            .advance(MINUTE * pause - Duration::from_millis(1));
        assert_eq!(
            outbound.work_once().await.expect("the store works"),
            0,
            "pause of {pause} minutes"
        );
        house.clock.advance(Duration::from_millis(1));
        assert_eq!(
            outbound.work_once().await.expect("the store works"),
            1,
            "pause of {pause} minutes"
        );
        assert_eq!(server.heard(|heard| heard.connections), before + 1);
    }
    server.set(|script| script.fault = None);
    house.clock.advance(MINUTE * 30);
    let mut sent = 0;
    while sent < 6 {
        sent += outbound.work_once().await.expect("the store works");
        house.clock.advance(MINUTE * 5);
    }
    for id in &ids {
        let delivery = house.delivery(id).await;
        assert_eq!(
            (delivery.state, only(&delivery).state),
            (DeliveryState::Done, RecipientState::Delivered)
        );
        assert!(delivery.attempts <= 2, "{} attempts", delivery.attempts);
    }
}

#[tokio::test]
async fn refused_credentials_rest_the_transport_and_keep_the_mail() {
    for (command, reply) in [
        ("AUTH", "535 5.7.8 bad credentials"),
        ("AUTH", "534 5.7.9 mechanism too weak"),
        ("MAIL", "530 5.7.0 authentication required"),
        ("RCPT", "530 5.7.0 authentication required"),
    ] {
        let house = House::new().await;
        let offers = vec!["AUTH PLAIN LOGIN"];
        let server = Server::start(Script {
            offers,
            ..Script::default()
        })
        .await;
        server.set(|script| drop(script.replies.insert(command, reply.to_owned())));
        let outbound = house.outbound_with(&server, patient(), |smarthost| {
            smarthost.connections_max = 1;
            smarthost.credentials =
                Some(("ada".to_owned(), SecretString::from("s3cret".to_owned())));
        });
        let first = house.mail("first", &["you@example.test"]).await;
        let second = house.mail("second", &["you@example.test"]).await;
        outbound.work_once().await.expect("the store works");
        for id in [&first, &second] {
            let delivery = house.delivery(id).await;
            assert_eq!(
                (delivery.state, delivery.attempts),
                (DeliveryState::Queued, 0),
                "{reply}"
            );
            assert_eq!(
                delivery.next_attempt_at,
                Some(start().plus(MINUTE * 15)),
                "{reply}"
            );
        }
        server.heard(|heard| assert_eq!(heard.connections, 1, "{reply}"));
        house.clock.advance(MINUTE * 15 - Duration::from_millis(1));
        assert_eq!(outbound.work_once().await.expect("the store works"), 0);
        // The operator mends it; the next probe finds out.
        server.set(|script| script.replies.clear());
        house.clock.advance(Duration::from_millis(1));
        while outbound.work_once().await.expect("the store works") > 0 {}
        for id in [&first, &second] {
            assert_eq!(
                house.states(id).await,
                (DeliveryState::Done, RecipientState::Delivered),
                "{reply}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_without_our_mechanism_is_a_matter_of_credentials() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound_with(&server, patient(), |smarthost| {
        smarthost.credentials = Some(("ada".to_owned(), SecretString::from("s3cret".to_owned())));
    });
    let id = house.mail("first", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (delivery.attempts, delivery.next_attempt_at),
        (0, Some(start().plus(MINUTE * 15)))
    );
    server.heard(|heard| assert_eq!(heard.count("AUTH") + heard.count("MAIL"), 0));
}

#[tokio::test]
async fn authentication_that_fails_for_now_is_an_ordinary_failure() {
    let house = House::new().await;
    let offers = vec!["AUTH PLAIN"];
    let server = Server::start(Script {
        offers,
        ..Script::default()
    })
    .await;
    server.set(|script| {
        drop(
            script
                .replies
                .insert("AUTH", "454 4.7.0 not now".to_owned()),
        );
    });
    let outbound = house.outbound_with(&server, patient(), |smarthost| {
        smarthost.credentials = Some(("ada".to_owned(), SecretString::from("s3cret".to_owned())));
    });
    let id = house.mail("first", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (delivery.attempts, only(&delivery).last_code),
        (1, Some(454))
    );
    let wait = delivery
        .next_attempt_at
        .expect("it is queued")
        .since(start());
    assert!(wait < MINUTE * 2, "{wait:?}");
}

#[tokio::test]
async fn mail_grows_too_old_even_while_the_transport_rests() {
    let house = House::new().await;
    let offers = vec!["AUTH PLAIN"];
    let server = Server::start(Script {
        offers,
        ..Script::default()
    })
    .await;
    server.set(|script| {
        drop(
            script
                .replies
                .insert("AUTH", "535 5.7.8 bad credentials".to_owned()),
        );
    });
    let outbound = house.outbound_with(&server, patient(), |smarthost| {
        smarthost.credentials = Some(("ada".to_owned(), SecretString::from("s3cret".to_owned())));
    });
    let probe = house.mail("probe", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    let old = house.mail("old", &["you@example.test"]).await;
    house.clock.advance(GIVE_UP_AFTER);
    let young = house.mail("young", &["you@example.test"]).await;
    // The probe's own pause is over; it fails once more, for good, and opens the next pause.
    assert_eq!(outbound.work_once().await.expect("the store works"), 1);
    assert_eq!(outbound.work_once().await.expect("the store works"), 0);
    for id in [&probe, &old] {
        let delivery = house.delivery(id).await;
        assert_eq!(
            (delivery.state, only(&delivery).state),
            (DeliveryState::Failed, RecipientState::Failed)
        );
        assert!(
            only(&delivery)
                .last_reply
                .as_deref()
                .is_some_and(|reply| reply.starts_with("gave up: "))
        );
    }
    assert_eq!(
        house.states(&young).await,
        (DeliveryState::Queued, RecipientState::Queued)
    );
}

#[tokio::test]
async fn a_mail_that_the_server_chokes_on_does_not_rest_the_transport() {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((Verb::EndOfData, Fault::Drop)),
        ..Script::default()
    })
    .await;
    let outbound = house.outbound_with(&server, patient(), |smarthost| {
        smarthost.connections_max = 1;
    });
    // Its two copies are no third failure in a row, and mail of others goes out.
    let choking = house.mail("mail-0", &["you@example.test"]).await;
    for failures in [1, 2] {
        outbound.work_once().await.expect("the store works");
        assert_eq!(outbound.breaker(), (BreakerState::Closed, failures));
        house.clock.advance(MINUTE * 2);
    }
    assert_eq!(house.delivery(&choking).await.state, DeliveryState::Held);
    server.set(|script| script.fault = None);
    let other = house.mail("mail-1", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    assert_eq!(house.delivery(&other).await.state, DeliveryState::Done);
    assert_eq!(outbound.breaker(), (BreakerState::Closed, 0));
}

async fn told(house: &House) -> Vec<(String, String)> {
    let sql = "SELECT kind, summary FROM notices ORDER BY seq";
    db::query_as(sql)
        .fetch_all(&mut house.database().await)
        .await
        .expect("rows")
}

#[tokio::test]
async fn an_absent_smarthost_is_told_once_the_outbox_says_until_when() {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((Verb::Connect, Fault::Shutdown)),
        ..Script::default()
    })
    .await;
    let outbound = house.outbound_with(&server, patient(), |smarthost| {
        smarthost.connections_max = 1;
    });
    house.mails(3).await;
    outbound.work_once().await.expect("the store works");
    let health = async || {
        house
            .store
            .transport_health()
            .await
            .expect("the store works")
            .expect("trouble")
    };
    let first = health().await;
    assert_eq!(
        (first.state, first.since),
        (TransportState::Unreachable, start())
    );
    assert_eq!(first.next_probe_at, Some(start().plus(MINUTE)));
    assert_eq!(first.reason, "4.3.2 closing");
    assert_eq!(
        told(&house).await,
        [],
        "a smarthost that restarts is no news"
    );

    let mut minutes = 0;
    for pause in [1, 2, 4, 8, 16] {
        house.clock.advance(MINUTE * pause);
        minutes += pause;
        assert_eq!(outbound.work_once().await.expect("the store works"), 1);
        assert_eq!(health().await.since, start());
        let told = told(&house).await;
        assert_eq!(
            told.len(),
            usize::from(minutes >= 15),
            "after {minutes} minutes: {told:?}"
        );
    }
    let (kind, summary) = &told(&house).await[0];
    assert_eq!(kind, "transport_down");
    assert!(
        summary.contains("127.0.0.1") && summary.contains("closing"),
        "{summary}"
    );

    server.set(|script| script.fault = None);
    house.clock.advance(MINUTE * 30);
    while outbound.work_once().await.expect("the store works") > 0 {}
    let well = health().await;
    assert_eq!(
        (well.state, well.reason.as_str(), well.next_probe_at),
        (TransportState::Well, "", None)
    );
    assert_eq!(told(&house).await.len(), 1);
}

#[tokio::test]
async fn the_owner_hears_once_of_a_refused_password_over_a_restart() {
    let house = House::new().await;
    let offers = vec!["AUTH PLAIN"];
    let server = Server::start(Script {
        offers,
        ..Script::default()
    })
    .await;
    server.set(|script| {
        drop(
            script
                .replies
                .insert("AUTH", "535 5.7.8 bad credentials".to_owned()),
        );
    });
    let with_password = |smarthost: &mut attache::config::Smarthost| {
        smarthost.credentials = Some(("ada".to_owned(), SecretString::from("s3cret".to_owned())));
    };
    house.mails(5).await;
    for _engine in 0..2 {
        let outbound = house.outbound_with(&server, patient(), with_password);
        for _probe in 0..3 {
            outbound.work_once().await.expect("the store works");
            house.clock.advance(MINUTE * 15);
        }
    }
    let health = house
        .store
        .transport_health()
        .await
        .expect("the store works")
        .expect("trouble");
    assert_eq!(
        (health.state, health.since),
        (TransportState::AuthFailed, start())
    );
    let told = told(&house).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "transport_refused");
    assert!(
        told[0].1.contains("bad credentials") && !told[0].1.contains("s3cret"),
        "{}",
        told[0].1
    );
}

#[tokio::test]
async fn a_connection_kept_from_serving_thrice_rests_the_transport() {
    for (verb, fault) in [
        (Verb::Connect, Fault::Permanent),
        (Verb::Ehlo, Fault::Drop),
        (Verb::Mail, Fault::Shutdown),
        (Verb::Rcpt, Fault::Shutdown),
        (Verb::EndOfData, Fault::Shutdown),
    ] {
        let house = House::new().await;
        let server = Server::start(Script {
            fault: Some((verb, fault)),
            ..Script::default()
        })
        .await;
        let outbound = house.outbound_with(&server, patient(), |smarthost| {
            smarthost.connections_max = 1;
        });
        house.mails(4).await;
        outbound.work_once().await.expect("the store works");
        assert_eq!(
            outbound.breaker(),
            (BreakerState::Open(MINUTE), 3),
            "{verb:?} {fault:?}"
        );
        let mut attempts = Vec::new();
        for n in 0..4 {
            attempts.push(
                house
                    .delivery(&DeliveryId::new(format!("mail-{n}")))
                    .await
                    .attempts,
            );
        }
        assert_eq!(attempts, [1, 1, 0, 0], "{verb:?} {fault:?}");
    }
}

#[tokio::test]
async fn mail_too_old_is_given_up_some_at_a_time_each_with_its_fact() {
    let house = House::new().await;
    house.mails(600).await;
    house.clock.advance(GIVE_UP_AFTER);
    let mut rows = house.database().await;
    let given_up = "SELECT (SELECT count(*) FROM deliveries WHERE state = 'failed'),
        (SELECT count(*) FROM delivery_recipients WHERE state = 'failed' AND last_reply LIKE 'gave up: %'),
        (SELECT count(*) FROM notices WHERE kind = 'delivery_failed')";
    // The power goes at the third transaction; had it been one for all, nothing would be there.
    house.store.cut_power(PowerCut::BeforeCommit(3));
    assert!(house.store.expire_deliveries(GIVE_UP_AFTER).await.is_err());
    let counts: (i64, i64, i64) = db::query_as(given_up)
        .fetch_one(&mut rows)
        .await
        .expect("counts");
    assert_eq!(counts, (512, 512, 512));
    let House {
        folder,
        clock,
        store,
    } = house;
    drop(store);
    let store = reopened(&folder, &clock).await;
    assert_eq!(
        store
            .expire_deliveries(GIVE_UP_AFTER)
            .await
            .expect("given up"),
        88
    );
    let counts: (i64, i64, i64) = db::query_as(given_up)
        .fetch_one(&mut rows)
        .await
        .expect("counts");
    assert_eq!(counts, (600, 600, 600));
}
