//! When a letter came and of whom, for the ranking of a search.

use crate::text::word_parts::stems;
use std::collections::{HashMap, HashSet};

/// What a ranking asks of a letter besides its words.
pub(super) struct ReceivedLetter {
    pub at_ms: i64,
    pub sender: String,
}

/// Returns the messages whose senders have a word of the query; `None` when none has.
pub(super) fn of_named(
    words: &[String],
    letters: &HashMap<i64, ReceivedLetter>,
) -> Option<HashSet<i64>> {
    let words: HashSet<String> = words.iter().flat_map(|word| stems(word)).collect();
    let mut known: HashMap<&str, bool> = HashMap::new();
    let mut named = HashSet::new();
    for (seq, letter) in letters {
        let is_named = known.entry(&letter.sender).or_insert_with(|| {
            stems(&letter.sender)
                .iter()
                .any(|word| words.contains(word))
        });
        if *is_named {
            named.insert(*seq);
        }
    }
    (!named.is_empty()).then_some(named)
}
