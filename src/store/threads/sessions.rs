//! Sessions of agents: the agent's own conversation that it may resume in a thread.
//!
//! Our history decides. A session is resumed only if an answer of it was seen, if the agent's
//! options are unchanged, and if the persona has written nothing in the thread that the session
//! does not know.

use crate::domain::{PersonaId, RunId, ThreadId, Timestamp};
use crate::store::db::{Connection, Row, Scope};
use crate::store::runs::fence::fenced;
use crate::store::sql::timestamp;
use crate::store::{PersonaStore, Result, RunKey, Store, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// Thread and agent of a session, and the options given to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionKey {
    pub thread: ThreadId,
    pub provider: String,
    pub model: String,
    pub folder: String,
    /// Digest of the persona's text, its tools and its tier.
    pub options_sha256: String,
}

/// A session, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadSession {
    pub provider: String,
    pub model: String,
    pub id: String,
    /// `begun` (it has not answered yet), `resumable` or `lost`.
    pub state: String,
    #[serde(rename = "since")]
    pub created_at: Timestamp,
    pub used_at: Timestamp,
}

/// Most rows that one sweep deletes; the next start continues.
const FORGOTTEN_MAX: i64 = 10_000;

/// A session that may be resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSession {
    pub id: String,
    /// Its total usage so far, as the run loop recorded it.
    pub usage_json: Option<String>,
}

/// A session that began before its thread was reset knows what it should not, and so does one whose last answer was kept from the
/// readers of the thread: it would give that answer to the next letter. `seen_seq` is the last mail that existed when the session answered; mails of its own last run
/// come after.
const RESUMABLE_SESSION: &str = "
    SELECT session_id, usage_json FROM provider_sessions s
    WHERE persona_id = $1 AND thread_id = $2 AND provider = $3 AND model = $4 AND folder = $5
      AND options_sha256 = $6 AND state = 'resumable'
      AND NOT EXISTS (SELECT 1 FROM thread_resets x WHERE x.thread_id = s.thread_id AND x.reset_at >= s.created_at)
      AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.run_id = s.run_id
        AND m.disposition IN ('withheld:not_approved', 'withheld:hook_denied'))
      AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = s.thread_id AND m.direction = 'outbound'
        AND m.seq > s.seen_seq AND m.run_id IS DISTINCT FROM s.run_id)";
const KEEP_SESSION: &str = "
    INSERT INTO provider_sessions (persona_id, thread_id, provider, model, session_id, folder, options_sha256, state,
      run_id, seen_seq, usage_json, created_at, used_at)
    SELECT persona_id, thread_id, $3, $4, $5, $6, $7, $8, id,
      (SELECT coalesce(max(seq), 0) FROM messages WHERE thread_id = runs.thread_id AND direction = 'outbound'), $9,
      $10, $10
    FROM runs WHERE id = $1 AND persona_id = $2 AND epoch = $11 AND state = 'running'
    ON CONFLICT (persona_id, thread_id, provider) DO UPDATE SET model = excluded.model, folder = excluded.folder,
      created_at = CASE provider_sessions.session_id WHEN excluded.session_id THEN provider_sessions.created_at ELSE excluded.created_at END,
      session_id = excluded.session_id, options_sha256 = excluded.options_sha256, state = excluded.state,
      run_id = excluded.run_id, seen_seq = excluded.seen_seq, usage_json = excluded.usage_json,
      used_at = excluded.used_at";
const LOSE_SESSION: &str = "
    UPDATE provider_sessions SET state = 'lost' WHERE persona_id = $1 AND thread_id = $2 AND provider = $3";
/// Two threads were merged: neither session knows the whole thread.
pub const FOLD_SESSIONS: &str = "DELETE FROM provider_sessions WHERE thread_id IN ($1, $2)";
const FORGET_SESSIONS: &str = "
    DELETE FROM provider_sessions WHERE rowid IN (
      SELECT rowid FROM provider_sessions WHERE used_at < $1 LIMIT $2) AND used_at < $1";
const SESSIONS_OF_THREAD: &str = "
    SELECT provider, model, session_id, state, created_at, used_at FROM provider_sessions
    WHERE thread_id = $1 ORDER BY used_at DESC, provider";
/// Drafts count from when they are written. The persona is the run's: asked of `messages`, it would tempt the planner to walk all mail of the
/// persona by `messages_by_time`.
const RUN_MAILS: &str = "
    SELECT count(*) AS mails, coalesce(sum(CASE m.disposition WHEN 'sent' THEN m.thread_id = r.thread_id
      ELSE CAST(m.metadata_json ->> '$.is_draft_of_reply' AS BIGINT) = 1 END), 0) AS replies
    FROM messages m JOIN runs r ON r.id = m.run_id
    WHERE m.run_id = $1 AND r.persona_id = $2 AND m.disposition IN ('sent', 'withheld:draft')";

