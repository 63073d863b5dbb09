//! DMARC (RFC 9989): alignment of signatures and SPF with the sender's organisation, and that
//! organisation's policy for letters without alignment.

use super::claim::SenderClaim;
use super::dns::DnsResolver;
use super::records::DnsRecords;
use super::results::AuthenticationReport;
use super::signatures::{Signatures, is_same_or_above};
use super::spf::{self, SpfResult};
use super::trust::Policy;
use crate::domain::{Address, Coverage, DomainPolicy, Envelope, Timestamp};
use crate::mutants::is_off;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::{
    AuthenticatedMessage, DkimOutput, DmarcOutput, DmarcResult, Parameters, SpfOutput,
};
use std::net::IpAddr;

/// Identity for which a client sends (RFC 7208 section 2.4).
pub struct SpfSender<'a> {
    client: IpAddr,
    helo: &'a str,
    /// `local@domain`.
    sender: String,
    /// Name of the identity in `Authentication-Results`, such as `smtp.mailfrom`.
    property: &'static str,
}

impl<'a> SpfSender<'a> {
    /// `None` without a client whose address is evidence.
    pub fn from_envelope(envelope: &'a Envelope, client: Option<IpAddr>) -> Option<Self> {
        let (sender, property) = match &envelope.mail_from {
            Some(address) => (Address::to_string(address), "smtp.mailfrom"),
            None => (format!("postmaster@{}", envelope.helo), "smtp.helo"),
        };
        Some(Self {
            client: client?,
            helo: &envelope.helo,
            sender,
            property,
        })
    }
}

/// An SPF result and its identity.
pub struct SpfFinding {
    result: SpfResult,
    domain: String,
    property: &'static str,
}

impl SpfFinding {
    /// Reports whether SPF permits the client for this exact address. A provider's servers send for
    /// all of its users, so that the domain alone does not suffice.
    pub fn passed_for(&self, sender: &Address, envelope: &Envelope) -> bool {
        let is_sender = envelope
            .mail_from
            .as_ref()
            .is_some_and(|from| from.key() == sender.key());
        self.result == SpfResult::Pass && is_sender
    }
}

pub async fn spf(resolver: &DnsResolver, sender: Option<&SpfSender<'_>>) -> Option<SpfFinding> {
    let sender = sender?;
    let result = spf::check(resolver, sender.client, sender.helo, &sender.sender).await;
    let domain = sender
        .sender
        .rsplit_once('@')
        .map_or("", |(_, domain)| domain)
        .to_ascii_lowercase();
    Some(SpfFinding {
        result,
        domain,
        property: sender.property,
    })
}

/// Result of the DMARC evaluation.
pub struct DmarcEvaluation {
    /// `true`: a signature that counts is of the sender's organisation.
    pub is_aligned: bool,
    /// Fields that such signatures cover.
    pub coverage: Coverage,
    /// Earliest instant that such signatures bear.
    pub sent_at: Option<Timestamp>,
    pub policy: Policy,
    /// `true`: a DNS answer that could have changed the outcome is missing.
    pub is_temporary: bool,
}

/// Queries the policy of the sender's domain and aligns the signatures and SPF with it.
pub async fn ask(
    resolver: &DnsResolver,
    message: &AuthenticatedMessage<'_>,
    claim: &SenderClaim<'_>,
    found: &Signatures<'_>,
    spf: Option<SpfFinding>,
    report: &mut AuthenticationReport,
) -> DmarcEvaluation {
    let from_domain = claim.from.domain();
    if let Some(spf) = &spf {
        report.add(
            "spf",
            spf.result.as_str(),
            "",
            &[(spf.property, &spf.domain)],
        );
    }
    let spf_domain = spf.iter().map(|spf| spf.domain.as_str());
    let signer_domains = found
        .right
        .iter()
        .filter_map(DkimOutput::signature)
        .map(|signature| signature.d.as_str());
    let policies =
        DnsRecords::policies(resolver, from_domain, spf_domain.chain(signer_domains)).await;
    let strong = evaluate(resolver, message, &found.strong, spf.as_ref(), &policies).await;
    let signers = || {
        found
            .strong
            .iter()
            .filter_map(DkimOutput::signature)
            .map(|signature| signature.d.as_str())
    };
    // An identical domain is aligned under every policy, so a policy that cannot be fetched does
    // not matter.
    let is_same = is_off("G2") || signers().any(|signer| signer == from_domain);
    let is_aligned = is_same
        || match strong.dmarc_record() {
            Some(_) => *strong.dkim_result() == DmarcResult::Pass,
            None if is_unknown(&strong) => false,
            None => signers().any(|signer| is_same_or_above(signer, from_domain)),
        };
    let (coverage, sent_at) = coverage(resolver, message, claim, found, &strong, &policies).await;
    // A delayed or slightly changed letter is still its sender's: only a letter that the domain
    // neither signed nor sent is `Disowned`.
    let outcome = match found.right.len() == found.strong.len() {
        true => strong,
        false => evaluate(resolver, message, &found.right, spf.as_ref(), &policies).await,
    };
    let failed = !is_aligned
        && matches!(outcome.result(), DmarcResult::Fail(_) | DmarcResult::None)
        && outcome.dmarc_record().is_some();
    // Without the client's address SPF is undecided, and so is DKIM with `l=` or with a key that
    // DNS did not return.
    let is_open = spf.is_none() || found.is_cut_short || found.is_temporary;
    let policy = match outcome.result() {
        _ if is_aligned => Policy::Kept,
        DmarcResult::Pass => Policy::Kept,
        _ if failed && !is_open => Policy::Disowned(wish(&outcome)),
        _ => Policy::Silent,
    };
    add_dmarc(report, &outcome, policy, is_open, from_domain);
    DmarcEvaluation {
        is_aligned,
        coverage,
        sent_at,
        policy,
        is_temporary: !is_aligned && (found.is_temporary || is_unknown(&outcome)),
    }
}

