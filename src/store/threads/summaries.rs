//! Summaries of threads: queued with the end of the run whose history did not fit, written with the end of the run that
//! makes one, read by the runs after it.
//!
//! A row is for those who may read every message in it. It never changes; a later one takes its place.

use crate::domain::{MessageId, PersonaId, RunId, TextLabel, ThreadId, Timestamp, sha256_hex};
use crate::store::db::{Connection, Sql};
use crate::store::sql::{from_json, json_list, timestamp, to_json};
use crate::store::threads::past_rows::{PastMessage, PastMessageJson, past_message};
use crate::store::{PersonaStore, Result, Store};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Messages after which a summary is tried again that did not pass, or whose run failed.
const RETRY_AFTER: u32 = 16;
/// Rows of a thread that are kept.
const KEPT: u32 = 32;
/// Summaries of one thread in an hour, fewer than are kept. An archive of a thousand letters needs twenty.
const MADE_PER_HOUR_MAX: u32 = 24;
/// Characters of a message that are summarised.
pub const SUMMARISED_CHARS_MAX: u32 = 4_000;

/// A summary to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewThreadSummary {
    pub made_of: SummaryInputs,
    pub text: String,
    /// What the check found; a summary with problems is kept and not used.
    pub problems: Vec<String>,
}

/// What a summary is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryInputs {
    pub thread: ThreadId,
    /// Id of the summary before, whose text is an input, too.
    pub previous: Option<String>,
    pub generation: u32,
    /// Number of the first message in it or in those before it.
    pub from_seq: i64,
    /// Number of the last message.
    pub upto_seq: i64,
    pub upto_message: MessageId,
    /// Number and digest of the text of each message.
    pub messages: Vec<(i64, String)>,
    /// Number of messages in it and in those before it.
    pub count: u32,
    pub label: TextLabel,
    /// `true`: more messages wait to be summarised.
    pub has_more: bool,
}

/// A summary as a run reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSummaryText {
    pub id: String,
    pub text: String,
    pub generation: u32,
    pub from_seq: i64,
    pub upto_seq: i64,
    /// When the last message in it came.
    pub upto_at: String,
    /// Number of messages in it.
    pub messages: u32,
    pub label: TextLabel,
}

/// The summary that a run may use, and what became of later ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SummarySoFar {
    pub summary: Option<ThreadSummaryText>,
    /// Number of problems of the newest one, when it did not pass the check.
    pub flagged: u32,
}

/// A summary with its sources, for the owner.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StoredThreadSummary {
    pub id: String,
    pub run: RunId,
    pub model: String,
    pub state: String,
    pub problems: Vec<String>,
    pub text: String,
    pub upto_message: MessageId,
    pub generation: u32,
    pub messages: u32,
    pub previous: Option<String>,
    /// Ids of the messages that it was made from itself; `changed` are those whose text is not what it was.
    pub made_from: Vec<MessageId>,
    pub changed: Vec<MessageId>,
    pub label: TextLabel,
    pub readers: Vec<String>,
    pub created_at: Timestamp,
}

/// Queues a run for a summary with the end of run `$1`, whose report says that history was left out. None is queued while one
/// is open, nor soon after one that failed or did not pass, nor when `$6` were written since `$5`.
const QUEUE_SUMMARY: &str = "
    INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at)
    SELECT $2, r.persona_id, r.thread_id, 'summary', r.trigger_message_id, r.profile, 'queued', $3
    FROM runs r WHERE r.id = $1 AND r.history_is_cut = 1
      AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.thread_id = r.thread_id AND o.trigger = 'summary'
        AND o.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
      AND NOT EXISTS (SELECT 1 FROM runs f JOIN messages t ON t.id = f.trigger_message_id
        WHERE f.seq = (SELECT l.seq FROM runs l WHERE l.thread_id = r.thread_id AND l.trigger = 'summary'
            ORDER BY l.seq DESC LIMIT 1)
          AND (f.state IN ('failed', 'cancelled')
            OR EXISTS (SELECT 1 FROM thread_memory s WHERE s.run_id = f.id AND s.state = 'flagged'))
          AND (SELECT count(*) FROM (SELECT 1 FROM messages m WHERE m.thread_id = r.thread_id AND m.seq > t.seq
            LIMIT $4) AS newer) < $4)
      AND (SELECT count(*) FROM thread_memory h WHERE h.thread_id = r.thread_id AND h.created_at > $5) < $6";
