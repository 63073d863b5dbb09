//! Events of the feed with how much there was: bytes, tokens, recipients. Without a word of what was written.

use crate::store::feed::FeedEvent;
use crate::store::{Result, Store};
use serde::Serialize;

/// An event, and the sizes of the rows that it names. A size that is not known, or not of this kind of event, is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SizedEvent {
    #[serde(flatten)]
    pub event: FeedEvent,
    /// Bytes of the letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub letter_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the turn's request, those from a cache included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Bytes of the record of a call or of its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_bytes: Option<u64>,
    /// Bytes of the mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mail_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipients: Option<u64>,
    /// Class of the error of a run or a turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
}

/// `item` is JSON for turns only, so it is looked at before it is read as JSON.
const EVENT_SIZES: &str = "
    SELECT f.seq, f.kind, f.persona_id, f.thread_id, f.run_id, f.message_id, f.delivery_id, f.approval_id, f.item, f.at,
      w.size_bytes AS letter_bytes, u.model, u.input_tokens + u.cache_read_tokens + u.cache_write_tokens AS input_tokens,
      u.output_tokens, e.tool_name AS tool, length(e.payload_json) AS record_bytes, d.size_bytes AS mail_bytes,
      CASE WHEN f.delivery_id IS NOT NULL
        THEN (SELECT count(*) FROM delivery_recipients WHERE delivery_id = f.delivery_id) END AS recipients,
      coalesce(u.error_class, CASE WHEN f.kind = 'run.failed' THEN r.error_class END) AS error_class
    FROM feed f LEFT JOIN messages m ON m.id = CASE WHEN f.kind LIKE 'letter.%' THEN f.message_id END
      LEFT JOIN raw_letters w ON w.id = m.raw_id
      LEFT JOIN runs r ON r.id = f.run_id
      LEFT JOIN run_turns u ON u.run_id = f.run_id AND u.turn_index = CASE WHEN f.kind LIKE 'turn.%' THEN CAST(f.item ->> '$[0]' AS BIGINT) END
        AND u.attempt = CASE WHEN f.kind LIKE 'turn.%' THEN CAST(f.item ->> '$[1]' AS BIGINT) END
      LEFT JOIN thread_tool_events e ON e.run_id = f.run_id AND e.tool_call_id = f.item
        AND e.event_type = CASE f.kind WHEN 'call.begun' THEN 'tool_call' WHEN 'call.finished' THEN 'tool_result' END
      LEFT JOIN deliveries d ON d.id = f.delivery_id
    WHERE f.seq IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($1)) ORDER BY f.seq";

impl Store {
    /// Returns these events with their sizes, in order.
    pub async fn event_sizes(&self, events: &[FeedEvent]) -> Result<Vec<SizedEvent>> {
        let numbers: Vec<i64> = events.iter().map(|event| event.seq).collect();
        self.all(EVENT_SIZES, serde_json::json!(numbers).to_string())
            .await
    }
}

from_row!(|row| SizedEvent {
    event: { row.to()? },
    letter_bytes,
    model,
    input_tokens,
    output_tokens,
    tool,
    record_bytes,
    mail_bytes,
    recipients,
    error_class
});
