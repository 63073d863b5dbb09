//! When nobody knows whether the server has the mail: every crash point of a delivery, and what `on_unknown` makes of it.

use super::server::{Fault, Script, Server, Verb};
use super::world::{House, bytes, only, patient, reopened, smtp, start};
use crate::app::db;
use attache::config::OnUnknown;
use attache::domain::DeliveryId;
use attache::gateway::outbound::{Options, Outbound, SmtpTimeouts};
use attache::store::{DeliveryState, PowerCut, RecipientState, TransportState};
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
    assert!(
        told.len() == 1 && told[0].contains("is on hold"),
        "{told:?}"
    );

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

/// How a mail ends whose server does these things at its attempts; the last one repeats.
struct Doubt {
    name: &'static str,
    mode: OnUnknown,
    steps: &'static [Step],
    recipients: &'static [&'static str],
    /// Whole mails that a server had and did not refuse.
    copies: usize,
    state: DeliveryState,
    /// The kind of the only notice, if there is one, and words of it.
    told: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Copy)]
enum Step {
    Fault(Verb, Fault),
    /// The reply to a command, or to the final dot.
    Reply(&'static str, &'static str),
    Good,
    /// The power goes before the outcome is stored, and comes back.
    PowerCut,
    /// Another engine goes on.
    Restart,
}

const HANGS_UP: Step = Step::Fault(Verb::EndOfData, Fault::Drop);
const HELD: Option<(&str, &str)> = Some(("delivery_held", "a copy may have arrived"));
const CLOSED: Option<(&str, &str)> = Some(("delivery_failed", "a copy may have arrived"));
const GIVEN_UP: Option<(&str, &str)> = Some(("delivery_failed", "was given up"));
const ALWAYS: Doubt = Doubt {
    name: "hangs up after every dot",
    mode: OnUnknown::ResendOnce,
    steps: &[HANGS_UP],
    recipients: &["you@example.test"],
    copies: 2,
    state: DeliveryState::Held,
    told: HELD,
};

const DOUBTS: [Doubt; 22] = [
    ALWAYS,
    Doubt {
        name: "hangs up after every dot, resend",
        mode: OnUnknown::Resend,
        state: DeliveryState::Failed,
        told: CLOSED,
        ..ALWAYS
    },
    Doubt {
        name: "hangs up after every dot, hold",
        mode: OnUnknown::Hold,
        copies: 1,
        ..ALWAYS
    },
    Doubt {
        name: "never answers the dot",
        steps: &[Step::Fault(Verb::EndOfData, Fault::Stall)],
        ..ALWAYS
    },
    Doubt {
        name: "never answers the dot, resend",
        mode: OnUnknown::Resend,
        steps: &[Step::Fault(Verb::EndOfData, Fault::Stall)],
        state: DeliveryState::Failed,
        told: CLOSED,
        ..ALWAYS
    },
    Doubt {
        name: "garbage after the dot",
        steps: &[Step::Reply(".", "okay")],
        ..ALWAYS
    },
    Doubt {
        name: "354 after the dot",
        steps: &[Step::Reply(".", "354 more")],
        ..ALWAYS
    },
    Doubt {
        name: "a yes that is cut off",
        steps: &[Step::Reply(".", "25\0\0")],
        ..ALWAYS
    },
    Doubt {
        name: "an answer for each recipient, none of them whole",
        steps: &[Step::Reply(".", "250-2.0.0 one\r\n25\0\0")],
        recipients: &["one@example.test", "two@example.test"],
        ..ALWAYS
    },
    Doubt {
        name: "first one way, then another",
        steps: &[HANGS_UP, Step::Reply(".", "okay")],
        ..ALWAYS
    },
    Doubt {
        name: "a doubt between refusals",
        steps: &[
            Step::Reply(".", "451 4.3.0 later"),
            HANGS_UP,
            Step::Reply(".", "451 4.3.0 later"),
            HANGS_UP,
        ],
        ..ALWAYS
    },
    Doubt {
        name: "one recipient is greylisted",
        steps: &[HANGS_UP],
        recipients: &["you@example.test", "later@example.test"],
        ..ALWAYS
    },
    Doubt {
        name: "the second time it works",
        steps: &[HANGS_UP, Step::Good],
        state: DeliveryState::Done,
        told: None,
        ..ALWAYS
    },
    Doubt {
        name: "then it is refused for good",
        steps: &[HANGS_UP, Step::Reply("RCPT", "550 5.1.1 nobody")],
        copies: 1,
        state: DeliveryState::Failed,
        told: CLOSED,
        ..ALWAYS
    },
    Doubt {
        name: "then it is deferred for five days",
        steps: &[HANGS_UP, Step::Reply("RCPT", "450 4.2.0 later")],
        copies: 1,
        state: DeliveryState::Failed,
        told: CLOSED,
        ..ALWAYS
    },
    Doubt {
        name: "another engine goes on",
        steps: &[HANGS_UP, Step::Restart, HANGS_UP],
        ..ALWAYS
    },
    Doubt {
        name: "the power goes after both dots",
        steps: &[Step::PowerCut],
        ..ALWAYS
    },
    Doubt {
        name: "the power goes after the dot, then it hangs up",
        steps: &[Step::PowerCut, HANGS_UP],
        ..ALWAYS
    },
    Doubt {
        name: "it hangs up, then the power goes after the dot, resend",
        mode: OnUnknown::Resend,
        steps: &[HANGS_UP, Step::PowerCut],
        ..ALWAYS
    },
    Doubt {
        name: "hangs up before the dot",
        steps: &[Step::Fault(Verb::Data, Fault::Drop)],
        copies: 0,
        state: DeliveryState::Failed,
        told: GIVEN_UP,
        ..ALWAYS
    },
    Doubt {
        name: "refuses each dot for now",
        steps: &[Step::Reply(".", "451 4.3.0 later")],
        copies: 0,
        state: DeliveryState::Failed,
        told: GIVEN_UP,
        ..ALWAYS
    },
    Doubt {
        name: "shuts down at each dot",
        steps: &[Step::Fault(Verb::EndOfData, Fault::Shutdown)],
        copies: 0,
        state: DeliveryState::Failed,
        told: GIVEN_UP,
        ..ALWAYS
    },
];