/// Checks, inside the transaction that queues a mail, that its run may send another mail: several
/// processes send for a run.
///
/// Errors: [`StoreError::MailsUsedUp`].
pub async fn room_for_mail(
    conn: &mut Connection,
    run: &RunId,
    persona: &PersonaId,
    max: u32,
) -> Result<()> {
    let mails = conn.row(RUN_MAILS, (&run, &persona)).await?;
    match mails.get::<u32>("mails") < max {
        true => Ok(()),
        false => Err(StoreError::MailsUsedUp { max }),
    }
}

impl Store {
    /// Deletes sessions that were unused for that time; agents delete theirs, too. Returns their
    /// number.
    pub async fn forget_sessions(&self, unused: Duration) -> Result<u64> {
        let before = self.clock().now().minus(unused).to_string();
        transact!(self, Scope::Rows, |conn| conn
            .exec(FORGET_SESSIONS, (before, FORGOTTEN_MAX))
            .await)
        .await
    }

    /// Returns the agents' sessions of a thread, the last used first.
    pub async fn thread_sessions(&self, thread: &ThreadId) -> Result<Vec<ThreadSession>> {
        let rows = self.rows(SESSIONS_OF_THREAD, thread).await?;
        let session = |row: &Row| {
            Ok(ThreadSession {
                provider: row.get("provider"),
                model: row.get("model"),
                id: row.get("session_id"),
                state: row.get("state"),
                created_at: timestamp(row, "created_at")?,
                used_at: timestamp(row, "used_at")?,
            })
        };
        rows.iter().map(session).collect()
    }
}

impl PersonaStore {
    /// Returns the session that the next call in this thread may resume.
    pub async fn resumable_session(&self, key: &SessionKey) -> Result<Option<KnownSession>> {
        let row = self
            .maybe_row(
                RESUMABLE_SESSION,
                (
                    &self.persona,
                    &key.thread,
                    &key.provider,
                    &key.model,
                    &key.folder,
                    &key.options_sha256,
                ),
            )
            .await?;
        Ok(row.map(|row| KnownSession {
            id: row.get("session_id"),
            usage_json: row.get("usage_json"),
        }))
    }

    /// Records the id of a session that the agent began: not resumable until it has answered.
    ///
    /// Errors: [`crate::store::StoreError::WrongState`] when the run is no longer this engine's.
    pub async fn session_begun(&self, run: &RunKey, key: &SessionKey, id: &str) -> Result<()> {
        self.keep_session(run, key, id, "begun", None).await
    }

    /// Records that the agent has answered in the session. Errors: as [`Self::session_begun`].
    pub async fn session_answered(
        &self,
        run: &RunKey,
        key: &SessionKey,
        id: &str,
        usage_json: Option<String>,
    ) -> Result<()> {
        self.keep_session(run, key, id, "resumable", usage_json)
            .await
    }

    async fn keep_session(
        &self,
        run: &RunKey,
        key: &SessionKey,
        id: &str,
        state: &'static str,
        usage_json: Option<String>,
    ) -> Result<()> {
        let (persona, epoch) = (self.persona.clone(), self.store.epoch());
        let now = self.store.clock().now().to_string();
        let (run, key, id) = (run.run.clone(), key.clone(), id.to_owned());
        transact!(self, |conn| fenced(
            conn.exec(
                KEEP_SESSION,
                (
                    &run,
                    &persona,
                    &key.provider,
                    &key.model,
                    &id,
                    &key.folder,
                    &key.options_sha256,
                    state,
                    usage_json,
                    now,
                    epoch,
                ),
            )
            .await?,
            run.as_str(),
        ))
        .await
    }

    /// Records that the agent does not know its session any more.
    pub async fn session_lost(&self, thread: &ThreadId, provider: &str) -> Result<()> {
        let (persona, thread, provider) =
            (self.persona.clone(), thread.clone(), provider.to_owned());
        transact!(self, |conn| {
            conn.exec(LOSE_SESSION, (&persona, thread, provider))
                .await?;
            Ok(())
        })
        .await
    }

    /// Returns the number of mails that a run has queued so far, and whether one of them answers
    /// its trigger.
    pub async fn mails_so_far(&self, run: &RunId) -> Result<(u32, bool)> {
        let mails = self.row(RUN_MAILS, (run, &self.persona)).await?;
        Ok((mails.get("mails"), mails.get::<i64>("replies") > 0))
    }
}
