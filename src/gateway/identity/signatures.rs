//! DKIM (RFC 6376): selects the valid signatures, and those that prove that `From` is the sender.
//!
//! Only signatures of domains that may be the sender's are verified, and only a limited number:
//! each costs a DNS query.

use super::claim::{Gap, SenderClaim};
use super::dns::DnsResolver;
use super::records::{DnsRecords, is_related};
use super::results::AuthenticationReport;
use super::tags::Tags;
use mail_auth::common::verify::VerifySignature;
use mail_auth::dkim::{DkimError, Signature};
use mail_auth::{AuthenticatedMessage, DkimOutput, DkimResult, Error, Parameters};

/// Maximum signatures of one letter that are verified.
const SIGNATURES_MAX: usize = 10;
/// Minimum bits of an RSA key (RFC 8301 section 3.2).
const RSA_BITS_MIN: usize = 1024;
/// Flag `t=y` of a key record: the domain only tests DKIM (RFC 6376 section 3.6.1).
const KEY_TESTING: u64 = 0x10;
pub const AMBIGUOUS: &str = "the header can be read in two ways";

/// Result of verifying the signatures of a letter.
pub struct Signatures<'a> {
    /// Valid signatures that cover the letter as parsed here.
    pub strong: Vec<DkimOutput<'a>>,
    /// Valid signatures by RFC 6376, including the strong ones.
    pub right: Vec<DkimOutput<'a>>,
    /// `true`: DNS did not return a key.
    pub is_temporary: bool,
    /// Gap of a valid signature that does not count.
    pub gap: Option<Gap>,
    /// `true`: a signature covers only the beginning of the body (`l=`); it is not verified and
    /// proves nothing.
    pub is_cut_short: bool,
    /// `true`: the library and we parse different headers, so that no signature counts.
    pub is_ambiguous: bool,
}

/// Drops signatures that are not worth a query: malformed ones (RFC 6376 section 6.1.1), SHA-1 (RFC
/// 8301), domains that cannot be aligned, and those beyond `SIGNATURES_MAX`.
pub fn select(message: &mut AuthenticatedMessage<'_>, from_domain: &str) {
    message
        .dkim_headers
        .retain(|field| is_well_formed(field.value) && is_related(&field.header.d, from_domain));
    message.dkim_headers.truncate(SIGNATURES_MAX);
    for header in &mut message.dkim_headers {
        // Reports to signers (RFC 6651) and third parties (RFC 6541) are not supported; both would
        // cost queries.
        header.header.r = false;
        header.header.atps = None;
        // Expiry is compared with the letter's arrival, which the library does not know.
        header.header.x = 0;
    }
}

fn is_well_formed(value: &[u8]) -> bool {
    Tags::parse(value).is_some_and(|tags| {
        tags.get("v") == Some("1")
            && tags.has_sound_algorithm()
            && tags.have(&["b", "bh", "d", "h", "s"])
    })
}

/// Reports whether a signature with these tags expired before `arrived` or before it was made (RFC
/// 6376 section 3.5, `x=`).
pub fn is_expired(tags: &Tags<'_>, claim: &SenderClaim<'_>) -> bool {
    let Some(expires) = tags.get("x").map(|_| tags.number("x").unwrap_or(0)) else {
        return false;
    };
    let arrived = claim.arrived.as_millis() / 1000;
    i64::try_from(expires).is_ok_and(|expires| expires < arrived)
        || tags.number("t").is_some_and(|made| expires <= made)
}

/// Alignment without a DMARC record: the signer is the sender's domain or a parent of it, and no
/// top-level name.
pub fn is_same_or_above(signer: &str, from_domain: &str) -> bool {
    let is_above = || {
        from_domain
            .strip_suffix(signer)
            .is_some_and(|front| front.ends_with('.'))
    };
    signer == from_domain || (signer.contains('.') && is_above())
}

