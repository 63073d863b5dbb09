//! Many mails: each once, side by side, over few connections.

use super::server::{Fault, Script, Server, Verb};
use super::world::{House, bytes, only, patient, start};
use crate::app::db;
use attache::store::{DeliveryState, RecipientState};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// More than any test takes.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_wire_carries_only_the_frozen_bytes_dot_stuffed() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound(&server);
    let mut long = bytes("long");
    for n in 0..20_000 {
        long.extend_from_slice(format!(".line {n}\r\n").as_bytes());
    }
    house.mail("short", &["you@example.test"]).await;
    house
        .mail_of("long", "", &["you@example.test"], &long)
        .await;
    house
        .mail_of(
            "open",
            "ada@engine.test",
            &["you@example.test"],
            b"Subject: x\r\n\r\nno line end",
        )
        .await;
    assert_eq!(outbound.work_once().await.expect("the store works"), 3);
    server.heard(|heard| {
        let mails: Vec<Vec<u8>> = heard.mails.iter().map(super::server::Mail::bytes).collect();
        for wanted in [
            &bytes("short"),
            &long,
            &b"Subject: x\r\n\r\nno line end\r\n".to_vec(),
        ] {
            assert!(mails.contains(wanted), "{} bytes are missing", wanted.len());
        }
        for mail in &heard.mails {
            assert!(
                mail.wire
                    .split_inclusive(|b| *b == b'\n')
                    .all(|line| line.ends_with(b"\r\n"))
            );
            let lone_dots = mail
                .wire
                .split_inclusive(|b| *b == b'\n')
                .filter(|line| *line == b".\r\n");
            assert_eq!(lone_dots.count(), 0);
        }
        let wire = String::from_utf8_lossy(
            &heard
                .mails
                .iter()
                .find(|m| m.wire.len() < 400)
                .unwrap()
                .wire,
        )
        .into_owned();
        assert!(
            wire.ends_with("\r\n\r\n..one\r\n...two\r\n..\r\n\r\nend.\r\n")
                || wire.contains("no line end")
        );
        let from: BTreeSet<&str> = heard.mails.iter().map(|mail| mail.from.as_str()).collect();
        let sizes = [
            format!("MAIL FROM:<ada@engine.test> SIZE={}", bytes("short").len()),
            format!("MAIL FROM:<> SIZE={}", long.len()),
            "MAIL FROM:<ada@engine.test> SIZE=25".to_owned(),
        ];
        assert_eq!(from, sizes.iter().map(String::as_str).collect());
    });
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_dots_or_line_ends_change_a_mail_or_end_it_early() {
    const PIECES: [&str; 8] = [
        ".",
        "..",
        "\r\n",
        "\r\n.",
        "\r\n.\r\n",
        "a",
        " .",
        "MAIL FROM:<x@y.test>",
    ];
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let mut wanted = BTreeSet::new();
    for n in 0..400_u64 {
        // A number stands for an arrangement: its digits to the base of the pieces.
        let chance = attache::domain::stable_seed(&n.to_string());
        let body: String = (0..20)
            .map(|digit| PIECES[(chance >> (digit * 3)) as usize & 7])
            .collect();
        let bytes = format!("Subject: {n}\r\n\r\n{body}");
        house
            .mail_of(
                &format!("mail-{n}"),
                "ada@engine.test",
                &["you@example.test"],
                bytes.as_bytes(),
            )
            .await;
        let ended = if bytes.ends_with("\r\n") {
            bytes
        } else {
            bytes + "\r\n"
        };
        wanted.insert(ended.into_bytes());
    }
    let outbound = house.outbound(&server);
    while outbound.work_once().await.expect("the store works") > 0 {}
    server.heard(|heard| {
        assert_eq!(heard.mails.len(), 400);
        assert_eq!(
            heard
                .mails
                .iter()
                .map(super::server::Mail::bytes)
                .collect::<BTreeSet<_>>(),
            wanted
        );
        assert_eq!(
            heard.count("MAIL"),
            400,
            "nothing of a mail was taken for a command"
        );
    });
}

