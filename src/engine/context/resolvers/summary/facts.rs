//! Facts of a text: numbers, amounts, dates, addresses and names, found by their letters and digits alone. A summary is
//! compared with its letters by them, both ways.
//!
//! It finds what is written with digits or a capital letter, and numbers in words before a unit. A fact in plain words ("twice
//! the price") has none of these.

use super::dates::{MONTHS, day_key, day_of, iso_date, month_of, words_of_dates};
use crate::text::stop_words::is_stop_word;
use std::collections::HashSet;

/// Most facts that a summary must repeat.
pub const FACTS_MAX: usize = 120;

/// One fact of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// As it is written.
    pub shown: String,
    /// The same for every way to write it.
    key: String,
}

/// Characters from which on a line may be one that a mail program broke.
const BROKEN_LINE_CHARS: usize = 55;
/// Days of the week, by their first three letters.
const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];
/// Words that begin with a capital letter and name nothing, beside those that say nothing of a subject.
const NO_NAMES: &str = "i i'm i'll i've i'd re fwd ok hi hey hiya hallo hello hola ciao bonjour salut dear thanks thank regards best \
    sincerely cheers please yes no mr mrs ms dr prof ps p.s fyi btw imo imho afaik afaict fwiw iirc iiuc hth ymmv cc bcc the a an and or \
    but if when it this that we you he she they my our your";
/// Abbreviations of things that are no names: a summary may say `the processor`.
const COMMON_THINGS: &str = "cpu gpu ram ssd hdd usb pci pc os io ui gui api id url html xml csv pdf ascii faq http https ssh lan wifi \
    sms tv dvd gps dna kb mb gb tb";

/// Words of numbers from two on, which are facts before a unit: `six months`.
const NUMBER_WORDS: [&str; 2] = [
    "two three four five six seven eight nine ten eleven twelve",
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
];
/// Units of time and money in the singular, without a last `e`.
const UNITS: &str = "second minut hour day week month year percent euro dollar pound sekund stund tag woch monat jahr prozent";

/// Returns the facts of a text in order, each once. Lines that quote, what follows a signature mark, and head lines do not
/// count.
pub fn facts_of(text: &str) -> Vec<Fact> {
    let lines = text.lines().take_while(|line| line.trim_end() != "--");
    let words = words_of(lines.filter(|line| !line.starts_with('>') && !line.starts_with("===")));
    facts_of_words(&without_weekdays_of_dates(words))
}

/// Returns the words without `Tuesday` in `Tuesday, 3 November`: the day says it.
fn without_weekdays_of_dates(words: Vec<TextWord<'_>>) -> Vec<TextWord<'_>> {
    let is_of_date = |two: &[TextWord<'_>]| {
        let [word, next] = two else { return false };
        (month_of(word.text).is_some() && day_of(next.text).is_some())
            || (day_of(word.text).is_some() && month_of(next.text).is_some())
    };
    let is_said: Vec<bool> = (0..words.len())
        .map(|index| {
            let dated = words.get(index + 1..index + 3);
            WEEKDAYS.contains(&name_key(words[index].text).as_str())
                && dated.is_some_and(|two| is_of_date(two) || iso_date(two[0].text).is_some())
        })
        .collect();
    let words = words.into_iter().zip(is_said);
    words
        .filter(|(_, said)| !said)
        .map(|(word, _)| word)
        .collect()
}

fn facts_of_words(words: &[TextWord<'_>]) -> Vec<Fact> {
    let (mut facts, mut known) = (Vec::new(), HashSet::new());
    let seen = Seen {
        inner: words
            .iter()
            .filter(|word| !word.is_first && is_capitalised(word.text))
            .map(|word| word.text)
            .collect(),
        plain: words
            .iter()
            .filter(|word| word.text.starts_with(char::is_lowercase))
            .map(|word| word.text)
            .collect(),
    };
    for fact in facts_among(words, &seen) {
        if known.insert(fact.key.clone()) {
            facts.push(fact);
        }
    }
    facts
}

/// Words of a text by which a name is told from a word that begins a sentence.
#[derive(Default)]
struct Seen<'t> {
    /// Those that stand capitalised within a sentence.
    inner: HashSet<&'t str>,
    /// Those that stand in small letters.
    plain: HashSet<&'t str>,
}

/// Returns the facts of words in order.
fn facts_among<'w>(
    words: &'w [TextWord<'_>],
    seen: &'w Seen<'_>,
) -> impl Iterator<Item = Fact> + use<'w> {
    words.iter().enumerate().flat_map(move |(index, word)| {
        let next = words.get(index + 1).filter(|next| !next.is_first);
        let before = index.checked_sub(1).and_then(|index| words.get(index));
        let before = before.filter(|_| !word.is_first);
        facts_at(word, before, next, seen)
    })
}

