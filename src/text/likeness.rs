//! Texts compared: whether two say the same, where a quote stands. Pure.

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
}
