//! Our own mail is signed when it is frozen. mail-auth verifies here; OpenDKIM and Mail::DKIM in `tests/peers/dkim.sh`.

use crate::app::db;
use crate::app::rows::unpacked;
use crate::app::{TestApp, Workspace, note};
use attache::config::load;
use attache::domain::{Address, Timestamp};
use attache::mime::{Automatic, KeyError, Outgoing, Signer, Signers, compose};
use mail_auth::common::parse::TxtRecordParser;
use mail_auth::common::verify::DomainKey;
use mail_auth::hickory_resolver::config::{ResolverConfig, ResolverOpts};
use mail_auth::{
    AuthenticatedMessage, DkimResult, Error, MessageAuthenticator, Parameters, ResolverCache, Txt,
};
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const ED25519: &str = include_str!("../fixtures/dkim/ed25519.pem");
const RSA: &str = include_str!("../fixtures/dkim/rsa.pem");
const RSA_PKCS1: &str = include_str!("../fixtures/dkim/rsa_pkcs1.pem");

fn signer(selector: &str, pem: &str) -> Signer {
    Signer::from_pem("Engine.Test", selector, pem.as_bytes()).expect("a key")
}

fn signers() -> Signers {
    Signers::new(vec![
        signer("ed", ED25519),
        signer("rsa", RSA),
        signer("old", RSA_PKCS1),
    ])
}

/// What the domain publishes, as a resolver that never asks anybody.
struct Zone(Mutex<HashMap<Box<str>, Txt>>);

impl Zone {
    fn publishing(signers: &Signers) -> Self {
        let records = signers.iter().map(|signer| {
            let record = signer.record();
            let key =
                DomainKey::parse(record.text.as_bytes()).expect("a record that verifiers can read");
            (
                format!("{}.", record.name).into(),
                Txt::DomainKey(Arc::new(key)),
            )
        });
        Self(Mutex::new(records.collect()))
    }
}

impl ResolverCache<Box<str>, Txt> for Zone {
    fn get<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
    {
        Some(
            self.0
                .lock()
                .unwrap()
                .get(name)
                .cloned()
                .unwrap_or(Txt::Error(Error::ParseError)),
        )
    }
    fn remove<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
    {
        self.0.lock().unwrap().remove(name)
    }
    fn insert(&self, name: Box<str>, record: Txt, _until: Instant) {
        self.0.lock().unwrap().insert(name, record);
    }
}

/// Selector and verdict of every signature.
async fn verdicts(bytes: &[u8], zone: &Zone) -> Vec<(String, bool)> {
    let nobody = MessageAuthenticator::new(ResolverConfig::default(), ResolverOpts::default());
    let message = AuthenticatedMessage::parse(bytes).expect("a mail");
    let asked = Parameters::new(&message).with_txt_cache(zone);
    let found = nobody.expect("a resolver").verify_dkim(asked).await;
    let verdict = |output: &mail_auth::DkimOutput<'_>| {
        let selector = output
            .signature()
            .map(|signature| signature.s.clone())
            .unwrap_or_default();
        (selector, matches!(output.result(), DkimResult::Pass))
    };
    found.iter().map(verdict).collect()
}

fn address(text: &str) -> Address {
    Address::parse(text).expect("an address")
}

fn at() -> Timestamp {
    Timestamp::parse("2026-03-01T09:00:00.999Z").expect("an instant")
}

fn mail() -> Vec<u8> {
    let outgoing = Outgoing {
        message_id: "1@engine.test".to_owned(),
        date: at(),
        from_name: "Ada, the concierge of a house with a long name that has to be folded somewhere"
            .to_owned(),
        from: address("ada@engine.test"),
        to: vec![address("bob@guest.example"), address("carol@guest.example")],
        cc: Vec::new(),
        subject: "Frühstück  mit   Lücken".to_owned(),
        in_reply_to: Some("q1@guest.example".to_owned()),
        references: (0..20).map(|n| format!("q{n}@guest.example")).collect(),
        loop_token: None,
        automatic: Automatic::Replied,
        body_markdown: "From seven to ten. \n\n\n.\nBest  regards,\t\nAda\n\n\n".to_owned(),
        footer: attache::mime::LetterFooter::default(),
        calendar: None,
        attachments: Vec::new(),
    };
    compose(&outgoing).expect("a mail")
}

fn sealed() -> Vec<u8> {
    signers()
        .seal(mail(), &address("ada@engine.test"), at())
        .expect("signed")
}

#[tokio::test]
async fn every_kind_of_key_makes_signatures_that_verify() {
    let sealed = sealed();
    let good = ["ed", "rsa", "old"].map(|selector| (selector.to_owned(), true));
    assert_eq!(verdicts(&sealed, &Zone::publishing(&signers())).await, good);
    assert!(sealed.ends_with(&mail()), "the mail itself is untouched");
    let text = String::from_utf8(sealed).expect("ASCII");
    let (top, _) = text
        .split_once("\r\nDate: ")
        .expect("our own header follows");
    assert!(top.split("\r\n").all(|line| line.len() <= 100), "{top}");
    for wanted in [
        "a=ed25519-sha256",
        "a=rsa-sha256",
        "c=relaxed/relaxed",
        "d=engine.test",
        "t=1772355600",
    ] {
        assert!(top.contains(wanted), "{wanted}: {top}");
    }
    assert!(
        !top.contains("l="),
        "no length limit: what is appended must break the signature"
    );
}

