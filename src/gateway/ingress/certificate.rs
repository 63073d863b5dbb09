//! What a certificate says of itself: when it begins and ends, and which hosts it names.
//!
//! Absent on purpose: trust. Whether a peer believes a certificate is the peer's to decide.

use crate::config::TlsFiles;
use chrono::NaiveDateTime;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// Validity of our certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Milliseconds since 1970.
    pub begins_ms: i64,
    pub ends_ms: i64,
    /// Hosts that were asked for and that it does not name.
    pub missing_hosts: Vec<String>,
}

/// Tags of DER (X.690).
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Reads the first certificate of a file; `None`: there is none that can be read.
pub fn certificate_facts(files: &TlsFiles, hosts: &[&str]) -> Option<CertificateFacts> {
    let certificate = CertificateDer::from_pem_file(&files.certificate).ok()?;
    let (begins_ms, ends_ms) = validity(&certificate)?;
    let parsed = ParsedCertificate::try_from(&certificate).ok()?;
    let is_named = |host: &str| {
        let name = ServerName::try_from(host.to_owned());
        name.is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
    };
    let missing = hosts.iter().filter(|host| !is_named(host));
    Some(CertificateFacts {
        begins_ms,
        ends_ms,
        missing_hosts: missing.map(|host| (*host).to_owned()).collect(),
    })
}

/// Returns begin and end of a certificate (RFC 5280 section 4.1).
fn validity(certificate: &[u8]) -> Option<(i64, i64)> {
    let (_, certificate, _) = element(certificate)?;
    let (_, signed, _) = element(certificate)?;
    let (tag, _, behind) = element(signed)?;
    // The version has a default, and then no element; then come number, algorithm and issuer.
    let mut rest = if tag == VERSION { behind } else { signed };
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (tag, times, _) = element(rest)?;
    let (begin, from, behind) = element(times)?;
    let (end, until, _) = element(behind)?;
    (tag == SEQUENCE).then_some((instant(begin, from)?, instant(end, until)?))
}

/// Returns tag and content of the first element, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits
                .iter()
                .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(length)?;
    Some((*tag, content, behind))
}

fn instant(tag: u8, text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // Two digits below 50 are of this century (RFC 5280 section 4.1.2.5.1).
        UTC_TIME if text < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = NaiveDateTime::parse_from_str(&text, "%Y%m%d%H%M%SZ").ok()?;
    Some(time.and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_forms_are_read() {
        assert_eq!(instant(UTC_TIME, b"700101000001Z"), Some(1000));
        assert_eq!(instant(GENERALIZED_TIME, b"19700101000001Z"), Some(1000));
        assert_eq!(instant(UTC_TIME, b"260101000000Z"), Some(1_767_225_600_000));
        assert_eq!(instant(UTC_TIME, b"2601010000Z"), None);
    }

    #[test]
    fn a_certificate_that_is_cut_off_is_none() {
        assert_eq!(element(&[SEQUENCE, 5, 1, 2]), None);
        assert_eq!(element(&[SEQUENCE, 0x81]), None);
        assert_eq!(validity(&[SEQUENCE, 2, SEQUENCE, 0]), None);
    }
}
