//! Vectors of letters as rows: which letters have none, what is stored for them, and for whom a search uses them.
//!
//! A vector goes with its letter, and with the text that it stands for: triggers of 0066 see to that.

use crate::domain::{PersonaId, Timestamp, sha256_hex};
use crate::store::db::{self, Connection, Row};
use crate::store::sql::{json_list, to_i64};
use crate::store::{PersonaStore, Result, Store};
use std::collections::HashMap;

/// Longest text that a vector stands for, in bytes. Many models read 512 tokens; what a letter is about stands at its beginning.
const TEXT_BYTES_MAX: usize = 2_000;
/// Most letters that are looked at for one step: a walk over letters that all have a vector is not one long read.
const LOOKED_AT_MAX: i64 = 2_000;

/// Messages of the persona before one of them, newest first, and which of them are letters without a vector of the model.
const LETTERS_BEFORE: &str = "
SELECT o.seq, o.received_at, o.direction IN ('inbound', 'outbound') AND o.disposition NOT IN ('notice', 'filed:command')
  AND NOT EXISTS (SELECT 1 FROM letter_vectors v WHERE v.seq = o.seq AND v.model = $2) AS is_wanted
FROM messages o WHERE o.persona_id = $1 AND o.received_at <= $3 AND (o.received_at < $3 OR o.seq < $4)
ORDER BY o.received_at DESC, o.seq DESC LIMIT $5";
/// The same of messages with numbers between `$3` and `$4`: few, because they came since the last look. An index by persona
/// would walk all of its letters.
const LETTERS_BETWEEN: &str = "
SELECT o.seq, o.received_at, o.direction IN ('inbound', 'outbound') AND o.disposition NOT IN ('notice', 'filed:command')
  AND NOT EXISTS (SELECT 1 FROM letter_vectors v WHERE v.seq = o.seq AND v.model = $2) AS is_wanted
FROM messages o WHERE +o.persona_id = $1 AND o.seq > $3 AND o.seq < $4
ORDER BY o.seq DESC LIMIT $5";
const TEXTS_TO_EMBED: &str = "
SELECT m.seq, m.subject, substr(coalesce(m.fresh_text, m.text_body), 1, 2000) AS own
FROM jsonb_each($1) h CROSS JOIN messages m WHERE m.seq = CAST(h.value AS BIGINT) ORDER BY h.key";
/// Of each text that has a vector of the model, one of them.
const KNOWN_VECTORS: &str = "
SELECT h.value AS sha256, (SELECT v.vector FROM letter_vectors v WHERE v.model = $1 AND v.text_sha256 = h.value LIMIT 1) AS vector
FROM jsonb_each($2) h";
const CURRENT_TEXT: &str = "
SELECT m.subject, substr(coalesce(m.fresh_text, m.text_body), 1, 2000) AS own FROM messages m
WHERE m.seq = $1 AND m.persona_id = $2";
const STORE_VECTOR: &str = "
INSERT INTO letter_vectors (seq, model, persona_id, text_sha256, vector) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (seq, model) DO UPDATE SET text_sha256 = excluded.text_sha256, vector = excluded.vector";
const NEWEST_MESSAGE: &str = "
SELECT coalesce((SELECT m.seq FROM messages m ORDER BY m.seq DESC LIMIT 1), 0)";
const COUNT_VECTORS: &str = "
SELECT count(*) AS vectors, (SELECT count(*) FROM messages m WHERE m.persona_id = $1
  AND m.direction IN ('inbound', 'outbound') AND m.disposition NOT IN ('notice', 'filed:command')) AS letters
