//! DKIM signatures of our own mail (RFC 6376; Ed25519 by RFC 8463), made when a mail's bytes are
//! frozen.
//!
//! mail-auth canonicalises, hashes and signs. Its own `sign` is not used: it asks the system's
//! clock for `t=`, while frozen bytes follow from their arguments alone. Both algorithms are
//! deterministic, so the same mail signed twice is the same bytes. Absent on purpose: key files
//! (the configuration reads them), DNS, verification.

use crate::domain::{Address, Timestamp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mail_auth::common::crypto::{DkimKey, Ed25519Key, RsaKey, Sha256, SigningKey};
use mail_auth::common::headers::{HeaderStream, Writable, Writer};
use mail_auth::dkim::canonicalize::CanonicalHeaders;
use mail_auth::dkim::{Canonicalization, Signature};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::fmt;
use std::sync::Arc;

/// Fields that are signed. A field that is present is named once more than it occurs, so that no
/// further one can be added; an absent field is named once, for the same reason (RFC 6376 section
/// 5.4.2).
const SIGNED: [&str; 14] = [
    "From",
    "To",
    "Cc",
    "Reply-To",
    "Sender",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Auto-Submitted",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];
/// Longest character string of a TXT record (RFC 1035 section 3.3.14).
const TXT_STRING_BYTES_MAX: usize = 255;
/// `SEQUENCE { OBJECT IDENTIFIER rsaEncryption, NULL }` (RFC 8017 appendix A.1).
const RSA_ALGORITHM: [u8; 15] = [
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

/// Every key that signs, in the order of the configuration. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Signers(Arc<[Signer]>);

/// A private key, and the DNS name of its public half.
pub struct Signer {
    /// Signing domain, lower case.
    domain: String,
    selector: String,
    key: DkimKey,
    /// Public key as in the `p=` tag, before base64.
    public: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("holds no private key in PEM")]
    NotPem,
    #[error("holds neither an RSA key of 2048 to 8192 bits nor an Ed25519 key")]
    Unusable,
}

/// A bug of ours: mail that was composed here can always be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot sign: {0}")]
pub struct SignError(String);

/// The TXT record by which verifiers find the public key of a [`Signer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// DNS name without the final dot.
    pub name: String,
    /// `v=DKIM1; …`; may be longer than one character string of a TXT record.
    pub text: String,
}

impl Signers {
    pub fn new(signers: Vec<Signer>) -> Self {
        Self(signers.into())
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn iter(&self) -> impl Iterator<Item = &Signer> {
        self.0.iter()
    }
    /// Reports whether mail from this domain (lower case) is signed.
    pub fn covers(&self, domain: &str) -> bool {
        self.0.iter().any(|signer| signer.domain == domain)
    }

    /// Prepends one signature for every key of the sender's domain to a mail. Without such a key
    /// the mail stays as it is: a signature of another domain would authenticate nothing (RFC 7489
    /// section 3.1.1).
    ///
    /// `bytes` is a whole mail with CRLF line ends, `at` becomes `t=` in whole seconds.
    pub fn seal(
        &self,
        bytes: Vec<u8>,
        from: &Address,
        at: Timestamp,
    ) -> Result<Vec<u8>, SignError> {
        let mut sealed = Vec::new();
        for signer in self
            .0
            .iter()
            .filter(|signer| signer.domain == from.domain())
        {
            signer.sign(&bytes, at)?.write(&mut sealed, true);
        }
        sealed.extend_from_slice(&bytes);
        Ok(sealed)
    }
}

impl Signer {
    /// Parses an RSA key (PKCS #1 or #8) or an Ed25519 key (PKCS #8), as `openssl genpkey` writes
    /// them.
    pub fn from_pem(domain: &str, selector: &str, pem: &[u8]) -> Result<Self, KeyError> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::NotPem)?;
        let pkcs8 = match &der {
            PrivateKeyDer::Pkcs8(pkcs8) => Some(pkcs8.secret_pkcs8_der().to_vec()),
            _ => None,
        };
        let (key, public) = match RsaKey::<Sha256>::from_key_der(der) {
            Ok(rsa) => {
                let public = subject_public_key_info(&rsa.public_key());
                (DkimKey::Rsa(rsa), public)
            }
            Err(_not_rsa) => {
                // OpenSSL leaves the public key out, which only this parser accepts.
                let read = pkcs8.map(|der| Ed25519Key::from_pkcs8_maybe_unchecked_der(&der));
                let ed25519 = read.and_then(Result::ok).ok_or(KeyError::Unusable)?;
                let public = ed25519.public_key();
                (DkimKey::Ed25519(ed25519), public)
            }
        };
        let (domain, selector) = (domain.to_lowercase(), selector.to_owned());
        Ok(Self {
            domain,
            selector,
            key,
            public,
        })
    }

    pub fn domain(&self) -> &str {
        &self.domain
    }
    pub fn selector(&self) -> &str {
        &self.selector
    }
    /// Value of the `k=` tag.
    pub fn algorithm(&self) -> &'static str {
        match self.key {
            DkimKey::Rsa(_) => "rsa",
            DkimKey::Ed25519(_) => "ed25519",
        }
    }

    pub fn record(&self) -> KeyRecord {
        KeyRecord {
            name: format!("{}._domainkey.{}", self.selector, self.domain),
            text: format!(
                "v=DKIM1; k={}; p={}",
                self.algorithm(),
                STANDARD.encode(&self.public)
            ),
        }
    }

    fn sign(&self, bytes: &[u8], at: Timestamp) -> Result<Signature, SignError> {
        let template = Signature {
            v: 1,
            a: self.key.algorithm(),
            d: self.domain.clone(),
            s: self.selector.clone(),
            h: signed_fields(bytes),
            ch: Canonicalization::Relaxed,
            cb: Canonicalization::Relaxed,
            ..Signature::default()
        };
        let (_, headers, h, body) = template.canonicalize(SigningFields(bytes));
        let bh = self.key.hash(body).as_ref().to_vec();
        let t = u64::try_from(at.as_millis() / 1000).unwrap_or(0);
        let unsigned = Signature {
            h,
            bh,
            t,
            ..template
        };
        let signed = self.key.sign(Signable {
            headers,
            signature: &unsigned,
        });
        let b = signed.map_err(|error| SignError(error.to_string()))?;
        Ok(Signature { b, ..unsigned })
    }
}

