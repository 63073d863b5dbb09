//! Seven verbs with six faults each: exact states, exact times, the exact state of the breaker, the same bytes again.

use super::server::{Fault, Script, Server, Verb};
use super::world::{GIVE_UP_AFTER, House, bytes, only, patient, start};
use attache::domain::BreakerState;
use attache::domain::{DeliveryId, Timestamp};
use attache::gateway::outbound::SmtpTimeouts;
use attache::gateway::outbound::retry::{jitter, next_attempt_after};
use attache::store::{DeliveryState, RecipientState};
use std::time::Duration;

const VERBS: [Verb; 7] = [
    Verb::Connect,
    Verb::Ehlo,
    Verb::Mail,
    Verb::Rcpt,
    Verb::Data,
    Verb::EndOfData,
    Verb::Quit,
];

/// When a mail that failed for the n-th time at `now` is due again.
fn due(id: &DeliveryId, attempt: u32, now: Timestamp) -> Timestamp {
    let wait = next_attempt_after(
        attempt,
        now.since(start()),
        GIVE_UP_AFTER,
        jitter(id, attempt),
    );
    now.plus(wait.expect("it is young"))
}

/// Impatient in the phase under test and in no other, so that a busy machine changes nothing.
fn impatient(verb: Verb) -> SmtpTimeouts {
    let soon = Duration::from_millis(150);
    let patient = patient();
    match verb {
        Verb::Connect | Verb::Ehlo => SmtpTimeouts {
            greeting: soon,
            ..patient
        },
        Verb::StartTls | Verb::Auth | Verb::Mail | Verb::Rcpt => SmtpTimeouts {
            command: soon,
            ..patient
        },
        Verb::Data => SmtpTimeouts {
            data: soon,
            ..patient
        },
        Verb::EndOfData => SmtpTimeouts {
            data_done: soon,
            ..patient
        },
        Verb::Quit => SmtpTimeouts {
            quit: soon,
            ..patient
        },
    }
}

/// Recipient state, reply code, possible duplicate.
fn expected(verb: Verb, fault: Fault) -> (RecipientState, Option<u16>, bool) {
    let code = match fault {
        Fault::Temporary => Some(451),
        Fault::Permanent => Some(550),
        Fault::Shutdown => Some(421),
        Fault::Drop | Fault::Stall => None,
        Fault::Slow | Fault::Late => Some(250),
    };
    match (verb, fault) {
        (Verb::Quit, _) | (_, Fault::Slow | Fault::Late) => {
            (RecipientState::Delivered, Some(250), false)
        }
        // What is wrong before the first mail is the server's affair, never the mail's.
        (Verb::Connect | Verb::Ehlo, _) => (RecipientState::Deferred, code, false),
        (_, Fault::Permanent) => (RecipientState::Failed, code, false),
        (Verb::EndOfData, Fault::Drop | Fault::Stall) => (RecipientState::Deferred, None, true),
        _ => (RecipientState::Deferred, code, false),
    }
}

/// Failures of the transport itself, as against the mail's.
fn failures(verb: Verb, fault: Fault) -> u32 {
    match (verb, fault) {
        (Verb::Quit, _) | (_, Fault::Slow) => 0,
        (Verb::Connect | Verb::Ehlo, _) | (_, Fault::Shutdown) => 1,
        (Verb::EndOfData, Fault::Drop | Fault::Stall) => 1,
        _ => 0,
    }
}

