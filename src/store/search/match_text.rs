//! Words and filters as query text of both databases; the only file that writes that of FTS5.
//!
//! FTS5's MATCH operand is a query language: `NEAR`, `*`, `col:`, unbalanced quotes. Typed text
//! therefore never reaches it bare: every word becomes a quoted string, in which nothing is an
//! operator. PostgreSQL's is written in `tsquery`.

use super::tsquery;
use crate::store::db::TextPair;
use crate::store::sql::json_list;
use crate::text::stop_words::is_stop_word;
use crate::text::word_parts::{WantedPart, is_unspaced, pairs, runs};
use std::collections::HashSet;

/// Most words of one query; further ones are ignored.
const WORDS_MAX: usize = 32;
/// Most characters of one word.
const WORD_CHARS_MAX: usize = 64;

/// Query text for the full-text search of both databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchText {
    fts5: String,
    /// Empty: finds nothing.
    tsquery: String,
}

impl From<MatchText> for TextPair {
    fn from(text: MatchText) -> Self {
        Self {
            sqlite: text.fts5,
            postgres: text.tsquery,
        }
    }
}

/// Joins queries that must all hold; `None` without one.
pub fn all(queries: &[MatchText]) -> Option<MatchText> {
    let fts5: Vec<&str> = queries.iter().map(|query| query.fts5.as_str()).collect();
    let tsquery: Vec<&str> = queries.iter().map(|query| query.tsquery.as_str()).collect();
    (!queries.is_empty()).then(|| MatchText {
        fts5: fts5.join(" AND "),
        tsquery: tsquery::all(&tsquery),
    })
}

/// Returns the words of a text that must all occur, each as a query for a column of that weight; `None` when it has no word.
/// A word of a script without blanks may be the beginning of a longer run.
fn all_of(text: &str, weight: &str) -> Option<MatchText> {
    // Neighbours without an operator mean AND to FTS5, and unlike a written AND they accept a string
    // without tokens.
    let word = |word: &str| {
        let is_beginning = word.ends_with(is_unspaced);
        let word = searchable(word)?;
        Some(MatchText {
            fts5: format!("{}{}", quoted(&word), if is_beginning { " *" } else { "" }),
            tsquery: tsquery::phrase(&word, weight, is_beginning),
        })
    };
    let words = text.split_whitespace().filter_map(word).take(WORDS_MAX);
    let (fts5, mut tsquery): (Vec<String>, Vec<String>) =
        words.map(|word| (word.fts5, word.tsquery)).unzip();
    tsquery.retain(|word| !word.is_empty());
    (!fts5.is_empty()).then(|| MatchText {
        fts5: fts5.join(" "),
        tsquery: tsquery.join(" & "),
    })
}

/// Returns the words of a text that say something: stop words only where there is nothing else, a word of two letters
/// only in capitals, each once.
///
/// A word with a digit or an at sign stays whole, as a phrase: an order number, an address. A run of Chinese, Japanese
/// or Korean is its pairs of neighbours.
pub fn query_words(text: &str) -> Vec<String> {
    let words: Vec<String> = text.split_whitespace().flat_map(parts).collect();
    let is_all_common = !words.iter().any(|word| is_telling(word));
    let mut seen = HashSet::new();
    let chosen = words
        .into_iter()
        .filter(|word| is_all_common || is_telling(word));
    let fresh =
        chosen.filter(|word| searchable(word).is_some() && seen.insert(word.to_lowercase()));
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

/// Returns the query for one word within the filters.
pub fn within(word: &str, filters: &[MatchText]) -> MatchText {
    let word = searchable(word).unwrap_or_default();
    let query = MatchText {
        fts5: format!("({{subject sender own}} : {})", quoted(&word)),
        tsquery: tsquery::phrase(&word, "", false),
    };
    joined(query, filters)
}

/// Returns the query of the index of parts for one of them.
pub fn with_part(part: &WantedPart, threads: &[MatchText]) -> MatchText {
    let text = searchable(&part.text).unwrap_or_default();
    let beginning = if part.is_beginning { " *" } else { "" };
    let query = MatchText {
        fts5: format!("(words : {}{beginning})", quoted(&text)),
        tsquery: tsquery::part(&text, part.is_beginning),
    };
    joined(query, threads)
}

fn joined(word: MatchText, filters: &[MatchText]) -> MatchText {
    let queries = [std::slice::from_ref(&word), filters].concat();
    all(&queries).unwrap_or(word)
}

/// A column of the index of letters that a search can be limited to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterColumn {
    Subject,
    Sender,
}

impl LetterColumn {
    /// Its name in FTS5's table, and its weight in PostgreSQL's.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            LetterColumn::Subject => ("subject", "A"),
            LetterColumn::Sender => ("sender", "B"),
        }
    }
}

