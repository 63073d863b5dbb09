//! Each command counts once: not from a copy that somebody sends again, and not twice over a crash.

use super::{command, halted, letter, signed, stored, taken, world};
use crate::app::db;
use attache::gateway::intake_contract::CopyOutcome;
use std::time::Duration;

#[tokio::test]
async fn an_old_letter_changes_nothing_and_says_so_once() {
    let world = world().await;
    let resume = signed(&world, "r", "", "/resume");
    command(&world, "p", "/pause").await;
    world.app.workspace.clock.advance(Duration::from_secs(3601));
    assert_eq!(taken(&world, &resume).await, "command");
    world.app.drain().await;
    assert_eq!(halted(&world).await, ["ada"]);
    let answers = world.app.notices();
    assert_eq!(answers.len(), 2);
    assert!(
        answers[1].text.contains("too long after it was signed"),
        "{}",
        answers[1].text
    );
    // Again, with another line end at its end, which the signature does not notice.
    let again = format!("{resume}\r\n\r\n");
    assert_eq!(taken(&world, &again).await, "command");
    world.app.drain().await;
    assert_eq!(world.app.notices().len(), 2, "one answer for all copies");
    assert_eq!(halted(&world).await, ["ada"]);
    // The age is the only reason: a new letter does it.
    world
        .app
        .workspace
        .clock
        .set(attache::domain::Timestamp::from(chrono::Utc::now()));
    command(&world, "r2", "/resume").await;
    assert!(halted(&world).await.is_empty());
    world.app.check().await;
}

#[tokio::test]
async fn a_copy_within_the_hour_is_no_second_command() {
    let world = world().await;
    let pause = signed(&world, "p", "", "/pause");
    assert_eq!(taken(&world, &pause).await, "command");
    world.app.drain().await;
    command(&world, "r", "/resume").await;
    // A changed body that the signature does not notice makes it a letter that was never seen.
    let copy = format!("{pause}\r\n");
    assert_eq!(taken(&world, &copy).await, "command");
    world.app.drain().await;
    assert!(halted(&world).await.is_empty());
    assert_eq!(stored(&world).await, ["ada pause -", "ada resume -"]);
    assert_eq!(world.app.notices().len(), 2);
    world.app.check().await;
}

#[tokio::test]
async fn a_delayed_letter_does_not_undo_what_was_ordered_later() {
    let world = world().await;
    let resume = signed(&world, "r", "", "/resume");
    world.app.workspace.clock.advance(Duration::from_secs(5));
    // The library signs by the clock of the system, so only `Date` tells the two apart: the later one is the pause.
    command(&world, "p", "/pause").await;
    let mut rows = world.app.workspace.rows().await;
    db::query("UPDATE mail_commands SET sent_at = $1 WHERE command = 'pause'")
        .bind(world.now().to_string())
        .execute(&mut rows)
        .await
        .expect("a later pause");
    assert_eq!(taken(&world, &resume).await, "command");
    world.app.drain().await;
    assert_eq!(halted(&world).await, ["ada"]);
    assert_eq!(
        stored(&world).await,
        ["ada pause -", "ada resume overtaken"]
    );
    world.app.check().await;
}

#[tokio::test]
async fn a_letter_whose_message_id_is_not_signed_changes_nothing() {
    let world = world().await;
    let eml = letter(&world, "p", "", "/pause");
    let eml = world.signed_with(
        "home.test",
        &eml,
        &["From", "To", "Subject", "Date"],
        |signer| signer,
    );
    assert_eq!(taken(&world, &eml).await, "command");
    world.app.drain().await;
    assert!(halted(&world).await.is_empty());
    assert!(
        world.app.notices()[0]
            .text
            .contains("does not cover a Message-ID")
    );
    assert_eq!(stored(&world).await, ["ada pause repeatable"]);
    // What changes nothing needs no such proof.
    let eml = letter(&world, "s", "", "/status");
    let fields = ["From", "To", "Subject", "Date"];
    let eml = world.signed_with("home.test", &eml, &fields, |signer| signer);
    assert_eq!(taken(&world, &eml).await, "command");
    world.app.drain().await;
    assert!(world.app.notices()[1].text.contains("not halted"));
    world.app.check().await;
}

#[tokio::test]
async fn an_engine_that_ends_between_effect_and_answer_answers_later_and_acts_once() {
    let world = world().await;
    let accepted = world
        .hand_over(&signed(&world, "p", "", "/pause"), None)
        .await
        .expect("taken");
    assert!(matches!(&accepted.copies[0].outcome, CopyOutcome::Filed(rule) if rule == "command"));
    let store = world.app.engine.store.clone();
    let open = store.open_commands().await.expect("commands");
    let first = store.act_on_command(open[0].seq, &[]).await.expect("done");
    assert_eq!(halted(&world).await, ["ada"]);
    assert!(world.app.notices().is_empty());
    // What somebody did at the keyboard meanwhile stands: the command is not carried out again.
    store
        .lift_halt(Some(&open[0].persona))
        .await
        .expect("lifted");
    drop(store);
    let app = world.app.restart().await;
    let again = app.engine.store.act_on_command(open[0].seq, &[]).await;
    assert_eq!(again.expect("its outcome"), first);
    app.drain().await;
    assert!(app.engine.store.halts().await.expect("halts").is_empty());
    assert_eq!(app.notices().len(), 1);
    app.drain().await;
    assert_eq!(app.notices().len(), 1);
    app.check().await;
}
