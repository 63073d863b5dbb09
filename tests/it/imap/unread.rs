//! Letters that nobody answers stay as their reader left them: neither flagged as seen nor moved.

use super::server::Server;
use super::{mailbox, watch};
use crate::app::TestApp;
use crate::dns::{Record, Zone};
use crate::identity::world::World;
use attache::config::AfterStored;
use attache::domain::PersonaId;
use std::time::Duration;

const OLGA: &str = "olga@home.test";
const CAROL: &str = "carol@partner.test";

fn ada() -> PersonaId {
    PersonaId::parse("ada").expect("a persona")
}

/// A letter, the rule that files it (`run`: it is answered), and whether it is flagged as seen.
struct Row {
    letter: String,
    rule: &'static str,
    is_seen: bool,
}

fn letters(world: &World) -> Vec<Row> {
    let from_carol =
        |id: &str, more: &str| world.signed("partner.test", &world.plain(CAROL, id, more));
    let unread = |rule, letter| Row {
        letter,
        rule,
        is_seen: false,
    };
    let seen = |rule, letter| Row {
        letter,
        rule,
        is_seen: true,
    };
    let elsewhere = world
        .plain(CAROL, "cc", "")
        .replace("To: ada@", "To: desk@");
    let command = world
        .plain(OLGA, "command", "")
        .replace("Hello, command.", "/status");
    vec![
        seen("run", from_carol("first", "")),
        unread(
            "unauthenticated",
            world.plain("eve@unknown.test", "eve", ""),
        ),
        unread(
            "unauthenticated",
            world.plain("Marta <marta@nowhere.test>", "marta", ""),
        ),
        unread(
            "unauthenticated",
            world.signed("evil.test", &world.plain("bank@money.test", "bank", "")),
        ),
        unread("not_addressed", world.signed("partner.test", &elsewhere)),
        unread(
            "list",
            from_carol("list", "List-Id: <news.partner.test>\r\n"),
        ),
        unread("precedence", from_carol("bulk", "Precedence: bulk\r\n")),
        unread(
            "auto_submitted",
            from_carol("away", "Auto-Submitted: auto-replied\r\n"),
        ),
        unread(
            "null_sender",
            format!("Return-Path: <>\r\n{}", from_carol("null", "")),
        ),
        unread(
            "robot_sender",
            world.signed(
                "partner.test",
                &world.plain("noreply@partner.test", "robot", ""),
            ),
        ),
        unread("own_persona", world.plain("ada@engine.test", "own", "")),
        unread(
            "malformed",
            world.plain("carol@partner.test, dan@partner.test", "two", ""),
        ),
        seen(
            "run",
            world.signed("small.test", &world.plain("ann@small.test", "ann", "")),
        ),
        seen("command", world.signed("home.test", &command)),
        seen(
            "run",
            world.signed("home.test", &world.plain(OLGA, "owner", "")),
        ),
    ]
}

/// Lets a letter come now: a signature of tomorrow proves nothing.
fn deliver(world: &World, server: &Server, letter: &str) {
    let now = world.now().to_utc().format("%d-%b-%Y %H:%M:%S +0000");
    server.deliver_at(letter, &now.to_string());
}

/// Disposition of the message with each Message-ID, without `filed:`.
async fn rules(app: &TestApp) -> Vec<String> {
    let mut rows = app.workspace.rows().await;
    let sql = "SELECT replace(disposition, 'filed:', '') FROM messages WHERE direction = 'inbound' ORDER BY seq";
    crate::app::db::query_scalar(sql)
        .fetch_all(&mut rows)
        .await
        .expect("rows")
}

async fn open_marks(app: &TestApp) -> i64 {
    super::count(app, "SELECT count(*) FROM mailbox_letters WHERE marked = 0").await
}

fn seen(server: &Server) -> Vec<bool> {
    let state = server.state();
    let is_seen = |flags: &std::collections::BTreeSet<String>| flags.contains("\\Seen");
    state
        .letters
        .iter()
        .map(|letter| is_seen(&letter.flags))
        .collect()
}

