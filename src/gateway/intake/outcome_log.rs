//! One log line for each letter and persona: sender, recipient, outcome, and the operator's remedy.
//!
//! The only lines with whole addresses (decision D-27): without them an operator could not find a
//! missing letter.

use crate::domain::mail::filed;
use crate::domain::{Address, Envelope};
use crate::gateway::intake_contract::{Accepted, CopyOutcome, Refusal};
use std::net::IpAddr;

/// Properties of a letter for the log; taken before the letter is moved.
pub(super) struct LetterSummary {
    mail_from: Option<Address>,
    rcpt_to: Vec<Address>,
    peer: Option<IpAddr>,
    via: &'static str,
    bytes: usize,
}

impl LetterSummary {
    pub fn new(envelope: &Envelope, bytes: usize) -> Self {
        Self {
            mail_from: envelope.mail_from.clone(),
            rcpt_to: envelope.rcpt_to.clone(),
            peer: envelope.peer,
            via: envelope.via.as_str(),
            bytes,
        }
    }

    /// The sender in From, else the envelope's.
    fn from(&self, sender: Option<&Address>) -> String {
        sender
            .or(self.mail_from.as_ref())
            .map_or_else(|| "<>".to_owned(), Address::to_string)
    }

    fn peer(&self) -> String {
        self.peer.map(|peer| peer.to_string()).unwrap_or_default()
    }

    pub fn accepted(&self, accepted: &Accepted) {
        let sender = accepted.sender.as_ref();
        let (from, peer, via, bytes) = (self.from(sender), self.peer(), self.via, self.bytes);
        for copy in &accepted.copies {
            let (persona, letter) = (&copy.persona, &copy.message);
            match &copy.outcome {
                CopyOutcome::Run(run) => {
                    tracing::info!(from, %persona, %letter, %run, via, peer, bytes, "a letter came and is to be answered");
                }
                CopyOutcome::Filed(rule) => {
                    let remedy = filed::remedy(rule, letter.as_str(), sender);
                    tracing::info!(from, %persona, %letter, rule, remedy, via, peer, bytes, "a letter came and is filed");
                }
                CopyOutcome::Held => {
                    tracing::warn!(from, %persona, %letter, via, peer, bytes, "a letter came and is held until a name server says who sent it");
                }
                CopyOutcome::Duplicate => {
                    tracing::info!(from, %persona, %letter, via, peer, bytes, "a letter came again");
                }
            }
        }
    }

    pub fn refused(&self, refusal: &Refusal, sender: Option<&Address>) {
        let (from, peer, via, bytes) = (self.from(sender), self.peer(), self.via, self.bytes);
        let to = self
            .rcpt_to
            .iter()
            .map(Address::to_string)
            .collect::<Vec<_>>()
            .join(" ");
        let (error, remedy) = (refusal as &dyn std::error::Error, refusal.remedy());
        tracing::info!(
            from,
            to,
            error,
            remedy,
            via,
            peer,
            bytes,
            "a letter is refused"
        );
    }
}
