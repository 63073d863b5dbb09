//! Verification of senders: the evidence that a letter gives for its `From`.
//!
//! A letter without anything to verify costs no DNS query: no public client address, no signature,
//! no trusted relay. Every other letter has a bound on queries, a timeout per query, and a total
//! timeout.
//!
//! - `claim`, `from`: the sender that a letter claims
//! - `dns`, `records`: queries, keys and policies
//! - `signatures`, `tags`: DKIM; `spf`: the client's permission; `arc_signers`: forwarders and lists
//! - `policy`: DMARC over both
//! - `relays`, `results`: results of a relay in front of us, and ours
//! - `trust`: evidence to trust

mod claim;
pub mod dns;
mod from;
mod policy;
pub(super) mod records;
mod relays;
mod results;
mod arc_signers;
mod signatures;
pub mod spf;
pub(super) mod tags;
mod trust;

use crate::clock::Clock;
use crate::config::{Access, Authentication, Config};
use crate::domain::{Address, Coverage, Email, Envelope, Identity};
use crate::mime::from_first_field;
use claim::SenderClaim;
use dns::DnsResolver;
use mail_auth::AuthenticatedMessage;
use results::AuthenticationReport;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use trust::{SenderRelation, TrustEvidence};

/// Timeout of the verification of one letter, all queries together.
const VERIFICATION_MAX: Duration = Duration::from_secs(10);

/// Verifies the senders of letters, by DNS queries where needed.
pub struct SenderVerifier {
    settings: Authentication,
    access: Access,
    owners: Vec<Address>,
    /// The authserv-id in our results.
    authserv_id: String,
    resolver: DnsResolver,
    clock: Arc<dyn Clock>,
    stopping: CancellationToken,
}

/// Error of a verification that the engine's stop interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine stops")]
pub struct Stopping;

