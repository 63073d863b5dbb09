//! English stems, as SQLite's `porter` tokenizer makes them (Porter, "An algorithm for suffix stripping", 1980, with the
//! few differences of `fts5_tokenize.c`), so that what is scored in memory meets what the index has. Pure.

/// Longest word, in bytes, that has a stem; longer ones stay as they are.
const WORD_BYTES_MAX: usize = 64;
/// Shortest word, in bytes, that has a stem.
const WORD_BYTES_MIN: usize = 3;

/// An ending, what replaces it, and what has to hold for the part before it.
type EndingRule = (&'static str, &'static str, Measure);

/// Condition on the part before an ending: its number of sequences of vowels and consonants.
#[derive(Clone, Copy, PartialEq)]
enum Measure {
    Positive,
    AtLeastTwo,
    /// And the part ends in `s` or `t`.
    AtLeastTwoAfterSt,
}

use Measure::{AtLeastTwo, AtLeastTwoAfterSt, Positive};

const SECOND: &[EndingRule] = &[
    ("ational", "ate", Positive),
    ("tional", "tion", Positive),
    ("enci", "ence", Positive),
    ("anci", "ance", Positive),
    ("izer", "ize", Positive),
    ("logi", "log", Positive),
    ("bli", "ble", Positive),
    ("alli", "al", Positive),
    ("entli", "ent", Positive),
    ("eli", "e", Positive),
    ("ousli", "ous", Positive),
    ("ization", "ize", Positive),
    ("ation", "ate", Positive),
    ("ator", "ate", Positive),
    ("alism", "al", Positive),
    ("iveness", "ive", Positive),
    ("fulness", "ful", Positive),
    ("ousness", "ous", Positive),
    ("aliti", "al", Positive),
    ("iviti", "ive", Positive),
    ("biliti", "ble", Positive),
];

const THIRD: &[EndingRule] = &[
    ("ical", "ic", Positive),
    ("ness", "", Positive),
    ("icate", "ic", Positive),
    ("iciti", "ic", Positive),
    ("ful", "", Positive),
    ("ative", "", Positive),
    ("alize", "al", Positive),
];

const FOURTH: &[EndingRule] = &[
    ("al", "", AtLeastTwo),
    ("ance", "", AtLeastTwo),
    ("ence", "", AtLeastTwo),
    ("er", "", AtLeastTwo),
    ("ic", "", AtLeastTwo),
    ("able", "", AtLeastTwo),
    ("ible", "", AtLeastTwo),
    ("ant", "", AtLeastTwo),
    ("ement", "", AtLeastTwo),
    ("ment", "", AtLeastTwo),
    ("ent", "", AtLeastTwo),
    ("ion", "", AtLeastTwoAfterSt),
    ("ou", "", AtLeastTwo),
    ("ism", "", AtLeastTwo),
    ("ate", "", AtLeastTwo),
    ("iti", "", AtLeastTwo),
    ("ous", "", AtLeastTwo),
    ("ive", "", AtLeastTwo),
    ("ize", "", AtLeastTwo),
];

/// Returns the stem of a word in lower case without accents.
pub fn stem(word: &str) -> String {
    if word.len() < WORD_BYTES_MIN || word.len() > WORD_BYTES_MAX {
        return word.to_owned();
    }
    let mut stem = word.to_owned();
    drop_plural(&mut stem);
    drop_past_and_gerund(&mut stem);
    if stem.ends_with('y') && has_vowel(&stem.as_bytes()[..stem.len() - 1]) {
        replace_end(&mut stem, 1, "i");
    }
    for rules in [SECOND, THIRD, FOURTH] {
        apply(&mut stem, rules);
    }
    if stem.ends_with('e') {
        let before = &stem.as_bytes()[..stem.len() - 1];
        let measure = measure(before);
        if measure > 1 || (measure == 1 && !ends_short(before)) {
            replace_end(&mut stem, 1, "");
        }
    }
    if stem.ends_with("ll") && measure(&stem.as_bytes()[..stem.len() - 1]) > 1 {
        replace_end(&mut stem, 1, "");
    }
    stem
}

