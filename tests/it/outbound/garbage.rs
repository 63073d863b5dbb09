//! Servers that are broken or hostile: bounded in lines and bytes, deferred, and never taken for a yes.

use super::server::{Script, Server};
use super::world::{House, only};
use attache::domain::BreakerState;
use attache::store::{DeliveryState, RecipientState};

/// Replies that are no replies. Two NULs: no line end, and the connection closes.
fn garbage() -> Vec<(&'static str, String)> {
    vec![
        (
            "a line of a megabyte",
            format!("250 {}", "x".repeat(1024 * 1024)),
        ),
        (
            "a megabyte that never ends",
            format!("250 {}\0\0", "x".repeat(1024 * 1024)),
        ),
        ("a reply that never ends", "250-more\r\n".repeat(100_000)),
        (
            "a reply of 101 lines",
            format!("{}250 last", "250-more\r\n".repeat(100)),
        ),
        (
            "bytes of no code",
            "\u{ff}\u{fe}\u{0}\u{1}\u{80}".to_owned(),
        ),
        ("a code of two digits", "25 ok".to_owned()),
        ("two codes in one reply", "250-ok\r\n550 no".to_owned()),
        ("an empty line", String::new()),
        ("half a line", "25\0\0".to_owned()),
    ]
}

#[tokio::test]
#[ignore = "second tier"]
async fn whatever_a_server_says_is_bounded_and_never_taken_for_a_yes() {
    for at in ["MAIL", "RCPT", "DATA", "."] {
        for (what, reply) in garbage() {
            let case = format!("{what} at {at}");
            let house = House::new().await;
            let server = Server::start(Script::default()).await;
            server.set(|script| drop(script.replies.insert(at, reply.clone())));
            let outbound = house.outbound(&server);
            let id = house.mail("first", &["you@example.test"]).await;
            outbound.work_once().await.expect(&case);
            let delivery = house.delivery(&id).await;
            assert_eq!(delivery.state, DeliveryState::Queued, "{case}");
            assert_eq!(only(&delivery).state, RecipientState::Deferred, "{case}");
            assert_eq!(delivery.possible_duplicate, at == ".", "{case}");
            let failures = u32::from(at == ".");
            assert_eq!(
                outbound.breaker(),
                (BreakerState::Closed, failures),
                "{case}"
            );
            let said = only(&delivery).last_reply.as_deref().unwrap_or_default();
            assert!(!said.is_empty() && said.len() <= 2000, "{case}: {said}");
        }
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_greeting_or_ehlo_that_is_garbage_is_no_service() {
    for at in ["", "EHLO"] {
        for (what, reply) in garbage() {
            let case = format!("{what} at {at:?}");
            let house = House::new().await;
            let server = Server::start(Script::default()).await;
            server.set(|script| match at {
                "" => script.greeting = Some(reply.clone()),
                _ => drop(script.replies.insert(at, reply.clone())),
            });
            let outbound = house.outbound(&server);
            let id = house.mail("first", &["you@example.test"]).await;
            outbound.work_once().await.expect(&case);
            assert_eq!(
                house.states(&id).await,
                (DeliveryState::Queued, RecipientState::Deferred),
                "{case}"
            );
            assert_eq!(outbound.breaker(), (BreakerState::Closed, 1), "{case}");
            server.heard(|heard| assert_eq!(heard.count("MAIL"), 0, "{case}"));
        }
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_odd_yes_is_still_a_yes() {
    let odd = [
        "250".to_owned(),
        "250 ".to_owned(),
        "250 \u{fc}bernommen \u{0}\u{7}".to_owned(),
        format!("250 {}", "x".repeat(2000)),
        format!("{}250 last", "250-more\r\n".repeat(99)),
        "250-with a bare line feed\n250 here".to_owned(),
    ];
    for at in ["MAIL", "RCPT", "."] {
        for reply in &odd {
            let case = format!("{} at {at}", reply.chars().take(40).collect::<String>());
            let house = House::new().await;
            let server = Server::start(Script::default()).await;
            server.set(|script| drop(script.replies.insert(at, reply.clone())));
            let outbound = house.outbound(&server);
            let id = house.mail("first", &["you@example.test"]).await;
            outbound.work_once().await.expect(&case);
            assert_eq!(
                house.states(&id).await,
                (DeliveryState::Done, RecipientState::Delivered),
                "{case}"
            );
            let delivery = house.delivery(&id).await;
            assert!(!delivery.possible_duplicate, "{case}");
            let said = only(&delivery).last_reply.clone().unwrap_or_default();
            assert!(said.chars().all(|c| !c.is_control()), "{case}: {said:?}");
        }
    }
}
