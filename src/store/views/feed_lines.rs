//! Events of the feed with what a person wants to read of them, as the rows say it now.

use crate::domain::{RunState, Timestamp, Trigger};
use crate::store::db::{Row, Sql};
use crate::store::feed::{FeedEvent, FeedFilter};
use crate::store::sql::{from_json, optional_timestamp};
use crate::store::{Result, Store, StoreError};
use serde::{Deserialize, Serialize};

/// An event, and facts of the rows that it names. A fact that is not known, or not of this kind of event, is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedLine {
    #[serde(flatten)]
    pub event: FeedEvent,
    /// Subject of the thread.
    pub subject: Option<String>,
    /// Sender of the letter, as typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// Where the letter is filed: `filed:<rule>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disposition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Instant of the next attempt of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// Micro-dollars: of the turn, or of the run that ended; `None`: no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tool of a call, or of the call that a question is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Beginning of the arguments of a call, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Recipients of a mail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<FeedRecipient>,
    /// Summary of a notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Name of a responsibility.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responsibility: Option<String>,
}

/// A recipient of a mail, and what the server said last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRecipient {
    pub recipient: String,
    pub state: String,
    pub code: Option<u16>,
    pub reply: Option<String>,
}

/// `item` is JSON for turns and slots only, and a payload may be erased: both are looked at before they are read as JSON.
const FEED_LINES: Sql = Sql::pair(
    "
    SELECT f.seq, f.kind, f.persona_id, f.thread_id, f.run_id, f.message_id, f.delivery_id, f.approval_id, f.item, f.at,
      coalesce(t.subject, m.subject) AS subject, m.sender, m.disposition, r.trigger, r.state AS run_state, r.next_attempt_at,
      r.error_class AS run_error_class, r.error_message AS run_error_message, r.cost_micros AS run_cost_micros,
      u.model, u.cost_micros AS turn_cost_micros, u.error_class AS turn_error_class, u.error_message AS turn_error_message,
      coalesce(e.tool_name, a.tool) AS tool,
      CASE WHEN f.kind = 'call.begun' AND json_valid(e.payload_json)
        THEN substr(coalesce(e.payload_json ->> '$.args', ''), 1, 400) END AS arguments,
      CASE WHEN f.kind = 'call.finished' AND json_valid(e.payload_json) AND coalesce(CAST(e.payload_json ->> '$.ok' AS BIGINT), 1) = 0
        THEN coalesce(e.payload_json ->> '$.error.code', 'failed') END AS call_error_class,
      CASE WHEN f.kind = 'call.finished' AND json_valid(e.payload_json)
        THEN substr(e.payload_json ->> '$.error.message', 1, 400) END AS call_error_message,
      CASE WHEN f.kind LIKE 'delivery.%' THEN
        (SELECT json_group_array(json_object('recipient', recipient, 'state', state, 'code', last_code, 'reply', last_reply))
         FROM delivery_recipients WHERE delivery_id = f.delivery_id) END AS recipients_json,
      n.summary, d.name AS responsibility
    FROM feed f LEFT JOIN threads t ON t.id = f.thread_id LEFT JOIN messages m ON m.id = f.message_id
      LEFT JOIN runs r ON r.id = f.run_id
      LEFT JOIN run_turns u ON u.run_id = f.run_id AND u.turn_index = CASE WHEN f.kind LIKE 'turn.%' THEN CAST(f.item ->> '$[0]' AS BIGINT) END
        AND u.attempt = CASE WHEN f.kind LIKE 'turn.%' THEN CAST(f.item ->> '$[1]' AS BIGINT) END
      LEFT JOIN thread_tool_events e ON e.run_id = f.run_id AND e.tool_call_id = f.item
        AND e.event_type = CASE f.kind WHEN 'call.begun' THEN 'tool_call' WHEN 'call.finished' THEN 'tool_result' END
      LEFT JOIN approvals a ON a.id = f.approval_id
      LEFT JOIN notices n ON n.id = CASE WHEN f.kind = 'notice.opened' THEN f.item END
      LEFT JOIN responsibilities d ON d.id = CASE WHEN f.kind LIKE 'slot.%' THEN f.item ->> '$[0]' END
    WHERE f.seq IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($1)) ORDER BY f.seq",
    "
    SELECT f.seq, f.kind, f.persona_id, f.thread_id, f.run_id, f.message_id, f.delivery_id, f.approval_id, f.item, f.at,
      coalesce(t.subject, m.subject) AS subject, m.sender, m.disposition, r.trigger, r.state AS run_state, r.next_attempt_at,
      r.error_class AS run_error_class, r.error_message AS run_error_message, r.cost_micros AS run_cost_micros,
      u.model, u.cost_micros AS turn_cost_micros, u.error_class AS turn_error_class, u.error_message AS turn_error_message,
      coalesce(e.tool_name, a.tool) AS tool,
      CASE WHEN f.kind = 'call.begun' AND json_valid(e.payload_json)
        THEN substr(coalesce(e.payload_json ->> '$.args', ''), 1, 400) END AS arguments,
      CASE WHEN f.kind = 'call.finished' AND json_valid(e.payload_json) AND coalesce(CAST(e.payload_json ->> '$.ok' AS BIGINT), 1) = 0
        THEN coalesce(e.payload_json ->> '$.error.code', 'failed') END AS call_error_class,
      CASE WHEN f.kind = 'call.finished' AND json_valid(e.payload_json)
        THEN substr(e.payload_json ->> '$.error.message', 1, 400) END AS call_error_message,
      CASE WHEN f.kind LIKE 'delivery.%' THEN
        (SELECT json_group_array(json_build_object('recipient', recipient, 'state', state, 'code', last_code, 'reply', last_reply))
         FROM delivery_recipients WHERE delivery_id = f.delivery_id) END AS recipients_json,
      n.summary, d.name AS responsibility
    FROM feed f LEFT JOIN threads t ON t.id = f.thread_id LEFT JOIN messages m ON m.id = f.message_id
      LEFT JOIN runs r ON r.id = f.run_id
      LEFT JOIN run_turns u ON u.run_id = f.run_id AND u.turn_index = CASE WHEN f.kind LIKE 'turn.%' THEN CAST(f.item ->> '$[0]' AS BIGINT) END
        AND u.attempt = CASE WHEN f.kind LIKE 'turn.%' THEN CAST(f.item ->> '$[1]' AS BIGINT) END
      LEFT JOIN thread_tool_events e ON e.run_id = f.run_id AND e.tool_call_id = f.item
        AND e.event_type = CASE f.kind WHEN 'call.begun' THEN 'tool_call' WHEN 'call.finished' THEN 'tool_result' END
      LEFT JOIN approvals a ON a.id = f.approval_id
      LEFT JOIN notices n ON n.id = CASE WHEN f.kind = 'notice.opened' THEN f.item END
      LEFT JOIN responsibilities d ON d.id = CASE WHEN f.kind LIKE 'slot.%' THEN f.item ->> '$[0]' END
    WHERE f.seq IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($1)) ORDER BY f.seq",
);
/// The number of the oldest of the newest events.
const FEED_NEWEST_LINES: &str = "
    SELECT min(seq) FROM (SELECT seq FROM feed
      WHERE ($1 IS NULL OR persona_id = $1) AND ($2 IS NULL OR run_id = $2) AND ($3 IS NULL OR thread_id = $3)
      ORDER BY seq DESC LIMIT $4) AS newest";