/// Returns what a summary says that its source does not, and what it lacks of the facts that it must repeat.
pub fn differences(source: &str, required: &[Fact], summary: &str) -> Vec<String> {
    // All of its lines: a reader is shown also what looks like a quote or a signature.
    let said = facts_of_words(&words_of(summary.lines()));
    let keys: HashSet<&str> = said.iter().map(|fact| fact.key.as_str()).collect();
    let words: Vec<String> = all_words(summary).collect();
    let is_said = is_among(&words);
    let has = |fact: &Fact| keys.contains(fact.key.as_str()) || is_said(&fact.key);
    let lacking = required.iter().filter(|fact| !has(fact));
    let lacking = lacking.map(|fact| format!("lacks `{}`", fact.shown));
    let source_facts = keys_of_all_lines(source);
    let source_words = all_words(source).chain(words_of_dates(source));
    let source_words: Vec<String> = source_words.chain(names_in_addresses(source)).collect();
    let is_written = is_among(&source_words);
    let invented = said
        .iter()
        .filter(|fact| !source_facts.contains(&fact.key) && !is_written(&fact.key));
    let invented = invented.map(|fact| format!("says `{}`, which no letter says", fact.shown));
    lacking.chain(invented).collect()
}

/// Returns whether a key is one of the words, or some that stand one after the other where it has hyphens: `ice-cream`.
fn is_among(words: &[String]) -> impl Fn(&str) -> bool + use<'_> {
    let set: HashSet<&str> = words.iter().map(String::as_str).collect();
    let joined = format!(" {} ", words.join(" "));
    move |key| {
        let is_apart = || joined.contains(&format!(" {} ", key.replace('-', " ")));
        set.contains(key) || key.contains('-') && is_apart()
    }
}

struct TextWord<'t> {
    text: &'t str,
    /// `true`: it begins a sentence or a line.
    is_first: bool,
    is_at_line_start: bool,
    /// `true`: something of the sentence ends with it, so that it belongs to no word after it.
    ends: bool,
}

/// Returns the words of lines; a line that a mail program broke goes on in the next one.
fn words_of<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<TextWord<'t>> {
    let mut words = Vec::new();
    let mut is_broken = false;
    for line in lines {
        let goes_on = is_broken && !line.starts_with(char::is_whitespace);
        words_of_line(line, goes_on, &mut words);
        let ends = |c: char| c.is_alphanumeric() || c == ',';
        is_broken = line.chars().count() >= BROKEN_LINE_CHARS && line.trim_end().ends_with(ends);
    }
    words
}

fn words_of_line<'t>(line: &'t str, goes_on: bool, words: &mut Vec<TextWord<'t>>) {
    let (mut is_first, mut is_at_line_start) = (!goes_on, true);
    for piece in line.split_whitespace() {
        let text = piece.trim_matches(|c: char| !c.is_alphanumeric());
        if text.is_empty() {
            is_first |= piece.chars().all(|c| "-*•–—:.!?#".contains(c));
            // A cell of a table begins no sentence.
            is_first &= piece != "|";
            continue;
        }
        let tail = &piece[piece.rfind(text).unwrap_or(0) + text.len()..];
        words.push(TextWord {
            text,
            is_first,
            is_at_line_start,
            ends: !tail.is_empty(),
        });
        is_first = tail.contains(['.', '!', '?', ':']);
        is_at_line_start = false;
    }
}

