//! Facts that a summary of letters must repeat: those of what the letters say. What stands at their ends again and again, how
//! their writers sign, and code need not be repeated; a summary may still name it.

use super::code::{is_code, is_code_word, is_prompt};
use super::facts::{Fact, facts_of, is_no_name};
use super::quoted::without_quotes;
use crate::text::stop_words::is_stop_word;
use std::collections::{HashMap, HashSet};

/// Lines at the end of a letter among which footers and signatures stand.
const TAIL_LINES: usize = 15;
/// Most lines that follow a sign-off to the end of a letter.
const SIGNATURE_LINES: usize = 20;
/// Most words of a name behind a sign-off, such as `Thanks, Anna Berg`.
const NAME_WORDS: usize = 3;
const CURRENCIES: [&str; 7] = ["€", "$", "£", "EUR", "USD", "GBP", "CHF"];
/// Words in names of people, offices and streets.
const PARTICLES: [&str; 24] = [
    "of", "and", "the", "for", "at", "in", "de", "del", "der", "des", "di", "da", "du", "la", "le",
    "von", "van", "zu", "und", "für", "et", "y", "e", "o",
];
/// Characters of a line that is drawn.
const RULE_CHARS: usize = 5;
/// Characters of a fact; a longer one is a link with the marks of a session or a tracker.
const FACT_CHARS_MAX: usize = 150;
/// Words of which a sign-off consists.
const SIGN_OFF_WORDS: &str = "regards best kind kindest warm warmest with many thanks thank thx you cheers sincerely yours truly faithfully \
    greetings wishes all the very much a lot again in advance mit freundlichen freundlichem vielen viele liebe dank grüße grüßen gruß \
    cordialement cordiali saluti saludos atentamente";

/// Returns the facts of letters that stand under head lines (`=== …`), in order, each once.
pub fn required_facts(letters: &str) -> Vec<Fact> {
    let (heads, letters): (Vec<&str>, Vec<Vec<&str>>) = letters_of(letters).into_iter().unzip();
    let letters = without_quotes(&letters);
    let repeated = repeated_at_ends(&letters);
    let mut text = String::new();
    for (head, lines) in heads.iter().zip(&letters) {
        let (mut is_fenced, mut is_console) = (false, false);
        for line in without_signature(lines, &writer_of(head)) {
            let is_fence = line.trim_start().starts_with("```");
            is_fenced ^= is_fence;
            is_console = is_prompt(line) || is_console && !line.trim().is_empty();
            let is_left_out = is_fence
                || is_console
                || is_fenced
                || repeated.contains(line.trim()) && !tells_a_number(line)
                || is_code(line);
            if !is_left_out {
                let said = line.trim_start();
                text.push_str(&line[..line.len() - said.len()]);
                let words = said.split_whitespace().filter(|word| !is_code_word(word));
                text.extend(words.flat_map(|word| [word, " "]));
            }
            text.push('\n');
        }
        text.push('\n');
    }
    let mut facts = facts_of(&text);
    facts.retain(|fact| fact.shown.chars().count() <= FACT_CHARS_MAX);
    facts
}

/// Returns the head line of each letter and its other lines, as far as a mark of a signature.
fn letters_of(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut letters: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut is_signed = false;
    for line in text.lines() {
        if line.starts_with("===") {
            letters.push((line, Vec::new()));
            is_signed = false;
            continue;
        }
        is_signed |= line.trim_end() == "--";
        if is_signed {
            continue;
        }
        match letters.last_mut() {
            Some((_, letter)) => letter.push(line),
            None => letters.push(("", vec![line])),
        }
    }
    letters
}

/// Returns the lines that stand at the ends of several letters: footers of lists and offices. A letter that begins as another
/// does was sent twice, and repeats what it says.
fn repeated_at_ends<'t>(letters: &[Vec<&'t str>]) -> HashSet<&'t str> {
    let (mut counts, mut openings) = (HashMap::<&str, usize>::new(), HashSet::new());
    for letter in letters
        .iter()
        .filter(|letter| openings.insert(opening(letter)))
    {
        let tail = &letter[letter.len().saturating_sub(TAIL_LINES)..];
        let lines: HashSet<&str> = tail.iter().map(|line| line.trim()).collect();
        for line in lines.into_iter().filter(|line| !line.is_empty()) {
            *counts.entry(line).or_default() += 1;
        }
    }
    let repeated = counts.into_iter().filter(|(_, count)| *count > 1);
    repeated.map(|(line, _)| line).collect()
}

/// Returns the first line that says something: it greets and thanks nobody.
fn opening<'t>(letter: &[&'t str]) -> Option<&'t str> {
    let mut lines = letter
        .iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty());
    let first = lines.next()?;
    let is_greeting =
        !first.ends_with(['.', '?']) && first.split_whitespace().count() <= NAME_WORDS + 1;
    let first = Some(first).filter(|_| !is_greeting);
    first
        .into_iter()
        .chain(lines)
        .find(|line| !is_sign_off(line))
}

