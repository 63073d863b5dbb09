//! Pruning of rows by age, kind by kind, in transactions of a few hundred rows.
//!
//! Rows that other rows reference stay and lose their bytes: `pruned_at` says so, and the audit can
//! tell age from damage. Never pruned: messages and their links (a reply to an old letter must
//! still find its thread, and a second copy of it must still be known), steps, the costs of calls,
//! the letters of a mailbox, open rows, and rows that `runs retry` or `outbox retry` would need: so
//! runs and mails that failed keep theirs. Texts in `contents` are deleted with the last turn that
//! names them: many runs share a text, and each is stored once. A fork keeps its row, whose number
//! its calls in the ledger bear, and loses its record.

use crate::domain::Timestamp;
use crate::store::db::{self, Connection, ConnectionSource, Row, Scope, Sql};
use crate::store::mail::attachment_bytes;
use crate::store::sql::json_list;
use crate::store::{Result, Store};
use std::collections::HashSet;
use std::time::Duration;

/// Age below which counts stay: the limits on automatic mails ask for a day, and a count stands for
/// a minute.
const COUNTS_KEPT: Duration = Duration::from_secs(24 * 60 * 60 + 60);
/// Rows of one transaction: a commit of some milliseconds, between which an engine commits its own.
const BATCH_ROWS: i64 = 500;

/// A kind of rows that may be pruned.
#[derive(Debug)]
pub struct PrunedKind {
    pub name: &'static str,
    /// Description of the pruned rows, for display.
    pub says: &'static str,
    /// Query of the next rows after `$1` that are older than `$2`, at most `$3`: position, key,
    /// bytes and number of rows.
    find: &'static str,
    /// Statement that prunes the rows with the keys in `$1`, if they still may be pruned; `$2` is
    /// now.
    prune: &'static str,
    /// Age below which rows stay, whatever age was asked for.
    kept_for: Duration,
}

impl PrunedKind {
    /// Reports whether folders belong to the rows. The caller removes them; [`Store::forks_kept`]
    /// returns the forks that stay.
    pub fn has_folders(&self) -> bool {
        self.name == "forks"
    }

    /// Prunes the rows with these keys, a JSON list, if they still may be pruned; returns their number.
    pub(super) async fn prune_keys(
        &self,
        conn: &mut Connection,
        keys: String,
        now: Timestamp,
    ) -> Result<u64> {
        if self.prune == PRUNE_LETTERS {
            attachment_bytes::write_out(conn, &keys).await?;
        }
        conn.exec(self.prune, (keys, now)).await
    }
}

/// Rows and bytes that were pruned, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    pub rows: u64,
    pub bytes: u64,
}

/// Every kind, the largest ones first.
pub static KINDS: &[PrunedKind] = &[
    PrunedKind {
        name: "turns",
        says: "requests to providers and their answers, of runs that succeeded or were cancelled, and the texts that only \
            they were told",
        find: TURNS,
        prune: PRUNE_TURNS,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "letters",
        says: "raw bytes of letters",
        find: LETTERS,
        prune: PRUNE_LETTERS,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "attachments",
        says: "bytes of attachments",
        find: ATTACHMENTS,
        prune: PRUNE_ATTACHMENTS,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "unproven",
        says: "bytes and attachments of letters that were filed and whose senders prove nothing; heads and digests stay",
        find: UNPROVEN,
        prune: PRUNE_UNPROVEN,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "mails",
        says: "bytes of mails that everybody has, or that were cancelled",
        find: MAILS,
        prune: PRUNE_MAILS,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "forks",
        says: "what forks did, and their folders",
        find: FORKS,
        prune: PRUNE_FORKS,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "versions",
        says: "earlier versions of personas' files that were replaced on a page or by `attache persona restore`",
        find: FILE_VERSIONS,
        prune: PRUNE_FILE_VERSIONS,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "notices",
        says: "notices that were told",
        find: NOTICES,
        prune: PRUNE_NOTICES,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "decisions",
        says: "the log of what was decided",
        find: DECISIONS,
        prune: PRUNE_DECISIONS,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "feed",
        says: "what `attache tail` shows of the past",
        find: FEED,
        prune: PRUNE_FEED,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "webhooks",
        says: "what webhooks were told, or could not be told",
        find: WEBHOOK_DELIVERIES,
        prune: PRUNE_WEBHOOK_DELIVERIES,
        kept_for: Duration::ZERO,
    },
    PrunedKind {
        name: "counts",
        says: "counts of automatic mails",
        find: COUNTS,
        prune: PRUNE_COUNTS,
        kept_for: COUNTS_KEPT,
    },
];