#[tokio::test]
async fn whatever_is_changed_or_added_breaks_every_signature() {
    let zone = Zone::publishing(&signers());
    let text = String::from_utf8(sealed()).expect("ASCII");
    let insert = |field: &str| text.replacen("\r\nDate: ", &format!("\r\n{field}\r\nDate: "), 1);
    let forged = [
        text.replacen("To: bob@", "To: mallory@", 1),
        text.replacen("Message-ID: <1@", "Message-ID: <2@", 1),
        text.replacen("seven", "eight", 1),
        format!("{text}PS\r\n"),
        insert("From: <mallory@evil.test>"),
        insert("Subject: Invoice"),
        insert("Reply-To: <mallory@evil.test>"),
        insert("Cc: <mallory@evil.test>"),
        insert("Sender: <mallory@evil.test>"),
        insert("Content-Type: text/html"),
    ];
    for forged in forged {
        assert_ne!(forged, text, "the case changes something");
        let verdicts = verdicts(forged.as_bytes(), &zone).await;
        assert_eq!(
            verdicts.iter().filter(|(_, passes)| *passes).count(),
            0,
            "{forged}"
        );
    }
    // The control: what relays may do does not break them.
    let relayed = format!(
        "Received: from a by b\r\n{}",
        text.replace("\r\n <q3@", "\r\n\t  <q3@")
    );
    assert!(
        verdicts(relayed.as_bytes(), &zone)
            .await
            .iter()
            .all(|(_, passes)| *passes)
    );
}

#[test]
fn the_same_mail_is_signed_the_same_foreign_senders_left_alone() {
    assert_eq!(sealed(), sealed());
    for foreign in [
        "ada@other.test",
        "ada@sub.engine.test",
        "ada@engine.test.example",
    ] {
        let bytes = signers()
            .seal(mail(), &address(foreign), at())
            .expect("left alone");
        assert_eq!(bytes, mail(), "{foreign}");
    }
}

#[test]
fn what_is_no_signing_key_is_refused() {
    let read = |pem: &str| Signer::from_pem("engine.test", "s", pem.as_bytes()).map(drop);
    let elliptic = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    assert_eq!(read(&elliptic.serialize_pem()), Err(KeyError::Unusable));
    let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
    for text in ["", "a key", public, &ED25519[..60]] {
        assert_eq!(read(text), Err(KeyError::NotPem), "{text}");
    }
    assert!(
        !format!("{:?}", signers()).contains("PRIVATE"),
        "a key is never printed"
    );
}

#[test]
fn a_record_is_published_in_pieces_that_fit() {
    let line = signer("rsa", RSA).record().zone_line();
    let strings: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
    assert!(
        line.starts_with("rsa._domainkey.engine.test. IN TXT ( \"v=DKIM1; k=rsa; p=MIIB"),
        "{line}"
    );
    assert!(
        strings.len() == 2 && strings.iter().all(|string| string.len() <= 255),
        "{line}"
    );
    assert_eq!(strings.concat(), signer("rsa", RSA).record().text);
}

fn house(keys: &Value) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [{ "say": "From seven to ten." }] }));
    for (name, pem) in [
        ("ed.pem", ED25519),
        ("rsa.pem", RSA),
        ("open.pem", RSA),
        ("junk.pem", "junk"),
    ] {
        workspace.write(name, pem);
        let mode = if name == "open.pem" { 0o640 } else { 0o600 };
        let file = workspace.path().join(name);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let outbound = json!({ "kind": "folder", "path": "data/outbox", "dkim": keys });
    workspace.set("configs/gateway.json", "/outbound", outbound);
    workspace
}

fn key(domain: &str, selector: &str, file: &str) -> Value {
    json!({ "domain": domain, "selector": selector, "key": file })
}

#[tokio::test]
async fn an_answer_is_signed_when_frozen_and_goes_out_as_frozen() {
    let keys = json!([
        key("engine.test", "ed", "ed.pem"),
        key("engine.test", "rsa", "rsa.pem")
    ]);
    let app: TestApp = house(&keys).start().await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    app.check().await;
    let outbox = std::fs::read_dir(app.workspace.path().join("data/outbox")).expect("the outbox");
    let mails: Vec<Vec<u8>> = outbox
        .map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a mail"))
        .collect();
    assert_eq!(mails.len(), 1);
    let zone = Zone::publishing(&app.engine.config.gateway.signers);
    let good = ["ed", "rsa"].map(|selector| (selector.to_owned(), true));
    assert_eq!(verdicts(&mails[0], &zone).await, good);
    let frozen: Vec<u8> = db::query_scalar("SELECT bytes FROM deliveries")
        .fetch_one(&mut app.workspace.rows().await)
        .await
        .expect("one delivery");
    assert_eq!(unpacked(&frozen), mails[0]);
}

#[test]
fn keys_that_cannot_be_used_are_named_with_their_place() {
    let problems = |keys: Value| {
        let workspace = house(&keys);
        let errors = load(workspace.path(), &attache::cli::name_catalog())
            .expect_err("keys that cannot be used");
        errors
            .problems
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let cases = [
        (
            json!([key("engine.test", "s", "open.pem")]),
            "others may read `open.pem`: its mode is 0640",
        ),
        (
            json!([key("engine.test", "s", "junk.pem")]),
            "dkim[0].key: `junk.pem` holds no private key in PEM",
        ),
        (
            json!([key("other.test", "s", "ed.pem")]),
            "outbound.dkim: no key signs the mail of `ada@engine.test`",
        ),
        (
            json!([
                key("engine.test", "s", "ed.pem"),
                key("Engine.Test", "s", "rsa.pem")
            ]),
            "dkim[1].selector: `s` has two keys in this domain",
        ),
    ];
    for (keys, wanted) in cases {
        let found = problems(keys);
        assert!(found.contains(wanted), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}