/// Returns the names of [`SIGNED`], each once more than the mail has that field.
fn signed_fields(bytes: &[u8]) -> Vec<String> {
    let there: Vec<&[u8]> = SigningFields(bytes).map(|(name, _)| name).collect();
    let times = |name: &str| {
        1 + there
            .iter()
            .filter(|n| n.eq_ignore_ascii_case(name.as_bytes()))
            .count()
    };
    SIGNED
        .iter()
        .flat_map(|name| std::iter::repeat_n((*name).to_owned(), times(name)))
        .collect()
}

/// Iterator over the fields of a mail that was composed here, so that every line ends with CRLF and
/// every field has a colon. Yields name and value, the value up to and including its line end; the
/// rest is the body.
struct SigningFields<'x>(&'x [u8]);

impl<'x> Iterator for SigningFields<'x> {
    type Item = (&'x [u8], &'x [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.starts_with(b"\r\n") {
            return None;
        }
        let is_folded = |end: &usize| matches!(self.0.get(end + 1), Some(b' ' | b'\t'));
        let mut ends = self
            .0
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .map(|(at, _)| at);
        let end = ends.find(|end| !is_folded(end))?;
        let (field, rest) = self.0.split_at(end + 1);
        let colon = field.iter().position(|byte| *byte == b':')?;
        self.0 = rest;
        Some((&field[..colon], &field[colon + 1..]))
    }
}

impl<'x> HeaderStream<'x> for SigningFields<'x> {
    fn next_header(&mut self) -> Option<(&'x [u8], &'x [u8])> {
        self.next()
    }
    fn body(&mut self) -> &'x [u8] {
        self.0.strip_prefix(b"\r\n").unwrap_or_default()
    }
}

/// Input of a signature (RFC 6376 section 3.7): the fields, then the signature's own field without
/// its value.
struct Signable<'a> {
    headers: CanonicalHeaders<'a>,
    signature: &'a Signature,
}

impl Writable for Signable<'_> {
    fn write(self, writer: &mut impl Writer) {
        self.headers.write(writer);
        self.signature.write(writer, false);
    }
}

/// Wraps a PKCS #1 key as verifiers expect it in `p=` (RFC 6376 section 3.6.1 and every published
/// key).
fn subject_public_key_info(pkcs1: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = std::iter::once(0).chain(pkcs1.iter().copied()).collect();
    let content = [RSA_ALGORITHM.as_slice(), &der(0x03, &bits)].concat();
    der(0x30, &content)
}

/// Encodes one DER element.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[content.len().leading_zeros() as usize / 8..];
    let mut out = vec![tag];
    match content.len() {
        short @ 0..0x80 => out.push(short as u8),
        _ => {
            out.push(0x80 | length.len() as u8);
            out.extend_from_slice(length);
        }
    }
    out.extend_from_slice(content);
    out
}

impl KeyRecord {
    /// Formats the record as a line of a zone file, the text cut into character strings.
    pub fn zone_line(&self) -> String {
        let strings: Vec<String> = self
            .text
            .as_bytes()
            .chunks(TXT_STRING_BYTES_MAX)
            .map(|chunk| format!("\"{}\"", String::from_utf8_lossy(chunk)))
            .collect();
        format!("{}. IN TXT ( {} )", self.name, strings.join(" "))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.record().name;
        f.debug_struct("Signer")
            .field("record", &name)
            .field("key", &"[REDACTED]")
            .finish()
    }
}
