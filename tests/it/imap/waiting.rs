//! Between two sweeps: IDLE, polls, connections that die without a word, pauses, and the end.

use super::server::{Fault, Server};
use super::{app, mailbox, numbered, runs, timeouts};
use crate::app::TestApp;
use attache::config::ImapMailbox;
use attache::gateway::ingress::imap::{self, ImapTimeouts};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Attends to the mailbox while the test acts.
async fn while_watched(
    app: &TestApp,
    mailbox: ImapMailbox,
    timeouts: ImapTimeouts,
    act: impl Future<Output = ()>,
) {
    let stop = CancellationToken::new();
    let watch = app.engine.mailbox_watch(mailbox).with_timeouts(timeouts);
    let acting = async {
        act.await;
        stop.cancel();
    };
    tokio::join!(imap::watch(watch, stop.clone()), acting);
}

#[tokio::test]
async fn a_letter_that_comes_while_we_idle_is_taken_at_once() {
    let (app, server) = (app().await, Server::start().await);
    while_watched(&app, mailbox(&server), timeouts(), async {
        server.until(|state| state.count("IDLE") == 1).await;
        server.deliver(&numbered(1));
        server
            .until(|state| state.marked == [1] && state.count("IDLE") == 2)
            .await;
        server.deliver(&numbered(2));
        server.deliver(&numbered(3));
        server.until(|state| state.marked == [1, 2, 3]).await;
    })
    .await;
    assert_eq!(runs(&app).await, 3);
    assert_eq!(
        server.state().commands.last().map(String::as_str),
        Some("LOGOUT"),
        "it leaves with a word"
    );
}

#[tokio::test]
async fn a_server_without_idle_is_polled() {
    let (app, server) = (app().await, Server::start().await);
    server.state().capabilities = vec!["IMAP4rev1"];
    let mut polled = mailbox(&server);
    polled.poll = Duration::from_millis(20);
    while_watched(&app, polled, timeouts(), async {
        server.until(|state| state.count("SELECT") == 2).await;
        server.deliver(&numbered(1));
        server.until(|state| state.marked == [1]).await;
    })
    .await;
    assert_eq!((runs(&app).await, server.count("IDLE")), (1, 0));
}

#[tokio::test]
async fn a_server_that_offers_idle_and_refuses_it_is_polled() {
    let (app, server) = (app().await, Server::start().await);
    server.state().capabilities = vec!["IMAP4rev1", "IDLE"];
    server.state().idle_is_refused = true;
    let mut polled = mailbox(&server);
    polled.poll = Duration::from_millis(20);
    while_watched(&app, polled, timeouts(), async {
        server.until(|state| state.count("SELECT") == 3).await;
        server.deliver(&numbered(1));
        server.until(|state| state.marked == [1]).await;
    })
    .await;
    assert_eq!(
        server.count("AUTHENTICATE") + server.count("LOGIN"),
        1,
        "one session did it all"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_server_that_stalls_is_left_and_its_letters_come_next_time() {
    let app = app().await;
    let impatient = ImapTimeouts {
        silence_max: Duration::from_millis(150),
        idle_max: Duration::from_millis(30),
        ..timeouts()
    };
    let mut stalls = 0;
    for at in 1.. {
        let (server, before) = (Server::start().await, runs(&app).await);
        server.deliver(&crate::app::note(
            &format!("stall-{at}@guest.example"),
            "",
            "Still there?",
        ));
        server.state().fault = Some((at, Fault::Stall));
        let mut named = mailbox(&server);
        named.name = format!("stall-{at}");
        while_watched(&app, named, impatient.clone(), async {
            // The twelfth answer is a DONE of the second round of IDLE.
            server
                .until(|state| state.marked == [1] && state.answers > 12 && state.fault.is_none())
                .await;
        })
        .await;
        assert_eq!(runs(&app).await - before, 1, "stall at {at}");
        stalls += 1;
        if at == 12 {
            break;
        }
    }
    assert_eq!(stalls, 12);
}

#[tokio::test]
async fn false_news_do_not_make_us_ask_in_a_circle() {
    let (app, server) = (app().await, Server::start().await);
    server.state().cries_wolf = true;
    while_watched(&app, mailbox(&server), timeouts(), async {
        server.until(|state| state.count("IDLE") >= 3).await;
    })
    .await;
    let selects = server.count("SELECT");
    assert!(selects <= 6, "{selects} sweeps without a letter");
}

#[tokio::test]
async fn what_is_wrong_stands_in_the_database_until_a_fetch_is_good() {
    let (app, server) = (app().await, Server::start().await);
    server.state().refuses = vec!["SELECT"];
    let store = app.engine.store.clone();
    while_watched(&app, mailbox(&server), timeouts(), async {
        server.until(|state| state.count("SELECT") == 2).await;
        server.state().refuses.clear();
        server.until(|state| state.count("IDLE") == 1).await;
    })
    .await;
    let health = store
        .mailbox_health("desk")
        .await
        .expect("read")
        .expect("known");
    assert_eq!(
        health.last_error.as_deref(),
        Some("the server refuses `SELECT`: not today")
    );
    assert_eq!((health.uid_validity, health.backlog), (7, Some(0)));
    assert!(health.last_fetch_at >= health.last_error_at);
}
