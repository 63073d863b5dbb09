//! DKIM (RFC 6376): which signatures stand, and which of them prove that `From` is the sender.
//!
//! Only signatures of domains that could be the sender's are looked at, and only so many: every one costs a question.

use super::claim::{Claim, Gap};
use super::dns::Resolver;
use super::results::Report;
use mail_auth::common::cache::NoCache;
use mail_auth::common::crypto::Algorithm;
use mail_auth::common::verify::{DomainKey, VerifySignature};
use mail_auth::dkim::DkimError;
use mail_auth::{AuthenticatedMessage, DkimOutput, DkimResult, Error, Txt};

/// Signatures of one letter that are verified.
const SIGNATURES_MAX: usize = 10;
/// RFC 8301 section 3.2.
const RSA_BITS_MIN: usize = 1024;
/// Flag `t=y` of a key record: the domain only tries signing out (RFC 6376 section 3.6.1).
const KEY_TESTING: u64 = 0x10;
pub const AMBIGUOUS: &str = "the header can be read in two ways";

/// What the signatures of a letter came to.
pub struct Signatures<'a> {
    /// Those that are right and cover the letter as it is read here.
    pub strong: Vec<DkimOutput<'a>>,
    /// Those that are right by RFC 6376, the strong ones included.
    pub right: Vec<DkimOutput<'a>>,
    /// A key could not be fetched.
    pub is_temporary: bool,
    /// Why a right signature does not count.
    pub gap: Option<Gap>,
    /// Some signature covers only the beginning of the body (`l=`): it is looked at no further, and proves nothing.
    pub is_cut_short: bool,
    /// The library and we do not see the same header, so no signature counts.
    pub is_ambiguous: bool,
}

/// Drops what is not worth a question: SHA-1 (RFC 8301), domains that cannot be aligned, the eleventh.
pub fn select(message: &mut AuthenticatedMessage<'_>, from_domain: &str) {
    let is_worth = |signature: &mail_auth::dkim::Signature| {
        signature.a != Algorithm::RsaSha1 && is_related(&signature.d, from_domain)
    };
    message.dkim_headers.retain(|header| is_worth(&header.header));
    message.dkim_headers.truncate(SIGNATURES_MAX);
    for header in &mut message.dkim_headers {
        // Reports to signers (RFC 6651) and third parties (RFC 6541) are not served here; both would cost questions.
        header.header.r = false;
        header.header.atps = None;
    }
}

/// Whether two domains may belong to one organisation, before anybody is asked.
fn is_related(signer: &str, from_domain: &str) -> bool {
    let last_two = |domain: &str| {
        let mut labels = domain.rsplit('.');
        (labels.next().map(str::to_ascii_lowercase), labels.next().map(str::to_ascii_lowercase))
    };
    last_two(signer).1.is_some() && last_two(signer) == last_two(from_domain)
}

/// The rule where no DMARC record says otherwise: the signer is the sender's domain or above it, and no top-level name.
pub fn is_same_or_above(signer: &str, from_domain: &str) -> bool {
    let is_above = || from_domain.strip_suffix(signer).is_some_and(|front| front.ends_with('.'));
    signer == from_domain || (signer.contains('.') && is_above())
}

pub async fn verify<'a>(
    resolver: &Resolver,
    message: &'a AuthenticatedMessage<'a>,
    claim: &Claim<'_>,
    report: &mut Report,
) -> Signatures<'a> {
    let mut found = Signatures {
        strong: Vec::new(),
        right: Vec::new(),
        is_temporary: false,
        gap: None,
        is_cut_short: message.errors.iter().any(|error| is_cut_short(&error.header)),
        is_ambiguous: is_ambiguous(message, claim),
    };
    if found.is_cut_short {
        report.add("dkim", "policy", "a signature covers only part of the body", &[]);
    }
    let outputs = resolver.authenticator.verify_dkim(message).await;
    for output in outputs {
        let Some(signature) = output.signature() else {
            // Not to be read at all, which is no result of anybody's.
            continue;
        };
        let (domain, selector) = (signature.d.clone(), signature.s.clone());
        let mut reason = "";
        match output.result() {
            DkimResult::Pass => {
                let gap = claim.uncovered(&signature.h, signature.t);
                let weakness = weakness(resolver, signature, claim).await;
                let ambiguous = found.is_ambiguous.then_some(AMBIGUOUS);
                reason = weakness.or(gap.map(Gap::as_str)).or(ambiguous).unwrap_or_default();
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
        let word = if reason.is_empty() { word(output.result()) } else { "policy" };
        report.add("dkim", word, reason, &[("header.d", &domain), ("header.s", &selector)]);
    }
    found
}

fn is_cut_short(error: &Error) -> bool {
    matches!(error, Error::Dkim(DkimError::SignatureLength))
}

/// Whether the library and we read the header in two ways.
fn is_ambiguous(message: &AuthenticatedMessage<'_>, claim: &Claim<'_>) -> bool {
    let same_from = matches!(message.froms(), [only] if *only == claim.from.key());
    !same_from || message.headers.len() != claim.field_count()
}

/// What makes a right signature worthless whatever it covers.
async fn weakness(
    resolver: &Resolver,
    signature: &mail_auth::dkim::Signature,
    claim: &Claim<'_>,
) -> Option<&'static str> {
    let expires = i64::try_from(signature.x).unwrap_or(i64::MAX);
    if expires > 0 && expires.saturating_mul(1000) < claim.arrived.as_millis() {
        return Some("expired");
    }
    // Answered from the cache: the library has just asked.
    let no_cache: Option<&NoCache<Box<str>, Txt>> = None;
    let key = resolver.authenticator.txt_lookup::<DomainKey>(signature.domain_key(), no_cache).await.ok()?;
    if key.f & KEY_TESTING != 0 {
        return Some("the key is for testing only");
    }
    (key.p.public_key_bits() < RSA_BITS_MIN).then_some("the key is too short")
}

/// The word of RFC 8601 section 2.7.1.
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
