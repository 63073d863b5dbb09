//! The gate between a model and a mail: what is round a letter goes, and what is no letter is not mailed. Pure.
//!
//! It reads text that a model wrote to be mailed. Absent on purpose: answers with a schema, answers to programs, and whatever an
//! owner wrote or edited, which nobody but their writer judges; reasoning, which is gone already (`providers::contract::thoughts`).

use super::frames::{fenced, has_frame, is_blank, is_heading, unframed};
use super::text_calls::{self, TextCalls};
use std::collections::{HashMap, HashSet};

/// Code of a text that is no letter: of a draft that is kept for its owner, and of a call that was to mail it.
pub const NO_LETTER: &str = "no_letter";

/// What a last text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastText {
    /// A letter, without what stood round it.
    Letter(String),
    /// Nothing that a person could read.
    Nothing,
    /// Text that is no letter.
    NoLetter(NoLetter),
}

/// Why a text is no letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLetter {
    Call,
    Json,
    Repeated,
    Echo,
    Placeholder,
}

impl NoLetter {
    /// For the owner, behind "the persona's answer".
    pub fn why(self) -> &'static str {
        match self {
            Self::Call => "is a call of a tool written as text",
            Self::Json => "is JSON",
            Self::Repeated => "says one sentence over and over",
            Self::Echo => "repeats the message that it answers",
            Self::Placeholder => "has a placeholder that nobody filled in",
        }
    }

    /// What the model is told, once.
    pub fn note(self) -> &'static str {
        match self {
            Self::Call => {
                "[engine] Your text is a tool call. Text is mailed and calls nothing. Call the tool itself, or write the letter in words."
            }
            Self::Json => {
                "[engine] Your answer is JSON, and a person reads it. Write the letter itself, in plain words."
            }
            Self::Repeated => {
                "[engine] Your answer says the same thing over and over. Write the letter once, briefly."
            }
            Self::Echo => {
                "[engine] Your answer repeats the letter that it answers. Write an answer of your own."
            }
            Self::Placeholder => {
                "[engine] Your answer has a placeholder, and it is mailed as it stands. Write it again with the fact itself, or without that part."
            }
        }
    }
}

/// Told to a model that ended without a word.
pub const NUDGE: &str = "[engine] You ended without a word, and nothing has been sent. Write the letter to the sender now. Say plainly what \
    could not be done.";

/// Reads a last text. `asked`: the text that it answers.
pub fn read(text: &str, asked: &str) -> LastText {
    let letter = unframed(text);
    if is_nothing(&letter) {
        return LastText::Nothing;
    }
    if text_calls::read(&letter, true, &|_, _| true) != TextCalls::None || is_loose_call(&letter) {
        return LastText::NoLetter(NoLetter::Call);
    }
    if is_heading(text) || has_frame(&letter) {
        return LastText::NoLetter(NoLetter::Echo);
    }
    let fault = [
        (is_json as fn(&str, &str) -> bool, NoLetter::Json),
        (is_repeated, NoLetter::Repeated),
        (is_echo, NoLetter::Echo),
        (has_placeholder, NoLetter::Placeholder),
    ];
    match fault.iter().find(|(is_so, _)| is_so(&letter, asked)) {
        Some((_, fault)) => LastText::NoLetter(*fault),
        None => LastText::Letter(letter),
    }
}

/// Texts that stand for none, without brackets and stops, in lower case.
const NOTHINGS: &[&str] = &[
    "empty content",
    "empty",
    "empty response",
    "empty message",
    "no content",
    "no reply",
    "no_reply",
    "noreply",
    "no response",
    "no response needed",
    "no reply needed",
    "no reply necessary",
    "no reply required",
    "no answer needed",
    "no answer necessary",
    "no answer required",
    "no response necessary",
    "no response required",
    "keine antwort nötig",
    "object object",
    "internal server error",
    "no_answer",
    "null",
    "nil",
    "n/a",
    "undefined",
    "nan",
    "heartbeat_ok",
    "no text",
];

