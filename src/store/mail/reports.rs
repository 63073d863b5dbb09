//! Reports on our mail: table `delivery_reports`, and the change of the delivery that a report is
//! about.
//!
//! Only a report that came with the delivery's token is trusted. A Message-ID of ours may be known
//! to strangers; a report that only names one is recorded and changes nothing.

use crate::domain::{
    Address, BounceReason, DeliveryId, MessageId, NoticeId, NoticeKind, NoticeSubject, PersonaId,
    Report, ReportAction, ReportKind, ReportedRecipient, Timestamp,
};
use crate::store::db::Connection;
use crate::store::deliveries::delivery_state::RecipientState;
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::notices::wording::{first_few, quoted};
use crate::store::{PersonaStore, Result, Store};
use serde::Serialize;

/// Most reports shown of one delivery.
const REPORTS_MAX: i64 = 200;

/// A report, as it is stored with the letter that brings it.
#[derive(Debug, Clone)]
pub struct NewReport {
    pub report: Report,
    /// The delivery whose token was in the letter's envelope recipient; `None`: the report is only
    /// recorded, if it names a mail of ours.
    pub believed: Option<DeliveryId>,
    /// Id for the notice, if the owner must be notified.
    pub notice: NoticeId,
}

/// A report on one recipient, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeliveryReport {
    pub at: Timestamp,
    /// The letter with the report.
    #[serde(rename = "message_id")]
    pub message: MessageId,
    pub recipient: String,
    pub kind: ReportKind,
    pub action: ReportAction,
    pub reason: BounceReason,
    pub status: Option<String>,
    pub code: Option<u16>,
    /// Diagnostic text of the reporter, untrusted.
    pub diagnostic: String,
    pub is_hard: bool,
    /// `true`: the report came with the delivery's token.
    pub believed: bool,
    /// `true`: the report changed the recipient's state.
    pub changed: bool,
}

const BY_TOKEN: &str = "SELECT id FROM deliveries WHERE bounce_token = $1 AND persona_id = $2";
const BELIEVED: &str = "
SELECT d.id, d.kind, d.created_at, m.subject FROM deliveries d JOIN messages m ON m.id = d.message_id
WHERE d.id = $1 AND d.persona_id = $2";
const NAMED: &str = "
SELECT d.id, d.kind, d.created_at, m.subject FROM messages m JOIN deliveries d ON d.message_id = m.id
WHERE m.message_id = $1 AND m.persona_id = $2 AND m.direction = 'outbound' LIMIT 1";
const RECIPIENTS_OF: &str =
    "SELECT recipient FROM delivery_recipients WHERE delivery_id = $1 ORDER BY recipient";
/// A delivered recipient can still fail; a failed recipient does not become delivered by a report.
const CHANGE: &str = "
UPDATE delivery_recipients SET state = $3, next_attempt_at = NULL, last_code = $4, last_reply = substr($5, 1, 500),
  bounced_at = CASE $3 WHEN 'failed' THEN $6 END
WHERE delivery_id = $1 AND recipient = $2
  AND (state IN ('queued', 'deferred') OR (state = 'delivered' AND $3 = 'failed'))";
/// A delivery that an engine works on settles when the engine records its outcome.
const FINISH: &str = "
UPDATE deliveries SET state = CASE WHEN r.failed > 0 THEN 'failed' ELSE 'done' END, next_attempt_at = NULL,
  finished_at = $2
