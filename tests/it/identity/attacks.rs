//! Attacks ID01 to ID12 of `security.md`, each with its honest twin.

mod signatures;

use super::world::{HOME, RELAY, STRANGER, USUAL, World};
use attache::gateway::intake_contract::CopyOutcome;
use std::time::Duration;

const OWNER: &str = "Olga <olga@home.test>";

#[tokio::test]
async fn id01_a_name_alone_proves_nothing_and_a_signature_does() {
    let world = World::start().await;
    let forged = world.plain(OWNER, "forged", "");
    assert_eq!(world.trust(&forged).await, "unauthenticated");
    let (outcome, why) = world.found(&forged, Some(STRANGER)).await;
    assert_eq!(
        (outcome.as_str(), why.as_str()),
        ("refused", "not from the domain that it claims to be from")
    );
    let honest = world.signed("home.test", &world.plain(OWNER, "honest", ""));
    assert_eq!(world.found(&honest, Some(STRANGER)).await.0, "owner");
}

#[tokio::test]
async fn id02_two_from_fields_are_nobody_in_either_order() {
    let world = World::start().await;
    let (mut n, mallory) = (0, world.plain("mallory@evil.test", "two", ""));
    for letter in [
        format!("From: {OWNER}\r\n{mallory}"),
        mallory.replacen("\r\nTo:", &format!("\r\nFrom: {OWNER}\r\nTo:"), 1),
    ] {
        for signer in ["evil.test", "home.test"] {
            n += 1;
            let signed = world.signed(signer, &letter.replace("two", &format!("two{n}")));
            assert_eq!(world.trust(&signed).await, "unauthenticated", "{signer}");
        }
    }
    // A field put on top of a letter that its owner did sign.
    let genuine = world.signed("home.test", &world.plain(OWNER, "genuine", ""));
    assert_eq!(
        world
            .trust(&format!("From: mallory@evil.test\r\n{genuine}"))
            .await,
        "unauthenticated"
    );
    assert_eq!(world.trust(&genuine).await, "owner");
}

#[tokio::test]
async fn an_empty_line_before_the_header_hides_it_from_nobody() {
    let world = World::start().await;
    for front in ["\r\n", "\r\n\r\n", "\u{feff}"] {
        let id = format!("front{}", front.len());
        let honest = world.signed("home.test", &world.plain(OWNER, &id, ""));
        assert_eq!(
            world
                .found(&format!("{front}{honest}"), Some(STRANGER))
                .await
                .0,
            "owner",
            "{front:?}"
        );
        let forged = world.plain(OWNER, &format!("{id}f"), "");
        assert_eq!(
            world
                .found(&format!("{front}{forged}"), Some(STRANGER))
                .await
                .0,
            "refused",
            "{front:?}"
        );
    }
}

#[tokio::test]
async fn id03_two_mailboxes_are_nobody() {
    let world = World::start().await;
    for from in [
        "olga@home.test, mallory@evil.test",
        "mallory@evil.test, olga@home.test",
    ] {
        for signer in ["home.test", "evil.test"] {
            let letter = world.plain(from, &format!("{signer}{}", &from[..5]), "");
            assert_eq!(
                world.trust(&world.signed(signer, &letter)).await,
                "unauthenticated",
                "{from}"
            );
        }
    }
}

#[tokio::test]
async fn id04_a_display_name_is_no_address() {
    let world = World::start().await;
    let letter = world.plain("\"olga@home.test\" <mallory@evil.test>", "display", "");
    assert_eq!(
        world.trust(&world.signed("evil.test", &letter)).await,
        "unknown"
    );
    let twin = world.plain("\"mallory@evil.test\" <olga@home.test>", "twin", "");
    assert_eq!(
        world.trust(&world.signed("home.test", &twin)).await,
        "owner"
    );
}

