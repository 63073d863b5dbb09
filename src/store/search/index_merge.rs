//! Upkeep of the indexes of letters: merges their segments, a few pages with every few writes.
//!
//! Each commit with a message adds a segment, and a search looks up each word in all of them. FTS5 by itself merges in
//! bursts of 64 pages for each level of the index, in the transaction that happens to fill the 64th page since the last
//! burst: one letter of twenty waited 50 ms for that in a database of a million. How many segments a merge takes is
//! stored in the index (migration 0201).

use super::letter_parts::LetterPartsWriter;
use crate::store::db::{self, Connection};

/// Number of writes after which segments are merged.
const WRITES: usize = 8;
/// Most pages of 4 kB that a merge writes for each of these writes. A reply is about eight writes and three messages, each
/// of which is merged once for each level: five times in a database of a million.
const PAGES_PER_WRITE: usize = 1;
/// Most pages of one merge: a millisecond or two.
const PAGES_MAX: usize = 64;

/// A positive number continues merges that have begun, and begins one where a level has enough segments (fts5.html,
/// section 6.8).
const MERGE_LETTER_INDEXES: &str = "
SAVEPOINT merging; INSERT INTO letter_words (letter_words, rank) VALUES ('merge', $1);
INSERT INTO letter_parts (letter_parts, rank) VALUES ('merge', $1); RELEASE merging";
const UNDO_MERGE: &str = "ROLLBACK TO merging; RELEASE merging";

/// Upkeep in the writer's transactions: parts of new letters, and merges.
#[derive(Default)]
pub struct SearchIndexMerge {
    parts: LetterPartsWriter,
    /// Writes since the last merge.
    writes: usize,
    has_failed: bool,
}

impl SearchIndexMerge {
    /// Called in the open transaction of a group, before its commit; `writes` is their number, `None` beside an engine, which
    /// merges itself. A failure costs no write: it is undone and reported, and
    /// nothing more is merged by this engine, so that FTS5's own bursts take over.
    ///
    /// Errors: the transaction is not open any more.
    pub async fn before_commit(
        &mut self,
        conn: &mut Connection,
        writes: Option<usize>,
    ) -> Result<(), db::Error> {
        self.parts.before_commit(conn).await?;
        let Some(writes) = writes else {
            return Ok(());
        };
        self.writes += writes;
        if self.writes < WRITES || self.has_failed {
            return Ok(());
        }
        let pages = (std::mem::take(&mut self.writes) * PAGES_PER_WRITE).min(PAGES_MAX);
        if let Err(error) = conn
            .exec(
                MERGE_LETTER_INDEXES,
                i64::try_from(pages).unwrap_or(i64::MAX),
            )
            .await
        {
            tracing::error!(%error, "the search index cannot be merged; `attache doctor --audit` checks it");
            self.has_failed = true;
            db::raw_sql(UNDO_MERGE).execute(conn).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LETTERS: u64 = 3_000;

    /// Stores letters of a hundred words in a transaction each; returns the most pages of the index that one wrote, and
    /// the segments that are left.
    async fn most_pages(settings: &'static str, is_merged: bool) -> (i64, i64) {
        let mut conn = Connection::in_memory().await;
        let schema = "CREATE VIRTUAL TABLE letter_words USING fts5(own, content = '');
            CREATE VIRTUAL TABLE letter_parts USING fts5(words, content = '')";
        for sql in [schema, settings] {
            db::raw_sql(sql).execute(&mut conn).await.expect("made");
        }
        let (mut merge, mut most) = (SearchIndexMerge::default(), 0);
        for letter in 0..LETTERS {
            let word = |place: u64| {
                format!(
                    "w{}",
                    (letter * 100 + place).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50
                )
            };
            let body = (0..100).map(word).collect::<Vec<_>>().join(" ");
            let before = changes(&mut conn).await;
            let insert = "BEGIN; INSERT INTO letter_words (rowid, own) VALUES ($1, $2)";

            conn.exec(insert, (letter as i64 + 1, body))
                .await
                .expect("stored");
            if is_merged {
                let merged = merge.before_commit(&mut conn, Some(1)).await;
                merged.expect("an open transaction");
            }
            db::raw_sql("COMMIT")
                .execute(&mut conn)
                .await
                .expect("committed");
            most = most.max(changes(&mut conn).await - before);
        }
        (
            most,
            conn.one("SELECT count(DISTINCT segid) FROM letter_words_idx", ())
                .await
                .expect("a count"),
        )
    }

    /// Rows that were written so far: in FTS5's tables, a row is a page.
    async fn changes(conn: &mut Connection) -> i64 {
        conn.one("SELECT total_changes()", ())
            .await
            .expect("a number")
    }

    #[tokio::test]
    async fn no_letter_pays_for_a_burst_of_merging() {
        // As migration 0201 has them.
        let settings = "INSERT INTO letter_words (letter_words, rank) VALUES ('usermerge', 8);
            INSERT INTO letter_words (letter_words, rank) VALUES ('automerge', 12)";
        let (most, segments) = most_pages(settings, true).await;
        let (burst, _) = most_pages("SELECT 1", false).await;
        println!("most pages in a commit: {most}, in bursts {burst}; {segments} segments");
        assert!(most * 2 < burst, "{most} pages, {burst} in bursts");
        assert!(segments < 40, "{segments} segments");
    }

    #[tokio::test]
    async fn a_merge_that_fails_leaves_the_transaction_as_it_was() {
        let mut conn = Connection::in_memory().await;
        let begin = "CREATE TABLE t (word TEXT); BEGIN; INSERT INTO t VALUES ('kept')";
        db::raw_sql(begin).execute(&mut conn).await.expect("begun");
        let mut merge = SearchIndexMerge::default();
        for _ in 0..3 {
            // There is no index at all.
            let merged = merge.before_commit(&mut conn, Some(WRITES)).await;
            merged.expect("an open transaction");
        }
        db::raw_sql("COMMIT")
            .execute(&mut conn)
            .await
            .expect("committed");
        let words: Vec<String> = conn.all("SELECT word FROM t", ()).await.expect("rows");
        assert_eq!(words, ["kept"]);
        assert!(merge.has_failed);
    }
}