/// Queues the run that goes on where run `$1` stopped, with a summary up to message `$4`. It must have moved on: it lies
/// before its own message, and behind every summary that was made for the same message. None is queued when `$6` were
/// written since `$5`.
const CONTINUE_SUMMARY: &str = "
    INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at)
    SELECT $2, r.persona_id, r.thread_id, r.trigger, r.trigger_message_id, r.profile, 'queued', $3 FROM runs r WHERE r.id = $1
      AND EXISTS (SELECT 1 FROM messages own WHERE own.id = r.trigger_message_id AND own.seq > $4)
      AND NOT EXISTS (SELECT 1 FROM runs e CROSS JOIN thread_memory s
        WHERE e.trigger_message_id = r.trigger_message_id AND e.id <> r.id AND s.run_id = e.id
          AND +s.thread_id = r.thread_id AND s.upto_seq >= $4)
      AND (SELECT count(*) FROM thread_memory h WHERE h.thread_id = r.thread_id AND h.created_at > $5) < $6";
/// A summary whose thread was folded into another meanwhile, or that was made from one that is gone, is not written.
const INSERT_SUMMARY: &str = "
    INSERT INTO thread_memory (id, persona_id, thread_id, run_id, model, state, problems_json, text, text_sha256, from_seq,
      upto_seq, upto_message_id, inputs_json, previous_id, generation, messages, label_json, readers_json, created_at)
    SELECT $1, r.persona_id, r.thread_id, r.id, coalesce(r.provider || '/' || r.model, ''), $5, $6, $7, $8, $9, $10, $11,
      $12, $13, $14, $15, $16,
      (SELECT json_group_array(p.address ORDER BY p.address) FROM thread_participants p WHERE p.thread_id = r.thread_id
        AND NOT EXISTS (SELECT 1 FROM jsonb_each($12) i WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = CAST(i.value ->> 0 AS BIGINT) AND readable.address = p.address))
        AND ($13 IS NULL OR EXISTS (SELECT 1 FROM thread_memory q, json_each(q.readers_json) x
          WHERE q.id = $13 AND x.value = p.address))),
      $17
    FROM runs r WHERE r.id = $2 AND r.persona_id = $3 AND r.thread_id = $4
      AND ($13 IS NULL OR EXISTS (SELECT 1 FROM thread_memory q WHERE q.id = $13 AND q.thread_id = r.thread_id))";
const DROP_OLD_SUMMARIES: &str = "
    DELETE FROM thread_memory WHERE thread_id = $1 AND seq < (SELECT seq FROM thread_memory WHERE thread_id = $1
      ORDER BY seq DESC LIMIT 1 OFFSET $2)";
/// The newest summary of what came before message `$3` that all of `$4` may read and that no reset lies in or after.
const SUMMARY_SO_FAR: &str = "
    SELECT s.id, s.text, s.generation, s.from_seq, s.upto_seq, s.messages, s.label_json,
      coalesce((SELECT m.received_at FROM messages m WHERE m.id = s.upto_message_id), s.created_at) AS upto_at
    FROM thread_memory s WHERE s.thread_id = $1 AND s.state = 'usable' AND s.upto_seq < $3 AND +s.persona_id = $2
      AND NOT EXISTS (SELECT 1 FROM jsonb_each($4) reader
        WHERE reader.value NOT IN (SELECT value FROM json_each(s.readers_json)))
      AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = $1 AND x.after_seq < $3
        AND x.after_seq >= s.from_seq)
    ORDER BY s.upto_seq DESC, s.seq DESC LIMIT 1";
/// The problems of the newest summary of what came before message `$3`.
const NEWEST_PROBLEMS: &str = "
    SELECT json_array_length(problems_json) FROM thread_memory
    WHERE seq = (SELECT max(seq) FROM thread_memory WHERE thread_id = $1 AND upto_seq < $3) AND persona_id = $2";
