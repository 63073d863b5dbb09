//! Answers as people write them with ten mail programs in twenty languages: nearly all of them are understood.

use super::dice::{Dice, many};
use super::languages::{LANGUAGES, Language};
use super::letters::{Content, QUESTION, any_encoding, escaped, quoted};
use attache::gateway::approvals::words::read_letter;
use attache::mime::{ParseLimits, parse};
use attache::store::ApprovalVerdict;
use std::collections::BTreeMap;

const PROGRAMS: [&str; 10] = [
    "Gmail",
    "Outlook",
    "Apple Mail",
    "Thunderbird",
    "mutt",
    "iOS",
    "Android",
    "Yahoo",
    "Proton",
    "Roundcube",
];

/// What is written, and what it has to be read as.
fn answer(language: &Language, dice: &mut Dice) -> (String, ApprovalVerdict) {
    let shaped = |word: &str, dice: &mut Dice| match dice.below(6) {
        0 => word.to_lowercase(),
        1 => format!("{word}."),
        2 => format!("{word}!"),
        3 => format!("{word} "),
        _ => word.to_owned(),
    };
    let (yes, no) = (dice.of(&language.yes), dice.of(&language.no));
    match dice.below(3) {
        0 => (shaped(yes, dice), ApprovalVerdict::Approve),
        1 => (shaped(no, dice), ApprovalVerdict::Reject),
        _ => {
            let between = match language.name {
                "ja" => "、",
                "zh" => "，",
                "ar" => "، ",
                _ => dice.of(&[", ", ": ", ". ", " – ", "\n\n"]),
            };
            (
                format!("{no}{between}{}", language.reason),
                ApprovalVerdict::Reject,
            )
        }
    }
}

fn name(dice: &mut Dice) -> &'static str {
    dice.of(&[
        "",
        "\n\n-- \nOlga",
        "\n\nOlga",
        "\n\nBest regards,\nOlga\nHome Ltd, 1 Road",
        "\n\nViele Grüße\nOlga",
    ])
}

