//! Facts of incoming letters, read before they are stored: one query about all letters of a batch.

use crate::domain::{MessageId, PersonaId, Timestamp};
use crate::store::Result;
use crate::store::db::Connection;
use crate::store::mail::inbound::NewInbound;
use crate::store::sql::{from_json, to_json};
use crate::store::threads::placement::{self, FoundThread};
use crate::store::threads::reply_limits::{Account, DAY, HOUR, OF_PERSONA, Sent, day_of, since};
use serde::Serialize;
use std::collections::HashSet;

/// Facts of letters before they are stored: the duplicate, the recent mails to their sender, the
/// linked conversations, and in the oldest of these the thread that they join, with its answers.
/// The plus keeps SQLite from scanning all mail of the window.
const ARRIVALS: &str = "
    WITH letters AS MATERIALIZED (SELECT a.key AS place, a.value ->> 'persona' AS persona, a.value ->> 'ids' AS ids,
        a.value ->> 'known_as' AS known_as, a.value ->> 'duplicates_since' AS duplicates_since,
        CAST(a.value ->> 'has_own_id' AS BIGINT) AS has_own_id, a.value ->> 'counterparty' AS counterparty, a.value ->> 'of_day' AS of_day,
        a.value ->> 'joins_as' AS joins_as,
        a.value ->> 'nearest' AS nearest, a.value ->> 'all_of' AS all_of, a.value ->> 'none_but' AS none_but,
        a.value ->> 'thread_prefix' AS thread_prefix FROM jsonb_each($1) a),
      linked AS MATERIALIZED (SELECT *, (SELECT json_group_array(DISTINCT conversation_id) FROM message_links
          WHERE persona_id = persona AND rfc_message_id IN (SELECT value FROM json_each(ids))) AS conversations,
        (SELECT min(conversation_id) FROM message_links
          WHERE persona_id = persona AND rfc_message_id IN (SELECT value FROM json_each(ids))) AS oldest FROM letters)
    SELECT
      (SELECT id FROM messages WHERE persona_id = l.persona AND dedup_key IN (SELECT value FROM json_each(l.known_as))
         AND +received_at >= l.duplicates_since AND (ack_confirmed = 0 OR l.has_own_id = 1) ORDER BY seq DESC LIMIT 1) AS duplicate,
      (SELECT coalesce(sum(mails), 0) FROM correspondence
         WHERE persona_id = l.persona AND counterparty = l.counterparty AND minute >= $2) AS in_hour,
      (SELECT coalesce(sum(mails), 0) FROM correspondence
         WHERE persona_id = l.persona AND counterparty = l.counterparty AND minute >= $3) AS in_day,
      (SELECT coalesce(sum(mails), 0) FROM correspondence
         WHERE persona_id = l.persona AND counterparty = l.of_day AND minute = $4) AS of_persona,
      l.conversations,
      (SELECT '[\"' || t.id || '\",' || (SELECT coalesce(sum(mails), 0) FROM correspondence
           WHERE persona_id = l.persona AND counterparty = l.thread_prefix || t.id AND minute >= $3) || ']'
         FROM threads t CROSS JOIN thread_participants p
         LEFT JOIN messages m ON m.persona_id = l.persona AND m.message_id = l.nearest AND m.thread_id = t.id
         WHERE p.thread_id = t.id AND t.conversation_id = l.oldest AND p.address = l.joins_as
           AND (l.all_of IS NULL OR (
             NOT EXISTS (SELECT 1 FROM thread_participants o WHERE o.thread_id = t.id
               AND o.address NOT IN (SELECT value FROM json_each(l.none_but)))
             AND NOT EXISTS (SELECT 1 FROM json_each(l.all_of) wanted WHERE NOT EXISTS (
               SELECT 1 FROM thread_participants o WHERE o.thread_id = t.id AND o.address = wanted.value))))
         ORDER BY m.seq IS NULL, t.updated_at DESC, t.id DESC LIMIT 1) AS thread
    FROM linked l ORDER BY l.place";

