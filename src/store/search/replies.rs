//! Replies of a persona with the letters that they answer: by these its owner can measure what a search finds.

use crate::domain::Timestamp;
use crate::store::db::Row;
use crate::store::sql::timestamp;
use crate::store::{PersonaStore, Result};

/// The newest replies whose parent is there; of each as much as tells it apart. Without `NOT`, SQLite would read all earlier
/// messages for each reply.
const ANSWERED_LETTERS: &str = "
    SELECT m.seq, p.seq AS parent, m.received_at, substr(coalesce(m.fresh_text, m.text_body), 1, 20000) AS own
    FROM messages m CROSS JOIN messages p
    WHERE p.persona_id = m.persona_id AND p.message_id = m.in_reply_to AND m.persona_id = $1 AND m.in_reply_to IS NOT NULL AND m.direction IN ('inbound', 'outbound') AND m.disposition NOT IN ('notice', 'filed:command')
      AND p.direction IN ('inbound', 'outbound') AND p.disposition NOT IN ('notice', 'filed:command') AND NOT p.received_at >= m.received_at
    ORDER BY m.received_at DESC, m.seq DESC LIMIT $2";

/// The new texts of the newest letters.
const NEW_TEXTS: &str = "
    SELECT substr(coalesce(m.fresh_text, m.text_body), 1, 4000) AS own FROM messages m
    WHERE m.persona_id = $1 AND m.direction IN ('inbound', 'outbound') AND m.disposition NOT IN ('notice', 'filed:command')
    ORDER BY m.received_at DESC, m.seq DESC LIMIT $2";

/// A reply, and the letter that it answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyWithParent {
    /// Number of the letter that it answers.
    pub parent: i64,
    pub received_at: Timestamp,
    /// Its text without quoted history.
    pub new_text: String,
}

impl PersonaStore {
    /// Returns the newest replies whose parent is stored, at most `limit`.
    pub async fn answered_letters(&self, limit: u32) -> Result<Vec<ReplyWithParent>> {
        let rows = self.rows(ANSWERED_LETTERS, (&self.persona, limit)).await?;
        let reply = |row: &Row| {
            Ok(ReplyWithParent {
                parent: row.try_get("parent")?,
                received_at: timestamp(row, "received_at")?,
                new_text: row.try_get("own")?,
            })
        };
        rows.iter().map(reply).collect()
    }

    /// Returns the beginnings of the new texts of the newest letters, at most `limit`.
    pub async fn new_texts(&self, limit: u32) -> Result<Vec<String>> {
        self.all(NEW_TEXTS, (&self.persona, limit)).await
    }
}
