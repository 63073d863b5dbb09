//! The first line of an answer, as a verdict. Pure.
//!
//! A yes is a line that holds a word of yes and nothing else: "yes, but …" and "yes?" are none, and neither is a yes that a
//! later line takes back. A no may go on with its reason.

use crate::domain::{Email, Quotation};
use crate::mime::{html_to_text, split_quotes};
use crate::store::ApprovalVerdict;
use serde::Deserialize;
use std::sync::LazyLock;

/// Words of owners, by what they mean: `words.json`, in lower case.
#[derive(Debug, Default, Deserialize)]
pub(super) struct OwnerWords {
    /// Words of yes by language, each a whole line.
    pub yes: Vec<Vec<String>>,
    /// Words of no by language; a reason may follow.
    pub no: Vec<Vec<String>>,
    /// Words before an instruction for another proposal: `edit: …`.
    edit: Vec<String>,
    /// First words of a condition below a yes.
    but: Vec<String>,
    /// Words by which a paragraph below a yes takes it back, puts it off or changes it.
    doubts: Vec<String>,
    /// The same in scripts that set no blanks between words.
    doubt_parts: Vec<String>,
    /// Words around one of doubt that say nothing of the kind.
    harmless: Vec<String>,
    /// Words of a notice below mails.
    notices: Vec<String>,
}

/// A test reads the file, which is compiled in.
static WORDS: LazyLock<OwnerWords> =
    LazyLock::new(|| serde_json::from_str(include_str!("words.json")).unwrap_or_default());

pub(super) fn is_word_of_yes(word: &str) -> bool {
    contains(&WORDS.yes, word)
}

pub(super) fn is_word_of_no(word: &str) -> bool {
    contains(&WORDS.no, word)
}

pub(super) fn is_word_of_edit(word: &str) -> bool {
    holds(&WORDS.edit, word)
}

fn contains(words: &[Vec<String>], line: &str) -> bool {
    words.iter().any(|language| holds(language, line))
}

fn holds(words: &[String], word: &str) -> bool {
    words.iter().any(|one| one == word)
}

/// A verdict, and what its writer adds: a reason or an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadVerdict {
    pub verdict: ApprovalVerdict,
    pub words: String,
}

/// Reads the verdict of a letter. `None`: it holds none, or its text and its HTML do not both say yes.
pub fn read_letter(email: &Email) -> Option<ReadVerdict> {
    let read = read_own(&email.text, &email.fresh_text)?;
    if read.verdict != ApprovalVerdict::Approve {
        return Some(read);
    }
    if takes_back_above(&email.text, &email.quotations) {
        return None;
    }
    // What its writer saw while writing is the HTML, where there is one.
    if let Some(html) = email.html.as_deref() {
        let shown = html_to_text(html);
        let (fresh, also_cut) = split_quotes(&shown, &email.subject);
        if read_own(&shown, &fresh)?.verdict != ApprovalVerdict::Approve {
            return None;
        }
        if takes_back_above(&shown, &also_cut) {
            return None;
        }
    }
    Some(read)
}

/// Reports whether an attribution takes a yes back: a doubt about where the quotation begins is a doubt about the yes.
fn takes_back_above(text: &str, cut: &[Quotation]) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let mut attributions = cut
        .iter()
        .flat_map(|cut| lines.iter().skip(cut.lines.start).take(cut.attribution));
    attributions.any(|line| takes_back(line.trim()))
}

/// Reads the verdict of a text and of what is new in it. A text that begins with an attribution holds somebody's words, and
/// where its program marks no quotes, nobody knows whose.
fn read_own(text: &str, fresh: &str) -> Option<ReadVerdict> {
    is_own(text, fresh).then(|| read_verdict(fresh)).flatten()
}