async fn fault(verb: Verb, fault: Fault) {
    let case = format!("{verb:?} {fault:?}");
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((verb, fault)),
        ..Script::default()
    })
    .await;
    let outbound = house.outbound_with(&server, impatient(verb), |_| {});
    let id = house.mail("first", &["you@example.test"]).await;

    assert_eq!(outbound.work_once().await.expect(&case), 1, "{case}");
    outbound.close().await;

    let (recipient_state, code, possible_duplicate) = expected(verb, fault);
    let delivery = house.delivery(&id).await;
    let recipient = only(&delivery);
    assert_eq!(recipient.state, recipient_state, "{case}: {recipient:?}");
    assert_eq!(recipient.last_code, code, "{case}: {recipient:?}");
    assert!(
        recipient
            .last_reply
            .as_deref()
            .is_some_and(|reply| !reply.is_empty()),
        "{case}"
    );
    assert_eq!((delivery.attempts, recipient.attempts), (1, 1), "{case}");
    assert_eq!(delivery.possible_duplicate, possible_duplicate, "{case}");
    let (state, next) = match recipient_state {
        RecipientState::Delivered => (DeliveryState::Done, None),
        RecipientState::Failed => (DeliveryState::Failed, None),
        _ => (DeliveryState::Queued, Some(due(&id, 1, start()))),
    };
    assert_eq!(
        (delivery.state, delivery.next_attempt_at),
        (state, next),
        "{case}"
    );
    assert_eq!(delivery.finished_at, next.is_none().then(start), "{case}");
    assert_eq!(recipient.next_attempt_at, next, "{case}");
    assert_eq!(
        outbound.breaker(),
        (BreakerState::Closed, failures(verb, fault)),
        "{case}"
    );

    if let Some(next) = next {
        let wait = next.since(start());
        assert!(
            (48_000..=72_000).contains(&wait.as_millis()),
            "{case}: a minute ± 20 %, not {wait:?}"
        );
        resent(&house, &server, &outbound, &id, wait).await;
    }
}

/// Once the fault is gone, the mail goes out at its time and not before, with the bytes that it always had.
async fn resent(
    house: &House,
    server: &Server,
    outbound: &attache::gateway::outbound::Outbound,
    id: &DeliveryId,
    wait: Duration,
) {
    server.set(|script| script.fault = None);
    let possible_duplicate = house.delivery(id).await.possible_duplicate;
    house.clock.advance(wait - Duration::from_millis(1));
    assert_eq!(
        outbound.work_once().await.expect("the store works"),
        0,
        "too early"
    );
    house.clock.advance(Duration::from_millis(1));
    assert_eq!(outbound.work_once().await.expect("the store works"), 1);
    assert_eq!(
        house.states(id).await,
        (DeliveryState::Done, RecipientState::Delivered)
    );
    server.heard(|heard| {
        assert_eq!(heard.accepted().len(), 1);
        for mail in &heard.mails {
            assert_eq!(mail.bytes(), bytes("first"));
        }
    });
    assert_eq!(
        house.delivery(id).await.possible_duplicate,
        possible_duplicate,
        "the mark stays as it was"
    );
    assert_eq!(outbound.breaker(), (BreakerState::Closed, 0));
}

macro_rules! fault_table {
    ($($name:ident $fault:ident),+) => {$(
        #[tokio::test]
        async fn $name() {
            for verb in VERBS {
                fault(verb, Fault::$fault).await;
            }
        }
    )+};
}
fault_table!(
    a_temporary_refusal_defers_at_every_verb Temporary,
    a_permanent_refusal_fails_only_what_it_is_about Permanent,
    a_shutdown_defers_at_every_verb Shutdown,
    a_lost_connection_defers_and_flags_a_copy_only_after_the_dot Drop,
    a_stalled_server_defers_and_flags_a_copy_only_after_the_dot Stall,
    a_server_that_answers_a_byte_at_a_time_gets_its_mail_at_every_verb Slow
);

#[test]
fn no_wait_is_shorter_than_the_standard_asks_for() {
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let SmtpTimeouts {
        greeting,
        command,
        data,
        data_block,
        data_done,
        ..
    } = SmtpTimeouts::default();
    // RFC 5321 section 4.5.3.2, in its order: greeting, MAIL and RCPT, DATA, block, final dot.
    assert_eq!(
        [greeting, command, data, data_block, data_done],
        [5, 5, 2, 3, 10].map(minutes)
    );
}

/// What FO2 is about, at another scale: the reply comes long after every other phase would have given up.
#[tokio::test]
async fn the_reply_to_the_final_dot_is_awaited_longer_than_any_other() {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((Verb::EndOfData, Fault::Late)),
        ..Script::default()
    })
    .await;
    let short = Duration::from_millis(300);
    let timeouts = SmtpTimeouts {
        greeting: short,
        command: short,
        data: short,
        data_block: short,
        ..patient()
    };
    let outbound = house.outbound_with(&server, timeouts, |_| {});
    let id = house.mail("first", &["you@example.test"]).await;
    let working = outbound.work_once();
    tokio::pin!(working);
    let waited = tokio::time::timeout(short * 3, &mut working).await;
    assert!(waited.is_err(), "nobody answered, and yet: {waited:?}");
    server.release.notify_one();
    assert_eq!(working.await.expect("the store works"), 1);
    let delivery = house.delivery(&id).await;
    assert_eq!(
        (delivery.state, delivery.attempts),
        (DeliveryState::Done, 1)
    );
    assert!(!delivery.possible_duplicate);
    server.heard(|heard| assert_eq!(heard.mails.len(), 1));
}

