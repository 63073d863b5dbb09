//! Records that a domain should publish, against a real name server on loopback.

use crate::app::Workspace;
use crate::dns::{DnsStub, Record};
use attache::config::{ResolverSettings, load_with};
use attache::gateway::dns_records::{
    self, CheckedRecord, DomainRecord, RecordPurpose, RecordState,
};
use attache::gateway::identity::dns::DnsResolver;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const RSA: &str = include_str!("../fixtures/dkim/rsa.pem");
const ED25519: &str = include_str!("../fixtures/dkim/ed25519.pem");
/// The public address of the engine's machine.
const HERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

/// An engine of `engine.test` that takes mail from everywhere and signs what its smarthost sends.
fn records(changed: Value) -> Vec<DomainRecord> {
    let workspace = Workspace::new(&json!([]));
    workspace.write("keys/rsa.pem", RSA);
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(workspace.path().join("keys/rsa.pem"), mode).expect("a mode");
    let mut gateway = json!({
        "mail_domain": "engine.test", "host_name": "mail.engine.test", "owners": ["olga@home.test"],
        "listeners": [{ "address": "0.0.0.0:25" }],
        "outbound": {
            "kind": "smarthost", "host": "127.0.0.1", "port": 25, "tls": "none",
            "dkim": [{ "domain": "engine.test", "selector": "s1", "key": "keys/rsa.pem" }],
        },
    });
    for (key, value) in changed.as_object().into_iter().flatten() {
        gateway[key] = value.clone();
    }
    workspace.write_json("configs/gateway.json", &gateway);
    let names = attache::cli::name_catalog();
    let password = |name: &str| name.ends_with("_PASSWORD").then(|| "made-up".to_owned());
    let config = load_with(workspace.path(), &names, &password);
    dns_records::wanted(&config.expect("a good configuration"))
}

fn key_of(pem: &str) -> String {
    let signer = attache::mime::Signer::from_pem("engine.test", "s1", pem.as_bytes());
    signer.expect("a key").record().text
}

/// Everything as it should be.
async fn good_zone() -> DnsStub {
    let stub = DnsStub::start().await;
    stub.add("engine.test", Record::Mx(10, "mail.engine.test".to_owned()));
    stub.add("mail.engine.test", Record::A(HERE));
    stub.txt("engine.test", "an unrelated text");
    stub.txt("engine.test", "v=spf1 a:mail.engine.test -all");
    stub.txt("s1._domainkey.engine.test", &key_of(RSA));
    stub.txt("_dmarc.engine.test", "v=DMARC1; p=quarantine");
    stub
}

async fn check(server: SocketAddr, records: &[DomainRecord]) -> Vec<CheckedRecord> {
    let resolver = DnsResolver::new(&ResolverSettings {
        servers: vec![server],
        timeout: Duration::from_millis(250),
    });
    dns_records::check(&resolver.expect("a resolver"), records).await
}

/// Purpose, state and message of each record.
fn told<'a>(checked: &'a [CheckedRecord]) -> Vec<(RecordPurpose, RecordState, &'a str)> {
    let one = |one: &'a CheckedRecord| (one.record.purpose, one.state, one.message.as_str());
    checked.iter().map(one).collect()
}

fn of(checked: &[CheckedRecord], purpose: RecordPurpose) -> &CheckedRecord {
    let found = checked.iter().find(|one| one.record.purpose == purpose);
    found.expect("a record of that purpose")
}

#[test]
fn each_record_is_said_with_its_value_and_its_reason() {
    let records = records(json!({}));
    let lines: Vec<String> = records.iter().filter_map(DomainRecord::zone_line).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[0], "engine.test. IN MX 10 mail.engine.test.");
    assert_eq!(
        lines[1],
        "engine.test. IN TXT \"v=spf1 a:mail.engine.test ~all\""
    );
    assert!(
        lines[2].starts_with("s1._domainkey.engine.test. IN TXT \"v=DKIM1; k=rsa; p=")
            && lines[2].contains("\" \""),
        "a long text is cut into strings: {}",
        lines[2]
    );
    assert_eq!(
        lines[3],
        "_dmarc.engine.test. IN TXT \"v=DMARC1; p=quarantine\""
    );
    assert!(records.iter().all(|record| record.why.len() > 20));
}

