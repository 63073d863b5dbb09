//! Mail that comes back: letters to the address that only our own mail had as its sender, and reports that come to a
//! persona's plain address.
//!
//! Nothing that comes back is ever answered. What a report changes is decided by the token in the address it came to,
//! not by anything in the letter: everything in there can be written by somebody who merely knows a Message-ID of ours.

use super::{Intake, PARSE_INLINE_BYTES_MAX, contains_html};
use crate::config::{Decision, Security};
use crate::domain::{
    DeliveryId, Email, Envelope, NoticeId, PersonaId, Report, ReportedRecipient, bounce_token,
};
use crate::gateway::door::Refusal;
use crate::mime;
use crate::store::NewReport;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Longest token that is looked up; ours have 20 characters.
const TOKEN_CHARS_MAX: usize = 64;

/// What a letter is as an answer of the mail system to our own mail.
#[derive(Debug, Default)]
pub(super) struct Returned {
    address: Option<ReturnAddress>,
    report: Option<Report>,
}

/// A recipient of the letter that is the envelope sender of mail of ours, or looks like one.
#[derive(Debug)]
struct ReturnAddress {
    persona: PersonaId,
    /// `None`: no mail of this persona has that token.
    delivery: Option<DeliveryId>,
}

impl Intake {
    /// Finds out whether a letter comes back to us. `email` is `None` for bytes that are none.
    pub(super) async fn returned(
        &self,
        envelope: &Envelope,
        email: Option<&Email>,
        bytes: &Arc<[u8]>,
    ) -> Result<Returned, Refusal> {
        let address = self.return_address(envelope).await?;
        let calls_itself_report =
            envelope.mail_from.is_none() || email.is_some_and(|e| e.automatic.is_report);
        if address.is_none() && !calls_itself_report {
            return Ok(Returned::default());
        }
        Ok(Returned { address, report: self.read_report(bytes.clone()).await })
    }

    /// The first of the recipients that has a token of ours, else the first that looks as if it had one.
    async fn return_address(&self, envelope: &Envelope) -> Result<Option<ReturnAddress>, Refusal> {
        let mut found = None;
        for address in &envelope.rcpt_to {
            let persona = self.config.personas.by_address(address).map(|persona| &persona.id);
            let (Some(persona), Some(token)) = (persona, bounce_token(address)) else { continue };
            let delivery = match token.len() <= TOKEN_CHARS_MAX {
                true => self.store.persona(persona).delivery_by_bounce_token(&token).await?,
                false => None,
            };
            let is_ours = delivery.is_some();
            if is_ours || found.is_none() {
                found = Some(ReturnAddress { persona: persona.clone(), delivery });
            }
            if is_ours {
                break;
            }
        }
        Ok(found)
    }

    async fn read_report(&self, bytes: Arc<[u8]>) -> Option<Report> {
        let limits = self.parse_limits();
        if bytes.len() <= PARSE_INLINE_BYTES_MAX && !contains_html(&bytes) {
            return mime::read_report(&bytes, &limits);
        }
        let reading = tokio::task::spawn_blocking(move || mime::read_report(&bytes, &limits));
        // A reader that panics has read nothing.
        reading.await.unwrap_or(None)
    }
}

impl Returned {
    /// The rule that holds a letter to a return address, whatever it is.
    pub(super) fn rule(&self) -> Option<&'static str> {
        let address = self.address.as_ref()?;
        Some(match (&address.delivery, &self.report) {
            (None, _) => "bounce_unknown",
            (Some(_), None) => "bounce_address",
            (Some(_), Some(_)) => "bounce",
        })
    }

    /// The rules of admission for it. With a token of ours, somebody whom we wrote to, or a system on the way, may report
    /// whether or not they may write otherwise; only those who are denied stay out.
    pub(super) fn admits<'s>(&self, security: &'s Security) -> Cow<'s, Security> {
        let mut security = Cow::Borrowed(security);
        if self.address.as_ref().is_some_and(|address| address.delivery.is_some()) {
            security.to_mut().access.default_decision = Decision::Allow;
        }
        security
    }

    /// What the store is to note of it for a persona.
    pub(super) fn report_for(
        &self,
        persona: &PersonaId,
        notice: impl FnOnce() -> NoticeId,
    ) -> Option<NewReport> {
        let report = self.report.clone()?;
        let address = self.address.as_ref().filter(|address| address.persona == *persona);
        let believed = address.and_then(|address| address.delivery.clone());
        Some(NewReport { report, believed, notice: notice() })
    }

    /// What the report was about, for the message's metadata.
    pub(super) fn as_json(&self) -> Value {
        let Some(report) = &self.report else { return Value::Null };
        let delivery = self.address.as_ref().and_then(|address| address.delivery.as_ref());
        let recipient = |said: &ReportedRecipient| {
            json!({ "address": said.address, "action": said.action.as_str(), "reason": said.reason.as_str(),
                "status": said.status, "code": said.code })
        };
        json!({
            "kind": report.kind.as_str(),
            "detail": report.detail,
            "delivery": delivery.map(DeliveryId::as_str),
            "original_message_id": report.original_message_id,
            "recipients": report.recipients.iter().map(recipient).collect::<Vec<_>>(),
        })
    }
}
