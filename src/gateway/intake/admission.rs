//! Admission of a letter by access rules and by the policy of the sender's domain, before it is
//! stored.
//!
//! In `monitor` mode no letter is refused; a decision that would have refused it is stored with the
//! letter.

use crate::config::{Mode, Security};
use crate::domain::{Address, DomainPolicy, Envelope, Identity, Via};
use crate::gateway::intake_contract::{Refusal, SenderVerdict};
use crate::gateway::judge;

/// A decision in the format of `audit_log`, `verb:rule`.
pub(super) type AdmissionDecision = String;

/// Judges the claimed names, which needs no query.
pub(super) fn by_name(
    security: &Security,
    sender: Option<&Address>,
    envelope: &Envelope,
) -> Result<Vec<AdmissionDecision>, Refusal> {
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

/// Judges the result of verifying the sender.
pub(super) fn by_identity(
    security: &Security,
    sender: Option<&Address>,
    envelope: &Envelope,
    identity: &Identity,
) -> Result<Vec<AdmissionDecision>, Refusal> {
    let has_queue = matches!(envelope.via, Via::Smtp | Via::Lmtp | Via::Http);
    let refusal = match identity.disowned {
        Some(DomainPolicy::Reject) => Some((Refusal::Disowned, "refuse", "dmarc_reject")),
        // Only a peer that keeps the letter meanwhile can be asked to retry; any other letter is
        // held (`held.rs`). The sender's claim is not trusted meanwhile: the missing DNS answer may
        // show that it is forged.
        _ if identity.is_temporary && has_queue => {
            Some((Refusal::Unverifiable, "defer", "dns_temporary"))
        }
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

/// Logs and returns the rule by which a letter's trust is lowered, if any.
pub(super) fn lowered(
    sender: Option<&Address>,
    envelope: &Envelope,
    identity: &Identity,
) -> Option<AdmissionDecision> {
    let rule = identity.lowered_by?;
    log("trusted less", rule, sender, envelope);
    Some(format!("lowered:{rule}"))
}

fn done(verb: &str) -> &'static str {
    if verb == "defer" {
        "deferred"
    } else {
        "refused"
    }
}

fn log(what: &str, rule: &str, sender: Option<&Address>, envelope: &Envelope) {
    let domain = sender.map_or("", Address::domain);
    let peer = envelope
        .peer
        .map(|peer| peer.to_string())
        .unwrap_or_default();
    tracing::info!(
        rule,
        domain,
        peer,
        via = envelope.via.as_str(),
        "a letter is {what}"
    );
}