#[tokio::test]
async fn id05_an_address_that_two_readers_read_differently_is_nobodys() {
    let world = World::start().await;
    let evasions = [
        "olga@home.test\0",
        "olga\0@home.test",
        "<@evil.test:olga@home.test>",
        "friends: olga@home.test;",
        "olga@home.test (mallory@evil.test)",
        "(olga@home.test) mallory@evil.test",
        "=?utf-8?q?olga=40home.test=3e?=@evil.test",
        "olga@home.test.",
        "olga\u{ff20}home.test",
        "olga@h\u{43e}me.test",
        "\"olga\"@home.test",
        "olga@home.test <mallory@evil.test>",
        "<olga@home.test>, <mallory@evil.test>",
        "olga @home.test",
    ];
    for (n, from) in evasions.into_iter().enumerate() {
        for signer in ["home.test", "evil.test"] {
            let letter = world.signed(signer, &world.plain(from, &format!("e{n}{signer}"), ""));
            let trust = world.trust(&letter).await;
            assert!(
                trust == "unauthenticated" || trust == "unknown",
                "{from:?} by {signer}: {trust}"
            );
        }
    }
    for from in [
        "olga@home.test",
        "<olga@HOME.test>",
        "Olga\r\n <olga@home.test>",
        "=?utf-8?q?Olga?= <olga@home.test>",
    ] {
        let letter = world.signed("home.test", &world.plain(from, &from.len().to_string(), ""));
        assert_eq!(world.trust(&letter).await, "owner", "{from:?}");
    }
}

#[tokio::test]
async fn id06_results_that_a_letter_brings_along_are_not_read() {
    let world = World::start().await;
    let pass = "dmarc=pass header.from=home.test; dkim=pass header.d=home.test";
    for id in ["mail.engine.test", "engine.test", "mx.relay.test"] {
        let letter = world.plain(
            OWNER,
            id,
            &format!("Authentication-Results: {id}; {pass}\r\n"),
        );
        assert_eq!(
            world.trust(&letter).await,
            "unauthenticated",
            "{id} by nobody"
        );
        assert_eq!(
            world.found(&letter, Some("10.1.2.3")).await.0,
            "unauthenticated",
            "{id} by another peer"
        );
    }
    // The relay hands over what a stranger wrote in the name of somebody else.
    let letter = world.plain(
        OWNER,
        "other",
        &format!("Authentication-Results: mx.other.test; {pass}\r\n"),
    );
    assert_eq!(world.found(&letter, Some(RELAY)).await.0, "unauthenticated");
    let letter = format!(
        "Authentication-Results: mx.relay.test; {pass}\r\n{}",
        world.plain(OWNER, "relay", "")
    );
    assert_eq!(world.found(&letter, Some(RELAY)).await.0, "contact");
}

#[tokio::test]
async fn id07_two_results_of_one_relay_cancel_each_other() {
    let world = World::start().await;
    let results = |word: &str| {
        format!("Authentication-Results: mx.relay.test; dkim={word} header.d=home.test\r\n")
    };
    let letter = world.plain(OWNER, "double", "");
    for (first, second) in [("pass", "none"), ("none", "pass"), ("pass", "pass")] {
        let letter = format!("{}{}{letter}", results(first), results(second));
        let (trust, why) = world.found(&letter, Some(RELAY)).await;
        assert_eq!(
            (trust.as_str(), why.as_str()),
            (
                "unauthenticated",
                "there are two results of the relay's name"
            )
        );
    }
    // Below the second hop it was there before the relay was.
    let hop = "Received: from a.test by b.test; Fri, 20 Nov 2026 08:59:00 +0000\r\n";
    let older = format!("{hop}{hop}{}{letter}", results("pass"));
    assert_eq!(world.found(&older, Some(RELAY)).await.0, "unauthenticated");
    let own = format!("{hop}{}{hop}{letter}", results("pass"));
    assert_eq!(world.found(&own, Some(RELAY)).await.0, "contact");
}

#[tokio::test]
async fn id08_the_clients_address_alone_proves_nobody() {
    let world = World::start().await;
    let (trust, why) = world
        .found(&world.plain(OWNER, "shared host", ""), Some(HOME))
        .await;
    assert_eq!(trust, "unauthenticated");
    assert_eq!(why, "only the client's address speaks for the sender (SPF)");
    let signed = world.signed("home.test", &world.plain(OWNER, "signed", ""));
    assert_eq!(world.found(&signed, Some(HOME)).await.0, "owner");
}

#[tokio::test]
async fn id09_a_signature_of_another_domain_is_about_nobody() {
    let world = World::start().await;
    let letter = world.signed("evil.test", &world.plain(OWNER, "unaligned", ""));
    assert_eq!(world.trust(&letter).await, "unauthenticated");
    assert_eq!(world.found(&letter, Some(STRANGER)).await.0, "refused");
    // Beside a good one it does no harm.
    let both = world.signed(
        "evil.test",
        &world.signed("home.test", &world.plain(OWNER, "both", "")),
    );
    assert_eq!(world.trust(&both).await, "owner");
    // Without a policy record the sender's domain and those above it sign for it, and those below it do not.
    let small = world.plain("ann@mail.small.test", "above", "");
    assert_eq!(
        world.trust(&world.signed("small.test", &small)).await,
        "unknown"
    );
    let below = world.plain("ann@small.test", "below", "");
    assert_eq!(
        world.trust(&world.signed("mail.small.test", &below)).await,
        "unauthenticated"
    );
    // Strict alignment is the domain's wish.
    let carol = world.plain("carol@partner.test", "strict", "");
    assert_eq!(
        world.trust(&world.signed("partner.test", &carol)).await,
        "contact"
    );
}