/// Reports whether what is new in a text is known to be its writer's own.
pub(super) fn is_own(text: &str, fresh: &str) -> bool {
    let first = |text: &'_ str| {
        let mut lines = text.lines().map(str::trim);
        lines
            .find(|line| !plain(line).is_empty())
            .map(str::to_owned)
    };
    first(fresh).is_some_and(|begins| match is_quoted(&begins) {
        true => !is_between_quotes(text),
        false => first(text) == Some(begins),
    })
}

/// Reports whether words stand between quotes: they answer a part of the question. Text above the first quote introduces it.
fn is_between_quotes(text: &str) -> bool {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !plain(line).is_empty());
    let mut below = lines
        .skip_while(|line| !is_quoted(line))
        .skip_while(|line| is_quoted(line));
    below.any(is_quoted)
}

/// Returns the own lines of a letter's new text: from its first line on, or from the first below a quote that stands above
/// everything else. `None`: nobody knows which are.
pub(super) fn own_lines(fresh_text: &str) -> Option<Vec<&str>> {
    let lines = || fresh_text.lines().map(str::trim);
    let is_quote = |line: &&str| plain(line).is_empty() || is_quoted(line);
    let quote = lines().take_while(is_quote);
    let own = lines().skip(quote.count());
    let own: Vec<&str> = own.take_while(|line| !is_signature_mark(line)).collect();
    let begins_with_quote = lines()
        .find(|line| !plain(line).is_empty())
        .is_some_and(is_quoted);
    let is_in_signature = lines().take_while(is_quote).any(is_signature_mark);
    if (begins_with_quote && is_between_quotes(fresh_text)) || is_in_signature {
        return None;
    }
    Some(own)
}

/// Reads the verdict of a letter's new text: its first own line. `None`: that line is no verdict, or a later line takes a
/// yes back.
fn read_verdict(fresh_text: &str) -> Option<ReadVerdict> {
    let own = own_lines(fresh_text)?;
    let (first, below) = own.split_first()?;
    let rest = || below.join("\n").trim().to_owned();
    if let Some(instruction) = edit(first) {
        let words = format!("{instruction}\n{}", rest());
        return Some(ReadVerdict {
            verdict: ApprovalVerdict::Edit,
            words: words.trim().to_owned(),
        });
    }
    if is_yes(first) {
        let is_taken_back = below.iter().any(|line| takes_back(line))
            || below.split(|line| line.is_empty()).any(doubts);
        return (!is_taken_back).then(|| ReadVerdict {
            verdict: ApprovalVerdict::Approve,
            words: String::new(),
        });
    }
    let reason = match is_word_of_no(&plain(first)) {
        true => rest(),
        false => no_with_reason(first)?.to_owned(),
    };
    Some(ReadVerdict {
        verdict: ApprovalVerdict::Reject,
        words: reason,
    })
}

pub(super) fn is_quoted(line: &str) -> bool {
    line.starts_with(['>', '|'])
}

fn is_signature_mark(line: &str) -> bool {
    matches!(line, "--" | "—" | "__")
}

/// Reports whether a line is a word of yes and nothing that makes it another: a question, a sentence that goes on, a word
/// that is crossed out, a thumb that points down.
pub(super) fn is_yes(line: &str) -> bool {
    let before: &[char] = &['*', '_', '"', '\'', '`', '“', '„', '‘', '«', '»', '¡'];
    let after: &[char] = &[
        '*', '_', '"', '\'', '`', '”', '“', '’', '«', '»', '!', '！', '.', '。', '।', '۔',
    ];
    let cheers = |c: char| {
        // Signs of agreement, with the marks of their colour and form.
        "👍✅👌🙂😊😀🙏✔☑".contains(c)
            || ('\u{1f3fb}'..='\u{1f3ff}').contains(&c)
            || c == '\u{fe0f}'
    };
    let is_silent = |c: char| {
        c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2060}')
    };
    let word = line.trim_matches(|c: char| !c.is_alphanumeric());
    let Some((ahead, behind)) = line.split_once(word).filter(|_| !word.is_empty()) else {
        return false;
    };
    is_word_of_yes(&plain(line))
        && ahead
            .chars()
            .all(|c| before.contains(&c) || cheers(c) || is_silent(c))
        && behind
            .chars()
            .all(|c| after.contains(&c) || cheers(c) || is_silent(c))
        && !behind.contains("..")
}

