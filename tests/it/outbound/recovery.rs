//! Crashes: what an engine that is gone had in its hands.

use super::server::{Fault, Script, Server, Verb};
use super::world::{House, bytes, only, patient, reopened, start};
use crate::app::db;
use attache::domain::DeliveryId;
use attache::store::{
    DeliveryOutcome, DeliveryState, RecipientOutcome, RecipientState, StoreError,
};
use std::time::Duration;

/// Lets the engine die while the server does not answer `verb`, starts it again, and sends.
async fn crash_at(verb: Verb) -> (House, Server, DeliveryId) {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((verb, Fault::Stall)),
        ..Script::default()
    })
    .await;
    let id = house.mail("first", &["you@example.test"]).await;
    {
        let outbound = house.outbound_with(&server, patient(), |_| {});
        let stalled = server.until(|heard| match verb {
            Verb::EndOfData => heard.mails.len() == 1,
            _ => heard.count("DATA") == 1,
        });
        tokio::select! {
            biased;
            sent = outbound.work_once() => panic!("the server stalls, yet {sent:?}"),
            () = stalled => {}
        }
    }
    let House {
        folder,
        clock,
        store,
    } = house;
    store.close().await;
    clock.advance(Duration::from_secs(30));
    let store = reopened(&folder, &clock).await;
    (
        House {
            folder,
            clock,
            store,
        },
        server,
        id,
    )
}

#[tokio::test]
async fn a_crash_before_the_final_dot_leaves_only_a_second_try() {
    let (house, server, id) = crash_at(Verb::Data).await;
    assert_eq!(house.delivery(&id).await.state, DeliveryState::Sending);
    let found = house
        .store
        .recover_deliveries(false)
        .await
        .expect("the store works");
    assert_eq!((found.unsent, found.possible_duplicates), (1, 0));
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (delivery.state, delivery.attempts),
        (DeliveryState::Queued, 0),
        "the attempt does not count"
    );
    assert_eq!(
        delivery.next_attempt_at,
        Some(start().plus(Duration::from_secs(30)))
    );
    server.set(|script| script.fault = None);
    assert_eq!(
        house
            .outbound(&server)
            .work_once()
            .await
            .expect("the store works"),
        1
    );
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (
            delivery.state,
            delivery.attempts,
            delivery.possible_duplicate
        ),
        (DeliveryState::Done, 1, false)
    );
    server.heard(|heard| assert_eq!(heard.mails.len(), 1));
}

#[tokio::test]
async fn a_crash_after_the_final_dot_sends_the_same_bytes_again() {
    let (house, server, id) = crash_at(Verb::EndOfData).await;
    assert_eq!(house.delivery(&id).await.state, DeliveryState::Committing);
    server.set(|script| script.fault = None);
    // The worker recovers by itself before its first claim.
    assert_eq!(
        house
            .outbound(&server)
            .work_once()
            .await
            .expect("the store works"),
        1
    );
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (
            delivery.state,
            delivery.attempts,
            delivery.possible_duplicate
        ),
        (DeliveryState::Done, 2, true)
    );
    server.heard(|heard| {
        assert_eq!(heard.mails.len(), 2);
        assert!(
            heard
                .mails
                .iter()
                .all(|mail| mail.bytes() == bytes("first"))
        );
    });
}

#[tokio::test]
async fn an_engine_that_was_taken_over_can_write_nothing() {
    let house = House::new().await;
    let id = house.mail("first", &["you@example.test"]).await;
    let claimed = house
        .store
        .claim_deliveries(5, start())
        .await
        .expect("the store works");
    assert_eq!((claimed.len(), claimed[0].attempt), (1, 1));
    let mut conn = house.database().await;
    let taken = "UPDATE deliveries SET epoch = epoch + 1";
    db::query(taken).execute(&mut conn).await.expect("a row");
    let delivered = RecipientOutcome {
        recipient: "you@example.test".to_owned(),
        state: RecipientState::Delivered,
        code: Some(250),
        reply: "ok".to_owned(),
    };
    let outcome = DeliveryOutcome {
        id: id.clone(),
        recipients: vec![delivered],
        next_attempt_at: start(),
        counts: true,
        possible_duplicate: false,
        hold: false,
    };
    let late = house.store.record_outcome(outcome).await;
    assert!(
        matches!(late, Err(StoreError::WrongState { .. })),
        "{late:?}"
    );
    let mark = house.store.mark_committing(&id).await;
    assert!(
        matches!(mark, Err(StoreError::WrongState { .. })),
        "{mark:?}"
    );
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (delivery.state, only(&delivery).state),
        (DeliveryState::Sending, RecipientState::Queued)
    );
}