/// Letters that a run answered and what was sent, after message `$3` and before `$4`, as far as all of `$6` may read them and
/// nobody reset the thread after them: an answer stands where its letter does. What a rule withheld or filed is not among them.
const LETTERS_TO_SUMMARISE: Sql = Sql::pair(
    "
    WITH heads AS MATERIALIZED (
      SELECT m.seq, m.id FROM messages m
      WHERE m.thread_id = $1 AND m.seq > $3 AND m.seq < $4 AND +m.persona_id = $2
        AND (m.direction <> 'outbound' AND m.disposition = 'run' OR m.direction = 'outbound' AND m.disposition = 'sent'
          AND NOT EXISTS (SELECT 1 FROM runs r JOIN messages t ON t.id = r.trigger_message_id
            WHERE r.id = m.run_id AND t.thread_id = $1))
        AND NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))
        AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = $1 AND x.after_seq >= m.seq AND x.after_seq < $8)
      ORDER BY m.seq LIMIT $5),
    placed (place, seq) AS (
      SELECT seq, seq FROM heads
      UNION ALL
      SELECT h.seq, a.seq FROM heads h CROSS JOIN runs r CROSS JOIN messages a
      WHERE a.run_id = r.id AND r.trigger_message_id = h.id AND +a.thread_id = $1 AND a.direction = 'outbound'
        AND (a.disposition = 'sent' OR a.disposition = 'withheld:store_only' AND r.trigger = 'chat')
        AND NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = a.seq AND readable.address = reader.value)))
    SELECT json_group_array(json_object('seq', m.seq, 'id', m.id, 'direction', m.direction, 'sender', m.sender,
      'subject', m.subject, 'text', substr(coalesce(m.fresh_text, m.text_body), 1, $7), 'received_at', m.received_at,
      'trigger', r.trigger_message_id, 'disposition', m.disposition, 'lost', NULL, 'trust', m.trust,
      'letters', CASE WHEN CAST(m.metadata_json ->> '$.letters.count' AS BIGINT) > 0
        THEN coalesce(m.metadata_json ->> '$.letters.lowest_trust', 'unauthenticated') END) ORDER BY p.place, p.seq)
    FROM placed p CROSS JOIN messages m LEFT JOIN runs r ON r.id = m.run_id WHERE m.seq = p.seq",
    "
    WITH heads AS MATERIALIZED (
      SELECT m.seq, m.id FROM messages m
      WHERE m.thread_id = $1 AND m.seq > $3 AND m.seq < $4 AND +m.persona_id = $2
        AND (m.direction <> 'outbound' AND m.disposition = 'run' OR m.direction = 'outbound' AND m.disposition = 'sent'
          AND NOT EXISTS (SELECT 1 FROM runs r JOIN messages t ON t.id = r.trigger_message_id
            WHERE r.id = m.run_id AND t.thread_id = $1))
        AND NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))
        AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = $1 AND x.after_seq >= m.seq AND x.after_seq < $8)
      ORDER BY m.seq LIMIT $5),
    placed (place, seq) AS (
      SELECT seq, seq FROM heads
      UNION ALL
      SELECT h.seq, a.seq FROM heads h CROSS JOIN runs r CROSS JOIN messages a
      WHERE a.run_id = r.id AND r.trigger_message_id = h.id AND +a.thread_id = $1 AND a.direction = 'outbound'
        AND (a.disposition = 'sent' OR a.disposition = 'withheld:store_only' AND r.trigger = 'chat')
        AND NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = a.seq AND readable.address = reader.value)))
    SELECT json_group_array(json_build_object('seq', m.seq, 'id', m.id, 'direction', m.direction, 'sender', m.sender,
      'subject', m.subject, 'text', substr(coalesce(m.fresh_text, m.text_body), 1, $7), 'received_at', m.received_at,
      'trigger', r.trigger_message_id, 'disposition', m.disposition, 'lost', NULL, 'trust', m.trust,
      'letters', CASE WHEN CAST(m.metadata_json ->> '$.letters.count' AS BIGINT) > 0
        THEN coalesce(m.metadata_json ->> '$.letters.lowest_trust', 'unauthenticated') END) ORDER BY p.place, p.seq)
    FROM placed p CROSS JOIN messages m LEFT JOIN runs r ON r.id = m.run_id WHERE m.seq = p.seq",
);
const SUMMARIES_OF_THREAD: &str = "
    SELECT s.id, s.run_id, s.model, s.state, s.problems_json, s.text, s.upto_message_id, s.generation, s.messages,
      s.previous_id, s.inputs_json, s.label_json, s.readers_json, s.created_at
    FROM thread_memory s WHERE s.thread_id = $1 ORDER BY s.seq DESC LIMIT $2";
const TEXTS_OF_INPUTS: &str = "
    SELECT seq, id, substr(coalesce(fresh_text, text_body), 1, $2) AS text FROM messages
    WHERE seq IN (SELECT CAST(value ->> 0 AS BIGINT) FROM jsonb_each($1))";

/// Queues a run for a summary, where the run that ends needs one.
pub async fn queue(
    conn: &mut Connection,
    (run, new, now): (&RunId, &str, Timestamp),
) -> Result<()> {
    conn.exec(
        QUEUE_SUMMARY,
        (
            &run,
            new,
            now,
            RETRY_AFTER,
            hour_before(now),
            MADE_PER_HOUR_MAX,
        ),
    )
    .await?;
    Ok(())
}

fn hour_before(now: Timestamp) -> String {
    now.minus(Duration::from_secs(60 * 60)).to_string()
}

