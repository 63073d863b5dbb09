//! Letters whose sender could not be verified at arrival, because a name server did not answer. A
//! peer that keeps its letter is asked to retry; any other letter is stored unchanged and verified
//! again later (decision D-22).
//!
//! It has no message and no run meanwhile, because its thread depends on its sender.

use super::{Intake, Judged, admission};
use crate::config::Persona;
use crate::domain::{
    Address, Arrival, Envelope, Identity, MailboxUid, MessageId, Timestamp, Via, sha256_hex,
};
use crate::gateway::identity::Stopping;
use crate::gateway::intake_contract::{Accepted, Copy, CopyOutcome, Refusal};
use crate::store::{HeldLetter, NewHeld, StoreError};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Delays between two verifications; the last one is repeated.
const WAITS: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(30 * 60),
];
/// Maximum time that a letter is held: as long as a mail server would retry it (RFC 5321 section
/// 4.5.4.1).
const HELD_MAX: Duration = Duration::from_secs(5 * 24 * 3600);

/// Delay before the next verification after `attempts` attempts. Pure.
fn next_attempt_after(attempts: u32) -> Duration {
    let at = usize::try_from(attempts)
        .unwrap_or(usize::MAX)
        .min(WAITS.len() - 1);
    WAITS[at]
}

impl Intake {
    /// Stores a letter that is to be verified again.
    pub(super) async fn hold(
        &self,
        envelope: &Envelope,
        bytes: &Arc<[u8]>,
        personas: &[&Persona],
        sender: Option<Address>,
    ) -> Result<Accepted, Refusal> {
        let now = self.clock.now();
        let (sha256, envelope_json) = (
            sha256_hex(&[bytes]),
            StoredEnvelope::from_envelope(envelope, now).to_json(),
        );
        let held = |persona: &&Persona| NewHeld {
            id: MessageId::new(self.clock.new_id()),
            persona: persona.id.clone(),
            sha256: sha256.clone(),
            envelope_json: envelope_json.clone(),
            bytes: bytes.clone(),
            next_attempt_at: now.plus(next_attempt_after(0)),
        };
        let copies = personas.iter().map(held).collect();
        let held = self
            .store
            .hold_letter(copies, envelope.arrival.mailbox.clone())
            .await?;
        let copy = |(persona, message): (&&Persona, MessageId)| Copy {
            persona: persona.id.clone(),
            message,
            outcome: CopyOutcome::Held,
        };
        let copies = personas.iter().zip(held).map(copy).collect();
        Ok(Accepted {
            sender,
            copies,
            needs_confirmation: false,
        })
    }

    /// Verifies every held letter that is due; returns the number of letters that became messages.
    pub async fn verify_held(&self) -> Result<usize, StoreError> {
        let mut released = 0;
        while let Some(held) = self.store.next_held_letter(self.clock.now()).await? {
            match self.verify_again(&held).await {
                Ok(true) => released += 1,
                Ok(false) => {
                    let until = self.clock.now().plus(next_attempt_after(held.attempts + 1));
                    self.store.postpone_held_letter(&held.id, until).await?;
                }
                Err(Refusal::NotStored(error)) => return Err(error),
                // The engine is stopping.
                Err(_) => return Ok(released),
            }
        }
        Ok(released)
    }

    /// Verifies one held letter. `Ok(false)`: it stays held. A held letter is never refused,
    /// because it was accepted.
    async fn verify_again(&self, held: &HeldLetter) -> Result<bool, Refusal> {
        let (Some(envelope), Some(persona)) = (
            StoredEnvelope::read(&held.envelope_json),
            self.config.personas.get(&held.persona),
        ) else {
            tracing::warn!(
                persona = held.persona.as_str(),
                "a held letter waits for its persona to be configured"
            );
            return Ok(false);
        };
        let email = self.parse(held.bytes.clone()).await.unwrap_or(None);
        let identity = self
            .verifier
            .identify(&envelope, email.as_ref(), &held.bytes)
            .await;
        let identity = identity.map_err(|Stopping| Refusal::Unverifiable)?;
        if identity.is_temporary && self.clock.now().since(held.held_at) < HELD_MAX {
            return Ok(false);
        }
        let judged = self.judge_held(&envelope, held, email, identity).await?;
        let copies = self.copies(judged, &[persona], Some(&held.id)).await?;
        self.store.release_letter(copies, held.id.clone()).await?;
        self.runs_queued.notify_one();
        Ok(true)
    }

    async fn judge_held<'l>(
        &self,
        envelope: &'l Envelope,
        held: &HeldLetter,
        email: Option<crate::domain::Email>,
        identity: Identity,
    ) -> Result<Judged<'l>, Refusal> {
        let bytes = held.bytes.clone();
        let returned = self.returned(envelope, email.as_ref(), &bytes).await?;
        let sender = email.as_ref().and_then(crate::domain::Email::sender);
        let security = returned.admits(&self.config.security);
        let (refused_by, mut decisions) =
            match admission::by_name(&security, sender.as_ref(), envelope) {
                Ok(decisions) => (None, decisions),
                // The rules were changed after it was accepted.
                Err(_) => (Some("access"), Vec::new()),
            };
        decisions.extend(admission::lowered(sender.as_ref(), envelope, &identity));
        Ok(Judged {
            envelope,
            bytes,
            email,
            returned,
            identity,
            decisions,
            refused_by,
        })
    }
}

