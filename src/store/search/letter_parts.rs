//! The index of parts of words: in the transaction that stores a letter, its parts are made and stored.
//!
//! Not a trigger's work: SQLite cannot cut a text into parts. A trigger names the letter, whatever statement stored it.

use crate::store::db::{self, Connection, Row};
use crate::text::word_parts::{text_parts, unspaced_parts};
use serde_json::json;

/// Most letters of one commit; more wait for the next.
const LETTERS_MAX: u32 = 1_000;

pub(in crate::store) const PENDING_PARTS: &str = "
    SELECT p.seq, replace(m.thread_id, '-', '') AS thread, m.subject, m.sender,
      substr(coalesce(m.fresh_text, m.text_body), 1, 100000) AS own
    FROM letter_parts_pending p CROSS JOIN messages m WHERE m.seq = p.seq LIMIT $1";
/// Texts of the letters after `$1`, up to `$2`.
pub(in crate::store) const NEW_TEXTS_WITH_PARTS: &str = "
    SELECT m.seq, replace(m.thread_id, '-', '') AS thread, m.subject, m.sender,
      substr(coalesce(m.fresh_text, m.text_body), 1, 100000) AS own
    FROM messages m WHERE m.seq > $1 AND m.seq <= $2 ORDER BY m.seq";
/// `$1`: `[{seq, thread, words}, …]`; an empty text has no row.
pub(in crate::store) const STORE_PARTS: &str = "
    SAVEPOINT parts;
    DELETE FROM letter_part_texts WHERE seq IN (SELECT CAST(value ->> 'seq' AS BIGINT) FROM jsonb_each($1));
    INSERT INTO letter_part_texts (seq, thread, words)
      SELECT CAST(value ->> 'seq' AS BIGINT), value ->> 'thread', value ->> 'words' FROM jsonb_each($1) WHERE value ->> 'words' <> '';
    DELETE FROM letter_parts_pending WHERE seq IN (SELECT CAST(value ->> 'seq' AS BIGINT) FROM jsonb_each($1));
    RELEASE parts";
pub(in crate::store) const UNDO_PARTS: &str = "ROLLBACK TO parts; RELEASE parts";

/// Maker of the parts of letters in the writer's transactions.
#[derive(Default)]
pub(in crate::store) struct LetterPartsWriter {
    has_failed: bool,
}

impl LetterPartsWriter {
    /// Called in the open transaction of a group, before its commit. A failure costs no write: it is undone and reported, and
    /// the letters wait for the next start.
    ///
    /// Errors: the transaction is not open any more.
    pub async fn before_commit(&mut self, conn: &mut Connection) -> Result<(), db::Error> {
        if self.has_failed {
            return Ok(());
        }
        let Err(error) = store_pending(conn).await else {
            return Ok(());
        };
        tracing::error!(%error, "parts of words are not indexed; `attache doctor --audit` checks the index");
        self.has_failed = true;
        // Where the statement failed before its savepoint, there is nothing to undo.
        let undone = db::raw_sql(UNDO_PARTS).execute(&mut *conn).await;
        if let Err(error) = undone {
            tracing::debug!(%error, "no savepoint");
        }
        Ok(())
    }
}

/// Makes the parts of letters that wait for them; `false` where none waited.
pub(super) async fn store_pending(conn: &mut Connection) -> Result<bool, db::Error> {
    let pending = db::query(PENDING_PARTS).bind(LETTERS_MAX);
    let rows = pending.rows(&mut *conn).await?;
    if rows.is_empty() {
        return Ok(false);
    }
    store(conn, rows.iter().map(letter).collect()).await?;
    Ok(true)
}

/// Makes the parts of the letters after one number, up to another; most have none.
pub(super) async fn store_parts_of_new(
    conn: &mut Connection,
    after: i64,
    through: i64,
) -> Result<(), db::Error> {
    let rows = conn.rows(NEW_TEXTS_WITH_PARTS, (after, through)).await?;
    let mut letters: Vec<serde_json::Value> = rows.iter().map(letter).collect();
    letters.retain(|letter| letter["words"] != "");
    match letters.is_empty() {
        true => Ok(()),
        false => store(conn, letters).await,
    }
}