pub(super) const TURNS: &str = "
    SELECT r.seq AS position, r.id AS key, (SELECT sum(octet_length(t.request_json) + coalesce(octet_length(t.response_json), 0)
        + coalesce(octet_length(t.context_json), 0) + coalesce(octet_length(t.packed), 0) + coalesce(octet_length(t.sources_json), 0)) FROM run_turns t WHERE t.run_id = r.id) AS size_bytes,
      (SELECT count(*) FROM run_turns t WHERE t.run_id = r.id AND t.pruned_at IS NULL) AS row_count
    FROM runs r WHERE r.seq > $1 AND r.state IN ('succeeded', 'cancelled') AND r.finished_at < $2
      AND EXISTS (SELECT 1 FROM run_turns t WHERE t.run_id = r.id AND t.pruned_at IS NULL)
    ORDER BY r.seq LIMIT $3";
pub(super) const PRUNE_TURNS: &str = "
    UPDATE run_turns SET request_json = '', response_json = NULL, context_json = NULL, sources_json = NULL, named_json = NULL, packed = NULL,
      packed_with = NULL, pruned_at = $2
    WHERE run_id IN (SELECT r.id FROM jsonb_each($1) j JOIN runs r ON r.id = j.value
        WHERE r.state IN ('succeeded', 'cancelled')) AND pruned_at IS NULL";
pub(super) const LETTERS: &str = "
    SELECT m.seq AS position, m.id AS key, octet_length(l.bytes) AS size_bytes, 1 AS row_count
    FROM messages m JOIN raw_letters l ON l.id = m.raw_id
    WHERE m.seq > $1 AND m.received_at < $2 AND l.pruned_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.trigger_message_id = m.id
        AND r.state NOT IN ('succeeded', 'cancelled', 'failed'))
    ORDER BY m.seq LIMIT $3";
pub(super) const PRUNE_LETTERS: &str = "
    UPDATE raw_letters SET bytes = CAST('' AS BLOB), pruned_at = $2
    WHERE id IN (SELECT m.raw_id FROM jsonb_each($1) j JOIN messages m ON m.id = j.value) AND pruned_at IS NULL";
