//! What an email says: headers, bodies, attachments, forwarded mail, and the signs of machines.

use attache::domain::{Email, Timestamp};
use attache::mime::{ParseLimits, html_to_text, parse};

fn fixture(name: &str) -> Email {
    let path = format!(
        "{}/tests/fixtures/mime/{name}.eml",
        env!("CARGO_MANIFEST_DIR")
    );
    // Kept with line feeds in the repository, as editors want it; mail has CRLF.
    let letter = std::fs::read_to_string(&path)
        .expect("fixture")
        .replace('\n', "\r\n");
    parse(letter.as_bytes(), &ParseLimits::default()).expect("an email")
}

fn email(letter: &str) -> Email {
    parse(letter.as_bytes(), &ParseLimits::default()).expect("an email")
}

#[test]
fn headers_are_decoded_and_ids_keep_their_case() {
    let email = fixture("headers");
    assert_eq!(email.message_id.as_deref(), Some("AbC.1@Mail.example"));
    assert_eq!(email.in_reply_to, ["Parent@engine.test"]);
    assert_eq!(email.references, ["Root@engine.test", "Parent@engine.test"]);
    assert_eq!(email.subject, "Grüße aus Zürich – zweite Zeile");
    assert_eq!(
        (email.from[0].name.as_str(), email.from[0].spec.as_str()),
        ("Zoë Müller", "zoe@mail.example")
    );
    assert_eq!(
        email.to.iter().map(|m| m.spec.as_str()).collect::<Vec<_>>(),
        ["ada@engine.test", "bo@engine.test"]
    );
    assert_eq!(email.cc[0].to_string(), "Cy, Jr. <cy@engine.test>");
    assert_eq!(email.reply_to[0].spec, "replies@mail.example");
    assert_eq!(email.date, Timestamp::parse("2026-11-03T13:02:03Z"));
    assert_eq!(email.text, "Smörgåsbord");
    assert_eq!(
        email.sender().map(|a| a.key()).as_deref(),
        Some("zoe@mail.example")
    );
    assert!(email.defects.is_empty(), "{:?}", email.defects);
}

#[test]
fn a_sender_is_one_address_in_one_field() {
    let sender = |fields: &str| {
        email(&format!("{fields}\r\n\r\nhi"))
            .sender()
            .map(|a| a.key())
    };
    assert_eq!(
        sender("From: Owner <owner@home.test>").as_deref(),
        Some("owner@home.test")
    );
    for evasion in [
        "From: owner@home.test\r\nFrom: evil@x.test",
        "From: owner@home.test, evil@x.test",
        "From: owner@home.test, Evil",
        "From: Evil, owner@home.test",
        "FROM: owner@home.test\r\nfrom: owner@home.test",
        "From : owner@home.test\r\nFrom: evil@x.test",
        "From: <@x.test:owner@home.test>",
        "From: \"owner@home.test\"",
        "From: owner@home.test\0@evil.test",
        "From: <>",
        "Subject: no sender",
    ] {
        assert_eq!(sender(evasion), None, "{evasion:?}");
    }
    let dates = [
        ("", "no Date field"),
        ("Date: at noon\r\n", "a Date field that cannot be read"),
    ];
    for (date, defect) in dates {
        let undated = email(&format!(
            "From: a@x.test\r\nMessage-ID: <1@x.test>\r\n{date}\r\nhi"
        ));
        assert_eq!(undated.defects, [defect]);
    }
    let two = email("From: a@x.test\r\nFrom: b@x.test\r\n\r\nhi");
    assert_eq!((two.from_header_count, two.from.len()), (2, 2));
    assert!(two.defects.iter().any(|d| d.contains("From")));
}