/// Begins of the notes that the engine sets below a partial answer. A model that reads one in its own past letters repeats it.
const ENGINE_NOTES: &[&str] = &[
    "[this answer was cut off",
    "[this answer is incomplete",
    "[the answer was cut off",
    "[answer cut off",
];

fn is_nothing(text: &str) -> bool {
    let lines = text.lines().filter(|line| {
        let line = line.trim().to_lowercase();
        !(line.ends_with(']') && ENGINE_NOTES.iter().any(|note| line.starts_with(note)))
    });
    let low: String = lines
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
        .chars()
        .filter(|c| !is_blank(*c) || *c == ' ')
        .collect();
    let bare =
        low.trim_matches(|c: char| c.is_ascii_punctuation() && c != '/' || c == '…' || c == ' ');
    let is_word = bare
        .chars()
        .any(|c| c.is_alphanumeric() || !c.is_ascii() && !"…–—·•".contains(c));
    let is_greeting = text.trim().lines().count() == 1
        && low.trim_end().ends_with(',')
        && is_salutation(low.trim());
    let is_fault = bare.starts_with("error: 5") && bare.split(' ').count() <= 6;
    // "Done." and "None." are answers; Python's word for nothing is not.
    !is_word || NOTHINGS.contains(&bare) || text == "None" || is_greeting || is_fault
}

/// Reports whether a line in lower case begins a letter, as "dear anna," does.
fn is_salutation(line: &str) -> bool {
    let words = line.split_whitespace().count();
    words <= 5
        && [
            "dear ",
            "hi ",
            "hello ",
            "liebe",
            "sehr geehrte",
            "hallo ",
            "guten tag ",
            "bonjour ",
            "hola ",
            "ciao ",
        ]
        .iter()
        .any(|greeting| line.starts_with(greeting))
}

/// Reports whether a text is a call in a form that no server reads: that of ReAct, `name(argument="x")`, or `tool:` above `args:`.
fn is_loose_call(text: &str) -> bool {
    let starts = |mark: &str| {
        text.lines()
            .any(|line| line.trim_start().to_lowercase().starts_with(mark))
    };
    if starts("action:") && starts("action input:") {
        return true;
    }
    let trimmed = text.trim().to_lowercase();
    if trimmed.starts_with("tool:")
        && ["args:", "arguments:", "parameters:", "input:"]
            .iter()
            .any(|mark| starts(mark))
    {
        return true;
    }
    let call = trimmed.strip_prefix("print(").unwrap_or(&trimmed);
    let is_name =
        |name: &str| name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    call.ends_with(')')
        && call.lines().count() == 1
        && call.split_once('(').is_some_and(|(name, _)| is_name(name))
}

fn is_json(text: &str, _asked: &str) -> bool {
    let text = text.trim();
    let inner = fenced(text).map_or(text, |(_, inner)| inner.trim());
    let mut values = serde_json::Deserializer::from_str(inner).into_iter::<serde::de::IgnoredAny>();
    // Several values, or one that was cut off, or that of Python.
    let is_object = ["{\"", "{'", "{ \"", "{\n", "[{"]
        .iter()
        .any(|start| inner.starts_with(start));
    is_object || inner.starts_with(['{', '[']) && values.all(|value| value.is_ok())
}

/// Times that a sentence is said before the letter is looked at as one that says nothing else.
const REPEATED_MIN: usize = 5;
/// Words of a text whose words are counted.
const COUNTED_MIN: usize = 300;

