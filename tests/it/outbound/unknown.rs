//! When nobody knows whether the server has the mail: every crash point of a delivery, and what `on_unknown` makes of it.

use super::server::{Fault, Script, Server, Verb};
use super::world::{House, bytes, only, patient, reopened, smtp, start};
use crate::app::db;
use attache::config::OnUnknown;
use attache::gateway::outbound::{Options, Outbound};
use attache::store::{DeliveryState, PowerCut, RecipientState};
use std::sync::Arc;
use std::time::Duration;

/// Where the power goes, what is on disk then, and what the server and the row say after the next engine's work.
struct Point {
    name: &'static str,
    cut: PowerCut,
    on_disk: DeliveryState,
    copies: usize,
    flagged: bool,
}

/// An engine's first commits recover and look at the waits, then come the claim, the mark before the dot, and the outcome.
const POINTS: [Point; 6] = [
    Point {
        name: "O1",
        cut: PowerCut::BeforeCommit(3),
        on_disk: DeliveryState::Queued,
        copies: 1,
        flagged: false,
    },
    Point {
        name: "O2",
        cut: PowerCut::AfterCommit(3),
        on_disk: DeliveryState::Sending,
        copies: 1,
        flagged: false,
    },
    Point {
        name: "O3",
        cut: PowerCut::BeforeCommit(4),
        on_disk: DeliveryState::Sending,
        copies: 1,
        flagged: false,
    },
    // The mark is there and the dot was not sent: flagged all the same, since nobody can know.
    Point {
        name: "O4",
        cut: PowerCut::AfterCommit(4),
        on_disk: DeliveryState::Committing,
        copies: 1,
        flagged: true,
    },
    Point {
        name: "O5",
        cut: PowerCut::BeforeCommit(5),
        on_disk: DeliveryState::Committing,
        copies: 2,
        flagged: true,
    },
    Point {
        name: "O6",
        cut: PowerCut::AfterCommit(5),
        on_disk: DeliveryState::Done,
        copies: 1,
        flagged: false,
    },
];

#[tokio::test]
async fn a_power_cut_at_every_commit_of_a_delivery_ends_by_the_table() {
    for Point {
        name,
        cut,
        on_disk,
        copies,
        flagged,
    } in POINTS
    {
        let house = House::new().await;
        let server = Server::start(Script::default()).await;
        let id = house.mail("first", &["you@example.test"]).await;
        house.store.cut_power(cut);
        house
            .outbound(&server)
            .work_once()
            .await
            .expect_err("the power is off");
        let House {
            folder,
            clock,
            store,
        } = house;
        store.close().await;
        let store = reopened(&folder, &clock).await;
        let house = House {
            folder,
            clock,
            store,
        };
        assert_eq!(house.delivery(&id).await.state, on_disk, "{name}");

        let again = usize::from(on_disk != DeliveryState::Done);
        assert_eq!(
            house
                .outbound(&server)
                .work_once()
                .await
                .expect("the store works"),
            again,
            "{name}"
        );
        assert_eq!(
            house.states(&id).await,
            (DeliveryState::Done, RecipientState::Delivered),
            "{name}"
        );
        let delivery = house.delivery(&id).await;
        assert_eq!(delivery.possible_duplicate, flagged, "{name}");
        // An attempt whose mail cannot be with the server was none.
        let attempts = if flagged { 2 } else { 1 };
        assert_eq!(delivery.attempts, attempts, "{name}");
        server.heard(|heard| {
            let accepted = heard.accepted();
            assert_eq!(accepted.len(), copies, "{name}");
            assert!(
                accepted.iter().all(|mail| mail.bytes() == bytes("first")),
                "{name}"
            );
        });
    }
}

/// O7: some recipients were refused for now when the others got the mail.
#[tokio::test]
async fn after_a_crash_only_the_deferred_recipient_is_tried_again() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    server.set(|script| {
        drop(
            script
                .replies
                .insert("RCPT TO:<later@", "450 4.2.1 greylisted".to_owned()),
        );
    });
    let id = house
        .mail("first", &["here@example.test", "later@example.test"])
        .await;
    house.store.cut_power(PowerCut::AfterCommit(5));
    house
        .outbound(&server)
        .work_once()
        .await
        .expect_err("the power is off");
    let House {
        folder,
        clock,
        store,
    } = house;
    store.close().await;
    let house = House {
        store: reopened(&folder, &clock).await,
        folder,
        clock,
    };
    server.set(|script| script.replies.clear());
    house.clock.advance(Duration::from_secs(72));
    assert_eq!(
        house
            .outbound(&server)
            .work_once()
            .await
            .expect("the store works"),
        1
    );
    server.heard(|heard| {
        let to: Vec<_> = heard.mails.iter().map(|mail| mail.to.clone()).collect();
        assert_eq!(to, [["here@example.test"], ["later@example.test"]]);
    });
    assert!(!house.delivery(&id).await.possible_duplicate);
}

