//! What goes over the wire: line rules, header fields, and that it reads back as it was meant.

use attache::domain::{Address, Email, Timestamp};
use attache::mime::{
    Automatic, ComposeError, Outgoing, OutgoingAttachment, ParseLimits, compose, new_message_id,
    parse, safe_filename,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn address(text: &str) -> Address {
    Address::parse(text).expect("address")
}

fn mail() -> Outgoing {
    Outgoing {
        message_id: new_message_id("0190-a", "engine.test"),
        date: Timestamp::parse("2026-03-02T04:05:06.789Z").expect("instant"),
        from_name: "Ada, the desk".into(),
        from: address("ada@engine.test"),
        to: vec![address("bo@guest.example")],
        cc: vec![],
        subject: "Re: Zimmer für zwei".into(),
        in_reply_to: Some("q1@guest.example".into()),
        references: vec!["q0@guest.example".into(), "q1@guest.example".into()],
        automatic: Automatic::Replied,
        loop_token: Some("hops=1; seal=0; id=0190-a@engine.test".into()),
        body_markdown: "Hello **Bo**,\n\n- one\n- two\n\n.\nBest,\nAda".into(),
        footer: attache::mime::LetterFooter::default(),
        calendar: None,
        attachments: vec![],
    }
}

fn file(name: &str, content_type: &str, bytes: &[u8]) -> OutgoingAttachment {
    OutgoingAttachment {
        filename: name.into(),
        content_type: content_type.into(),
        bytes: bytes.to_vec(),
    }
}

fn read(wire: &[u8]) -> Email {
    parse(wire, &ParseLimits::default()).expect("our own mail parses")
}

/// Names of the fields of the letter's own header, in order; asserts the line rules of RFC 5322 on the way.
fn field_names(wire: &[u8]) -> Vec<String> {
    assert!(wire.is_ascii() && wire.ends_with(b"\r\n") && !wire.contains(&0));
    let text = std::str::from_utf8(wire).expect("ASCII");
    for line in text.split("\r\n") {
        assert!(!line.contains(['\r', '\n']), "bare CR or LF in {line:?}");
        assert!(line.len() <= 998, "a line of {} bytes", line.len());
        assert_ne!(line, ".", "a lone dot");
    }
    let (header, _) = text.split_once("\r\n\r\n").expect("a blank line");
    let fields = header
        .split("\r\n")
        .filter(|line| !line.starts_with([' ', '\t']));
    fields
        .map(|line| line.split_once(':').expect("a field").0.to_owned())
        .collect()
}

const FIELDS: [&str; 13] = [
    "Date",
    "From",
    "To",
    "Cc",
    "Subject",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Auto-Submitted",
    "X-Auto-Response-Suppress",
    "Attache-Loop",
    "MIME-Version",
    "Content-Type",
];

#[test]
fn an_answer_has_every_field_once_and_reads_back() {
    let mut answer = mail();
    answer.cc = vec![address("cy@guest.example")];
    answer.attachments = vec![
        file("Rechnung März.pdf", "application/pdf", b"%PDF"),
        file("rechnung märz.PDF", "application/pdf", b"%PDF2"),
        file("../evil\r\n.eml", "message/rfc822", b"Subject: x\r\n\r\ny"),
        file("", "not a type", b""),
    ];
    let wire = compose(&answer).expect("bytes");
    assert_eq!(field_names(&wire), FIELDS);
    let email = read(&wire);
    assert_eq!(email.message_id.as_deref(), Some("0190-a@engine.test"));
    assert_eq!(
        email.date.map(|d| d.to_string()).as_deref(),
        Some("2026-03-02T04:05:06.000Z")
    );
    assert_eq!(email.sender(), Some(address("ada@engine.test")));
    assert_eq!(email.from[0].name, "Ada, the desk");
    assert_eq!(
        (email.to[0].spec.as_str(), email.cc[0].spec.as_str()),
        ("bo@guest.example", "cy@guest.example")
    );
    assert_eq!(email.subject, "Re: Zimmer für zwei");
    assert_eq!(email.in_reply_to, ["q1@guest.example"]);
    assert_eq!(email.references, ["q0@guest.example", "q1@guest.example"]);
    assert_eq!(
        email.automatic.auto_submitted.as_deref(),
        Some("auto-replied")
    );
    let suppressed = email.automatic.auto_response_suppress.as_deref();
    assert_eq!(
        suppressed,
        Some("dr, rn, nrn, oof, autoreply"),
        "bounces (`NDR`, `All`) are wanted"
    );
    assert_eq!(email.text, answer.body_markdown.replace("**", ""));
    assert!(
        email
            .html
            .as_deref()
            .is_some_and(|h| h.contains("<strong>Bo</strong>") && h.contains("<li>one</li>"))
    );
    let files: Vec<(&str, &str, &[u8])> = email
        .attachments
        .iter()
        .map(|a| {
            (
                a.filename.as_str(),
                a.content_type.as_str(),
                a.bytes.as_slice(),
            )
        })
        .collect();
    let expected: [(&str, &str, &[u8]); 4] = [
        ("Rechnung März.pdf", "application/pdf", b"%PDF"),
        ("rechnung märz (2).PDF", "application/pdf", b"%PDF2"),
        (
            "evil.eml",
            "application/octet-stream",
            b"Subject: x\r\n\r\ny",
        ),
        ("attachment.bin", "application/octet-stream", b""),
    ];
    assert_eq!(files, expected);
    assert!(email.defects.is_empty(), "{:?}", email.defects);
}

#[test]
fn the_same_mail_is_the_same_bytes() {
    let mut twice = mail();
    twice.attachments = vec![file("a.txt", "text/plain", b"a\nb")];
    assert_eq!(compose(&twice), compose(&twice));
    assert_eq!(
        compose(&Outgoing {
            automatic: Automatic::Generated,
            ..twice.clone()
        })
        .map(|b| b.len() > 100),
        Ok(true)
    );
    let old = Outgoing {
        date: Timestamp::from_millis(-62_000_000_000_000),
        ..twice
    };
    assert_eq!(
        compose(&old),
        compose(&old),
        "not even a strange date asks the clock"
    );
}

#[test]
fn fields_without_a_value_are_left_out() {
    let bare = Outgoing {
        in_reply_to: None,
        references: vec![],
        from_name: String::new(),
        ..mail()
    };
    let names = field_names(&compose(&bare).expect("bytes"));
    let absent = ["Cc", "In-Reply-To", "References"];
    assert_eq!(
        names,
        FIELDS
            .iter()
            .filter(|f| !absent.contains(f))
            .copied()
            .collect::<Vec<_>>()
    );
}

#[test]
fn what_cannot_be_written_is_refused_or_left_out() {
    assert_eq!(
        compose(&Outgoing {
            to: vec![],
            ..mail()
        }),
        Err(ComposeError::NoRecipient)
    );
    let injected = Outgoing {
        message_id: "a@b>\r\nBcc: x@y.test".into(),
        ..mail()
    };
    assert!(matches!(
        compose(&injected),
        Err(ComposeError::BadMessageId(_))
    ));
    let long = Outgoing {
        body_markdown: "x".repeat(1024 * 1024 + 1),
        ..mail()
    };
    assert!(matches!(
        compose(&long),
        Err(ComposeError::TextTooLarge { .. })
    ));
    let strange = Outgoing {
        in_reply_to: Some("a b>\r\nBcc: c@d.test".into()),
        references: vec![
            "ok@x.test".into(),
            "<bad@x.test>".into(),
            "ü@x.test".into(),
            "y".repeat(2_000),
        ],
        ..mail()
    };
    let email = read(&compose(&strange).expect("bytes"));
    assert_eq!(
        (email.in_reply_to.len(), email.references),
        (0, vec!["ok@x.test".to_owned()])
    );
}

#[test]
fn long_fields_are_folded_and_many_recipients_fit() {
    let long = Outgoing {
        to: (0..300)
            .map(|n| address(&format!("guest{n}@a-rather-long-domain.example")))
            .collect(),
        subject: "x".repeat(5_000),
        from_name: "y".repeat(5_000),
        references: (0..100)
            .map(|n| format!("{n}-{}@x.test", "z".repeat(300)))
            .collect(),
        ..mail()
    };
    let wire = compose(&long).expect("bytes");
    field_names(&wire);
    let email = read(&wire);
    assert_eq!((email.to.len(), email.references.len()), (300, 100));
    assert_eq!(email.references[99], long.references[99]);
    assert_eq!(email.subject, "x".repeat(900));
}

/// Text biased towards what breaks lines and headers.
fn nasty(max: usize) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-zA-Z0-9 ]{1,12}",
        2 => prop::sample::select(vec![
            "\r", "\n", "\r\n", ".", "\r\n.\r\n", "\0", "\u{2028}", "\u{85}", "é", "日本語", "🐝", "=?utf-8?q?x?=", "=", "=0D",
            "--", "Bcc: x@y.test", "\"", "\\", ";", ":", "<", ">", "(", ",", "\t", "/", "..", "  ", "=20", "From ", "%", "'", "*", "\u{feff}",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(|c| c.to_string()),
    ];
    prop::collection::vec(piece, 0..max).prop_map(|pieces| pieces.concat())
}

