//! From evidence to trust. Pure, and the only place that raises anybody above `unauthenticated`.

use super::claim::Gap;
use super::relays::RelayWord;
use super::sealers::Chain;
use super::signatures::AMBIGUOUS;
use crate::domain::{Coverage, DomainPolicy, Identity, Trust};

/// What was found out about one letter.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The owner's submission: authenticated with AUTH as the address in `From`.
    pub is_submitted: bool,
    /// A signature that is right, covers the letter and is aligned with `From`.
    pub is_signed: bool,
    /// What such signatures cover.
    pub coverage: Coverage,
    /// The sender, or a server that may send for the sender's very address, handed the letter over.
    pub is_direct: bool,
    pub relay: Option<RelayWord>,
    pub chain: Option<Chain>,
    pub policy: Policy,
    /// `Date` is near the arrival; what has no date is not.
    pub is_fresh: bool,
    /// Why a right signature does not count.
    pub gap: Option<Gap>,
    pub is_ambiguous: bool,
    /// A question was not answered that could have changed the outcome.
    pub is_temporary: bool,
}

/// What the sender's domain says about letters like this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// It says nothing, or nobody asked.
    #[default]
    Silent,
    /// DMARC passed, be it by the client's address alone.
    Kept,
    /// DMARC failed.
    Disowned(DomainPolicy),
}

/// How the alleged sender stands to the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub is_owner: bool,
    /// `access.allow` names the address.
    pub is_allowed: bool,
}

/// Gives the trust that the evidence bears. `results` is what the evidence was read from.
pub fn decide(evidence: &Evidence, standing: Standing, results: String) -> Identity {
    let found =
        |trust, basis: &str| Identity { trust, results: results.clone(), ..Identity::unverified(basis) };
    if evidence.is_submitted {
        let submitted = found(Trust::Owner, "submitted by the owner, with AUTH");
        return Identity { coverage: evidence.coverage, is_direct: true, ..submitted };
    }
    if evidence.relay == Some(RelayWord::Failed) {
        let disowned = Some(DomainPolicy::Quarantine);
        let unverified = found(Trust::Unauthenticated, "the trusted relay found dmarc=fail");
        return Identity { disowned, lowered_by: Some("relay_dmarc_fail"), ..unverified };
    }
    // Only a signature of the sender's own domain that was verified here makes an owner; another's word makes a
    // correspondent.
    let level = match (standing.is_owner, standing.is_allowed) {
        (true, _) => Trust::Owner,
        (false, true) => Trust::Contact,
        (false, false) => Trust::Unknown,
    };
    let (proof, level) = if evidence.is_signed {
        ("signed by the sender's domain", level)
    } else if evidence.relay == Some(RelayWord::Signed) {
        // Which fields that signature covers the relay does not say, and an owner's letter to somebody else may have been
        // brought to the relay by anybody.
        ("the trusted relay found an aligned dkim=pass", level.min(Trust::Contact))
    } else if evidence.relay == Some(RelayWord::Passed) {
        ("the trusted relay found dmarc=pass", level.min(Trust::Contact))
    } else if evidence.chain == Some(Chain::Vouched) {
        ("vouched for by trusted ARC seals", level.min(Trust::Contact))
    } else {
        return unproven(evidence, found(Trust::Unauthenticated, why_unproven(evidence)));
    };
    if !evidence.is_fresh {
        let unverified = found(Trust::Unauthenticated, "proven, but dated more than 7 days from its arrival");
        return Identity { lowered_by: Some("stale"), ..unverified };
    }
    // Only what was verified here says which fields it covers.
    let coverage = if evidence.is_signed { evidence.coverage } else { Coverage::default() };
    Identity { coverage, is_direct: evidence.is_signed && evidence.is_direct, ..found(level, proof) }
}

fn unproven(evidence: &Evidence, identity: Identity) -> Identity {
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
    Identity { disowned, lowered_by, is_temporary: evidence.is_temporary, ..identity }
}

fn why_unproven(evidence: &Evidence) -> &'static str {
    match evidence {
        Evidence { is_temporary: true, .. } => "a name server did not answer",
        Evidence { gap: Some(gap), .. } => gap.as_str(),
        Evidence { is_ambiguous: true, .. } => AMBIGUOUS,
        Evidence { relay: Some(RelayWord::Nothing(why)), .. } => why,
        Evidence { policy: Policy::Disowned(_), .. } => "disowned by the DMARC policy of the sender's domain",
        Evidence { policy: Policy::Kept, .. } => "only the client's address speaks for the sender (SPF)",
        _ => "no signature of the sender's domain",
    }
}
