//! Answers as people write them, in twelve languages and the forms of six mail programs: what they wrote stays, whatever
//! their lines begin with, and what they quote goes.

use attache::domain::Quotation;
use attache::mime::{ParseLimits, fresh_text, own_words, parse, split_quotes, with_unknown};

/// A language: answers whose lines look like attributions and are none; the attributions of Gmail, Apple Mail and
/// Thunderbird, with the place at which a program wraps them as `⏎`; the labels of Outlook's header block.
struct Language {
    name: &'static str,
    answers: &'static [&'static str],
    attributions: &'static [&'static str],
    outlook: [&'static str; 4],
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "English",
        answers: &[
            "Hi,\n\n15:30 is fine.",
            "15:30",
            "Dear bot,\n\n1. yes\n2. no\n3. the blue one",
            "On Monday the 3rd we can come.\nThank you very much.\nBest wishes\nAnna",
            "2 rooms, please.",
            "Anna Miller\n4 Mill Lane\n2800 Bern",
            "Two things:\n\n- the room with the bath\n- 2 pillows",
        ],
        attributions: &[
            "On Fri, 27 Nov 2026 at 10:00, The bot⏎<bot@persona.test> wrote:",
            "On Nov 27, 2026, at 10:00 AM, The bot <bot@persona.test> wrote:",
            "On 11/27/26 10:00, The bot wrote:",
            "On Friday, November 27, 2026 at 10:00:12 AM GMT+1, The bot <bot@persona.test>⏎wrote:",
        ],
        outlook: ["From", "Sent", "To", "Subject"],
    },
    Language {
        name: "German",
        answers: &[
            "Hallo,\n\nAm 3. Dezember kommen wir.",
            "Am 3. Dezember um 15:30 Uhr passt es.\nLiebe Grüße\nAnna",
            "16 Uhr 30",
            "1. ja\n2. nein\n3. am 4. Dezember",
            "Anna Beispiel\nHauptstraße 4\n80331 München\n089 123456",
        ],
        attributions: &[
            "Am Fr., 27. Nov. 2026 um 10:00 Uhr schrieb The bot⏎<bot@persona.test>:",
            "Am 27.11.2026 um 10:00 schrieb The bot <bot@persona.test>:",
            "Am Freitag, den 27. November 2026, 10:00:00 MEZ hat The bot⏎<bot@persona.test> Folgendes geschrieben:",
        ],
        outlook: ["Von", "Gesendet", "An", "Betreff"],
    },
    Language {
        name: "French",
        answers: &[
            "Bonjour,\n\nLe 3 décembre nous convient.",
            "Le 3 décembre à 15h30, c'est parfait.\nMerci\nAnne",
            "2 chambres, s'il vous plaît.",
            "75001 Paris",
        ],
        attributions: &[
            "Le ven. 27 nov. 2026 à 10:00, The bot <bot@persona.test> a⏎écrit :",
            "Le 27 nov. 2026 à 10:00, The bot <bot@persona.test> a écrit :",
            "Le 27/11/2026 à 10:00, The bot a écrit :",
        ],
        outlook: ["De", "Envoyé", "À", "Objet"],
    },
    Language {
        name: "Spanish",
        answers: &[
            "Hola:\n\nEl 3 de diciembre podemos ir.",
            "El lunes 3 a las 15:30.\nGracias\nAna",
            "2 habitaciones, por favor.",
            "28013 Madrid",
        ],
        attributions: &[
            "El vie, 27 nov 2026 a las 10:00, The bot (<bot@persona.test>)⏎escribió:",
            "El 27 nov 2026, a las 10:00, The bot <bot@persona.test> escribió:",
            "El 27/11/26 a las 10:00, The bot escribió:",
        ],
        outlook: ["De", "Enviado", "Para", "Asunto"],
    },
    Language {
        name: "Italian",
        answers: &[
            "Ciao,\n\nIl 3 dicembre va bene.",
            "Il giorno 3 alle 15:30 arriviamo.\nGrazie\nAnna",
            "2 camere, grazie.",
            "20121 Milano",
        ],
        attributions: &[
            "Il giorno ven 27 nov 2026 alle ore 10:00 The bot <bot@persona.test>⏎ha scritto:",
            "Il giorno 27 nov 2026, alle ore 10:00, The bot <bot@persona.test> ha scritto:",
            "Il 27/11/2026 10:00, The bot ha scritto:",
        ],
        outlook: ["Da", "Inviato", "A", "Oggetto"],
    },
    Language {
        name: "Dutch",
        answers: &[
            "Hoi,\n\nOp 3 december kunnen we komen.",
            "Op maandag 3 december om 15:30 graag.\nGroet\nAnna",
            "2 kamers graag.",
            "1012 AB Amsterdam",
        ],
        attributions: &[
            "Op vr 27 nov 2026 om 10:00 schreef The bot <bot@persona.test>:",
            "Op 27 nov 2026 om 10:00 heeft The bot <bot@persona.test> het volgende⏎geschreven:",
            "Op 27-11-2026 om 10:00 schreef The bot:",
        ],
        outlook: ["Van", "Verzonden", "Aan", "Onderwerp"],
    },
    Language {
        name: "Portuguese",
        answers: &[
            "Olá,\n\nEm 3 de dezembro podemos ir.",
            "Em dezembro, dia 3, às 15:30.\nObrigada\nAna",
            "2 quartos, por favor.",
        ],
        attributions: &[
            "Em sex., 27 de nov. de 2026 às 10:00, The bot <bot@persona.test>⏎escreveu:",
            "No dia 27/11/2026, às 10:00, The bot <bot@persona.test> escreveu:",
            "Em 27/11/2026 10:00, The bot escreveu:",
        ],
        outlook: ["De", "Enviado", "Para", "Assunto"],
    },
    Language {
        name: "Polish",
        answers: &[
            "Cześć,\n\nW dniu 3 grudnia możemy przyjechać.",
            "W poniedziałek 3 o 15:30.\nPozdrawiam\nAnna",
            "2 pokoje, proszę.",
        ],
        attributions: &[
            "pt., 27 lis 2026 o 10:00 The bot <bot@persona.test> napisał(a):",
            "Wiadomość napisana przez The bot <bot@persona.test> w dniu 27 lis 2026, o godz. 10:00:",
            "W dniu 27.11.2026 o 10:00, The bot pisze:",
        ],
        outlook: ["Od", "Wysłano", "Do", "Temat"],
    },
    Language {
        name: "Swedish",
        answers: &[
            "Hej,\n\nDen 3 december går bra.",
            "Den 3 december kl. 15:30.\nHälsningar\nAnna",
            "2 rum, tack.",
        ],
        attributions: &[
            "Den fre 27 nov. 2026 kl 10:00 skrev The bot <bot@persona.test>:",
            "27 nov. 2026 kl. 10:00 skrev The bot <bot@persona.test>:",
            "Den 2026-11-27 kl. 10:00, skrev The bot:",
        ],
        outlook: ["Från", "Skickat", "Till", "Ämne"],
    },
    Language {
        name: "Danish",
        answers: &[
            "Hej\n\nDen 3. december kan vi komme.",
            "15.30 passer fint.\nHilsen\nAnna",
            "2 værelser, tak.",
        ],
        attributions: &[
            "Den fre. 27. nov. 2026 kl. 10.00 skrev The bot <bot@persona.test>:",
            "Den 27. nov. 2026 kl. 10.00 skrev The bot <bot@persona.test>:",
            "Den 27-11-2026 kl. 10:00 skrev The bot:",
        ],
        outlook: ["Fra", "Sendt", "Til", "Emne"],
    },
    Language {
        name: "Finnish",
        answers: &[
            "Hei,\n\n3.12. sopii hyvin.",
            "Klo 15.30 sopii.\nTerveisin\nAnna",
            "2 huonetta, kiitos.",
        ],
        attributions: &[
            "pe 27. marraskuuta 2026 klo 10.00 The bot⏎<bot@persona.test> kirjoitti:",
            "The bot <bot@persona.test> kirjoitti 27.11.2026 kello 10.00:",
            "27.11.2026 10.00, The bot kirjoitti:",
        ],
        outlook: ["Lähettäjä", "Lähetetty", "Vastaanottaja", "Aihe"],
    },
    Language {
        name: "Japanese",
        answers: &[
            "お世話になっております。\n\n12月3日に伺います。",
            "15時30分でお願いします。\n山田",
            "2部屋お願いします。",
        ],
        attributions: &[
            "2026年11月27日(金) 10:00 The bot <bot@persona.test>:",
            "2026/11/27 10:00、The bot <bot@persona.test>のメール:",
            "On 2026/11/27 10:00, The bot wrote:",
        ],
        outlook: ["差出人", "送信日時", "宛先", "件名"],
    },
];

