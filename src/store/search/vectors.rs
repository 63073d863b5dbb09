//! The order of letters by their vectors, and what becomes of it beside the order by words.
//!
//! Brute force over the newest letters that the readers may see: the rule of readers stands in the statement that reads the
//! vectors, so that no vector of another letter is compared.

use super::match_text::all;
use super::scope::{MessageSearch, SearchScope};
use crate::store::db::{self, Sql, TextPair};
use crate::store::{PersonaStore, Result};
use std::collections::HashMap;

/// Most vectors that are compared: those of the newest letters.
const VECTORS_MAX: i64 = 5_000;
/// Most letters that the order by vectors may bring in: those beyond could not outweigh one that words have found.
const NEAREST_MAX: usize = 64;
/// Constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009).
const FUSION_RANK: f64 = 60.0;

/// The vector of a question, and the model that made it.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionVector {
    pub model: String,
    /// Of length 1.
    pub vector: Vec<f32>,
}

/// The newest letters of a persona with their vectors.
const NEWEST_VECTORS: Sql = Sql::pair(
    "
SELECT v.seq, v.vector
FROM letter_vectors v CROSS JOIN messages m
WHERE m.seq = v.seq AND v.persona_id = $1 AND v.model = $2 AND m.persona_id = $1 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command')
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND ($5 IS NULL OR EXISTS (SELECT 1 FROM letter_words w WHERE w.letter_words MATCH $5 AND w.rowid = m.seq))
ORDER BY v.seq DESC LIMIT $6",
    "
SELECT v.seq, v.vector
FROM letter_vectors v CROSS JOIN messages m
WHERE m.seq = v.seq AND v.persona_id = $1 AND v.model = $2 AND m.persona_id = $1 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command')
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND ($5 IS NULL OR EXISTS (SELECT 1 FROM letter_words w WHERE w.words @@ CAST($5 AS TSQUERY) AND w.seq = m.seq))
ORDER BY v.seq DESC LIMIT $6",
);

/// The newest letters that all readers `$7` may see, in the newest `$9` threads of the first of them (`$8`), with their
/// vectors; the other parameters as those of [`NEWEST_VECTORS`]. Vectors are read when it is known which. An index by persona
/// would walk all of its letters for each thread.
const READABLE_VECTORS: Sql = Sql::pair(
    "
SELECT v.seq, v.vector FROM (
  SELECT m.seq FROM (
    SELECT t.id FROM thread_participants p CROSS JOIN threads t
    WHERE t.id = p.thread_id AND p.address = $8 AND t.persona_id = $1 ORDER BY t.updated_at DESC LIMIT $9) own
  CROSS JOIN messages m
  CROSS JOIN letter_vectors l
  WHERE l.seq = m.seq AND l.model = $2 AND m.thread_id = own.id AND +m.persona_id = $1 AND m.direction IN ('inbound', 'outbound')
    AND m.disposition NOT IN ('notice', 'filed:command') AND m.disposition NOT LIKE 'withheld:%'
    AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
    AND NOT EXISTS (SELECT 1 FROM jsonb_each($7) reader WHERE NOT EXISTS (SELECT 1 FROM readable
      WHERE readable.seq = m.seq AND readable.address = reader.value))
    AND ($5 IS NULL OR EXISTS (SELECT 1 FROM letter_words w WHERE w.letter_words MATCH $5 AND w.rowid = m.seq))
  ORDER BY m.seq DESC LIMIT $6) h
CROSS JOIN letter_vectors v WHERE v.seq = h.seq AND v.model = $2",
    "
SELECT v.seq, v.vector FROM (
  SELECT m.seq FROM (
    SELECT t.id FROM thread_participants p CROSS JOIN threads t
    WHERE t.id = p.thread_id AND p.address = $8 AND t.persona_id = $1 ORDER BY t.updated_at DESC LIMIT $9) own
  CROSS JOIN messages m
  CROSS JOIN letter_vectors l
  WHERE l.seq = m.seq AND l.model = $2 AND m.thread_id = own.id AND m.persona_id = $1 AND m.direction IN ('inbound', 'outbound')
    AND m.disposition NOT IN ('notice', 'filed:command') AND m.disposition NOT LIKE 'withheld:%'
    AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
    AND NOT EXISTS (SELECT 1 FROM jsonb_each($7) reader WHERE NOT EXISTS (SELECT 1 FROM readable
      WHERE readable.seq = m.seq AND readable.address = reader.value))
    AND ($5 IS NULL OR EXISTS (SELECT 1 FROM letter_words w WHERE w.words @@ CAST($5 AS TSQUERY) AND w.seq = m.seq))
  ORDER BY m.seq DESC LIMIT $6) h
CROSS JOIN letter_vectors v WHERE v.seq = h.seq AND v.model = $2",
);

