//! Messages that a search found, as it returns them.

use super::excerpt::excerpt;
use crate::domain::{MessageId, ThreadId, Timestamp};
use crate::store::{PersonaStore, Result};

/// A message that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMessage {
    pub id: MessageId,
    pub thread_id: ThreadId,
    /// `inbound` or `outbound`.
    pub direction: String,
    /// The From header in its display form.
    pub sender: String,
    /// `{"to": [..], "cc": [..], "reply_to": [..]}`
    pub recipients_json: String,
    pub subject: String,
    pub received_at: Timestamp,
    /// Disposition: `run`, `filed:<rule>`, `withheld:<rule>`, `sent`.
    pub disposition: String,
    /// A word of [`crate::domain::Trust`].
    pub trust: String,
    /// Text of the body around the hits, or its beginning; raw, at most 600 characters.
    pub snippet: String,
}

/// Columns of the hits, in the requested order.
const SHOW_HITS: &str = "
SELECT m.id, m.thread_id, m.direction, m.sender, m.recipients_json, m.subject, m.received_at, m.disposition,
       m.trust,
       substr(coalesce(m.fresh_text, m.text_body), 1, 20000) AS snippet
FROM jsonb_each($1) hit CROSS JOIN messages m WHERE m.seq = CAST(hit.value AS BIGINT) ORDER BY hit.key";

impl PersonaStore {
    /// Returns these messages in their order, each with the piece that has the words.
    pub(in crate::store) async fn shown(
        &self,
        hits: impl Iterator<Item = i64>,
        words: &[String],
    ) -> Result<Vec<FoundMessage>> {
        let mut found: Vec<FoundMessage> = self
            .all(SHOW_HITS, serde_json::Value::from_iter(hits))
            .await?;
        let words = words.join(" ");
        for message in &mut found {
            message.snippet = excerpt(&message.snippet, &words);
        }
        Ok(found)
    }
}

from_row!(FoundMessage {
    id,
    thread_id,
    direction,
    sender,
    recipients_json,
    subject,
    received_at,
    disposition,
    trust,
    snippet
});