/// One line as the composer promises it: control characters and separators are blanks, edges are trimmed.
fn as_line(text: &str, max: usize) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let line: String = text
        .chars()
        .map(|c| if breaks(c) { ' ' } else { c })
        .collect();
    line.trim().chars().take(max).collect()
}

/// A body as both ends promise it: `\n` line ends, no other controls or byte-order marks, no blank edges.
fn as_body(text: &str) -> String {
    let lines = text
        .replace("\r\n", "\n")
        .replace('\u{feff}', "")
        .replace('\r', "\n");
    let kept: String = lines
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect();
    let start = kept
        .find(|c: char| !c.is_whitespace())
        .unwrap_or(kept.len());
    let start = kept[..start].rfind('\n').map_or(0, |at| at + 1);
    kept[start..].trim_end().to_owned()
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Mails that the property below writes; 10,000 is the long form.
fn cases() -> u32 {
    let asked = std::env::var("ATTACHE_COMPOSED_MAILS")
        .ok()
        .map(|text| text.parse().expect("a number"));
    asked.unwrap_or(3_000)
}

/// What no rendering may lose or add; the marks between are the dialect's own tests.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "second tier"]
    fn nothing_that_is_said_can_break_the_wire(
        subject in nasty(20), name in nasty(10), body in nasty(60), ids in prop::collection::vec(nasty(6), 0..4),
        files in prop::collection::vec((nasty(10), nasty(4), prop::collection::vec(any::<u8>(), 0..200)), 0..3),
    ) {
        let outgoing = Outgoing {
            subject: subject.clone(),
            from_name: name.clone(),
            body_markdown: body.clone(),
            in_reply_to: ids.first().cloned(),
            references: ids,
            attachments: files.iter().map(|(name, kind, bytes)| file(name, &format!("text/{kind}"), bytes)).collect(),
            ..mail()
        };
        let wire = compose(&outgoing).expect("bytes");
        let names = field_names(&wire);
        let ours: BTreeSet<&str> = FIELDS.into_iter().collect();
        prop_assert!(names.iter().all(|n| ours.contains(n.as_str())), "{:?}", names);
        prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let email = read(&wire);
        // A header value that is folded may have lost or gained blanks, never anything else.
        let subject = as_line(&subject, 900);
        prop_assert_eq!(words(&email.subject), words(&subject));
        let name = as_line(&name, 200);
        prop_assert_eq!(email.sender(), Some(address("ada@engine.test")));
        prop_assert_eq!(words(&email.from[0].name), words(&name));
        prop_assert_eq!(letters(&email.text), letters(&as_body(&body)));
        prop_assert_eq!(email.attachments.len(), files.len());
        for (attachment, (declared, _, bytes)) in email.attachments.iter().zip(&files) {
            prop_assert_eq!(&attachment.bytes, bytes);
            let safe = safe_filename(declared);
            prop_assert_eq!(safe_filename(&safe), safe.clone());
            let is_numbered = attachment.filename.contains(" (");
            prop_assert!(safe.is_empty() || is_numbered || attachment.filename == safe, "{:?} {:?}", attachment, safe);
        }
    }
}

