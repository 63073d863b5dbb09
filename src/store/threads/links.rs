//! Letters of a thread as far as their links go: who wrote them, what they say, where one unsubscribes.

use crate::domain::{MessageId, Trust};
use crate::store::db::Row;
use crate::store::sql::from_json;
use crate::store::{PersonaStore, Result};

/// Number of newest messages of a thread whose links are looked at.
const THREAD_MESSAGES_MAX: i64 = 200;

/// A letter of a thread, to look for links in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedLetter {
    pub trust: Trust,
    pub text: String,
    pub html: Option<String>,
    /// Pages of its `List-Unsubscribe`.
    pub unsubscribe: Vec<String>,
}

const THREAD_LINKS: &str = "
    SELECT m.trust, m.text_body, m.html_body, json_extract(m.metadata_json, '$.unsubscribe') AS unsubscribe
    FROM messages t JOIN messages m ON m.thread_id = t.thread_id AND m.seq <= t.seq
    WHERE t.id = $1 AND t.persona_id = $2 AND m.persona_id = $2 AND m.direction = 'inbound'
    ORDER BY m.seq DESC LIMIT $3";

impl PersonaStore {
    /// Returns the letters in the thread of the message that a run answers, newest first.
    pub async fn thread_links(&self, trigger: &MessageId) -> Result<Vec<LinkedLetter>> {
        let rows = self
            .rows(THREAD_LINKS, (trigger, &self.persona, THREAD_MESSAGES_MAX))
            .await?;
        let letter = |row: &Row| {
            let unsubscribe: Option<String> = row.get("unsubscribe");
            let unsubscribe = unsubscribe.map(|json| from_json(&json, "metadata of a message"));
            Ok(LinkedLetter {
                trust: Trust::parse_stored(row.get("trust")),
                text: row.get("text_body"),
                html: row.get("html_body"),
                unsubscribe: unsubscribe.transpose()?.unwrap_or_default(),
            })
        };
        rows.iter().map(letter).collect()
    }
}