const ASKED: [&str; 3] = [
    "When shall we meet, and where?",
    "We have a room with a view of the lake.",
    "Best, the bot",
];

/// The replies to [`ASKED`] of the mail programs of a language, with their answer above.
fn replies(language: &Language, answer: &str) -> Vec<(String, String)> {
    let quote: String = ASKED.map(|line| format!("> {line}\n")).concat();
    let mut replies = Vec::new();
    for attribution in language.attributions {
        let broken = attribution.replace('⏎', "\n");
        let whole = attribution.replace('⏎', " ");
        for (way, above, between) in [("blank", "\n\n", "\n\n"), ("tight", "\n", "\n")] {
            replies.push((
                format!("{} {way} {attribution}", language.name),
                format!("{answer}{above}{broken}{between}{quote}"),
            ));
            replies.push((
                format!("{} {way} whole {attribution}", language.name),
                format!("{answer}{above}{whole}{between}{quote}"),
            ));
        }
    }
    let [from, sent, to, subject] = language.outlook;
    let asked = ASKED.join("\n");
    for (way, ruler, sender) in [
        ("Outlook", "", "The bot <bot@persona.test>"),
        (
            "Outlook on the phone",
            "________________________________\n",
            "The bot <bot@persona.test>",
        ),
        ("Outlook without addresses", "", "The bot"),
        (
            "Original Message",
            "-----Original Message-----\n",
            "The bot",
        ),
    ] {
        replies.push((
            format!("{} {way}", language.name),
            format!(
                "{answer}\n\n{ruler}{from}: {sender}\n{sent}: 27.11.2026 10:00\n{to}: anna@guest.example\n{subject}: visit\n\n{asked}"
            ),
        ));
    }
    replies
}

