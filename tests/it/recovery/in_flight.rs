//! A letter that ends the engine before it is stored, in a watched folder and in a mailbox: after three engines in a row
//! it is set aside and told, and the letters behind it are taken.

use super::place::attache;
use crate::app::db;
use crate::app::{Workspace, note};
use crate::imap::server;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;

fn serve(place: &Workspace, order: Option<&str>) -> Child {
    let mut command = attache(place.path(), &["serve", "--log", "error"]);
    command
        .env("ATTACHE_IMAP_PASSWORD", server::PASSWORD)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    order.map(|order| command.env("ATTACHE_CRASH", order));
    command.spawn().expect("the binary runs")
}

/// Engines that die while they take the first letter that they find, about to store it; how long each of them lived.
async fn die(place: &Workspace, count: usize) -> Vec<Duration> {
    let mut lives = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        let mut engine = serve(place, Some("I2:1"));
        let ended = tokio::task::spawn_blocking(move || engine.wait().expect("a child"))
            .await
            .expect("waited");
        assert_eq!(ended.signal(), Some(SIGABRT), "the letter ends it");
        lives.push(began.elapsed());
    }
    lives
}

/// Ids of the letters that an engine stores by itself until `enough` is true, and what it tells the owner.
async fn stores(
    place: &Workspace,
    enough: impl Fn(&[String]) -> bool,
) -> (Vec<String>, Vec<String>) {
    let mut engine = serve(place, None);
    let mut rows = place.rows().await;
    let began = Instant::now();
    let stored = loop {
        let stored = "SELECT replace(message_id, '@guest.example', '') FROM messages WHERE direction = 'inbound' ORDER BY seq";
        let stored: Vec<String> = db::query_scalar(stored)
            .fetch_all(&mut rows)
            .await
            .expect("messages");
        if enough(&stored) {
            break stored;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "only {stored:?} are stored"
        );
        crate::app::glance().await;
    };
    engine.kill().and_then(|()| engine.wait()).expect("killed");
    let told = "SELECT summary FROM notices WHERE kind = 'letter_quarantined'";
    let told = db::query_scalar(told)
        .fetch_all(&mut rows)
        .await
        .expect("notices");
    let mut drain = attache(place.path(), &["drain"]);
    drain.env("ATTACHE_IMAP_PASSWORD", server::PASSWORD);
    assert!(drain.output().expect("the binary runs").status.success());
    crate::app::audit(&mut rows).await;
    (stored, told)
}

fn workspace(key: &str, value: Value) -> Workspace {
    let place = Workspace::new(&json!({ "rules": [{ "say": "From seven to ten." }] })).talkative();
    place.set("configs/gateway.json", key, value);
    place
}

fn letter(id: &str) -> String {
    note(&format!("{id}@guest.example"), "", "When is breakfast?")
}

async fn folder(note_is_kept: bool) -> (Workspace, Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder").keep();
    let watched = json!([{ "path": folder, "poll": "20ms" }]);
    let place = workspace("/folders", watched);
    for subject in ["a-fatal", "b-fine"] {
        std::fs::write(folder.join(format!("{subject}.eml")), letter(subject)).expect("a letter");
    }
    let mut lives = die(&place, 2).await;
    if !note_is_kept {
        std::fs::remove_dir_all(place.path().join("data/in-flight")).expect("it was there");
    }
    lives.extend(die(&place, 1).await);
    let seconds: Vec<u64> = lives.iter().map(Duration::as_secs).collect();
    assert_eq!(
        seconds[2] >= 10,
        note_is_kept,
        "an engine in doubt lives without it first: {seconds:?}"
    );
    let (stored, told) = stores(&place, |stored| stored.contains(&"b-fine".to_owned())).await;
    let aside = folder.join("rejected/a-fatal.eml");
    assert_eq!(aside.exists(), note_is_kept);
    if note_is_kept {
        let reason = std::fs::read_to_string(folder.join("rejected/a-fatal.eml.reason.txt"))
            .expect("a reason");
        assert_eq!(reason, "three engines in a row died while they took it\n");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
    (place, stored, told)
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_letter_file_that_ends_three_engines_is_set_aside_and_told() {
    let (_place, stored, told) = folder(true).await;
    assert_eq!(stored, ["b-fine"]);
    assert!(
        told.len() == 1 && told[0].contains("the letter file `a-fatal.eml`"),
        "{told:?}"
    );
}

#[tokio::test]
async fn the_control_without_what_was_written_sets_no_letter_aside() {
    let (_place, stored, told) = folder(false).await;
    assert_eq!(
        (stored, told),
        (vec!["a-fatal".to_owned(), "b-fine".to_owned()], vec![])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_mailbox_letter_that_ends_three_engines_is_left_untouched() {
    let mailbox = server::Server::start().await;
    let deps = json!([{ "name": "desk", "host": "127.0.0.1", "port": mailbox.port, "tls": "none",
        "user": server::USER, "since": "all" }]);
    let place = workspace("/mailboxes", deps);
    for subject in ["first", "fatal", "fine"] {
        mailbox.deliver(&letter(subject));
    }
    // The first one is stored by an engine that dies at the second one.
    let mut engine = serve(&place, Some("I2:2"));
    let ended = tokio::task::spawn_blocking(move || engine.wait().expect("a child"))
        .await
        .expect("waited");
    assert_eq!(ended.signal(), Some(SIGABRT));
    die(&place, 2).await;
    let (stored, told) = stores(&place, |stored| stored.len() == 2).await;
    assert_eq!(stored, ["first", "fine"]);
    assert!(
        told.len() == 1 && told[0].contains("UID 2 of the mailbox `desk`"),
        "{told:?}"
    );
    let seen = |uid| {
        mailbox
            .state()
            .letters
            .iter()
            .any(|l| l.uid == uid && !l.flags.is_empty())
    };
    assert!(!seen(2), "it is as it was");
    let mut rows = place.rows().await;
    let refused = "SELECT uid || ': ' || reason FROM mailbox_letters WHERE outcome = 'refused'";
    let refused: Vec<String> = db::query_scalar(refused)
        .fetch_all(&mut rows)
        .await
        .expect("letters");
    assert_eq!(
        refused,
        ["2: three engines in a row died while they took it"]
    );
}