pub(super) const ATTACHMENTS: &str = "
    SELECT m.seq AS position, m.id AS key,
      (SELECT sum(CASE WHEN a.encoding IS NOT NULL THEN a.size_bytes ELSE octet_length(a.bytes) END) FROM attachments a
        WHERE a.message_id = m.id) AS size_bytes,
      (SELECT count(*) FROM attachments a WHERE a.message_id = m.id AND a.pruned_at IS NULL) AS row_count
    FROM messages m WHERE m.seq > $1 AND m.received_at < $2
      AND EXISTS (SELECT 1 FROM attachments a WHERE a.message_id = m.id AND a.pruned_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread_id = m.thread_id
        AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
    ORDER BY m.seq LIMIT $3";
pub(super) const PRUNE_ATTACHMENTS: &str = "
    UPDATE attachments SET bytes = CAST('' AS BLOB), encoding = NULL, range_start = NULL, range_len = NULL, pruned_at = $2
    WHERE message_id IN (SELECT value FROM jsonb_each($1)) AND pruned_at IS NULL";
/// Whoever proves nothing can send as much as may come; of what nobody answered a description is enough.
pub(super) const UNPROVEN: &str = "
    SELECT m.seq AS position, m.id AS key, octet_length(l.bytes)
        + coalesce((SELECT sum(CASE WHEN a.encoding IS NOT NULL THEN a.size_bytes ELSE octet_length(a.bytes) END) FROM attachments a
            WHERE a.message_id = m.id AND a.pruned_at IS NULL), 0) AS size_bytes,
      CASE WHEN l.pruned_at IS NULL THEN 1 ELSE 0 END
        + (SELECT count(*) FROM attachments a WHERE a.message_id = m.id AND a.pruned_at IS NULL) AS row_count
    FROM messages m JOIN raw_letters l ON l.id = m.raw_id
    WHERE m.seq > $1 AND m.received_at < $2 AND m.trust = 'unauthenticated' AND m.disposition LIKE 'filed:%'
      AND m.disposition <> 'filed:import' AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.trigger_message_id = m.id)
      AND (l.pruned_at IS NULL OR EXISTS (SELECT 1 FROM attachments a WHERE a.message_id = m.id AND a.pruned_at IS NULL))
    ORDER BY m.seq LIMIT $3";
pub(super) const PRUNE_UNPROVEN: &str = "
    UPDATE attachments SET bytes = CAST('' AS BLOB), encoding = NULL, range_start = NULL, range_len = NULL, pruned_at = $2
    WHERE message_id IN (SELECT value FROM jsonb_each($1)) AND pruned_at IS NULL;
    UPDATE raw_letters SET bytes = CAST('' AS BLOB), pruned_at = $2
    WHERE id IN (SELECT m.raw_id FROM jsonb_each($1) j JOIN messages m ON m.id = j.value) AND pruned_at IS NULL";
pub(super) const MAILS: &str = "
    SELECT seq AS position, id AS key, octet_length(bytes) AS size_bytes, 1 AS row_count FROM deliveries
    WHERE seq > $1 AND state IN ('done', 'cancelled') AND finished_at < $2 AND pruned_at IS NULL
    ORDER BY seq LIMIT $3";
pub(super) const PRUNE_MAILS: &str = "
    UPDATE deliveries SET bytes = CAST('' AS BLOB), pruned_at = $2
    WHERE id IN (SELECT value FROM jsonb_each($1)) AND state IN ('done', 'cancelled') AND pruned_at IS NULL";
/// An interrupted fork is aged by its begin; a fork that continues writes its record again.
pub(super) const FORKS: &str = "
    SELECT rowid AS position, id AS key, octet_length(record_json) AS size_bytes, 1 AS row_count FROM forks
    WHERE rowid > $1 AND coalesce(finished_at, created_at) < $2 AND record_json <> '' ORDER BY rowid LIMIT $3";
pub(super) const PRUNE_FORKS: &str = "
    UPDATE forks SET record_json = '' WHERE id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
pub(super) const FORKS_KEPT: &str = "
    SELECT id FROM forks WHERE coalesce(finished_at, created_at) >= $1 AND record_json <> ''";