/// What of an answer is missing in a text, and what of the quotation is there.
fn faults(name: &str, answer: &str, fresh: &str) -> Vec<String> {
    let lines: Vec<&str> = fresh.lines().map(str::trim).collect();
    let lost = answer
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let lost = lost.filter(|line| !lines.contains(line));
    let lost: Vec<String> = lost.map(|line| format!("{name}: lost `{line}`")).collect();
    let left = ASKED.iter().filter(|line| fresh.contains(**line));
    let left = left.map(|line| format!("{name}: still quotes `{line}`"));
    lost.into_iter().chain(left).collect()
}

#[test]
fn whatever_stands_above_a_quotation_is_the_writers() {
    let (mut tried, mut found) = (0, Vec::new());
    for language in LANGUAGES {
        for answer in language.answers {
            for (name, reply) in replies(language, answer) {
                tried += 1;
                found.extend(faults(&name, answer, &fresh_text(&reply, "Re: visit")));
            }
        }
    }
    assert!(tried >= 200, "only {tried} replies");
    assert!(found.is_empty(), "{tried} replies\n{}", found.join("\n"));
}

/// The same answers as HTML, as Gmail and Outlook send them.
#[test]
fn whatever_stands_above_a_quotation_in_html_is_the_writers() {
    let mut found = Vec::new();
    for language in LANGUAGES {
        for answer in language.answers {
            let own: String = answer
                .lines()
                .map(|line| format!("<div>{line}<br></div>"))
                .collect();
            let asked: String = ASKED.map(|line| format!("<div>{line}</div>")).concat();
            let attribution = language.attributions[0]
                .replace('⏎', " ")
                .replace('<', "&lt;")
                .replace('>', "&gt;");
            let [from, sent, to, subject] = language.outlook;
            for (way, html) in [
                (
                    "Gmail",
                    format!(
                        "<div dir=\"ltr\">{own}</div><br><div class=\"gmail_quote\"><div class=\"gmail_attr\">{attribution}<br></div><blockquote class=\"gmail_quote\">{asked}</blockquote></div>"
                    ),
                ),
                (
                    "Apple Mail",
                    format!(
                        "<body>{own}<div><br><blockquote type=\"cite\"><div>{attribution}</div><br><div>{asked}</div></blockquote></div></body>"
                    ),
                ),
                (
                    "Outlook",
                    format!(
                        "<div class=\"WordSection1\">{own}<div style=\"border:none;border-top:solid\"><p><b>{from}:</b> The bot &lt;bot@persona.test&gt;<br><b>{sent}:</b> 27.11.2026 10:00<br><b>{to}:</b> anna@guest.example<br><b>{subject}:</b> visit</p></div>{asked}</div>"
                    ),
                ),
            ] {
                let letter = format!(
                    "From: anna@guest.example\nTo: bot@persona.test\nSubject: Re: visit\nMIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{html}\n"
                );
                let email = parse(letter.as_bytes(), &ParseLimits::default()).expect("an email");
                found.extend(faults(
                    &format!("{} {way}", language.name),
                    answer,
                    &email.fresh_text,
                ));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What a writer says below words that look like the head of a copy is the writer's, too.
#[test]
fn own_lines_that_look_like_heads_stay() {
    for text in [
        "We travel:\n\nFrom: Berlin\nTo: Munich\nDate: 3 December\n\nTwo persons, please.",
        "Von: Berlin\nAn: München\nDatum: 3.12.\n\nZwei Personen, bitte.",
        "2 Punkte, die Bob am 3. nannte:\n\n- der Preis\n- das Zimmer",
        "At 15:30 there are:\n- Anna\n- Bob",
        "Please call 0170 1234567 or 089 1234567:\n\nAnna",
        "As he wrote:\n\nwe come on the 3rd.",
        "Das schrieb mir Bob:\n\nwir kommen am 3.",
        "1. On 3.12. at 10:00:\n2. On 4.12. at 11:00:\n\nWhich one?",
    ] {
        assert_eq!(fresh_text(text, "Re: visit"), text);
    }
}

fn thread() -> Vec<String> {
    vec![
        format!("{}\n{}", ASKED[0], ASKED[1]),
        "Hello, may we come in December?\nThere are four of us.".to_owned(),
    ]
}

/// What a reply shows in a thread.
fn shown(text: &str) -> String {
    let (fresh, cut) = split_quotes(text, "Re: visit");
    with_unknown(&fresh, text, &cut, &thread()).unwrap_or_else(|| text.to_owned())
}

#[test]
fn a_quotation_that_the_thread_does_not_hold_stays() {
    // Another letter, quoted with marks, by Outlook, and beneath one that the thread holds.
    for text in [
        "Carla has answered, see below.\n\nOn Fri, 27 Nov 2026 at 10:00, Carla <carla@other.example> wrote:\n> The code is GIRAFFE-88.\n> Carla",
        "Please arrange what Bob asks below.\n\nFrom: Bob <bob@other.example>\nSent: Friday, 27 November 2026 10:00\nTo: Anna\nSubject: door\n\nThe code is GIRAFFE-88.",
        "See below.\n\nOn Fri, 27 Nov 2026 at 10:00, Carla <carla@other.example> wrote:\n> The code is GIRAFFE-88.\n>\n> On Thu, 26 Nov 2026 at 10:00, Anna <anna@guest.example> wrote:\n>> Hello, may we come in December?\n>> There are four of us.",
        "See below.\n\nOn Fri, 27 Nov 2026 at 10:00, The bot <bot@persona.test> wrote:\n> When shall we meet, and where?\n> We have a room with a view of the lake.\n> The code is GIRAFFE-88.",
        "VS: see\n\nFra: Carla <carla@other.example>\nSendt: 27. november 2026 10:00\nTil: Anna\nEmne: rum\n\nThe code is GIRAFFE-88.",
    ] {
        let shown = shown(text);
        assert!(shown.contains("GIRAFFE-88"), "{text}\n=>\n{shown}");
        assert!(!shown.contains("There are four"), "{shown}");
        let own = own_words(&shown);
        assert!(
            !own.contains("GIRAFFE-88"),
            "others' words are not the writer's: {own}"
        );
        assert_eq!(own.chars().count(), shown.chars().count());
    }
}

#[test]
fn a_quotation_that_the_thread_holds_goes_however_it_was_wrapped() {
    for text in [
        "Fine.\n\nOn Fri, 27 Nov 2026 at 10:00, The bot <bot@persona.test> wrote:\n> When shall we\n> meet, and where? We have a room with a\n> view of the lake.",
        "Fine.\n\nFrom: The bot <bot@persona.test>\nSent: 27 November 2026 10:00\nTo: Anna\nSubject: visit\n\nWhen shall we meet, and where?\nWe have a room with a view of the lake.",
        "Fine.\n\nOn Fri, 27 Nov 2026 at 10:00, The bot <bot@persona.test> wrote:\n> *When* shall we meet, and where?\n>\n> On Thu, 26 Nov 2026 at 10:00, Anna <anna@guest.example> wrote:\n>> Hello, may we come in December?",
    ] {
        assert_eq!(shown(text).trim_end(), "Fine.", "{text}");
    }
}

#[test]
fn what_is_quoted_of_nothing_known_leaves_the_text_as_it_is() {
    let cut = Quotation {
        at: 1,
        lines: 1..2,
        attribution: 0,
    };
    assert_eq!(with_unknown("Hi", "Hi\n> GIRAFFE-88", &[cut], &[]), None);
}

/// A part of a long thread that never came here is shown to its end, also where it quotes others, and what is held is not.
#[test]
fn a_long_quotation_is_looked_through_to_its_end() {
    let letters = |word: &str| -> String {
        let line = |at: usize| match at % 10 {
            0 => format!(
                "> On Fri, 27 Nov 2026 at 10:00, Carla <carla@other.example> wrote:\n> The {word} of line {at}\n"
            ),
            _ => format!("> The {word} of line {at}\n"),
        };
        (0..600).map(line).collect()
    };
    let history: Vec<String> = vec![letters("lion").replace("> ", "")];
    let (foreign, held) = (letters("giraffe"), letters("lion"));
    for quoted in [
        foreign.clone(),
        format!("{foreign}{held}"),
        format!("{held}{foreign}"),
        held.clone(),
    ] {
        let text = format!("See below.\n\n{quoted}");
        let (fresh, cut) = split_quotes(&text, "Re: visit");
        let shown = with_unknown(&fresh, &text, &cut, &history);
        let shown = shown.unwrap_or_else(|| text.clone());
        let count = |word: &str| shown.lines().filter(|line| line.contains(word)).count();
        assert_eq!(count("lion"), 0, "{shown}");
        let is_quoted = quoted.contains("giraffe");
        assert_eq!(count("giraffe"), usize::from(is_quoted) * 600, "{shown}");
        let whom = count("Carla");
        assert_eq!(whom, usize::from(is_quoted) * 60, "who is quoted: {shown}");
    }
}

/// Answers between the lines of a letter that never came here say whose lines they answer.
#[test]
fn an_answer_between_the_lines_of_an_unknown_letter_says_who_asked() {
    const CARLA: &str = "On Fri, 27 Nov 2026 at 10:00, Carla <carla@other.example> wrote:";
    let long = "> We are many.\n".repeat(12);
    for text in [
        format!("{CARLA}\n> May we bring a giraffe?\n\nYes.\n\n> And a zebra?\n\nNo."),
        format!("{CARLA}\n\n> May we bring a giraffe?\nYes.\n> And a zebra?\nNo."),
        format!("Hello,\n\n{CARLA}\n> May we bring a giraffe?\n\nYes.\n\n> And a zebra?\n\nNo."),
        format!("Hello,\n{CARLA}\n>\n> May we bring a giraffe?\nYes."),
        format!("{CARLA}\n> {}\n> May we bring a giraffe?\n\nYes.", ASKED[0]),
        format!("{CARLA}\n{long}> May we bring a giraffe?\n\nYes."),
    ] {
        // Beside something that the thread holds, so that the letter is not shown as it came.
        let text = format!(
            "{text}\n\nOn Thu, 26 Nov 2026 at 10:00, The bot <bot@persona.test> wrote:\n> {}\n> {}",
            ASKED[0], ASKED[1]
        );
        let shown = shown(&text);
        let (who, what) = (shown.find("Carla"), shown.find("giraffe"));
        assert!(who.is_some() && who < what, "{text}\n=>\n{shown}");
        assert!(
            shown.contains("Yes.") && !shown.contains("The bot"),
            "{shown}"
        );
        assert!(!own_words(&shown).contains("Carla"), "{shown}");
    }
    let held = format!(
        "On Thu, 26 Nov 2026 at 10:00, The bot <bot@persona.test> wrote:\n> {}\n\nOn Monday.",
        ASKED[0]
    );
    assert!(!shown(&held).contains("The bot"), "{}", shown(&held));
}

/// Marks above a forwarded letter whose subject was changed by hand, with and without words above.
#[test]
fn forwarded_letters_stay_in_every_language() {
    for marker in [
        "Begin forwarded message:",
        "Anfang der weitergeleiteten Nachricht:",
        "Début du message réexpédié :",
        "Inicio del mensaje reenviado:",
        "Inizio messaggio inoltrato:",
        "Begin doorgestuurd bericht:",
        "Vidarebefordrat brev:",
        "Start på videresendt besked:",
        "Videresendt melding:",
        "Välitetty viesti alkaa:",
        "Początek przekazywanej wiadomości:",
        "Início da mensagem reencaminhada:",
        "Începutul mesajului redirecționat:",
        "Начало переадресованного сообщения:",
        "Začiatok preposlanej správy:",
        "Začátek přeposílané zprávy:",
        "Započni proslijeđenu poruku:",
        "Továbbított levél kezdete:",
        "İleti başlangıcı:",
        "Початок листа, що пересилається:",
        "---------- Forwarded message ---------",
        "-------- Videresendt meddelelse --------",
        "-------- Mensagem encaminhada --------",
        "-------- İletilen İleti --------",
        "-------- Weitergeleitete Nachricht --------",
    ] {
        let letter = format!(
            "Can you book this?\n\n{marker}\n\nFrom: Carla <carla@other.example>\nSubject: room\nDate: 27 Nov 2026\nTo: anna@guest.example\n\nThe room is called LEOPARD-99."
        );
        assert_eq!(fresh_text(&letter, "a room"), letter, "{marker}");
        let quoted: String = letter.lines().map(|line| format!("> {line}\n")).collect();
        let letter = format!("Can you book this?\n\n{quoted}");
        assert!(
            fresh_text(&letter, "a room").contains("LEOPARD-99"),
            "{marker}"
        );
    }
    for subject in [
        "VB: Rum",
        "İLT: Oda",
        "Videresend: rom",
        "FW: room",
        "WG: Zimmer",
        "TR : chambre",
    ] {
        let letter = "See this.\n\nFrån: Carla <carla@other.example>\nSkickat: den 27 november 2026 10:00\nTill: Anna\nÄmne: Rum\n\nLEOPARD-99";
        assert_eq!(fresh_text(letter, subject), letter, "{subject}");
    }
}
