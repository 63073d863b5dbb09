//! A small world: domains that publish keys and policies on a name server of the test, and an engine that asks it.

use crate::app::db;
use crate::app::{TestApp, Workspace, letter};
use crate::dns::{DnsStub, Record};
use attache::domain::{Address, Letter, Timestamp, Via};
use attache::gateway::identity::SenderVerifier;
use attache::gateway::intake_contract::{Accepted, CopyOutcome, Refusal};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_auth::common::crypto::Ed25519Key;
use mail_auth::common::headers::HeaderWriter;
use mail_auth::dkim::DkimSigner;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::IpAddr;

/// A mail server of home.test; every other address is nobody's.
pub const HOME: &str = "203.0.113.10";
pub const STRANGER: &str = "198.51.100.66";
pub const RELAY: &str = "127.0.0.9";
/// What signers usually sign.
pub const USUAL: [&str; 5] = ["From", "To", "Subject", "Date", "Message-ID"];

pub struct World {
    pub dns: DnsStub,
    pub app: TestApp,
    verifier: SenderVerifier,
    keys: HashMap<&'static str, Vec<u8>>,
}

impl World {
    pub async fn start() -> Self {
        Self::with(json!({})).await
    }

    /// `more` are further members of `authentication`.
    pub async fn with(more: Value) -> Self {
        Self::in_workspace(
            Workspace::new(&json!({ "rules": [{ "say": "Yes." }] })),
            more,
        )
        .await
    }

    /// The same with another model or other personas.
    pub async fn in_workspace(workspace: Workspace, more: Value) -> Self {
        let dns = DnsStub::start().await;
        let mut authentication = json!({
            "resolver": { "servers": [dns.address.to_string()], "timeout": "300ms" },
            "trusted_relays": [{ "peers": [RELAY], "authserv_id": "mx.relay.test" }],
            "trusted_arc_signers": ["lists.test"],
        });
        for (key, value) in more.as_object().expect("an object") {
            authentication[key] = value.clone();
        }
        // Signers of the library take the time from the system, so everything happens now.
        workspace.clock.set(Timestamp::from(chrono::Utc::now()));
        workspace.set(
            "configs/security.json",
            "/access",
            json!({ "allow": ["*@partner.test", "*@strict.test"] }),
        );
        workspace.set("configs/security.json", "/authentication", authentication);
        let mut keys = HashMap::new();
        for domain in [
            "home.test",
            "partner.test",
            "evil.test",
            "lists.test",
            "small.test",
            "mail.small.test",
        ] {
            let pkcs8 = Ed25519Key::generate_pkcs8().expect("a key");
            dns.txt(&format!("s1._domainkey.{domain}"), &key_record(&pkcs8, ""));
            keys.insert(domain, pkcs8);
        }
        dns.txt("_dmarc.home.test", "v=DMARC1; p=reject");
        dns.txt("home.test", &format!("v=spf1 ip4:{HOME} -all"));
        dns.txt("_dmarc.partner.test", "v=DMARC1; p=quarantine; adkim=s");
        dns.txt("evil.test", "v=spf1 +all");
        let app = workspace.start().await;
        let clock = app.workspace.clock.clone();
        let verifier = SenderVerifier::new(&app.engine.config, clock).expect("a verifier");
        Self {
            dns,
            app,
            verifier,
            keys,
        }
    }

    pub fn now(&self) -> Timestamp {
        use attache::clock::Clock;
        self.app.workspace.clock.now()
    }

    /// A letter to Ada; `more` are header lines, each with its line end.
    pub fn plain(&self, from: &str, id: &str, more: &str) -> String {
        let date = self.now().to_utc().to_rfc2822();
        format!(
            "From: {from}\r\nTo: ada@engine.test\r\nSubject: Breakfast\r\nMessage-ID: <{id}@x.test>\r\n\
             Date: {date}\r\n{more}\r\nHello, {id}.\r\n"
        )
    }

    /// The letter with a signature of that domain on top.
    pub fn signed(&self, domain: &'static str, letter: &str) -> String {
        self.signed_with(domain, letter, &USUAL, |signer| signer)
    }

