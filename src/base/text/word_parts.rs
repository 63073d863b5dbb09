//! Words of a text for a search, and parts of words by which they are found too: pairs of letters of scripts that
//! write no blanks, and the ends of codes such as `4711AB`. Pure.

use crate::text::stem::stem;
use std::collections::BTreeSet;

/// Longest code that is found by its parts, in characters; a longer one is a digest or an address of the web.
const CODE_CHARS_MAX: usize = 32;
/// Shortest part of a code with letters, and of one of digits only, that finds it.
const MIXED_PART_CHARS_MIN: usize = 3;
const DIGITS_PART_CHARS_MIN: usize = 4;
/// Shortest number that is a code; a shorter one is a price or a year, and a word.
const DIGITS_CHARS_MIN: usize = 6;
/// Most characters that are read of one text, and most parts of it.
const TEXT_CHARS_MAX: usize = 100_000;
const PARTS_MAX: usize = 4_000;
/// Characters that join the parts of a code.
const JOINERS: &str = "-/._:#";

/// Returns the stems of a text's words in order, as FTS5 makes them with `porter unicode61 remove_diacritics 2`.
pub fn stems(text: &str) -> Vec<String> {
    let plain: String = text.chars().filter(|c| !is_mark(*c)).collect();
    let words = plain.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(|word| stem(&plain_letters(word)))
        .collect()
}

/// Lower case, without the accents of Latin letters.
fn plain_letters(word: &str) -> String {
    let lower = word.chars().flat_map(char::to_lowercase);
    lower.filter(|c| !is_mark(*c)).map(without_accent).collect()
}

fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

fn without_accent(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    let of_base = |letters: &&&str| letters.chars().skip(1).any(|accented| accented == c);
    let base = ACCENTED.iter().find(of_base);
    base.and_then(|letters| letters.chars().next()).unwrap_or(c)
}

/// Letters with what Unicode decomposes to them and an accent.
const ACCENTED: &[&str] = &[
    "aàáâãäåāăąǎạảấầẩẫậắằẳẵặ",
    "cçćĉċč",
    "dďḍ",
    "eèéêëēĕėęěẹẻẽếềểễệ",
    "gĝğġģǧ",
    "hĥḥ",
    "iìíîïĩīĭįǐịỉ",
    "jĵ",
    "kķǩ",
    "lĺļľ",
    "nñńņňǹ",
    "oòóôõöōŏőǒơọỏốồổỗộớờởỡợ",
    "rŕŗř",
    "sśŝşšșṣ",
    "tţťțṭ",
    "uùúûüũūŭůűųǔưụủứừửữự",
    "wŵẁẃẅ",
    "yýÿŷỳỵỷỹ",
    "zźżžẓ",
];

/// Reports whether words are written with a character without blanks between them, or with endings that join them:
/// Chinese, Japanese, Korean.
pub fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{3041}'..='\u{3096}' | '\u{309d}'..='\u{309f}' | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' // kana
        | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9d}'
        | '\u{3005}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}'
        | '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Splits a word into runs of one kind, and tells of each whether it is unspaced.
pub fn runs(word: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut kind = None;
    for (place, c) in word.char_indices() {
        let here = is_unspaced(c);
        if let Some(before) = kind
            && before != here
        {
            found.push((&word[start..place], before));
            start = place;
        }
        kind = Some(here);
    }
    found.extend(kind.map(|kind| (&word[start..], kind)));
    found
}

/// Returns the pairs of neighbours in a run of unspaced characters; of a single one, itself.
pub fn pairs(run: &str) -> Vec<String> {
    let letters: Vec<char> = run.chars().collect();
    match &letters[..] {
        [_] => vec![run.to_owned()],
        _ => letters.windows(2).map(String::from_iter).collect(),
    }
}

/// Returns the part of a code that a word of a query names: lower case, without what joins it; `None` for a word
/// that is no part of a code.
pub fn code_part(word: &str) -> Option<String> {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || JOINERS.contains(c);
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if !word.chars().all(is_inner) || !word.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let code = joined(word);
    let is_mixed = code.contains(|c: char| c.is_ascii_alphabetic());
    let least = match is_mixed {
        true => MIXED_PART_CHARS_MIN,
        false => DIGITS_PART_CHARS_MIN,
    };
    (least..=CODE_CHARS_MAX)
        .contains(&code.len())
        .then_some(code)
}

fn joined(code: &str) -> String {
    let letters = code.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns the parts by which a text is found beside its words: pairs of unspaced characters with the last of each run,
/// and each code with all of its ends, so that a part of it is the beginning of one.
pub fn text_parts(text: &str) -> BTreeSet<String> {
    let mut parts = BTreeSet::new();
    let end = text
        .char_indices()
        .nth(TEXT_CHARS_MAX)
        .map_or(text.len(), |(end, _)| end);
    for word in text[..end].split_whitespace() {
        add_runs(word, &mut parts);
        if word.contains(|c: char| c.is_ascii_digit()) {
            add_codes(word, &mut parts);
        }
        if parts.len() >= PARTS_MAX {
            break;
        }
    }
    parts
}

/// Returns the parts of a text's unspaced runs alone.
pub fn unspaced_parts(text: &str) -> BTreeSet<String> {
    let mut parts = BTreeSet::new();
    for word in text.split_whitespace() {
        add_runs(word, &mut parts);
    }
    parts
}

fn add_runs(word: &str, parts: &mut BTreeSet<String>) {
    if word.is_ascii() {
        return;
    }
    for (run, _) in runs(word)
        .into_iter()
        .filter(|(_, is_unspaced)| *is_unspaced)
    {
        let room = PARTS_MAX.saturating_sub(parts.len());
        parts.extend(pairs(run).into_iter().take(room));
        parts.extend(run.chars().last().map(String::from));
    }
}

fn add_codes(word: &str, parts: &mut BTreeSet<String>) {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || JOINERS.contains(c);
    for piece in word.split(|c: char| !is_inner(c)) {
        match piece.contains(|c: char| c.is_ascii_alphabetic()) {
            true => add_code(piece, parts),
            // Of a date, a time or a telephone number, only a long part is a code.
            false => {
                let numbers = piece.split(|c: char| JOINERS.contains(c));
                let long = numbers.filter(|number| number.len() >= DIGITS_CHARS_MIN);
                long.for_each(|number| add_code(number, parts));
            }
        }
    }
}

fn add_code(piece: &str, parts: &mut BTreeSet<String>) {
    let code = joined(piece);
    let has_digit = code.contains(|c: char| c.is_ascii_digit());
    if !has_digit || code.len() > CODE_CHARS_MAX || parts.len() >= PARTS_MAX {
        return;
    }
    let last = code.len().saturating_sub(MIXED_PART_CHARS_MIN);
    parts.extend((0..=last).map(|start| code[start..].to_owned()));
}

/// Part of words by which a word of a query is looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedPart {
    pub text: String,
    /// `true`: the beginning of a part will do.
    pub is_beginning: bool,
    /// `true`: the word may stand in a text as a word, too.
    pub is_word: bool,
}