#[tokio::test]
async fn early_trouble_is_the_transports_a_bad_password_the_owners() {
    let faults = [
        Fault::Temporary,
        Fault::Permanent,
        Fault::Shutdown,
        Fault::Drop,
        Fault::Stall,
    ];
    for fault in faults {
        let house = House::new().await;
        let offers = vec!["AUTH PLAIN"];
        let server = Server::start(Script {
            offers,
            ..Script::default()
        })
        .await;
        server.set(|script| script.fault = Some((Verb::Auth, fault)));
        let outbound = house.outbound_with(&server, impatient(Verb::Auth), |smarthost| {
            smarthost.credentials = Some(("ada".to_owned(), "s3cret".to_owned().into()));
        });
        let id = house.mail("first", &["you@example.test"]).await;
        outbound.work_once().await.expect("the store works");
        assert_eq!(
            house.states(&id).await,
            (DeliveryState::Queued, RecipientState::Deferred),
            "{fault:?}"
        );
        let quarter = Duration::from_secs(15 * 60);
        let wanted = match fault {
            Fault::Permanent => (BreakerState::Open(quarter), 0),
            _ => (BreakerState::Closed, 1),
        };
        assert_eq!(outbound.breaker(), wanted, "{fault:?}");
        server.heard(|heard| assert_eq!(heard.count("MAIL"), 0));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_defers() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let outbound = house.outbound(&server);
    drop(server);
    tokio::task::yield_now().await;
    let id = house.mail("first", &["you@example.test"]).await;
    outbound.work_once().await.expect("the store works");
    let delivery = house.delivery(&id).await;
    assert_eq!(only(&delivery).state, RecipientState::Deferred);
    assert_eq!(delivery.next_attempt_at, Some(due(&id, 1, start())));
}

#[tokio::test]
async fn an_answer_that_cannot_be_understood_counts_as_none() {
    let garbled = [
        (
            "EHLO",
            "250-smarthost.test\r\n250    ",
            RecipientState::Deferred,
            false,
        ),
        ("EHLO", "hello", RecipientState::Deferred, false),
        ("MAIL", "999 what", RecipientState::Deferred, false),
        ("RCPT", "354 what", RecipientState::Deferred, false),
        ("DATA", "250 what", RecipientState::Deferred, false),
        (".", "okay", RecipientState::Deferred, true),
        (".", "354 more", RecipientState::Deferred, true),
    ];
    for (start_of_line, reply, state, possible_duplicate) in garbled {
        let house = House::new().await;
        let server = Server::start(Script::default()).await;
        server.set(|script| drop(script.replies.insert(start_of_line, reply.to_owned())));
        let outbound = house.outbound(&server);
        let id = house.mail("first", &["you@example.test"]).await;
        outbound.work_once().await.expect("the store works");
        let delivery = house.delivery(&id).await;
        assert_eq!(only(&delivery).state, state, "{start_of_line} {reply}");
        assert_eq!(
            delivery.possible_duplicate, possible_duplicate,
            "{start_of_line} {reply}"
        );
    }
}

#[tokio::test]
async fn a_recipient_who_has_the_mail_never_gets_it_again() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    let replies = [
        ("later", "450 4.2.1 greylisted"),
        ("full", "552 5.5.3 too many"),
        ("big", "552 5.2.2 mailbox full"),
        ("gone", "550 5.1.1 no such user"),
    ];
    server.set(|script| {
        for (to, reply) in replies {
            let command = format!("RCPT TO:<{to}@example.test>");
            script.replies.insert(command.leak(), reply.to_owned());
        }
    });
    let outbound = house.outbound(&server);
    let everyone = [
        "big@example.test",
        "full@example.test",
        "gone@example.test",
        "here@example.test",
        "later@example.test",
    ];
    let id = house.mail("first", &everyone).await;
    outbound.work_once().await.expect("the store works");

    let delivery = house.delivery(&id).await;
    let states: Vec<_> = delivery
        .recipients
        .iter()
        .map(|r| (r.state, r.last_code))
        .collect();
    let wanted = [
        (RecipientState::Failed, Some(552)),
        (RecipientState::Deferred, Some(552)),
        (RecipientState::Failed, Some(550)),
        (RecipientState::Delivered, Some(250)),
        (RecipientState::Deferred, Some(450)),
    ];
    assert_eq!(states, wanted);
    assert_eq!(
        (delivery.state, delivery.next_attempt_at),
        (DeliveryState::Queued, Some(due(&id, 1, start())))
    );

    server.set(|script| script.replies.clear());
    house.clock.advance(
        delivery
            .next_attempt_at
            .expect("it is queued")
            .since(start()),
    );
    outbound.work_once().await.expect("the store works");
    server.heard(|heard| {
        let to: Vec<_> = heard.mails.iter().map(|mail| mail.to.clone()).collect();
        assert_eq!(
            to,
            [
                vec!["here@example.test"],
                vec!["full@example.test", "later@example.test"]
            ]
        );
        assert_eq!(heard.mails[0].wire, heard.mails[1].wire);
    });
    let delivery = house.delivery(&id).await;
    let (state, refused) = (delivery.state, &delivery.recipients[2]);
    assert_eq!(state, DeliveryState::Failed, "one will not get it");
    assert_eq!(refused.attempts, 1, "who failed is left alone");
}