impl SenderVerifier {
    /// Errors: the resolver cannot be built from the settings.
    pub fn new(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, dns::ResolverError> {
        let settings = config.security.authentication.clone();
        Ok(Self {
            resolver: DnsResolver::new(&settings.resolver)?,
            settings,
            access: config.security.access.clone(),
            owners: config.gateway.owners.clone(),
            authserv_id: config.gateway.host_name.clone(),
            clock,
            stopping: CancellationToken::new(),
        })
    }

    /// Builds the verifier of other settings, which stops with this one. Errors: as [`Self::new`].
    pub fn renewed(&self, config: &Config) -> Result<Self, dns::ResolverError> {
        let settings = config.security.authentication.clone();
        // A resolver has a cache, which other settings leave good.
        let resolver = match settings.resolver == self.settings.resolver {
            true => self.resolver.clone(),
            false => DnsResolver::new(&settings.resolver)?,
        };
        Ok(Self {
            resolver,
            settings,
            access: config.security.access.clone(),
            owners: config.gateway.owners.clone(),
            authserv_id: config.gateway.host_name.clone(),
            clock: self.clock.clone(),
            stopping: self.stopping.clone(),
        })
    }

    /// Interrupts every verification under way, and all later ones that need a query.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Verifies one letter. `email` is `None` for bytes that are no letter. Fails only when the
    /// engine stops: without proof the result is [`Identity::unverified`].
    pub async fn identify(
        &self,
        envelope: &Envelope,
        email: Option<&Email>,
        bytes: &[u8],
    ) -> Result<Identity, Stopping> {
        let bytes = from_first_field(bytes);
        let sender = email.and_then(Email::sender);
        let arrived = envelope
            .arrival
            .arrived_at
            .unwrap_or_else(|| self.clock.now());
        let date = email.and_then(|email| email.date);
        let Some(claim) = SenderClaim::read(bytes, sender.as_ref(), date, arrived) else {
            return Ok(Identity::unverified(
                "not from exactly one plainly written address",
            ));
        };
        let relation = SenderRelation {
            is_owner: self
                .owners
                .iter()
                .any(|owner| owner.key() == claim.from.key()),
            is_allowed: self.access.allows(&claim.from),
        };
        let mut report = AuthenticationReport::default();
        let looking = tokio::time::timeout(
            VERIFICATION_MAX,
            self.investigate(&claim, relation, envelope, bytes, &mut report),
        );
        let evidence = tokio::select! {
            biased;
            found = looking => found.unwrap_or_else(|_| TrustEvidence { is_temporary: true, ..TrustEvidence::default() }),
            () = self.stopping.cancelled() => return Err(Stopping),
        };
        Ok(trust::decide(
            &evidence,
            relation,
            report.signed(&self.authserv_id),
        ))
    }

    async fn investigate(
        &self,
        claim: &SenderClaim<'_>,
        relation: SenderRelation,
        envelope: &Envelope,
        bytes: &[u8],
        report: &mut AuthenticationReport,
    ) -> TrustEvidence {
        let submitted_by = envelope.arrival.submitted_by.as_ref().map(Address::key);
        if relation.is_owner && submitted_by.is_some_and(|submitter| submitter == claim.from.key())
        {
            report.add("auth", "pass", "", &[("smtp.auth", &claim.from.key())]);
            return TrustEvidence {
                is_submitted: true,
                is_direct: true,
                coverage: Coverage::WHOLE,
                sent_at: Some(claim.arrived),
                ..TrustEvidence::default()
            };
        }
        let relay = relays::word(&self.settings.trusted_relays, envelope, claim);
        let is_fresh = claim.date.is_some_and(|date| claim.is_fresh(date));
        let mut evidence = TrustEvidence {
            relay,
            is_fresh,
            ..TrustEvidence::default()
        };
        // A relay's address is no evidence about its own client.
        let client = envelope
            .peer
            .filter(|peer| relay.is_none() && is_public(*peer));
        let has_chain = !self.settings.trusted_arc_signers.is_empty() && claim.has("arc-seal");
        let is_signed = claim.has("dkim-signature");
        if client.is_none() && !is_signed && !has_chain {
            return evidence;
        }
        let Some(mut message) = AuthenticatedMessage::parse(bytes) else {
            return evidence;
        };
        signatures::select(&mut message, claim.from.domain());
        let message = &message;
        let (spf, keys) = {
            let sender = policy::SpfSender::from_envelope(envelope, client);
            let checking = policy::spf(&self.resolver, sender.as_ref());
            tokio::join!(checking, signatures::keys(&self.resolver, message))
        };
        let found = signatures::verify(&self.resolver, (message, &keys), claim, report).await;
        evidence.is_direct = spf
            .as_ref()
            .is_some_and(|spf| spf.passed_for(&claim.from, envelope));
        let asked = policy::ask(&self.resolver, message, claim, &found, spf, report).await;
        (evidence.is_signed, evidence.coverage) = (asked.is_aligned, asked.coverage);
        evidence.sent_at = asked.sent_at;
        evidence.policy = asked.policy;
        evidence.is_temporary = asked.is_temporary;
        evidence.gap = found.gap;
        evidence.is_ambiguous = found.is_ambiguous && !found.right.is_empty();
        if has_chain && !evidence.is_signed {
            let trusted = &self.settings.trusted_arc_signers;
            let chain = arc_signers::verify(&self.resolver, message, claim, trusted, report).await;
            evidence.is_temporary |= chain == arc_signers::ArcChain::Temporary;
            evidence.chain = Some(chain).filter(|_| !found.is_ambiguous);
        }
        // A signature that counts includes its own freshness.
        evidence.is_fresh |= evidence.is_signed;
        evidence
    }
}

/// Reports whether an address may be that of a public mail server: SPF says nothing about private
/// networks.
fn is_public(peer: IpAddr) -> bool {
    match peer.to_canonical() {
        IpAddr::V4(ip) => {
            let is_shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
            !(ip.is_loopback()
                || ip.is_private()
                || ip.is_link_local()
                || ip.is_unspecified()
                || is_shared)
        }
        IpAddr::V6(ip) => {
            let local = ip == Ipv6Addr::LOCALHOST || ip.is_unspecified();
            !(local || ip.is_unique_local() || ip.is_unicast_link_local())
        }
    }
}
