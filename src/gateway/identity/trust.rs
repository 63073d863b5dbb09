//! Turns evidence into trust. Pure, and the only place that grants more than `unauthenticated`.

use super::arc_signers::ArcChain;
use super::claim::Gap;
use super::relays::RelayWord;
use super::signatures::AMBIGUOUS;
use crate::domain::{Coverage, DomainPolicy, Identity, Timestamp, Trust};

/// Evidence about one letter.
#[derive(Debug, Clone, Default)]
pub struct TrustEvidence {
    /// `true`: an owner submitted it, authenticated with AUTH as the address in `From`.
    pub is_submitted: bool,
    /// `true`: a valid signature covers the letter and is aligned with `From`.
    pub is_signed: bool,
    /// Fields that such signatures cover.
    pub coverage: Coverage,
    /// Earliest instant that such signatures bear.
    pub sent_at: Option<Timestamp>,
    /// `true`: the sender, or a server that may send for this exact address, handed the letter
    /// over.
    pub is_direct: bool,
    pub relay: Option<RelayWord>,
    pub chain: Option<ArcChain>,
    pub policy: Policy,
    /// `true`: `Date` is near the arrival; `false` without a date.
    pub is_fresh: bool,
    /// Gap of a valid signature that does not count.
    pub gap: Option<Gap>,
    pub is_ambiguous: bool,
    /// `true`: a missing DNS answer could have changed the outcome.
    pub is_temporary: bool,
}

/// Policy of the sender's domain, applied to this letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// No policy, or none was queried.
    #[default]
    Silent,
    /// DMARC passed, even if by the client's address alone.
    Kept,
    /// DMARC failed.
    Disowned(DomainPolicy),
}

/// Relation of the alleged sender to the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderRelation {
    pub is_owner: bool,
    /// `true`: `access.allow` matches the address.
    pub is_allowed: bool,
}

/// Returns the trust that the evidence justifies. `results` are the results from which the evidence
/// was taken.
pub fn decide(evidence: &TrustEvidence, relation: SenderRelation, results: String) -> Identity {
    let found = |trust, basis: &str| Identity {
        trust,
        results: results.clone(),
        ..Identity::unverified(basis)
    };
    if evidence.is_submitted {
        let submitted = found(Trust::Owner, "submitted by the owner, with AUTH");
        return Identity {
            coverage: evidence.coverage,
            is_direct: true,
            sent_at: evidence.sent_at,
            ..submitted
        };
    }
    if evidence.relay == Some(RelayWord::Failed) {
        let disowned = Some(DomainPolicy::Quarantine);
        let unverified = found(Trust::Unauthenticated, "the trusted relay found dmarc=fail");
        return Identity {
            disowned,
            lowered_by: Some("relay_dmarc_fail"),
            ..unverified
        };
    }
    // Only a signature of the sender's own domain that was verified here makes an owner; a relay's
    // or an ARC signer's result makes a contact.
    let level = match (relation.is_owner, relation.is_allowed) {
        (true, _) => Trust::Owner,
        (false, true) => Trust::Contact,
        (false, false) => Trust::Unknown,
    };
    let Some(proof) = proof(evidence) else {
        return unproven(
            evidence,
            found(Trust::Unauthenticated, why_unproven(evidence)),
        );
    };
    let level = match evidence.is_signed {
        true => level,
        false => level.min(Trust::Contact),
    };
    if !evidence.is_fresh {
        let unverified = found(
            Trust::Unauthenticated,
            "proven, but dated more than 7 days from its arrival",
        );
        return Identity {
            lowered_by: Some("stale"),
            ..unverified
        };
    }
    // Only results of our own verification tell the fields that are covered.
    // The sender's own server has changed nothing on the way to us.
    let coverage = if evidence.is_signed {
        Coverage {
            content: evidence.coverage.content || evidence.is_direct,
            ..evidence.coverage
        }
    } else {
        Coverage::default()
    };
    Identity {
        coverage,
        is_direct: evidence.is_signed && evidence.is_direct,
        sent_at: evidence.sent_at.filter(|_| evidence.is_signed),
        ..found(level, proof)
    }
}

/// Names the strongest proof that the letter is its sender's.
fn proof(evidence: &TrustEvidence) -> Option<&'static str> {
    if evidence.is_signed {
        return Some("signed by the sender's domain");
    }
    match evidence.relay {
        // The relay does not tell which fields that signature covers, and any server may have
        // replayed to the relay an owner's letter to another recipient.
        Some(RelayWord::Signed) => Some("the trusted relay found an aligned dkim=pass"),
        Some(RelayWord::Passed) => Some("the trusted relay found dmarc=pass"),
        _ if evidence.chain == Some(ArcChain::Authenticated) => {
            Some("vouched for by trusted ARC seals")
        }
        _ => None,
    }
}

fn unproven(evidence: &TrustEvidence, identity: Identity) -> Identity {
    let disowned = match evidence.policy {
        Policy::Disowned(policy) => Some(policy),
        Policy::Silent | Policy::Kept => None,
    };
    let lowered_by = match (disowned, evidence.is_temporary, evidence.gap) {
        (Some(DomainPolicy::Reject), ..) => Some("dmarc_reject"),
        (Some(DomainPolicy::Quarantine), ..) => Some("dmarc_quarantine"),
        (_, true, _) => Some("dns_temporary"),
        (_, _, Some(Gap::Stale)) => Some("stale"),
        (_, _, Some(_)) => Some("signature_gap"),
        _ if evidence.is_ambiguous => Some("ambiguous_header"),
        _ => None,
    };
    Identity {
        disowned,
        lowered_by,
        is_temporary: evidence.is_temporary,
        ..identity
    }
}

fn why_unproven(evidence: &TrustEvidence) -> &'static str {
    match evidence {
        TrustEvidence {
            is_temporary: true, ..
        } => "a name server did not answer",
        TrustEvidence { gap: Some(gap), .. } => gap.as_str(),
        TrustEvidence {
            is_ambiguous: true, ..
        } => AMBIGUOUS,
        TrustEvidence {
            relay: Some(RelayWord::Nothing(why)),
            ..
        } => why,
        TrustEvidence {
            policy: Policy::Disowned(_),
            ..
        } => "disowned by the DMARC policy of the sender's domain",
        TrustEvidence {
            policy: Policy::Kept,
            ..
        } => "only the client's address speaks for the sender (SPF)",
        _ => "no signature of the sender's domain",
    }
}