#[tokio::test]
async fn when_nobody_is_accepted_a_reset_connection_serves_the_next() {
    let house = House::new().await;
    let server = Server::start(Script::default()).await;
    server.set(|script| {
        drop(
            script
                .replies
                .insert("RCPT TO:<gone@", "550 5.1.1 no such user".to_owned()),
        );
    });
    let outbound = house.outbound_with(&server, patient(), |smarthost| {
        smarthost.connections_max = 1;
    });
    let gone = house.mail("gone", &["gone@example.test"]).await;
    let here = house.mail("here", &["here@example.test"]).await;
    assert_eq!(outbound.work_once().await.expect("the store works"), 2);
    assert_eq!(
        house.states(&gone).await,
        (DeliveryState::Failed, RecipientState::Failed)
    );
    assert_eq!(
        house.states(&here).await,
        (DeliveryState::Done, RecipientState::Delivered)
    );
    server.heard(|heard| {
        assert_eq!(
            (heard.connections, heard.count("RSET"), heard.count("DATA")),
            (1, 1, 1)
        );
    });
}

#[tokio::test]
async fn mail_that_is_deferred_for_five_days_fails_at_the_deadline() {
    let house = House::new().await;
    let server = Server::start(Script {
        fault: Some((Verb::Rcpt, Fault::Temporary)),
        ..Script::default()
    })
    .await;
    let outbound = house.outbound(&server);
    let id = house.mail("first", &["you@example.test"]).await;
    let mut attempts = 0;
    let mut now = start();
    loop {
        assert_eq!(outbound.work_once().await.expect("the store works"), 1);
        attempts += 1;
        let delivery = house.delivery(&id).await;
        assert_eq!(delivery.attempts, attempts);
        let Some(next) = delivery.next_attempt_at else {
            break;
        };
        assert!(
            next > now && attempts < 100,
            "attempt {attempts} leads to {next}"
        );
        house.clock.advance(next.since(now));
        now = next;
    }
    let delivery = house.delivery(&id).await;
    assert_eq!(delivery.state, DeliveryState::Failed);
    assert_eq!(
        delivery.finished_at,
        Some(start().plus(GIVE_UP_AFTER)),
        "not a millisecond early"
    );
    assert_eq!(
        only(&delivery).last_reply.as_deref(),
        Some("gave up: 4.3.0 later")
    );
    assert_eq!(only(&delivery).last_code, Some(451));
    assert!(
        (30..45).contains(&attempts),
        "{attempts} attempts in five days"
    );
    assert_eq!(outbound.work_once().await.expect("the store works"), 0);
}
