//! What may be thrown away by age, kind by kind, in transactions of a few hundred rows.
//!
//! Rows that others hang on stay and lose their bytes: `pruned_at` says so, and the audit can tell age from damage. What is
//! never thrown away: messages and their links (a reply to an old letter must still find its thread, and a second copy of it
//! must still be known), steps, what calls cost, what a mailbox has shown, anything that is open, and anything that
//! `runs retry` or `outbox retry` would need: so runs and mails that failed keep theirs. Texts in `contents` stay too: many
//! runs share one, and each is there once.

use super::threads::json_list;
use super::{Result, Store};
use crate::domain::Timestamp;
use sqlx::Row;

/// Rows of one transaction: a commit of some milliseconds, between which an engine writes its own.
const BATCH_ROWS: i64 = 500;

/// A kind of thing that may be thrown away.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    /// What goes, in words.
    pub says: &'static str,
    /// The next rows after `$1` that are older than `$2`, at most `$3`: place, key, bytes, and how many they are.
    find: &'static str,
    /// Throws away the rows with the keys in `$1`, if they still may go; `$2` is now.
    prune: &'static str,
}

/// What went, or would go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Thrown {
    pub rows: u64,
    pub bytes: u64,
}

/// Every kind, those that hold the most first.
pub static KINDS: &[Kind] = &[
    Kind {
        name: "turns",
        says: "requests to providers and their answers, of runs that succeeded or were cancelled",
        find: TURNS,
        prune: PRUNE_TURNS,
    },
    Kind { name: "letters", says: "raw bytes of letters", find: LETTERS, prune: PRUNE_LETTERS },
    Kind { name: "attachments", says: "bytes of attachments", find: ATTACHMENTS, prune: PRUNE_ATTACHMENTS },
    Kind {
        name: "mails",
        says: "bytes of mails that everybody has, or that were cancelled",
        find: MAILS,
        prune: PRUNE_MAILS,
    },
    Kind { name: "notices", says: "notices that were told", find: NOTICES, prune: PRUNE_NOTICES },
    Kind { name: "decisions", says: "the log of what was decided", find: DECISIONS, prune: PRUNE_DECISIONS },
    Kind { name: "counts", says: "counts of automatic mails", find: COUNTS, prune: PRUNE_COUNTS },
];

pub(super) const TURNS: &str = "
    SELECT r.seq, r.id, (SELECT sum(octet_length(t.request_json) + coalesce(octet_length(t.response_json), 0)
        + coalesce(octet_length(t.context_json), 0) + coalesce(octet_length(t.sources_json), 0)) FROM run_turns t WHERE t.run_id = r.id),
      (SELECT count(*) FROM run_turns t WHERE t.run_id = r.id AND t.pruned_at IS NULL)
    FROM runs r WHERE r.seq > $1 AND r.state IN ('succeeded', 'cancelled') AND r.finished_at < $2
      AND EXISTS (SELECT 1 FROM run_turns t WHERE t.run_id = r.id AND t.pruned_at IS NULL)
    ORDER BY r.seq LIMIT $3";
pub(super) const PRUNE_TURNS: &str = "
    UPDATE run_turns SET request_json = '', response_json = NULL, context_json = NULL, sources_json = NULL, pruned_at = $2
    WHERE run_id IN (SELECT r.id FROM json_each($1) j JOIN runs r ON r.id = j.value
        WHERE r.state IN ('succeeded', 'cancelled')) AND pruned_at IS NULL";
pub(super) const LETTERS: &str = "
    SELECT m.seq, m.raw_id, octet_length(l.bytes), 1 FROM messages m JOIN raw_letters l ON l.id = m.raw_id
    WHERE m.seq > $1 AND m.received_at < $2 AND l.pruned_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.trigger_message_id = m.id
        AND r.state NOT IN ('succeeded', 'cancelled', 'failed'))
    ORDER BY m.seq LIMIT $3";
pub(super) const PRUNE_LETTERS: &str = "
    UPDATE raw_letters SET bytes = x'', pruned_at = $2
    WHERE id IN (SELECT value FROM json_each($1)) AND pruned_at IS NULL";
