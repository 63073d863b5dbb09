//! Drafts as people read and edit them. An edit is a version of its own: what was there before is kept, and nothing that an
//! owner was shown before counts for it.

use super::list::ApprovalView;
use crate::domain::{ApprovalState, MessageId, PersonaId, Timestamp};
use crate::store::db::Scope;
use crate::store::journal::outbound::{MessageOutcome, NewOutbound};
use crate::store::mail::audit_log::audit;
use crate::store::sql::{from_json, instant};
use crate::store::{Result, Store, StoreError};
use serde::Serialize;

/// Most edits of one draft.
pub const EDITS_MAX: u32 = 100;

const DRAFTS: &str = "
    SELECT * FROM approvals WHERE draft_id IS NOT NULL AND ($1 IS NULL OR state = $1) AND ($2 IS NULL OR persona_id = $2)
    ORDER BY seq DESC LIMIT $3";
const VERSIONS: &str = "
    SELECT version, mail_json, replaced_at, replaced_by FROM approval_versions WHERE approval_id = $1 ORDER BY version";
const KEEP_VERSION: &str = "
    INSERT INTO approval_versions (approval_id, version, call_sha256, view_text, mail_json, mail_bytes, replaced_at, replaced_by)
    SELECT id, edits, call_sha256, view_text, mail_json, mail_bytes, $3, $4 FROM approvals
    WHERE id = $1 AND state = 'open' AND draft_id IS NOT NULL AND call_sha256 = $2 AND expires_at > $3 AND edits < $5";
/// Its owners are asked about it anew.
const EDIT_DRAFT: &str = "
    UPDATE approvals SET call_json = $2, call_sha256 = $3, view_text = $4, mail_json = $5, mail_bytes = $6, edits = edits + 1,
      asked_at = NULL WHERE id = $1";

/// A draft with its mail.
#[derive(Debug, Clone)]
pub struct DraftRecord {
    pub view: ApprovalView,
    /// The mail with its frozen bytes, as it would be sent.
    pub mail: NewOutbound,
    /// Earlier versions, oldest first.
    pub versions: Vec<DraftVersion>,
}

/// A draft before an edit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DraftVersion {
    /// 0: as its run wrote it.
    pub version: u32,
    pub subject: String,
    pub text: String,
    pub replaced_at: Timestamp,
    pub replaced_by: String,
}

/// A draft with another text.
#[derive(Debug, Clone)]
pub struct DraftEdit {
    /// Canonical form of the mail, and its digest.
    pub call_json: String,
    pub call_sha256: String,
    pub view_text: String,
    pub mail: Box<NewOutbound>,
    /// Digest of the draft that was edited.
    pub edited_sha256: String,
    /// User who edited it, and the door: `cli` or `web`.
    pub by: String,
    pub via: &'static str,
}

impl DraftRecord {
    /// Returns the frozen bytes.
    pub fn bytes(&self) -> &[u8] {
        bytes_of(&self.mail)
    }
}

fn bytes_of(mail: &NewOutbound) -> &[u8] {
    match &mail.outcome {
        MessageOutcome::Send { delivery, .. } => &delivery.bytes,
        MessageOutcome::Withhold(_) => &[],
    }
}

const DRAFT_OF_MESSAGE: &str = "SELECT id FROM approvals WHERE draft_id = $1 AND state = 'open'";

impl Store {
    /// Returns the open draft that a message of a thread shows.
    pub async fn draft_of_message(&self, message: &MessageId) -> Result<Option<DraftRecord>> {
        let id: Option<String> = self.maybe(DRAFT_OF_MESSAGE, message).await?;
        match id {
            Some(id) => Ok(Some(self.draft(&id).await?)),
            None => Ok(None),
        }
    }

    /// Returns drafts in a state, the newest first.
    pub async fn drafts(
        &self,
        state: Option<ApprovalState>,
        persona: Option<&PersonaId>,
        limit: u32,
    ) -> Result<Vec<ApprovalView>> {
        self.all(DRAFTS, (state, persona, limit)).await
    }

    /// Returns a draft. Errors: [`StoreError::Missing`], also for a question that is none.
    pub async fn draft(&self, id: &str) -> Result<DraftRecord> {
        let missing = || StoreError::missing("draft", id);
        let row = self.maybe_row(super::list::APPROVAL, id).await?;
        let row = row.ok_or_else(missing)?;
        let view: ApprovalView = row.to()?;
        let json: Option<String> = row.get("mail_json");
        let json = json.filter(|_| view.draft.is_some()).ok_or_else(missing)?;
        let mut mail: NewOutbound = from_json(&json, "mail of a draft")?;
        if let MessageOutcome::Send { delivery, .. } = &mut mail.outcome {
            delivery.bytes = row.get::<Option<Vec<u8>>>("mail_bytes").unwrap_or_default();
        }
        let versions = self.rows(VERSIONS, id).await?;
        let versions = versions.iter().map(|row| {
            let mail: NewOutbound = from_json(row.get("mail_json"), "mail of a draft")?;
            Ok(DraftVersion {
                version: row.get("version"),
                subject: mail.content.subject,
                text: mail.content.text_body,
                replaced_at: instant(row.get("replaced_at"))?,
                replaced_by: row.get("replaced_by"),
            })
        });
        Ok(DraftRecord {
            view,
            mail,
            versions: versions.collect::<Result<_>>()?,
        })
    }

    /// Replaces the text of a draft and keeps what it was.
    ///
    /// Errors: [`StoreError::WrongState`] when it is not open any more, or not the draft that was edited.
    pub async fn edit_draft(&self, id: &str, edit: DraftEdit) -> Result<()> {
        let (id, now) = (id.to_owned(), self.clock().now());
        let mail_json = serde_json::to_string(&edit.mail);
        let mail_json = mail_json.map_err(|_| StoreError::Unreadable { what: "mail" })?;
        transact!(self, Scope::persona_of("approvals", &id), |conn| {
if conn.exec(KEEP_VERSION, (&id, &edit.edited_sha256, now, &edit.by, EDITS_MAX)).await? == 0 {
                    return Err(StoreError::WrongState {
                        kind: "draft",
                        id,
                        state: "not as it was when the edit began".to_owned(),
                        hint: "it was sent, discarded or edited meanwhile, or edited too often; look at it again",
                    });
                }
                crate::crash::crash_point!("A5");

                conn.exec(EDIT_DRAFT, (&id, &edit.call_json, &edit.call_sha256, &edit.view_text, mail_json, bytes_of(&edit.mail))).await?;
                let action = format!("edited:{}", edit.via);
                audit(conn, None, ("approval", &id), &action, now).await
})
        .await
    }
}