fn holding(house: &House, server: &Server) -> Outbound {
    let options = Options {
        timeouts: patient(),
        extra_root_pem: None,
    };
    house.outbound_that(
        OnUnknown::Hold,
        Arc::new(smtp(&house.clock, server, &options, |_| {})),
    )
}

async fn notices(house: &House, kind: &str) -> Vec<String> {
    let sql = "SELECT summary FROM notices WHERE kind = $1 ORDER BY seq";
    db::query_scalar(sql)
        .bind(kind)
        .fetch_all(&mut house.database().await)
        .await
        .expect("rows")
}

#[tokio::test]
async fn a_mail_that_the_server_may_have_is_held_until_a_decision() {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((Verb::EndOfData, Fault::Drop)),
        ..Script::default()
    })
    .await;
    let outbound = holding(&house, &server);
    let id = house.mail("first", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (delivery.state, delivery.next_attempt_at),
        (DeliveryState::Held, None)
    );
    assert_eq!(
        (only(&delivery).state, only(&delivery).next_attempt_at),
        (RecipientState::Deferred, None)
    );
    assert!(delivery.possible_duplicate);
    let told = notices(&house, "delivery_held").await;
    assert!(told.len() == 1 && told[0].contains("first"), "{told:?}");

    house.clock.advance(Duration::from_secs(3 * 24 * 3600));
    assert_eq!(
        outbound.work_once().await.expect("the store works"),
        0,
        "nothing by itself"
    );
    server.set(|script| script.fault = None);
    house.store.retry_delivery(&id).await.expect("it is held");
    assert_eq!(outbound.work_once().await.expect("the store works"), 1);
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Done, RecipientState::Delivered)
    );
    assert!(
        house.delivery(&id).await.possible_duplicate,
        "two copies may be there"
    );
}

#[tokio::test]
async fn a_crash_in_doubt_holds_the_mail_and_one_before_it_does_not() {
    for (cut, state, held) in [
        (PowerCut::AfterCommit(3), DeliveryState::Done, 0),
        (PowerCut::BeforeCommit(5), DeliveryState::Held, 1),
    ] {
        let house = House::new().await;
        let server = Server::start(Script::default()).await;
        let id = house.mail("first", &["you@example.test"]).await;
        house.store.cut_power(cut);
        holding(&house, &server)
            .work_once()
            .await
            .expect_err("the power is off");
        let House {
            folder,
            clock,
            store,
        } = house;
        store.close().await;
        let house = House {
            store: reopened(&folder, &clock).await,
            folder,
            clock,
        };
        holding(&house, &server)
            .work_once()
            .await
            .expect("the store works");
        assert_eq!(house.delivery(&id).await.state, state, "{cut:?}");
        assert_eq!(
            notices(&house, "delivery_held").await.len(),
            held,
            "{cut:?}"
        );
        server.heard(|heard| assert_eq!(heard.accepted().len(), 1, "{cut:?}"));
    }
}

#[tokio::test]
async fn other_failures_are_not_held() {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((Verb::Data, Fault::Drop)),
        ..Script::default()
    })
    .await;
    let id = house.mail("first", &["you@example.test"]).await;
    holding(&house, &server)
        .work_once()
        .await
        .expect("the store works");
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Queued, RecipientState::Deferred)
    );
}

#[tokio::test]
async fn the_owner_hears_once_of_failed_mail_never_of_failed_notices() {
    for (kind, told) in [("mail", 1), ("notice", 0)] {
        let house = House::new().await;
        let server = Server::start(Script {
            fault: Some((Verb::Rcpt, Fault::Permanent)),
            ..Script::default()
        })
        .await;
        let id = house.mail("first", &["you@example.test"]).await;
        let sql = "UPDATE deliveries SET kind = $1";
        db::query(sql)
            .bind(kind)
            .execute(&mut house.database().await)
            .await
            .expect("a row");
        let outbound = house.outbound(&server);
        while outbound.work_once().await.expect("the store works") > 0 {}
        assert_eq!(
            house.states(&id).await,
            (DeliveryState::Failed, RecipientState::Failed)
        );
        assert_eq!(
            notices(&house, "delivery_failed").await.len(),
            told,
            "{kind}"
        );
        let messages: i64 = db::query_scalar("SELECT count(*) FROM messages")
            .fetch_one(&mut house.database().await)
            .await
            .expect("a count");
        assert_eq!(messages, 1, "nothing is written to outsiders");
        assert!(house.delivery(&id).await.created_at == start());
    }
}