#[tokio::test]
async fn id10_a_signature_over_the_beginning_of_a_body_is_none() {
    let world = World::start().await;
    let letter = world.plain(OWNER, "long", "");
    let cut = world.signed_with("home.test", &letter, &USUAL, |signer| {
        signer.body_length(true)
    });
    assert!(cut.contains("l="), "the signer wrote l=");
    for body in ["", "And send me the keys.\r\n"] {
        let letter = format!("{cut}{body}");
        assert_eq!(world.trust(&letter).await, "unauthenticated");
        // Not refused either: its domain may well have sent it.
        assert_eq!(
            world
                .found(&letter.replace("long@", "long2@"), Some(STRANGER))
                .await
                .0,
            "unauthenticated"
        );
    }
    assert_eq!(
        world
            .trust(&world.signed("home.test", &world.plain(OWNER, "whole", "")))
            .await,
        "owner"
    );
}

#[tokio::test]
async fn id11_an_old_letter_sent_again_proves_nothing() {
    let world = World::start().await;
    let letter = world.signed("home.test", &world.plain(OWNER, "old", ""));
    world
        .app
        .workspace
        .clock
        .advance(Duration::from_secs(6 * 24 * 3600));
    assert_eq!(world.trust(&letter).await, "owner", "six days on the road");
    world
        .app
        .workspace
        .clock
        .advance(Duration::from_secs(24 * 24 * 3600));
    let accepted = world
        .hand_over(&letter, Some(STRANGER))
        .await
        .expect("kept as nobody's");
    let outcome = &accepted.copies[0].outcome;
    assert!(
        matches!(outcome, CopyOutcome::Filed(rule) if rule == "stale"),
        "{outcome:?}"
    );
    let message = accepted.copies[0].message.as_str();
    assert_eq!(
        world.trust_of(message).await,
        (
            "unauthenticated".into(),
            "dated more than 7 days from its arrival".into()
        )
    );
    assert!(
        world
            .decisions(message)
            .await
            .contains(&"lowered:stale".to_owned())
    );
    // A Date that is not signed can be made young; the time of the signature cannot.
    let undated: Vec<&str> = USUAL.into_iter().filter(|field| *field != "Date").collect();
    let letter = world.plain(OWNER, "undated", "");
    let signed = world.signed_with("home.test", &letter, &undated, |signer| signer);
    assert_eq!(world.trust(&signed).await, "unauthenticated");
}

#[tokio::test]
async fn id11_a_letter_in_a_mailbox_is_as_old_as_when_it_got_there() {
    let world = World::start().await;
    let eml = world.signed("home.test", &world.plain(OWNER, "waited", ""));
    let arrived = world.now();
    world
        .app
        .workspace
        .clock
        .advance(Duration::from_secs(60 * 24 * 3600));
    let mut letter = crate::app::letter(&eml);
    letter.envelope.arrival.arrived_at = Some(arrived);
    let accepted = world
        .app
        .engine
        .intake()
        .accept(letter)
        .await
        .expect("stored");
    assert_eq!(
        world.trust_of(accepted.copies[0].message.as_str()).await.0,
        "owner"
    );
}

#[tokio::test]
async fn id12_a_squatted_message_id_suppresses_nobody() {
    let world = World::start().await;
    let squat = world.signed(
        "evil.test",
        &world
            .plain("mallory@evil.test", "next", "")
            .replace("Hello", "First"),
    );
    let genuine = world.signed("home.test", &world.plain(OWNER, "next", ""));
    for (letter, trust) in [(squat, "unknown"), (genuine, "owner")] {
        let accepted = world.hand_over(&letter, None).await.expect("stored");
        assert!(
            !matches!(accepted.copies[0].outcome, CopyOutcome::Duplicate),
            "{trust}"
        );
        assert_eq!(
            world.trust_of(accepted.copies[0].message.as_str()).await.0,
            trust
        );
    }
}
