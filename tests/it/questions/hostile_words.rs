//! Letters whose words are no yes, whoever signed them: nothing of them may be read as one.

use super::dice::{Dice, many};
use super::languages::{AWAY, LANGUAGES};
use super::letters::{Content, QUESTION, any_encoding, escaped, quoted};
use attache::domain::Email;
use attache::gateway::approvals::words::read_letter;
use attache::mime::{ParseLimits, parse};
use attache::store::ApprovalVerdict;
use std::collections::BTreeMap;

/// Every way to say something else than yes.
#[rustfmt::skip]
pub const KINDS: [&str; 21] = [
    "words behind", "a question", "words on the next line", "taken back", "negated", "crossed out", "a doubtful sign",
    "quoted", "quoted below nonsense", "below an attribution", "away", "in the subject alone", "hidden in HTML",
    "crossed out in HTML", "the other alternative says no", "forwarded", "forwarded as a file", "an attached file",
    "in the signature", "between quotes", "another word",
];

fn yes_of(dice: &mut Dice) -> &'static str {
    LANGUAGES[dice.below(LANGUAGES.len())].yes[dice.below(2)]
}

fn attribution(dice: &mut Dice) -> String {
    let all = &LANGUAGES;
    let line = all[dice.below(all.len())].attribution;
    line.replace("ADDRESS", "ada+a.0123@engine.test")
}

/// A letter that is no yes: its subject and its content.
#[rustfmt::skip]
pub fn hostile(kind: &str, dice: &mut Dice) -> (&'static str, Content) {
    let yes = yes_of(dice);
    let encoding = any_encoding(dice);
    let plain = |text: String| ("Re: Ada asks", Content::of("plain", &text, encoding));
    let html = |text: String| ("Re: Ada asks", Content::of("html", &text, encoding));
    match kind {
        "words behind" => {
            let tails = ["but not to Eve", ", but ask Carol first", "if Carol agrees", "and no", "or no", "I think", "- not", ". Not.", "/no"];
            plain(format!("{yes} {}", dice.of(&tails)))
        }
        "a question" => plain(format!("{yes}{}", dice.of(&["?", "??", " ?", "?!", "？", "؟", "…", "...", ";", " -"]))),
        "words on the next line" => plain(format!("{yes},\n{}", dice.of(&["but only if Carol agrees.", "if you must.", "I think.", "after Friday."]))),
        "taken back" => plain(format!("{yes}\n{}", dice.of(&["no", "\nNo.", "but only if Carol agrees", "\nStop!", "aber nur intern", "\nedit: say Wednesday"]))),
        "negated" => plain(format!("{} {yes}", dice.of(&["not", "Not a", "never", "don't", "nicht", "pas", "non è un", "I did not say", "¬", "!"]))),
        "crossed out" => plain(format!("{0}{yes}{0}\n\nnot this time", dice.of(&["~~", "~", "--", "/"]))),
        "a doubtful sign" => plain(format!("{} {yes} {}", dice.of(&["", "❌", "🚫"]), dice.of(&["👎", "❌", "🙅", "🚫", "⛔", "🤔"]))),
        "quoted" => plain(format!("{}{}{yes}\n", dice.of(&["", "\n\n"]), dice.of(&["> ", ">> ", ">", "| "]))),
        "quoted below nonsense" => plain(format!("{}\n\n{}\n> {yes}\n> {yes}\n", dice.of(&["What is this?", "Hm.", "Who is Eve?", "asdf"]), attribution(dice))),
        "below an attribution" => plain(format!("{}\n{}{yes}\n", attribution(dice), dice.of(&["", "> ", "\n"]))),
        "away" => plain(format!("{}\n\n{}\n{}", dice.of(&AWAY), attribution(dice), quoted(QUESTION))),
        "in the subject alone" => (dice.of(&["yes", "Yes", "Re: yes", "OK", "Ja"]), Content::plain(&format!("\n\n{}\n{}", attribution(dice), quoted(QUESTION)))),
        "hidden in HTML" => html(format!("{}<p>{}</p>", hidden(yes, dice), dice.of(&["not this time", "Who is Eve?", "I would rather not"]))),
        "crossed out in HTML" => {
            let (open, close) = [("<s>", "</s>"), ("<del>", "</del>"), ("<strike>", "</strike>"), ("<span style=\"text-decoration: line-through\">", "</span>")][dice.below(4)];
            html(format!("<div>{open}{yes}{close}</div><div>not this time</div>"))
        }
        "the other alternative says no" => {
            let other = format!("<p>{}</p>", dice.of(&["no", "not yet", "never", "ask me tomorrow"]));
            ("Re: Ada asks", Content::multipart("alternative", &[Content::plain(yes), Content::html(&other)]))
        }
        "forwarded" => ("Fwd: Ada asks", Content::plain(&format!("---------- Forwarded message ----------\nFrom: Olga <olga@home.test>\nSubject: Re: asks\n\n{yes}\n"))),
        "forwarded as a file" => {
            let inner = Content { more: "Content-Type: message/rfc822\r\n".into(), body: format!("From: olga@home.test\r\nTo: ada@engine.test\r\nSubject: Re: asks\r\n\r\n{yes}\r\n") };
            ("Re: Ada asks", Content::multipart("mixed", &[inner]))
        }
        "an attached file" => {
            let mut file = Content::plain(yes);
            file.more.push_str("Content-Disposition: attachment; filename=\"yes.txt\"\r\n");
            ("Re: Ada asks", Content::multipart("mixed", &[Content::plain(dice.of(&["", "See the file."])), file]))
        }
        "in the signature" => plain(format!("{}-- \n{yes}\n", dice.of(&["", "\n\n", "Hm.\n"]))),
        "between quotes" => plain(format!("{}\n> May I send this?\n{yes}\n> And the other?\n{}", attribution(dice), dice.of(&["Hm.", "never", ""]))),
        _ => plain(dice.of(&["yesterday", "Okinawa", "yess sir", "jawohl vielleicht", "send more", "approve nothing", "y", "1", "+1?", "ok ok but", "sure, maybe", "let us talk"]).to_owned()),
    }
}

