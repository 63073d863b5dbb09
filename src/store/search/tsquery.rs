//! Words and filters as query text of PostgreSQL's full-text search, and texts as its words; the only file that writes them.
//!
//! The words are those of FTS5's `porter unicode61 remove_diacritics 2`, made by ourselves on both sides (migration 0201 of PostgreSQL says
//! why), so nothing typed is an operator: every word becomes a quoted lexeme.

use crate::text::word_parts::stems;
use std::collections::BTreeMap;

/// Greatest place of a word in a text, most places of one word, longest word in bytes (PostgreSQL's documentation, section
/// "Limitations" of full-text search). Words beyond are found, but not as a part of a phrase; a longer word is left out.
const PLACE_MAX: usize = 16_383;
const PLACES_MAX: usize = 255;
const WORD_BYTES_MAX: usize = 2_000;
/// Most bytes of the words of one text; PostgreSQL takes a mebibyte.
const BYTES_MAX: usize = 900_000;
/// Distance between two columns, so that no phrase goes from one to the next.
const COLUMN_GAP: usize = 2;

/// Returns the query for a word, whose parts must stand side by side; empty when it has nothing to search for: then it finds
/// nothing. `weight` is that of a column, or empty for all; `is_beginning`: a longer word may follow.
pub fn phrase(word: &str, weight: &str, is_beginning: bool) -> String {
    let stems = stems(word);
    let label = |place: usize| match (is_beginning && place + 1 == stems.len(), weight) {
        (false, "") => String::new(),
        (false, weight) => format!(":{weight}"),
        (true, weight) => format!(":*{weight}"),
    };
    let lexemes = stems.iter().enumerate();
    let lexemes: Vec<String> = lexemes
        .map(|(place, stem)| format!("{}{}", lexeme(stem), label(place)))
        .collect();
    match &lexemes[..] {
        [_, _, ..] => format!("({})", lexemes.join(" <-> ")),
        _ => lexemes.concat(),
    }
}

/// Returns the query for a part of words.
pub fn part(text: &str, is_beginning: bool) -> String {
    format!("{}{}", lexeme(text), if is_beginning { ":*" } else { "" })
}

/// Returns the query for one of these threads.
pub fn one_of_threads(threads: &[String]) -> String {
    let threads: Vec<String> = threads.iter().map(|id| lexeme(&thread_word(id))).collect();
    format!("({})", threads.join(" | "))
}

/// Returns the query that all of these must hold; empty, and so for nothing, when one is.
pub fn all(queries: &[&str]) -> String {
    match queries.iter().any(|query| query.is_empty()) {
        true => String::new(),
        false => queries.join(" & "),
    }
}

/// Returns the words of a text with their places, as a `tsvector`; each column has a weight, `A` to `D`.
pub fn words_of(columns: &[(char, &str)], thread: Option<&str>) -> String {
    let mut words: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut place, mut bytes) = (0, 0);
    for (weight, text) in columns {
        for stem in stems(text) {
            place = PLACE_MAX.min(place + 1);
            if stem.len() > WORD_BYTES_MAX || bytes > BYTES_MAX {
                continue;
            }
            let label = format!("{place}{weight}");
            let places = words.entry(stem).or_insert_with_key(|stem| {
                // With what PostgreSQL keeps beside them.
                bytes += stem.len() + 8;
                Vec::new()
            });
            if places.len() < PLACES_MAX && places.last() != Some(&label) {
                bytes += 2;
                places.push(label);
            }
        }
        place = PLACE_MAX.min(place + COLUMN_GAP);
    }
    let words = words.iter();
    let words = words.map(|(word, places)| format!("{}:{}", lexeme(word), places.join(",")));
    let thread = thread.map(|id| lexeme(&thread_word(id)));
    let all: Vec<String> = words.chain(thread).collect();
    all.join(" ")
}

/// Returns the word by which the letters of a thread are found: no word of a text has a colon.
fn thread_word(id: &str) -> String {
    format!("thread:{}", id.replace('-', ""))
}

fn lexeme(word: &str) -> String {
    format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_phrase_of_its_stems_and_nothing_in_it_an_operator() {
        let cases = [
            ("Suppers!", "", false, "'supper'"),
            ("AB-1234/x?", "", false, "('ab' <-> '1234' <-> 'x')"),
            ("田中", "B", true, "'田中':*B"),
            ("carol@x", "B", true, "('carol':B <-> 'x':*B)"),
            ("Dvořák", "A", false, "'dvorak':A"),
            ("a' & !b | (c:*", "", false, "('a' <-> 'b' <-> 'c')"),
            ("?!", "", true, ""),
        ];
        for (word, weight, is_beginning, wanted) in cases {
            assert_eq!(phrase(word, weight, is_beginning), wanted, "{word:?}");
        }
        assert_eq!(part("4711ab", true), "'4711ab':*");
        assert_eq!(part("it's \\", false), r"'it''s \\'");
    }

    #[test]
    fn a_filter_that_finds_nothing_leaves_nothing_to_find() {
        let threads = one_of_threads(&["0199-ab".to_owned(), "01".to_owned()]);
        assert_eq!(threads, "('thread:0199ab' | 'thread:01')");
        assert_eq!(all(&["'late'", &threads]), format!("'late' & {threads}"));
        assert_eq!(all(&["'late'", ""]), "");
    }

    #[test]
    fn words_have_the_places_and_weights_of_their_columns() {
        let words = words_of(
            &[('A', "Late supper"), ('B', ""), ('C', "it's a SUPPER")],
            Some("01-9a"),
        );
        let wanted = "'a':9C 'it':7C 'late':1A 's':8C 'supper':2A,10C 'thread:019a'";
        assert_eq!(words, wanted);
        assert_eq!(words_of(&[('A', "?!")], None), "");
    }

    #[test]
    fn a_text_without_an_end_has_words_that_fit() {
        let many: String = (0..200_000).map(|n| format!("w{n} and ")).collect();
        let words = words_of(&[('A', &"x".repeat(3_000)), ('C', &many)], None);
        assert!(words.contains("'and':") && words.contains(":16383C"));
        assert!(!words.contains("xxx"));
        let lexemes: usize = words.split(' ').map(|word| word.len().min(9)).sum();
        assert!(lexemes < 1024 * 1024, "{lexemes}");
        let and = words.split(' ').find(|word| word.starts_with("'and'"));
        let places = and.expect("a word").split(',').count();
        assert!(places <= PLACES_MAX, "{places}");
    }
}