/// Returns the query that a column has every word of a text; `None` when the text has no word.
pub fn column(column: LetterColumn, typed: &str) -> Option<MatchText> {
    let (name, weight) = column.names();
    let words = all_of(typed, weight)?;
    Some(MatchText {
        fts5: format!("({name} : ({}))", words.fts5),
        tsquery: words.tsquery,
    })
}

/// Returns the query that a letter is in one of the threads; `None` without a thread.
pub fn in_threads(threads: &[String]) -> Option<MatchText> {
    let ids = threads.iter().map(|id| id.replace('-', ""));
    let tokens: Vec<String> = ids
        .filter_map(|id| searchable(&id))
        .map(|id| quoted(&id))
        .collect();
    (!tokens.is_empty()).then(|| MatchText {
        fts5: format!("(thread : ({}))", tokens.join(" OR ")),
        tsquery: tsquery::one_of_threads(threads),
    })
}

/// Returns the query for one word in any column; `None` when it has nothing to search for.
pub fn anywhere(word: &str) -> Option<MatchText> {
    let word = searchable(word)?;
    Some(MatchText {
        fts5: quoted(&word),
        tsquery: tsquery::phrase(&word, "", false),
    })
}

/// Lists queries as JSON, for one statement that executes each.
pub fn listed(queries: &[MatchText]) -> TextPair {
    TextPair {
        sqlite: json_list(queries.iter().map(|query| query.fts5.as_str())),
        postgres: json_list(queries.iter().map(|query| query.tsquery.as_str())),
    }
}

/// Returns what is searched for of a word; `None` when it has no letter and no digit.
fn searchable(word: &str) -> Option<String> {
    let letters = word.chars().filter(|c| !c.is_control());
    let word: String = letters.take(WORD_CHARS_MAX).collect();
    word.chars().any(char::is_alphanumeric).then_some(word)
}

/// Formats one word as an FTS5 string (SQLite's "Full-text Query Syntax": `"` is doubled).
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::word_parts::wanted_part;

    #[test]
    fn every_word_is_quoted_so_operators_are_words() {
        let cases = [
            (
                "late NEAR supper*",
                Some((
                    r#""late" "NEAR" "supper*""#,
                    "'late':B & 'near':B & 'supper':B",
                )),
            ),
            (
                r#"a" OR "b"#,
                Some((r#""a""" "OR" """b""#, "'a':B & 'or':B & 'b':B")),
            ),
            (
                "sender:x -y",
                Some((r#""sender:x" "-y""#, "('sender':B <-> 'x':B) & 'y':B")),
            ),
            ("a\0b", Some((r#""ab""#, "'ab':B"))),
            (
                "田中 Kern",
                Some((r#""田中" * "Kern""#, "'田中':*B & 'kern':B")),
            ),
            (" *** ( ) ", None),
            ("", None),
        ];
        for (typed, wanted) in cases {
            let text = all_of(typed, "B");
            let text = text
                .as_ref()
                .map(|text| (text.fts5.as_str(), text.tsquery.as_str()));
            assert_eq!(text, wanted, "{typed:?}");
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
        let filters = [
            column(LetterColumn::Sender, "Carol Kern"),
            in_threads(&threads),
        ];
        let filters: Vec<MatchText> = filters.into_iter().flatten().collect();
        let query = within("late", &filters);
        let wanted = r#"({subject sender own} : "late") AND (sender : ("Carol" "Kern")) AND (thread : ("0199ab" OR "01"))"#;
        assert_eq!(query.fts5, wanted);
        let wanted = "'late' & 'carol':B & 'kern':B & ('thread:0199ab' | 'thread:01')";
        assert_eq!(query.tsquery, wanted);
        let parts = ["4711ab", "发票", "茶"].map(|word| {
            let part = wanted_part(word).expect("a part");
            with_part(&part, &filters[1..])
        });
        let threads = r#" AND (thread : ("0199ab" OR "01"))"#;
        let wanted = [r#""4711ab" *"#, r#""发票""#, r#""茶" *"#];
        assert_eq!(
            parts.each_ref().map(|part| part.fts5.as_str()),
            wanted
                .map(|part| format!("(words : {part}){threads}"))
                .each_ref()
                .map(String::as_str)
        );
        let wanted = ["'4711ab':*", "'发票'", "'茶':*"];
        assert_eq!(
            parts.map(|part| part.tsquery),
            wanted.map(|part| format!("{part} & ('thread:0199ab' | 'thread:01')"))
        );
        assert_eq!(
            (column(LetterColumn::Sender, "?!"), in_threads(&[])),
            (None, None)
        );
    }

    #[test]
    fn a_word_without_a_stem_finds_nothing() {
        assert_eq!(within("?!", &[]).tsquery, "");
        assert_eq!(anywhere("?!"), None);
    }

    #[test]
    fn a_query_is_bounded() {
        let many = "word ".repeat(1000);
        let query = all_of(&many, "").expect("words");
        assert_eq!(query.fts5.split(' ').count(), WORDS_MAX);
        assert_eq!(query.tsquery.split(" & ").count(), WORDS_MAX);
    }
}