/// Returns the names in the address of the sender that a head line says, in small letters.
fn writer_of(head: &str) -> HashSet<String> {
    let (sender, _) = head.split_once(", subject:").unwrap_or((head, ""));
    let words = sender.split_whitespace();
    let locals = words.filter_map(|word| word.rsplit_once('@').map(|(local, _)| local));
    let names = locals.flat_map(|local| local.split(|c: char| !c.is_alphabetic()));
    let names = names.filter(|name| name.chars().count() > 1);
    names.map(str::to_lowercase).collect()
}

/// Returns the lines of a letter without those in which its writer signs: near its end and below something that was said, from
/// a sign-off or the writer's name in a line of its own, to the end or to a line that goes on, such as a postscript. Below a rule
/// stands the footer of a list or an office, whose sentences go on only with a number.
fn without_signature<'t>(lines: &[&'t str], writer: &HashSet<String>) -> Vec<&'t str> {
    let tail = lines.len().saturating_sub(SIGNATURE_LINES + 1);
    let (mut kept, mut is_signing, mut is_footer) = (Vec::new(), false, false);
    for (number, line) in lines.iter().enumerate() {
        let above = number
            .checked_sub(1)
            .map_or("", |above| lines[above].trim());
        let is_end = is_sign_off(line) || above.is_empty() && is_name_of(writer, line);
        let is_end = is_end && number >= tail && opening(&kept).is_some();
        let is_more = match is_footer {
            true => is_postscript(line) || tells_a_number(line),
            false => goes_on(line),
        };
        is_signing = is_end || is_signing && !is_more;
        is_footer = is_signing && (is_footer || is_rule(line));
        if !is_signing {
            kept.push(*line);
        }
    }
    kept
}

/// Reports whether a line begins with a name of the writer and says nothing beside names and titles.
fn is_name_of(writer: &HashSet<String>, line: &str) -> bool {
    let says = |word: &&str| word.contains(char::is_alphanumeric);
    let mut words = line.split_whitespace().filter(says);
    let first = words.next().unwrap_or_default();
    let first = first.trim_matches(|c: char| !c.is_alphabetic());
    writer.contains(&first.to_lowercase())
        && !line.trim_end().ends_with([':', '?'])
        && !line.contains(|c: char| c.is_ascii_digit())
        && words.clone().count() <= NAME_WORDS + 1
        && words.all(|word| !word.starts_with(char::is_lowercase))
}

/// Reports whether a line below a sign-off is no signature: a postscript, a sentence or an amount.
fn goes_on(line: &str) -> bool {
    let has_amount = || CURRENCIES.iter().any(|mark| line.contains(mark));
    is_postscript(line) || is_sentence(line) || has_amount()
}

fn is_postscript(line: &str) -> bool {
    let word = line.trim_start().to_lowercase();
    word.starts_with("ps") || word.starts_with("p.s")
}

/// Reports whether a line is drawn, such as `______`.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= RULE_CHARS && line.chars().all(|c| "_-=*~".contains(c))
}

/// Reports whether a line that letters repeat says a number all the same, as a reminder does: it is a sentence or an amount.
fn tells_a_number(line: &str) -> bool {
    let words = line
        .split_whitespace()
        .filter(|word| !word.contains(['@', '/']));
    let has_digit = words.flat_map(str::chars).any(|c| c.is_ascii_digit());
    has_digit && goes_on(line)
}

/// Reports whether a line has words as sentences do, beside names, their particles, labels and addresses.
fn is_sentence(line: &str) -> bool {
    let words = line
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != ':'));
    let plain = words.filter(|word| {
        let is_label_or_address = word.contains(['@', '/', '.', ':']);
        let is_small = word.starts_with(char::is_lowercase);
        let lower = word.to_lowercase();
        let is_of_sentence = is_small || is_stop_word(&lower) || is_no_name(word);
        is_of_sentence && !is_label_or_address && !PARTICLES.contains(&lower.as_str())
    });
    plain.count() >= 2
}