impl Store {
    /// Returns these events with what their rows say, in order.
    pub async fn feed_lines(&self, events: &[FeedEvent]) -> Result<Vec<FeedLine>> {
        let numbers: Vec<i64> = events.iter().map(|event| event.seq).collect();
        let rows = self
            .rows(FEED_LINES, serde_json::json!(numbers).to_string())
            .await?;
        rows.iter().map(line).collect()
    }

    /// Returns the number after which the newest `count` events of a selection begin.
    pub async fn feed_before_newest(&self, filter: &FeedFilter, count: u32) -> Result<i64> {
        let newest = self.feed_newest().await?;
        let first: Option<i64> = self
            .one(
                FEED_NEWEST_LINES,
                (
                    filter
                        .persona
                        .as_ref()
                        .map(crate::domain::PersonaId::as_str),
                    filter.run.as_ref().map(crate::domain::RunId::as_str),
                    filter.thread.as_ref().map(crate::domain::ThreadId::as_str),
                    count,
                ),
            )
            .await?;
        Ok(first.map_or(newest, |first| first - 1))
    }
}

fn line(row: &Row) -> Result<FeedLine> {
    let event: FeedEvent = row.to()?;
    let text = |column: &str| row.get::<Option<String>>(column);
    let (subject, state) = (event.kind.subject(), event.kind.state());
    let is = |wanted: &str| subject == wanted;
    // A later attempt has another error, or none any more.
    let is_still = is("run") && text("run_state").as_deref() == Some(state);
    let has_ended = is_still
        && RunState::parse(state).is_some_and(|state| {
            matches!(
                state,
                RunState::Succeeded | RunState::Failed | RunState::Cancelled
            )
        });
    let (class, message, cost) = match subject {
        "run" if is_still => (text("run_error_class"), text("run_error_message"), None),
        "turn" => (
            text("turn_error_class"),
            text("turn_error_message"),
            row.get("turn_cost_micros"),
        ),
        "call" => (text("call_error_class"), text("call_error_message"), None),
        _ => (None, None, None),
    };
    let trigger = text("trigger").filter(|_| is("run") || is("letter"));
    let recipients = text("recipients_json").map(|json| from_json(&json, "recipients of a mail"));
    Ok(FeedLine {
        subject: text("subject"),
        sender: text("sender").filter(|_| is("letter")),
        trigger: trigger
            .map(|word| Trigger::parse(&word).ok_or(StoreError::Unreadable { what: "trigger" }))
            .transpose()?,
        disposition: text("disposition").filter(|_| is("letter") && state == "filed"),
        error_class: class,
        error_message: message,
        next_attempt_at: match is_still {
            true => optional_timestamp(row, "next_attempt_at")?,
            false => None,
        },
        cost_micros: if has_ended {
            row.get("run_cost_micros")
        } else {
            cost
        },
        model: text("model"),
        tool: text("tool"),
        arguments: text("arguments").filter(|arguments| !arguments.is_empty()),
        recipients: recipients.transpose()?.unwrap_or_default(),
        summary: text("summary"),
        responsibility: text("responsibility"),
        event,
    })
}
