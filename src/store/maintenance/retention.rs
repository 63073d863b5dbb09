//! Pruning by the engine itself: one kind after the other, a bounded step a transaction, with its progress in a row.

use crate::domain::Timestamp;
use crate::store::db::{self, Row, Scope};
use crate::store::gc::{PrunedKind, StepFound};
use crate::store::sql::{optional_timestamp, timestamp};
use crate::store::{Result, Store};
use serde::Serialize;

pub(in crate::store) const BEGIN_PASS: &str = "
    INSERT INTO retention (kind, before, position, started_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (kind) DO UPDATE SET before = excluded.before, position = excluded.position,
      started_at = excluded.started_at, finished_at = NULL, pass_rows = 0, pass_bytes = 0";
pub(in crate::store) const NOTE_STEP: &str = "
    UPDATE retention SET position = $2, pass_rows = pass_rows + $3, pass_bytes = pass_bytes + $4,
      total_rows = total_rows + $3, total_bytes = total_bytes + $4
    WHERE kind = $1";
pub(in crate::store) const END_PASS: &str =
    "UPDATE retention SET position = NULL, finished_at = $2 WHERE kind = $1";
pub(in crate::store) const PASS: &str = "
    SELECT kind, before, position, started_at, finished_at, pass_rows, pass_bytes, total_rows, total_bytes
    FROM retention WHERE kind = $1";
/// Gives 1 while runs wait or work, or a mail is being sent.
pub(in crate::store) const IS_PRESSED: &str = "
    SELECT EXISTS (SELECT 1 FROM runs WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
        AND state IN ('queued', 'running'))
      OR EXISTS (SELECT 1 FROM deliveries WHERE state IN ('queued', 'sending', 'committing')
        AND state <> 'queued') AS is_pressed";

/// Where the engine is with a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RetentionPass {
    pub kind: String,
    /// Rows that are older go.
    pub before: Timestamp,
    /// Position of the last row that was looked at; `None`: the pass is over.
    #[serde(skip)]
    pub position: Option<i64>,
    pub started: Timestamp,
    pub finished: Option<Timestamp>,
    /// What went in this pass.
    pub pass_rows: u64,
    pub pass_bytes: u64,
    /// What went in all passes.
    pub total_rows: u64,
    pub total_bytes: u64,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionStep {
    pub rows: u64,
    /// Nothing is left to look at: the pass is over.
    pub is_last: bool,
}

impl Store {
    /// Returns where the engine is with a kind; `None`: it never was.
    pub async fn retention_pass(&self, kind: &str) -> Result<Option<RetentionPass>> {
        let row = db::query(PASS).bind(kind).fetch_optional(self.readers());
        row.await?.as_ref().map(pass).transpose()
    }

    /// Begins a pass over the rows of a kind that are older than `before`.
    pub async fn begin_retention(
        &self,
        kind: &'static PrunedKind,
        before: Timestamp,
    ) -> Result<()> {
        let now = self.clock().now().to_string();
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                db::query(BEGIN_PASS)
                    .bind(kind.name)
                    .bind(before.to_string())
                    .bind(i64::MIN)
                    .bind(now)
                    .execute(conn)
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// Prunes the next rows of a pass, and notes how far it is, in one transaction.
    pub async fn retention_step(
        &self,
        kind: &'static PrunedKind,
        before: Timestamp,
        after: i64,
    ) -> Result<RetentionStep> {
        let found = self.find_step(kind, before, after).await?;
        let now = self.clock().now();
        match found {
            None => {
                let texts = match kind.name {
                    "turns" => self.prune_unnamed_texts(before).await?,
                    _ => Default::default(),
                };
                self.write(Scope::Engine, move |conn| {
                    Box::pin(async move {
                        db::query(NOTE_STEP)
                            .bind(kind.name)
                            .bind(i64::MAX)
                            .bind(i64::try_from(texts.rows).unwrap_or(i64::MAX))
                            .bind(i64::try_from(texts.bytes).unwrap_or(i64::MAX))
                            .execute(&mut *conn)
                            .await?;
                        let ended = db::query(END_PASS).bind(kind.name);
                        ended.bind(now.to_string()).execute(conn).await?;
                        Ok(())
                    })
                })
                .await?;
                Ok(RetentionStep {
                    rows: texts.rows,
                    is_last: true,
                })
            }
            Some(found) => self.prune_and_note(kind, found, now).await,
        }
    }

    async fn prune_and_note(
        &self,
        kind: &'static PrunedKind,
        found: StepFound,
        now: Timestamp,
    ) -> Result<RetentionStep> {
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                let rows = kind.prune_keys(conn, found.keys, now).await?;
                db::query(NOTE_STEP)
                    .bind(kind.name)
                    .bind(found.last)
                    .bind(i64::try_from(rows).unwrap_or(i64::MAX))
                    .bind(i64::try_from(found.bytes).unwrap_or(i64::MAX))
                    .execute(conn)
                    .await?;
                Ok(RetentionStep {
                    rows,
                    is_last: false,
                })
            })
        })
        .await
    }

    /// Reports whether the engine has work that a transaction could keep waiting.
    pub async fn is_pressed(&self) -> Result<bool> {
        let row = db::query(IS_PRESSED).fetch_one(self.readers()).await?;
        Ok(row.get("is_pressed"))
    }
}

fn pass(row: &Row) -> Result<RetentionPass> {
    let count = |column| row.get::<i64>(column).unsigned_abs();
    Ok(RetentionPass {
        kind: row.get("kind"),
        before: timestamp(row, "before")?,
        position: row.get("position"),
        started: timestamp(row, "started_at")?,
        finished: optional_timestamp(row, "finished_at")?,
        pass_rows: count("pass_rows"),
        pass_bytes: count("pass_bytes"),
        total_rows: count("total_rows"),
        total_bytes: count("total_bytes"),
    })
}