/// Result of [`ARRIVALS`] for one copy.
pub struct ArrivalFacts {
    pub duplicate: Option<MessageId>,
    /// Recent mails, without the thread's answers.
    pub sent: Sent,
    /// Conversations, oldest first.
    pub linked: Vec<String>,
    /// Thread to join, in the oldest of the conversations, with its answers.
    pub thread: Option<(String, i64)>,
}

impl ArrivalFacts {
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

/// A copy as [`ARRIVALS`] is asked about it.
#[derive(Serialize)]
struct AskedCopy<'a> {
    persona: &'a PersonaId,
    /// Message-IDs that the copy bears or mentions.
    ids: Vec<&'a str>,
    /// Keys under which the same letter may be stored.
    known_as: Vec<&'a str>,
    duplicates_since: Timestamp,
    has_own_id: bool,
    counterparty: Option<&'a str>,
    /// Counter key of the persona's mails today, where they are bounded.
    of_day: Option<&'static str>,
    joins_as: Option<&'a str>,
    /// The nearest ancestor.
    nearest: Option<&'a str>,
    all_of: Option<&'a [String]>,
    none_but: Option<&'a [String]>,
    thread_prefix: &'static str,
}

impl<'a> AskedCopy<'a> {
    fn of(copy: &'a NewInbound) -> Self {
        let (place, own_id) = (&copy.place, copy.content.rfc_message_id.as_str());
        let mentioned = place.mentioned.iter().map(String::as_str);
        let only = place.joins_only.as_ref();
        Self {
            persona: &copy.persona,
            ids: mentioned.chain([own_id]).collect(),
            known_as: copy.keys().collect(),
            duplicates_since: copy.duplicates_since,
            has_own_id: copy.has_own_id,
            counterparty: copy
                .reply_limits
                .as_ref()
                .map(|reply_limits| reply_limits.counterparty.as_str()),
            of_day: copy
                .reply_limits
                .as_ref()
                .and_then(|limits| limits.bounds.persona_day_max)
                .map(|_| OF_PERSONA),
            joins_as: place.joins_as.as_deref(),
            nearest: place.mentioned.last().map(String::as_str),
            all_of: only.map(|only| only.all_of.as_slice()),
            none_but: only.map(|only| only.none_but.as_slice()),
            thread_prefix: Account::of(copy.content.trust.as_str()).thread_prefix(),
        }
    }
}

/// Returns the parameters of [`ARRIVALS`] for some copies: the copies, an hour ago, a day ago, and the first minute of today.
pub fn question<'a>(
    copies: impl Iterator<Item = (&'a NewInbound, Timestamp)>,
) -> Result<[String; 4]> {
    let mut now = Timestamp::from_millis(0);
    let copies: Vec<_> = copies
        .map(|(copy, at)| {
            now = now.max(at);
            AskedCopy::of(copy)
        })
        .collect();
    Ok([
        to_json(&copies)?,
        since(now, HOUR),
        since(now, DAY),
        day_of(now),
    ])
}

/// Queries the facts of all copies at once.
pub async fn arrivals(
    conn: &mut Connection,
    [asked, hour_ago, day_ago, today]: [String; 4],
) -> Result<Vec<ArrivalFacts>> {
    conn.all(ARRIVALS, (asked, hour_ago, day_ago, today)).await
}

from_row!(|row| ArrivalFacts {
    duplicate,
    sent: {
        Sent {
            in_hour: row.get("in_hour"),
            in_day: row.get("in_day"),
            in_thread: 0,
            of_persona: row.get("of_persona"),
        }
    },
    linked: { placement::conversations(row.get("conversations"))? },
    thread: {
        let thread: Option<&str> = row.get("thread");
        let thread = thread.map(|thread| from_json(thread, "thread of a letter"));
        thread.transpose()?
    }
});