fn is_repeated(text: &str, _asked: &str) -> bool {
    // Logs between fences and cells of a table repeat themselves with reason.
    let mut is_fenced = false;
    let kept = text.split_inclusive('\n').filter(|line| {
        is_fenced ^= line.trim_start().starts_with("```");
        !is_fenced && !line.trim_start().starts_with('|')
    });
    let kept: String = kept.collect();
    // A model that goes on without an end does so in a fence, too.
    let text = if text.len() > 20_000 { text } else { &kept };
    let mut said: HashMap<&str, usize> = HashMap::new();
    for sentence in text.split(['.', '!', '?', '\n', '。', '！', '？']) {
        let sentence = sentence.trim();
        // Rows of a table, numbers, rules.
        if sentence.chars().filter(|c| c.is_alphabetic()).count() >= 6 {
            *said.entry(sentence).or_default() += 1;
        }
    }
    let again = said.iter().filter(|(_, times)| **times >= REPEATED_MIN);
    let again: Vec<usize> = again
        .map(|(sentence, times)| sentence.len() * times)
        .collect();
    // One sentence that is half of the text, or some that are nearly all of it: a log has other lines, too.
    let is_most = again.iter().any(|bytes| bytes * 2 > text.len())
        || again.iter().sum::<usize>() * 5 > text.len() * 4;
    let (mut words, mut different) = (0_usize, HashSet::new());
    for word in text.split_whitespace() {
        words += 1;
        different.insert(word);
    }
    let is_endless_word = words < 20 && text.len() > 20_000
        || words < 5 && text.len() > 300 && text.chars().collect::<HashSet<_>>().len() < 5;
    is_most
        || is_endless_word
        || words >= COUNTED_MIN && different.len() * 20 < words
        || words >= 60 && different.len() <= 3
}

/// Fewest bytes that a continuation repeats of the text before it, and most that are compared.
const OVERLAP: std::ops::RangeInclusive<usize> = 12..=400;

/// Joins an answer that was cut off and its continuation. Models that were told to go on where they stopped often begin the
/// letter again, or their last sentence.
pub fn joined(beginning: &str, rest: &str) -> String {
    let first = |text: &str| {
        text.trim_start()
            .lines()
            .next()
            .unwrap_or("")
            .trim()
            .to_owned()
    };
    let greeting = first(beginning);
    if greeting.len() > 4 && greeting == first(rest) {
        return rest.to_owned();
    }
    let longest = rest.len().min(beginning.len()).min(*OVERLAP.end());
    let repeated = (*OVERLAP.start()..=longest).rev().find(|length| {
        rest.get(..*length)
            .is_some_and(|start| beginning.ends_with(start))
    });
    if let Some(length) = repeated {
        return format!("{beginning}{}", &rest[length..]);
    }
    // "the roomThat is": a new sentence, and no part of a word.
    let ends_in_word = beginning.ends_with(char::is_lowercase);
    let restarts = rest.chars().next().is_some_and(char::is_uppercase);
    let between = if ends_in_word && restarts { " " } else { "" };
    format!("{beginning}{between}{rest}")
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Fewest words of an answer that counts as an echo.
const ECHOED_MIN: usize = 8;

fn is_echo(text: &str, asked: &str) -> bool {
    // What stands above a copy, and what is shown as one.
    let own = text.lines().filter(|line| {
        let low = line.trim().to_lowercase();
        let is_greeting = is_salutation(&low) && low.ends_with([',', '!', ':']);
        !low.starts_with('>') && !is_greeting
    });
    let mut own: Vec<&str> = own.collect();
    if own.len() < text.lines().count() {
        own.retain(|line| {
            !line.trim_end().ends_with("wrote:") && !line.trim_end().ends_with("schrieb:")
        });
    }
    if text.contains("\n>")
        && own
            .iter()
            .all(|line| line.trim_matches(is_blank).is_empty())
    {
        return true;
    }
    let own = own.join("\n");
    let text = own.as_str();
    let (low, asked) = (text.to_lowercase(), asked.to_lowercase());
    let (said, asked) = (words(&low), words(&asked));
    // "See you on Sunday" answers "See you on Sunday". A question answers nothing.
    let is_question = text.trim_end_matches(is_blank).ends_with(['?', '？']);
    if is_question && said.len() > 2 && said == asked {
        return true;
    }
    said.len() >= ECHOED_MIN
        && said.len() <= asked.len()
        && asked.join(" ").contains(&said.join(" "))
}

/// First words of a placeholder between brackets, in lower case.
const TO_FILL_IN: &[&str] = &[
    "your",
    "insert",
    "enter",
    "recipient's",
    "customer's",
    "guest's",
    "ihr",
    "ihre",
    "dein",
    "deine",
    "votre",
    "su",
    "tu",
    "seu",
    "sua",
    "uw",
    "tuo",
    "vostro",
    "suo",
    "twoje",
    "din",
    "ditt",
    "jouw",
    "ваше",
    "adınız",
];
/// What is to be filled in, where nothing else stands between the brackets.
const NOUNS: &[&str] = &[
    "name",
    "first",
    "last",
    "full",
    "date",
    "time",
    "company",
    "recipient",
    "sender",
    "customer",
    "guest",
    "client",
    "phone",
    "number",
    "email",
    "amount",
    "price",
    "address",
    "title",
    "position",
    "signature",
    "link",
    "order",
    "id",
    "contact",
    "information",
    "details",
    "here",
    "vorname",
    "nachname",
    "datum",
    "firma",
    "unterschrift",
    "nom",
    "nombre",
    "fecha",
    "nome",
    "data",
    "naam",
];

/// Who is meant, between `<` and `>` or `{` and `}`, where other nouns are HTML or code.
const PERSONS: &[&str] = &[
    "name",
    "first",
    "last",
    "first_name",
    "last_name",
    "guest",
    "guest_name",
    "customer",
    "customer_name",
    "recipient",
    "company",
    "nom",
    "nombre",
    "nome",
    "vorname",
    "nachname",
];
/// "Name" in languages that set no blanks, or that decline it.
const NAMES: &[&str] = &[
    "名前",
    "氏名",
    "姓名",
    "您的",
    "이름",
    "имя",
    "όνομα",
    "الاسم",
];

/// Finds `[Your Name]`, `{{order_id}}`, `<your name>`, unless the letter that is answered has it, too.
fn has_placeholder(text: &str, asked: &str) -> bool {
    let mut is_fenced = false;
    for line in text.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        if is_fenced || line.trim_start().starts_with('>') {
            continue;
        }
        let found = [("[", "]"), ("{{", "}}"), ("{", "}"), ("<", ">")]
            .iter()
            .any(|(open, close)| {
                line.match_indices(open).take(64).any(|(at, _)| {
                    let inner = line[at + open.len()..].split_once(close);
                    inner.is_some_and(|(inner, after)| {
                        let whole = format!("{open}{inner}{close}");
                        is_placeholder(open, inner, after)
                            && !asked.contains(&whole)
                            && line[..at].matches('`').count() % 2 == 0
                    })
                })
            });
        if found {
            return true;
        }
    }
    false
}

