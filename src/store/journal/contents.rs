//! Texts by their digests, and the assemblies of a run that were made from them.
//!
//! A text is stored by the transaction of the first turn that contains it, and only if it is not
//! stored yet. The role and the order of the texts are in the run loop's note in
//! note of its sources (`run_turns.packed`, or `sources_json`).

use crate::config::Snapshot;
use crate::domain::{RunId, sha256_hex};
use crate::store::db::{Connection, Row, Sql};
use crate::store::journal::packed::{SharedText, Unpacker};
use crate::store::sql::{from_json, json_list};
use crate::store::threads::past_rows::{
    PastMessage, PastMessageJson, PastStep, PastStepJson, past_message, past_step,
};
use crate::store::{PersonaStore, Result, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sources of an assembled context.
#[derive(Debug, Clone)]
pub struct NewSources {
    /// The run loop's note of its sources; it names `texts` and `config` by their digests.
    pub json: String,
    /// Texts by digest.
    pub texts: BTreeMap<String, Arc<str>>,
    pub config: Arc<Snapshot>,
}

/// One assembly of a run's context that was committed: at the begin of the run, and whenever the
/// context had to be shorter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembly {
    /// Index of the first turn whose request has this context.
    pub turn_index: u32,
    pub attempt: u32,
    /// The normalised request.
    pub request_json: String,
    /// The note of the sources; `None`: they were not written down yet.
    pub sources_json: Option<String>,
}

/// A text as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredText {
    pub text: Arc<str>,
    /// `true`: the text does not match its digest, so the row was changed.
    pub is_damaged: bool,
}

const INSERT_CONTENT: &str =
    "INSERT INTO contents (sha256, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const CONTENTS: &str = "
    SELECT sha256, bytes FROM contents WHERE sha256 IN (SELECT value FROM jsonb_each($1))";
const ASSEMBLIES: &str = "
    SELECT t.turn_index, t.attempt, t.request_json, t.request_sha256, t.context_json, t.packed, c.bytes AS dictionary,
      t.sources_json
    FROM run_turns t LEFT JOIN contents c ON c.sha256 = t.packed_with
    WHERE t.run_id = $1 AND t.persona_id = $2 ORDER BY t.turn_index, t.attempt";
/// Messages by their numbers, in any thread. Their disposition and unreached recipients may have
/// changed; the caller has its own record of both.
const MESSAGES_BY_SEQ: Sql = Sql::pair(
    "
    SELECT json_group_array(json_object('seq', m.seq, 'id', m.id, 'direction', m.direction, 'sender', m.sender,
      'subject', m.subject, 'text', substr(coalesce(m.fresh_text, m.text_body), 1, $3), 'received_at', m.received_at,
      'trigger', coalesce(r.trigger_message_id, CASE WHEN m.seq < 0 AND m.direction = 'outbound' THEN (SELECT q.id FROM messages q
        WHERE q.persona_id = $2 AND q.message_id = m.in_reply_to AND +q.thread_id = m.thread_id AND q.seq > m.seq
        ORDER BY q.seq LIMIT 1) END), 'disposition', m.disposition, 'lost', NULL, 'trust', m.trust,
      'letters', CASE WHEN CAST(m.metadata_json ->> '$.letters.count' AS BIGINT) > 0
        THEN coalesce(m.metadata_json ->> '$.letters.lowest_trust', 'unauthenticated') END,
      'files', json((SELECT json_group_array(f.filename ORDER BY f.id) FROM attachments f WHERE f.message_id = m.id))))
    FROM messages m LEFT JOIN runs r ON r.id = m.run_id
    WHERE m.seq IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($1)) AND +m.persona_id = $2",
    "
    SELECT json_group_array(json_build_object('seq', m.seq, 'id', m.id, 'direction', m.direction, 'sender', m.sender,
      'subject', m.subject, 'text', substr(coalesce(m.fresh_text, m.text_body), 1, $3), 'received_at', m.received_at,
      'trigger', coalesce(r.trigger_message_id, CASE WHEN m.seq < 0 AND m.direction = 'outbound' THEN (SELECT q.id FROM messages q
        WHERE q.persona_id = $2 AND q.message_id = m.in_reply_to AND +q.thread_id = m.thread_id AND q.seq > m.seq
        ORDER BY q.seq LIMIT 1) END), 'disposition', m.disposition, 'lost', NULL, 'trust', m.trust,
      'letters', CASE WHEN CAST(m.metadata_json ->> '$.letters.count' AS BIGINT) > 0
        THEN coalesce(m.metadata_json ->> '$.letters.lowest_trust', 'unauthenticated') END,
      'files', (SELECT json_group_array(f.filename ORDER BY f.id) FROM attachments f WHERE f.message_id = m.id)::JSON))
    FROM messages m LEFT JOIN runs r ON r.id = m.run_id
    WHERE m.seq IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($1)) AND +m.persona_id = $2",
);
/// The first steps of runs; the parameter is `[[run, number of steps], …]`.
const FIRST_STEPS: Sql = Sql::pair(
    "
    SELECT json_group_array(json_object('message', parent_message_id, 'run', run_id, 'kind', event_type,
      'executor', executor, 'tool_name', tool_name, 'tool_call_id', tool_call_id,
      'payload_json', substr(payload_json, 1, $3),
      'whole', CASE WHEN event_type = 'tool_result' AND tool_name = 'search_email' AND length(payload_json) > $3
        THEN payload_json END))
    FROM (SELECT e.* FROM jsonb_each($1) AS w JOIN thread_tool_events e ON e.run_id = w.value ->> 0
      WHERE e.step_index < CAST(w.value ->> 1 AS BIGINT) AND e.persona_id = $2
      ORDER BY e.parent_message_id, e.run_id, e.step_index) AS first",
    "
    SELECT json_group_array(json_build_object('message', parent_message_id, 'run', run_id, 'kind', event_type,
      'executor', executor, 'tool_name', tool_name, 'tool_call_id', tool_call_id,
      'payload_json', substr(payload_json, 1, $3),
      'whole', CASE WHEN event_type = 'tool_result' AND tool_name = 'search_email' AND length(payload_json) > $3
        THEN payload_json END))
    FROM (SELECT e.* FROM jsonb_each($1) AS w JOIN thread_tool_events e ON e.run_id = w.value ->> 0
      WHERE e.step_index < CAST(w.value ->> 1 AS BIGINT) AND e.persona_id = $2
      ORDER BY e.parent_message_id, e.run_id, e.step_index) AS first",
);