pub(super) const ATTACHMENTS: &str = "
    SELECT m.seq, m.id, (SELECT sum(octet_length(a.bytes)) FROM attachments a WHERE a.message_id = m.id),
      (SELECT count(*) FROM attachments a WHERE a.message_id = m.id AND a.pruned_at IS NULL)
    FROM messages m WHERE m.seq > $1 AND m.received_at < $2
      AND EXISTS (SELECT 1 FROM attachments a WHERE a.message_id = m.id AND a.pruned_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread_id = m.thread_id
        AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
    ORDER BY m.seq LIMIT $3";
pub(super) const PRUNE_ATTACHMENTS: &str = "
    UPDATE attachments SET bytes = x'', pruned_at = $2
    WHERE message_id IN (SELECT value FROM json_each($1)) AND pruned_at IS NULL";
pub(super) const MAILS: &str = "
    SELECT seq, id, octet_length(bytes), 1 FROM deliveries
    WHERE seq > $1 AND state IN ('done', 'cancelled') AND finished_at < $2 AND pruned_at IS NULL
    ORDER BY seq LIMIT $3";
pub(super) const PRUNE_MAILS: &str = "
    UPDATE deliveries SET bytes = x'', pruned_at = $2
    WHERE id IN (SELECT value FROM json_each($1)) AND state IN ('done', 'cancelled') AND pruned_at IS NULL";
/// The newest fact of a cause stays: the hour in which nothing more of it is told counts from there.
pub(super) const NOTICES: &str = "
    SELECT seq, id, octet_length(summary) + octet_length(hint), 1 FROM notices n
    WHERE seq > $1 AND told_at < $2 AND EXISTS (SELECT 1 FROM notices o WHERE o.cause = n.cause AND o.seq > n.seq)
    ORDER BY seq LIMIT $3";
pub(super) const PRUNE_NOTICES: &str = "
    DELETE FROM notices WHERE id IN (SELECT value FROM json_each($1)) AND told_at IS NOT NULL AND $2 <> ''";
pub(super) const DECISIONS: &str = "
    SELECT seq, CAST(seq AS TEXT), octet_length(detail) + octet_length(rule), 1 FROM audit_log l
    WHERE seq > $1 AND created_at < $2 AND subject_id NOT IN
      (SELECT id FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))
    ORDER BY seq LIMIT $3";
pub(super) const PRUNE_DECISIONS: &str = "
    DELETE FROM audit_log WHERE seq IN (SELECT CAST(value AS INTEGER) FROM json_each($1)) AND $2 <> ''";
/// They have no number: who has mail of one persona and day goes at once.
pub(super) const COUNTS: &str = "
    SELECT CAST(strftime('%s', minute) AS INTEGER) AS second, minute, 8 * count(*), count(*) FROM correspondence
    WHERE second > $1 AND minute < $2 GROUP BY minute ORDER BY second LIMIT $3";
pub(super) const PRUNE_COUNTS: &str = "
    DELETE FROM correspondence WHERE minute IN (SELECT value FROM json_each($1)) AND $2 <> ''";

impl Store {
    /// Throws away what is older than `before`, of one kind; with `dry` it only counts. Each piece is a commit of its own:
    /// what has gone stays gone when this is interrupted, and another call goes on.
    pub async fn throw_away(&self, kind: &'static Kind, before: Timestamp, dry: bool) -> Result<Thrown> {
        let mut thrown = Thrown::default();
        let mut after = i64::MIN;
        loop {
            let find = sqlx::query(kind.find).bind(after).bind(before.to_string()).bind(BATCH_ROWS);
            let rows = find.fetch_all(self.readers()).await?;
            let Some(last) = rows.last() else { return Ok(thrown) };
            after = last.get(0);
            let sum =
                |column| rows.iter().map(|row| row.get::<Option<i64>, _>(column).unwrap_or(0)).sum::<i64>();
            thrown.bytes += sum(2).unsigned_abs();
            if dry {
                thrown.rows += sum(3).unsigned_abs();
            } else {
                let keys: Vec<&str> = rows.iter().map(|row| row.get(1)).collect();
                thrown.rows += self.prune(kind, json_list(keys.into_iter())).await?;
            }
        }
    }

    async fn prune(&self, kind: &'static Kind, keys: String) -> Result<u64> {
        let now = self.clock().now().to_string();
        self.write(move |conn| {
            Box::pin(async move {
                Ok(sqlx::query(kind.prune).bind(keys).bind(now).execute(conn).await?.rows_affected())
            })
        })
        .await
    }
}