#[test]
fn ways_in_and_out_decide_which_records_there_are() {
    let purposes = |changed: Value| -> Vec<(RecordPurpose, Option<String>)> {
        let records = records(changed).into_iter();
        records
            .map(|record| (record.purpose, record.value))
            .collect()
    };
    let folder = json!({ "kind": "folder", "path": "data/outbox" });
    let rented = json!({
        "listeners": [],
        "mailboxes": [{ "name": "m", "host": "imap.rented.test", "user": "ada" }],
        "outbound": { "kind": "smarthost", "host": "smtp.migadu.com" },
    });
    assert_eq!(
        purposes(json!({ "listeners": [], "outbound": folder })),
        [],
        "nothing comes in and nothing is sent"
    );
    assert_eq!(
        purposes(rented),
        [
            (RecordPurpose::Mx, None),
            (
                RecordPurpose::Spf,
                Some("v=spf1 include:spf.migadu.com ~all".to_owned())
            ),
            (RecordPurpose::Dmarc, Some("v=DMARC1; p=none".to_owned())),
        ]
    );
    let elsewhere = json!({ "outbound": { "kind": "smarthost", "host": "192.0.2.9" } });
    assert_eq!(
        purposes(elsewhere)[1].1.as_deref(),
        Some("v=spf1 ip4:192.0.2.9 ~all")
    );
}

/// Mail domain, host of the mailbox, and whether its owner can publish records there.
const FETCHED: [(&str, &str, bool); 14] = [
    ("fastpost.example", "imap.fastpost.example", false),
    ("fastpost.example", "mail.eu.fastpost.example", false),
    ("fastpost.example", "fastpost.example", false),
    ("gmail.com", "imap.gmail.com", false),
    ("googlemail.com", "imap.gmail.com", false),
    ("fastmail.fm", "imap.fastmail.com", false),
    ("outlook.com", "outlook.office365.com", false),
    ("me.com", "imap.mail.me.com", false),
    ("gmx.de", "imap.gmx.net", false),
    ("proton.me", "127.0.0.1", false),
    ("freda.example", "imap.migadu.com", true),
    ("freda.example", "imap.gmail.com", true),
    ("freda.example", "imap.notfreda.example", true),
    ("engine.test", "imap.rented.test", true),
];

#[test]
fn nobody_is_told_to_publish_records_of_a_providers_domain() {
    let smarthost = |host: &str| json!({ "kind": "smarthost", "host": host, "user": "freda" });
    for (domain, host, is_own) in FETCHED {
        let tls = if host == "127.0.0.1" {
            "none"
        } else {
            "implicit"
        };
        let wanted = records(json!({
            "mail_domain": domain, "listeners": [], "outbound": smarthost("smtp.relay.example"),
            "mailboxes": [{ "name": "m", "host": host, "user": "freda", "tls": tls }],
        }));
        assert_eq!(!wanted.is_empty(), is_own, "{domain} at {host}: {wanted:?}");
    }
    let signed = records(json!({
        "listeners": [], "mailboxes": [{ "name": "m", "host": "imap.engine.test", "user": "ada" }],
    }));
    assert!(
        !signed.is_empty(),
        "who has a key for a domain publishes it"
    );
    let received =
        records(json!({ "mail_domain": "gmx.net", "outbound": smarthost("mail.gmx.net") }));
    assert!(
        !received.is_empty(),
        "its own mail server is told what that takes"
    );
}

#[tokio::test]
async fn what_is_published_as_it_should_be_is_good() {
    let stub = good_zone().await;
    let checked = check(stub.address, &records(json!({}))).await;
    assert_eq!(checked.len(), 4);
    assert!(
        checked.iter().all(CheckedRecord::is_good),
        "{:#?}",
        told(&checked)
    );
    assert_eq!(
        of(&checked, RecordPurpose::Spf).published,
        ["v=spf1 a:mail.engine.test -all"],
        "texts of other purposes are not shown"
    );
}

#[tokio::test]
async fn what_is_not_published_is_missing() {
    let stub = DnsStub::start().await;
    let checked = check(stub.address, &records(json!({}))).await;
    for (purpose, state, message) in told(&checked) {
        assert_eq!(state, RecordState::Missing, "{purpose:?}: {message}");
    }
    assert_eq!(checked.len(), 4);
}

#[tokio::test]
async fn nothing_is_green_when_nobody_answers() {
    let stub = good_zone().await;
    let address = stub.address;
    let records = records(json!({}));
    stub.stop().await;
    let closed = check(address, &records).await;
    let silent = DnsStub::start().await;
    for name in [
        "engine.test",
        "mail.engine.test",
        "s1._domainkey.engine.test",
        "_dmarc.engine.test",
    ] {
        silent.add(name, Record::ServFail);
    }
    let failing = check(silent.address, &records).await;
    for checked in [closed, failing] {
        assert_eq!(checked.len(), 4);
        for (purpose, state, message) in told(&checked) {
            assert_eq!(state, RecordState::Unasked, "{purpose:?}: {message}");
            assert!(message.contains("no name server answered"), "{message}");
        }
    }
}

