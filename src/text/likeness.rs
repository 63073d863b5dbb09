//! Texts compared: whether two say the same, where a quote stands, which words of a query occur. Pure.

use super::one_line;
use std::collections::BTreeSet;

/// Share of common trigrams from which two texts say the same.
const OVERLAP_MIN: f64 = 0.8;
/// Fewest trigrams of a text that is compared by its parts; shorter texts are compared whole.
const TRIGRAMS_MIN: usize = 10;

/// Reports whether two texts say the same: the trigrams of the shorter one stand in the other. A text that joins several
/// entries, or quotes one with a heading, is like each of them.
pub fn says_the_same(a: &str, b: &str) -> bool {
    let (a, b) = (plain(a), plain(b));
    if a == b {
        return true;
    }
    let (a, b) = (trigrams(&a), trigrams(&b));
    let shorter = a.len().min(b.len());
    if shorter < TRIGRAMS_MIN {
        return false;
    }
    let common = a.intersection(&b).count();
    common as f64 >= OVERLAP_MIN * shorter as f64
}

/// Lower case, one blank between words, no punctuation: what is compared.
fn plain(text: &str) -> String {
    let letters = text.chars().map(|c| match c.is_alphanumeric() {
        true => c,
        false => ' ',
    });
    one_line(&letters.collect::<String>().to_lowercase())
}

fn trigrams(plain: &str) -> BTreeSet<[char; 3]> {
    let letters: Vec<char> = plain.chars().collect();
    let of = |window: &[char]| <[char; 3]>::try_from(window).ok();
    letters.windows(3).filter_map(of).collect()
}

/// Returns where a quote stands in a text, in characters, if white space is alike: letters are wrapped by programs.
pub fn find_quote(text: &str, quote: &str) -> Option<(usize, usize)> {
    let wanted: Vec<char> = one_line(quote).chars().collect();
    if wanted.is_empty() {
        return None;
    }
    // Characters of the text with runs of blanks as one, each with its place.
    let mut squeezed: Vec<(char, usize)> = Vec::new();
    for (place, c) in text.chars().enumerate() {
        let is_blank = c.is_whitespace() || c.is_control();
        match (is_blank, squeezed.last()) {
            (true, Some((' ', _)) | None) => {}
            (true, _) => squeezed.push((' ', place)),
            (false, _) => squeezed.push((c, place)),
        }
    }
    let is_it = |window: &&[(char, usize)]| window.iter().map(|(c, _)| c).eq(&wanted);
    let found = squeezed.windows(wanted.len()).find(is_it)?;
    let ((_, start), (_, last)) = (found.first()?, found.last()?);
    Some((*start, last + 1))
}

/// Returns the share of a query's words that stand in a text, from 0 to 1; a word matches from its beginning.
pub fn words_found(query: &str, text: &str) -> f64 {
    let (query, text) = (plain(query), plain(text));
    let words: BTreeSet<&str> = query
        .split(' ')
        .filter(|word| word.chars().count() > 2)
        .collect();
    let has = |word: &&&str| {
        let stem: String = word
            .chars()
            .take(word.chars().count().clamp(3, 6))
            .collect();
        text.split(' ').any(|other| other.starts_with(&stem))
    };
    match words.len() {
        0 => 0.0,
        all => words.iter().filter(has).count() as f64 / all as f64,
    }
}

/// Returns the words of a text that name or number something and do not stand in another: those with a digit, an at sign, or
/// a capital letter that begins no sentence.
pub fn marked_words_missing(text: &str, other: &str) -> Vec<String> {
    let trimmed = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let known: BTreeSet<String> = other
        .split_whitespace()
        .map(|word| trimmed(word).to_lowercase())
        .collect();
    let mut begins = true;
    let mut missing = Vec::new();
    for word in text.split_whitespace() {
        let is_first = std::mem::replace(&mut begins, word.ends_with(['.', '!', '?', ':']));
        let word = trimmed(word);
        let is_marked = word.contains(|c: char| c.is_numeric() || c == '@')
            || (!is_first && word.starts_with(char::is_uppercase));
        if is_marked && !known.contains(&word.to_lowercase()) {
            missing.push(word);
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_repeat_or_join_others_say_the_same() {
        let tea = "Anna drinks green tea and no coffee.";
        for same in [
            "anna drinks green tea, and no coffee",
            "- [c3] anna@x.test wrote on 2026-11-03 (preference): Anna drinks green tea and no coffee.",
            "Anna drinks green tea and no coffee. She lives in Bonn, near the river.",
        ] {
            assert!(says_the_same(tea, same), "{same}");
        }
        for other in [
            "Anna lives in Bonn.",
            "Anna",
            "The meeting is on Tuesday at nine.",
        ] {
            assert!(!says_the_same(tea, other), "{other}");
        }
        assert!(says_the_same("Bonn", "bonn!"));
    }

    #[test]
    fn a_quote_is_found_however_it_is_wrapped() {
        let text = "Dear Ada,\r\n\r\nwe prefer\n  the early  train – always.\n";
        let (start, end) = find_quote(text, "prefer the early train –").expect("it stands there");
        let found: String = text.chars().skip(start).take(end - start).collect();
        assert_eq!(one_line(&found), "prefer the early train –");
        assert_eq!(find_quote(text, "the late train"), None);
        assert_eq!(find_quote(text, " \n "), None);
    }

    #[test]
    fn names_and_numbers_that_stand_nowhere_are_missing() {
        let said = "Anna pays 12 EUR to anna@x.test. She lives in Bonn.";
        let missing = |text| marked_words_missing(text, said);
        assert!(missing("She pays 12 EUR to Anna, in Bonn; she lives there.").is_empty());
        assert_eq!(
            missing("Anna pays 13 EUR to eve@x.test in Kiel."),
            ["13", "eve@x.test", "Kiel"]
        );
    }

    #[test]
    fn words_are_found_by_their_beginnings() {
        assert!(words_found("which train do they prefer", "prefers the early train") > 0.3);
        assert_eq!(words_found("allergies", "prefers the early train"), 0.0);
        assert_eq!(words_found("", "x"), 0.0);
    }
}
