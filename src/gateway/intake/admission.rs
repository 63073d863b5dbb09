//! Who comes in: what access rules and the sender's own domain say about a letter, before it is stored.
//!
//! In `monitor` nobody is refused; what would have been is a decision that is stored beside the letter.

use crate::config::{Mode, Security};
use crate::domain::{Address, DomainPolicy, Envelope, Identity, Via};
use crate::gateway::door::{Refusal, SenderVerdict};
use crate::gateway::judge;

/// A decision as `audit_log` has it, `verb:rule`.
pub(super) type Decision = String;

/// Judges the names that a letter bears, which costs no question.
pub(super) fn by_name(
    security: &Security,
    sender: Option<&Address>,
    envelope: &Envelope,
) -> Result<Vec<Decision>, Refusal> {
    match judge::access(&security.access, sender, envelope.mail_from.as_ref()) {
        SenderVerdict::Welcome => Ok(Vec::new()),
        SenderVerdict::Denied => match security.access.mode {
            Mode::Enforce => Err(Refusal::Denied),
            Mode::Monitor => {
                log("would be refused", "access", sender, envelope);
                Ok(vec!["would_refuse:access".to_owned()])
            }
        },
    }
}

/// Judges what was found out about who sent a letter.
pub(super) fn by_identity(
    security: &Security,
    sender: Option<&Address>,
    envelope: &Envelope,
    identity: &Identity,
) -> Result<Vec<Decision>, Refusal> {
    let has_queue = matches!(envelope.via, Via::Smtp | Via::Lmtp);
    let refusal = match identity.disowned {
        Some(DomainPolicy::Reject) => Some((Refusal::Disowned, "refuse", "dmarc_reject")),
        // Only a peer that keeps the letter meanwhile can be asked to come again; any other letter is held (`held.rs`).
        // Nobody is taken at their word meanwhile: what a name server would have said may be that it is a forgery.
        _ if identity.is_temporary && has_queue => Some((Refusal::Unverifiable, "defer", "dns_temporary")),
        _ => None,
    };
    let mut decisions = Vec::new();
    match (refusal, security.authentication.mode) {
        (Some((refusal, ..)), Mode::Enforce) => return Err(refusal),
        (Some((_, verb, rule)), Mode::Monitor) => {
            log(&format!("would be {}", done(verb)), rule, sender, envelope);
            decisions.push(format!("would_{verb}:{rule}"));
        }
        (None, _) => {}
    }
    decisions.extend(lowered(sender, envelope, identity));
    Ok(decisions)
}

/// Why a letter counts for less than was asked for.
pub(super) fn lowered(
    sender: Option<&Address>,
    envelope: &Envelope,
    identity: &Identity,
) -> Option<Decision> {
    let rule = identity.lowered_by?;
    log("trusted less", rule, sender, envelope);
    Some(format!("lowered:{rule}"))
}

fn done(verb: &str) -> &'static str {
    if verb == "defer" { "deferred" } else { "refused" }
}

fn log(what: &str, rule: &str, sender: Option<&Address>, envelope: &Envelope) {
    let domain = sender.map_or("", Address::domain);
    let peer = envelope.peer.map(|peer| peer.to_string()).unwrap_or_default();
    tracing::info!(rule, domain, peer, via = envelope.via.as_str(), "a letter is {what}");
}
