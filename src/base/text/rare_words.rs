//! Rarest words of a text among others: what a search by a whole letter asks for. Pure.

use std::collections::{BTreeSet, HashMap};

/// Shortest word that counts, in characters.
const WORD_CHARS_MIN: usize = 3;

/// Number of texts that have each word.
#[derive(Debug, Default)]
pub struct WordCounts(HashMap<String, u32>);

impl WordCounts {
    pub fn add(&mut self, text: &str) {
        for word in words(text) {
            *self.0.entry(word).or_default() += 1;
        }
    }

    /// Returns the words of a text that occur in another one, too, the rarest first, at most `limit`.
    pub fn rarest(&self, text: &str, limit: usize) -> Vec<String> {
        let count = |word: &String| self.0.get(word).copied().unwrap_or(0);
        let mut shared: Vec<String> = words(text)
            .into_iter()
            .filter(|word| count(word) > 1)
            .collect();
        shared.sort_by_key(|word| count(word));
        shared.truncate(limit);
        shared
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let long = words.filter(|word| word.chars().count() >= WORD_CHARS_MIN);
    long.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_text_alone_ask_for_nothing() {
        let mut counts = WordCounts::default();
        for text in [
            "the early train",
            "the Early bird",
            "the late train to Bonn",
            "a train",
        ] {
            counts.add(text);
        }
        let asked = "The early train: the zebra";
        counts.add(asked);
        assert_eq!(counts.rarest(asked, 2), ["early", "the"]);
        assert_eq!(counts.rarest(asked, 9), ["early", "the", "train"]);
    }
}
