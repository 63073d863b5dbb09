//! Letters that programs damaged or mislabelled on the way, read as their senders meant them.

use attache::domain::Email;
use attache::mime::{ParseLimits, parse};

fn email(letter: &[u8]) -> Email {
    parse(letter, &ParseLimits::default()).expect("an email")
}

fn body(content_type: &str, content: &[u8]) -> String {
    let header = format!(
        "From: a@b.test\r\nContent-Type: {content_type}\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    );
    email(&[header.as_bytes(), content].concat()).text
}

#[test]
fn one_bad_byte_does_not_turn_a_whole_body_into_another_charset() {
    for label in [
        "text/plain; charset=utf-8",
        "text/plain; charset=\"UTF8\"",
        "text/plain",
        "text/plain; charset=x-unknown",
    ] {
        let text = body(
            label,
            b"Gr\xc3\xbc\xc3\x9fe aus K\xc3\xb6ln, \xe2\x82\xac 5 \xff\r\n",
        );
        assert_eq!(text, "Grüße aus Köln, € 5 \u{fffd}", "{label}");
        // Cut in the middle of a character.
        assert_eq!(
            body(label, b"ein sch\xc3\xb6nes Fr\xc3\xbchst\xc3"),
            "ein schönes Frühst\u{fffd}",
            "{label}"
        );
        assert_eq!(
            body(label, b"Gr\xfc\xdfe aus K\xf6ln"),
            "Grüße aus Köln",
            "Windows-1252 all through: {label}"
        );
    }
}

#[test]
fn a_utf_8_body_that_calls_itself_iso_2022_jp_is_read_as_utf_8() {
    let label = "text/plain; charset=ISO-2022-JP";
    assert_eq!(
        body(label, "朝食は七時からです".as_bytes()),
        "朝食は七時からです"
    );
    assert_eq!(
        body(label, b"\x1b$BD+?)\x1b(B 7:00"),
        "朝食 7:00",
        "and what is honest as it says"
    );
    assert_eq!(
        body("text/plain; charset=utf-7", "Grüße".as_bytes()),
        "Grüße"
    );
}

#[test]
fn encoded_words_stand_where_they_stood() {
    let subject = |value: &str| {
        email(format!("From: a@b.test\r\nSubject: {value}\r\n\r\nx").as_bytes()).subject
    };
    for (value, text) in [
        ("=?utf-8?q?Fr=C3=BChst=C3=BCck?=, bitte", "Frühstück, bitte"),
        (
            "Zimmer (=?utf-8?q?K=C3=BCche?=): =?utf-8?q?ja?=!",
            "Zimmer (Küche): ja!",
        ),
        ("Re: [=?utf-8?b?w6k=?=]", "Re: [é]"),
        (
            "=?iso-2022-jp?b?GyRCRCs=?=\r\n =?iso-2022-jp?b?PykbKEI=?=",
            "朝食",
        ),
        ("=?utf-8?q?M=C3?=\r\n =?utf-8?q?=BCnchen?=", "München"),
    ] {
        assert_eq!(subject(value), text, "{value}");
    }
}

#[test]
fn names_are_decoded_whole_and_addresses_never() {
    let from = |value: &str| {
        let email = email(format!("From: {value}\r\n\r\nx").as_bytes());
        let first = email.from.first().cloned();
        (
            first.map(|m| m.name).unwrap_or_default(),
            email.sender().map(|a| a.key()),
        )
    };
    let known = Some("a@b.test".to_owned());
    for (value, name) in [
        (
            "=?iso-2022-jp?b?GyRCRCs=?= =?iso-2022-jp?b?PykbKEI=?= <a@b.test>",
            "朝食",
        ),
        (
            "=?utf-8?q?M=C3?= =?utf-8?q?=BCller=2C_Eva?= <a@b.test>",
            "Müller, Eva",
        ),
        ("\"=?utf-8?q?Zo=C3=AB?=\" <a@b.test>", "Zoë"),
        ("a@b.test (=?utf-8?q?Zo=C3=AB?=)", "Zoë"),
        ("=?utf-8?q?Zo=C3=AB?= M. <a@b.test>", "Zoë M."),
    ] {
        assert_eq!(from(value), (name.to_owned(), known.clone()), "{value}");
    }
    for evasion in [
        "=?utf-8?q?a?=@b.test",
        "=?utf-8?q?a=40b.test?=",
        "<=?utf-8?q?a=40b.test?=>",
        "=?utf-8?q?a=40b.test=3e?=@evil.test",
        "a@=?utf-8?q?b?=.test",
        "=?utf-8?q?=3Ca=40b.test=3E?=",
    ] {
        assert_eq!(from(evasion).1, None, "{evasion}");
    }
}

#[test]
fn a_letter_that_begins_with_empty_lines_has_its_header() {
    for front in ["\r\n", "\n", "\r\n\r\n", " \r\n", "\u{feff}\r\n"] {
        let email =
            email(format!("{front}From: a@b.test\r\nSubject: Room\r\n\r\nHello\r\n").as_bytes());
        assert_eq!(
            (email.subject.as_str(), email.text.as_str()),
            ("Room", "Hello"),
            "{front:?}"
        );
        assert_eq!(email.sender().map(|a| a.key()).as_deref(), Some("a@b.test"));
    }
    // Without a header the words are no field.
    assert!(parse(b"\r\nNote: call me\r\n", &ParseLimits::default()).is_err());
}

#[test]
fn an_id_that_is_mentioned_twice_is_mentioned_once() {
    let twice = email(b"From: a@b.test\r\nReferences: <1@x> <2@x> <1@x>\r\nReferences: <1@x> <2@x>\r\nIn-Reply-To: <2@x> <2@x>\r\n\r\nx");
    assert_eq!(twice.references, ["1@x", "2@x"]);
    assert_eq!(twice.in_reply_to, ["2@x"]);
}