/// A longer paragraph is no answer where it speaks as a notice below mails does.
const NOTICE_WORDS_MIN: usize = 20;
/// Reports whether a paragraph below a yes asks something, or holds a word of doubt or of no.
fn doubts(paragraph: &[&str]) -> bool {
    let is_own = |line: &&str| !is_quoted(line) && !is_street_address(line);
    let own = paragraph.iter().copied().filter(is_own);
    let lines: Vec<String> = own
        .map(|line| line.to_lowercase().replace('’', "'"))
        .collect();
    let mut folded = lines.join(" ");
    for harmless in &WORDS.harmless {
        folded = folded.replace(harmless, " ");
    }
    let words = folded.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let any_of = |list: &[String]| words.iter().any(|word| holds(list, word));
    if words.len() > NOTICE_WORDS_MIN && any_of(&WORDS.notices) {
        return false;
    }
    let asks = |line: &String| line.trim_end().ends_with(['?', '？', '؟']);
    lines.iter().any(asks)
        || any_of(&WORDS.doubts)
        || words.iter().any(|word| is_word_of_no(word))
        || WORDS.doubt_parts.iter().any(|part| folded.contains(part))
}

/// Reports whether a line is of an address, such as `No. 12, High Street`; `No. 12 rooms are too many` is none.
fn is_street_address(line: &str) -> bool {
    let number = line.strip_prefix("No.").map(str::trim_start);
    let number = number.and_then(|line| line.split_once(", "));
    number.is_some_and(|(number, street)| {
        !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
            && street.starts_with(char::is_uppercase)
    })
}

/// Reports whether a line below a yes says that it is none after all.
pub(super) fn takes_back(line: &str) -> bool {
    let words = plain(line);
    let first = words
        .split([' ', ',', '，', '、'])
        .next()
        .unwrap_or_default();
    !is_quoted(line)
        && !is_street_address(line)
        && line.starts_with(char::is_alphabetic)
        && (is_word_of_no(&words)
            || holds(&WORDS.but, first)
            || no_with_reason(line).is_some()
            || edit(line).is_some())
}

