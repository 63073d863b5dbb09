//! Words and filters as FTS5 query text; the only file that writes it.
//!
//! FTS5's MATCH operand is a query language: `NEAR`, `*`, `col:`, unbalanced quotes. Typed text
//! therefore never reaches it bare: every word becomes a quoted string, in which nothing is an
//! operator.

use crate::text::stop_words::is_stop_word;
use crate::text::word_parts::{WantedPart, is_unspaced, pairs, runs};
use std::collections::HashSet;

/// Most words of one query; further ones are ignored.
const WORDS_MAX: usize = 32;
/// Most characters of one word.
const WORD_CHARS_MAX: usize = 64;

/// Returns MATCH text for a text of which every word must occur; `None` when it has no word. A word of a script without
/// blanks may be the beginning of a longer run.
pub(in crate::store) fn all_of(text: &str) -> Option<String> {
    // Neighbours without an operator mean AND, and unlike a written AND they accept a string
    // without tokens.
    let word = |word: &str| {
        let quoted = quoted(word)?;
        Some(match word.ends_with(is_unspaced) {
            true => format!("{quoted} *"),
            false => quoted,
        })
    };
    let quoted: Vec<String> = text
        .split_whitespace()
        .filter_map(word)
        .take(WORDS_MAX)
        .collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}

/// Returns the words of a text that say something: stop words only where there is nothing else, a word of two letters
/// only in capitals, each once.
///
/// A word with a digit or an at sign stays whole, as a phrase: an order number, an address. A run of Chinese, Japanese
/// or Korean is its pairs of neighbours.
pub(in crate::store) fn query_words(text: &str) -> Vec<String> {
    let words: Vec<String> = text.split_whitespace().flat_map(parts).collect();
    let is_all_common = !words.iter().any(|word| is_telling(word));
    let mut seen = HashSet::new();
    let chosen = words
        .into_iter()
        .filter(|word| is_all_common || is_telling(word));
    let fresh = chosen.filter(|word| quoted(word).is_some() && seen.insert(word.to_lowercase()));
    fresh.take(WORDS_MAX).collect()
}

fn parts(word: &str) -> Vec<String> {
    let of_run = |(run, is_unspaced): (&str, bool)| -> Vec<String> {
        if is_unspaced {
            return pairs(run);
        }
        if run.contains(|c: char| c.is_ascii_digit() || c == '@') {
            return vec![run.to_owned()];
        }
        let parts = run.split(|c: char| !c.is_alphanumeric());
        parts
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    runs(word).into_iter().flat_map(of_run).collect()
}

fn is_telling(word: &str) -> bool {
    let is_long = word.chars().count() > 2
        || word.chars().any(|c| c.is_ascii_digit() || !c.is_ascii())
        || (word.len() == 2 && word.chars().all(|c| c.is_ascii_uppercase()));
    is_long && !is_stop_word(&word.to_lowercase())
}

/// Returns MATCH text for one word within the filters; threads as the index names them, joined by the caller.
pub(in crate::store) fn within(word: &str, filters: &[String]) -> String {
    let word = quoted(word).unwrap_or_else(|| "\"\"".to_owned());
    joined(format!("({{subject sender own}} : {word})"), filters)
}

/// Returns MATCH text of the index of parts for one of them.
pub(in crate::store) fn with_part(part: &WantedPart, threads: &[String]) -> String {
    let text = quoted(&part.text).unwrap_or_else(|| "\"\"".to_owned());
    let beginning = if part.is_beginning { " *" } else { "" };
    joined(format!("(words : {text}{beginning})"), threads)
}

fn joined(word: String, filters: &[String]) -> String {
    let all: Vec<String> = std::iter::once(word)
        .chain(filters.iter().cloned())
        .collect();
    all.join(" AND ")
}

/// Returns MATCH text that a column has every word of a text; `None` when the text has no word.
pub(in crate::store) fn column(name: &str, typed: &str) -> Option<String> {
    Some(format!("({name} : ({}))", all_of(typed)?))
}

/// Returns MATCH text that a letter is in one of the threads; `None` without a thread.
pub(in crate::store) fn in_threads(threads: &[String]) -> Option<String> {
    let tokens: Vec<String> = threads
        .iter()
        .filter_map(|id| quoted(&id.replace('-', "")))
        .collect();
    (!tokens.is_empty()).then(|| format!("(thread : ({}))", tokens.join(" OR ")))
}

/// Formats one word as an FTS5 string (SQLite's "Full-text Query Syntax": `"` is doubled); `None`
/// when it has nothing to search for.
pub(in crate::store) fn quoted(word: &str) -> Option<String> {
    let searchable = |c: &char| !c.is_control();
    let word: String = word
        .chars()
        .filter(searchable)
        .take(WORD_CHARS_MAX)
        .collect();
    word.chars()
        .any(char::is_alphanumeric)
        .then(|| format!("\"{}\"", word.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::word_parts::wanted_part;

    #[test]
    fn every_word_is_quoted_so_operators_are_words() {
        let cases = [
            ("late NEAR supper*", Some(r#""late" "NEAR" "supper*""#)),
            (r#"a" OR "b"#, Some(r#""a""" "OR" """b""#)),
            ("sender:x -y", Some(r#""sender:x" "-y""#)),
            ("a\0b", Some(r#""ab""#)),
            ("田中 Kern", Some(r#""田中" * "Kern""#)),
            (" *** ( ) ", None),
            ("", None),
        ];
        for (typed, wanted) in cases {
            assert_eq!(all_of(typed).as_deref(), wanted, "{typed:?}");
        }
    }

    #[test]
    fn a_query_is_its_telling_words_and_numbers_stay_whole() {
        let cases = [
            (
                "Is there a VEGAN breakfast in the UK?",
                vec!["VEGAN", "breakfast", "UK"],
            ),
            ("What about order AB-1234/x?", vec!["order", "AB-1234/x?"]),
            ("Carol's mill-room, mill", vec!["Carol", "mill", "room"]),
            (
                "carol@partner.test für die Gäste",
                vec!["carol@partner.test", "Gäste"],
            ),
            ("what was it", vec!["what", "was", "it"]),
            ("请问 发票4711AB?", vec!["请问", "发票", "4711AB?"]),
            ("?! ***", vec![]),
        ];
        for (typed, wanted) in cases {
            assert_eq!(query_words(typed), wanted, "{typed:?}");
        }
    }

    #[test]
    fn a_word_stands_within_its_filters() {
        let threads = ["0199-ab".to_owned(), "01".to_owned()];
        let filters = [column("sender", "Carol Kern"), in_threads(&threads)];
        let filters: Vec<String> = filters.into_iter().flatten().collect();
        let wanted = r#"({subject sender own} : "late") AND (sender : ("Carol" "Kern")) AND (thread : ("0199ab" OR "01"))"#;
        assert_eq!(within("late", &filters), wanted);
        let parts = ["4711ab", "发票", "茶"].map(|word| {
            let part = wanted_part(word).expect("a part");
            with_part(&part, &filters[1..])
        });
        let threads = r#" AND (thread : ("0199ab" OR "01"))"#;
        let wanted = [r#""4711ab" *"#, r#""发票""#, r#""茶" *"#];
        assert_eq!(
            parts,
            wanted.map(|part| format!("(words : {part}){threads}"))
        );
        assert_eq!((column("sender", "?!"), in_threads(&[])), (None, None));
    }

    #[test]
    fn a_query_is_bounded() {
        let many = "word ".repeat(1000);
        assert_eq!(all_of(&many).map(|q| q.split(' ').count()), Some(WORDS_MAX));
    }
}