fn is_placeholder(open: &str, inner: &str, after: &str) -> bool {
    let low = inner.trim().to_lowercase();
    let separator = |c: char| c.is_whitespace() || matches!(c, '_' | '/' | '-' | '’' | ':');
    let words: Vec<&str> = low
        .split(separator)
        .filter(|word| !word.is_empty())
        .collect();
    let (Some(first), true) = (
        words.first(),
        words.len() <= 5 && inner.chars().count() <= 40,
    ) else {
        return false;
    };
    match open {
        "{{" => low
            .chars()
            .all(|c| c.is_alphanumeric() || " _.-".contains(c)),
        "<" => {
            words.len() > 1 && matches!(*first, "your" | "insert" | "ihr" | "dein" | "votre")
                || words.iter().all(|word| PERSONS.contains(word))
        }
        "{" => words.iter().all(|word| PERSONS.contains(word)),
        // `[Name](https://…)` is a link.
        _ => {
            !after.starts_with(['(', '[', ':'])
                && (words.len() > 1 && TO_FILL_IN.contains(first)
                    || NAMES.iter().any(|name| low.contains(name))
                    || words.len() > 2
                        && words.last().is_some_and(|last| NOUNS.contains(last))
                        && words.iter().any(|word| TO_FILL_IN.contains(word))
                    || words.iter().all(|word| NOUNS.contains(word)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(text: &str) -> String {
        match read(text, "When can we come?") {
            LastText::Letter(letter) => letter,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_is_round_a_letter_goes() {
        for text in [
            "Dear Anna,\nyes.",
            "\u{feff}\n Dear Anna,\nyes. \n",
            "<|im_start|>assistant\nDear Anna,\nyes.<|im_end|>",
            "Dear Anna,\nyes.<|im_end|>\n<|im_start|>user\nAnd the price?<|im_end|>",
            "<|start_header_id|>assistant<|end_header_id|>\n\nDear Anna,\nyes.<|eot_id|>",
            "<start_of_turn>model\nDear Anna,\nyes.<end_of_turn>",
            "[INST] When can we come? [/INST] Dear Anna,\nyes.",
            "<s>[INST] When can we come? [/INST]\nDear Anna,\nyes.</s>",
            "<|im_start|>system\nYou are Ada.<|im_end|>\n<|im_start|>user\nWhen?<|im_end|>\n<|im_start|>assistant\nDear Anna,\nyes.<|im_end|>",
            "<|im_start|>user\nWhen?<|im_end|>\n<|im_start|>assistant\nDear Anna,\nyes.",
            "<|start_header_id|>user<|end_header_id|>\n\nWhen?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nDear Anna,\nyes.<|eot_id|>",
            "<|user|>\nWhen?<|end|>\n<|assistant|>\nDear Anna,\nyes.<|end|>",
            "<start_of_turn>user\nWhen?<end_of_turn>\n<start_of_turn>model\nDear Anna,\nyes.<end_of_turn>",
            "<｜User｜>When?<｜Assistant｜>Dear Anna,\nyes.",
            "### Instruction:\nWhen?\n\n### Response:\nDear Anna,\nyes.",
            "User: When?\nAssistant: Dear Anna,\nyes.",
            "Human: When?\nAssistant: Dear Anna,\nyes.",
            "<s>Dear Anna,\nyes.</s>",
            "Dear Anna,\nyes.</s>",
            "Assistant: Dear Anna,\nyes.",
            "Subject: Re: Hello\n\nDear Anna,\nyes.",
            "**Subject:** Re: Hello\n\nDear Anna,\nyes.",
            "Betreff: Zimmer\n\nDear Anna,\nyes.",
            "From: me\nTo: Anna\nSubject: Re: Hello\n\nDear Anna,\nyes.",
            "Here is a draft:\n\nDear Anna,\nyes.",
            "Here's a draft reply you can send:\n\n---\n\nDear Anna,\nyes.\n\n---\n\nLet me know if you want changes.",
            "Sure! Here is the reply:\n\nSubject: Re: Hello\n\nDear Anna,\nyes.",
            "Sure, here's the email:\n\n```\nDear Anna,\nyes.\n```",
            "```markdown\nDear Anna,\nyes.\n```",
            "<letter>\nDear Anna,\nyes.\n</letter>",
            "<letter>\nfrom: Anna\n\nWhen?\n</letter>\n\nDear Anna,\nyes.",
            "<invocation>\ntrigger: email\n</invocation>\n\nDear Anna,\nyes.",
            "[engine] Your answer was cut off.\nDear Anna,\nyes.",
            "Your answer was cut off at its length limit.\nDear Anna,\nyes.",
            "Response:\nDear Anna,\nyes.",
            "**Final Answer:**\n\nDear Anna,\nyes.",
            "Final Answer: Dear Anna,\nyes.",
            "Dear Anna,\nyes.\n\nUser: And the price?\nAssistant: Five.",
            "```think\nShe asks when.\n```\nDear Anna,\nyes.",
            "{\"thought\": \"She asks when.\"}\n\nDear Anna,\nyes.",
            "<response><text>\nDear Anna,\nyes.</text></response>",
            "\"Dear Anna,\\nyes.\"",
            "sender: unauthenticated (anybody can write that name)\n\nDear Anna,\nyes.",
            "Date: Mon, 29 Dec 2026\n\nFrom: Bert Halm\n\nSubject: Arrival\n\nDear Anna,\nyes.",
        ] {
            assert_eq!(letter(text), "Dear Anna,\nyes.", "{text}");
        }
    }

    #[test]
    fn a_continuation_is_joined_where_it_goes_on() {
        for (beginning, rest, whole) in [
            ("From seven ", "to ten.", "From seven to ten."),
            ("From sev", "en to ten.", "From seven to ten."),
            ("Java", "script", "Javascript"),
            (
                "the last room",
                "That is all.",
                "the last room That is all.",
            ),
            ("in 20", "27 we open", "in 2027 we open"),
            (
                "Dear Anna,\nwe op",
                "Dear Anna,\nwe open at 8.",
                "Dear Anna,\nwe open at 8.",
            ),
            (
                "We open at eight and",
                "We open at eight and close at ten.",
                "We open at eight and close at ten.",
            ),
            (
                "It is late. We open at eight",
                "We open at eight and close at ten.",
                "It is late. We open at eight and close at ten.",
            ),
            (
                "Ja, wir öffnen um acht Uhr",
                "öffnen um acht Uhr früh.",
                "Ja, wir öffnen um acht Uhr früh.",
            ),
            ("Yes", "", "Yes"),
            ("", "Yes.", "Yes."),
        ] {
            assert_eq!(joined(beginning, rest), whole);
        }
    }

    #[test]
    fn what_nobody_can_read_is_nothing() {
        for text in [
            "",
            " \n",
            "\u{200b}\u{2060}",
            "(empty content)",
            ".",
            "…",
            "---",
            "[This answer was cut off at its length limit.]",
            "…\n\n[This answer is incomplete: its run had used up the turns it may use.]",
            "NO_REPLY",
            "[no response]",
            "None",
            "null",
            "[engine] You may go on.",
            "Dear Anna,",
            "(no answer needed)",
            "[object Object]",
            "Error: 500 Internal Server Error",
            "<invocation>\ntrigger: email",
            "<|im_end|>",
            "```\n```",
        ] {
            assert_eq!(read(text, ""), LastText::Nothing, "{text:?}");
        }
    }

    #[test]
    fn text_that_is_no_letter_is_named() {
        let sorry = "I am sorry. ".repeat(4000);
        let words = "la ".repeat(400);
        let paragraph = "We look into it. You hear from us. Thank you for waiting. ".repeat(12);
        let letters = "A. B. ".repeat(60);
        let one = "a".repeat(900);
        for (text, fault) in [
            (
                r#"{"name": "read_file", "arguments": {"path": "a"}}"#,
                NoLetter::Call,
            ),
            (
                "One moment.\n\n<tool_call>\n{\"name\": \"x\"}\n</tool_call>",
                NoLetter::Call,
            ),
            ("Subject: Re: Bicycles\n", NoLetter::Echo),
            (r#"{"reply": "Dear Anna, yes."}"#, NoLetter::Json),
            ("```json\n{\"reply\": \"Dear Anna\"}\n```", NoLetter::Json),
            (sorry.as_str(), NoLetter::Repeated),
            (words.as_str(), NoLetter::Repeated),
            ("Dear Anna,\nyes.\n\n[Your Name]", NoLetter::Placeholder),
            ("Dear [Name],\nyes.", NoLetter::Placeholder),
            (
                "Your order {{order_id}} is on its way.",
                NoLetter::Placeholder,
            ),
            ("It costs [insert price].", NoLetter::Placeholder),
            (
                "Dear Anna, see <invocation> subject: Arrival </invocation>, yes.",
                NoLetter::Echo,
            ),
            ("I am glad.</letter> Yes, from three.", NoLetter::Echo),
            (
                "Subject: Re: Arrival\nTo: anna@traveller.example",
                NoLetter::Echo,
            ),
            (
                "Thought: I look it up.\nAction: read_file\nAction Input: {\"path\": \"x\"}",
                NoLetter::Call,
            ),
            ("no_answer(reason=\"thanks only\")", NoLetter::Call),
            ("tool: read_file\nargs:\n  path: x", NoLetter::Call),
            ("print(read_file(\"knowledge/x.md\"))", NoLetter::Call),
            ("{\"a\":1}\n{\"b\":2}", NoLetter::Json),
            ("{\"answer\":\"It is from", NoLetter::Json),
            ("{'answer': 'yes'}", NoLetter::Json),
            (paragraph.as_str(), NoLetter::Repeated),
            (letters.as_str(), NoLetter::Repeated),
            (one.as_str(), NoLetter::Repeated),
            ("Cara Anna,\nsì.\n\n[Il tuo nome]", NoLetter::Placeholder),
            ("こんにちは。\n\n[あなたの名前]", NoLetter::Placeholder),
            ("Dear <name>,\nyes.", NoLetter::Placeholder),
            ("Dear {name},\nyes.", NoLetter::Placeholder),
            ("Dear {{first_name}},\nyes.", NoLetter::Placeholder),
            (
                "Date: Mon, 29 Dec\n\nFrom: Bert\n\nSubject: Arrival\n\nSubject: Departure\n\nDate: Mon, 29 Dec",
                NoLetter::Echo,
            ),
            ("Mit Gruß\n[Ihr Name]", NoLetter::Placeholder),
            ("Yours\n<Your Name>", NoLetter::Placeholder),
        ] {
            assert_eq!(read(text, ""), LastText::NoLetter(fault), "{text:.60}");
        }
        let asked = "Hello,\n\nwe would like to rent two bicycles on Saturday, what do they cost?";
        assert_eq!(
            read("We would like to rent two bicycles on Saturday.", asked),
            LastText::NoLetter(NoLetter::Echo)
        );
        for echo in [
            "When is breakfast?",
            "<letter>\nWhen is breakfast?\n</letter>",
        ] {
            let found = read(echo, "When is breakfast?");
            assert_eq!(found, LastText::NoLetter(NoLetter::Echo), "{echo}");
        }
        let sunday = "See you on Sunday!";
        assert_eq!(read(sunday, sunday), LastText::Letter(sunday.to_owned()));
    }

    #[test]
    fn letters_with_odd_words_are_letters() {
        for text in [
            "Yes.",
            "Done.",
            "None.",
            "OK",
            "👍",
            "15:30",
            "Subject to availability, yes.",
            "Subject: availability is not certain\nbecause of the fair.",
            "To: the left of the station you see the house.",
            "Here is the answer: yes, you can.",
            "Here is the reply of the hotel:\n\n12 rooms, 80 € each.",
            "See [Name of the house](https://house.example).",
            "Press [Enter] twice, then [Esc].",
            "Use `[Your Name]` in the template.",
            "Dear Anna,\n```\n<|im_end|>\n```\nis a mark.",
            "It was <s>12 €</s> 10 € for you.",
            "| Day | Price |\n| --- | --- |\n| Mon | 10 € |\n| Tue | 10 € |\n| Wed | 10 € |\n| Thu | 10 € |\n| Fri | 10 € |",
            "Ja, ja, ja, ja, ja, gerne!",
            "[1] See the guide.\n[2] Call us.",
            "{not json}, said he.",
            "Done and dusted, see you on Saturday.",
            "Assistant: this is my job, and I do it gladly.",
        ] {
            let expected = text.strip_prefix("Assistant: ").unwrap_or(text);
            assert_eq!(
                read(text, "Who is it?"),
                LastText::Letter(expected.to_owned()),
                "{text}"
            );
        }
        // A placeholder that is spoken of.
        let asked = "What do I write for [Your Name] in the form?";
        let answer = "For [Your Name] you write Anna.";
        assert_eq!(read(answer, asked), LastText::Letter(answer.to_owned()));
    }

    #[test]
    fn much_text_is_read_in_bounds() {
        for text in [
            "*".repeat(1_000_000),
            "<|im_end|>`".repeat(80_000),
            "[".repeat(1_000_000),
            "<".repeat(1_000_000),
            "Subject: x\n".repeat(50_000),
        ] {
            let _whatever = read(&text, "");
        }
    }
}