FROM letter_vectors v WHERE v.persona_id = $1 AND v.model = $2";
const VECTOR_SWITCH: &str = "
SELECT provider, model, gain_points, letters, measured_at FROM vector_switches WHERE persona_id = $1";
const VECTOR_SWITCHES: &str = "SELECT persona_id, provider, model, gain_points, letters, measured_at FROM vector_switches ORDER BY persona_id";
const SWITCH_ON: &str = "
INSERT INTO vector_switches (persona_id, provider, model, gain_points, letters, measured_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (persona_id) DO UPDATE SET provider = excluded.provider, model = excluded.model, gain_points = excluded.gain_points,
  letters = excluded.letters, measured_at = excluded.measured_at";
const SWITCH_OFF: &str = "DELETE FROM vector_switches WHERE persona_id = $1";

/// Part of a persona's letters that is still to be looked at, from its newest on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LetterSpan {
    /// Those that came before this instant, or at it and have a lower number.
    Before(String, i64),
    /// Those with a number between these.
    Between(i64, i64),
}

impl LetterSpan {
    /// Returns the span of all letters.
    pub fn all() -> Self {
        // Behind every instant, as in searches.
        Self::Before("~".to_owned(), 0)
    }
}

/// Text of a letter that has no vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterText {
    /// Number of the message.
    pub seq: i64,
    /// Subject and new text, cut.
    pub text: String,
    pub sha256: String,
}

impl LetterText {
    fn of(seq: i64, row: &Row) -> Result<Self> {
        let (subject, own): (&str, &str) = (row.try_get("subject")?, row.try_get("own")?);
        let mut text = format!("{}\n{}", subject.trim(), own.trim());
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        let text = text.trim().to_owned();
        Ok(Self {
            seq,
            sha256: sha256_hex(&[text.as_bytes()]),
            text,
        })
    }
}

/// A vector to store.
#[derive(Debug, Clone, PartialEq)]
pub struct NewLetterVector {
    pub seq: i64,
    pub text_sha256: String,
    /// Of length 1.
    pub vector: Vec<f32>,
}

/// Letters of a persona, and how many of them have a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmbeddedCount {
    pub letters: i64,
    pub vectors: i64,
}

/// A measurement by which the owner has switched vectors on for a persona.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorSwitch {
    pub provider: String,
    /// As in the rows of vectors.
    pub model: String,
    /// Of recall at 10, in points of a hundred.
    pub gain_points: f64,
    /// Letters that had a vector.
    pub letters: i64,
    pub measured_at: Timestamp,
}

impl PersonaStore {
    /// Returns the newest letters of a span that have no vector of the model, at most `limit`, and the rest of the span that is
    /// still to be looked at. A letter without any text is left out.
    pub async fn letters_without_vector(
        &self,
        model: &str,
        span: &LetterSpan,
        limit: usize,
    ) -> Result<(Vec<LetterText>, Option<LetterSpan>)> {
        let (sql, from, to) = match span {
            LetterSpan::Before(at, seq) => (LETTERS_BEFORE, at.clone(), *seq),
            LetterSpan::Between(above, below) => (LETTERS_BETWEEN, above.to_string(), *below),
        };
        let query = db::query(sql).bind((&self.persona, model));
        let query = match span {
            LetterSpan::Before(..) => query.bind(&from),
            LetterSpan::Between(above, _) => query.bind(above),
        };
        let query = query.bind((to, LOOKED_AT_MAX));
        let rows = query.rows(self.store.readers()).await?;
        let (mut wanted, mut looked_at) = (Vec::new(), 0);
        for row in &rows {
            if wanted.len() == limit {
                break;
            }
            looked_at += 1;
            let seq: i64 = row.try_get("seq")?;
            wanted.extend(row.try_get::<bool>("is_wanted")?.then_some(seq));
        }
        let is_last = looked_at == rows.len() && to_i64(rows.len()) < LOOKED_AT_MAX;
        let rest = match looked_at.checked_sub(1).and_then(|last| rows.get(last)) {
            Some(last) if !is_last => Some(match span {
                LetterSpan::Before(..) => {
                    LetterSpan::Before(last.try_get("received_at")?, last.try_get("seq")?)
                }
                LetterSpan::Between(above, _) => LetterSpan::Between(*above, last.try_get("seq")?),
            }),
            _ => None,
        };
        let texts = serde_json::Value::from_iter(wanted).to_string();
        let rows = self.rows(TEXTS_TO_EMBED, texts).await?;
        let letter = |row: &Row| LetterText::of(row.try_get("seq")?, row);
        let letters = rows.iter().map(letter).collect::<Result<Vec<_>>>()?;
        let letters = letters.into_iter().filter(|letter| !letter.text.is_empty());
        Ok((letters.collect(), rest))
    }