/// Fetches the keys of a letter's signatures. A signature over another body is not worth a query.
pub async fn keys(resolver: &DnsResolver, message: &AuthenticatedMessage<'_>) -> DnsRecords {
    let is_over_body = |signature: &Signature| {
        let hashes = message
            .body_hashes
            .iter()
            .filter(|(form, ..)| *form == signature.cb);
        hashes.into_iter().any(|(.., hash)| *hash == signature.bh)
    };
    let signatures = message.dkim_headers.iter().map(|field| &field.header);
    let names = signatures
        .filter(|signature| is_over_body(signature))
        .map(VerifySignature::domain_key);
    DnsRecords::keys(resolver, names).await
}

pub async fn verify<'a>(
    resolver: &DnsResolver,
    (message, keys): (&'a AuthenticatedMessage<'a>, &'a DnsRecords),
    claim: &SenderClaim<'_>,
    report: &mut AuthenticationReport,
) -> Signatures<'a> {
    let mut found = Signatures {
        strong: Vec::new(),
        right: Vec::new(),
        is_temporary: false,
        gap: None,
        is_cut_short: message
            .errors
            .iter()
            .any(|error| is_cut_short(&error.header)),
        is_ambiguous: is_ambiguous(message, claim),
    };
    if found.is_cut_short {
        report.add(
            "dkim",
            "policy",
            "a signature covers only part of the body",
            &[],
        );
    }
    let asked = Parameters::new(message).with_txt_cache(keys);
    let outputs = resolver.authenticator.verify_dkim(asked).await;
    for output in outputs {
        let Some(signature) = output.signature() else {
            // An unparseable signature yields no result.
            continue;
        };
        let (domain, selector) = (signature.d.clone(), signature.s.clone());
        let mut reason = "";
        match output.result() {
            DkimResult::Pass => {
                let gap = claim.uncovered(&signature.h, signature.t);
                let weakness = weakness(message, keys, signature, claim);
                let ambiguous = found.is_ambiguous.then_some(AMBIGUOUS);
                reason = weakness
                    .or(gap.map(Gap::as_str))
                    .or(ambiguous)
                    .unwrap_or_default();
                if weakness.is_none() {
                    found.right.push(output.clone());
                }
                if reason.is_empty() {
                    found.strong.push(output.clone());
                }
                found.gap = found.gap.or(gap);
            }
            DkimResult::TempError(_) => found.is_temporary = true,
            _ => {}
        }
        let word = if reason.is_empty() {
            word(output.result())
        } else {
            "policy"
        };
        report.add(
            "dkim",
            word,
            reason,
            &[("header.d", &domain), ("header.s", &selector)],
        );
    }
    found
}

fn is_cut_short(error: &Error) -> bool {
    matches!(error, Error::Dkim(DkimError::SignatureLength))
}

/// Reports whether the library and we parse the header differently.
fn is_ambiguous(message: &AuthenticatedMessage<'_>, claim: &SenderClaim<'_>) -> bool {
    let same_from = matches!(message.froms(), [only] if *only == claim.from.key());
    let names: Vec<&[u8]> = message.headers.iter().map(|(name, _)| *name).collect();
    !same_from || !claim.is_read_as(&names)
}

/// Weakness of a valid signature that makes it worthless whatever it covers.
fn weakness(
    message: &AuthenticatedMessage<'_>,
    keys: &DnsRecords,
    signature: &Signature,
    claim: &SenderClaim<'_>,
) -> Option<&'static str> {
    let field = message
        .dkim_headers
        .iter()
        .find(|field| std::ptr::eq(&field.header, signature));
    let tags = field.and_then(|field| Tags::parse(field.value));
    if tags.is_none_or(|tags| is_expired(&tags, claim)) {
        return Some("expired");
    }
    let Some(key) = keys.key(&signature.domain_key()) else {
        return Some("the key is not to be had");
    };
    if key.f & KEY_TESTING != 0 {
        return Some("the key is for testing only");
    }
    (key.p.public_key_bits() < RSA_BITS_MIN).then_some("the key is too short")
}

/// Result keyword of RFC 8601 section 2.7.1.
pub fn word(result: &DkimResult) -> &'static str {
    match result {
        DkimResult::Pass => "pass",
        DkimResult::Fail(_) => "fail",
        DkimResult::Neutral(_) => "neutral",
        DkimResult::TempError(_) => "temperror",
        DkimResult::PermError(_) => "permerror",
        DkimResult::None => "none",
    }
}