/// Folds the case and removes what stands around the words: punctuation, marks of emphasis, emoji.
pub(super) fn plain(line: &str) -> String {
    let folded = line.to_lowercase().replace('’', "'");
    let trimmed = folded.trim_matches(|c: char| !c.is_alphanumeric());
    trimmed.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the reason behind a no that is followed by a comma, a colon, a dash or the end of a sentence.
fn no_with_reason(line: &str) -> Option<&str> {
    let at = line.find([
        ',', ':', ';', '.', '!', '–', '—', '-', '，', '、', '。', '：', '；', '！', '،', '؛', '।',
    ])?;
    let (word, reason) = line.split_at(at);
    let reason = reason.trim_start_matches(|c: char| !c.is_alphanumeric());
    (is_word_of_no(&plain(word)) && !reason.is_empty()).then_some(reason)
}

/// Returns the instruction behind `edit:`.
fn edit(line: &str) -> Option<&str> {
    let (word, instruction) = line.split_once([':', '：'])?;
    is_word_of_edit(&plain(word)).then_some(instruction.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_means_both() {
        assert_eq!((WORDS.yes.len(), WORDS.no.len()), (24, 24));
        for yes in WORDS.yes.iter().flatten() {
            assert!(!is_word_of_no(yes) && !is_word_of_edit(yes), "{yes}");
        }
    }

    #[test]
    fn every_word_is_understood_as_people_write_it() {
        for (words, wanted) in [
            (&WORDS.yes, ApprovalVerdict::Approve),
            (&WORDS.no, ApprovalVerdict::Reject),
        ] {
            for word in words.iter().flatten() {
                let upper: String = word.chars().flat_map(char::to_uppercase).collect();
                for text in [
                    word.clone(),
                    format!("\n  {word}.\n\nBest,\nOlga"),
                    format!("*{word}!*"),
                    format!("{word} 👍"),
                    format!("\u{feff}{word}\r\n"),
                    // Not for `ı`, whose upper case is that of another letter.
                    if upper.to_lowercase() == *word {
                        upper
                    } else {
                        word.clone()
                    },
                ] {
                    let read = read_verdict(&text).map(|read| read.verdict);
                    assert_eq!(read, Some(wanted), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn a_no_may_say_why_and_a_yes_may_not_say_but() {
        let read = |text| read_verdict(text).map(|read| (read.verdict, read.words));
        assert_eq!(
            read("No, because Carol has it already."),
            Some((
                ApprovalVerdict::Reject,
                "because Carol has it already.".to_owned()
            ))
        );
        assert_eq!(
            read("Nein\n\nDas hat Zeit."),
            Some((ApprovalVerdict::Reject, "Das hat Zeit.".to_owned()))
        );
        assert_eq!(
            read("edit: say Tuesday\nand be brief"),
            Some((
                ApprovalVerdict::Edit,
                "say Tuesday\nand be brief".to_owned()
            ))
        );
        for text in [
            "Yes, but only if Carol agrees.",
            "yes and no",
            "Maybe.",
            "Who is mallory?",
            "",
            "Sounds fine to me I guess",
            "yesterday",
            "No idea who that is",
            "> yes",
            "Nobody, surely",
            "I would not say yes",
            "yes?",
            "yes …",
            "~~yes~~",
            "yes 👎",
            "yes,\nbut only if Carol agrees",
            "yes\n\nedit: say Wednesday",
            "-- \nyes",
            "> May I?\nyes\n> And this?\nno",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// Words below a yes, and whether it is one still.
    const BELOW_A_YES: &[(&str, bool)] = &[
        ("ja\n\nLieber Gruß\nOlga", true),
        ("yes\n\nTalk later, Olga", true),
        ("yes\n\nOlga Meier\nNo. 12, High Street", true),
        ("yes\n\nNo problem at all.\nOlga", true),
        ("yes\n\nOn reflection, no.", false),
        ("yes\n\nOn reflection, no. 12 rooms are too many.", false),
        ("yes\n\nNo. 12 rooms are too many.", false),
        ("yes\n\nNo: 12 is wrong", false),
        ("yes\n\nNo. 12, not 13", false),
        ("yes\nNo thanks, leave it.", false),
        ("ja\n\nAch, nein.", false),
        ("yes\n\n*No*", false),
        ("да\n\nХотя нет.", false),
        ("sí\n\nPensándolo bien, no.", false),
        ("yes\n\nIs the price right?\nOlga", false),
        (
            "yes\nActually wait until Monday.\nBest regards\nOlga Meier\nHome GmbH, 4 Mill Lane, 80331 Munich\n+49 89 123456\nwww.home.example",
            false,
        ),
        (
            "yes\n\nNow that I look at the prices again I see that he has left out the second bicycle and the luggage, so let us wait with it.",
            false,
        ),
        ("はい\n\nやっぱりやめて。", false),
        ("好\n\n等一下再说。", false),
        ("네\n\n아니, 취소해 주세요.", false),
        ("はい\n\n山田", true),
    ];

    /// Answers as owners write them, above the question that their program quotes; `None`: a person would ask back.
    #[test]
    fn an_owners_answer_is_read_as_a_person_would_read_it() {
        use ApprovalVerdict::{Approve, Edit, Reject};
        let (yes, no, edit) = (Some(Approve), Some(Reject), Some(Edit));
        let cases = [
            ("yes", yes),
            ("Yes!\n\nOlga", yes),
            ("ok 👍\n\nSent from my phone", yes),
            ("Ja.\n\nViele Grüße\nOlga\nAm Markt 3\n80331 München", yes),
            ("Ja bitte\n\nOlga", yes),
            // Two words and a comma may go on.
            ("Ja, bitte\n\nOlga", None),
            ("Yes please.\n\nOn Monday the 3rd I am away.", yes),
            ("Oui\n\nLe 3 décembre je suis absente.", yes),
            ("sí\n\nEl 3 llego tarde.", yes),
            ("send it\n\n15:30", yes),
            ("approved\n\n1. price\n2. date", yes),
            (
                "yes\n\nOlga Meier\nHome GmbH, 4 Mill Lane\n+49 89 123456",
                yes,
            ),
            (
                "yes\n\nThis e-mail is confidential and meant for its recipient alone. If you are not that person, you must not copy, use or forward it.",
                yes,
            ),
            ("kyllä\n\nTerveisin\nOlga", yes),
            ("yes\n\nno, do not send it", None),
            ("yes\n\nOn the 3rd he has left.\nNo, do not send it", None),
            ("yes\n\n2nd thought:\nno, do not send it", None),
            ("yes\n\nActually, wait until Monday.", None),
            ("yes\n\n15:30 is too early, so not like this.", None),
            ("yes\n\nOn second thought, don't.", None),
            ("Ja\n\nAm 3. ist er weg.\nNein, nicht senden.", None),
            ("ja\n\nDoch nicht, warte.", None),
            ("ja\n\n3. Gedanke: lieber morgen.", None),
            ("oui\n\nLe 3 il est parti.\nFinalement, attends.", None),
            ("sí\n\n2 cosas: mejor no.", None),
            ("sì\n\nAnzi, aspetta.", None),
            ("ja\n\nWacht toch even.", None),
            ("yes\n\nIs the price right?", None),
            ("yes?", None),
            ("yes, but only on the 3rd", None),
            ("1. yes", None),
            ("Maybe on the 3rd.", None),
            ("no", no),
            ("No, on the 3rd he has left.", no),
            ("nein\n\nAm 3. ist er weg.", no),
            ("Non.\n\nLe 3 il est parti.", no),
            ("no\n\n15:30 is wrong", no),
            ("edit: say 15:30", edit),
            ("edit: say\n1. yes\n2. no\n3. the blue one", edit),
            ("ändern: am 3. Dezember\nund 15:30 Uhr", edit),
        ];
        let quotes = [
            "\n\nOn Fri, 27 Nov 2026 at 10:00, The bot <bot@persona.test> wrote:\n\n> May I send this?\n> No, never\n",
            "\n\nOn Fri, 27 Nov 2026 at 10:00, The bot\n<bot@persona.test> wrote:\n> May I send this?\n",
            "\n\nAm 27.11.2026 um 10:00 schrieb The bot <bot@persona.test>:\n> May I send this?\n",
            "\n\nFrom: The bot <bot@persona.test>\nSent: 27 November 2026 10:00\nTo: Olga\nSubject: May I?\n\nMay I send this?\nNo, never\n",
            "",
        ];
        let below = BELOW_A_YES
            .iter()
            .map(|(answer, is_yes)| (*answer, is_yes.then_some(Approve)));
        let mut wrong = Vec::new();
        for (own, wanted) in cases.into_iter().chain(below) {
            for quote in quotes {
                let text = format!("{own}{quote}");
                let (fresh_text, quotations) = split_quotes(&text, "Re: May I?");
                let email = Email {
                    subject: "Re: May I?".to_owned(),
                    text: text.clone(),
                    fresh_text,
                    quotations,
                    ..Email::default()
                };
                let read = read_letter(&email);
                let last = own.split(['\n', ':', ',']).next_back().unwrap_or_default();
                let has_words = |read: &ReadVerdict| {
                    read.verdict == Approve || own == "no" || read.words.ends_with(last.trim())
                };
                let verdict = read.as_ref().map(|read| read.verdict);
                if verdict != wanted || !read.as_ref().is_none_or(has_words) {
                    wrong.push(format!("{text}\n=> {read:?}, not {wanted:?}\n"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