/// The letter that a program makes of an answer.
#[rustfmt::skip]
fn written_with(program: &str, said: &str, language: &Language, dice: &mut Dice) -> Content {
    let attribution = language.attribution.replace("ADDRESS", "ada+a.0123@engine.test");
    let encoding = any_encoding(dice);
    let (signed, quote) = (format!("{said}{}", name(dice)), quoted(QUESTION));
    let plain = |text: String| Content::of("plain", &text, encoding);
    let html = |text: String| Content::of("html", &text, encoding);
    let both = |text: String, rich: String| Content::multipart("alternative", &[plain(text), html(rich)]);
    let (rich, rich_question, who) = (escaped(&signed), escaped(QUESTION), escaped(&attribution));
    let copy = "From: Ada via Attaché <ada+a.0123@engine.test>\nSent: Monday, November 23, 2026 10:15 AM\nTo: Olga <olga@home.test>\nSubject: Ada asks: may I send this mail?";
    match program {
        "Gmail" => both(
            format!("{signed}\n\n{attribution}\n\n{quote}"),
            format!("<div dir=\"ltr\">{rich}</div><br><div class=\"gmail_quote gmail_quote_container\"><div dir=\"ltr\" class=\"gmail_attr\">{who}<br></div><blockquote class=\"gmail_quote\" style=\"margin:0px 0px 0px 0.8ex\">{rich_question}</blockquote></div>"),
        ),
        "Outlook" => html(format!("<html><body lang=EN-US><div class=WordSection1><p class=MsoNormal>{rich}<o:p></o:p></p><p class=MsoNormal><o:p>&nbsp;</o:p></p><div style='border:none;border-top:solid #E1E1E1 1.0pt;padding:3.0pt 0in 0in 0in'><p class=MsoNormal>{}</p></div><p>{rich_question}</p></div></body></html>", escaped(copy))),
        "Apple Mail" => both(
            format!("{signed}\n\n> On 23. Nov 2026, at 10:15, Ada <ada+a.0123@engine.test> wrote:\n> \n{quote}"),
            format!("<html><body style=\"overflow-wrap: break-word;\">{rich}<br><div><br><blockquote type=\"cite\"><div>On 23. Nov 2026, at 10:15, Ada wrote:</div><br>{rich_question}</blockquote></div></body></html>"),
        ),
        // Both begin below the quote, as they come out of the box.
        "Thunderbird" if dice.below(2) == 0 => plain(format!("On 23/11/2026 10:15, Ada via Attaché wrote:\n{quote}\n{signed}\n")),
        "Thunderbird" => both(
            format!("{signed}\n\nOn 23/11/2026 10:15, Ada via Attaché wrote:\n{quote}"),
            format!("<html><body><p>{rich}</p><div class=\"moz-cite-prefix\">On 23/11/2026 10:15, Ada via Attaché wrote:<br></div><blockquote type=\"cite\" cite=\"mid:x@engine.test\">{rich_question}</blockquote></body></html>"),
        ),
        "mutt" if dice.below(2) == 0 => plain(format!("On Mon, Nov 23, 2026 at 10:15:00AM +0000, Ada via Attaché wrote:\n{quote}\n{signed}\n")),
        "mutt" => plain(format!("{said}\n\nOn Mon, Nov 23, 2026 at 10:15:00AM +0000, Ada via Attaché wrote:\n{quote}\n-- \nOlga\n")),
        "iOS" => both(
            format!("{said}\n\nSent from my iPhone\n\n> On 23. Nov 2026, at 10:15, Ada <ada+a.0123@engine.test> wrote:\n> \n> \u{feff}{}", &quote[2..]),
            format!("<html><body dir=\"auto\">{}<br id=\"lineBreakAtBeginningOfSignature\"><div dir=\"ltr\">Sent from my iPhone</div><div dir=\"ltr\"><br><blockquote type=\"cite\">{rich_question}</blockquote></div></body></html>", escaped(said)),
        ),
        "Android" => html(format!("<div dir=\"auto\">{}</div><br><div class=\"gmail_quote\">{who}<br><blockquote>{rich_question}</blockquote></div>", escaped(said))),
        "Yahoo" => both(
            format!(" {signed}\n    On Monday, November 23, 2026 at 10:15:00 AM GMT+1, Ada <ada+a.0123@engine.test> wrote:  \n \n {}", QUESTION.replace('\n', "\n ")),
            format!("<html><body><div class=\"ydp\"><div></div><div dir=\"ltr\">{rich}</div></div><div id=\"yahoo_quoted_1\" class=\"yahoo_quoted\"><div>On Monday, November 23, 2026 at 10:15:00 AM GMT+1, Ada &lt;ada+a.0123@engine.test&gt; wrote:</div><div><br></div><div>{rich_question}</div></div></body></html>"),
        ),
        "Proton" => both(
            format!("{signed}\n\nSent with Proton Mail secure email.\n\nOn Monday, November 23rd, 2026 at 10:15 AM, Ada <ada+a.0123@engine.test> wrote:\n\n{quote}"),
            format!("<div style=\"font-family: Arial;\">{rich}</div><div class=\"protonmail_signature_block\">Sent with Proton Mail secure email.</div><div class=\"protonmail_quote\">On Monday, November 23rd, 2026 at 10:15 AM, Ada wrote:<br><blockquote class=\"protonmail_quote\" type=\"cite\">{rich_question}</blockquote></div>"),
        ),
        _ => plain(format!("{signed}\n\nOn 2026-11-23 10:15, Ada via Attaché wrote:\n{quote}")),
    }
}

#[test]
#[ignore = "second tier"]
fn honest_answers_are_understood() {
    let many = many("ATTACHE_HONEST_ANSWERS", 2_000);
    let mut dice = Dice(2);
    let mut missed = BTreeMap::<(&str, &str), Vec<String>>::new();
    for number in 0..many {
        let program = PROGRAMS[number % PROGRAMS.len()];
        let language = &LANGUAGES[number / PROGRAMS.len() % LANGUAGES.len()];
        let (said, wanted) = answer(language, &mut dice);
        let letter = written_with(program, &said, language, &mut dice).letter("Re: Ada asks");
        let email = parse(&letter, &ParseLimits::default()).expect("a letter");
        let found = read_letter(&email).map(|read| read.verdict);
        assert!(
            found.is_none() || found == Some(wanted),
            "{said:?} of {program} is {found:?}: {}",
            email.fresh_text
        );
        if found.is_none() {
            missed
                .entry((program, language.name))
                .or_default()
                .push(format!("{said:?}: {:?}", email.fresh_text));
        }
    }
    let count: usize = missed.values().map(Vec::len).sum();
    let share = 100.0 * (many - count) as f64 / many as f64;
    println!(
        "B-2: {share:.2} % of {many} honest answers are understood, {count} are not, none is misunderstood"
    );
    let shown: Vec<_> = missed
        .iter()
        .map(|(of, all)| (of, all.len(), &all[0]))
        .collect();
    assert!(count * 100 <= many, "{shown:#?}");
}