fn facts_at(
    word: &TextWord<'_>,
    before: Option<&TextWord<'_>>,
    next: Option<&TextWord<'_>>,
    seen: &Seen<'_>,
) -> Vec<Fact> {
    let text = word.text;
    let fact = |key: String| Fact {
        shown: text.to_owned(),
        key,
    };
    if text.contains('@') || text.contains("://") {
        return vec![fact(text.to_lowercase())];
    }
    if let Some((year, month, day)) = iso_date(text) {
        return vec![fact(year.to_string()), fact(day_key(day, month))];
    }
    if text.chars().any(|c| c.is_ascii_digit()) {
        let is_enumerator = word.is_at_line_start && word.ends && text.len() <= 2;
        return match is_enumerator {
            true => Vec::new(),
            false => vec![fact(number_key(text))],
        };
    }
    if let Some(number) = next.and_then(|next| number_of_unit(text, next.text)) {
        return vec![fact(number)];
    }
    let mut facts = Vec::new();
    if let Some(date) = date_at(word, before, next) {
        facts.push(date);
    }
    let lower = text.to_lowercase();
    let is_plain = seen.plain.contains(lower.as_str());
    // `REALLY`, where the text also says `really`.
    let is_stressed = is_plain && text.len() >= 4 && text.chars().all(char::is_uppercase);
    let names = |text: &str| is_capitalised(text) && !is_no_name(text);
    let is_name = names(text)
        && !is_stressed
        && !is_stop_word(&lower)
        && (!word.is_first
            || seen.inner.contains(text)
            || !is_plain && !word.ends && next.is_some_and(|next| names(next.text)));
    if is_name {
        facts.push(fact(name_key(text)));
    }
    facts
}

/// Reports whether a word, in any case, names nothing: a greeting, a title, a pronoun or a thing.
pub fn is_no_name(text: &str) -> bool {
    let key = name_key(text);
    let mut words = NO_NAMES.split(' ').chain(COMMON_THINGS.split(' '));
    words.any(|word| word == key)
}

/// Returns the day of a month: "3 November", "November 3".
fn date_at(
    word: &TextWord<'_>,
    before: Option<&TextWord<'_>>,
    next: Option<&TextWord<'_>>,
) -> Option<Fact> {
    let month = month_of(word.text)?;
    let day = |word: &TextWord<'_>| day_of(word.text);
    let (day, shown) = match (before.and_then(day), next.and_then(day)) {
        (Some(day), _) => (day, format!("{day} {}", word.text)),
        (None, Some(day)) => (day, format!("{} {day}", word.text)),
        (None, None) => return None,
    };
    Some(Fact {
        shown,
        key: day_key(day, month),
    })
}

/// Returns the digits of a number in words, where a unit follows it.
fn number_of_unit(text: &str, next: &str) -> Option<String> {
    let (text, next) = (text.to_lowercase(), next.to_lowercase());
    let ends = ["", "s", "e", "es", "en"];
    let is_unit = |unit: &str| {
        next.strip_prefix(unit)
            .is_some_and(|end| ends.contains(&end))
    };
    let place = |words: &&str| words.split(' ').position(|word| word == text);
    let number = NUMBER_WORDS.iter().find_map(place)? + 2;
    UNITS.split(' ').any(is_unit).then(|| number.to_string())
}

/// Returns a number without separators of thousands, its decimals after a point; other codes in lower case.
fn number_key(text: &str) -> String {
    let is_plain = text
        .chars()
        .all(|c| c.is_ascii_digit() || ",.'".contains(c));
    let groups: Vec<&str> = text.split([',', '.', '\'']).collect();
    if !is_plain || groups.iter().any(|group| group.is_empty()) {
        return text.to_lowercase();
    }
    let last = groups.last().copied().unwrap_or_default();
    let has_thousands = groups.iter().skip(1).all(|group| group.len() == 3);
    match groups.len() {
        // Of a day or an hour a leading zero says nothing.
        1 if text.len() == 2 => text.trim_start_matches('0').to_owned(),
        1 => text.to_owned(),
        _ if has_thousands => groups.concat(),
        2 => format!("{}.{last}", groups[0]),
        _ if groups[1..groups.len() - 1]
            .iter()
            .all(|group| group.len() == 3) =>
        {
            format!("{}.{last}", groups[..groups.len() - 1].concat())
        }
        // A date or a version.
        _ => groups.join("."),
    }
}

