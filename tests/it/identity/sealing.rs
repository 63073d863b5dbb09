//! Signatures and seals written tag by tag, so that what is wrong in them is signed like what is right.

use super::world::World;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_auth::common::crypto::{RsaKey, Sha256, SigningKey};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

const RSA: &[u8] = include_bytes!("../../fixtures/dkim/rsa.pem");

/// What a text becomes before it is signed.
pub type Edit<'e> = &'e dyn Fn(String) -> String;

/// Changes nothing.
pub fn as_it_is(text: String) -> String {
    text
}

/// A key of `lists.test` and `home.test` under the selector `rsa`.
pub struct Hand {
    key: RsaKey<Sha256>,
}

impl Hand {
    pub fn new(world: &World) -> Self {
        let key = PrivateKeyDer::from_pem_slice(RSA).expect("a key");
        let hand = Self {
            key: RsaKey::from_key_der(key).expect("an RSA key"),
        };
        for domain in ["lists.test", "home.test"] {
            world
                .dns
                .txt(&format!("rsa._domainkey.{domain}"), &hand.record(""));
        }
        hand
    }

    /// The key's record, with further tags.
    pub fn record(&self, tags: &str) -> String {
        format!(
            "v=DKIM1; k=rsa; {tags}p={}",
            STANDARD.encode(self.key.public_key())
        )
    }

    /// The letter with a DKIM signature of `home.test`.
    pub fn signed(&self, world: &World, letter: &str, edit: Edit<'_>) -> String {
        let time = world.now().as_millis() / 1000;
        let tags = format!(
            "v=1; a=rsa-sha256; c=relaxed/relaxed; d=home.test; s=rsa; t={time}; h=From:To:Subject:Date; bh={}; b=",
            body_hash(letter)
        );
        format!(
            "{}{letter}",
            self.over_fields("DKIM-Signature", &edit(tags), letter)
        )
    }

    /// The letter with one more ARC set of `lists.test`, which says that the sender passed.
    pub fn sealed(&self, world: &World, letter: &str, ams: Edit<'_>, seal: Edit<'_>) -> String {
        let time = world.now().as_millis() / 1000;
        let sets: Vec<[&str; 3]> = sets(letter);
        let (i, state) = (
            sets.len() + 1,
            if sets.is_empty() { "none" } else { "pass" },
        );
        let results = format!(
            "ARC-Authentication-Results: i={i}; mx.lists.test; dmarc=pass header.from=partner.test\r\n"
        );
        let tags = format!(
            "i={i}; a=rsa-sha256; c=relaxed/relaxed; d=lists.test; s=rsa; t={time}; h=From:To:Subject:Date:Message-ID; \
             bh={}; b=",
            body_hash(letter)
        );
        let signature = self.over_fields(
            "ARC-Message-Signature",
            &ams(tags),
            &format!("{results}{letter}"),
        );
        let tags = format!("i={i}; a=rsa-sha256; t={time}; cv={state}; d=lists.test; s=rsa; b=");
        let mut covered = String::new();
        for field in sets
            .iter()
            .flatten()
            .copied()
            .chain([results.as_str(), signature.as_str()])
        {
            covered.push_str(&relaxed(field));
        }
        let seal = self.finished("ARC-Seal", &seal(tags), covered);
        format!("{seal}{signature}{results}{letter}")
    }

    /// A signature over the fields that its `h` names.
    fn over_fields(&self, name: &str, tags: &str, letter: &str) -> String {
        let names = tags
            .split("h=")
            .nth(1)
            .and_then(|rest| rest.split(';').next())
            .unwrap_or_default();
        let covered = names
            .split(':')
            .filter_map(|name| field(letter, name.trim()))
            .map(|field| relaxed(&field));
        self.finished(name, tags, covered.collect())
    }

    fn finished(&self, name: &str, tags: &str, covered: String) -> String {
        let open = relaxed(&format!("{name}: {tags}\r\n"));
        let signed = self
            .key
            .sign(format!("{covered}{}", open.trim_end()).as_bytes())
            .expect("a signature");
        // `b=` is the last tag unless a row of a table puts something behind it.
        let at = tags.rfind("b=").expect("a place for the signature") + 2;
        format!(
            "{name}: {}{}{}\r\n",
            &tags[..at],
            STANDARD.encode(signed),
            &tags[at..]
        )
    }
}

/// The sets of a letter, oldest first: results, signature, seal.
fn sets(letter: &str) -> Vec<[&str; 3]> {
    let lines: Vec<&str> = letter
        .split_inclusive("\r\n")
        .take_while(|line| line.starts_with("ARC-"))
        .collect();
    let mut sets: Vec<[&str; 3]> = lines
        .chunks(3)
        .map(|set| [set[2], set[1], set[0]])
        .collect();
    sets.reverse();
    sets
}

fn field(letter: &str, name: &str) -> Option<String> {
    let header = letter.split("\r\n\r\n").next().unwrap_or_default();
    let begins = |line: &&str| {
        line.split(':')
            .next()
            .is_some_and(|found| found.eq_ignore_ascii_case(name))
    };
    header
        .split("\r\n")
        .find(begins)
        .map(|line| format!("{line}\r\n"))
}

/// RFC 6376 section 3.4.2.
fn relaxed(field: &str) -> String {
    let (name, value) = field.split_once(':').expect("a field");
    let words: Vec<&str> = value.split_whitespace().collect();
    format!(
        "{}:{}\r\n",
        name.trim().to_ascii_lowercase(),
        words.join(" ")
    )
}

/// Bodies here have no blanks to relax and one line end at their end.
fn body_hash(letter: &str) -> String {
    let (_, body) = letter.split_once("\r\n\r\n").expect("a body");
    STANDARD.encode(hex(&attache::domain::sha256_hex(&[body.as_bytes()])))
}

fn hex(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}