/// Older programs of Microsoft know no name by RFC 2231, so each name stands in `Content-Type` once more, by RFC 2047.
#[test]
fn names_of_files_are_written_for_old_programs_too() {
    for (name, written) in [
        ("menu.pdf", "name=\"menu.pdf\""),
        (
            "Menü für Gäste.pdf",
            "name=\"=?utf-8?B?TWVuw7wgZsO8ciBHw6RzdGUucGRm?=\"",
        ),
        (
            "Preisliste 2026 (final).xlsx",
            "name=\"Preisliste 2026 (final).xlsx\"",
        ),
        (
            "日本語のとても長い名前のファイルです、本当に長いです.docx",
            "name=\"=?utf-8?B?",
        ),
        ("a;b=c.txt", "name=\"a;b=c.txt\""),
        ("=?utf-8?q?x?=.txt", "name=\"=_utf-8_q_x_=.txt\""),
        ("it's.csv", "name=\"it's.csv\""),
        ("😁.png", "name=\"=?utf-8?B?8J+YgS5wbmc=?=\""),
        ("résumé\u{301}.doc", "name=\"=?utf-8?B?"),
        ("мой файл.zip", "name=\"=?utf-8?B?"),
        (&"ä".repeat(110), "name=\"=?utf-8?B?"),
    ] {
        let outgoing = Outgoing {
            attachments: vec![file(name, "application/pdf", b"x")],
            ..mail()
        };
        let wire = compose(&outgoing).expect("a mail");
        field_names(&wire);
        let text = String::from_utf8(wire.clone()).expect("ASCII");
        assert!(text.contains(written), "{name}: {text}");
        assert!(
            text.contains("Content-Type: application/pdf;\r\n name="),
            "{text}"
        );
        let safe = safe_filename(name);
        assert_eq!(read(&wire).attachments[0].filename, safe, "{text}");
        // And without the newer one.
        let old: String = text
            .split_inclusive("\r\n")
            .scan(false, |cut, line| {
                let is_field = !line.starts_with([' ', '\t']);
                *cut = line.starts_with("Content-Disposition") || (*cut && !is_field);
                Some(if *cut { "" } else { line })
            })
            .collect();
        let old = old.replace(
            "Content-Type: application/pdf;",
            "Content-Disposition: attachment\r\nContent-Type: application/pdf;",
        );
        assert_eq!(read(old.as_bytes()).attachments[0].filename, safe, "{old}");
    }
}