#[tokio::test]
async fn parameters_are_used_only_when_they_are_offered() {
    let eight_bit = "Subject: x\r\n\r\nZoë\r\n".as_bytes();
    let offered = [
        (
            vec!["SIZE 100", "8BITMIME"],
            "MAIL FROM:<ada@engine.test> SIZE=20 BODY=8BITMIME",
        ),
        (
            vec!["size", "8BITMIME"],
            "MAIL FROM:<ada@engine.test> SIZE=20 BODY=8BITMIME",
        ),
        (
            vec!["8BITMIME"],
            "MAIL FROM:<ada@engine.test> BODY=8BITMIME",
        ),
    ];
    for (offers, wanted) in offered {
        let house = House::new().await;
        let server = Server::start(Script {
            offers,
            ..Script::default()
        })
        .await;
        house
            .mail_of("first", "ada@engine.test", &["you@example.test"], eight_bit)
            .await;
        house
            .outbound(&server)
            .work_once()
            .await
            .expect("the store works");
        server.heard(|heard| assert_eq!(heard.mails[0].from, wanted));
    }
    let house = House::new().await;
    let server = Server::start(Script {
        offers: vec!["SIZE"],
        ..Script::default()
    })
    .await;
    let id = house
        .mail_of("first", "ada@engine.test", &["you@example.test"], eight_bit)
        .await;
    house
        .outbound(&server)
        .work_once()
        .await
        .expect("the store works");
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Failed, RecipientState::Failed)
    );
    server.heard(|heard| assert_eq!(heard.count("MAIL"), 0));
}

#[tokio::test]
async fn a_server_is_asked_once_what_it_offers() {
    let house = House::new().await;
    let server = Server::start(Script {
        one_ehlo: true,
        ..Script::default()
    })
    .await;
    let id = house.mail("first", &["you@example.test"]).await;
    house
        .outbound(&server)
        .work_once()
        .await
        .expect("the store works");
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Done, RecipientState::Delivered)
    );
    server.heard(|heard| {
        assert_eq!(
            heard.mails[0].from,
            format!("MAIL FROM:<ada@engine.test> SIZE={}", bytes("first").len())
        );
        assert_eq!(heard.count("EHLO"), 1);
    });
}

#[tokio::test]
async fn reports_are_asked_for_where_offered_and_never_about_notices() {
    for (kind, sender, notify) in [
        ("mail", "ada@engine.test", " NOTIFY=FAILURE,DELAY"),
        ("mail", "", " NOTIFY=NEVER"),
        ("notice", "ada@engine.test", " NOTIFY=NEVER"),
    ] {
        let house = House::new().await;
        let server = Server::start(Script {
            offers: vec!["dsn"],
            ..Script::default()
        })
        .await;
        house
            .mail_of("0198-1", sender, &["you@example.test"], &bytes("first"))
            .await;
        let sql = "UPDATE deliveries SET kind = $1";
        db::query(sql)
            .bind(kind)
            .execute(&mut house.database().await)
            .await
            .expect("a row");
        house
            .outbound(&server)
            .work_once()
            .await
            .expect("the store works");
        server.heard(|heard| {
            let said: Vec<&String> = heard
                .commands
                .iter()
                .filter(|line| line.starts_with("MAIL") || line.starts_with("RCPT"))
                .collect();
            let wanted = [
                format!("MAIL FROM:<{sender}> RET=HDRS ENVID=0198-1"),
                format!("RCPT TO:<you@example.test>{notify}"),
            ];
            assert_eq!(said, wanted.iter().collect::<Vec<_>>());
        });
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn ten_workers_send_each_mail_once() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound(&server);
    house.mails(1000).await;
    let mut sent = 0;
    while sent < 1000 {
        let rounds = futures_util::future::join_all((0..10).map(|_| outbound.work_once())).await;
        let round: usize = rounds
            .into_iter()
            .map(|round| round.expect("the store works"))
            .sum();
        assert!(round > 0, "stuck after {sent}");
        sent += round;
    }
    assert_eq!(outbound.work_once().await.expect("the store works"), 0);
    server.heard(|heard| {
        let distinct: BTreeSet<Vec<u8>> =
            heard.mails.iter().map(super::server::Mail::bytes).collect();
        assert_eq!((heard.mails.len(), distinct.len()), (1000, 1000));
        assert!(
            heard.open_max <= 4,
            "{} connections at once",
            heard.open_max
        );
        // Each serves a hundred.
        assert!(
            heard.connections <= 16,
            "{} connections for 1,000 mails",
            heard.connections
        );
    });
}

#[tokio::test]
async fn a_connection_closed_meanwhile_costs_the_next_mail_nothing() {
    let house = House::new().await;
    let server = Server::start(Script {
        mails_per_connection: 1,
        ..Script::default()
    })
    .await;
    let outbound = house.outbound_with(&server, patient(), |smarthost| {
        smarthost.connections_max = 1;
    });
    for n in 0..5 {
        house
            .mail(&format!("mail-{n}"), &["you@example.test"])
            .await;
    }
    while outbound.work_once().await.expect("the store works") > 0 {}
    for n in 0..5 {
        let delivery = house
            .delivery(&attache::domain::DeliveryId::new(format!("mail-{n}")))
            .await;
        assert_eq!(
            (delivery.state, delivery.attempts),
            (DeliveryState::Done, 1)
        );
        assert!(!delivery.possible_duplicate);
    }
    server.heard(|heard| assert_eq!((heard.connections, heard.mails.len()), (5, 5)));
}

#[tokio::test]
async fn a_goodbye_on_a_kept_connection_costs_the_next_mail_nothing() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound_with(&server, patient(), |smarthost| {
        smarthost.connections_max = 1;
    });
    house.mail("one", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    server.set(|script| {
        drop(
            script
                .replies
                .insert("MAIL", "421 4.4.2 idle for too long".to_owned()),
        );
    });
    let two = house.mail("two", &["you@example.test"]).await;
    // The fresh connection is told the same: now it is the server that is not available.
    outbound.work_once().await.expect("the store works");
    let delivery = house.delivery(&two).await;
    assert_eq!(
        (delivery.state, delivery.attempts, only(&delivery).last_code),
        (DeliveryState::Queued, 1, Some(421))
    );
    server.heard(|heard| assert_eq!((heard.connections, heard.count("MAIL")), (2, 3)));
}

#[tokio::test]
async fn idle_connections_are_closed_politely_after_some_seconds() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let options = attache::gateway::outbound::Options {
        timeouts: patient(),
        extra_root_pem: None,
    };
    let transport = Arc::new(super::world::smtp(&house.clock, &server, &options, |_| {}));
    let outbound = house.outbound_over(transport.clone());
    house.mail("one", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    let transport: Arc<dyn attache::gateway::outbound::Transport> = transport;
    transport.close_idle(false).await;
    server.heard(|heard| assert_eq!((heard.open, heard.count("QUIT")), (1, 0)));
    house.clock.advance(Duration::from_secs(5));
    transport.close_idle(false).await;
    server.until(|heard| heard.open == 0).await;
    server.heard(|heard| assert_eq!(heard.count("QUIT"), 1));
}

#[tokio::test]
async fn a_mail_goes_out_when_the_worker_wakes_and_shutdown_ends_it() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound(&server);
    let (wake, shutdown) = (Notify::new(), CancellationToken::new());
    let story = async {
        let id = house.mail("one", &["you@example.test"]).await;
        wake.notify_one();
        server.until(|heard| heard.accepted().len() == 1).await;
        shutdown.cancel();
        id
    };
    let (id, ()) = tokio::join!(story, outbound.run(&wake, shutdown.clone(), LONG));
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Done, RecipientState::Delivered)
    );
    server.until(|heard| heard.open == 0).await;
    server.heard(|heard| assert_eq!(heard.count("QUIT"), 1));
}

