//! Too much at once: strangers of one organisation, mails of a day, messages that wait for a free run, and what the owner hears.

use super::{MINUTE, count, model_calls, receive, yes};
use crate::app::{self, NOTE_DATE, TestApp, Workspace, behind_relay, db, proven};
use crate::identity::world::{RELAY, STRANGER, World};
use crate::smtp::client::{Client, settings};
use attache::domain::Via;
use attache::gateway::ingress::smtp::{ServerContext, serve_session};
use attache::gateway::intake::Intake;
use attache::gateway::intake_contract::{LetterIntake, Refusal};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::duplex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A house that answers whoever is proven, and knows the people of `friend.test`.
fn house() -> Workspace {
    let workspace = Workspace::new(&yes());
    let mut security = behind_relay();
    security["access"]["allow"] = json!(["*@friend.test"]);
    workspace.write_json("configs/security.json", &security);
    workspace
}

fn bounded(path: &str, pointer: &str, bounds: Value) -> Workspace {
    let workspace = house();
    workspace.set(path, pointer, bounds);
    workspace
}

/// A letter to that persona whose sender the relay proves.
fn letter(sender: &str, to: &str, id: &str) -> String {
    let domain = sender.rsplit('@').next().unwrap_or_default().to_lowercase();
    format!(
        "From: {sender}\nTo: {to}@engine.test\nSubject: Room\nMessage-ID: <{id}@{domain}>\nDate: {NOTE_DATE}\n{}\nIs there a room? {id}\n",
        proven(&domain)
    )
}