impl PersonaStore {
    /// Returns every context of a run, in order; the last is the one that it ended with.
    pub async fn assemblies_of_run(&self, run: &RunId) -> Result<Vec<Assembly>> {
        let rows = self.rows(ASSEMBLIES, (run, &self.persona)).await?;
        let (mut unpacker, mut assemblies) = (Unpacker::default(), Vec::new());
        for row in &rows {
            let bodies = unpacker.read(row)?;
            if let Some(request_json) = bodies.context {
                assemblies.push(Assembly {
                    turn_index: row.get("turn_index"),
                    attempt: row.get("attempt"),
                    request_json,
                    sources_json: bodies.sources,
                });
            }
        }
        Ok(assemblies)
    }

    /// Returns texts by their digests; missing texts are absent from the map. A digest gives access
    /// to its text, so pass only digests that a run of this persona names.
    pub async fn texts(&self, digests: &[&str]) -> Result<BTreeMap<String, StoredText>> {
        if digests.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = self
            .rows(CONTENTS, json_list(digests.iter().copied()))
            .await?;
        let text = |row: &Row| {
            let (digest, bytes): (String, &[u8]) = (row.get("sha256"), row.get("bytes"));
            let is_damaged = sha256_hex(&[bytes]) != digest;
            (
                digest,
                StoredText {
                    text: String::from_utf8_lossy(bytes).into(),
                    is_damaged,
                },
            )
        };
        Ok(rows.iter().map(text).collect())
    }

    /// Returns messages by their numbers, in that order; numbers that are gone are skipped. `lost`
    /// is empty.
    pub async fn messages_by_seq(&self, seqs: &[i64], chars_max: u32) -> Result<Vec<PastMessage>> {
        let seqs_json = serde_json::Value::from(seqs).to_string();
        let found: String = self
            .one(MESSAGES_BY_SEQ, (seqs_json, &self.persona, chars_max))
            .await?;
        let found: Vec<PastMessageJson> = from_json(&found, "messages of a thread")?;
        let mut found = found
            .into_iter()
            .map(past_message)
            .collect::<Result<Vec<_>>>()?;
        found.sort_by_key(|message| seqs.iter().position(|seq| *seq == message.seq));
        Ok(found)
    }

    /// Returns the first steps of runs, up to the given number each, grouped by message, each
    /// payload cut at `chars_max` characters.
    pub async fn first_steps(
        &self,
        runs: &[(RunId, u32)],
        chars_max: u32,
    ) -> Result<Vec<PastStep>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: Vec<(&str, u32)> = runs
            .iter()
            .map(|(run, count)| (run.as_str(), *count))
            .collect();
        let wanted = serde_json::json!(wanted).to_string();
        let steps: String = self
            .one(FIRST_STEPS, (wanted, &self.persona, chars_max))
            .await?;
        let steps: Vec<PastStepJson> = from_json(&steps, "tool traces of a thread")?;
        Ok(steps.into_iter().map(past_step).collect())
    }
}

impl NewSources {
    /// Sources that consist of a configuration alone.
    pub(in crate::store) fn bare(config: &Arc<Snapshot>) -> Self {
        Self {
            json: String::new(),
            texts: BTreeMap::new(),
            config: config.clone(),
        }
    }

    /// The digests that must be there when the note is, as a JSON array. The files of the configuration came with it.
    /// `shared` is the dictionary of the turn's bodies.
    pub(in crate::store) fn digests(&self, shared: Option<&SharedText>) -> String {
        let shared = shared.map(|shared| shared.text.sha256.as_str());
        json_list(
            self.texts
                .keys()
                .map(String::as_str)
                .chain([self.config.sha256()])
                .chain(shared),
        )
    }

    /// Stores what `missing_json` names of it.
    pub(in crate::store) async fn insert(
        &self,
        conn: &mut Connection,
        missing_json: &str,
        shared: Option<&SharedText>,
    ) -> Result<()> {
        let missing: Vec<String> = serde_json::from_str(missing_json)
            .map_err(|_| StoreError::Unreadable { what: "contents" })?;
        for digest in &missing {
            if let Some(text) = self.texts.get(digest) {
                insert(conn, digest, text).await?;
            } else if digest == self.config.sha256() {
                for text in self.config.files().values() {
                    insert(conn, &sha256_hex(&[text.as_bytes()]), text).await?;
                }
                insert(conn, digest, self.config.index()).await?;
            } else if let Some(shared) = shared.filter(|shared| shared.text.sha256 == *digest) {
                insert(conn, digest, &shared.text.text).await?;
            }
        }
        Ok(())
    }
}

async fn insert(conn: &mut Connection, digest: &str, text: &str) -> Result<()> {
    conn.exec(INSERT_CONTENT, (digest, text.as_bytes())).await?;
    Ok(())
}