/// The newest run, and the runs that may still begin a turn.
pub(super) const RUNS_AT_WORK: &str = "
    SELECT (SELECT coalesce(max(seq), 0) FROM runs) AS newest_seq, (SELECT json_group_array(id) FROM runs
      WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')) AS at_work_json";
/// Digests named by a turn that stays when the turns before `$1` are pruned, of runs after `$2` or
/// in `$3`; a configuration names its files, and so does a dictionary.
pub(super) const TEXTS_NAMED: Sql = Sql::pair(
    "
    WITH kept AS (
      SELECT r.id FROM runs r WHERE (r.seq > $2 OR r.id IN (SELECT value FROM jsonb_each($3)))
        AND (r.state NOT IN ('succeeded', 'cancelled') OR r.finished_at IS NULL OR r.finished_at >= $1)
    ), named (sha256) AS (
      SELECT n.value FROM kept k JOIN run_turns t ON t.run_id = k.id, json_each(t.named_json) n WHERE t.pruned_at IS NULL
      UNION SELECT t.begun_json ->> '$.config' FROM kept k JOIN run_turns t ON t.run_id = k.id WHERE t.pruned_at IS NULL
      UNION SELECT t.packed_with FROM kept k JOIN run_turns t ON t.run_id = k.id WHERE t.pruned_at IS NULL
    )
    SELECT sha256 FROM named WHERE sha256 IS NOT NULL
    UNION SELECT j.value FROM named n JOIN contents c ON c.sha256 = n.sha256,
      json_each(CASE WHEN json_valid(CAST(c.bytes AS TEXT)) THEN CAST(c.bytes AS TEXT) ELSE '{}' END, '$.files') j",
    "
    WITH kept AS (
      SELECT r.id FROM runs r WHERE (r.seq > $2 OR r.id IN (SELECT value FROM jsonb_each($3)))
        AND (r.state NOT IN ('succeeded', 'cancelled') OR r.finished_at IS NULL OR r.finished_at >= $1)
    ), named (sha256) AS (
      SELECT n.value FROM kept k JOIN run_turns t ON t.run_id = k.id, json_each(t.named_json) n WHERE t.pruned_at IS NULL
      UNION SELECT t.begun_json ->> '$.config' FROM kept k JOIN run_turns t ON t.run_id = k.id WHERE t.pruned_at IS NULL
      UNION SELECT t.packed_with FROM kept k JOIN run_turns t ON t.run_id = k.id WHERE t.pruned_at IS NULL
    )
    SELECT sha256 FROM named WHERE sha256 IS NOT NULL
    UNION SELECT j.value FROM named n JOIN contents c ON c.sha256 = n.sha256,
      json_each(CASE WHEN json_valid(text_of(c.bytes)) THEN text_of(c.bytes) ELSE '{}' END, '$.files') j",
);
pub(super) const TEXT_SIZES: &str = "SELECT sha256, octet_length(bytes) AS size_bytes FROM contents WHERE sha256 > $1 ORDER BY sha256 LIMIT $2";
pub(super) const PRUNE_TEXTS: &str =
    "DELETE FROM contents WHERE sha256 IN (SELECT value FROM jsonb_each($1))";
/// The newest notice of a cause stays: the hour without a further mail of the cause counts from it.
pub(super) const NOTICES: &str = "
    SELECT seq AS position, id AS key, octet_length(summary) + octet_length(hint) AS size_bytes, 1 AS row_count
    FROM notices n
    WHERE seq > $1 AND notified_at < $2 AND EXISTS (SELECT 1 FROM notices o WHERE o.cause = n.cause AND o.seq > n.seq)
    ORDER BY seq LIMIT $3";
pub(super) const PRUNE_NOTICES: &str = "
    DELETE FROM notices WHERE id IN (SELECT value FROM jsonb_each($1)) AND notified_at IS NOT NULL AND $2 <> ''";
pub(super) const DECISIONS: &str = "
    SELECT seq AS position, CAST(seq AS TEXT) AS key, octet_length(detail) + octet_length(rule) AS size_bytes,
      1 AS row_count FROM audit_log l
    WHERE seq > $1 AND created_at < $2 AND subject_id NOT IN
      (SELECT id FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
    ORDER BY seq LIMIT $3";
pub(super) const PRUNE_DECISIONS: &str = "
    DELETE FROM audit_log WHERE seq IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($1)) AND $2 <> ''";
/// Always the oldest, so that a reader who was there last can be told, and never the newest, so that no number comes twice.
pub(super) const FEED: &str = "
    SELECT seq AS position, CAST(seq AS TEXT) AS key, octet_length(concat(kind, persona_id, thread_id, run_id, message_id,
      delivery_id, approval_id, item, at)) AS size_bytes, 1 AS row_count FROM feed
    WHERE seq > $1 AND seq < coalesce((SELECT min(seq) FROM feed WHERE at >= $2), (SELECT max(seq) FROM feed))
    ORDER BY seq LIMIT $3";
pub(super) const PRUNE_FEED: &str = "
    DELETE FROM feed WHERE seq IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($1)) AND $2 <> ''";
