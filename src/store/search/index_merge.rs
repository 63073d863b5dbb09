//! Upkeep of the indexes of letters on SQLite: makes the words of new letters behind their commit, and merges segments, a few pages
//! with every few writes.
//!
//! `letter_words_through` says up to which letter words are made. A search has the others made before it begins.
//!
//! Each commit with words adds a segment, and a search looks up each word in all of them. FTS5 by itself merges in
//! bursts of 64 pages for each level of the index, in the transaction that happens to fill the 64th page since the last
//! burst: one letter of twenty waited 50 ms for that in a database of a million. How many segments a merge takes is
//! stored in the index (migration 0201).

use super::letter_parts::{LetterPartsWriter, store_parts_of_new};
use crate::store::db::{self, Connection};
use std::ops::Range;

/// Number of writes after which words of new letters are made, where enough letters wait for theirs, and segments are merged.
const WRITES: usize = 8;
/// Number of letters that have to wait before a write makes their words: a millisecond's work.
const LETTERS: i64 = 16;
/// Most letters whose words one transaction makes.
const LETTERS_MAX: i64 = 256;
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

/// The newest letter with words, and the newest of all; their difference is how many wait at most.
pub(in crate::store) const NEWEST_LETTERS: &str = "
    SELECT w.seq AS through, coalesce((SELECT max(m.seq) FROM messages m), 0) AS newest FROM letter_words_through w
    WHERE w.id = 1";
/// `$1`: the newest letter with words; `$2`: that which is to be the newest.
pub(in crate::store) const INDEX_LETTERS: &str = "
    INSERT INTO letter_words (rowid, thread, subject, sender, own)
      SELECT m.seq, replace(m.thread_id, '-', ''), m.subject, m.sender, coalesce(m.fresh_text, m.text_body)
      FROM messages m WHERE m.seq > $1 AND m.seq <= $2;
    UPDATE letter_words_through SET seq = $2 WHERE id = 1";
const UNDO_WORDS: &str = "ROLLBACK TO words; RELEASE words";

/// Upkeep in the writer's transactions: words and parts of letters, and merges.
#[derive(Default)]
pub struct SearchIndexMerge {
    parts: LetterPartsWriter,
    /// Writes since the last upkeep.
    writes: usize,
    has_failed: bool,
}

/// Makes the words of letters that have none, and the parts of these, at most [`LETTERS_MAX`] of them; `false` if no more wait.
pub(in crate::store) async fn index_letters(conn: &mut Connection) -> Result<bool, db::Error> {
    let waiting = waiting(conn).await?;
    index(conn, waiting, true).await
}

/// The same for letters that came with their parts.
pub(in crate::store) async fn index_words_alone(conn: &mut Connection) -> Result<bool, db::Error> {
    let waiting = waiting(conn).await?;
    index(conn, waiting, false).await
}

/// Returns the numbers of the newest letter with words and of the newest of all, the first as the start.
async fn waiting(conn: &mut Connection) -> Result<Range<i64>, db::Error> {
    let row = conn.row(NEWEST_LETTERS, ()).await?;
    Ok(row.get("through")..row.get("newest"))
}

async fn index(
    conn: &mut Connection,
    waiting: Range<i64>,
    makes_parts: bool,
) -> Result<bool, db::Error> {
    if waiting.is_empty() {
        return Ok(false);
    }
    let (through, newest) = (waiting.start, waiting.end);
    let through_now = newest.min(through + LETTERS_MAX);
    if makes_parts {
        store_parts_of_new(conn, through, through_now).await?;
    }
    conn.exec(INDEX_LETTERS, (through, through_now)).await?;
    Ok(through_now < newest)
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
        self.writes += writes.unwrap_or(1);
        let is_due = self.writes >= WRITES && !self.has_failed;
        if is_due
            && let Ok(waiting) = waiting(conn).await
            && waiting.end - waiting.start >= LETTERS
        {
            db::raw_sql("SAVEPOINT words").execute(&mut *conn).await?;
            match index(conn, waiting, true).await {
                Ok(_) => db::raw_sql("RELEASE words").execute(&mut *conn).await?,
                Err(error) => self.fail(conn, &error, UNDO_WORDS).await?,
            }
        }
        // Those of letters that a write has changed.
        self.parts.before_commit(conn).await?;
        if !is_due {
            return Ok(());
        }
        let pages = (std::mem::take(&mut self.writes) * PAGES_PER_WRITE).min(PAGES_MAX);
        if writes.is_none() || self.has_failed {
            return Ok(());
        }
        if let Err(error) = conn
            .exec(
                MERGE_LETTER_INDEXES,
                i64::try_from(pages).unwrap_or(i64::MAX),
            )
            .await
        {
            self.fail(conn, &error, UNDO_MERGE).await?;
        }
        Ok(())
    }

    async fn fail(
        &mut self,
        conn: &mut Connection,
        error: &(impl std::fmt::Display + Sync),
        undo: &'static str,
    ) -> Result<(), db::Error> {
        tracing::error!(%error, "the search index cannot be kept up; `attache doctor --audit` checks it");
        self.has_failed = true;
        db::raw_sql(undo).execute(conn).await
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
