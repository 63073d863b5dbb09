//! Plain texts that say nothing of the letter in the HTML beside them, and plain texts that are the letter.

use attache::domain::Email;
use attache::mime::{ParseLimits, parse};

const ORDER: &str = "<html><body><p>Dear team,</p><p>please send us twelve LION-22 chairs by Friday, and tell us what they \
                     cost with delivery to the second floor.</p></body></html>";

fn letter(plain: &str, html: &str) -> Email {
    let letter = format!(
        "From: a@b.test\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
         {plain}\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}\r\n--b--\r\n"
    );
    parse(letter.as_bytes(), &ParseLimits::default()).expect("an email")
}

fn says_where_from(email: &Email) -> bool {
    email
        .defects
        .iter()
        .any(|defect| defect.starts_with("read from its HTML"))
}

#[test]
fn a_stub_gives_way_to_the_html_and_the_letter_says_so() {
    for stub in [
        "This is an HTML message. Please use an HTML capable mail program to read\r\nthis message.",
        "Your mail client does not support HTML messages.",
        "To view this email, open it in your browser: https://shop.example/v/1",
        "View this email in your browser\r\nhttps://shop.example/v/1",
        "https://shop.example/letter/7",
        "[image: logo.png]",
        "[cid:image001.png@01DB] [image: banner]",
        "<https://shop.example/>",
        "Diese Nachricht kann nur in der HTML-Ansicht gelesen werden.",
        "Wird diese E-Mail nicht richtig dargestellt? Klicken Sie hier.\r\nhttps://shop.example",
        "Si ce message ne s'affiche pas correctement, consultez la version en ligne.",
        "Si no puede ver este mensaje, ábralo en su navegador.",
        "Se non visualizzi correttamente questo messaggio, clicca qui.",
        "Bekijk online: https://shop.example/nl",
        "Если письмо отображается неправильно, откройте его в браузере.",
        "このメールはHTML形式で送信されています。",
        "view online | https://shop.example",
        "3.12.2026 10:00",
        "Sent by our system.",
    ] {
        // The dates of an appointment stand in its HTML, too.
        let html = match stub.starts_with("3.12") {
            true => ORDER.replace("by Friday", "by 3.12.2026 10:00, not later"),
            false => ORDER.to_owned(),
        };
        let email = letter(stub, &html);
        assert!(email.text.contains("LION-22"), "{stub:?}: {:?}", email.text);
        assert!(email.fresh_text.contains("LION-22"), "{stub:?}");
        assert!(says_where_from(&email), "{stub:?}: {:?}", email.defects);
    }
}

#[test]
fn a_letter_in_plain_text_stays_the_letter_whatever_stands_beside_it() {
    let signed = |words: &str| {
        format!(
            "<p>{words}</p><hr><p>Anna Muster, Head of Procurement, Example Industries, 7 Long Street, Sometown. This message and \
             its files are meant for the people named above and nobody else; if you are not one of them, tell us and delete it.</p>"
        )
    };
    for (plain, html) in [
        ("Yes.", signed("Yes.")),
        ("15:30 is fine.", signed("15:30 is fine.")),
        ("No, do not send it.", signed("No, do not send it.")),
        ("ok", signed("ok")),
        (
            "Can your program read HTML mail? I am asking for a friend.",
            "<p>Can your program read HTML mail? I am asking for a friend.</p>".to_owned(),
        ),
        (
            "Dear team, please send us twelve LION-22 chairs.",
            ORDER.to_owned(),
        ),
        (
            "https://shop.example/letter/7",
            "<a href='https://shop.example/letter/7'>https://shop.example/letter/7</a>".to_owned(),
        ),
        ("Hello", "<p></p>".to_owned()),
        ("Hello", "<img src='x.png'>".to_owned()),
        ("我想预订房间", "<p>我想预订房间</p>".to_owned()),
        ("Grüße aus Köln", "<p>Grüße aus Köln</p>".to_owned()),
    ] {
        let email = letter(plain, &html);
        assert_eq!(email.text, plain);
        assert!(!says_where_from(&email), "{plain:?}");
    }
    let long = "We open the page in your browser and read the HTML. ".repeat(20);
    assert_eq!(letter(&long, ORDER).text, long.trim_end());
}
