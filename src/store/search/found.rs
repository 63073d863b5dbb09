//! Messages that a search found, as it returns them.

use super::excerpt::excerpt;
use crate::domain::{MessageId, ThreadId, Timestamp};
use crate::store::db::{self, Row};
use crate::store::{PersonaStore, Result, StoreError};

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
pub(in crate::store) const SHOW_HITS: &str = "
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
        let show = db::query(SHOW_HITS).bind(serde_json::Value::from_iter(hits).to_string());
        let rows = show.fetch_all(self.store.readers()).await?;
        let mut found = rows.iter().map(found_message).collect::<Result<Vec<_>>>()?;
        let words = words.join(" ");
        for message in &mut found {
            message.snippet = excerpt(&message.snippet, &words);
        }
        Ok(found)
    }
}

pub(in crate::store) fn found_message(row: &Row) -> Result<FoundMessage> {
    let received_at: String = row.try_get("received_at")?;
    Ok(FoundMessage {
        id: MessageId::new(row.try_get::<String>("id")?),
        thread_id: ThreadId::new(row.try_get::<String>("thread_id")?),
        direction: row.try_get("direction")?,
        sender: row.try_get("sender")?,
        recipients_json: row.try_get("recipients_json")?,
        subject: row.try_get("subject")?,
        received_at: Timestamp::parse(&received_at).ok_or(StoreError::Unreadable {
            what: "messages.received_at",
        })?,
        disposition: row.try_get("disposition")?,
        trust: row.try_get("trust")?,
        snippet: row.try_get("snippet")?,
    })
}