#[tokio::test]
#[ignore = "second tier"]
async fn nobody_gets_a_third_copy_without_a_persons_word() {
    for doubt in DOUBTS {
        let (mut house, id, copies) = end_of(&doubt).await;
        let name = doubt.name;
        let delivery = house.delivery(&id).await;
        assert_eq!(
            (delivery.state, copies),
            (doubt.state, doubt.copies),
            "{name}: {delivery:#?}"
        );
        assert_eq!(delivery.next_attempt_at, None, "{name}");
        let mut told = Vec::new();
        for kind in ["delivery_held", "delivery_failed"] {
            let of_kind = notices(&house, kind).await;
            told.extend(of_kind.into_iter().map(|said| (kind, said)));
        }
        assert_eq!(
            told.len(),
            usize::from(doubt.told.is_some()),
            "{name}: {told:?}"
        );
        for (kind, said) in told {
            let (wanted, words) = doubt.told.expect("a notice");
            assert!(
                kind == wanted && said.contains(words),
                "{name}: {kind} {said}"
            );
            assert_eq!(
                said.contains("was given up"),
                words == "was given up",
                "{name}: {said}"
            );
        }
        if doubt.state == DeliveryState::Held {
            let health = house.store.transport_health().await.expect("a read");
            let is_noted = health.is_some_and(|health| health.state != TransportState::Well);
            let is_told_by_server = !matches!(doubt.steps, [Step::PowerCut]);
            assert_eq!(is_noted, is_told_by_server, "{name}");
            house.clock.advance(Duration::from_secs(30 * 24 * 3600));
            house = reopen(house).await;
            let server = Server::start(Script::default()).await;
            assert_eq!(
                doubting(&house, &server, doubt.mode)
                    .work_once()
                    .await
                    .expect("the store works"),
                0,
                "{name}"
            );
        }
    }
}