/// Replaces the records of one name of the good zone, and returns the check of one purpose.
async fn with(name: &str, records_there: Vec<Record>, purpose: RecordPurpose) -> CheckedRecord {
    let stub = good_zone().await;
    stub.set_name(name, records_there);
    let checked = check(stub.address, &records(json!({}))).await;
    of(&checked, purpose).clone()
}

fn text(text: &str) -> Record {
    crate::dns::txt(text.as_bytes())
}

#[tokio::test]
async fn what_differs_is_shown_beside_what_should_be() {
    use RecordPurpose::{Dkim, Dmarc, Mx, Spf};
    let mx = |host: &str| vec![Record::Mx(10, host.to_owned())];
    let (ed, rsa) = (key_of(ED25519), key_of(RSA));
    let (here, key, policy) = (
        "engine.test",
        "s1._domainkey.engine.test",
        "_dmarc.engine.test",
    );
    #[rustfmt::skip]
    let table: Vec<(&str, Vec<Record>, RecordPurpose, &str)> = vec![
        (here, mx("mx.other.test"), Mx, "letters go to mx.other.test, not to mail.engine.test"),
        (here, mx(""), Mx, "takes no mail"),
        ("mail.engine.test", vec![], Mx, "mail.engine.test has no address"),
        (here, vec![text("v=spf1 mx -all"), text("v=spf1 -all")], Spf, "there are 2 SPF records"),
        (here, vec![text("v=spf1 nonsense -all")], Spf, "cannot read the SPF record"),
        (here, vec![text("v=spf1 ip4:192.0.2.1 -all")], Spf, "does not permit mail.engine.test (192.0.2.7): fail"),
        (here, vec![text("v=spf1 include:gone.test -all")], Spf, "cannot evaluate the SPF record"),
        (key, vec![text(&ed)], Dkim, "another key than the one that signs"),
        (key, vec![text("v=DKIM1; p=")], Dkim, "the key is revoked"),
        (key, vec![text("v=DKIM1 p")], Dkim, "cannot read the key"),
        (key, vec![text(&rsa), text(&ed)], Dkim, "there are 2 records"),
        (policy, vec![text("v=DMARC1; p=none"), text("v=DMARC1; p=reject")], Dmarc, "there are 2 policies"),
    ];
    for (name, there, purpose, said) in table {
        let checked = with(name, there, purpose).await;
        assert_eq!(checked.state, RecordState::Different, "{said}: {checked:?}");
        assert!(checked.message.contains(said), "{}", checked.message);
        assert!(checked.record.value.is_some(), "{said}");
    }
}

#[tokio::test]
async fn a_record_that_permits_others_is_extended_and_not_replaced() {
    let stub = good_zone().await;
    let there = "v=spf1 ip4:192.0.2.1 include:news.test -all";
    stub.set_name("engine.test", vec![text(there)]);
    stub.txt("news.test", "v=spf1 ip4:192.0.2.2 -all");
    let checked = check(stub.address, &records(json!({}))).await;
    let checked = of(&checked, RecordPurpose::Spf);
    assert_eq!(
        checked.record.value.as_deref(),
        Some("v=spf1 a:mail.engine.test ip4:192.0.2.1 include:news.test -all")
    );
    assert_eq!(checked.published, [there]);
}

#[tokio::test]
async fn a_provider_is_permitted_by_its_name_and_a_policy_may_stand_above() {
    let stub = DnsStub::start().await;
    stub.add(
        "mail.house.test",
        Record::Mx(10, "mx.rented.test".to_owned()),
    );
    stub.add("mx.rented.test", Record::A(HERE));
    stub.txt("mail.house.test", "v=spf1 redirect=spf.migadu.com");
    stub.txt("_dmarc.house.test", "v=DMARC1; p=reject");
    let records = records(json!({
        "mail_domain": "mail.house.test", "listeners": [],
        "mailboxes": [{ "name": "m", "host": "imap.rented.test", "user": "ada" }],
        "outbound": { "kind": "smarthost", "host": "smtp.migadu.com" },
    }));
    let checked = check(stub.address, &records).await;
    assert_eq!(
        told(&checked),
        [
            (RecordPurpose::Mx, RecordState::Good, "published"),
            (
                RecordPurpose::Spf,
                RecordState::Good,
                "published, and permits spf.migadu.com"
            ),
            (
                RecordPurpose::Dmarc,
                RecordState::Good,
                "published at _dmarc.house.test"
            ),
        ]
    );
}
