//! What an operator sees of the outbox and may do with it.

use super::server::{Fault, Script, Server, Verb};
use super::world::{House, bytes, only, start};
use crate::app::db;
use crate::guest_house::GuestHouse;
use attache::domain::{DeliveryId, PersonaId};
use attache::store::{DeliveryFilter, DeliveryState, RecipientState, StoreError};

#[tokio::test]
async fn a_held_mail_waits_until_it_is_retried() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound(&server);
    let id = house.mail("first", &["you@example.test"]).await;
    house.store.hold_delivery(&id).await.expect("it is queued");
    assert_eq!(outbound.work_once().await.expect("the store works"), 0);
    assert_eq!(house.delivery(&id).await.next_attempt_at, None);
    house.store.retry_delivery(&id).await.expect("it is held");
    assert_eq!(house.delivery(&id).await.next_attempt_at, Some(start()));
    assert_eq!(outbound.work_once().await.expect("the store works"), 1);
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Done, RecipientState::Delivered)
    );
}

#[tokio::test]
async fn a_failed_mail_is_retried_for_those_who_did_not_get_it() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    server.set(|script| {
        drop(
            script
                .replies
                .insert("RCPT TO:<gone@", "550 5.1.1 no such user".to_owned()),
        );
    });
    let outbound = house.outbound(&server);
    let id = house
        .mail("first", &["gone@example.test", "here@example.test"])
        .await;
    outbound.work_once().await.expect("the store works");
    assert_eq!(house.delivery(&id).await.state, DeliveryState::Failed);
    server.set(|script| script.replies.clear());
    house.store.retry_delivery(&id).await.expect("it failed");
    outbound.work_once().await.expect("the store works");
    assert_eq!(house.delivery(&id).await.state, DeliveryState::Done);
    server.heard(|heard| {
        let to: Vec<_> = heard.mails.iter().map(|mail| mail.to.clone()).collect();
        assert_eq!(to, [["here@example.test"], ["gone@example.test"]]);
    });
}

#[tokio::test]
async fn a_cancelled_mail_is_not_sent_and_stays_cancelled() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound(&server);
    let id = house.mail("first", &["you@example.test"]).await;
    house
        .store
        .cancel_delivery(&id)
        .await
        .expect("it is queued");
    assert_eq!(outbound.work_once().await.expect("the store works"), 0);
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Cancelled, RecipientState::Cancelled)
    );
    assert_eq!(house.delivery(&id).await.finished_at, Some(start()));
    for refused in [
        house.store.retry_delivery(&id).await,
        house.store.cancel_delivery(&id).await,
        house.store.hold_delivery(&id).await,
    ] {
        let error = refused.expect_err("it is over");
        assert!(
            matches!(&error, StoreError::WrongState { state, .. } if state == "cancelled"),
            "{error}"
        );
    }
    let nobody = house.store.hold_delivery(&DeliveryId::new("nobody")).await;
    assert!(matches!(
        nobody,
        Err(StoreError::Missing {
            kind: "delivery",
            ..
        })
    ));
    assert!(matches!(
        house.store.delivery(&DeliveryId::new("x")).await,
        Err(StoreError::Missing { .. })
    ));
}

#[tokio::test]
async fn the_listing_is_newest_first_and_can_be_narrowed() {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((Verb::Rcpt, Fault::Permanent)),
        ..Script::default()
    })
    .await;
    let outbound = house.outbound(&server);
    house.mail("one", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    house
        .mail("two", &["a@example.test", "b@example.test"])
        .await;
    let ids = async |filter: DeliveryFilter| {
        let listed = house
            .store
            .list_deliveries(&filter)
            .await
            .expect("the store works");
        listed
            .into_iter()
            .map(|d| (d.id.to_string(), d.recipients.len()))
            .collect::<Vec<_>>()
    };
    let all = DeliveryFilter {
        limit: 10,
        ..DeliveryFilter::default()
    };
    let (one, two) = (("one".to_owned(), 1), ("two".to_owned(), 2));
    assert_eq!(ids(all.clone()).await, [two, one.clone()]);
    assert_eq!(
        ids(DeliveryFilter {
            limit: 1,
            ..all.clone()
        })
        .await,
        [("two".to_owned(), 2)]
    );
    let failed = DeliveryFilter {
        states: vec![DeliveryState::Failed],
        ..all.clone()
    };
    assert_eq!(ids(failed).await, [one]);
    let ada = PersonaId::parse("ada").expect("a persona id");
    assert_eq!(
        ids(DeliveryFilter {
            persona: Some(ada),
            ..all.clone()
        })
        .await
        .len(),
        2
    );
    let bob = PersonaId::parse("bob").expect("a persona id");
    assert_eq!(
        ids(DeliveryFilter {
            persona: Some(bob),
            ..all
        })
        .await,
        []
    );
}