    pub fn signed_with(
        &self,
        domain: &'static str,
        letter: &str,
        fields: &[&str],
        shape: impl FnOnce(Signer) -> Signer,
    ) -> String {
        let signer = DkimSigner::from_key(self.key(domain))
            .domain(domain)
            .selector("s1");
        let signer = shape(signer.headers(fields.iter().copied()));
        format!(
            "{}{letter}",
            signer
                .sign(letter.as_bytes())
                .expect("a signature")
                .to_header()
        )
    }

    pub fn key(&self, domain: &str) -> Ed25519Key {
        Ed25519Key::from_pkcs8_der(&self.keys[domain]).expect("a key")
    }

    /// The record under which a domain publishes its key.
    pub fn key_record(&self, domain: &str) -> String {
        key_record(&self.keys[domain], "")
    }

    /// Publishes the key of a domain once more, under another selector, with further tags.
    pub fn publish(&self, domain: &str, selector: &str, tags: &str) {
        self.dns.txt(
            &format!("{selector}._domainkey.{domain}"),
            &key_record(&self.keys[domain], tags),
        );
    }

    /// Hands a letter over as a client of that address would.
    pub async fn hand_over(&self, eml: &str, peer: Option<&str>) -> Result<Accepted, Refusal> {
        self.app
            .engine
            .intake()
            .accept(from_client(eml, peer))
            .await
    }

    /// What became of it: the trust and its basis, or the refusal.
    ///
    /// A letter that was here before is not stored again, so it is verified once more by itself.
    pub async fn found(&self, eml: &str, peer: Option<&str>) -> (String, String) {
        let accepted = match self.hand_over(eml, peer).await {
            Ok(accepted) => accepted,
            Err(refusal) => return ("refused".to_owned(), refusal.to_string()),
        };
        let letter = from_client(eml, peer);
        let email = crate::app::parse(&letter.bytes);
        let identity = self
            .verifier
            .identify(&letter.envelope, Some(&email), &letter.bytes)
            .await;
        let identity = identity.expect("the engine does not stop");
        let found = (identity.trust.as_str().to_owned(), identity.basis);
        if !matches!(
            accepted.copies[0].outcome,
            CopyOutcome::Duplicate | CopyOutcome::Held
        ) {
            assert_eq!(
                self.trust_of(accepted.copies[0].message.as_str()).await,
                found,
                "what is stored"
            );
        }
        found
    }

    pub async fn trust(&self, eml: &str) -> String {
        self.found(eml, None).await.0
    }

    pub async fn trust_of(&self, message: &str) -> (String, String) {
        let row = self
            .app
            .row(
                "SELECT trust, json_extract(metadata_json, '$.identity.basis') FROM messages WHERE id = $1",
                message,
            )
            .await;
        (
            row[0].clone().unwrap_or_default(),
            row[1].clone().unwrap_or_default(),
        )
    }

    /// `decision:rule` of every row of `audit_log` about a message.
    pub async fn decisions(&self, message: &str) -> Vec<String> {
        let mut rows = self.app.workspace.rows().await;
        let sql = "SELECT decision || ':' || rule FROM audit_log WHERE subject_id = $1 ORDER BY 1";
        let found = db::query(sql)
            .bind(message)
            .fetch_all(&mut rows)
            .await
            .expect("rows");
        found.iter().map(|row| row.get(0)).collect()
    }

    pub async fn messages(&self) -> i64 {
        let mut rows = self.app.workspace.rows().await;
        db::query_scalar("SELECT count(*) FROM messages")
            .fetch_one(&mut rows)
            .await
            .expect("a count")
    }
}

fn from_client(eml: &str, peer: Option<&str>) -> Letter {
    let mut letter = letter(eml);
    if let Some(peer) = peer {
        letter.envelope.peer = Some(peer.parse::<IpAddr>().expect("an address"));
        letter.envelope.via = Via::Smtp;
        letter.envelope.helo = "client.test".to_owned();
    }
    letter.envelope.rcpt_to = vec![Address::parse("ada@engine.test").expect("an address")];
    letter
}

pub type Signer = DkimSigner<Ed25519Key, mail_auth::dkim::Done>;

fn key_record(pkcs8: &[u8], tags: &str) -> String {
    let key = Ed25519Key::from_pkcs8_der(pkcs8).expect("a key");
    format!(
        "v=DKIM1; k=ed25519; {tags}p={}",
        STANDARD.encode(key.public_key())
    )
}

/// A zone entry for names that nobody answers for.
pub fn silent(dns: &DnsStub, name: &str) {
    dns.add(name, Record::Silent);
}
