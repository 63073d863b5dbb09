//! Results of a trusted relay in front of us (RFC 8601 section 7.1).
//!
//! Trusted is exactly one field, with one configured authserv-id, on a letter from one configured
//! peer, and above every `Received` but that peer's own. Every other `Authentication-Results` is
//! untrusted and ignored.

use super::claim::SenderClaim;
use super::results::{Method, Results};
use super::signatures::is_same_or_above;
use crate::config::TrustedRelay;
use crate::domain::Envelope;
use crate::mutants::is_off;
use std::net::IpAddr;

/// A relay's result about the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayWord {
    /// No usable result: no field, two fields, or one that cannot be parsed.
    Nothing(&'static str),
    /// An aligned signature is valid.
    Signed,
    /// DMARC passed; the field does not name the mechanism.
    Passed,
    /// DMARC failed.
    Failed,
}

/// Result of the relay that handed the letter over; `None` without a trusted relay. The server that
/// delivers into one of our mailboxes counts as a relay too.
pub fn word(
    relays: &[TrustedRelay],
    envelope: &Envelope,
    claim: &SenderClaim<'_>,
) -> Option<RelayWord> {
    let holds = |peer: IpAddr| {
        move |relay: &&TrustedRelay| relay.peers.iter().any(|network| network.contains(peer))
    };
    let by_peer = envelope
        .peer
        .iter()
        .flat_map(|peer| relays.iter().filter(holds(*peer)));
    let by_peer = by_peer.map(|relay| relay.authserv_id.as_str());
    let ids: Vec<&str> = by_peer
        .chain(envelope.arrival.authserv_id.as_deref())
        .collect();
    (!ids.is_empty() || is_off("G3")).then(|| read(&ids, claim))
}

fn read(ids: &[&str], claim: &SenderClaim<'_>) -> RelayWord {
    let (mut hops, mut found) = (0, Vec::new());
    for (name, value) in claim.header.fields() {
        match name {
            "received" => hops += 1,
            "authentication-results" => {
                let is_of_relay =
                    |results: &Results| ids.contains(&results.authserv_id.as_str()) || is_off("G3");
                let results = Results::parse(value).filter(is_of_relay);
                found.extend(results.map(|results| (hops, results)));
            }
            _ => {}
        }
    }
    match found.as_slice() {
        [] => RelayWord::Nothing("the relay left no results"),
        // A field below a second `Received` is older than the relay's handling of the letter.
        [(2.., _)] => {
            RelayWord::Nothing("the results are older than the relay's hand on the letter")
        }
        [
            (
                _,
                Results {
                    methods: Some(methods),
                    ..
                },
            ),
        ] => judge(methods, claim.from.domain()),
        [_] => RelayWord::Nothing("the relay's results cannot be read"),
        [_, _, ..] => RelayWord::Nothing("there are two results of the relay's name"),
    }
}

/// Evaluates a list of results for the domain in `From`.
pub fn judge(methods: &[Method], from_domain: &str) -> RelayWord {
    let is_about = |method: &&Method| method.property("header.from") == Some(from_domain);
    let mut policies = methods
        .iter()
        .filter(|method| method.name == "dmarc")
        .filter(is_about);
    let policy = policies.next().map(|method| method.result.as_str());
    if policies.next().is_some() {
        return RelayWord::Nothing("there are two results for the sender's domain");
    }
    let is_signed = methods.iter().any(|method| {
        let by_identity = || {
            method
                .property("header.i")
                .and_then(|i| i.rsplit_once('@'))
                .map(|(_, domain)| domain)
        };
        let signer = method.property("header.d").or_else(by_identity);
        let is_aligned = signer.is_some_and(|signer| is_same_or_above(signer, from_domain));
        method.name == "dkim" && method.result == "pass" && is_aligned
    });
    match policy {
        Some("fail") => RelayWord::Failed,
        _ if is_signed => RelayWord::Signed,
        Some("pass") => RelayWord::Passed,
        _ => RelayWord::Nothing("the relay vouches for nobody"),
    }
}