/// Adds the outcome to the results, in the words of RFC 8601.
fn add_dmarc(
    report: &mut AuthenticationReport,
    outcome: &DmarcOutput,
    policy: Policy,
    is_open: bool,
    from_domain: &str,
) {
    let word = match (&outcome.result(), policy) {
        _ if outcome.dmarc_record().is_none() && is_unknown(outcome) => "temperror",
        _ if outcome.dmarc_record().is_none() => "none",
        (_, Policy::Kept) => "pass",
        (DmarcResult::TempError(_), _) => "temperror",
        (DmarcResult::PermError(_), _) => "permerror",
        _ if is_open => "none",
        _ => "fail",
    };
    let wish_word = outcome
        .dmarc_record()
        .map_or("none", |_| wish(outcome).as_str());
    report.add(
        "dmarc",
        word,
        "",
        &[("header.from", from_domain), ("policy.dmarc", wish_word)],
    );
}

/// Coverage of all aligned signatures together, and the earliest instant that they bear; each must be aligned by itself, because a field
/// that another domain signed is not authenticated by the sender. `all` is the outcome for all
/// signatures.
async fn coverage(
    resolver: &DnsResolver,
    message: &AuthenticatedMessage<'_>,
    claim: &SenderClaim<'_>,
    found: &Signatures<'_>,
    all: &DmarcOutput,
    policies: &DnsRecords,
) -> (Coverage, Option<Timestamp>) {
    let from_domain = claim.from.domain();
    let (mut coverage, mut sent_at) = (Coverage::default(), None);
    for output in &found.strong {
        let Some(signature) = output.signature() else {
            continue;
        };
        let is_aligned = signature.d == from_domain
            || match all.dmarc_record() {
                Some(_) => {
                    let only = std::slice::from_ref(output);
                    let alone = evaluate(resolver, message, only, None, policies).await;
                    *alone.dkim_result() == DmarcResult::Pass
                }
                None => !is_unknown(all) && is_same_or_above(&signature.d, from_domain),
            };
        if is_aligned {
            coverage = coverage.or(claim.coverage(&signature.h));
            let signed = claim.signed_at(&signature.h, signature.t);
            sent_at = sent_at.into_iter().chain(signed).min();
        }
    }
    (coverage, sent_at)
}

async fn evaluate(
    resolver: &DnsResolver,
    message: &AuthenticatedMessage<'_>,
    signatures: &[DkimOutput<'_>],
    spf: Option<&SpfFinding>,
    policies: &DnsRecords,
) -> DmarcOutput {
    let domain = spf.map_or("", |spf| spf.domain.as_str());
    let result = match spf.map(|spf| spf.result) {
        Some(SpfResult::Pass) => mail_auth::SpfResult::Pass,
        Some(SpfResult::TempError) => mail_auth::SpfResult::TempError,
        _ => mail_auth::SpfResult::None,
    };
    let spf = SpfOutput::new(domain.to_owned()).with_result(result);
    let parameters = DmarcParameters::new(message, signatures, domain, &spf);
    resolver
        .authenticator
        .verify_dmarc(Parameters::new(parameters).with_txt_cache(policies))
        .await
}

/// Reports whether a name server did not answer.
fn is_unknown(outcome: &DmarcOutput) -> bool {
    matches!(outcome.result(), DmarcResult::TempError(_))
}

fn wish(outcome: &DmarcOutput) -> DomainPolicy {
    match outcome.policy() {
        mail_auth::dmarc::Policy::Reject => DomainPolicy::Reject,
        mail_auth::dmarc::Policy::Quarantine => DomainPolicy::Quarantine,
        mail_auth::dmarc::Policy::None | mail_auth::dmarc::Policy::Unspecified => {
            DomainPolicy::None
        }
    }
}
