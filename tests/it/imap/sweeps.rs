//! The road of a letter: fetched, stored, and only then flagged or moved, once, whatever breaks on the way.

mod odd_servers;

use super::server::{Fault, Server};
use super::{app, app_with, count, deliver_some, mailbox, numbered, runs, sweep, watch};
use crate::app::{Workspace, note};
use attache::clock::Clock;
use attache::config::AfterStored;
use attache::gateway::ingress::imap::{ImapSweepReport, MailboxError};
use attache::store::PowerCut;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn letters_are_taken_in_order_with_envelope_time_then_flagged() {
    let (app, server) = (app().await, Server::start().await);
    server.deliver_at(&numbered(1), "20-Nov-2026 07:30:00 -0200");
    server.deliver(&format!(
        "Return-Path: <post@guest.example>\n{}",
        numbered(2)
    ));
    let report = sweep(&app, &server).await.expect("swept");
    assert_eq!(
        report,
        ImapSweepReport {
            stored: 2,
            ..ImapSweepReport::default()
        }
    );
    let sql = "SELECT m.received_at, r.envelope_json FROM messages m JOIN raw_letters r ON r.id = m.raw_id
        WHERE m.message_id = $1";
    let first = app.row(sql, "n1@guest.example").await;
    assert_eq!(first[0].as_deref(), Some("2026-11-20T09:30:00.000Z"));
    let second = app.row(sql, "n2@guest.example").await;
    let envelope: serde_json::Value =
        serde_json::from_str(second[1].as_deref().expect("json")).expect("json");
    assert_eq!(envelope["mail_from"], "post@guest.example");
    assert_eq!(envelope["via"], "imap");
    assert_eq!(
        envelope["mailbox"],
        json!({"name": "desk", "uid_validity": 7, "uid": 2})
    );
    let state = server.state();
    assert!(
        state
            .letters
            .iter()
            .all(|letter| letter.flags.contains("\\Seen"))
    );
    assert_eq!(state.count("UID STORE"), 1);
    assert!(
        !state
            .commands
            .iter()
            .any(|command| command.contains("BODY[]")),
        "only BODY.PEEK[] leaves flags alone"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_connection_failure_at_any_step_loses_and_doubles_no_letter() {
    let app = app().await;
    let mut faults = 0;
    for fault in [
        Fault::HangUp,
        Fault::HangUpHalfway,
        Fault::HangUpAfter,
        Fault::Bye,
    ] {
        for at in 1.. {
            let (server, before) = (Server::start().await, runs(&app).await);
            for letter in 0..3 {
                let name = format!("{fault:?}-{at}-{letter}@guest.example");
                server.deliver(&note(&name, "", &format!("Letter {letter}.")));
            }
            server.state().fault = Some((at, fault));
            // A mailbox of its own, so that one engine does for all.
            let mut named = mailbox(&server);
            named.name = format!("{fault:?}-{at}");
            let watch = watch(&app, named);
            let first = watch.sweep_once().await;
            let was_hit = server.state().fault.is_none();
            assert!(was_hit || first.is_ok(), "{fault:?} at {at}: {first:?}");
            server.state().fault = None;
            watch
                .sweep_once()
                .await
                .expect("the second sweep meets no fault");
            assert_eq!(runs(&app).await - before, 3, "{fault:?} at {at}");
            let state = server.state();
            assert!(
                state.letters.iter().all(|l| l.flags.contains("\\Seen")),
                "{fault:?} at {at}"
            );
            if !was_hit {
                break;
            }
            faults += 1;
        }
    }
    assert!(faults > 30, "only {faults} faults were met");
    assert_eq!(
        count(&app, "SELECT count(*) FROM mailbox_letters").await,
        0,
        "nothing is left to be done"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_engine_dying_at_any_commit_runs_every_letter_once() {
    let mut deaths = 0;
    for after in [false, true] {
        for at in 1.. {
            let server = Server::start().await;
            for letter in 0..3 {
                // The last has no Message-ID of its own.
                let text = numbered(letter);
                let nameless = text.replace("Message-ID: <n2@guest.example>\n", "");
                server.deliver(&nameless);
            }
            let app = Workspace::new(&json!([])).start().await;
            app.engine.store.cut_power(if after {
                PowerCut::AfterCommit(at)
            } else {
                PowerCut::BeforeCommit(at)
            });
            let died = sweep(&app, &server).await;
            let stored = count(&app, "SELECT count(*) FROM messages").await;
            let flagged = server.state().marked.len();
            assert!(
                i64::try_from(flagged).expect("few") <= stored,
                "cut {at}: {flagged} flagged, {stored} stored"
            );
            let app = app.restart().await;
            sweep(&app, &server)
                .await
                .expect("the second engine has power");
            assert_eq!(runs(&app).await, 3, "cut {at}, after: {after}");
            assert!(
                server
                    .state()
                    .letters
                    .iter()
                    .all(|letter| letter.flags.contains("\\Seen"))
            );
            if died.is_ok() {
                break;
            }
            deaths += 1;
        }
    }
    assert!(deaths >= 12, "only {deaths} deaths");
}

#[tokio::test]
#[ignore = "second tier"]
async fn new_numbers_for_old_letters_start_no_run() {
    let (app, server) = (app().await, Server::start().await);
    for letter in 0..500 {
        server.deliver(&numbered(letter));
    }
    assert_eq!(sweep(&app, &server).await.expect("swept").stored, 500);
    // Longer ago than any window of duplicates.
    app.workspace
        .clock
        .advance(Duration::from_secs(400 * 24 * 3600));
    {
        let mut state = server.state();
        state.uid_validity += 1;
        (1001..)
            .zip(&mut state.letters)
            .for_each(|(uid, letter)| letter.uid = uid);
        state.next_uid = 1501;
    }
    server.deliver(&numbered(500));
    let report = sweep(&app, &server).await.expect("swept");
    assert_eq!(
        report,
        ImapSweepReport {
            stored: 1,
            duplicates: 500,
            ..ImapSweepReport::default()
        }
    );
    assert_eq!(runs(&app).await, 501);
    assert_eq!(
        sweep(&app, &server).await.expect("swept"),
        ImapSweepReport::default()
    );
    assert!(
        server.count("UID FETCH") < 60,
        "letters are fetched in batches"
    );
}

#[tokio::test]
async fn what_lay_there_at_first_is_left_alone_also_under_new_numbers() {
    let (app, server) = (app().await, Server::start().await);
    let now_on = || {
        let mut mailbox = mailbox(&server);
        mailbox.from_now_on = true;
        watch(&app, mailbox)
    };
    server.deliver_at(&numbered(1), "01-Nov-2026 09:00:00 +0000");
    // Its server forgot when it came; it says itself that it is old.
    let old = numbered(2).replace("Fri, 20 Nov 2026", "Fri, 06 Nov 2026");
    server.deliver_at(&old, "01-Nov-2026 09:00:00 +0000");
    assert_eq!(
        now_on().sweep_once().await.expect("swept"),
        ImapSweepReport::default()
    );
    assert_eq!(server.count("UID FETCH"), 0);
    server.deliver_at(&numbered(3), "20-Nov-2026 09:00:01 +0000");
    assert_eq!(now_on().sweep_once().await.expect("swept").stored, 1);
    {
        let mut state = server.state();
        state.uid_validity += 1;
        state.letters[1].arrived = "21-Nov-2026 00:00:00 +0000".to_owned();
    }
    server.deliver_at(&numbered(4), "21-Nov-2026 09:00:00 +0000");
    let report = now_on().sweep_once().await.expect("swept");
    assert_eq!(
        report,
        ImapSweepReport {
            stored: 1,
            duplicates: 1,
            left_alone: 2,
            refused: 0
        }
    );
    assert_eq!(runs(&app).await, 2);
    let flagged: Vec<bool> = server
        .state()
        .letters
        .iter()
        .map(|l| l.flags.contains("\\Seen"))
        .collect();
    assert_eq!(flagged, [false, false, true, true]);
}

#[tokio::test]
async fn another_account_under_the_same_name_begins_anew() {
    let (app, server, other) = (app().await, Server::start().await, Server::start().await);
    server.deliver(&numbered(1));
    sweep(&app, &server).await.expect("swept");
    (other.state().next_uid, other.state().uid_validity) = (40, 7);
    other.deliver(&numbered(2));
    let mut moved = mailbox(&other);
    (moved.host, moved.from_now_on) = ("localhost".to_owned(), true);
    watch(&app, moved.clone())
        .sweep_once()
        .await
        .expect("swept");
    assert_eq!(runs(&app).await, 1, "its history is left alone");
    other.deliver(&numbered(3));
    watch(&app, moved).sweep_once().await.expect("swept");
    assert_eq!(runs(&app).await, 2);
}

#[tokio::test]
async fn moved_letters_end_in_a_folder_that_is_made_when_missing() {
    for capabilities in [&["MOVE"][..], &["UIDPLUS"][..], &[][..]] {
        let (app, server) = (app().await, Server::start().await);
        server.state().capabilities = ["IMAP4rev1"]
            .into_iter()
            .chain(capabilities.iter().copied())
            .collect();
        let mut mailbox = mailbox(&server);
        mailbox.after = AfterStored::Move("Erledigt-für-Ada".to_owned());
        let watch = watch(&app, mailbox);
        deliver_some(&server, 0..3);
        assert_eq!(watch.sweep_once().await.expect("swept").stored, 3);
        server.deliver(&numbered(3));
        assert_eq!(watch.sweep_once().await.expect("swept").stored, 1);
        let state = server.state();
        assert_eq!(
            state.folders["\"Erledigt-f&APw-r-Ada\""].len(),
            4,
            "{:?}",
            state.folders.keys()
        );
        let left = state
            .letters
            .iter()
            .filter(|letter| !letter.flags.contains("\\Deleted"))
            .count();
        assert_eq!(left, 0, "{capabilities:?}");
        let expunged = state.letters.is_empty();
        assert_eq!(
            expunged,
            !capabilities.is_empty(),
            "without UIDPLUS nothing is expunged"
        );
    }
}

#[tokio::test]
async fn what_the_door_could_not_store_is_unflagged_and_taken_later() {
    let (app, server) = (app().await, Server::start().await);
    deliver_some(&server, 0..3);
    // Commit 1 is the first contact, 2 the first letter, 3 the second.
    app.engine.store.cut_power(PowerCut::BeforeCommit(3));
    let failed = sweep(&app, &server).await;
    assert!(
        matches!(failed, Err(MailboxError::NotStored(_))),
        "{failed:?}"
    );
    let marked = server.state().marked.clone();
    assert!(marked.len() <= 1, "{marked:?}");
    let app = app.restart().await;
    sweep(&app, &server).await.expect("swept");
    assert_eq!((runs(&app).await, server.state().letters.len()), (3, 3));
    assert!(
        server
            .state()
            .letters
            .iter()
            .all(|letter| letter.flags.contains("\\Seen"))
    );
}

#[tokio::test]
async fn letters_refused_for_good_are_noted_left_and_fetched_once() {
    let app = app_with(json!({ "letter_bytes_max": 2000 })).await;
    app.workspace.clock.advance(Duration::from_secs(1));
    let server = Server::start().await;
    let large = server.deliver(&note("large@guest.example", "", &"x".repeat(3000)));
    let stranger =
        server.deliver(&numbered(1).replace("To: ada@engine.test", "To: nobody@else.example"));
    let deep = server.deliver(&note(
        "hops@guest.example",
        &"Received: from a by b\n".repeat(60),
        "Round and round.",
    ));
    server.deliver(&numbered(2));
    let report = sweep(&app, &server).await.expect("swept");
    assert_eq!((report.stored, report.refused), (1, 3), "{report:?}");
    assert_eq!(
        sweep(&app, &server).await.expect("swept"),
        ImapSweepReport::default()
    );
    let fetched: Vec<String> = server
        .state()
        .commands
        .iter()
        .filter(|c| c.contains("PEEK"))
        .cloned()
        .collect();
    assert_eq!(
        fetched,
        [format!("UID FETCH {stranger}:4 (UID BODY.PEEK[])")]
    );
    let letters = app
        .engine
        .store
        .refused_mailbox_letters("desk", 10)
        .await
        .expect("listed");
    let mut reasons: Vec<_> = letters
        .iter()
        .map(|letter| (letter.place.uid, letter.reason.as_str()))
        .collect();
    reasons.sort_unstable();
    assert_eq!(reasons[0], (large, "larger than 2000 bytes"));
    assert_eq!(reasons[1], (stranger, "no persona is addressed"));
    assert_eq!(reasons[2].0, deep);
    let flagged = server.state().marked.clone();
    assert_eq!(flagged, [4]);
}

#[tokio::test]
async fn refused_letters_are_marked_when_the_configuration_says_so() {
    let (app, server) = (app().await, Server::start().await);
    server.deliver(&numbered(1).replace("To: ada@engine.test", "To: nobody@else.example"));
    let mut mailbox = mailbox(&server);
    mailbox.mark_unanswered = true;
    let report = watch(&app, mailbox).sweep_once().await.expect("swept");
    assert_eq!(
        (report.refused, server.state().marked.clone()),
        (1, vec![1])
    );
}