#[tokio::test]
async fn a_server_cannot_write_into_the_operators_terminal() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let hostile = format!("550 5.1.1 \u{1b}[2J\u{7}{}", "x".repeat(600));
    server.set(|script| drop(script.replies.insert("RCPT", hostile)));
    let id = house.mail("first", &["you@example.test"]).await;
    house
        .outbound(&server)
        .work_once()
        .await
        .expect("the store works");
    let delivery = house.delivery(&id).await;
    let reply = only(&delivery).last_reply.as_deref().expect("a reply");
    assert!(reply.starts_with("5.1.1  [2J xxx"), "{reply}");
    assert_eq!(reply.chars().count(), 500);
}

#[tokio::test]
async fn a_run_shows_its_own_mails_to_its_own_persona_only() {
    let house = House::new().await;
    house.mail("first", &["you@example.test"]).await;
    house.mail("other", &["you@example.test"]).await;
    let mut conn = house.database().await;
    let owned = "UPDATE deliveries SET run_id = 'r' WHERE id = 'first'";
    db::query(owned).execute(&mut conn).await.expect("a row");
    let run = attache::domain::RunId::new("r");
    let of = async |persona: &str| {
        let persona = house
            .store
            .persona(&PersonaId::parse(persona).expect("a persona id"));
        persona
            .deliveries_of_run(&run)
            .await
            .expect("the store works")
    };
    let mine = of("ada").await;
    assert_eq!(mine.len(), 1);
    assert_eq!(
        (mine[0].delivery.id.as_str(), &mine[0].bytes),
        ("first", &bytes("first"))
    );
    assert_eq!(only(&mine[0].delivery).recipient, "you@example.test");
    assert_eq!(of("bob").await, []);
}

/// Runs the real binary on the house's workspace: exit code, standard output, standard error.
fn attache(house: &House, args: &[&str]) -> (i32, Vec<u8>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .env_remove("ATTACHE_LOG")
        .arg("--workspace")
        .arg(house.folder.path())
        .args(args);
    let said = command.output().expect("the binary runs");
    (
        said.status.code().expect("no signal"),
        said.stdout,
        String::from_utf8_lossy(&said.stderr).into_owned(),
    )
}

fn json(said: (i32, Vec<u8>, String)) -> serde_json::Value {
    assert_eq!(said.0, 0, "{}", said.2);
    serde_json::from_slice(&said.1).expect("one JSON value")
}

#[tokio::test]
async fn the_outbox_is_listed_shown_and_changed_from_the_command_line() {
    let house = House::new().await;
    std::fs::create_dir(house.folder.path().join("configs")).expect("a folder");
    let server = Server::start(Script {
        fault: Some((Verb::Rcpt, Fault::Permanent)),
        ..Script::default()
    })
    .await;
    let failed = house.mail("fa11ed00-1", &["you@example.test"]).await;
    house
        .outbound(&server)
        .work_once()
        .await
        .expect("the store works");
    let queued = house
        .mail("0e0ed000-2", &["a@example.test", "b@example.test"])
        .await;

    let (code, listed, _) = attache(&house, &["outbox", "list"]);
    let listed = String::from_utf8(listed).expect("text");
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    let due = start().to_string();
    assert_eq!(code, 0);
    assert_eq!(
        rows[0],
        [
            "0e0ed000-2",
            "ada",
            "queued",
            "0",
            &due,
            "a@example.test, b@example.test",
            "Dots"
        ]
    );
    assert_eq!(
        rows[1],
        [
            "fa11ed00-1",
            "ada",
            "failed",
            "1",
            "",
            "you@example.test",
            "Dots"
        ]
    );

    let shown = json(attache(&house, &["outbox", "show", "fa11ed", "--json"]));
    assert_eq!(
        (&shown["state"], &shown["attempts"]),
        (&"failed".into(), &1.into())
    );
    assert_eq!(shown["recipients"][0]["last_reply"], "5.7.0 never");
    assert_eq!(shown["recipients"][0]["last_code"], 550);
    let (_, text, _) = attache(&house, &["outbox", "show", "fa11ed"]);
    assert!(
        String::from_utf8_lossy(&text).contains("you@example.test\tfailed\t1\t\t550 5.7.0 never")
    );
    let (_, raw, _) = attache(&house, &["outbox", "show", "fa11ed", "--raw"]);
    assert_eq!(raw, bytes("fa11ed00-1"), "exactly the frozen bytes");

    changes(&house, &failed, &queued).await;
}

