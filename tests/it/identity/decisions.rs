//! What becomes of letters that are disowned or cannot be verified now; whose word counts beside the sender's; and
//! what all that costs.

use super::world::{RELAY, STRANGER, USUAL, World, silent};
use crate::dns::Record;
use attache::domain::{Address, Via};
use attache::gateway::intake_contract::{CopyOutcome, Refusal};
use mail_auth::arc::ArcSealer;
use mail_auth::common::headers::HeaderWriter;
use mail_auth::{ArcOutput, AuthenticatedMessage, AuthenticationResults, DmarcOutput, DmarcResult};
use serde_json::json;
use std::time::{Duration, Instant};

const OWNER: &str = "olga@home.test";

#[tokio::test]
async fn a_disowned_letter_is_refused_or_held_as_its_domain_asks() {
    let world = World::start().await;
    let refused = world
        .hand_over(&world.plain(OWNER, "reject", ""), Some(STRANGER))
        .await;
    assert!(matches!(refused, Err(Refusal::Disowned)), "{refused:?}");
    assert_eq!(world.messages().await, 0, "nothing of it is stored");
    let held = world
        .hand_over(
            &world.plain("carol@partner.test", "held", ""),
            Some(STRANGER),
        )
        .await;
    let message = held.expect("stored").copies.remove(0).message;
    let (trust, why) = world.trust_of(message.as_str()).await;
    assert_eq!(trust, "unauthenticated");
    assert_eq!(why, "disowned by the DMARC policy of the sender's domain");
    assert!(
        world
            .decisions(message.as_str())
            .await
            .contains(&"lowered:dmarc_quarantine".to_owned())
    );
    // SPF that passes for another domain is about that domain (behaviour 30).
    let mut letter = crate::app::letter(&world.plain(OWNER, "other", ""));
    letter.envelope.mail_from = Address::parse("bounce@evil.test").ok();
    letter.envelope.peer = STRANGER.parse().ok();
    assert!(matches!(
        world.app.engine.intake().accept(letter).await,
        Err(Refusal::Disowned)
    ));
}

#[tokio::test]
async fn a_monitor_refuses_nobody_and_writes_down_whom_it_would_have() {
    let world = World::with(json!({ "mode": "monitor" })).await;
    silent(&world.dns, "_dmarc.dead.test");
    let accepted = world
        .hand_over(&world.plain(OWNER, "refused", ""), Some(STRANGER))
        .await
        .expect("taken");
    let message = accepted.copies[0].message.as_str();
    assert_eq!(world.trust_of(message).await.0, "unauthenticated");
    let decisions = world.decisions(message).await;
    assert!(
        decisions.contains(&"would_refuse:dmarc_reject".to_owned()),
        "{decisions:?}"
    );
    // Whom nobody knows yet is not answered meanwhile either.
    let waits = world
        .hand_over(&world.plain("a@dead.test", "dead", ""), Some(STRANGER))
        .await
        .expect("taken");
    assert_eq!(waits.copies[0].outcome, CopyOutcome::Held);
}

