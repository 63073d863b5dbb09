//! The first line of an answer, as a verdict. Pure.
//!
//! A yes is a line that holds a word of yes and nothing else: "yes, but …" and "yes?" are none, and neither is a yes that a
//! later line takes back. A no may go on with its reason.

use crate::domain::Email;
use crate::mime::{fresh_text, html_to_text};
use crate::store::ApprovalVerdict;

/// Words of yes by language, each a whole line.
pub(super) const YES: &[&[&str]] = &[
    &[
        "yes",
        "yes please",
        "approve",
        "approved",
        "ok",
        "okay",
        "send",
        "send it",
        "go ahead",
        "allow",
        "confirmed",
    ],
    &[
        "ja",
        "ja bitte",
        "genehmigt",
        "senden",
        "freigeben",
        "einverstanden",
        "in ordnung",
    ],
    &[
        "oui",
        "d'accord",
        "approuver",
        "approuvé",
        "envoyer",
        "envoie",
    ],
    &[
        "sí",
        "si",
        "aprobar",
        "aprobado",
        "enviar",
        "de acuerdo",
        "vale",
    ],
    &[
        "sì",
        "approva",
        "approvato",
        "invia",
        "va bene",
        "d'accordo",
    ],
    &["sim", "aprovar", "aprovado", "está bem"],
    &["akkoord", "goedkeuren", "goedgekeurd", "verzenden", "prima"],
    &["ja tack", "godkänn", "godkänd", "skicka"],
    &["godkend", "godkendt", "send den", "ja tak"],
    &["godkjenn", "godkjent", "ja takk"],
    &["kyllä", "hyväksy", "hyväksytty", "lähetä", "joo"],
    &["tak", "zatwierdź", "zatwierdzam", "wyślij", "zgoda"],
    &["ano", "schválit", "schvaluji", "odeslat", "souhlasím"],
    &["igen", "jóváhagyom", "küldd", "rendben"],
    &["da", "aprob", "aprobă", "trimite", "de acord"],
    &["ναι", "εγκρίνω", "στείλε", "εντάξει"],
    &[
        "да",
        "одобряю",
        "отправить",
        "согласен",
        "согласна",
        "так",
        "надіслати",
        "схвалюю",
    ],
    &["evet", "onayla", "onaylıyorum", "gönder", "tamam"],
    &["はい", "承認", "承認します", "送信", "了解"],
    &["是", "好", "同意", "批准", "发送", "可以"],
    &["네", "예", "승인", "승인합니다", "보내"],
    &["نعم", "موافق", "أوافق", "أرسل"],
    &["כן", "מאשר", "מאשרת", "שלח"],
    &["हाँ", "हां", "स्वीकृत", "भेजें"],
];

/// Words of no by language; a reason may follow.
pub(super) const NO: &[&[&str]] = &[
    &[
        "no",
        "nope",
        "reject",
        "rejected",
        "deny",
        "denied",
        "stop",
        "don't",
        "do not",
        "don't send",
        "do not send",
    ],
    &[
        "nein",
        "ablehnen",
        "abgelehnt",
        "nicht senden",
        "stopp",
        "halt",
    ],
    &["non", "refuser", "refusé", "rejeter", "arrête"],
    &["rechazar", "rechazado", "denegar", "no enviar"],
    &["rifiuta", "rifiutato", "nega", "non inviare"],
    &["não", "nao", "rejeitar", "recusar"],
    &["nee", "afwijzen", "afgewezen", "weigeren", "niet verzenden"],
    &["nej", "avslå", "neka", "avvisa", "stoppa"],
    &["afvis", "afvist"],
    &["nei", "avvis"],
    &["ei", "hylkää", "hylätty", "älä lähetä"],
    &["nie", "odrzuć", "odrzucam", "nie wysyłaj"],
    &["ne", "zamítnout", "zamítám", "neodesílat"],
    &["nem", "elutasítom", "ne küldd"],
    &["nu", "resping", "refuz"],
    &["όχι", "απορρίπτω", "μη στείλεις"],
    &[
        "нет",
        "отклонить",
        "отклоняю",
        "не отправлять",
        "ні",
        "відхилити",
    ],
    &["hayır", "hayir", "reddet", "reddediyorum", "gönderme"],
    &["いいえ", "却下", "却下します", "送信しない"],
    &["否", "不", "不行", "拒绝", "不同意", "不要发送"],
    &["아니요", "아니오", "거부", "거절"],
    &["لا", "أرفض", "مرفوض"],
    &["לא", "דחה", "אל תשלח"],
    &["नहीं", "अस्वीकृत", "मत भेजो"],
];