#[tokio::test]
async fn shutdown_finishes_mail_under_way_and_gives_back_the_others() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    server.set(|script| script.fault = Some((Verb::Data, Fault::Stall)));
    let mut timeouts = patient();
    timeouts.data = Duration::from_millis(300);
    let outbound =
        house.outbound_with(&server, timeouts, |smarthost| smarthost.connections_max = 1);
    let first = house.mail("first", &["you@example.test"]).await;
    let second = house.mail("second", &["you@example.test"]).await;
    let (wake, shutdown) = (Notify::new(), CancellationToken::new());
    let story = async {
        server.until(|heard| heard.count("DATA") == 1).await;
        shutdown.cancel();
    };
    tokio::join!(story, outbound.run(&wake, shutdown.clone(), LONG));
    let (first, second) = (house.delivery(&first).await, house.delivery(&second).await);
    assert_eq!(
        (first.state, first.attempts, only(&first).state),
        (DeliveryState::Queued, 1, RecipientState::Deferred)
    );
    assert_eq!(
        (second.state, second.attempts, only(&second).state),
        (DeliveryState::Queued, 0, RecipientState::Queued)
    );
    assert_eq!(second.next_attempt_at, Some(start()), "due as it was");
}

#[tokio::test]
async fn a_server_that_falls_silent_keeps_no_engine_from_stopping() {
    for (verb, left) in [
        (Verb::Data, DeliveryState::Sending),
        (Verb::EndOfData, DeliveryState::Committing),
    ] {
        let house = House::new().await;
        let server = Server::start(Script {
            fault: Some((verb, Fault::Stall)),
            ..Script::default()
        })
        .await;
        let outbound = house.outbound(&server);
        let id = house.mail("one", &["you@example.test"]).await;
        let (wake, shutdown) = (Notify::new(), CancellationToken::new());
        let story = async {
            server
                .until(|heard| {
                    if verb == Verb::Data {
                        heard.count("DATA") == 1
                    } else {
                        heard.mails.len() == 1
                    }
                })
                .await;
            shutdown.cancel();
        };
        let stopped = outbound.run(&wake, shutdown.clone(), Duration::from_millis(50));
        let stopped = tokio::time::timeout(Duration::from_secs(20), stopped);
        let ((), stopped) = tokio::join!(story, stopped);
        stopped.expect("the phases' own time-outs are minutes");
        // As after a crash, for the next engine to find.
        assert_eq!(house.delivery(&id).await.state, left);
    }
}