/// Returns the part that a word of a query names; `None` for a word that is found as a word only.
pub fn wanted_part(word: &str) -> Option<WantedPart> {
    if !word.is_empty() && word.chars().all(is_unspaced) {
        return Some(WantedPart {
            text: word.to_owned(),
            is_beginning: word.chars().count() == 1,
            is_word: false,
        });
    }
    code_part(word).map(|text| WantedPart {
        text,
        is_beginning: true,
        is_word: true,
    })
}

/// Words and parts of a text that is searched in memory.
pub struct SearchedText {
    stems: Vec<String>,
    parts: BTreeSet<String>,
}

impl SearchedText {
    pub fn from_text(text: &str) -> Self {
        Self {
            stems: stems(text),
            parts: text_parts(text),
        }
    }

    /// Reports whether a word of a query stands in the text, as the index of letters would find it.
    pub fn has(&self, word: &str) -> bool {
        let part = wanted_part(word);
        let is_part = part.as_ref().is_some_and(|wanted| self.has_part(wanted));
        if is_part || part.is_some_and(|wanted| !wanted.is_word) {
            return is_part;
        }
        let phrase = stems(word);
        !phrase.is_empty() && self.stems.windows(phrase.len()).any(|here| here == phrase)
    }

    fn has_part(&self, wanted: &WantedPart) -> bool {
        let mut from = self.parts.range(wanted.text.clone()..);
        from.next().is_some_and(|part| match wanted.is_beginning {
            true => part.starts_with(&wanted.text),
            false => *part == wanted.text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_are_those_of_plain_words() {
        assert_eq!(
            stems("Prefers the CAFÉ, o\u{308}fters Ärger"),
            ["prefer", "the", "cafe", "ofter", "arger"]
        );
        assert_eq!(stems("AB-1234/x"), ["ab", "1234", "x"]);
        assert!(stems(" -- ").is_empty());
    }

    #[test]
    fn a_word_of_chinese_is_found_within_its_run() {
        let parts = text_parts("请查收发票号码 thanks 田中さんへ 안녕하세요");
        for query in ["发票", "号码", "田中", "さん", "안녕"] {
            assert!(parts.contains(query), "{query}: {parts:?}");
        }
        assert_eq!(pairs("发票号"), ["发票", "票号"]);
        assert_eq!(pairs("茶"), ["茶"]);
        assert_eq!(runs("A发票b"), [("A", false), ("发票", true), ("b", false)]);
        assert!(
            parts.contains("码") && !parts.contains("thanks"),
            "the last of a run finds itself"
        );
    }

    #[test]
    fn a_code_is_found_by_any_part_of_it() {
        let parts = text_parts("Your invoice INV-2026/0042, part 4711AB (tel. 00492281234567).");
        for query in [
            "INV-2026/0042",
            "2026/0042",
            "inv20260042",
            "0042",
            "4711",
            "711AB",
            "4711ab",
            "2281234",
        ] {
            let part = code_part(query).expect(query);
            assert!(
                parts.iter().any(|end| end.starts_with(&part)),
                "{query}: {parts:?}"
            );
        }
        assert_eq!(code_part("042"), None, "three digits are in every number");
        assert_eq!(code_part("breakfast"), None);
        assert_eq!(
            code_part("carol7@partner.test"),
            None,
            "an address is found as it is"
        );
    }

    #[test]
    fn dates_prices_and_digests_have_no_parts() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b";
        let text = format!("On 2026-11-20 at 12:30:15 it was 1999 euros {digest}");
        assert!(text_parts(&text).is_empty());
        assert!(text_parts("order 2026/004711").contains("4711"));
    }

    #[test]
    fn a_text_has_words_in_other_forms_phrases_and_parts() {
        let text =
            SearchedText::from_text("Carol prefers the early train; invoice AB-1234/x; 发票号码");
        for word in [
            "preferring",
            "Early",
            "AB-1234/x",
            "AB-1234",
            "1234",
            "号码",
            "票",
        ] {
            assert!(text.has(word), "{word}");
        }
        for word in ["late", "1234/AB", "-", "", "发号"] {
            assert!(!text.has(word), "{word}");
        }
    }

    #[test]
    fn parts_are_bounded() {
        let many: String = (0..20_000).map(|n| format!("code{n}x ")).collect();
        assert!(text_parts(&many).len() < PARTS_MAX + CODE_CHARS_MAX);
    }
}
