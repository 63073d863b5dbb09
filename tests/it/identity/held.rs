//! While no name server says who sent a letter, nobody is taken at their word: peers come again, other letters are held
//! and verified later (decision D-22).

use super::world::{STRANGER, World, silent};
use crate::app::audited::examined;
use crate::app::db;
use crate::app::{TestApp, letter};
use crate::dns::Record;
use attache::clock::Clock;
use attache::domain::{Arrival, Letter, MailboxUid, MessageId, Via};
use attache::gateway::intake::Intake;
use attache::gateway::intake_contract::{CopyOutcome, LetterIntake as _, Refusal};
use attache::store::audit::AuditScope;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Carol's letter under a key that nobody hands out.
fn of_carol(world: &World, id: &str) -> String {
    let eml = world.signed("partner.test", &world.plain("carol@partner.test", id, ""));
    eml.replacen("s=s1", "s=away", 1)
}

fn fetched(eml: &str, uid: u32) -> Letter {
    let mut letter = letter(eml);
    letter.envelope.via = Via::Imap;
    let mailbox = Some(MailboxUid {
        mailbox: "post".to_owned(),
        uid_validity: 7,
        uid,
    });
    letter.envelope.arrival = Arrival {
        mailbox,
        ..Arrival::default()
    };
    letter
}

async fn count(app: &TestApp, sql: &'static str) -> i64 {
    db::query_scalar(sql)
        .fetch_one(&mut app.workspace.rows().await)
        .await
        .expect("a count")
}

/// Checks of an audit that take no reading of everything.
const UNASKED: AuditScope = AuditScope {
    bytes: false,
    at_rest: false,
};
const HELD: &str = "SELECT count(*) FROM held_letters";
const MESSAGES: &str = "SELECT count(*) FROM messages WHERE direction = 'inbound'";

#[tokio::test]
#[ignore = "second tier"]
async fn an_allow_listed_name_is_not_believed_without_a_name_server() {
    let world = World::start().await;
    for name in ["_dmarc.partner.test", "_dmarc.home.test", "_dmarc.bob.test"] {
        world.dns.set(crate::dns::Zone::from([(
            name.to_owned(),
            vec![Record::Silent],
        )]));
        let domain = name.trim_start_matches("_dmarc.");
        let forged = world.plain(&format!("carol@{domain}"), domain, "");
        let refused = world.hand_over(&forged, Some(STRANGER)).await;
        assert!(
            matches!(refused, Err(Refusal::Unverifiable)),
            "{domain}: {refused:?}"
        );
    }
    assert_eq!(
        (
            count(&world.app, MESSAGES).await,
            count(&world.app, HELD).await
        ),
        (0, 0),
        "its peer keeps it"
    );
}