/// Reports whether a line is nothing but a sign-off, such as `Kind regards,` or `Thanks, Anna`.
fn is_sign_off(line: &str) -> bool {
    let (words, name) = line.split_once(',').unwrap_or((line, ""));
    let is_word = |word: &str| {
        let word = word.trim_end_matches(['.', '!']).to_lowercase();
        SIGN_OFF_WORDS.split_whitespace().any(|known| known == word)
    };
    let is_name = |word: &str| word.starts_with(char::is_uppercase);
    !words.trim().is_empty()
        && words.split_whitespace().all(is_word)
        && name.split_whitespace().count() <= NAME_WORDS
        && name.split_whitespace().all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOOTER: &str = "______\nHelp-Line mailing list\nhttps://lists.example/help-line";

    fn shown(text: &str) -> Vec<String> {
        let facts = required_facts(text).into_iter();
        facts.map(|fact| fact.shown).collect()
    }

    #[test]
    fn what_letters_say_is_required_and_how_they_end_is_not() {
        let letters = format!(
            "=== Letter of Tue, 3 Nov 2026, from Anna <anna@guest.example>\nWe pay 1,240 EUR to Keller.\nfit <- lm(y ~ x, data = d[1:20, ])\n\
             Kind regards,\nAnna Berg\nHarbour Office, Room 417\n{FOOTER}\n\n\
             === Letter of Wed, 4 Nov 2026, from Ben <ben@guest.example>\nTotal      1,300 EUR (12 nights)\n```\nRoom 99\n```\n$ ls boats\nKeller 77\n\nThanks, Ben\n\
             P.S. Please bring Dora.\n{FOOTER}\n"
        );
        let wanted = ["1,240", "EUR", "Keller", "1,300", "12", "Dora"];
        assert_eq!(shown(&letters), wanted);
    }

    #[test]
    fn a_signature_begins_with_its_writers_name() {
        let letter = |from: &str, end: &str| {
            format!("=== Letter of today from {from}, subject: Boats\nIt is 40 EUR.\n{end}\n")
        };
        let signed = "\nAda\n\n-- Ada M. Berg, Ph.D.\nMill Office (Room 5)\nTel. 417\n";
        let facts = |from: &str, end: &str| shown(&letter(from, end));
        assert_eq!(facts("ada.berg@mill.example", signed), ["40", "EUR"]);
        assert_eq!(
            facts("bo@mill.example", signed).last().map(String::as_str),
            Some("417")
        );
        let footer = "\nAda\n_____\nThe help list of boats\nhttps://lists.example/boats\n\nP.S. We ask Bo for 7 of them.";
        assert_eq!(facts("ada@mill.example", footer)[2..], ["Bo", "7"]);
        // Not in a paragraph, nor with more than a name, nor what follows as a sentence.
        for end in [
            "Ada\nRoom 5",
            "\nAda pays\nRoom 5",
            "\nAda\n\nWe take Room 5",
            "\nAda:\nRoom 5",
        ] {
            let found = facts("ada@mill.example", end);
            assert_eq!(found.last().map(String::as_str), Some("5"), "{end}");
        }
    }

    #[test]
    fn a_fact_is_required_where_it_only_looks_like_an_end() {
        // Said once, or in the middle of letters, or in a line that is more than a sign-off.
        let once = "=== Letter of today\nHello.\nhttps://lists.example/help-line\n";
        assert_eq!(shown(once), ["https://lists.example/help-line"]);
        let tracked = once.replace("line", &"line-".repeat(40));
        assert_eq!(shown(&tracked), [""; 0]);
        for begins in ["Thanks,", "Hello,\n\nMany thanks!", "Dear all\nThank you"] {
            let letter = format!(
                "=== Letter of today\n{begins}\n\nWe take 40 for Zoe.\nRegards\nAnna, Room 5\n"
            );
            assert_eq!(shown(&letter), ["40", "Zoe"].as_slice(), "{begins}");
        }
        let below = "=== Letter of today\nAll is well.\nBest regards\nAnna, Room 5\n\nBy the way, I sold 40.\n7 USD each\n";
        assert_eq!(shown(below), ["40", "7", "USD"]);
        let closing =
            "=== Letter of today\nThanks for Friday.\nBest, in advance, 40 boxes\nRoom 5 of Ada\n";
        assert_eq!(shown(closing), ["Friday", "40", "5", "Ada"]);
        let letter = |day: u32, begins: &str| {
            format!(
                "=== Letter of {day} May\n{begins}\nWe owe 40 to Zoe.\nTotal 1,300 EUR\nAnna\nRoom 5\n\n"
            )
        };
        let again = format!("{}{}", letter(3, "It is so."), letter(4, "It is so."));
        assert_eq!(shown(&again), ["40", "Zoe", "1,300", "EUR", "5"]);
        let reminded = format!(
            "{}{}",
            letter(3, "It is so."),
            letter(4, "As I wrote then:")
        );
        assert_eq!(shown(&reminded), ["40", "Zoe", "1,300", "EUR"]);
        let middle: String = ["Anna", "Ben"]
            .map(|from| {
                let rest = "So it goes on.\n".repeat(TAIL_LINES);
                format!("=== Letter from {from}\nRoom 417 is free.\n{rest}")
            })
            .concat();
        assert_eq!(shown(&middle), ["417"]);
    }
}
