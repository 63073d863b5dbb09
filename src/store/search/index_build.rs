//! Builds the indexes of letters in a database that had another one, or none of parts, in steps beside all other writes, and then
//! drops the old one. The newest letters come first; until the last, older ones are not found by their words.

use crate::store::db::{self, Scope, Sql};
use crate::store::sql::to_i64;
use crate::store::sqlite::migrations::DROP_OLD_INDEX;
use crate::store::{Result, Store, StoreError};
use tokio_util::sync::CancellationToken;

/// Letters of one step: some 20 ms of the writer's time.
const STEP_LETTERS: usize = 100;

/// The lowest number of the next letters below those that are indexed; NULL when there is none.
pub(in crate::store) const NEXT_LETTERS: &str = "
    SELECT min(seq) AS lowest FROM (SELECT m.seq FROM letter_words_build b CROSS JOIN messages m
      WHERE b.id = 1 AND m.seq < b.below ORDER BY m.seq DESC LIMIT $1) AS next";
/// In the order of their numbers: FTS5 ends a segment where a number is lower than the one before. In PostgreSQL their words
/// are made before the commit.
pub(in crate::store) const INDEX_LETTERS: Sql = Sql::pair(
    "
    INSERT INTO letter_words (rowid, thread, subject, sender, own)
      SELECT m.seq, replace(m.thread_id, '-', ''), m.subject, m.sender, coalesce(m.fresh_text, m.text_body)
      FROM letter_words_build b CROSS JOIN messages m
      WHERE b.id = 1 AND m.seq >= $1 AND m.seq < b.below AND NOT EXISTS (SELECT 1 FROM letter_words_docsize d WHERE d.id = m.seq)
      ORDER BY m.seq;
    UPDATE letter_words_build SET below = $1 WHERE id = 1",
    "
    INSERT INTO letter_words (seq) SELECT m.seq
      FROM letter_words_build b CROSS JOIN messages m
      WHERE b.id = 1 AND m.seq >= $1 AND m.seq < b.below AND NOT EXISTS (SELECT 1 FROM letter_words d WHERE d.seq = m.seq)
      ORDER BY m.seq;
    UPDATE letter_words_build SET below = $1 WHERE id = 1",
);
/// The lowest number of the next letters without parts; NULL when there is none.
pub(in crate::store) const NEXT_PARTS: &str = "
    SELECT min(seq) AS lowest FROM (SELECT m.seq FROM letter_parts_build b CROSS JOIN messages m
      WHERE b.id = 1 AND m.seq < b.below ORDER BY m.seq DESC LIMIT $1) AS next";
/// Their parts are made before the commit, as those of new letters.
pub(in crate::store) const NAME_PARTS: &str = "
    INSERT INTO letter_parts_pending (seq)
      SELECT m.seq FROM letter_parts_build b CROSS JOIN messages m WHERE b.id = 1 AND m.seq >= $1 AND m.seq < b.below
      ON CONFLICT DO NOTHING;
    UPDATE letter_parts_build SET below = $1 WHERE id = 1";
pub(in crate::store) const END_PARTS: &str = "DELETE FROM letter_parts_build WHERE id = 1";
/// Letters may be pending when an earlier engine failed to make their parts.
pub(in crate::store) const PARTS_ARE_OPEN: Sql = Sql::pair(
    "
    SELECT EXISTS (SELECT 1 FROM letter_parts_build WHERE id = 1) OR EXISTS (SELECT 1 FROM letter_parts_pending) AS is_open",
    "
    SELECT EXISTS (SELECT 1 FROM letter_parts_build WHERE id = 1) OR EXISTS (SELECT 1 FROM letter_parts_pending)
      OR EXISTS (SELECT 1 FROM letter_words WHERE words IS NULL) OR EXISTS (SELECT 1 FROM knowledge_fts WHERE words IS NULL) AS is_open",
);
pub(in crate::store) const BUILD_IS_OPEN: &str =
    "SELECT EXISTS (SELECT 1 FROM letter_words_build WHERE id = 1) AS is_open";

/// Statements that build an index.
struct IndexBuild {
    is_open: Sql,
    next: &'static str,
    step: Sql,
    end: &'static str,
}

impl IndexBuild {
    fn of_words() -> Self {
        Self {
            is_open: BUILD_IS_OPEN.into(),
            next: NEXT_LETTERS,
            step: INDEX_LETTERS,
            end: DROP_OLD_INDEX,
        }
    }

    fn of_parts() -> Self {
        Self {
            is_open: PARTS_ARE_OPEN,
            next: NEXT_PARTS,
            step: NAME_PARTS.into(),
            end: END_PARTS,
        }
    }
}

impl Store {
    /// Indexes the letters of a database that had another index, until all are or `stop`; an interrupted call is
    /// continued by the next. Other writes go between its steps.
    pub async fn index_older_letters(self, stop: CancellationToken) {
        loop {
            let more = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                more = self.index_next() => more,
            };
            match more {
                Ok(true) => {}
                Ok(false) | Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "older letters are not indexed and not found by their words; the next start goes on");
                    return;
                }
            }
        }
    }

    async fn index_next(&self) -> Result<bool> {
        Ok(self.take_step(IndexBuild::of_words()).await?
            || self.take_step(IndexBuild::of_parts()).await?)
    }

    /// Indexes some more letters; `false` when all are indexed.
    async fn take_step(&self, build: IndexBuild) -> Result<bool> {
        let is_open: bool = self.one(build.is_open, ()).await?;
        if !is_open {
            return Ok(false);
        }
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                let lowest: Option<i64> = conn.one(build.next, to_i64(STEP_LETTERS)).await?;
                let step = match lowest {
                    Some(lowest) => db::query(build.step).bind(lowest),
                    None => db::query(build.end),
                };
                step.exec(conn).await?;
                Ok(lowest.is_some())
            })
        })
        .await
    }
}