/// Words before an instruction for another proposal: `edit: …`.
pub(super) const EDIT: &[&str] = &[
    "edit",
    "change",
    "ändern",
    "aendern",
    "modifier",
    "cambiar",
    "modifica",
    "alterar",
    "wijzig",
    "ändra",
    "muokkaa",
    "zmień",
    "upravit",
    "изменить",
    "düzenle",
    "修改",
    "変更",
    "수정",
];

/// A verdict, and what its writer adds: a reason or an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadVerdict {
    pub verdict: ApprovalVerdict,
    pub words: String,
}

/// Reads the verdict of a letter. `None`: it holds none, or its text and its HTML do not both say yes.
pub fn read_letter(email: &Email) -> Option<ReadVerdict> {
    let read = read_own(&email.text, &email.fresh_text)?;
    let html = email.html.as_deref();
    let Some(html) = html.filter(|_| read.verdict == ApprovalVerdict::Approve) else {
        return Some(read);
    };
    // What its writer saw while writing is the HTML, where there is one.
    let shown = html_to_text(html);
    let also = read_own(&shown, &fresh_text(&shown, &email.subject))?;
    (also.verdict == ApprovalVerdict::Approve).then_some(read)
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
        return (!below.iter().any(|line| takes_back(line))).then(|| ReadVerdict {
            verdict: ApprovalVerdict::Approve,
            words: String::new(),
        });
    }
    let reason = match contains(NO, &plain(first)) {
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

pub(super) fn contains(words: &[&[&str]], line: &str) -> bool {
    words.iter().any(|language| language.contains(&line))
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
    contains(YES, &plain(line))
        && ahead
            .chars()
            .all(|c| before.contains(&c) || cheers(c) || is_silent(c))
        && behind
            .chars()
            .all(|c| after.contains(&c) || cheers(c) || is_silent(c))
        && !behind.contains("..")
}

/// First words of a condition below a yes.
const BUT: &[&str] = &[
    "but",
    "only",
    "unless",
    "aber",
    "nur",
    "mais",
    "sauf",
    "pero",
    "però",
    "ma",
    "mas",
    "maar",
    "men",
    "mutta",
    "ale",
    "dar",
    "αλλά",
    "но",
    "але",
    "ama",
    "ancak",
    "لكن",
    "אבל",
    "लेकिन",
    "但",
    "但是",
    "でも",
    "ただし",
    "하지만",
];

/// Reports whether a line below a yes says that it is none after all.
pub(super) fn takes_back(line: &str) -> bool {
    let words = plain(line);
    let first = words
        .split([' ', ',', '，', '、'])
        .next()
        .unwrap_or_default();
    !is_quoted(line)
        && line.starts_with(char::is_alphabetic)
        && (contains(NO, &words)
            || BUT.contains(&first)
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
    (contains(NO, &plain(word)) && !reason.is_empty()).then_some(reason)
}

/// Returns the instruction behind `edit:`.
fn edit(line: &str) -> Option<&str> {
    let (word, instruction) = line.split_once([':', '：'])?;
    EDIT.contains(&plain(word).as_str())
        .then_some(instruction.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_means_both() {
        for yes in YES.iter().copied().flatten() {
            assert!(!contains(NO, yes) && !EDIT.contains(yes), "{yes}");
        }
    }

    #[test]
    fn every_word_is_understood_as_people_write_it() {
        for (words, wanted) in [
            (YES, ApprovalVerdict::Approve),
            (NO, ApprovalVerdict::Reject),
        ] {
            for word in words.iter().copied().flatten() {
                let upper: String = word.chars().flat_map(char::to_uppercase).collect();
                for text in [
                    (*word).to_owned(),
                    format!("\n  {word}.\n\nBest,\nOlga"),
                    format!("*{word}!*"),
                    format!("{word} 👍"),
                    format!("\u{feff}{word}\r\n"),
                    // Not for `ı`, whose upper case is that of another letter.
                    if upper.to_lowercase() == *word {
                        upper
                    } else {
                        (*word).to_owned()
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
}