#[test]
fn plain_text_is_preferred_and_html_is_kept() {
    let email = fixture("alternative_with_files");
    assert_eq!(email.text, "Plain words.");
    assert!(
        email
            .html
            .as_deref()
            .is_some_and(|h| h.contains("<b>words</b>"))
    );
    let names: Vec<&str> = email
        .attachments
        .iter()
        .map(|a| a.filename.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "logo.png",
            "preis liste€.txt",
            "Preis liste€ (2).txt",
            "attachment-4.pdf",
            "_nul.txt"
        ]
    );
    assert_eq!(email.attachments[0].content_id.as_deref(), Some("logo@x"));
    assert_eq!(email.attachments[1].bytes, b"1 \xe2\x82\xac");
    assert_eq!(email.attachments[4].declared_name, "../nul.txt");
}

#[test]
fn a_blank_plain_alternative_gives_way_to_html() {
    let email = fixture("html_only");
    assert_eq!(
        email.text,
        "Dear Ada,\n\nsee our offer <https://shop.example/?a=1&b=2> or write to us@shop.example.\n* one\n* two & three\n\n\
         Room | Price\n4 | 90 €\n\n> quoted\n\n[The house]"
    );
    assert_eq!(email.fresh_text, email.text);
    assert!(email.html.is_some() && email.attachments.is_empty());
}

#[test]
fn what_nobody_could_see_is_not_read() {
    let html = "<p>Pay 5.</p><div style=\"DISPLAY : none !important\">obey <b>me</b></div><span hidden>and me</span>\
                <p style='font-size:0px'>tiny</p><p style=font-size:0.9em>small</p><!-- no --><script>no</script><p>End";
    assert_eq!(html_to_text(html), "Pay 5.\n\nsmall\n\nEnd");
}

#[test]
fn a_link_that_says_where_it_leads_is_shown_once_scripts_never() {
    let html = "<a href='https://a.test/x'>https://a.test/x</a> <a href=\"javascript:alert(1)\">b</a> \
                <a href=https://evil.test/>https://bank.test</a>";
    assert_eq!(
        html_to_text(html),
        "https://a.test/x b https://bank.test <https://evil.test/>"
    );
}

#[test]
fn several_texts_are_joined_and_a_footer_does_not_replace_html() {
    let email = fixture("mixed_texts");
    assert_eq!(email.text, "First part.\n\nRich part.\n\n-- \nlist footer");
    assert!(email.automatic.has_list_header);
    assert_eq!(email.list_id.as_deref(), Some("walks.lists.example"));
    assert_eq!(email.automatic.precedence.as_deref(), Some("list"));
}

#[test]
fn forwarded_mail_is_shown_with_its_headers_and_kept_whole() {
    let email = fixture("forwarded");
    assert!(email.text.starts_with(
        "Please handle this.\n\n---------- Forwarded message ----------\nFrom: Shop <shop@market.example>"
    ));
    assert!(
        email
            .text
            .contains("\nDate: Mon, 2 Nov 2026 08:00:00 +0100\nSubject: Invoice 17/26 ü\n")
    );
    assert!(
        email
            .text
            .contains("\n\nYou owe 12 crowns.\n\n---------- End of forwarded message ----------")
    );
    assert_eq!(email.fresh_text, email.text);
    let names: Vec<&str> = email
        .attachments
        .iter()
        .map(|a| a.filename.as_str())
        .collect();
    assert_eq!(names, ["Invoice 17-26 ü.eml", "invoice.csv"]);
    assert!(email.attachments[0].bytes.starts_with(b"From: Shop"));
    assert_eq!(email.attachments[1].bytes, b"crowns\r\n12");
    // What is inside must never pass for the letter's own.
    assert_eq!(email.subject, "See below");
    assert_eq!(email.html, None);
}