async fn store(conn: &mut Connection, letters: Vec<serde_json::Value>) -> Result<(), db::Error> {
    let letters = serde_json::Value::from(letters).to_string();
    conn.exec(STORE_PARTS, letters).await?;
    Ok(())
}

fn letter(row: &Row) -> serde_json::Value {
    let (seq, thread): (i64, String) = (row.get("seq"), row.try_get("thread").unwrap_or_default());
    // A text that somebody damaged has no parts; the writer goes on.
    let text = |column| row.try_get::<String>(column).unwrap_or_default();
    let mut parts = text_parts(&format!("{}\n{}", text("subject"), text("own")));
    // A sender has no codes: digits of an address would be parts of all letters of one person.
    parts.extend(unspaced_parts(&text("sender")));
    let words: Vec<String> = parts.into_iter().collect();
    json!({ "seq": seq, "thread": thread, "words": words.join(" ") })
}

#[cfg(test)]
mod tests {
    use crate::store::db::{self, Connection, Sql};
    use crate::text::word_parts::{stems, text_parts};
    use std::collections::BTreeSet;

    const ENDINGS: &str = "s es ies sses ed eed ing ated bled ized tted ssed lled y ily ational tional enci anci izer bli alli entli eli \
        ousli ization ation ator alism iveness fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al \
        ance ence er ic able ible ant ement ment ent sion tion ou ism ate iti ous ive ize e ee ll le";
    const BEGINNINGS: &str = "a b y re sky hop tan fizz fail fil roll control rat oper condit val gentl radic form electr good \
        adjust depend activ sens happ try syzyg gäst naïv oÿ ly ye say mil";

    /// What the tokenizer makes of a text, in order.
    async fn tokens(tokenizer: &str, text: &str) -> Vec<String> {
        let mut conn = Connection::in_memory().await;
        let schema = format!(
            "CREATE VIRTUAL TABLE t USING fts5(own, tokenize = '{tokenizer}');
             CREATE VIRTUAL TABLE words USING fts5vocab('t', 'instance')"
        );
        let schema = db::raw_sql(Sql::built(schema));
        schema.execute(&mut conn).await.expect("made");
        let insert = db::query("INSERT INTO t (own) VALUES ($1)").bind(text);
        insert.exec(&mut conn).await.expect("indexed");
        let terms = db::query("SELECT term FROM words ORDER BY \"offset\"");
        terms.all(&mut conn).await.expect("words")
    }

    #[tokio::test]
    async fn stems_are_those_of_the_index() {
        let made: String = BEGINNINGS
            .split_whitespace()
            .flat_map(|beginning| {
                ENDINGS
                    .split_whitespace()
                    .map(move |end| format!("{beginning}{end} "))
            })
            .collect();
        let letters = "Ärger Grüße façade Łódź Żółw Dvořák Straße Ødegård İzmir Ángel Việt naïve cafe\u{301} ½ x² № 会議 発票";
        for text in [
            &made,
            letters,
            include_str!("../../../README.md"),
            include_str!("../../../docs/limits.md"),
            include_str!("../../ARCHITECTURE.md"),
        ] {
            let (ours, wanted) = (
                stems(text),
                tokens("porter unicode61 remove_diacritics 2", text).await,
            );
            let differs = ours.iter().zip(&wanted).find(|(a, b)| a != b);
            assert_eq!(differs, None);
            assert_eq!(ours.len(), wanted.len());
        }
    }

    #[tokio::test]
    async fn each_part_is_one_word_of_its_index() {
        let text =
            "发票号码 東京タワー 다음 회의 ｶﾀｶﾅ 佐々木 𠮷野家 INV-2026/0042 4711AB 00492281234567";
        let parts = text_parts(text);
        let joined: Vec<String> = parts.iter().cloned().collect();
        let found = tokens("unicode61 remove_diacritics 0", &joined.join(" ")).await;
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), parts);
    }
}
