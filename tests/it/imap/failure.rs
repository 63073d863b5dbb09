//! Mailboxes that cannot be read: the owner is told once per outage, and only of what is one.

use super::server::Server;
use super::{app, mailbox, numbered, watch};
use crate::app::TestApp;
use attache::gateway::ingress::imap::{self, MailboxError};
use attache::store::{FailureCause, ListPage, MailboxFailure};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_secs(60);

/// Causes of notices, with the number of their facts.
async fn told(app: &TestApp) -> Vec<(String, u64)> {
    let folds = app
        .engine
        .store
        .list_notices(ListPage::first(50))
        .await
        .expect("read");
    folds
        .into_iter()
        .map(|fold| (fold.cause, fold.count))
        .collect()
}

/// Attends to the mailbox until it has failed so many times.
async fn until_failed(app: &TestApp, server: &Server, command: &'static str, times: usize) {
    let stop = CancellationToken::new();
    let failing = async {
        server.until(|state| state.count(command) >= times).await;
        stop.cancel();
    };
    let mut timeouts = super::timeouts();
    (timeouts.login_pause_min, timeouts.login_pause_max) = (timeouts.pause_min, timeouts.pause_max);
    let watch = watch(app, mailbox(server)).with_timeouts(timeouts);
    tokio::join!(imap::watch(watch, stop.clone()), failing);
}

#[tokio::test]
async fn a_refused_login_is_told_at_once_and_once_until_a_good_fetch() {
    let (app, server) = (app().await, Server::start().await);
    server.state().refuses = vec!["LOGIN"];
    until_failed(&app, &server, "LOGIN", 4).await;
    app.drain().await;
    assert_eq!(told(&app).await, [("mailbox_refused:desk".to_owned(), 1)]);
    let [notice] = &app.notices()[..] else {
        panic!("{:?}", app.notices())
    };
    assert_eq!(
        notice.subject,
        "[attache] the mailbox desk refuses our login"
    );
    for said in ["not today", "attache mailboxes check desk", ".secrets"] {
        assert!(notice.text.contains(said), "{}", notice.text);
    }
    assert!(!notice.text.contains(super::PASSWORD), "{}", notice.text);

    server.state().refuses.clear();
    watch(&app, mailbox(&server))
        .sweep_once()
        .await
        .expect("swept");
    app.workspace.clock.advance(120 * MINUTE);
    server.state().refuses = vec!["LOGIN"];
    until_failed(&app, &server, "LOGIN", 7).await;
    assert_eq!(
        told(&app).await.iter().map(|(_, facts)| facts).sum::<u64>(),
        2,
        "another outage"
    );
    app.check().await;
}

#[tokio::test]
async fn a_mailbox_that_cannot_be_read_is_told_when_it_lasts() {
    let (app, server) = (app().await, Server::start().await);
    server.state().refuses = vec!["SELECT"];
    until_failed(&app, &server, "SELECT", 2).await;
    app.workspace.clock.advance(14 * MINUTE);
    until_failed(&app, &server, "SELECT", 4).await;
    assert_eq!(told(&app).await, [], "a quarter of an hour is no news");
    app.workspace.clock.advance(2 * MINUTE);
    until_failed(&app, &server, "SELECT", 7).await;
    assert_eq!(told(&app).await, [("mailbox_down:desk".to_owned(), 1)]);
    app.drain().await;
    assert_eq!(
        app.notices()[0].subject,
        "[attache] the mailbox desk cannot be read"
    );

    // A fetch that is good ends the outage: what fails next has to last again.
    server.state().refuses.clear();
    server.deliver(&numbered(1));
    watch(&app, mailbox(&server))
        .sweep_once()
        .await
        .expect("swept");
    server.state().refuses = vec!["SELECT"];
    app.workspace.clock.advance(120 * MINUTE);
    until_failed(&app, &server, "SELECT", 10).await;
    assert_eq!(told(&app).await.len(), 1);
    app.drain().await;
    app.check().await;
}

#[tokio::test]
async fn that_we_have_no_room_is_no_affair_of_the_mailbox() {
    let app = app().await;
    let note = |cause| {
        let failure = MailboxFailure {
            mailbox: "desk".to_owned(),
            source: "olga at mail.test, INBOX".to_owned(),
            error: MailboxError::NoRoom.to_string(),
            cause,
        };
        app.engine.store.note_mailbox_failure(failure)
    };
    note(MailboxError::NoRoom.cause()).await.expect("noted");
    app.workspace.clock.advance(60 * MINUTE);
    note(MailboxError::NoRoom.cause()).await.expect("noted");
    assert_eq!(told(&app).await, []);
    note(FailureCause::Server).await.expect("noted");
    assert_eq!(
        told(&app).await.len(),
        1,
        "the control: another cause is told"
    );
}
