//! Who is it really: what a letter's sender can prove.
//!
//! A letter that brings nothing to verify costs no question: no client address from outside, no signature, no trusted
//! relay. Everything else is bounded in questions, in time per question, and in time altogether.

mod claim;
pub mod dns;
mod from;
mod policy;
mod records;
mod relays;
mod results;
mod sealers;
mod signatures;
pub mod spf;
mod tags;
mod trust;

use crate::clock::Clock;
use crate::config::{Access, Authentication, Config};
use crate::domain::{Address, Coverage, Email, Envelope, Identity};
use crate::mime::from_first_field;
use claim::Claim;
use dns::Resolver;
use mail_auth::AuthenticatedMessage;
use results::Report;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use trust::{Evidence, Standing};

/// Longest verification of one letter, all questions together.
const VERIFICATION_MAX: Duration = Duration::from_secs(10);

/// Asks the world who sent a letter.
pub struct Verifier {
    settings: Authentication,
    access: Access,
    owners: Vec<Address>,
    /// The name under which our results are written down.
    authserv_id: String,
    resolver: Resolver,
    clock: Arc<dyn Clock>,
    stopping: CancellationToken,
}

/// The engine stops, and whatever was not answered yet is not waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine stops")]
pub struct Stopping;

impl Verifier {
    /// Errors: the resolver cannot be built of the settings.
    pub fn new(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, dns::ResolverError> {
        let settings = config.security.authentication.clone();
        Ok(Self {
            resolver: Resolver::new(&settings.resolver)?,
            settings,
            access: config.security.access.clone(),
            owners: config.gateway.owners.clone(),
            authserv_id: config.gateway.host_name.clone(),
            clock,
            stopping: CancellationToken::new(),
        })
    }

    /// Lets every verification under way end now, and all later ones at once if they would have to ask.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// `email` is `None` for bytes that are none. Never fails but when the engine stops: what cannot be proven is
    /// [`Identity::unverified`].
    pub async fn identify(
        &self,
        envelope: &Envelope,
        email: Option<&Email>,
        bytes: &[u8],
    ) -> Result<Identity, Stopping> {
        let bytes = from_first_field(bytes);
        let sender = email.and_then(Email::sender);
        let arrived = envelope.arrival.arrived_at.unwrap_or_else(|| self.clock.now());
        let date = email.and_then(|email| email.date);
        let Some(claim) = Claim::read(bytes, sender.as_ref(), date, arrived) else {
            return Ok(Identity::unverified("not from exactly one plainly written address"));
        };
        let standing = Standing {
            is_owner: self.owners.iter().any(|owner| owner.key() == claim.from.key()),
            is_allowed: self.access.allows(&claim.from),
        };
        let mut report = Report::default();
        let looking = tokio::time::timeout(
            VERIFICATION_MAX,
            self.investigate(&claim, standing, envelope, bytes, &mut report),
        );
        let evidence = tokio::select! {
            biased;
            found = looking => found.unwrap_or_else(|_| Evidence { is_temporary: true, ..Evidence::default() }),
            () = self.stopping.cancelled() => return Err(Stopping),
        };
        Ok(trust::decide(&evidence, standing, report.signed(&self.authserv_id)))
    }

    async fn investigate(
        &self,
        claim: &Claim<'_>,
        standing: Standing,
        envelope: &Envelope,
        bytes: &[u8],
        report: &mut Report,
    ) -> Evidence {
        let submitted_by = envelope.arrival.submitted_by.as_ref().map(Address::key);
        if standing.is_owner && submitted_by.is_some_and(|submitter| submitter == claim.from.key()) {
            report.add("auth", "pass", "", &[("smtp.auth", &claim.from.key())]);
            return Evidence {
                is_submitted: true,
                is_direct: true,
                coverage: Coverage::WHOLE,
                ..Evidence::default()
            };
        }
        let relay = relays::word(&self.settings.trusted_relays, envelope, claim);
        let is_fresh = claim.date.is_some_and(|date| claim.is_fresh(date));
        let mut evidence = Evidence { relay, is_fresh, ..Evidence::default() };
        // A relay's address says nothing about who handed the letter to the relay.
        let client = envelope.peer.filter(|peer| relay.is_none() && is_public(*peer));
        let has_chain = !self.settings.trusted_sealers.is_empty() && claim.has("arc-seal");
        let is_signed = claim.has("dkim-signature");
        if client.is_none() && !is_signed && !has_chain {
            return evidence;
        }
        let Some(mut message) = AuthenticatedMessage::parse(bytes) else { return evidence };
        signatures::select(&mut message, claim.from.domain());
        let message = &message;
        let (spf, keys) = {
            let sender = policy::SpfSender::of(envelope, client);
            let checking = policy::spf(&self.resolver, sender.as_ref());
            tokio::join!(checking, signatures::keys(&self.resolver, message))
        };
        let found = signatures::verify(&self.resolver, (message, &keys), claim, report).await;
        evidence.is_direct = spf.as_ref().is_some_and(|spf| spf.passed_for(&claim.from, envelope));
        let asked = policy::ask(&self.resolver, message, claim, &found, spf, report).await;
        (evidence.is_signed, evidence.coverage) = (asked.is_aligned, asked.coverage);
        evidence.policy = asked.policy;
        evidence.is_temporary = asked.is_temporary;
        evidence.gap = found.gap;
        evidence.is_ambiguous = found.is_ambiguous && !found.right.is_empty();
        if has_chain && !evidence.is_signed {
            let trusted = &self.settings.trusted_sealers;
            let chain = sealers::verify(&self.resolver, message, claim, trusted, report).await;
            evidence.is_temporary |= chain == sealers::Chain::Temporary;
            evidence.chain = Some(chain).filter(|_| !found.is_ambiguous);
        }
        // A signature that counts carries its own freshness.
        evidence.is_fresh |= evidence.is_signed;
        evidence
    }
}

/// Whether an address may be that of a stranger's mail server: on nobody's own network, SPF says nothing.
fn is_public(peer: IpAddr) -> bool {
    match peer.to_canonical() {
        IpAddr::V4(ip) => {
            let is_shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
            !(ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified() || is_shared)
        }
        IpAddr::V6(ip) => {
            let local = ip == Ipv6Addr::LOCALHOST || ip.is_unspecified();
            !(local || ip.is_unique_local() || ip.is_unicast_link_local())
        }
    }
}