    /// Returns vectors of the model that stand for these texts already, by the digests of the texts.
    pub async fn known_vectors(
        &self,
        model: &str,
        texts: &[LetterText],
    ) -> Result<HashMap<String, Vec<f32>>> {
        let digests = json_list(texts.iter().map(|text| text.sha256.as_str()));
        let rows = self.rows(KNOWN_VECTORS, (model, digests)).await?;
        let known = |row: &Row| {
            let vector: Option<&[u8]> = row.get("vector");
            let (numbers, _) = vector?.as_chunks::<4>();
            let vector = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
            Some((row.get("sha256"), vector.collect()))
        };
        Ok(rows.iter().filter_map(known).collect())
    }

    /// Stores vectors that were made of texts before.
    pub async fn store_vectors(&self, model: &str, vectors: Vec<NewLetterVector>) -> Result<()> {
        let (persona, model) = (self.persona.clone(), model.to_owned());
        let write = transact!(self, |conn| store_vectors(conn, &persona, &model, &vectors)
            .await);
        write.await
    }

    /// Counts the letters, and those with a vector of the model.
    pub async fn count_vectors(&self, model: &str) -> Result<EmbeddedCount> {
        let row = self.row(COUNT_VECTORS, (&self.persona, model)).await?;
        Ok(EmbeddedCount {
            letters: row.try_get("letters")?,
            vectors: row.try_get("vectors")?,
        })
    }

    /// Returns the measurement by which vectors are switched on; `None`: they are off.
    pub async fn vector_switch(&self) -> Result<Option<VectorSwitch>> {
        self.maybe(VECTOR_SWITCH, &self.persona).await
    }

    /// Switches vectors on by a measurement, or off.
    pub async fn set_vector_switch(&self, switch: Option<VectorSwitch>) -> Result<()> {
        let persona = self.persona.clone();
        let write = transact!(self, |conn| {
            let set = match &switch {
                None => db::query(SWITCH_OFF).bind(&persona),
                Some(on) => db::query(SWITCH_ON).bind((
                    &persona,
                    &on.provider,
                    &on.model,
                    on.gain_points,
                    on.letters,
                    on.measured_at,
                )),
            };
            set.exec(conn).await?;
            Ok(())
        });
        write.await
    }
}

impl Store {
    /// Returns the number of the newest message of all personas; 0: there is none.
    pub async fn newest_message(&self) -> Result<i64> {
        self.one(NEWEST_MESSAGE, ()).await
    }

    /// Returns the personas for which vectors are switched on, with the measurements.
    pub async fn vector_switches(&self) -> Result<Vec<(String, VectorSwitch)>> {
        let rows = self.rows(VECTOR_SWITCHES, ()).await?;
        let switch = |row: &Row| Ok((row.try_get("persona_id")?, row.to()?));
        rows.iter().map(switch).collect()
    }
}

from_row!(VectorSwitch {
    provider,
    model,
    gain_points,
    letters,
    measured_at
});

/// Stores vectors; a letter that went or changed since its text was read gets none.
pub async fn store_vectors(
    conn: &mut Connection,
    persona: &PersonaId,
    model: &str,
    vectors: &[NewLetterVector],
) -> Result<()> {
    for new in vectors {
        let Some(row) = conn.maybe_row(CURRENT_TEXT, (new.seq, persona)).await? else {
            continue;
        };
        if LetterText::of(new.seq, &row)?.sha256 != new.text_sha256 {
            continue;
        }
        let bytes: Vec<u8> = new.vector.iter().flat_map(|n| n.to_le_bytes()).collect();

        conn.exec(
            STORE_VECTOR,
            (new.seq, model, persona, &new.text_sha256, bytes),
        )
        .await?;
    }
    Ok(())
}
