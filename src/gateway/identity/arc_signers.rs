//! ARC (RFC 8617): authentication results that trusted forwarders and lists recorded before they
//! changed a letter.
//!
//! Consulted only where the letter proves nothing by itself, and only if every ARC signer of the
//! chain is trusted: a valid chain tells which servers handled the letter, not that they are
//! honest.

use super::claim::SenderClaim;
use super::dns::DnsResolver;
use super::records::DnsRecords;
use super::relays::{RelayWord, judge};
use super::results::{AuthenticationReport, Results};
use super::signatures::{is_expired, word};
use super::tags::Tags;
use mail_auth::common::crypto::HashAlgorithm;
use mail_auth::common::verify::VerifySignature;
use mail_auth::dkim::Canonicalization;
use mail_auth::{ArcOutput, AuthenticatedMessage, DkimResult, Parameters};

/// Maximum sets of one chain; each costs two DNS queries.
const SETS_MAX: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArcChain {
    /// No chain, a broken one, or one with an untrusted signer.
    Nothing,
    /// A trusted ARC signer authenticated the sender.
    Authenticated,
    /// DNS did not return a key.
    Temporary,
}

pub async fn verify(
    resolver: &DnsResolver,
    message: &AuthenticatedMessage<'_>,
    claim: &SenderClaim<'_>,
    trusted: &[String],
    report: &mut AuthenticationReport,
) -> ArcChain {
    let is_trusted = |domain: &str| trusted.iter().any(|name| name.eq_ignore_ascii_case(domain));
    let seals = &message.as_headers;
    if seals.is_empty()
        || seals.len() > SETS_MAX
        || !seals.iter().all(|seal| is_trusted(&seal.header.d))
    {
        return ArcChain::Nothing;
    }
    if !is_well_formed(message, claim) {
        report.add("arc", "fail", "the chain is not well-formed", &[]);
        return ArcChain::Nothing;
    }
    let names = seals.iter().map(|seal| seal.header.domain_key());
    let newest = message
        .ams_headers
        .last()
        .map(|newest| newest.header.domain_key());
    let keys = DnsRecords::keys(resolver, names.chain(newest)).await;
    let relaxed = relaxed(message);
    let mut output = resolver
        .authenticator
        .verify_arc(Parameters::new(message).with_txt_cache(&keys))
        .await;
    if let Some(relaxed) = relaxed
        .as_ref()
        .filter(|_| *output.result() != DkimResult::Pass)
    {
        output = resolver
            .authenticator
            .verify_arc(Parameters::new(relaxed).with_txt_cache(&keys))
            .await;
    }
    let arc_signer = output
        .sets()
        .last()
        .map(|set| set.seal.header.d.clone())
        .unwrap_or_default();
    report.add(
        "arc",
        word(output.result()),
        "",
        &[("header.d", &arc_signer)],
    );
    match output.result() {
        DkimResult::Pass => {}
        DkimResult::TempError(_) => return ArcChain::Temporary,
        _ => return ArcChain::Nothing,
    }
    let Some(newest) = output.sets().last() else {
        return ArcChain::Nothing;
    };
    let signature = &newest.signature.header;
    if claim
        .uncovered(&signature.h, signature.t.max(newest.seal.header.t))
        .is_some()
    {
        return ArcChain::Nothing;
    }
    match has_authenticated(&output, claim.from.domain()) {
        true => ArcChain::Authenticated,
        false => ArcChain::Nothing,
    }
}

/// Returns whether a signer of the chain authenticated the sender. The first one saw the letter as
/// it was sent; later ones saw the letter that the signer before them had left.
fn has_authenticated(chain: &ArcOutput<'_>, from_domain: &str) -> bool {
    chain.sets().iter().any(|set| {
        let methods = own_results(set.results.value).and_then(|results| results.methods);
        let word = methods.map(|methods| judge(&methods, from_domain));
        matches!(word, Some(RelayWord::Signed | RelayWord::Passed))
    })
}

/// Reads the newest message signature as `c=relaxed/relaxed` when it has no `c=`. RFC 6376 defaults
/// to `simple`; some ARC signers mean `relaxed`, and so does the test suite of its authors.
fn relaxed<'x>(message: &AuthenticatedMessage<'x>) -> Option<AuthenticatedMessage<'x>> {
    let newest = message.ams_headers.last()?;
    if Tags::parse(newest.value).is_none_or(|tags| tags.get("c").is_some()) {
        return None;
    }
    let mut read = message.clone();
    let newest = &mut read.ams_headers.last_mut()?.header;
    (newest.ch, newest.cb) = (Canonicalization::Relaxed, Canonicalization::Relaxed);
    let hash =
        HashAlgorithm::Sha256.hash(Canonicalization::Relaxed.canonical_body(message.raw_body(), 0));
    let hash = (
        Canonicalization::Relaxed,
        HashAlgorithm::Sha256,
        0,
        hash.as_ref().to_vec(),
    );
    read.body_hashes.push(hash);
    Some(read)
}

/// Checks that RFC 8617 sections 4.1.2, 4.1.3 and 5.2 require of every set and that the library
/// does not make. Only the newest message signature is verified, because changes by later ARC
/// signers break the others; the tags of the others are checked all the same.
fn is_well_formed(message: &AuthenticatedMessage<'_>, claim: &SenderClaim<'_>) -> bool {
    let is_seal = |tags: &Tags<'_>| {
        let state = matches!(tags.get("cv"), Some("none" | "pass" | "fail"));
        state
            && tags.have(&["b", "d", "s"])
            && tags.get("h").is_none()
            && tags.has_sound_algorithm()
    };
    let is_signature = |tags: &Tags<'_>| {
        let mut covered = tags.words("h").into_iter().flatten();
        let covers_seals = covered.any(|field| field.eq_ignore_ascii_case("arc-seal"));
        tags.have(&["b", "bh", "d", "h", "s"]) && tags.has_sound_algorithm() && !covers_seals
    };
    let is_instance = |tags: &Tags<'_>, i: u32| tags.number("i") == Some(u64::from(i));
    let has = |value: &[u8], i: u32, is_good: &dyn Fn(&Tags<'_>) -> bool| {
        Tags::parse(value).is_some_and(|tags| is_good(&tags) && is_instance(&tags, i))
    };
    let newest = message
        .ams_headers
        .last()
        .and_then(|newest| Tags::parse(newest.value));
    message
        .as_headers
        .iter()
        .all(|field| has(field.value, field.header.i, &is_seal))
        && message
            .ams_headers
            .iter()
            .all(|field| has(field.value, field.header.i, &is_signature))
        && message
            .aar_headers
            .iter()
            .all(|field| own_results(field.value).is_some())
        && newest.is_some_and(|tags| !is_expired(&tags, claim))
}

/// The results after `i=N;` (RFC 8617 section 4.1.1).
fn own_results(value: &[u8]) -> Option<Results> {
    let at = value.iter().position(|byte| *byte == b';')?;
    let (instance, results) = value.split_at(at);
    let instance = std::str::from_utf8(instance)
        .ok()?
        .trim()
        .strip_prefix("i")?
        .trim_start();
    instance.strip_prefix('=')?.trim().parse::<u32>().ok()?;
    Results::parse(&results[1..])
}
