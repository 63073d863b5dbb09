//! ARC (RFC 8617): what forwarders and lists that are trusted saw before they changed a letter.
//!
//! Asked only where the letter proves nothing by itself, and only if every sealer of the chain is trusted: a chain
//! that is right says who touched the letter, not that they are honest.

use super::claim::Claim;
use super::dns::Resolver;
use super::relays::{RelayWord, judge};
use super::results::{Report, Results};
use super::signatures::word;
use mail_auth::{AuthenticatedMessage, DkimResult};

/// Sets of one chain; each costs two questions.
const SETS_MAX: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// No chain, a broken one, or one of somebody who is not trusted.
    Nothing,
    /// A trusted sealer saw that the sender was who they said.
    Vouched,
    /// A key could not be fetched.
    Temporary,
}

pub async fn verify(
    resolver: &Resolver,
    message: &AuthenticatedMessage<'_>,
    claim: &Claim<'_>,
    trusted: &[String],
    report: &mut Report,
) -> Chain {
    let is_trusted = |domain: &str| trusted.iter().any(|name| name.eq_ignore_ascii_case(domain));
    let seals = &message.as_headers;
    if seals.is_empty() || seals.len() > SETS_MAX || !seals.iter().all(|seal| is_trusted(&seal.header.d)) {
        return Chain::Nothing;
    }
    let output = resolver.authenticator.verify_arc(message).await;
    let sealer = output.sets().last().map(|set| set.seal.header.d.clone()).unwrap_or_default();
    report.add("arc", word(output.result()), "", &[("header.d", &sealer)]);
    match output.result() {
        DkimResult::Pass => {}
        DkimResult::TempError(_) => return Chain::Temporary,
        _ => return Chain::Nothing,
    }
    let Some(newest) = output.sets().last() else { return Chain::Nothing };
    let signature = &newest.signature.header;
    if claim.uncovered(&signature.h, signature.t.max(newest.seal.header.t)).is_some() {
        return Chain::Nothing;
    }
    // The first to touch the letter saw it as it was sent; those behind saw what that one left.
    let vouched = output.sets().iter().any(|set| {
        let methods = own_results(set.results.value).and_then(|results| results.methods);
        let word = methods.map(|methods| judge(&methods, claim.from.domain()));
        matches!(word, Some(RelayWord::Signed | RelayWord::Passed))
    });
    if vouched { Chain::Vouched } else { Chain::Nothing }
}

/// The results behind `i=N;` (RFC 8617 section 4.1.1).
fn own_results(value: &[u8]) -> Option<Results> {
    let at = value.iter().position(|byte| *byte == b';')?;
    let (instance, results) = value.split_at(at);
    let instance = std::str::from_utf8(instance).ok()?.trim().strip_prefix("i")?.trim_start();
    instance.strip_prefix('=')?.trim().parse::<u32>().ok()?;
    Results::parse(&results[1..])
}