/// Returns the parts of addresses in lower case, from which a writer may take a name: `ada.berg@mill.example`.
fn names_in_addresses(text: &str) -> impl Iterator<Item = String> {
    let addresses = text.split_whitespace().filter(|word| word.contains('@'));
    let parts = addresses.flat_map(|address| address.split(|c: char| !c.is_alphanumeric()));
    let names = parts.filter(|part| part.chars().all(char::is_alphabetic));
    names.map(str::to_lowercase)
}

/// Returns the key of a name; of an abbreviation neither its plural nor what a hyphen adds counts: `GPUs`, `GPU-bound`.
fn name_key(text: &str) -> String {
    let (head, tail) = text.split_once('-').unwrap_or((text, ""));
    let head = head.strip_suffix('s').unwrap_or(head);
    let is_short = head.chars().count() >= 2 && head.chars().all(char::is_uppercase);
    let text = match is_short && !tail.contains(char::is_uppercase) {
        true => head,
        false => text,
    };
    let lower = text.to_lowercase();
    let own = lower.strip_suffix("'s").or(lower.strip_suffix("’s"));
    let name = own.unwrap_or(&lower);
    let mut long = MONTHS.iter().chain(&WEEKDAYS);
    let long = long.find(|long| name.len() == 3 && long.starts_with(name));
    long.map_or(name, |long| *long).to_owned()
}

fn is_capitalised(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(char::is_uppercase)
        && text.chars().count() >= 2
        && text
            .chars()
            .all(|c| c.is_alphabetic() || "-'’.".contains(c))
}

/// Returns the keys of the facts of a text with its head lines and quotes.
fn keys_of_all_lines(text: &str) -> HashSet<String> {
    let words = words_of(text.lines());
    let facts: Vec<Fact> = facts_among(&words, &Seen::default()).collect();
    facts.into_iter().map(|fact| fact.key).collect()
}