/// Five senders, made of a pattern in which `#` stands for a number.
fn five(pattern: &str) -> Vec<String> {
    (0..5)
        .map(|n| pattern.replace('#', &n.to_string()))
        .collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn strangers_of_one_organisation_get_a_bounded_number_of_answers_in_a_day() {
    // Who writes, and how many letters of theirs the model is asked about, with a bound of three.
    let cases: [(&str, Vec<String>, usize); 13] = [
        ("addresses of one domain", five("a#@evil.test"), 3),
        ("hosts of one domain", five("a@h#.evil.test"), 3),
        ("hosts of hosts", five("a@x.h#.evil.test"), 3),
        ("capitals", five("A#@EVIL.test"), 3),
        ("tags of one address", five("a+#@evil.test"), 3),
        ("one address", five("a@evil.test"), 3),
        ("a suffix of two labels", five("a@h#.evil.co.uk"), 3),
        ("organisations below it", five("a@evil#.co.uk"), 5),
        ("organisations", five("a@evil#.test"), 5),
        ("users of a host of pages", five("a@evil#.github.io"), 5),
        ("contacts", five("a#@friend.test"), 5),
        ("mailboxes at a provider", five("a#@gmail.com"), 5),
        (
            "two organisations",
            [five("a#@evil.test"), five("a#@good.test")].concat(),
            6,
        ),
    ];
    for (name, senders, answered) in cases {
        for together in [false, true] {
            let limits = json!({ "domain_runs_per_day_max": 3, "replies_per_hour_max": 100 });
            let app = bounded("configs/gateway.json", "/limits", limits)
                .start()
                .await;
            let letters: Vec<String> = (0..)
                .zip(&senders)
                .map(|(n, sender)| letter(sender, "ada", &format!("l{n}")))
                .collect();
            let words = match together {
                true => join_all(letters.iter().map(|letter| receive(&app, letter))).await,
                false => {
                    let mut words = Vec::new();
                    for letter in &letters {
                        words.push(receive(&app, letter).await);
                    }
                    words
                }
            };
            app.drain().await;
            let run = words.iter().filter(|word| *word == "run").count();
            assert_eq!(run, answered, "{name}, together: {together}: {words:?}");
            let others = words.iter().filter(|word| *word != "run");
            assert!(
                others.clone().all(|word| word == "filed:domain_limited"),
                "{name}: {words:?}"
            );
            assert_eq!(model_calls(&app).await as usize, answered, "{name}");
            let told = app.notices();
            let told: Vec<&str> = told.iter().map(|mail| mail.text.as_str()).collect();
            let domains = answered.div_euclid(3) * usize::from(others.count() > 0);
            let is_told = told
                .iter()
                .filter(|text| text.contains("`domain_runs_per_day_max`"));
            assert_eq!(is_told.count(), domains.min(1), "{name}: {told:?}");
        }
    }
}

#[tokio::test]
async fn the_bound_is_of_each_persona_and_of_each_day() {
    let limits = json!({ "domain_runs_per_day_max": 2 });
    let workspace = bounded("configs/gateway.json", "/limits", limits);
    workspace.persona("eve", "Eve");
    let app = workspace.start().await;
    for to in ["ada", "eve"] {
        let mut words = Vec::new();
        for n in 0..3 {
            words.push(
                receive(
                    &app,
                    &letter(&format!("a{n}@evil.test"), to, &format!("{to}{n}")),
                )
                .await,
            );
        }
        assert_eq!(words, ["run", "run", "filed:domain_limited"], "{to}");
    }
    let app = app.restart().await;
    assert_eq!(
        receive(&app, &letter("b@evil.test", "ada", "again")).await,
        "filed:domain_limited"
    );
    app.drain().await;
    app.workspace.clock.advance(DAY + MINUTE);
    let next = letter("c@evil.test", "ada", "next").replace("20 Nov", "21 Nov");
    assert_eq!(receive(&app, &next).await, "run");
    app.drain().await;
    assert_eq!(model_calls(&app).await, 5);
    let buckets = "SELECT count(*) FROM correspondence WHERE counterparty LIKE '%domain:%' AND persona_id = 'ada'";
    assert_eq!(
        count(&app.workspace, buckets).await,
        1,
        "those of yesterday are gone"
    );
    app.check().await;
}

#[tokio::test]
async fn a_persona_sends_a_bounded_number_of_mails_in_a_day() {
    let budget = json!({ "persona_day_mails_max": 2 });
    let app = bounded("configs/inference.json", "/budget", budget)
        .start()
        .await;
    let mut words = Vec::new();
    for n in 0..4 {
        words.push(
            receive(
                &app,
                &letter(&format!("a@guest{n}.test"), "ada", &format!("l{n}")),
            )
            .await,
        );
        app.drain().await;
    }
    assert_eq!(words, ["run", "run", "filed:day_mails", "filed:day_mails"]);
    assert_eq!((app.sent().len(), model_calls(&app).await), (2, 2));
    let [told] = &app.notices()[..] else {
        panic!("{:?}", app.notices())
    };
    assert_eq!(told.subject, "[attache] no more mails of ada today");
    assert!(
        told.text.contains("`persona_day_mails_max`"),
        "{}",
        told.text
    );
    app.workspace.clock.advance(DAY);
    let next = letter("a@guest9.test", "ada", "next").replace("20 Nov", "21 Nov");
    assert_eq!(receive(&app, &next).await, "run");
    app.drain().await;
    assert_eq!(app.sent().len(), 3);
    let days = "SELECT count(*) FROM correspondence WHERE counterparty = 'day'";
    assert_eq!(count(&app.workspace, days).await, 1);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn of_mails_that_race_for_the_last_of_the_day_one_is_withheld() {
    let budget = json!({ "persona_day_mails_max": 1 });
    let app = bounded("configs/inference.json", "/budget", budget)
        .start()
        .await;
    for n in 0..3 {
        let word = receive(
            &app,
            &letter(&format!("a@guest{n}.test"), "ada", &format!("l{n}")),
        )
        .await;
        assert_eq!(word, "run", "no mail has gone yet");
    }
    app.drain().await;
    assert_eq!(app.sent().len(), 1);
    let withheld = "SELECT count(*) FROM messages WHERE disposition = 'withheld:day_mails'";
    assert_eq!(count(&app.workspace, withheld).await, 2);
    assert_eq!(app.notices().len(), 1);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_unusual_day_is_told_once() {
    // How many strangers write, from where, and how many notices there are.
    for (people, pattern, notices) in [
        (120, "a@guest#.test", 1),
        (99, "a@guest#.test", 0),
        (120, "a#@friend.test", 0),
    ] {
        let app = house().talkative().start().await;
        for n in 0..people {
            let sender = pattern.replace('#', &n.to_string());
            let word = receive(&app, &letter(&sender, "ada", &format!("l{n}"))).await;
            assert_eq!(word, "run", "{sender}");
        }
        for _ in 0..5 {
            app.drain().await;
            app.workspace.clock.advance(MINUTE * 90);
        }
        let told = app.notices();
        assert_eq!(told.len(), notices, "{people} {pattern}: {told:?}");
        if let Some(told) = told.first() {
            assert_eq!(
                told.subject,
                "[attache] unusually many new correspondents of ada today"
            );
            assert!(
                told.text.contains("120 new correspondents of ada today"),
                "{}",
                told.text
            );
        }
        app.check().await;
    }
}

/// Runs at work, minutes that five letters have waited, whether everything is halted, and what is told.
const WAITS: [(usize, u64, bool, Option<&str>); 5] = [
    (
        2,
        11,
        false,
        Some("3 messages to ada are waiting for a free run, the oldest since 2026-11-20T09:00"),
    ),
    (2, 9, false, None),
    (2, 11, true, None),
    // One place is free, and the rest is worked off.
    (1, 11, false, None),
    (0, 11, false, None),
];

#[tokio::test]
#[ignore = "second tier"]
async fn messages_that_wait_long_for_a_free_run_are_told_once_a_day() {
    for (at_work, minutes, is_halted, expected) in WAITS {
        let concurrency = json!({ "runs_max": 2, "runs_per_persona_max": 2 });
        let app = bounded("configs/inference.json", "/concurrency", concurrency)
            .start()
            .await;
        for n in 0..5 {
            let word = receive(
                &app,
                &letter(&format!("a@guest{n}.test"), "ada", &format!("l{n}")),
            )
            .await;
            assert_eq!(word, "run");
        }
        let mut rows = app.workspace.rows().await;
        rows.unchecked().await;
        for _ in 0..at_work {
            // Whatever they are at: they do not end.
            let busy = "UPDATE runs SET state = 'running', epoch = (SELECT epoch FROM engine)
                WHERE seq = (SELECT min(seq) FROM runs WHERE state = 'queued')";
            db::query(busy).execute(&mut rows).await.expect("a row");
        }
        if is_halted {
            let halt = "INSERT INTO halts (persona_id, reason, halted_at) VALUES ('ada', 'a test', '2026-11-20T09:00:00.000Z')";
            db::query(halt).execute(&mut rows).await.expect("a row");
        }
        app.workspace
            .clock
            .advance(MINUTE * u32::try_from(minutes).expect("a number"));
        for _ in 0..4 {
            app.drain().await;
            if expected.is_none() {
                break;
            }
            app.workspace.clock.advance(MINUTE * 90);
        }
        let told = app.notices();
        let case = (at_work, minutes, is_halted);
        assert_eq!(
            told.len(),
            usize::from(expected.is_some()),
            "{case:?}: {told:?}"
        );
        if let (Some(told), Some(words)) = (told.first(), expected) {
            assert_eq!(
                told.subject,
                "[attache] messages of ada are waiting for a free run"
            );
            assert!(told.text.contains(words), "{}", told.text);
        }
    }
}

/// The defaults: a model that takes its time keeps nobody else waiting.
#[tokio::test]
async fn sixteen_messages_to_a_persona_are_worked_on_at_once_by_default() {
    let app = TestApp::start(yes()).await;
    let inference = &app.engine.config.inference;
    assert_eq!(
        (
            inference.concurrent_runs_max,
            inference.concurrent_runs_per_persona_max
        ),
        (32, 16)
    );
}

/// Bytes of each letter here; a network may bring four times the largest one in an hour.
const LETTER_BYTES: usize = 2048;
const OF_AN_HOUR: usize = 8;

/// A world with small letters, and a door of it whose shortages nobody else tells of.
async fn small_world() -> (World, Arc<Intake>) {
    let workspace = Workspace::new(&yes()).talkative();
    let largest = json!(LETTER_BYTES * 2);
    workspace.set("configs/gateway.json", "/limits/letter_bytes_max", largest);
    let world = World::in_workspace(workspace, json!({})).await;
    let engine = &world.app.engine;
    let (store, queued) = (engine.store.clone(), Arc::new(Notify::new()));
    let intake = Intake::new(store, engine.config.clone(), queued).expect("a door");
    (world, Arc::new(intake))
}

/// Makes a letter as large as all of them are.
fn padded(eml: String) -> String {
    let missing = LETTER_BYTES - eml.len() - 2;
    format!("{eml}{}\r\n", "x".repeat(missing))
}

/// Hands a letter over from that address, or from a file; says what became of it.
async fn brought(intake: &Intake, eml: &str, peer: Option<&str>) -> String {
    let mut letter = app::letter(eml);
    if let Some(peer) = peer {
        letter.envelope.peer = peer.parse().ok();
        letter.envelope.via = Via::Smtp;
        letter.envelope.helo = "client.test".to_owned();
    }
    match intake.accept(letter).await {
        Ok(accepted) => super::word(&accepted.copies[0].outcome),
        Err(Refusal::TooMuch) => "too much".to_owned(),
        Err(other) => other.to_string(),
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn mail_that_nobody_answers_is_bounded_by_network_and_hour() {
    let (world, intake) = small_world().await;
    let invented = |id: &str| padded(world.plain(&format!("{id}@{id}.guest.test"), id, ""));
    let unproven = "filed:unauthenticated";
    for n in 0..OF_AN_HOUR + 3 {
        let word = brought(&intake, &invented(&format!("s{n}")), Some(STRANGER)).await;
        let expected = if n < OF_AN_HOUR { unproven } else { "too much" };
        assert_eq!(word, expected, "letter {n}");
    }
    assert_eq!(world.messages().await as usize, OF_AN_HOUR);
    let carol = |id: &str, more: &str| {
        let eml = padded(world.plain("carol@partner.test", id, more));
        world.signed("partner.test", &eml)
    };
    let list = "List-Id: <news.partner.test>\r\n";
    let mallory = world.signed(
        "evil.test",
        &padded(world.plain("mallory@evil.test", "m1", "")),
    );
    // Another network, a contact whom nobody answers, whoever is answered, a file.
    for (eml, peer, expected) in [
        (invented("o1"), Some("198.51.101.67"), unproven),
        (invented("o2"), Some("2001:db8:7::1"), unproven),
        (carol("c1", list), Some(STRANGER), "filed:list"),
        (carol("c2", ""), Some(STRANGER), "run"),
        (mallory, Some(STRANGER), "run"),
        (invented("o3"), None, unproven),
        (invented("o4"), Some(STRANGER), "too much"),
    ] {
        assert_eq!(brought(&intake, &eml, peer).await, expected, "{eml}");
    }
    // A trusted relay brings the letters of everybody.
    for n in 0..OF_AN_HOUR * 2 {
        let word = brought(&intake, &invented(&format!("r{n}")), Some(RELAY)).await;
        assert_eq!(word, unproven, "letter {n} of the relay");
    }
    for _ in 0..2 {
        intake.tell_shortages().await;
        world.app.drain().await;
        brought(&intake, &invented("again"), Some(STRANGER)).await;
    }
    let mut told = world.app.notices();
    told.retain(|mail| mail.subject.contains("refused"));
    let [told] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(
        told.subject,
        "[attache] letters are refused for want of room for unanswered mail"
    );
    assert!(told.text.contains("refused so far: 4"), "{}", told.text);
    world.app.workspace.clock.advance(MINUTE * 60);
    let later = invented("later");
    assert_eq!(brought(&intake, &later, Some(STRANGER)).await, unproven);
    world.app.check().await;
}

#[tokio::test]
async fn a_peer_whose_network_has_brought_too_much_reads_452_and_keeps_its_letter() {
    let (world, intake) = small_world().await;
    let mut settings = settings(world.app.engine.config.limits.clone());
    settings.limits.greeting_delay = Duration::ZERO;
    let server = ServerContext::new(intake, settings, CancellationToken::new());
    let (client, peer) = duplex(64 * 1024);
    let stranger = STRANGER.parse().ok();
    tokio::spawn(async move { serve_session(peer, stranger, &server).await });
    let mut client = Client::new(Box::new(client));
    client.greet().await;
    for n in 0..OF_AN_HOUR + 1 {
        let from = format!("a{n}@guest.test");
        let eml = padded(world.plain(&from, &format!("d{n}"), ""));
        client.say(&format!("MAIL FROM:<{from}>"), "250 *").await;
        client.say("RCPT TO:<ada@engine.test>", "250 *").await;
        client.say("DATA", "354 *").await;
        let answer = match n < OF_AN_HOUR {
            true => "250 2.0.0 stored",
            false => "452 4.3.1 no room for letters, try again later",
        };
        client.say(&format!("{eml}."), answer).await;
    }
    client.say("QUIT", "221 *").await;
    assert_eq!(world.messages().await as usize, OF_AN_HOUR);
}