fn hidden(yes: &str, dice: &mut Dice) -> String {
    let yes = escaped(yes);
    match dice.below(9) {
        0 => format!("<div style=\"display:none\">{yes}</div>"),
        1 => format!("<!-- {yes} -->"),
        2 => format!("<p hidden>{yes}</p>"),
        3 => format!("<span style=\"font-size:0\">{yes}</span><br>"),
        4 => format!("<title>{yes}</title>"),
        5 => format!("<div style=\"visibility: hidden\"><p>{yes}</p></div>"),
        6 => format!("<script>{yes}</script>"),
        7 => format!("<div style=\"max-height:0; overflow:hidden\">{yes}</div>"),
        _ => format!("<style>{yes}</style>"),
    }
}

fn read(email: &Email) -> Option<ApprovalVerdict> {
    read_letter(email).map(|read| read.verdict)
}

#[test]
fn nothing_but_a_yes_is_read_as_a_yes() {
    let many = many("ATTACHE_HOSTILE_ANSWERS", 2_000);
    let mut dice = Dice(1);
    let (mut read_as, mut wrong) = (BTreeMap::new(), BTreeMap::<&str, Vec<String>>::new());
    for number in 0..many {
        let kind = KINDS[number % KINDS.len()];
        let (subject, content) = hostile(kind, &mut dice);
        let email = parse(&content.letter(subject), &ParseLimits::default()).expect("a letter");
        let verdict = read(&email);
        if verdict == Some(ApprovalVerdict::Approve) {
            wrong.entry(kind).or_default().push(email.text.clone());
        }
        *read_as.entry(format!("{verdict:?}")).or_insert(0) += 1;
    }
    println!(
        "B-1 words: {many} hostile letters of {} kinds, read as {read_as:?}",
        KINDS.len()
    );
    let shown: Vec<_> = wrong
        .iter()
        .map(|(kind, all)| (kind, all.len(), &all[0]))
        .collect();
    assert!(wrong.is_empty(), "{shown:#?}");
    // The control: the words alone, in the same letters, are a yes.
    for language in &LANGUAGES {
        for yes in language.yes {
            let email = parse(
                &Content::html(&escaped(yes)).letter("Re: asks"),
                &ParseLimits::default(),
            );
            let verdict = read(&email.expect("a letter"));
            assert_eq!(verdict, Some(ApprovalVerdict::Approve), "{yes}");
        }
    }
}