fn drop_plural(stem: &mut String) {
    let bytes = stem.as_bytes();
    let cut = match bytes {
        [.., b's', b's', b'e', b's'] if bytes.len() > 4 => 2,
        [.., b'i', b'e', b's'] if bytes.len() > 3 => 2,
        [.., b's', b's'] => 0,
        [.., b's'] => 1,
        _ => 0,
    };
    replace_end(stem, cut, "");
}

fn drop_past_and_gerund(stem: &mut String) {
    let before = |ending: &str| {
        let is_it = stem.len() > ending.len() && stem.ends_with(ending);
        is_it.then(|| &stem.as_bytes()[..stem.len() - ending.len()])
    };
    if let Some(before) = before("eed") {
        if measure(before) > 0 {
            replace_end(stem, 1, "");
        }
        return;
    }
    let ending = ["ed", "ing"]
        .into_iter()
        .find(|ending| before(ending).is_some_and(has_vowel));
    let Some(ending) = ending else { return };
    replace_end(stem, ending.len(), "");
    for (cut, whole) in [("at", "ate"), ("bl", "ble"), ("iz", "ize")] {
        if stem.len() > cut.len() && stem.ends_with(cut) {
            replace_end(stem, cut.len(), whole);
            return;
        }
    }
    let bytes = stem.as_bytes();
    match bytes {
        [.., a, b]
            if a == b
                && b.is_ascii()
                && !is_vowel(*b, false)
                && !matches!(b, b'l' | b's' | b'z') =>
        {
            replace_end(stem, 1, "");
        }
        _ if measure(bytes) == 1 && ends_short(bytes) => stem.push('e'),
        _ => {}
    }
}

/// Applies the first rule whose ending the word has and whose condition holds; one whose condition does not hold ends the
/// search, too.
fn apply(stem: &mut String, rules: &[EndingRule]) {
    let is_it = |rule: &&EndingRule| stem.len() > rule.0.len() && stem.ends_with(rule.0);
    let Some((ending, replacement, condition)) = rules.iter().find(is_it) else {
        return;
    };
    let before = &stem.as_bytes()[..stem.len() - ending.len()];
    let holds = match condition {
        Positive => measure(before) > 0,
        AtLeastTwo => measure(before) > 1,
        AtLeastTwoAfterSt => matches!(before.last(), Some(b's' | b't')) && measure(before) > 1,
    };
    if holds {
        replace_end(stem, ending.len(), replacement);
    }
}

/// Replaces the last `cut` bytes, which are ASCII.
fn replace_end(stem: &mut String, cut: usize, replacement: &str) {
    stem.truncate(stem.len() - cut);
    stem.push_str(replacement);
}

fn is_vowel(byte: u8, is_y_one: bool) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u') || (is_y_one && byte == b'y')
}

/// Reports of each byte whether it is a consonant: `y` is one at the beginning and behind a vowel.
fn consonants(bytes: &[u8]) -> Vec<bool> {
    let mut before = false;
    let of = |byte: &u8| {
        before = !is_vowel(*byte, before);
        before
    };
    bytes.iter().map(of).collect()
}

/// Number of times that a consonant follows a vowel.
fn measure(bytes: &[u8]) -> usize {
    let consonants = consonants(bytes);
    consonants
        .windows(2)
        .filter(|pair| !pair[0] && pair[1])
        .count()
}

fn has_vowel(bytes: &[u8]) -> bool {
    let is_one = |(place, byte): (usize, &u8)| is_vowel(*byte, place > 0);
    bytes.iter().enumerate().any(is_one)
}

/// Reports whether the bytes end in consonant, vowel, consonant, the last not `w`, `x` or `y`.
fn ends_short(bytes: &[u8]) -> bool {
    let ends = consonants(bytes).ends_with(&[true, false, true]);
    ends && !matches!(bytes.last(), Some(b'w' | b'x' | b'y'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (forms, wanted) in [
            ("prefer prefers preferred preferring", "prefer"),
            ("invoice invoices invoiced", "invoic"),
            ("travel travels", "travel"),
            ("ponies", "poni"),
            ("generalizations", "gener"),
            ("hopping hop", "hop"),
            ("hoping hope", "hope"),
            ("gäste", "gäste"),
            ("at", "at"),
        ] {
            for form in forms.split(' ') {
                assert_eq!(stem(form), wanted, "{form}");
            }
        }
    }
}