#[tokio::test]
async fn letters_that_nobody_answers_stay_unread() {
    let (world, server) = (World::start().await, Server::start().await);
    let rows = letters(&world);
    for row in &rows {
        deliver(&world, &server, &row.letter);
    }
    let mut mailbox = mailbox(&server);
    mailbox.fallback = Some(ada());
    let watch = watch(&world.app, mailbox.clone());
    let report = watch.sweep_once().await.expect("swept");
    assert_eq!(
        (report.stored, report.refused),
        (rows.len(), 0),
        "{report:?}"
    );
    let wanted: Vec<&str> = rows.iter().map(|row| row.rule).collect();
    assert_eq!(rules(&world.app).await, wanted);
    let wanted: Vec<bool> = rows.iter().map(|row| row.is_seen).collect();
    assert_eq!(seen(&server), wanted);
    assert_eq!(
        open_marks(&world.app).await,
        0,
        "nothing is left to be done"
    );
    watch.sweep_once().await.expect("swept");
    assert_eq!(seen(&server), wanted, "nor does a later look flag them");
}

#[tokio::test]
async fn with_a_move_they_stay_in_the_inbox_unless_all_are_to_go() {
    for (mark_unanswered, left) in [(false, 11), (true, 0)] {
        let (world, server) = (World::start().await, Server::start().await);
        for row in letters(&world) {
            deliver(&world, &server, &row.letter);
        }
        let mut mailbox = mailbox(&server);
        mailbox.fallback = Some(ada());
        mailbox.after = AfterStored::Move("Attache".to_owned());
        mailbox.mark_unanswered = mark_unanswered;
        let watch = watch(&world.app, mailbox);
        watch.sweep_once().await.expect("swept");
        assert_eq!(server.state().letters.len(), left, "{mark_unanswered}");
        assert_eq!(open_marks(&world.app).await, 0, "{mark_unanswered}");
    }
}

#[tokio::test]
async fn a_flag_that_is_made_up_for_later_is_not_set_on_them() {
    let (world, server) = (World::start().await, Server::start().await);
    deliver(&world, &server, &world.plain("eve@unknown.test", "eve", ""));
    deliver(
        &world,
        &server,
        &world.signed("partner.test", &world.plain(CAROL, "carol", "")),
    );
    server.state().refuses = vec!["UID STORE"];
    let watch = watch(&world.app, mailbox(&server));
    watch.sweep_once().await.expect("swept");
    assert_eq!(seen(&server), [false, false]);
    server.state().refuses.clear();
    watch.sweep_once().await.expect("swept");
    assert_eq!(seen(&server), [false, true]);
    assert_eq!(open_marks(&world.app).await, 0);
}

#[tokio::test]
async fn a_second_copy_is_flagged_as_the_first_was() {
    let (world, server) = (World::start().await, Server::start().await);
    let eve = world.plain("eve@unknown.test", "eve", "");
    let carol = world.signed("partner.test", &world.plain(CAROL, "carol", ""));
    for copy in [
        "",
        "Received: from a by b; Fri, 20 Nov 2026 08:59:30 +0000\r\n",
    ] {
        deliver(&world, &server, &format!("{copy}{eve}"));
        deliver(&world, &server, &format!("{copy}{carol}"));
    }
    let report = watch(&world.app, mailbox(&server))
        .sweep_once()
        .await
        .expect("swept");
    assert_eq!((report.stored, report.duplicates), (2, 2), "{report:?}");
    assert_eq!(seen(&server), [false, true, false, true]);
}

#[tokio::test]
async fn a_held_letter_is_flagged_once_somebody_answers_it() {
    let (world, server) = (World::start().await, Server::start().await);
    deliver(
        &world,
        &server,
        &world.signed("partner.test", &world.plain(CAROL, "carol", "")),
    );
    let late = world.signed("small.test", &world.plain("ann@late.test", "never", ""));
    deliver(
        &world,
        &server,
        &late.replacen("d=small.test", "d=late.test", 1),
    );
    let silent = |name: &str| (name.to_owned(), vec![Record::Silent]);
    let names = ["s1._domainkey.partner.test", "s1._domainkey.late.test"];
    world.dns.set(Zone::from(names.map(silent)));
    let watch = watch(&world.app, mailbox(&server));
    watch.sweep_once().await.expect("swept");
    watch.sweep_once().await.expect("swept");
    assert_eq!(seen(&server), [false, false], "nobody answers them yet");
    world.dns.set(Zone::new());
    world.dns.txt(names[0], &world.key_record("partner.test"));
    world.app.workspace.clock.advance(Duration::from_secs(3600));
    world.app.drain().await;
    watch.sweep_once().await.expect("swept");
    assert_eq!(
        seen(&server),
        [true, false],
        "{:?}",
        rules(&world.app).await
    );
    assert_eq!(open_marks(&world.app).await, 0);
}
