//! Search terms of an input. Pure.

use crate::text::stop_words::is_stop_word;
use std::collections::BTreeSet;

/// Most terms of one search; the store takes no more.
const TERMS_MAX: usize = 32;
/// Characters of the text that are searched for terms.
const TEXT_CHARS_MAX: usize = 20_000;
/// Shortest term, unless it has a digit.
const TERM_CHARS_MIN: usize = 3;

/// Returns the distinct words of subject and text, lower case, without stop words: the subject's
/// first, then the text's, longest first, because longer words are rarer.
pub fn query_terms(subject: &str, text: &str) -> Vec<String> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut fresh = |text: &str| -> Vec<String> {
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        let words = text
            .split(|c: char| !c.is_alphanumeric())
            .map(str::to_lowercase);
        words
            .filter(|word| is_long_enough(word) && !is_stop_word(word) && seen.insert(word.clone()))
            .collect()
    };
    let mut terms = fresh(subject);
    let mut of_text = fresh(text);
    of_text.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    terms.extend(of_text);
    terms.truncate(TERMS_MAX);
    terms
}

fn is_long_enough(word: &str) -> bool {
    word.chars().count() >= TERM_CHARS_MIN || word.chars().any(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_are_the_words_that_say_something() {
        let terms = query_terms(
            "Re: Breakfast?",
            "Dear all,\nis there a VEGAN breakfast at 7 in the mill-room?\nThank you",
        );
        assert_eq!(terms, ["breakfast", "vegan", "mill", "room", "7"]);
        assert_eq!(
            query_terms("Hello", "Thank you very much! Yes, it is."),
            Vec::<String>::new()
        );
        assert_eq!(query_terms("", "Für die Gäste bitte"), ["gäste"]);
    }

    #[test]
    fn a_long_text_gives_its_longest_words() {
        let text: String = (0..200)
            .map(|n| format!("{} ", "w".repeat(3 + n % 90)))
            .collect();
        let terms = query_terms("price", &text);
        assert_eq!(
            (terms.len(), terms[0].as_str(), terms[1].len()),
            (32, "price", 92)
        );
    }
}
