//! Pruning by the engine itself: one kind after the other, a bounded step a transaction, with its progress in a row.

use crate::domain::Timestamp;
use crate::store::db::{Row, Scope};
use crate::store::gc::{PrunedKind, StepFound};
use crate::store::{Result, Store};
use serde::Serialize;

const BEGIN_PASS: &str = "
    INSERT INTO retention (kind, before, position, started_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (kind) DO UPDATE SET before = excluded.before, position = excluded.position,
      started_at = excluded.started_at, finished_at = NULL, pass_rows = 0, pass_bytes = 0";
const NOTE_STEP: &str = "
    UPDATE retention SET position = $2, pass_rows = pass_rows + $3, pass_bytes = pass_bytes + $4,
      total_rows = total_rows + $3, total_bytes = total_bytes + $4
    WHERE kind = $1";
const END_PASS: &str = "UPDATE retention SET position = NULL, finished_at = $2 WHERE kind = $1";
const PASS: &str = "
    SELECT kind, before, position, started_at, finished_at, pass_rows, pass_bytes, total_rows, total_bytes
    FROM retention WHERE kind = $1";
/// Gives 1 while runs wait or work, or a mail is being sent.
const IS_PRESSED: &str = "
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
        let row = self.maybe_row(PASS, kind);
        row.await?.as_ref().map(Row::to).transpose()
    }

    /// Begins a pass over the rows of a kind that are older than `before`.
    pub async fn begin_retention(
        &self,
        kind: &'static PrunedKind,
        before: Timestamp,
    ) -> Result<()> {
        let now = self.clock().now().to_string();
        transact!(self, Scope::Engine, |conn| {
            conn.exec(BEGIN_PASS, (kind.name, before, i64::MIN, now))
                .await?;
            Ok(())
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
                transact!(self, Scope::Engine, |conn| {
                    conn.exec(
                        NOTE_STEP,
                        (
                            kind.name,
                            i64::MAX,
                            i64::try_from(texts.rows).unwrap_or(i64::MAX),
                            i64::try_from(texts.bytes).unwrap_or(i64::MAX),
                        ),
                    )
                    .await?;

                    conn.exec(END_PASS, (kind.name, now)).await?;
                    Ok(())
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
        transact!(self, Scope::Engine, |conn| {
            let rows = kind.prune_keys(conn, found.keys, now).await?;
            conn.exec(
                NOTE_STEP,
                (
                    kind.name,
                    found.last,
                    i64::try_from(rows).unwrap_or(i64::MAX),
                    i64::try_from(found.bytes).unwrap_or(i64::MAX),
                ),
            )
            .await?;
            Ok(RetentionStep {
                rows,
                is_last: false,
            })
        })
        .await
    }

    /// Reports whether the engine has work that a transaction could keep waiting.
    pub async fn is_pressed(&self) -> Result<bool> {
        let row = self.row(IS_PRESSED, ()).await?;
        Ok(row.get("is_pressed"))
    }
}

from_row!(RetentionPass {
    kind,
    before,
    position,
    started: "started_at",
    finished: "finished_at",
    pass_rows,
    pass_bytes,
    total_rows,
    total_bytes
});
