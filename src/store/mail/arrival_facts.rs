//! Facts of incoming letters, read before they are stored: one query about all letters of a batch.

use crate::domain::{MessageId, Timestamp};
use crate::store::mail::inbound::NewInbound;
use crate::store::threads::placement::{self, FoundThread};
use crate::store::threads::reply_limits::{Account, DAY, HOUR, Sent, since};
use crate::store::{Result, StoreError};
use serde_json::json;
use sqlx::{Row, SqliteConnection};
use std::collections::HashSet;

/// Facts of letters before they are stored: the duplicate, the recent mails to their sender, the
/// linked conversations, and in the oldest of these the thread that they join, with its answers.
/// The plus keeps SQLite from scanning all mail of the window.
pub(in crate::store) const ARRIVALS: &str = "
    WITH letters AS MATERIALIZED (SELECT key AS place, value ->> 0 AS persona, value -> 1 AS ids, value -> 2 AS known_as,
        value ->> 3 AS duplicates_since, value ->> 4 AS has_own_id, value ->> 5 AS counterparty,
        value ->> 6 AS joins_as, value ->> 7 AS nearest, value ->> 8 AS all_of, value ->> 9 AS none_but,
        value ->> 10 AS thread_prefix FROM json_each($1)),
      linked AS MATERIALIZED (SELECT *, (SELECT json_group_array(DISTINCT conversation_id) FROM message_links
          WHERE persona_id = persona AND rfc_message_id IN (SELECT value FROM json_each(ids))) AS conversations,
        (SELECT min(conversation_id) FROM message_links
          WHERE persona_id = persona AND rfc_message_id IN (SELECT value FROM json_each(ids))) AS oldest FROM letters)
    SELECT
      (SELECT id FROM messages WHERE persona_id = l.persona AND dedup_key IN (SELECT value FROM json_each(l.known_as))
         AND +received_at >= l.duplicates_since AND (ack_confirmed = 0 OR l.has_own_id) ORDER BY seq DESC LIMIT 1),
      (SELECT coalesce(sum(mails), 0) FROM correspondence
         WHERE persona_id = l.persona AND counterparty = l.counterparty AND minute >= $2),
      (SELECT coalesce(sum(mails), 0) FROM correspondence
         WHERE persona_id = l.persona AND counterparty = l.counterparty AND minute >= $3),
      l.conversations,
      (SELECT json_array(t.id, (SELECT coalesce(sum(mails), 0) FROM correspondence
           WHERE persona_id = l.persona AND counterparty = l.thread_prefix || t.id AND minute >= $3))
         FROM threads t JOIN thread_participants p ON p.thread_id = t.id
         LEFT JOIN messages m ON m.persona_id = l.persona AND m.message_id = l.nearest AND m.thread_id = t.id
         WHERE t.conversation_id = l.oldest AND p.address = l.joins_as
           AND (l.all_of IS NULL OR (
             NOT EXISTS (SELECT 1 FROM thread_participants o WHERE o.thread_id = t.id
               AND o.address NOT IN (SELECT value FROM json_each(l.none_but)))
             AND NOT EXISTS (SELECT 1 FROM json_each(l.all_of) wanted WHERE NOT EXISTS (
               SELECT 1 FROM thread_participants o WHERE o.thread_id = t.id AND o.address = wanted.value))))
         ORDER BY m.seq IS NULL, t.updated_at DESC, t.id DESC LIMIT 1)
    FROM linked l ORDER BY l.place";

/// Result of [`ARRIVALS`] for one copy.
pub(in crate::store) struct Arrival {
    pub duplicate: Option<MessageId>,
    /// Recent mails, without the thread's answers.
    pub sent: Sent,
    /// Conversations, oldest first.
    pub linked: Vec<String>,
    /// Thread to join, in the oldest of the conversations, with its answers.
    pub thread: Option<(String, i64)>,
}

impl Arrival {
    /// Returns every name by which another letter may depend on this letter.
    pub fn names(&self, copy: &NewInbound) -> HashSet<String> {
        let ids = copy
            .place
            .mentioned
            .iter()
            .chain([&copy.content.rfc_message_id, &copy.dedup_key]);
        ids.chain(&copy.also_known_as)
            .chain(&self.linked)
            .cloned()
            .collect()
    }

    pub fn found(&self, copy: &NewInbound) -> FoundThread {
        let conversation = self
            .linked
            .first()
            .map_or_else(|| copy.place.new_conversation.as_str(), String::as_str);
        FoundThread {
            conversation: conversation.to_owned(),
            thread: self.thread.clone(),
        }
    }
}

/// Returns the parameters of [`ARRIVALS`] for some copies: the copies, an hour ago and a day ago.
pub(in crate::store) fn question<'a>(
    copies: impl Iterator<Item = (&'a NewInbound, Timestamp)>,
) -> [String; 3] {
    let mut now = Timestamp::from_millis(0);
    let asked = copies.map(|(copy, at)| {
        now = now.max(at);
        json!([
            copy.persona.as_str(),
            copy.place
                .mentioned
                .iter()
                .chain([&copy.content.rfc_message_id])
                .collect::<Vec<_>>(),
            copy.keys().collect::<Vec<_>>(),
            copy.duplicates_since.to_string(),
            u8::from(copy.has_own_id),
            copy.reply_limits
                .as_ref()
                .map(|reply_limits| reply_limits.counterparty.as_str()),
            copy.place.joins_as,
            copy.place.mentioned.last(),
            copy.place.joins_only.as_ref().map(|only| &only.all_of),
            copy.place.joins_only.as_ref().map(|only| &only.none_but),
            Account::of(copy.content.trust).thread_prefix(),
        ])
    });
    let asked = serde_json::Value::from_iter(asked).to_string();
    [asked, since(now, HOUR), since(now, DAY)]
}

/// Queries the facts of all copies at once.
pub(in crate::store) async fn arrivals(
    conn: &mut SqliteConnection,
    [asked, hour_ago, day_ago]: [String; 3],
) -> Result<Vec<Arrival>> {
    let arrivals = sqlx::query(ARRIVALS)
        .bind(asked)
        .bind(hour_ago)
        .bind(day_ago);
    let rows = arrivals.fetch_all(conn).await?;
    let arrival = |row: &sqlx::sqlite::SqliteRow| {
        let thread = row
            .get::<Option<&str>, _>(4)
            .map(serde_json::from_str::<(String, i64)>)
            .transpose();
        Ok(Arrival {
            duplicate: row.get::<Option<String>, _>(0).map(MessageId::new),
            sent: Sent {
                in_hour: row.get(1),
                in_day: row.get(2),
                in_thread: 0,
            },
            linked: placement::conversations(row.get(3))?,
            thread: thread.map_err(|_| StoreError::Unreadable {
                what: "thread of a letter",
            })?,
        })
    };
    rows.iter().map(arrival).collect()
}