/// Plays an end to its end, at most 125 hours; gives the number of whole mails that no server refused.
async fn end_of(doubt: &Doubt) -> (House, DeliveryId, usize) {
    let (mut house, server) = (House::new().await, Server::start(Script::default()).await);
    let id = house.mail("first", doubt.recipients).await;
    let mut outbound = doubting(&house, &server, doubt.mode);
    let mut copies = 0;
    for attempt in 0..400 {
        let step = doubt.steps[attempt.min(doubt.steps.len() - 1)];
        server.set(|script| {
            (script.fault, script.replies) = Default::default();
            if doubt.recipients.contains(&"later@example.test") {
                let later = "450 4.2.1 greylisted".to_owned();
                script.replies.insert("RCPT TO:<later@", later);
            }
            match step {
                Step::Fault(verb, fault) => script.fault = Some((verb, fault)),
                Step::Reply(to, reply) => drop(script.replies.insert(to, reply.to_owned())),
                Step::Good | Step::PowerCut | Step::Restart => {}
            }
        });
        if let Step::Restart = step {
            drop(outbound);
            house = reopen(house).await;
            outbound = doubting(&house, &server, doubt.mode);
            continue;
        }
        let next = house.delivery(&id).await.next_attempt_at;
        let Some(next) = next else { break };
        house
            .clock
            .advance(next.since(attache::clock::Clock::now(&*house.clock)));
        let before = server.heard(|heard| heard.mails.len());
        let is_refused = matches!(step, Step::Reply(".", reply) if reply.starts_with("451"))
            || matches!(step, Step::Fault(Verb::EndOfData, Fault::Shutdown));
        if let Step::PowerCut = step {
            // The server has it, and the engine is gone before it could store that.
            let now = attache::clock::Clock::now(&*house.clock);
            let claimed = house.store.claim_deliveries(1, now).await.expect("a claim");
            assert_eq!(claimed.len(), 1, "{}", doubt.name);
            house.store.mark_committing(&id).await.expect("a mark");
            copies += 1;
            drop(outbound);
            house = reopen(house).await;
            outbound = doubting(&house, &server, doubt.mode);
            let hold = doubt.mode == OnUnknown::Hold;
            let recovered = house.store.recover_deliveries(hold).await;
            let recovered = recovered.expect("recovered").possible_duplicates;
            assert_eq!(recovered, 1, "{}", doubt.name);
            continue;
        }
        outbound.work_once().await.expect("the store works");
        if !is_refused {
            copies += server.heard(|heard| heard.mails.len()) - before;
        }
    }
    (house, id, copies)
}

async fn reopen(house: House) -> House {
    let House {
        folder,
        clock,
        store,
    } = house;
    store.close().await;
    House {
        store: reopened(&folder, &clock).await,
        folder,
        clock,
    }
}

fn doubting(house: &House, server: &Server, mode: OnUnknown) -> Outbound {
    let timeouts = SmtpTimeouts {
        data_done: Duration::from_millis(150),
        ..patient()
    };
    let options = Options {
        timeouts,
        extra_root_pem: None,
    };
    house.outbound_that(mode, Arc::new(smtp(&house.clock, server, &options, |_| {})))
}

#[tokio::test]
async fn a_person_may_send_a_third_copy_and_doubt_holds_it_again() {
    let (house, id, copies) = end_of(&ALWAYS).await;
    assert_eq!(copies, 2);
    house.store.retry_delivery(&id).await.expect("it is held");
    let server = Server::start(Script {
        fault: Some((Verb::EndOfData, Fault::Drop)),
        ..Script::default()
    })
    .await;
    let outbound = doubting(&house, &server, OnUnknown::ResendOnce);
    outbound.work_once().await.expect("the store works");
    assert_eq!(house.delivery(&id).await.state, DeliveryState::Held);
    server.set(|script| script.fault = None);
    house.store.retry_delivery(&id).await.expect("it is held");
    outbound.work_once().await.expect("the store works");
    assert_eq!(
        house.states(&id).await,
        (DeliveryState::Done, RecipientState::Delivered)
    );
    server.heard(|heard| assert_eq!(heard.mails.len(), 2));
}

#[tokio::test]
async fn mails_wait_for_a_server_that_confirms_none() {
    let house = House::new().await;
    let fault = Some((Verb::EndOfData, Fault::Drop));
    let server = Server::start(Script {
        fault,
        ..Script::default()
    })
    .await;
    house.mails(20).await;
    let outbound = doubting(&house, &server, OnUnknown::ResendOnce);
    for _ in 0..4 {
        outbound.work_once().await.expect("the store works");
    }
    // Three in a row, and those that were under way beside them.
    server.heard(|heard| assert!(heard.mails.len() < 10, "{}", heard.mails.len()));
    let health = house
        .store
        .transport_health()
        .await
        .expect("a read")
        .expect("a state");
    assert_eq!(health.state, TransportState::Unreachable);
    assert!(
        health.reason.contains("no answer to the whole mail"),
        "{}",
        health.reason
    );
}
