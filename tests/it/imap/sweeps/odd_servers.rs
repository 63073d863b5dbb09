//! Servers that claim, repeat, refuse or withhold.

use super::*;

#[tokio::test]
async fn a_letter_larger_than_it_claims_is_refused_others_are_taken() {
    let app = app_with(json!({ "letter_bytes_max": 2000 })).await;
    let server = Server::start().await;
    server.deliver(&numbered(1));
    let liar = server.deliver(&note("liar@guest.example", "", &"x".repeat(3 << 20)));
    server.deliver(&numbered(2));
    server.state().claims_bytes = Some(100);
    let stop = tokio_util::sync::CancellationToken::new();
    let attending =
        attache::gateway::ingress::imap::watch(watch(&app, mailbox(&server)), stop.clone());
    let watching = async {
        server.until(|state| state.marked.contains(&3)).await;
        stop.cancel();
    };
    tokio::join!(attending, watching);
    let refused = app
        .engine
        .store
        .refused_mailbox_letters("desk", 10)
        .await
        .expect("listed");
    assert_eq!(
        refused
            .iter()
            .map(|letter| letter.place.uid)
            .collect::<Vec<_>>(),
        [liar]
    );
    assert_eq!(runs(&app).await, 2);
}

#[tokio::test]
async fn a_server_that_sends_twice_or_will_not_flag_changes_nothing() {
    let (app, server) = (app().await, Server::start().await);
    server.state().repeats = true;
    server.state().refuses = vec!["UID STORE"];
    deliver_some(&server, 0..3);
    let report = sweep(&app, &server).await.expect("swept");
    assert_eq!(
        report,
        ImapSweepReport {
            stored: 3,
            ..ImapSweepReport::default()
        }
    );
    let health = app
        .engine
        .store
        .mailbox_health("desk")
        .await
        .expect("read")
        .expect("known");
    assert_eq!(
        health.last_error.as_deref(),
        Some("the server refuses `UID STORE`: not today")
    );
    server.state().refuses.clear();
    assert_eq!(
        sweep(&app, &server).await.expect("swept"),
        ImapSweepReport::default()
    );
    assert_eq!(server.state().marked, [1, 2, 3], "it is made up for");
    assert_eq!(runs(&app).await, 3);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_long_backlog_is_taken_in_batches() {
    const LETTERS: usize = 1200;
    let (app, server) = (app().await, Server::start().await);
    deliver_some(&server, 0..LETTERS);
    let began = app.workspace.clock.now();
    assert_eq!(sweep(&app, &server).await.expect("swept").stored, LETTERS);
    let state = server.state();
    let batches = state
        .commands
        .iter()
        .filter(|command| command.contains("PEEK"))
        .count();
    assert_eq!(batches, LETTERS / 50);
    assert!(state.marked.is_sorted(), "the oldest first");
    assert_eq!(app.workspace.clock.now(), began);
}

#[tokio::test]
async fn results_of_the_mailbox_server_are_believed_only_when_named() {
    for (named, trust) in [
        (Some("mx.mailbox.test"), "contact"),
        (Some("mx.other.test"), "unauthenticated"),
        (None, "unauthenticated"),
    ] {
        let (app, server) = (app().await, Server::start().await);
        let results = "Authentication-Results: mx.mailbox.test; dmarc=pass header.from=guest.example\n\
            Received: from a by mx.mailbox.test; Fri, 20 Nov 2026 08:59:30 +0000\n";
        server.deliver(&format!("{results}{}", numbered(1)));
        let mut mailbox = mailbox(&server);
        mailbox.authserv_id = named.map(str::to_owned);
        watch(&app, mailbox).sweep_once().await.expect("swept");
        let row = app
            .row(
                "SELECT trust FROM messages WHERE message_id = $1",
                "n1@guest.example",
            )
            .await;
        assert_eq!(row[0].as_deref(), Some(trust), "{named:?}");
    }
}

#[tokio::test]
async fn a_letter_that_no_longer_proves_its_sender_is_still_the_same() {
    let (app, server) = (app().await, Server::start().await);
    let results = "Authentication-Results: mx.mailbox.test; dmarc=pass header.from=guest.example\n\
        Received: from a by mx.mailbox.test; Fri, 20 Nov 2026 08:59:30 +0000\n";
    let mut proven = mailbox(&server);
    proven.authserv_id = Some("mx.mailbox.test".to_owned());
    server.deliver(&format!("{results}{}", numbered(1)));
    assert_eq!(
        watch(&app, proven)
            .sweep_once()
            .await
            .expect("swept")
            .stored,
        1
    );
    server.state().uid_validity += 1;
    // The same Message-ID and text by somebody who proves nothing is another letter, also here.
    server.deliver(&numbered(1));
    let report = sweep(&app, &server).await.expect("swept");
    assert_eq!(
        report,
        ImapSweepReport {
            stored: 1,
            duplicates: 1,
            ..ImapSweepReport::default()
        }
    );
    assert_eq!(runs(&app).await, 2);
}

#[tokio::test]
async fn an_imported_letter_is_not_run_when_its_mailbox_is_read_later() {
    let (app, server) = (app().await, Server::start().await);
    let letter = numbered(1);
    let persona = app
        .engine
        .config
        .personas
        .iter()
        .next()
        .expect("Ada")
        .clone();
    let intake = attache::gateway::intake::Intake::new(
        app.engine.store.clone(),
        app.engine.config.clone(),
        std::sync::Arc::default(),
    );
    let envelope = crate::app::letter(&letter);
    let filed = intake
        .expect("an intake")
        .file_history(envelope, &persona, &[])
        .await;
    assert!(
        matches!(
            filed,
            Ok(attache::gateway::intake::history::Archived::Stored(_))
        ),
        "{filed:?}"
    );
    let results = "Authentication-Results: mx.mailbox.test; dmarc=pass header.from=guest.example\n";
    server.deliver(&format!("{results}{letter}"));
    let mut proven = mailbox(&server);
    proven.authserv_id = Some("mx.mailbox.test".to_owned());
    let report = watch(&app, proven).sweep_once().await.expect("swept");
    assert_eq!((report.duplicates, runs(&app).await), (1, 0));
}

#[tokio::test]
async fn a_letter_not_handed_out_is_noted_and_a_vanished_one_is_not() {
    let (app, server) = (app().await, Server::start().await);
    server.state().withholds = vec![2];
    deliver_some(&server, 0..3);
    let report = sweep(&app, &server).await.expect("swept");
    assert_eq!(
        report,
        ImapSweepReport {
            stored: 2,
            refused: 1,
            ..ImapSweepReport::default()
        }
    );
    let refused = app
        .engine
        .store
        .refused_mailbox_letters("desk", 10)
        .await
        .expect("read");
    let [withheld] = &refused[..] else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (withheld.place.uid, withheld.reason.as_str()),
        (2, "its server does not hand it out")
    );
    assert_eq!(
        server.state().marked,
        [1, 3],
        "the others are not kept waiting"
    );
    // The next is deleted by somebody between its announcement and its fetch.
    server.state().vanishes = Some(4);
    deliver_some(&server, 3..4);
    assert_eq!(
        sweep(&app, &server).await.expect("swept"),
        ImapSweepReport::default()
    );
    assert_eq!(
        app.engine
            .store
            .refused_mailbox_letters("desk", 10)
            .await
            .expect("read")
            .len(),
        1
    );
}

#[tokio::test]
async fn without_room_or_a_lasting_number_nothing_is_fetched() {
    let (full, server) = (
        app_with(json!({ "free_disk_bytes_min": u64::MAX })).await,
        Server::start().await,
    );
    deliver_some(&server, 0..3);
    let swept = sweep(&full, &server).await;
    assert!(matches!(swept, Err(MailboxError::NoRoom)), "{swept:?}");
    assert_eq!((runs(&full).await, server.state().marked.len()), (0, 0));
    let app = app().await;
    server.state().uid_validity = 0;
    let swept = sweep(&app, &server).await;
    assert!(matches!(swept, Err(MailboxError::Unusable(_))), "{swept:?}");
    server.state().uid_validity = 7;
    assert_eq!(
        sweep(&app, &server).await.expect("swept").stored,
        3,
        "the control"
    );
}
