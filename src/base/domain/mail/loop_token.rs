//! The loop token in the header of every mail of ours: its Message-ID and the number of consecutive
//! mails that personas wrote, under a seal.
//!
//! A count that a stranger could write would be no guard; this one counts only under our own seal.
//! What follows from it is decided elsewhere.

use crate::domain::digest::hex;
use crate::domain::id::PersonaId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;

/// Key of the seal; engines that share it recognise each other's mail. Never printed.
#[derive(Clone)]
pub struct LoopKey([u8; 64]);

/// Content of a loop token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopToken {
    /// Number of consecutive mails that personas wrote, this one included.
    pub hops: u32,
    /// RFC Message-ID of the mail, without brackets.
    pub message_id: String,
}

/// A mail that a persona of this engine sent, from our records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnMail {
    pub persona: PersonaId,
    pub hops: u32,
    /// Recipients of its envelope.
    pub recipients: Vec<String>,
}

impl LoopKey {
    /// Derives a key from a secret of any length: its digest, filled up to one block (RFC 2104
    /// section 2).
    pub fn new(secret: &[u8]) -> Self {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&Sha256::digest(secret));
        Self(block)
    }

    /// Returns 16 hexadecimal digits that tell keys apart and do not give them away.
    pub fn name(&self) -> String {
        let mut name = hex(&Sha256::digest(self.mac(0, "name").finalize().into_bytes()));
        name.truncate(16);
        name
    }

    /// Formats the token with its seal, on one line.
    pub fn seal(&self, token: &LoopToken) -> String {
        let LoopToken { hops, message_id } = token;
        let seal = self.mac(*hops, message_id).finalize().into_bytes();
        let seal = hex(&seal);
        format!("hops={hops}; seal={seal}; id={message_id}")
    }

    /// Parses a token; `None` for every text that this key did not seal.
    pub fn open(&self, text: &str) -> Option<LoopToken> {
        let (hops, rest) = text.trim().strip_prefix("hops=")?.split_once(';')?;
        let (seal, id) = rest.trim_start().strip_prefix("seal=")?.split_once(';')?;
        let message_id = id.trim_start().strip_prefix("id=")?.to_owned();
        let hops = hops.parse().ok()?;
        // The comparison takes the same time however much of the seal is right.
        self.mac(hops, &message_id)
            .verify_slice(&bytes_of(seal)?)
            .ok()?;
        Some(LoopToken { hops, message_id })
    }

    /// Signs the text of a report: HMAC-SHA256 in hexadecimal digits.
    pub fn sign_report(&self, text: &str) -> String {
        hex(&self.report_mac(text).finalize().into_bytes())
    }

    /// Reports whether this key signed the text.
    pub fn has_signed_report(&self, text: &str, signature: &str) -> bool {
        let signature = bytes_of(signature);
        signature.is_some_and(|bytes| self.report_mac(text).verify_slice(&bytes).is_ok())
    }

    fn report_mac(&self, text: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.0.into());
        for part in ["attache report 1", text] {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        mac
    }

    fn mac(&self, hops: u32, message_id: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.0.into());
        for part in ["attache loop 1", &hops.to_string(), message_id] {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        mac
    }
}

impl fmt::Debug for LoopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoopKey([REDACTED])")
    }
}

/// Bytes from hexadecimal digits.
fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_key_sealed_is_read_back() {
        let (ours, theirs) = (LoopKey::new(b"ours"), LoopKey::new(b"theirs"));
        let token = LoopToken {
            hops: 2,
            message_id: "a.B-1@engine.test".to_owned(),
        };
        let text = ours.seal(&token);
        assert_eq!(ours.open(&text), Some(token.clone()));
        assert_eq!(
            ours.open(&format!("  {}", text.replace("; ", ";  "))),
            Some(token)
        );
        assert_eq!(theirs.open(&text), None);
        for forged in [
            text.replace("hops=2", "hops=1"),
            text.replace("a.B-1", "a.b-1"),
            text.replace("seal=", "seal=0"),
            text[..text.len() - 1].to_owned(),
            "hops=2; seal=; id=a".to_owned(),
            "hops=2".to_owned(),
            "999".to_owned(),
            format!("hops=2; seal={}; id=a", "ä".repeat(32)),
            String::new(),
        ] {
            assert_eq!(ours.open(&forged), None, "{forged}");
        }
        assert!(!format!("{ours:?}").contains("111"));
    }
}