FROM (
  SELECT count(*) FILTER (WHERE state IN ('queued', 'deferred')) AS open,
         count(*) FILTER (WHERE state = 'failed') AS failed
  FROM delivery_recipients WHERE delivery_id = $1
) AS r
WHERE id = $1 AND r.open = 0 AND state IN ('queued', 'held', 'done', 'failed')";
const INSERT_REPORT: &str = "
INSERT INTO delivery_reports (delivery_id, persona_id, message_id, recipient, kind, action, reason, status, code,
  diagnostic, is_hard, believed, changed, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const REPORTS: &str = "
SELECT recipient, kind, action, reason, status, code, diagnostic, is_hard, believed, changed, message_id, created_at
FROM delivery_reports WHERE delivery_id = $1 ORDER BY seq LIMIT $2";

/// The delivery that a report is about.
struct Reported {
    id: String,
    /// `true`: the mail is a notice to the owner; its failure causes no further notice.
    is_notice: bool,
    created_at: String,
    subject: String,
    recipients: Vec<String>,
}

/// Stores the report in a letter, and changes the delivery if the report is trusted. Inside the
/// transaction that stores the letter.
pub async fn record(
    conn: &mut Connection,
    persona: &PersonaId,
    letter: &MessageId,
    new: &NewReport,
    now: Timestamp,
) -> Result<()> {
    let Some(delivery) = reported(conn, persona, new).await? else {
        return Ok(());
    };
    let mut lost = Vec::new();
    let mut changed_any = false;
    for said in &new.report.recipients {
        let ours = delivery.recipient(said, &new.report);
        if ours.is_none() && new.believed.is_none() {
            continue;
        }
        let changed = match ours {
            Some(ours) if new.believed.is_some() => {
                change(conn, &delivery.id, ours, said, now).await?
            }
            _ => false,
        };
        changed_any |= changed;
        if changed && said.action == ReportAction::Failed {
            lost.push((ours.unwrap_or(&said.address), said));
        }
        let row = ReportRow {
            delivery: &delivery.id,
            recipient: ours.unwrap_or(&said.address),
            said,
            changed,
        };
        insert(conn, &row, persona, letter, new, now).await?;
    }
    if changed_any {
        conn.exec(FINISH, (&delivery.id, now)).await?;
    }
    if !lost.is_empty() && !delivery.is_notice {
        emit(conn, &notice(persona, letter, new, &delivery, &lost), now).await?;
    }
    Ok(())
}

async fn reported(
    conn: &mut Connection,
    persona: &PersonaId,
    new: &NewReport,
) -> Result<Option<Reported>> {
    let (sql, key) = match (&new.believed, &new.report.original_message_id) {
        (Some(id), _) => (BELIEVED, id.as_str()),
        (None, Some(id)) => (NAMED, id.as_str()),
        (None, None) => return Ok(None),
    };
    let found = conn.maybe_row(sql, (key, persona)).await?;
    let Some(row) = found else { return Ok(None) };
    let id: String = row.try_get("id")?;
    let recipients = conn.all(RECIPIENTS_OF, &id).await?;
    Ok(Some(Reported {
        id,
        is_notice: row.try_get::<String>("kind")? == "notice",
        created_at: row.try_get("created_at")?,
        subject: row.try_get("subject")?,
        recipients,
    }))
}

impl Reported {
    /// Finds the recipient that a report is about. The only recipient of a mail may be reported
    /// under the address that a forwarder put in its place, if the report is in a standard form.
    fn recipient(&self, said: &ReportedRecipient, report: &Report) -> Option<&str> {
        let key =
            |text: &str| Address::parse(text).map_or_else(|_| text.to_lowercase(), |a| a.key());
        let named: Vec<String> = said
            .original
            .iter()
            .chain([&said.address])
            .map(|text| key(text))
            .collect();
        let found = self
            .recipients
            .iter()
            .find(|ours| named.contains(&key(ours)));
        let only = match (self.recipients.as_slice(), report.recipients.as_slice()) {
            ([ours], [_]) if report.is_standard && report.kind == ReportKind::DeliveryStatus => {
                Some(ours)
            }
            _ => None,
        };
        found.or(only).map(String::as_str)
    }
}

/// Gives a recipient the reported state; `false` when that changes nothing.
async fn change(
    conn: &mut Connection,
    delivery: &str,
    recipient: &str,
    said: &ReportedRecipient,
    now: Timestamp,
) -> Result<bool> {
    let (state, verb) = match said.action {
        ReportAction::Failed => (RecipientState::Failed, "bounced"),
        ReportAction::Delivered => (RecipientState::Delivered, "confirmed"),
        // The outcome is open, or will not be reported.
        ReportAction::Delayed
        | ReportAction::Relayed
        | ReportAction::Expanded
        | ReportAction::None => {
            return Ok(false);
        }
    };
    let status = said
        .status
        .as_deref()
        .map(|status| format!(" {status}"))
        .unwrap_or_default();
    let reply = format!("{verb} ({}{status}): {}", said.reason, said.diagnostic);
    Ok(conn
        .exec(CHANGE, (delivery, recipient, &state, said.code, reply, now))
        .await?
        > 0)
}

struct ReportRow<'a> {
    delivery: &'a str,
    recipient: &'a str,
    said: &'a ReportedRecipient,
    changed: bool,
}

async fn insert(
    conn: &mut Connection,
    row: &ReportRow<'_>,
    persona: &PersonaId,
    letter: &MessageId,
    new: &NewReport,
    now: Timestamp,
) -> Result<()> {
    conn.exec(
        INSERT_REPORT,
        (
            row.delivery,
            &persona,
            &letter,
            row.recipient,
            &new.report.kind,
            &row.said.action,
            &row.said.reason,
            &row.said.status,
            row.said.code,
            &row.said.diagnostic,
            row.said.is_hard,
            new.believed.is_some(),
            row.changed,
            now,
        ),
    )
    .await?;
    Ok(())
}

/// Returns the notice that a mail bounced after it was handed over. One letter causes one notice;
/// another letter only for other recipients.
fn notice(
    persona: &PersonaId,
    letter: &MessageId,
    new: &NewReport,
    delivery: &Reported,
    lost: &[(&str, &ReportedRecipient)],
) -> NewNotice {
    let recipients = first_few(lost, |(recipient, said)| {
        let code = said.code.map(|code| format!(" {code}")).unwrap_or_default();
        format!(
            "{} ({}{code}: {})",
            quoted(recipient),
            said.reason,
            quoted(&said.diagnostic)
        )
    });
    NewNotice {
        id: new.notice.clone(),
        persona: Some(persona.clone()),
        kind: NoticeKind::Bounced,
        detail: String::new(),
        subject: NoticeSubject::Delivery,
        subject_id: delivery.id.clone(),
        occurrence: letter.to_string(),
        summary: format!(
            "mail {} of {persona} (delivery {}, queued at {}) came back: it did not reach {recipients}",
            quoted(&delivery.subject),
            delivery.id,
            delivery.created_at
        ),
        hint:
            "see what came back with `attache outbox show ID`; `attache outbox retry ID` sends it once more"
                .to_owned(),
    }
}

impl PersonaStore {
    /// Returns the delivery of this persona whose envelope sender has this token.
    pub async fn delivery_by_bounce_token(&self, token: &str) -> Result<Option<DeliveryId>> {
        let id: Option<String> = self.maybe(BY_TOKEN, (token, &self.persona)).await?;
        Ok(id.map(DeliveryId::new))
    }
}

impl Store {
    /// Returns the reports on a delivery, oldest first.
    pub async fn delivery_reports(&self, delivery: &DeliveryId) -> Result<Vec<DeliveryReport>> {
        self.all(REPORTS, (delivery, REPORTS_MAX)).await
    }
}

from_row!(DeliveryReport {
    recipient,
    kind,
    action,
    reason,
    status,
    code,
    diagnostic,
    is_hard,
    believed,
    changed,
    message: "message_id",
    at: "created_at"
});