/// Returns every word in lower case, as the key of a name or a number.
fn all_words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| c.is_whitespace() || "<>()[]\"“”,;".contains(c));
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let words = words.filter(|word| !word.is_empty());
    words.map(
        |word| match word.starts_with(|c: char| c.is_ascii_digit()) {
            true => number_key(word),
            false => name_key(word),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LETTER: &str = "=== Letter of Tue, 3 Nov 2026, from Anna <anna@guest.example>\nMaria Keller will pay 1,240.50 EUR on 17 \
        March to bank@house.example.\n> Old quote 99\nRegards\n--\nTel. 12345";

    fn shown(text: &str) -> Vec<String> {
        facts_of(text).into_iter().map(|fact| fact.shown).collect()
    }

    #[test]
    fn facts_are_numbers_dates_addresses_and_names_of_the_letter_itself() {
        let wanted = [
            "Maria",
            "Keller",
            "1,240.50",
            "EUR",
            "17",
            "17 March",
            "March",
            "bank@house.example",
        ];
        assert_eq!(shown(LETTER), wanted);
        assert_eq!(shown("1. Thanks. Please write.\n- Yes"), [""; 0]);
    }

    #[test]
    fn a_date_is_the_same_however_it_is_written() {
        let letter = "=== Letter of Tue, 03 Nov 2026 09:15 UTC\nIt ends on 2026-12-07.";
        let said = "On Tuesday, 3 November 2026 at 09:15: it ends on 7 December 2026.";
        assert_eq!(differences(letter, &facts_of(letter), said), [""; 0]);
        let other = "On 2026-11-03: it ends on 2026-12-08.";
        let wanted = [
            "lacks `2026-12-07`",
            "says `2026-12-08`, which no letter says",
        ];
        assert_eq!(differences(letter, &facts_of(letter), other), wanted);
        assert_eq!(
            shown("We saw him. (However, Hope Would be there)"),
            ["Hope"]
        );
    }

    #[test]
    fn both_ways_are_compared_and_the_way_of_writing_is_not() {
        let required = facts_of(LETTER);
        let whole =
            "Anna reports that Maria Keller pays EUR 1240.50 on March 17 to bank@house.example.";
        assert_eq!(differences(LETTER, &required, whole), [""; 0]);
        let dropped = "Anna reports that Maria pays EUR 1240.50 on March 17.";
        let wanted = ["lacks `Keller`", "lacks `bank@house.example`"];
        assert_eq!(differences(LETTER, &required, dropped), wanted);
        let lied = whole.replace("1240", "2240").replace("Anna", "Bob and Zoe");
        let found = differences(LETTER, &required, &lied);
        let wanted = [
            "lacks `1,240.50`",
            "says `Zoe`, which no letter says",
            "says `2240.50`, which no letter says",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn nothing_of_a_summary_escapes_as_a_quote_or_a_signature() {
        let whole = "Maria Keller pays EUR 1240.50 on March 17 to bank@house.example.\n> Owed: 77\n=== Old: 78\n--\nAnd 79";
        let wanted = ["77", "78", "79"].map(|n| format!("says `{n}`, which no letter says"));
        assert_eq!(differences(LETTER, &facts_of(LETTER), whole), wanted);
    }

    #[test]
    fn names_are_known_by_their_addresses_and_abbreviations_in_their_plural() {
        let letter = "=== Letter from ada.berg@mill.example\nHey Bo, IMHO the HVAC-based PLCs with a CPU are CC-ed to 8B-2.";
        let said = "Ada Berg of Mill says to Bo that the PLC with HVACs goes to 8B-2.";
        assert_eq!(shown(letter), ["Bo", "HVAC-based", "PLCs", "8B-2"]);
        assert_eq!(differences(letter, &facts_of(letter), said), [""; 0]);
        assert_eq!(
            differences("A Q-Cell", &facts_of("A Q-Cell"), "A Q cell"),
            [""; 0]
        );
        assert_eq!(
            differences("A Q Cell", &[], "A Q-Cell is no Q-Bell").len(),
            1
        );
        let lied = "Ada Burg says to Bo that the XLC with HVACs goes to 8B-2.";
        let wanted = [
            "lacks `PLCs`",
            "says `Burg`, which no letter says",
            "says `XLC`, which no letter says",
        ];
        assert_eq!(differences(letter, &facts_of(letter), lied), wanted);
    }

    #[test]
    fn a_name_is_known_from_a_word_that_begins_a_sentence() {
        let broken = "It was said in the yard, and by all who were there, that\nKeller sold it. Currently Zoe has it, and currently Bo too, NEARLY or nearly.";
        assert_eq!(shown(broken), ["Keller", "Zoe", "Bo"]);
        assert_eq!(
            shown("That is all. Remember I'm here.\nKeller sold it.\n| Boat | 40 |"),
            ["Boat", "40"]
        );
        let dated = "On Tuesday, 3 November, or Wed 2026-11-04. Not Friday 5 of us.";
        let wanted = [
            "3",
            "3 November",
            "November",
            "2026-11-04",
            "2026-11-04",
            "Friday",
            "5",
        ];
        assert_eq!(shown(dated), wanted);
        let lied = "On Monday, 3 November, or 2026-11-04. Not Friday 5.";
        let wanted = ["says `Monday`, which no letter says"];
        assert_eq!(differences(dated, &facts_of(dated), lied), wanted);
    }

    #[test]
    fn a_number_in_words_is_a_fact_before_a_unit() {
        let letter = "It takes six months, or zwölf Wochen, for two of us.";
        assert_eq!(shown(letter), ["six", "zwölf", "Wochen"]);
        let said = "It takes 6 months or 12 Wochen.";
        assert_eq!(differences(letter, &facts_of(letter), said), [""; 0]);
        let lied = "It takes nine months or 12 Wochen.";
        let wanted = ["lacks `six`", "says `nine`, which no letter says"];
        assert_eq!(differences(letter, &facts_of(letter), lied), wanted);
    }
}
