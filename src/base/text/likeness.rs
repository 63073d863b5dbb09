//! Texts compared: whether two say the same, where a quote stands, which words of a query occur. Pure.

use super::one_line;
use super::word_parts::stems;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Words in which sentences that say the same may differ, in English and German. Words that deny, limit or count are none
/// of them.
const SMALL_WORDS: &str = "a an the is are was were am be been being has have had do does did will would can could may to of in on \
    at for from with by as and or that this these those it its he she they we i you his her their my our your him them us me who \
    which there here so then also der die das ein eine einen einem einer eines ist sind war waren hat haben hatte wird werden zu zum \
    zur im am an auf für von vom mit bei als und oder dass er sie es wir ihr ich du sein seine seinen ihre ihren mein meine unser \
    unsere euch uns ihm ihn auch da dann hier dort";

static SMALL_STEMS: LazyLock<BTreeSet<String>> =
    LazyLock::new(|| stems(SMALL_WORDS).into_iter().collect());

/// Reports whether two texts say the same: each sentence of the one stands in the other with the same words, but for small
/// ones, their order and their endings. A text that joins several entries, or quotes one with a heading, is like each of them.
///
/// A name, a number, a denial or any other word that differs makes two texts different: what changed must not pass as a
/// confirmation of what was.
pub fn says_the_same(a: &str, b: &str) -> bool {
    if plain(a) == plain(b) {
        return true;
    }
    let (a, b) = (sentences(a), sentences(b));
    let (fewer, more) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    !fewer.is_empty() && fewer.iter().all(|sentence| more.contains(sentence))
}

/// Returns the stems of the telling words of each sentence.
fn sentences(text: &str) -> Vec<BTreeSet<String>> {
    let ends = |c: char| ".!?;:".contains(c);
    let mut sentences = vec![BTreeSet::new()];
    for word in text.split_whitespace() {
        let telling = stems(word).into_iter();
        let telling = telling.filter(|stem| !SMALL_STEMS.contains(stem));
        if let Some(sentence) = sentences.last_mut() {
            sentence.extend(telling);
        }
        if word.ends_with(ends) {
            sentences.push(BTreeSet::new());
        }
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// Reports whether two texts are about the same: of their telling words at least two, and two in five, are in both.
pub fn is_near(a: &str, b: &str) -> bool {
    let words = |text: &str| sentences(text).into_iter().flatten().collect();
    let (a, b): (BTreeSet<String>, BTreeSet<String>) = (words(a), words(b));
    let (shared, all) = (a.intersection(&b).count(), a.union(&b).count());
    shared >= 2 && shared * 5 >= all * 2
}

/// Lower case, one blank between words, no punctuation: what is compared.
fn plain(text: &str) -> String {
    let letters = text.chars().map(|c| match c.is_alphanumeric() {
        true => c,
        false => ' ',
    });
    one_line(&letters.collect::<String>().to_lowercase())
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
            "No coffee, Anna drinks the green teas",
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
    fn texts_about_the_same_are_near() {
        let train = "Carol arrives by train at nine on Friday.";
        for near in [
            "Carol arrives by train at ten on Friday.",
            "Carol's train arrives on Friday at nine.",
        ] {
            assert!(is_near(train, near), "{near}");
        }
        for far in [
            "Carol drinks tea.",
            "The office closes at nine on Friday.",
            "Carol",
        ] {
            assert!(!is_near(train, far), "{far}");
        }
    }

    #[test]
    fn what_has_changed_does_not_say_the_same() {
        for (known, new) in [
            (
                "Hal is allergic to nuts and milk.",
                "Hal is not allergic to nuts and milk.",
            ),
            (
                "Hal is allergic to nuts.",
                "Hal is allergic to nuts and milk.",
            ),
            ("Hal's room is 12.", "Hal's room is 13."),
            (
                "Hal pays invoice 2026-0041 on Friday.",
                "Hal pays invoice 2026-0042 on Friday.",
            ),
            (
                "Hal takes the train at 9:15 to Bonn.",
                "Hal takes the train at 10:15 to Bonn.",
            ),
            ("Hal's son Max is ten.", "Hal's son Tom is ten."),
            (
                "Hal's son Tim is ten years old.",
                "Hal's son Tim is twelve years old.",
            ),
            (
                "Locker A1 in the cellar is Hal's.",
                "Locker B2 in the cellar is Hal's.",
            ),
            (
                "Hal wants his mail before the weekend.",
                "Hal wants his mail after the weekend.",
            ),
        ] {
            assert!(
                !says_the_same(known, new) && !says_the_same(new, known),
                "{new}"
            );
        }
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