#[tokio::test]
async fn denied_senders_are_refused_or_noted() {
    for (mode, is_taken) in [("enforce", false), ("monitor", true)] {
        let workspace = crate::app::Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
        let access = json!({ "access": { "mode": mode, "deny": ["*@SPAM.example"] } });
        workspace.write_json("configs/security.json", &access);
        let app = workspace.start().await;
        let from = "From: Bob <bob@Spam.Example>\nTo: ada@engine.test\nSubject: x\nMessage-ID: <a@b>\n\nHello.\n";
        let outcome = app.receive(from).await;
        assert_eq!(outcome.is_ok(), is_taken, "{mode}: {outcome:?}");
        let intake = app.engine.intake();
        let envelope = Address::parse("bob@spam.example").ok();
        let at_mail = intake.sender(envelope.as_ref())
            == attache::gateway::intake_contract::SenderVerdict::Welcome;
        assert_eq!(at_mail, is_taken, "{mode}: MAIL FROM");
        if let Ok(accepted) = outcome {
            let row = app
                .row(
                    "SELECT count(*) || '' FROM audit_log WHERE subject_id = $1 AND rule = 'access'",
                    accepted.copies[0].message.as_str(),
                )
                .await;
            assert_eq!(row[0].as_deref(), Some("1"));
        }
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_peer_comes_again_when_nobody_can_say_who_the_sender_is() {
    let world = World::start().await;
    silent(&world.dns, "s1._domainkey.silent.test");
    world.dns.add("_dmarc.broken.test", Record::ServFail);
    let unsigned = world.plain("ann@broken.test", "unsigned", "");
    let refused = world.hand_over(&unsigned, Some(STRANGER)).await;
    assert!(matches!(refused, Err(Refusal::Unverifiable)), "{refused:?}");
    // Somebody else's key under a selector of the silent domain.
    let signed = world.signed("small.test", &world.plain("ann@silent.test", "signed", ""));
    let signed = signed.replacen("d=small.test", "d=silent.test", 1);
    let refused = world.hand_over(&signed, Some(STRANGER)).await;
    assert!(matches!(refused, Err(Refusal::Unverifiable)), "{refused:?}");
    // A file cannot come again: it is held.
    let (trust, why) = world.found(&signed, None).await;
    assert_eq!(
        (trust.as_str(), why.as_str()),
        ("unauthenticated", "a name server did not answer")
    );
    assert_eq!(world.messages().await, 0);
    // Nobody is taken at their word because it is allow-listed.
    silent(&world.dns, "s2._domainkey.partner.test");
    let carol = world.signed(
        "partner.test",
        &world.plain("carol@partner.test", "carol", ""),
    );
    let carol = carol.replacen("s=s1", "s=s2", 1);
    assert_eq!(world.found(&carol, Some(STRANGER)).await.0, "refused");
    // Where the missing answer changes nothing, nobody waits for it: the same domain is aligned under every policy.
    silent(&world.dns, "_dmarc.small.test");
    let ann = world.signed("small.test", &world.plain("ann@small.test", "ann", ""));
    assert_eq!(world.found(&ann, Some(STRANGER)).await.0, "unknown");
}

#[tokio::test]
async fn a_letter_with_nothing_to_verify_asks_nobody() {
    let world = World::start().await;
    for peer in [
        None,
        Some("127.0.0.1"),
        Some("10.9.8.7"),
        Some("::1"),
        Some("fd00::7"),
        Some(RELAY),
    ] {
        let id = peer.unwrap_or("none").replace(':', "-");
        assert_eq!(
            world
                .found(&world.plain("bob@guest.test", &id, ""), peer)
                .await
                .0,
            "unauthenticated"
        );
    }
    assert_eq!(world.dns.asked(), [] as [String; 0]);
    world
        .found(&world.plain("bob@guest.test", "public", ""), Some(STRANGER))
        .await;
    assert!(
        !world.dns.asked().is_empty(),
        "a stranger's address is looked into"
    );
}

#[tokio::test]
async fn the_engine_stops_without_waiting_for_name_servers() {
    let world = World::with(json!({ "resolver": {
        "servers": [silence().await.to_string()], "timeout": "10s" } }))
    .await;
    let (stop, eml) = (
        tokio_util::sync::CancellationToken::new(),
        world.plain("a@slow.test", "slow", ""),
    );
    let mut letter = crate::app::letter(&eml);
    (letter.envelope.peer, letter.envelope.via) = (STRANGER.parse().ok(), Via::Smtp);
    let intake = world.app.engine.intake();
    let serving = tokio::spawn(world.app.engine.serve(Vec::new(), stop.clone()));
    let accepting = tokio::spawn(async move { intake.accept(letter).await });
    tokio::task::yield_now().await;
    let started = Instant::now();
    stop.cancel();
    let answer = accepting.await.expect("an answer");
    assert!(matches!(answer, Err(Refusal::Unverifiable)), "{answer:?}");
    serving.await.expect("no panic").expect("a clean stop");
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}

/// The address of a socket that takes questions and answers none; it stays open as long as the test.
async fn silence() -> std::net::SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    std::mem::forget(socket);
    address
}

#[tokio::test]
async fn a_submission_by_the_owner_is_the_owners_and_nobody_elses() {
    let world = World::start().await;
    for (submitter, from, trust) in [
        (OWNER, OWNER, "owner"),
        (OWNER, "carol@partner.test", "unauthenticated"),
        ("mallory@evil.test", "mallory@evil.test", "unauthenticated"),
    ] {
        let mut letter = crate::app::letter(&world.plain(from, &format!("{submitter}{from}"), ""));
        letter.envelope.arrival.submitted_by = Address::parse(submitter).ok();
        let accepted = world
            .app
            .engine
            .intake()
            .accept(letter)
            .await
            .expect("stored");
        assert_eq!(
            world.trust_of(accepted.copies[0].message.as_str()).await.0,
            trust,
            "{submitter} as {from}"
        );
    }
}

#[tokio::test]
async fn a_trusted_relays_word_counts_for_and_against() {
    let world = World::start().await;
    #[rustfmt::skip]
    let cases = [
        ("dmarc=pass (p=reject) header.from=partner.test", "carol@partner.test", "contact"),
        ("dkim=pass header.i=@partner.test", "carol@partner.test", "contact"),
        ("dkim=pass header.d=evil.test", "carol@partner.test", "unauthenticated"),
        ("dmarc=pass header.from=evil.test", "carol@partner.test", "unauthenticated"),
        ("spf=pass smtp.mailfrom=carol@partner.test", "carol@partner.test", "unauthenticated"),
        ("dmarc=pass header.from=other.test", "bob@other.test", "unknown"),
        // Perhaps by SPF alone, and never which fields are covered: enough for a correspondent, not for the owner.
        ("dmarc=pass header.from=home.test", OWNER, "contact"),
        ("dkim=pass header.d=home.test", OWNER, "contact"),
        ("dmarc=fail header.from=home.test; dkim=pass header.d=home.test", OWNER, "unauthenticated"),
        (
            "dmarc=pass header.from=partner.test; dmarc=fail header.from=partner.test",
            "carol@partner.test",
            "unauthenticated",
        ),
        ("garbage", OWNER, "unauthenticated"),
    ];
    for (n, (results, from, trust)) in cases.into_iter().enumerate() {
        let letter = world.plain(from, &format!("r{n}"), "");
        let letter = format!("Authentication-Results: MX.relay.test; {results}\r\n{letter}");
        assert_eq!(
            world.found(&letter, Some(RELAY)).await.0,
            trust,
            "{results}"
        );
    }
    // A relay's word does not outlive the letter that it was given on.
    let old = world
        .now()
        .minus(Duration::from_secs(30 * 24 * 3600))
        .to_utc()
        .to_rfc2822();
    let letter = world.plain("carol@partner.test", "kept", "");
    let letter = letter.replace(&world.now().to_utc().to_rfc2822(), &old);
    let letter = format!(
        "Authentication-Results: mx.relay.test; dkim=pass header.d=partner.test\r\n{letter}"
    );
    assert_eq!(
        world.found(&letter, Some(RELAY)).await,
        (
            "unauthenticated".into(),
            "proven, but dated more than 7 days from its arrival".into()
        )
    );
    // What the relay disowns stays disowned, although the signature is good.
    let signed = world.signed("home.test", &world.plain(OWNER, "against", ""));
    let letter = format!(
        "Authentication-Results: mx.relay.test; dmarc=fail header.from=home.test\r\n{signed}"
    );
    assert_eq!(world.found(&letter, Some(RELAY)).await.0, "unauthenticated");
}

#[tokio::test]
async fn a_relays_own_address_is_held_against_nobody() {
    let outside = "203.0.113.77";
    let relays = json!([{ "peers": [outside], "authserv_id": "mx.relay.test" }]);
    let world = World::with(json!({ "trusted_relays": relays })).await;
    let letter = world.plain(OWNER, "behind", "");
    // SPF of home.test names neither; only of the stranger is that known to be the letter's own way.
    assert_eq!(
        world.found(&letter, Some(outside)).await.0,
        "unauthenticated"
    );
    assert_eq!(
        world
            .found(&letter.replace("behind", "before"), Some(STRANGER))
            .await
            .0,
        "refused"
    );
}

/// A list that seals what it passes on, and says what it saw.
fn sealed(
    world: &World,
    arc_signer: &'static str,
    letter: &str,
    from_domain: &str,
    saw: DmarcResult,
) -> String {
    sealed_over(&USUAL, world, arc_signer, letter, (from_domain, saw))
}

fn sealed_over(
    fields: &[&str],
    world: &World,
    arc_signer: &'static str,
    letter: &str,
    (from_domain, saw): (&str, DmarcResult),
) -> String {
    let results = AuthenticationResults::new("mx.lists.test").with_dmarc_result(
        &DmarcOutput::default()
            .with_domain(from_domain)
            .with_dkim_result(saw),
    );
    let message = AuthenticatedMessage::parse(letter.as_bytes()).expect("a letter");
    let arc_signer = ArcSealer::from_key(world.key(arc_signer))
        .domain(arc_signer)
        .selector("s1")
        .headers(fields.iter().copied());
    let set = arc_signer
        .seal(&message, &results, &ArcOutput::default())
        .expect("a seal");
    format!("{}{letter}", set.to_header())
}

#[tokio::test]
async fn seals_of_trusted_lists_carry_what_they_saw() {
    let world = World::start().await;
    let carol = "carol@partner.test";
    // The list changed the subject, so the sender's own signature is broken.
    let broken = |id: &str| {
        world
            .signed("partner.test", &world.plain(carol, id, ""))
            .replace("Subject: Breakfast", "Subject: [l] Breakfast")
    };
    let found = async |letter: &str| world.found(letter, Some(STRANGER)).await.0;
    let authenticated = sealed(
        &world,
        "lists.test",
        &broken("arc1"),
        "partner.test",
        DmarcResult::Pass,
    );
    assert_eq!(
        world.found(&authenticated, Some(STRANGER)).await,
        ("contact".into(), "vouched for by trusted ARC seals".into())
    );
    let untrusted = sealed(
        &world,
        "evil.test",
        &broken("arc2"),
        "partner.test",
        DmarcResult::Pass,
    );
    assert_eq!(found(&untrusted).await, "unauthenticated");
    let saw_nothing = sealed(
        &world,
        "lists.test",
        &broken("arc3"),
        "partner.test",
        DmarcResult::None,
    );
    assert_eq!(found(&saw_nothing).await, "unauthenticated");
    let about_another = sealed(
        &world,
        "lists.test",
        &broken("arc4"),
        "evil.test",
        DmarcResult::Pass,
    );
    assert_eq!(found(&about_another).await, "unauthenticated");
    let beside = ["From", "To", "Date", "Message-ID"];
    let beside = sealed_over(
        &beside,
        &world,
        "lists.test",
        &broken("arc6"),
        ("partner.test", DmarcResult::Pass),
    );
    assert_eq!(
        found(&beside).await,
        "unauthenticated",
        "its subject is not sealed"
    );
    let changed = authenticated.replace("Hello, arc1", "Hello, arcX");
    assert_eq!(found(&changed).await, "unauthenticated");
    // A list authenticates for correspondents, never for the owner.
    let owner = world
        .signed("home.test", &world.plain(OWNER, "arc5", ""))
        .replace("Breakfast", "Lunch");
    let owner = sealed(&world, "lists.test", &owner, "home.test", DmarcResult::Pass);
    assert_eq!(world.found(&owner, Some(STRANGER)).await.0, "contact");
}

#[tokio::test]
async fn a_person_sees_how_much_a_sender_is_believed_and_why() {
    let world = World::start().await;
    let signed = world.signed("home.test", &world.plain(OWNER, "shown", ""));
    let accepted = world
        .hand_over(&signed, Some(STRANGER))
        .await
        .expect("stored");
    let sql = "SELECT thread_id FROM messages WHERE id = $1";
    let thread = world
        .app
        .row(sql, accepted.copies[0].message.as_str())
        .await[0]
        .clone()
        .expect("a thread");
    world.app.drain().await;
    let show = |json: bool| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
        command
            .arg("--workspace")
            .arg(world.app.workspace.path())
            .args(["threads", "show", &thread]);
        let output = command
            .args(json.then_some("--json"))
            .output()
            .expect("the command");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(
        show(false).contains("owner (signed by the sender's domain)"),
        "{}",
        show(false)
    );
    let shown: serde_json::Value = serde_json::from_str(&show(true)).expect("json");
    let message = &shown["messages"][0];
    assert_eq!(
        (&message["trust"], &message["trust_basis"]),
        (&json!("owner"), &json!("signed by the sender's domain"))
    );
    let results = "mail.engine.test; dkim=pass header.d=home.test header.s=s1; spf=fail smtp.mailfrom=home.test; \
        dmarc=pass header.from=home.test policy.dmarc=reject";
    assert_eq!(message["authentication_results"], json!(results));
}