/// A mail is held, cancelled and retried, and what cannot be is refused with a hint.
async fn changes(house: &House, failed: &DeliveryId, queued: &DeliveryId) {
    assert_eq!(attache(house, &["outbox", "hold", "0e0ed0"]).0, 0);
    assert_eq!(house.delivery(queued).await.state, DeliveryState::Held);
    let held = json(attache(
        house,
        &["outbox", "list", "--state", "held", "--json"],
    ));
    assert_eq!(
        (held.as_array().map(Vec::len), &held[0]["id"]),
        (Some(1), &"0e0ed000-2".into())
    );
    assert_eq!(
        json(attache(
            house,
            &["outbox", "cancel", "0e0ed000-2", "--json"]
        ))["state"],
        "cancelled"
    );
    assert_eq!(attache(house, &["outbox", "retry", "fa11ed00"]).0, 0);
    assert_eq!(
        house.states(failed).await,
        (DeliveryState::Queued, RecipientState::Queued)
    );

    let (code, _, complaint) = attache(house, &["outbox", "retry", "0e0ed000"]);
    assert_eq!(code, 1);
    assert!(
        complaint.contains("delivery `0e0ed000-2` is cancelled") && complaint.contains("hint:"),
        "{complaint}"
    );
    assert_eq!(attache(house, &["outbox", "show", "nobody"]).0, 66);
    assert_eq!(
        attache(house, &["outbox", "list", "--state", "nowhere"]).0,
        2
    );
}

/// Failed mails are retried together, held ones together, and neither by the other command.
async fn retries(house: &House, held: &DeliveryId) {
    let retried = json(attache(
        house,
        &["outbox", "retry", "--all-failed", "--json"],
    ));
    assert_eq!(retried, serde_json::json!(["fa11ed00-1", "fa11ed00-2"]));
    assert_eq!(
        house.delivery(held).await.state,
        DeliveryState::Held,
        "held mail is another matter"
    );
    assert_eq!(
        json(attache(house, &["outbox", "retry", "--held", "--json"])),
        serde_json::json!(["0e1d0000-3"])
    );
    assert_eq!(
        json(attache(house, &["outbox", "retry", "--held", "--json"])),
        serde_json::json!([])
    );
    for usage in [
        &["outbox", "retry"][..],
        &["outbox", "retry", "fa11ed00-1", "--held"],
    ] {
        assert_eq!(attache(house, usage).0, 2, "{usage:?}");
    }
}

#[tokio::test]
async fn one_command_retries_all_that_failed_and_health_says_why() {
    let house = House::new().await;
    std::fs::create_dir(house.folder.path().join("configs")).expect("a folder");
    let server = Server::start(Script {
        fault: Some((Verb::Rcpt, Fault::Permanent)),
        ..Script::default()
    })
    .await;
    for id in ["fa11ed00-1", "fa11ed00-2"] {
        house.mail(id, &["you@example.test"]).await;
    }
    let outbound = house.outbound_with(&server, super::world::patient(), |smarthost| {
        smarthost.connections_max = 1;
    });
    outbound.work_once().await.expect("the store works");
    let held = house.mail("0e1d0000-3", &["you@example.test"]).await;
    house
        .store
        .hold_delivery(&held)
        .await
        .expect("it is queued");
    assert_eq!(
        json(attache(&house, &["outbox", "health", "--json"]))["state"],
        "well"
    );

    retries(&house, &held).await;

    server.set(|script| script.fault = Some((Verb::Connect, Fault::Shutdown)));
    // The connection that is kept meets the 421 at its next command, the others at the greeting.
    server.set(|script| {
        drop(
            script
                .replies
                .insert("MAIL", "421 4.3.2 closing".to_owned()),
        );
    });
    // Those above are due by the command's clock, which is months ahead of this house's.
    house.mails(3).await;
    outbound.work_once().await.expect("the store works");
    let health = json(attache(&house, &["outbox", "health", "--json"]));
    assert_eq!(
        (&health["state"], &health["reason"]),
        (&"unreachable".into(), &"4.3.2 closing".into())
    );
    assert_eq!(
        health["next_probe_at"],
        start().plus(std::time::Duration::from_secs(60)).to_string()
    );
    let (code, _, remark) = attache(&house, &["outbox", "list"]);
    assert!(
        code == 0 && remark.contains("mail out rests since") && remark.contains("closing"),
        "{remark}"
    );
}

#[test]
fn a_folder_that_cannot_be_written_says_when_it_is_tried_again() {
    let house = GuestHouse::new();
    std::fs::create_dir_all(house.path().join("data")).expect("a folder");
    // Nothing can be written there, by root neither.
    std::os::unix::fs::symlink("/proc", house.path().join("data/outbox")).expect("a link");
    house.ok(&["ingest", "configs/demo/letter.eml"]);
    house.run(&["drain"]);
    let said = house.ok(&["outbox", "health"]);
    let next = said
        .stdout
        .lines()
        .find(|line| line.starts_with("Next try"));
    let next = next.expect("a line").trim_start_matches("Next try").trim();
    assert!(next.starts_with("20"), "{}", said.stdout);
}