#[tokio::test]
async fn a_living_engine_does_not_recover_its_own_work() {
    let house = House::new().await;
    house.mail("first", &["you@example.test"]).await;
    house
        .store
        .claim_deliveries(5, start())
        .await
        .expect("the store works");
    let found = house
        .store
        .recover_deliveries(false)
        .await
        .expect("the store works");
    assert_eq!((found.unsent, found.possible_duplicates), (0, 0));
}

#[tokio::test]
async fn without_the_commit_before_the_final_dot_no_mail_is_completed() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let id = house.mail("first", &["you@example.test"]).await;
    // Another engine takes the row over while this one talks to the server.
    let mut database = house.database().await;
    let sql = database.on(
        "CREATE TRIGGER thief AFTER UPDATE ON deliveries WHEN new.state = 'sending' AND old.state = 'queued'
        BEGIN UPDATE deliveries SET epoch = new.epoch + 1 WHERE id = new.id; END",
        "CREATE FUNCTION tests.thief() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          UPDATE deliveries SET epoch = new.epoch + 1 WHERE id = new.id; RETURN NULL; END $$;
        CREATE TRIGGER thief AFTER UPDATE ON deliveries FOR EACH ROW
          WHEN (new.state = 'sending' AND old.state = 'queued') EXECUTE FUNCTION tests.thief()",
    );
    db::raw_sql(sql)
        .execute(&mut database)
        .await
        .expect("a trigger");
    house
        .outbound(&server)
        .work_once()
        .await
        .expect("a lost row is no error of the store");
    server.until(|heard| heard.open == 0).await;
    server.heard(|heard| {
        assert_eq!(heard.count("DATA"), 1);
        assert_eq!(heard.mails, []);
    });
    assert_eq!(
        house.delivery(&id).await.state,
        DeliveryState::Sending,
        "it is the other engine's"
    );
}

#[tokio::test]
async fn old_mail_of_an_engine_that_slept_for_a_week_gets_one_try() {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((Verb::Rcpt, Fault::Temporary)),
        ..Script::default()
    })
    .await;
    let refused = house.mail("refused", &["you@example.test"]).await;
    house.clock.advance(Duration::from_secs(7 * 24 * 3600));
    let outbound = house.outbound(&server);
    outbound.work_once().await.expect("the store works");
    assert_eq!(
        house.states(&refused).await,
        (DeliveryState::Failed, RecipientState::Failed)
    );
}

#[tokio::test]
async fn an_unstored_outcome_is_stored_later_and_no_mail_sent_again() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound(&server);
    let id = house.mail("first", &["you@example.test"]).await;
    let mut database = house.database().await;
    database
        .refuse("trouble", "UPDATE ON delivery_recipients", "true")
        .await;
    outbound
        .work_once()
        .await
        .expect_err("the outcome is not stored");
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Committing, RecipientState::Queued)
    );
    house.mail("second", &["you@example.test"]).await;
    outbound
        .work_once()
        .await
        .expect_err("nothing more is sent while outcomes cannot be stored");
    server.heard(|heard| assert_eq!(heard.mails.len(), 1));

    database.allow("trouble", "delivery_recipients").await;
    assert_eq!(
        outbound.work_once().await.expect("the store works"),
        1,
        "the second mail"
    );
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Done, RecipientState::Delivered)
    );
    server.heard(|heard| assert_eq!(heard.mails.len(), 2));
}