pub(super) const FILE_VERSIONS: &str = "
    SELECT seq AS position, CAST(seq AS TEXT) AS key, bytes AS size_bytes, 1 AS row_count FROM persona_file_versions
    WHERE seq > $1 AND replaced_at < $2 ORDER BY seq LIMIT $3";
pub(super) const PRUNE_FILE_VERSIONS: &str = "
    DELETE FROM persona_file_versions WHERE seq IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($1)) AND $2 <> ''";
pub(super) const WEBHOOK_DELIVERIES: &str = "
    SELECT n AS position, id AS key, octet_length(body) AS size_bytes, 1 AS row_count FROM webhook_deliveries
    WHERE n > $1 AND state IN ('done', 'failed') AND finished_at < $2 ORDER BY n LIMIT $3";
pub(super) const PRUNE_WEBHOOK_DELIVERIES: &str = "
    DELETE FROM webhook_deliveries WHERE id IN (SELECT value FROM jsonb_each($1)) AND state <> 'queued' AND $2 <> ''";
/// Counts have no number: the counts of one minute are deleted together.
pub(super) const COUNTS: &str = "
    SELECT CAST(strftime('%s', minute) AS BIGINT) AS position, minute AS key, 8 * count(*) AS size_bytes,
      count(*) AS row_count FROM correspondence
    WHERE CAST(strftime('%s', minute) AS BIGINT) > $1 AND minute < $2 GROUP BY minute ORDER BY position LIMIT $3";
pub(super) const PRUNE_COUNTS: &str = "
    DELETE FROM correspondence WHERE minute IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";