/// Most threads of readers that are searched, as in a search by words.
const THREADS_MAX: i64 = 400;

impl PersonaStore {
    /// Returns the letters that words found (`by_words`, best first) and those nearest to the question, in one order.
    pub async fn fused(
        &self,
        search: &MessageSearch,
        by_words: &[i64],
        question: &QuestionVector,
    ) -> Result<Vec<i64>> {
        let nearest = self.nearest(search, question).await?;
        Ok(fused(by_words, &nearest))
    }

    /// Returns the letters nearest to the question, of those that the search may find.
    async fn nearest(&self, search: &MessageSearch, question: &QuestionVector) -> Result<Vec<i64>> {
        let Some(columns) = search.columns() else {
            return Ok(Vec::new());
        };
        let scope = SearchScope::of(search);
        let sql = match scope.readers {
            None => NEWEST_VECTORS,
            Some(_) => READABLE_VECTORS,
        };
        let query = db::query(sql).bind((
            &self.persona,
            &question.model,
            &scope.since,
            &scope.before,
            all(&columns).map(TextPair::from),
            VECTORS_MAX,
        ));
        let query = match &scope.readers {
            None => query,
            Some(readers) => query.bind((&scope.readers_json, readers.first(), THREADS_MAX)),
        };
        let mut conn = self.store.readers().acquire().await?;
        let mut found: Vec<(i64, f32)> = Vec::new();
        let read = query.each(&mut conn, |row| {
            let vector: &[u8] = row.try_get("vector")?;
            if let Some(likeness) = dot(&question.vector, vector) {
                found.push((row.try_get("seq")?, likeness));
            }
            Ok(())
        });
        read.await?;
        found.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(b.cmp(a)));
        found.truncate(NEAREST_MAX);
        Ok(found.into_iter().map(|(seq, _)| seq).collect())
    }
}

/// Returns the product with a vector in its stored form; `None`: it has another length.
fn dot(question: &[f32], stored: &[u8]) -> Option<f32> {
    let (numbers, rest) = stored.as_chunks::<4>();
    if numbers.len() != question.len() || !rest.is_empty() {
        return None;
    }
    let products = numbers.iter().zip(question);
    Some(
        products
            .map(|(bytes, q)| f32::from_le_bytes(*bytes) * q)
            .sum(),
    )
}

/// Fuses two orders by reciprocal rank; of equals the newest comes first.
fn fused(by_words: &[i64], nearest: &[i64]) -> Vec<i64> {
    let mut scores: HashMap<i64, f64> = HashMap::new();
    for order in [by_words, nearest] {
        for (place, seq) in order.iter().enumerate() {
            *scores.entry(*seq).or_default() += 1.0 / (FUSION_RANK + 1.0 + place as f64);
        }
    }
    let mut order: Vec<(i64, f64)> = scores.into_iter().collect();
    order.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(b.cmp(a)));
    order.into_iter().map(|(seq, _)| seq).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_orders_have_comes_first_and_of_equals_the_newest() {
        assert_eq!(fused(&[1, 2, 3], &[3]), [3, 1, 2]);
        assert_eq!(fused(&[1], &[9]), [9, 1]);
        assert_eq!(fused(&[4, 5], &[]), [4, 5]);
        assert_eq!(fused(&[1, 2], &[2, 1]), [2, 1]);
    }

    #[test]
    fn a_vector_of_another_length_is_not_compared() {
        let stored: Vec<u8> = [0.6f32, 0.8].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(dot(&[0.0, 1.0], &stored), Some(0.8));
        assert_eq!(dot(&[1.0], &stored), None);
        assert_eq!(dot(&[0.0, 1.0], &stored[..7]), None);
    }
}
