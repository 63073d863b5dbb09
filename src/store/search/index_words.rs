//! Words of letters and of pieces of knowledge for the search of PostgreSQL, made in the transaction that stores their text.
//!
//! Not a trigger's work, as with parts of words: a trigger names the row, whatever statement stored it (migration 0085).

use super::letter_parts::store_pending;
use super::tsquery::words_of;
use crate::store::db::{self, Connection, Row};
use serde_json::json;

/// Most texts of one statement; more are the next one's.
const TEXTS_MAX: i64 = 50;

// Statements of PostgreSQL alone, where SQLite has FTS5.
static PENDING_WORDS: &str = "
    SELECT 1 AS of_letter, w.seq, m.thread_id, m.subject, m.sender, coalesce(m.fresh_text, m.text_body) AS own
    FROM letter_words w JOIN messages m ON m.seq = w.seq WHERE w.words IS NULL
    UNION ALL SELECT 0, f.seq, '', c.heading, '', c.body
    FROM knowledge_fts f JOIN knowledge_chunks c ON c.seq = f.seq WHERE f.words IS NULL
    LIMIT $1";
/// `$1`, `$2`: `[{seq, words}, …]` of letters, and of pieces of knowledge.
static STORE_WORDS: &str = "
    UPDATE letter_words SET words = CAST(v.value ->> 'words' AS TSVECTOR) FROM json_each($1) v
      WHERE letter_words.seq = CAST(v.value ->> 'seq' AS BIGINT);
    UPDATE knowledge_fts SET words = CAST(v.value ->> 'words' AS TSVECTOR) FROM json_each($2) v
      WHERE knowledge_fts.seq = CAST(v.value ->> 'seq' AS BIGINT)";

/// Makes the words of all rows that have none yet, and the parts of these.
///
/// Errors: nothing of the transaction can be committed.
pub(in crate::store) async fn make_words(conn: &mut Connection) -> Result<(), db::Error> {
    let mut has_made = false;
    loop {
        let pending = db::query(PENDING_WORDS).bind(TEXTS_MAX);
        let rows = pending.fetch_all(&mut *conn).await?;
        if rows.is_empty() {
            // What changes the parts of a letter changes its words, so most commits are asked once.
            return match has_made {
                true => store_pending(conn).await,
                false => Ok(()),
            };
        }
        has_made = true;
        let (letters, knowledge): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| row.get::<bool>("of_letter"));
        let letters = serde_json::Value::from_iter(letters.into_iter().map(letter));
        let knowledge = serde_json::Value::from_iter(knowledge.into_iter().map(piece));
        let store = db::query(STORE_WORDS).bind(letters.to_string());
        store
            .bind(knowledge.to_string())
            .execute(&mut *conn)
            .await?;
    }
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