#[test]
fn automatic_mail_shows_its_signs() {
    let report = email(
        "From: MAILER-DAEMON@mx.example\r\nAuto-Submitted: Auto-Replied (vacation); x=y\r\nX-Auto-Response-Suppress: OOF, AutoReply\r\n\
         X-Loop: ada@engine.test\r\nPrecedence: BULK\r\nReceived: from a\r\nReceived: from b\r\n\
         Content-Type: Multipart/Report; report-type=delivery-status; boundary=b\r\n\r\n--b\r\n\r\nfailed\r\n--b--\r\n",
    );
    let signs = &report.automatic;
    assert_eq!(signs.auto_submitted.as_deref(), Some("auto-replied"));
    assert_eq!(
        signs.auto_response_suppress.as_deref(),
        Some("oof, autoreply")
    );
    assert_eq!(signs.precedence.as_deref(), Some("bulk"));
    assert!(signs.is_report && signs.has_autoreply_header && !signs.has_list_header);
    assert_eq!((signs.received_count, report.text.as_str()), (2, "failed"));
    let human = email("From: a@b.test\r\n\r\nhi").automatic;
    assert_eq!(human, attache::domain::AutomaticSigns::default());
    // A field without a token is not `no`.
    let odd = email("From: a@b.test\r\nAuto-Submitted: (hm)\r\n\r\nhi").automatic;
    assert_eq!(odd.auto_submitted.as_deref(), Some(""));
}

#[test]
fn charsets_encodings_and_dates_are_read_as_people_send_them() {
    let body = |headers: &str, body: &[u8]| {
        let mut letter = format!("From: a@b.test\r\n{headers}\r\n\r\n").into_bytes();
        letter.extend_from_slice(body);
        parse(&letter, &ParseLimits::default())
            .expect("an email")
            .text
    };
    assert_eq!(body("X: y", "é".as_bytes()), "é");
    assert_eq!(body("X: y", b"caf\xe9"), "café");
    assert_eq!(
        body("Content-Type: text/plain; charset=us-ascii", "é".as_bytes()),
        "é"
    );
    assert_eq!(
        body(
            "Content-Type: text/plain; charset=koi8-r",
            b"\xf0\xd2\xc9\xd7\xc5\xd4"
        ),
        "Привет"
    );
    assert_eq!(
        body(
            "Content-Type: text/plain; charset=\"shift_jis\"",
            b"\x93\xfa\x96\x7b"
        ),
        "日本"
    );
    assert_eq!(
        body(
            "Content-Transfer-Encoding: BASE64",
            b"aGVs!!\r\nbG8=\r\n-- trailing"
        ),
        "hello"
    );
    assert_eq!(
        body(
            "Content-Transfer-Encoding: quoted-printable",
            b"a=3D=\r\nb =zz =C3=A9  \r\nc"
        ),
        "a=b =zz é\nc"
    );
    let date = |text: &str| {
        email(&format!("From: a@b.test\r\nDate: {text}\r\n\r\nhi"))
            .date
            .map(|d| d.to_string())
    };
    for text in [
        "Tue, 3 Nov 2026 14:02:03 +0100",
        "3 Nov 2026 13:02:03 GMT",
        "Tue, 03 Nov 2026 13:02:03 +0000 (UTC)",
        "2026-11-03T13:02:03Z",
    ] {
        assert_eq!(
            date(text).as_deref(),
            Some("2026-11-03T13:02:03.000Z"),
            "{text:?}"
        );
    }
    for text in ["", "yesterday", "Tue, 99 Foo 2026 99:99:99 +9999"] {
        assert_eq!(date(text), None, "{text:?}");
    }
}

#[test]
fn a_damaged_mail_still_says_something() {
    let unclosed = email(
        "From: a@b.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello",
    );
    assert_eq!(unclosed.text, "hello");
    let undelimited =
        email("From: a@b.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\nhello");
    assert_eq!(undelimited.text, "hello");
    let stray =
        email("From: a@b.test\r\nthis line was wrapped\r\nMessage-ID: <x@b.test>\r\n\r\nhello");
    assert_eq!(
        (stray.message_id.as_deref(), stray.text.as_str()),
        (Some("x@b.test"), "hello")
    );
    let unseparated = email("From: a@b.test\r\nhello there\r\nNote: bring bread");
    assert_eq!(unseparated.text, "hello there\nNote: bring bread");
}

#[test]
fn a_stray_bracket_never_becomes_part_of_an_id() {
    let email = email("Message-ID: @3<shop.example\r\nIn-Reply-To: a@b.test<c\r\n\r\nhello\r\n");
    assert_eq!(email.message_id.as_deref(), Some("@3shop.example"));
    assert_eq!(email.in_reply_to, ["a@b.testc"]);
}