/// Writes a summary; `ids` are for its row, and for the run that goes on.
pub async fn insert(
    conn: &mut Connection,
    (run, persona): (&RunId, &PersonaId),
    new: &NewThreadSummary,
    (ids, now): ([&str; 2], Timestamp),
) -> Result<()> {
    let of = &new.made_of;
    let state = match new.problems.is_empty() {
        true => "usable",
        false => "flagged",
    };
    let written = conn
        .exec(
            INSERT_SUMMARY,
            (
                (
                    ids[0],
                    &run,
                    &persona,
                    &of.thread,
                    state,
                    to_json(&new.problems)?,
                    &new.text,
                    sha256_hex(&[new.text.as_bytes()]),
                    of.from_seq,
                    of.upto_seq,
                    &of.upto_message,
                    to_json(&of.messages)?,
                    &of.previous,
                    of.generation,
                    of.count,
                    to_json(&of.label)?,
                ),
                now,
            ),
        )
        .await?
        > 0;

    conn.exec(DROP_OLD_SUMMARIES, (&of.thread, KEPT - 1))
        .await?;
    if written && of.has_more && new.problems.is_empty() {
        conn.exec(
            CONTINUE_SUMMARY,
            (
                &run,
                ids[1],
                now,
                of.upto_seq,
                hour_before(now),
                MADE_PER_HOUR_MAX,
            ),
        )
        .await?;
    }
    Ok(())
}

impl PersonaStore {
    /// Returns the summary of what came before a message of a thread, as far as all of `readers` may read it.
    pub async fn summary_so_far(
        &self,
        thread: &ThreadId,
        before_seq: i64,
        readers: &[String],
    ) -> Result<SummarySoFar> {
        let row = self
            .maybe_row(
                SUMMARY_SO_FAR,
                (thread, &self.persona, before_seq, json_list(readers.iter())),
            )
            .await?;
        let summary = row.as_ref().map(|row| {
            Ok::<_, crate::store::StoreError>(ThreadSummaryText {
                id: row.get("id"),
                text: row.get("text"),
                generation: row.get("generation"),
                from_seq: row.get("from_seq"),
                upto_seq: row.get("upto_seq"),
                upto_at: row.get("upto_at"),
                messages: row.get("messages"),
                label: from_json(row.get("label_json"), "label of a summary")?,
            })
        });
        let flagged: Option<u32> = self
            .maybe(NEWEST_PROBLEMS, (thread, &self.persona, before_seq))
            .await?;
        Ok(SummarySoFar {
            summary: summary.transpose()?,
            flagged: flagged.unwrap_or(0),
        })
    }

    /// Returns what there is to summarise after the first and before the second number of `between`, for a run on the message
    /// with the third: at most `limit` letters, oldest first, each followed by its answers; each text cut at `chars_max`.
    pub async fn letters_to_summarise(
        &self,
        thread: &ThreadId,
        (after_seq, before_seq, own_seq): (i64, i64, i64),
        (limit, chars_max): (u32, u32),
        readers: &[String],
    ) -> Result<Vec<PastMessage>> {
        let found: String = self
            .one(
                LETTERS_TO_SUMMARISE,
                (
                    thread,
                    &self.persona,
                    after_seq,
                    before_seq,
                    limit,
                    json_list(readers.iter()),
                    chars_max,
                    own_seq,
                ),
            )
            .await?;
        let found: Vec<PastMessageJson> = from_json(&found, "messages of a thread")?;
        found.into_iter().map(past_message).collect()
    }
}

impl Store {
    /// Returns the newest summaries of a thread, with their sources.
    pub async fn summaries_of_thread(
        &self,
        thread: &ThreadId,
        limit: u32,
    ) -> Result<Vec<StoredThreadSummary>> {
        let rows = self.rows(SUMMARIES_OF_THREAD, (thread, limit)).await?;
        let mut summaries = Vec::with_capacity(rows.len());
        for row in &rows {
            let inputs: Vec<(i64, String)> =
                from_json(row.get("inputs_json"), "inputs of a summary")?;
            let texts = self
                .rows(
                    TEXTS_OF_INPUTS,
                    (row.get::<&str>("inputs_json"), SUMMARISED_CHARS_MAX),
                )
                .await?;
            let (mut made_from, mut changed) = (Vec::new(), Vec::new());
            for text in &texts {
                let id: MessageId = text.get("id");
                let digest = sha256_hex(&[text.get::<&str>("text").as_bytes()]);
                let seq: i64 = text.get("seq");
                if !inputs
                    .iter()
                    .any(|(known, then)| *known == seq && *then == digest)
                {
                    changed.push(id.clone());
                }
                made_from.push(id);
            }
            summaries.push(StoredThreadSummary {
                id: row.get("id"),
                run: row.get("run_id"),
                model: row.get("model"),
                state: row.get("state"),
                problems: from_json(row.get("problems_json"), "problems of a summary")?,
                text: row.get("text"),
                upto_message: row.get("upto_message_id"),
                generation: row.get("generation"),
                messages: row.get("messages"),
                previous: row.get("previous_id"),
                made_from,
                changed,
                label: from_json(row.get("label_json"), "label of a summary")?,
                readers: from_json(row.get("readers_json"), "readers of a summary")?,
                created_at: timestamp(row, "created_at")?,
            });
        }
        Ok(summaries)
    }
}
