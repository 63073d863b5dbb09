//! Returned mail: letters to an address that only our own mail had as its envelope sender, and
//! reports to a persona's plain address.
//!
//! No returned mail is ever answered. The token in the recipient address decides the effect of a
//! report, not the content of the letter: any sender who knows a Message-ID of ours can write that
//! content.

use super::{Intake, PARSE_INLINE_BYTES_MAX, contains_html};
use crate::config::{Decision, Security};
use crate::domain::{
    DeliveryId, Email, Envelope, NoticeId, PersonaId, Report, ReportedRecipient, bounce_token,
};
use crate::gateway::intake_contract::Refusal;
use crate::mime;
use crate::store::NewReport;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Maximum characters of a token that is looked up; ours have 20.
const TOKEN_CHARS_MAX: usize = 64;

/// A letter as a response of the mail system to our own mail.
#[derive(Debug, Default)]
pub(super) struct ReturnedLetter {
    address: Option<ReturnAddress>,
    report: Option<Report>,
}

/// A recipient of the letter that is the envelope sender of our mail, or has its format.
#[derive(Debug)]
struct ReturnAddress {
    persona: PersonaId,
    /// `None`: no mail of this persona has that token.
    delivery: Option<DeliveryId>,
}

impl Intake {
    /// Detects whether a letter is returned mail. `email` is `None` for bytes that are no email.
    pub(super) async fn returned(
        &self,
        envelope: &Envelope,
        email: Option<&Email>,
        bytes: &Arc<[u8]>,
    ) -> Result<ReturnedLetter, Refusal> {
        let address = self.return_address(envelope).await?;
        let calls_itself_report =
            envelope.mail_from.is_none() || email.is_some_and(|e| e.automatic.is_report);
        if address.is_none() && !calls_itself_report {
            return Ok(ReturnedLetter::default());
        }
        Ok(ReturnedLetter {
            address,
            report: self.read_report(bytes.clone()).await,
        })
    }

    /// The first recipient that has a token of ours, else the first that has the format of one.
    async fn return_address(&self, envelope: &Envelope) -> Result<Option<ReturnAddress>, Refusal> {
        let mut found = None;
        for address in &envelope.rcpt_to {
            let persona = self
                .config
                .personas
                .by_address(address)
                .map(|persona| &persona.id);
            let (Some(persona), Some(token)) = (persona, bounce_token(address)) else {
                continue;
            };
            let delivery = match token.len() <= TOKEN_CHARS_MAX {
                true => {
                    self.store
                        .persona(persona)
                        .delivery_by_bounce_token(&token)
                        .await?
                }
                false => None,
            };
            let is_ours = delivery.is_some();
            if is_ours || found.is_none() {
                found = Some(ReturnAddress {
                    persona: persona.clone(),
                    delivery,
                });
            }
            if is_ours {
                break;
            }
        }
        Ok(found)
    }

    async fn read_report(&self, bytes: Arc<[u8]>) -> Option<Report> {
        let limits = self.config.limits.parse_limits();
        if bytes.len() <= PARSE_INLINE_BYTES_MAX && !contains_html(&bytes) {
            return mime::read_report(&bytes, &limits);
        }
        let reading = tokio::task::spawn_blocking(move || mime::read_report(&bytes, &limits));
        // A parser that panics has no result.
        reading.await.unwrap_or(None)
    }
}

impl ReturnedLetter {
    /// The rule that withholds any letter to a return address.
    pub(super) fn rule(&self) -> Option<&'static str> {
        let address = self.address.as_ref()?;
        Some(match (&address.delivery, &self.report) {
            (None, _) => "bounce_unknown",
            (Some(_), None) => "bounce_address",
            (Some(_), Some(_)) => "bounce",
        })
    }

    /// The rules of admission for it. A report with a token of ours is admitted from a
    /// correspondent of ours, or from any system on the path, whatever `default_decision` says;
    /// only denied senders are refused.
    pub(super) fn admits<'s>(&self, security: &'s Security) -> Cow<'s, Security> {
        let mut security = Cow::Borrowed(security);
        if self
            .address
            .as_ref()
            .is_some_and(|address| address.delivery.is_some())
        {
            security.to_mut().access.default_decision = Decision::Allow;
        }
        security
    }

    /// The report that the store records for a persona.
    pub(super) fn report_for(
        &self,
        persona: &PersonaId,
        notice: impl FnOnce() -> NoticeId,
    ) -> Option<NewReport> {
        let report = self.report.clone()?;
        let address = self
            .address
            .as_ref()
            .filter(|address| address.persona == *persona);
        let believed = address.and_then(|address| address.delivery.clone());
        Some(NewReport {
            report,
            believed,
            notice: notice(),
        })
    }

    /// Content of the report, for the message's metadata.
    pub(super) fn as_json(&self) -> Value {
        let Some(report) = &self.report else {
            return Value::Null;
        };
        let delivery = self
            .address
            .as_ref()
            .and_then(|address| address.delivery.as_ref());
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
