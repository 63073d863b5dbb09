//! Entries of memory that are about a query, by the scores and the threshold of the search of letters. Pure.

use super::record::MemoryEntry;
use crate::store::search::match_text::query_words;
use crate::store::search::ranking::{CandidateFacts, SHARE_MIN, TermDocuments, candidates, rank};
use crate::text::word_parts::SearchedText;

/// Number of entries that rarity is counted among at least: in one of three entries, a word is no less telling.
const ENTRIES_MIN: f64 = 30.0;

/// Returns the entries that are about the query, best first, of equals in their order; none when none has enough of it.
///
/// Scored in memory: all entries in the reach of a run are a few hundred, and a statement for each word would read them
/// again.
pub fn entries_about<'e>(
    entries: &[&'e MemoryEntry],
    query: &str,
    limit: usize,
) -> Vec<&'e MemoryEntry> {
    let texts: Vec<SearchedText> = entries
        .iter()
        .map(|entry| SearchedText::from_text(&entry.text))
        .collect();
    // The ranking puts the highest number first among equals.
    let number = |place: usize| -(place as i64);
    let with = |word: String| -> TermDocuments {
        let places = (0..texts.len()).filter(|place| texts[*place].has(&word));
        let documents: Vec<i64> = places.map(number).collect();
        TermDocuments {
            count: documents.len() as f64,
            documents,
        }
    };
    let terms: Vec<TermDocuments> = query_words(query).into_iter().map(with).collect();
    let total = (entries.len() as f64).max(ENTRIES_MIN);
    let found = candidates(&terms, total, entries.len());
    let ranking = rank(&terms, total, &found, &CandidateFacts::default());
    let best = ranking.hits.first().map_or(0.0, |(_, score)| *score);
    // Each entry stands alone, so each must have enough of the query.
    let is_enough =
        |(_, score): &&(i64, f64)| *score > 0.0 && ranking.share * score / best >= SHARE_MIN;
    let hits = ranking.hits.iter().filter(is_enough).take(limit);
    hits.map(|(number, _)| entries[number.unsigned_abs() as usize])
        .collect()
}