#[tokio::test]
async fn a_signature_without_a_key_turns_no_refusal_into_an_answer() {
    let world = World::start().await;
    world.dns.txt("_dmarc.strict.test", "v=DMARC1; p=reject");
    let forged = world.plain("carol@strict.test", "f", "");
    let refused = world.hand_over(&forged, Some(STRANGER)).await;
    assert!(matches!(refused, Err(Refusal::Disowned)), "{refused:?}");
    world.dns.add("s1._domainkey.strict.test", Record::ServFail);
    let signed = world
        .signed("evil.test", &forged)
        .replacen("d=evil.test", "d=strict.test", 1);
    let refused = world.hand_over(&signed, Some(STRANGER)).await;
    assert!(matches!(refused, Err(Refusal::Unverifiable)), "{refused:?}");
    assert_eq!(count(&world.app, MESSAGES).await, 0);
    // Who is proven by something else waits for nobody.
    world
        .dns
        .add("s2._domainkey.partner.test", Record::ServFail);
    let carol = world.signed("partner.test", &world.plain("carol@partner.test", "c", ""));
    let (field, _) = carol.split_once("From:").expect("a letter");
    let both = format!("{}{carol}", field.replacen("s=s1", "s=s2", 1));
    assert_eq!(world.found(&both, Some(STRANGER)).await.0, "contact");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_letter_is_held_over_a_restart_until_its_sender_is_known() {
    let world = World::start().await;
    silent(&world.dns, "s1._domainkey.late.test");
    let carol = world.signed(
        "partner.test",
        &world.plain("carol@partner.test", "held", ""),
    );
    let stranger = world.signed("small.test", &world.plain("ann@late.test", "never", ""));
    let stranger = stranger.replacen("d=small.test", "d=late.test", 1);
    let mut zone = crate::dns::Zone::from([(
        "s1._domainkey.partner.test".to_owned(),
        vec![Record::Silent],
    )]);
    zone.insert("s1._domainkey.late.test".to_owned(), vec![Record::Silent]);
    let keys = world.key_record("partner.test");
    world.dns.set(zone);
    let World { dns, app, .. } = world;
    let mut ids = Vec::new();
    for (uid, eml) in [(1, &carol), (2, &stranger), (1, &carol)] {
        let accepted = app
            .engine
            .intake()
            .accept(fetched(eml, uid))
            .await
            .expect("taken");
        assert_eq!(accepted.copies[0].outcome, CopyOutcome::Held);
        ids.push(accepted.copies[0].message.clone());
    }
    assert_eq!(
        ids[0], ids[2],
        "the same letter again is the one that is held"
    );
    let state = async |app: &TestApp| (count(app, HELD).await, count(app, MESSAGES).await);
    assert_eq!(state(&app).await, (2, 0));
    assert_eq!(
        count(
            &app,
            "SELECT count(*) FROM mailbox_letters WHERE outcome = 'taken'"
        )
        .await,
        2
    );
    let mut rows = app.workspace.rows().await;
    let found = examined(&mut rows, UNASKED).await;
    assert_eq!(found.pending.letters, 2, "`doctor` tells of them");
    drop(rows);
    // Still nobody answers.
    app.workspace.clock.advance(Duration::from_secs(61));
    app.drain().await;
    assert_eq!(state(&app).await, (2, 0));
    let app = app.restart().await;
    dns.txt("s1._domainkey.partner.test", &keys);
    dns.txt("s1._domainkey.late.test", &keys);
    assert_eq!(app.drain().await.runs, 0, "it is not due yet");
    app.workspace.clock.advance(Duration::from_secs(300));
    assert_eq!(app.drain().await.runs, 1);
    assert_eq!(state(&app).await, (0, 2));
    let sent: Vec<String> = app
        .sent()
        .iter()
        .flat_map(|mail| mail.to.iter().map(|to| to.spec.clone()))
        .collect();
    assert_eq!(sent, ["carol@partner.test"]);
    lie_as_they_were_judged(&app, &ids[0], &ids[1]).await;
    app.check().await;
}

/// The known sender's letter is answered, the other one filed, both with the time of their arrival.
async fn lie_as_they_were_judged(app: &TestApp, known: &MessageId, unknown: &MessageId) {
    let sql = "SELECT trust, disposition, received_at FROM messages WHERE id = $1";
    let known = app.row(sql, known.as_str()).await;
    assert_eq!(
        (known[0].as_deref(), known[1].as_deref()),
        (Some("contact"), Some("run"))
    );
    let unknown = app.row(sql, unknown.as_str()).await;
    assert_eq!(
        (unknown[0].as_deref(), unknown[1].as_deref()),
        (Some("unauthenticated"), Some("filed:unauthenticated"))
    );
    assert!(
        known[2] < Some(app.workspace.clock.now().to_string()),
        "it came when it came"
    );
    assert_eq!(
        count(app, "SELECT count(*) FROM mailbox_letters").await,
        2,
        "its outcome there was noted once"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_nobody_could_say_or_is_denied_in_five_days_is_filed() {
    let world = World::start().await;
    let never = of_carol(&world, "never");
    silent(&world.dns, "away._domainkey.partner.test");
    let app = world.app;
    let accepted = app.receive(&never).await.expect("taken");
    assert_eq!(accepted.copies[0].outcome, CopyOutcome::Held);
    app.workspace.clock.advance(DAY);
    app.drain().await;
    assert_eq!(count(&app, HELD).await, 1);
    app.workspace.clock.advance(DAY * 4);
    assert_eq!(app.drain().await.runs, 0);
    assert_eq!(count(&app, HELD).await, 0);
    let sql = "SELECT disposition FROM messages WHERE id = $1";
    let filed = app.row(sql, accepted.copies[0].message.as_str()).await;
    assert_eq!(filed[0].as_deref(), Some("filed:unverifiable"));
    // Denied since.
    let denied = never.replace("never@", "denied@");
    let accepted = app.receive(&denied).await.expect("taken");
    app.workspace.set(
        "configs/security.json",
        "/access/deny",
        json!(["*@partner.test"]),
    );
    let app = app.restart().await;
    world.dns.txt("away._domainkey.partner.test", "v=DKIM1; p=");
    app.workspace.clock.advance(DAY);
    assert_eq!(app.drain().await.runs, 0);
    let filed = app.row(sql, accepted.copies[0].message.as_str()).await;
    assert_eq!(filed[0].as_deref(), Some("filed:access"));
    app.check().await;
}

#[tokio::test]
async fn the_owner_is_told_that_no_name_server_answers() {
    let world = World::start().await;
    let never = of_carol(&world, "never");
    silent(&world.dns, "away._domainkey.partner.test");
    let config = world.app.engine.config.clone();
    let intake = Intake::new(
        world.app.engine.store.clone(),
        config,
        Arc::new(Notify::new()),
    )
    .expect("a door");
    intake.accept(fetched(&never, 1)).await.expect("held");
    intake.tell_shortages().await;
    world.app.drain().await;
    let told = world.app.notices();
    assert_eq!(told.len(), 1);
    assert_eq!(
        told[0].subject,
        "[attache] letters are refused for want of an answer of name servers"
    );
    let text = &told[0].text;
    assert!(
        text.contains("no name server says who sent them; so far: 1"),
        "{text}"
    );
    assert!(text.contains("authentication.resolver.servers"), "{text}");
}
