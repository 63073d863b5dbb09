//! Search terms of an input. Pure.

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
    // Stop words count as seen.
    let mut seen: BTreeSet<String> = STOP_WORDS.split(' ').map(str::to_owned).collect();
    let mut fresh = |text: &str| -> Vec<String> {
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        let words = text
            .split(|c: char| !c.is_alphanumeric())
            .map(str::to_lowercase);
        words
            .filter(|word| is_long_enough(word) && seen.insert(word.clone()))
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

/// English and German words that occur in letters on any subject.
const STOP_WORDS: &str = "\
    about after again all also and any are ask asked because been before being best but can could dear \
    did does doing don each for from fwd get give good greetings had has have having hello her here him \
    his how however into isn its just kind know let like look may might more most much must need not now \
    off one only other our out over own please question regards same she should some such sincerely tell \
    than thank thanks that the their them then there these they thing this those through too very want \
    was way well were what when where which while who whom why will wish with would yes yet you your \
    yours aber alle als auch auf aus bei bin bis bitte dann das dass dem den der des die dies diese doch \
    dort ein eine einem einen einer eines etwas frau freundlichen für grüße grüßen haben hallo hat herr \
    ich ihr ihre ihnen ist kann kein keine können liebe lieber man mehr mein meine mit möchte nach nicht \
    noch nur oder ohne schon sehr sein sich sie sind und uns unser viele vom von vor war was wegen wenn \
    wer werden wie wir wird wo wurde zum zur über";

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
