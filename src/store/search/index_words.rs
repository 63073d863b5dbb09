//! Words of letters and of pieces of knowledge for the search of PostgreSQL, made in the transaction that stores their text.
//!
//! Not a trigger's work, as with parts of words: a trigger names the row, whatever statement stored it.

use super::letter_parts::store_pending;
use super::tsquery::words_of;
use crate::store::db::{self, Connection, Row};
use serde_json::json;

/// Most texts of one statement; more are the next one's.
const TEXTS_MAX: usize = 50;

// Statements of PostgreSQL alone, where SQLite has FTS5.
static PENDING_WORDS: &str = "
    SELECT 1 AS of_letter, w.seq, m.thread_id, m.subject, m.sender, coalesce(m.fresh_text, m.text_body) AS own,
      CAST(EXISTS (SELECT 1 FROM letter_parts_pending) AS INTEGER) AS has_parts
    FROM letter_words w JOIN messages m ON m.seq = w.seq WHERE w.words IS NULL
    UNION ALL SELECT 0, f.seq, '', c.heading, '', c.body, 0
    FROM knowledge_fts f JOIN knowledge_chunks c ON c.seq = f.seq WHERE f.words IS NULL
    LIMIT $1";
/// `$1`, `$2`: `[{seq, words}, …]` of letters, and of pieces of knowledge.
static STORE_WORDS: &str = "
    UPDATE letter_words SET words = CAST(v.value ->> 'words' AS TSVECTOR) FROM json_each($1) v
      WHERE letter_words.seq = CAST(v.value ->> 'seq' AS BIGINT);
    UPDATE knowledge_fts SET words = CAST(v.value ->> 'words' AS TSVECTOR) FROM json_each($2) v
      WHERE knowledge_fts.seq = CAST(v.value ->> 'seq' AS BIGINT)";

/// Maker of words, and of the parts of words, in a lane's transactions.
#[derive(Default)]
pub struct IndexWords {
    has_failed: bool,
}

impl IndexWords {
    /// Called in the open transaction of a write, before its commit. A failure costs no write: it is undone and reported, and the
    /// texts wait for the next start.
    ///
    /// Errors: the transaction cannot be committed any more.
    pub async fn before_commit(&mut self, conn: &mut Connection) -> Result<(), db::Error> {
        // Most transactions write no text, and none waits.
        if !conn.take_texts() || self.has_failed {
            return Ok(());
        }
        // What changes the parts of a letter changes its words.
        let rows = pending(conn).await?;
        if rows.is_empty() {
            return Ok(());
        }
        db::raw_sql("SAVEPOINT words").execute(&mut *conn).await?;
        // The commit releases it.
        let Err(error) = make(conn, rows).await else {
            return Ok(());
        };
        tracing::error!(%error, "words of letters are not indexed, and these not found by them, until the next start");
        let undo = db::raw_sql("ROLLBACK TO words; RELEASE words");
        // Not where the connection was lost: the next one may do better.
        undo.execute(conn).await?;
        self.has_failed = true;
        Ok(())
    }
}

async fn pending(conn: &mut Connection) -> Result<Vec<Row>, db::Error> {
    Ok(conn.rows(PENDING_WORDS, TEXTS_MAX).await?)
}

/// Makes the words of rows and of all others that have none yet, and the parts of these.
async fn make(conn: &mut Connection, mut rows: Vec<Row>) -> Result<(), db::Error> {
    let mut has_parts = false;
    loop {
        store_words(conn, &rows).await?;
        has_parts |= rows.iter().any(|row| row.get("has_parts"));
        if rows.len() < TEXTS_MAX {
            break;
        }
        rows = pending(conn).await?;
    }
    if has_parts {
        store_pending(conn).await?;
    }
    Ok(())
}

/// Makes the words of some texts that have none, in a transaction for itself; `false` when all have theirs.
pub async fn make_some(conn: &mut Connection) -> Result<bool, db::Error> {
    let rows = pending(conn).await?;
    store_words(conn, &rows).await?;
    Ok(!rows.is_empty())
}

async fn store_words(conn: &mut Connection, rows: &[Row]) -> Result<(), db::Error> {
    let (letters, knowledge): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.get::<bool>("of_letter"));
    let letters = serde_json::Value::from_iter(letters.into_iter().map(letter));
    let knowledge = serde_json::Value::from_iter(knowledge.into_iter().map(piece));

    conn.exec(STORE_WORDS, (letters, knowledge)).await?;
    Ok(())
}

fn letter(row: &Row) -> serde_json::Value {
    let columns = [
        ('A', row.get("subject")),
        ('B', row.get("sender")),
        ('C', row.get("own")),
    ];
    let words = words_of(&columns, Some(row.get("thread_id")));
    json!({ "seq": row.get::<i64>("seq"), "words": words })
}

fn piece(row: &Row) -> serde_json::Value {
    let columns = [('A', row.get("subject")), ('B', row.get("own"))];
    json!({ "seq": row.get::<i64>("seq"), "words": words_of(&columns, None) })
}