impl Store {
    /// Prunes rows of one kind that are older than `before`; with `dry` it only counts. Each batch
    /// is a commit of its own: an interrupted call keeps its progress, and another call continues.
    pub async fn prune_kind(
        &self,
        kind: &'static PrunedKind,
        before: Timestamp,
        dry: bool,
    ) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        let mut after = i64::MIN;
        while let Some(found) = self.find_step(kind, before, after).await? {
            after = found.last;
            pruned.bytes += found.bytes;
            pruned.rows += match dry {
                true => found.rows,
                false => self.prune(kind, found.keys).await?,
            };
        }
        if kind.name == "turns" {
            let texts = self.throw_texts_away(before, dry).await?;
            pruned.rows += texts.rows;
            pruned.bytes += texts.bytes;
        }
        Ok(pruned)
    }

    /// Finds the rows of the next transaction, behind a position; `None`: there are no more.
    pub(super) async fn find_step(
        &self,
        kind: &'static PrunedKind,
        before: Timestamp,
        after: i64,
    ) -> Result<Option<StepFound>> {
        let before = before.min(self.clock().now().minus(kind.kept_for));
        let rows = self.rows(kind.find, (after, before, BATCH_ROWS)).await?;
        Ok(StepFound::of(&rows))
    }

    /// Deletes the texts that no turn names any more after a pass over the turns.
    pub(super) async fn prune_unnamed_texts(&self, before: Timestamp) -> Result<Pruned> {
        self.throw_texts_away(before, false).await
    }

    /// Returns the forks whose record stays when records before this instant are pruned.
    pub async fn forks_kept(&self, before: Timestamp) -> Result<HashSet<String>> {
        let kept = self.all(FORKS_KEPT, before);
        Ok(kept.await?.into_iter().collect())
    }

    /// Deletes the texts that no turn names when the turns of runs that ended before this instant
    /// are pruned.
    async fn throw_texts_away(&self, before: Timestamp, dry: bool) -> Result<Pruned> {
        // Read before all else: turns that begin later are checked again by the transaction that
        // deletes.
        let at_work = self.row(RUNS_AT_WORK, ()).await?;
        let since = TextsBefore {
            before: before.to_string(),
            seq: at_work.get("newest_seq"),
            open_json: at_work.get("at_work_json"),
        };
        let named = since.everything().named(self.readers()).await?;
        let (mut pruned, mut after) = (Pruned::default(), String::new());
        loop {
            let texts = self.rows(TEXT_SIZES, (&after, BATCH_ROWS)).await?;
            let Some(last) = texts.last() else {
                return Ok(pruned);
            };
            after = last.get("sha256");
            let texts = texts
                .iter()
                .map(|row| (row.get::<String>("sha256"), row.get::<i64>("size_bytes")));
            let gone: Vec<(String, i64)> = texts
                .filter(|(sha256, _)| !named.contains(sha256))
                .collect();
            pruned.bytes += gone
                .iter()
                .map(|(_, bytes)| bytes.unsigned_abs())
                .sum::<u64>();
            pruned.rows += match dry {
                true => gone.len() as u64,
                false => self.prune_texts(gone, since.clone()).await?,
            };
        }
    }

    async fn prune_texts(&self, mut gone: Vec<(String, i64)>, since: TextsBefore) -> Result<u64> {
        transact!(self, Scope::Engine, |conn| {
            let named = since.named(&mut *conn).await?;
            gone.retain(|(sha256, _)| !named.contains(sha256));
            let gone = json_list(gone.iter().map(|(sha256, _)| sha256.as_str()));
            conn.exec(PRUNE_TEXTS, gone).await
        })
        .await
    }

    async fn prune(&self, kind: &'static PrunedKind, keys: String) -> Result<u64> {
        let now = self.clock().now();
        self.write(Scope::Engine, move |conn| {
            Box::pin(kind.prune_keys(conn, keys, now))
        })
        .await
    }
}

/// Rows of one transaction.
#[derive(Debug)]
pub(super) struct StepFound {
    /// Position of the last of them.
    pub last: i64,
    /// JSON list.
    pub keys: String,
    pub rows: u64,
    pub bytes: u64,
}

impl StepFound {
    /// Takes as many as make [`BATCH_ROWS`] rows, and one at least: a run has many turns, a letter many attachments.
    fn of(found: &[Row]) -> Option<Self> {
        let number = |row: &Row, column: &str| {
            let number: Option<i64> = row.get(column);
            number.unwrap_or(0).unsigned_abs()
        };
        let (mut keys, mut step) = (Vec::new(), None);
        for row in found {
            let so_far = step.take().unwrap_or(StepFound {
                last: i64::MIN,
                keys: String::new(),
                rows: 0,
                bytes: 0,
            });
            let rows = so_far.rows + number(row, "row_count");
            if rows > BATCH_ROWS.unsigned_abs() && !keys.is_empty() {
                step = Some(so_far);
                break;
            }
            keys.push(row.get::<&str>("key"));
            step = Some(StepFound {
                last: row.get("position"),
                rows,
                bytes: so_far.bytes + number(row, "size_bytes"),
                ..so_far
            });
        }
        let step = step?;
        Some(StepFound {
            keys: json_list(keys.into_iter()),
            ..step
        })
    }
}

/// Selection of turns whose texts are named.
#[derive(Clone)]
struct TextsBefore {
    before: String,
    seq: i64,
    open_json: String,
}

impl TextsBefore {
    fn everything(&self) -> Self {
        Self {
            seq: -1,
            ..self.clone()
        }
    }

    async fn named(&self, conn: impl Into<ConnectionSource<'_>>) -> Result<HashSet<String>> {
        let named = db::query(TEXTS_NAMED).bind((&self.before, self.seq, &self.open_json));
        Ok(named.all(conn).await?.into_iter().collect())
    }
}