/// An envelope with all data of its arrival, as a row stores it.
#[derive(Serialize, Deserialize)]
struct StoredEnvelope {
    mail_from: Option<String>,
    rcpt_to: Vec<String>,
    helo: String,
    peer: Option<IpAddr>,
    via: String,
    submitted_by: Option<String>,
    encrypted: bool,
    extended: bool,
    arrived_at: String,
    mailbox: Option<(String, u32, u32)>,
    authserv_id: Option<String>,
    names_recipients: bool,
}

impl StoredEnvelope {
    fn from_envelope(envelope: &Envelope, now: Timestamp) -> Self {
        let Envelope {
            mail_from,
            rcpt_to,
            helo,
            peer,
            via,
            arrival,
        } = envelope;
        let text = |address: &Address| address.to_string();
        Self {
            mail_from: mail_from.as_ref().map(text),
            rcpt_to: rcpt_to.iter().map(text).collect(),
            helo: helo.clone(),
            peer: *peer,
            via: via.as_str().to_owned(),
            submitted_by: arrival.submitted_by.as_ref().map(text),
            encrypted: arrival.encrypted,
            extended: arrival.extended,
            // It arrived now, whenever it is verified.
            arrived_at: arrival.arrived_at.unwrap_or(now).to_string(),
            mailbox: arrival
                .mailbox
                .as_ref()
                .map(|at| (at.mailbox.clone(), at.uid_validity, at.uid)),
            authserv_id: arrival.authserv_id.clone(),
            names_recipients: arrival.names_recipients,
        }
    }

    fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Reads the JSON; `None`: it was not written by [`Self::from_envelope`].
    fn read(json: &str) -> Option<Envelope> {
        const WAYS: [Via; 7] = [
            Via::Smtp,
            Via::Lmtp,
            Via::Http,
            Via::Imap,
            Via::Folder,
            Via::File,
            Via::Import,
        ];
        let stored: Self = serde_json::from_str(json).ok()?;
        let address = |text: &String| Address::parse(text).ok();
        let mailbox = |(mailbox, uid_validity, uid)| MailboxUid {
            mailbox,
            uid_validity,
            uid,
        };
        Some(Envelope {
            mail_from: stored.mail_from.as_ref().and_then(address),
            rcpt_to: stored.rcpt_to.iter().filter_map(address).collect(),
            helo: stored.helo,
            peer: stored.peer,
            via: WAYS.into_iter().find(|via| via.as_str() == stored.via)?,
            arrival: Arrival {
                submitted_by: stored.submitted_by.as_ref().and_then(address),
                encrypted: stored.encrypted,
                extended: stored.extended,
                arrived_at: Some(Timestamp::parse(&stored.arrived_at)?),
                mailbox: stored.mailbox.map(mailbox),
                authserv_id: stored.authserv_id,
                names_recipients: stored.names_recipients,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_comes_back_as_it_was() {
        let address = |text: &str| Address::parse(text).unwrap();
        let now = Timestamp::parse("2026-11-20T09:00:00.123Z").unwrap();
        let envelope = Envelope {
            mail_from: Some(address("Bob+x@guest.example")),
            rcpt_to: vec![address("ada@engine.test"), address("ben@engine.test")],
            helo: "mx.guest.example".to_owned(),
            peer: Some("2001:db8::7".parse().unwrap()),
            via: Via::Imap,
            arrival: Arrival {
                submitted_by: Some(address("olga@home.test")),
                encrypted: true,
                extended: true,
                arrived_at: Some(now.minus(Duration::from_secs(60))),
                mailbox: Some(MailboxUid {
                    mailbox: "post".to_owned(),
                    uid_validity: 7,
                    uid: 9,
                }),
                authserv_id: Some("mx.post.example".to_owned()),
                names_recipients: true,
            },
        };
        assert_eq!(
            StoredEnvelope::read(&StoredEnvelope::from_envelope(&envelope, now).to_json()),
            Some(envelope.clone())
        );
        let bare = Envelope {
            mail_from: None,
            peer: None,
            arrival: Arrival::default(),
            ..envelope
        };
        let read = StoredEnvelope::read(&StoredEnvelope::from_envelope(&bare, now).to_json());
        assert_eq!(
            read.map(|read| read.arrival.arrived_at),
            Some(Some(now)),
            "without a time of arrival it is now"
        );
        assert_eq!(StoredEnvelope::read("{}"), None);
    }

    #[test]
    fn the_waits_grow_and_then_stay() {
        assert_eq!(
            [0, 1, 3, 4, u32::MAX].map(|n| next_attempt_after(n).as_secs()),
            [60, 300, 1800, 1800, 1800]
        );
    }
}
