//! Headers that no grammar allows and people have: addresses, raw bytes, names of files, unfolded lines.

use attache::domain::Email;
use attache::mime::{ParseLimits, parse};

fn email(letter: &[u8]) -> Email {
    parse(letter, &ParseLimits::default()).expect("an email")
}

fn header(lines: &[u8]) -> Email {
    email(&[lines, b"\r\n\r\nhello\r\n"].concat())
}

#[test]
fn one_address_is_found_however_it_is_written() {
    for (from, address) in [
        ("Doe, John <john@guest.example>", "john@guest.example"),
        ("Berger, Anna <anna@guest.example>", "anna@guest.example"),
        ("A; B <ab@guest.example>", "ab@guest.example"),
        (
            "Muster, Anna, Dr. <anna@guest.example>",
            "anna@guest.example",
        ),
        ("Smith, J. (Sales) <j@guest.example>", "j@guest.example"),
        ("Yuki <yuki.@keitai.example>", "\"yuki.\"@keitai.example"),
        ("yu..ki@keitai.example", "\"yu..ki\"@keitai.example"),
        ("<.yuki@keitai.example>", "\".yuki\"@keitai.example"),
        ("yuki..@keitai.example", "\"yuki..\"@keitai.example"),
        ("\"yu..ki\"@keitai.example", "\"yu..ki\"@keitai.example"),
        ("\"#FAX#49000\"@fax.example", "#FAX#49000@fax.example"),
        ("Fax <\"#FAX#49000\"@fax.example>", "#FAX#49000@fax.example"),
        ("\"anna\"@guest.example", "anna@guest.example"),
        (
            "Anna <\"anna muster\"@guest.example>",
            "\"anna muster\"@guest.example",
        ),
        (
            "=?utf-8?q?M=C3=BCller?=, Eva <eva@guest.example>",
            "eva@guest.example",
        ),
    ] {
        let email = header(format!("From: {from}").as_bytes());
        let found = email.sender().map(|sender| sender.to_string());
        assert_eq!(found.as_deref(), Some(address), "{from}");
        // What is written into an answer is read back as the same address.
        let again = header(format!("From: X <{address}>").as_bytes());
        assert_eq!(again.sender(), email.sender(), "{from}");
    }
    assert_eq!(
        header(b"From: Doe, John <john@guest.example>").from[0].name,
        "Doe, John"
    );
}

#[test]
fn what_names_two_or_none_stays_nobody() {
    for from in [
        "owner@home.test, Evil",
        "Evil, owner@home.test",
        "a@x.test, Doe, John <john@guest.example>",
        "Doe <a@x.test>, John <john@guest.example>",
        "owner@home.test <john@guest.example>, x",
        "A: B, C <anna@guest.example>",
        "<@x.test:anna@guest.example>",
        "Doe, John <john@guest.example> evil",
        "Doe, John <<john@guest.example>>",
        "Doe, \"John <john@guest.example>",
        "Doe, John <jo\"hn@guest.example>",
        "Doe, John <\"jo@x.test\"@guest.example>",
        "Doe, John <\"jo\\\"hn\"@guest.example>",
        "Doe, John <john@[192.0.2.1]>",
        "Doe, John <j\u{f6}hn@guest.example>",
        "Doe, John <=?utf-8?q?john?=@guest.example>",
        "an na@guest.example",
        "anna,@guest.example",
        "@guest.example",
        "Doe, John",
        "<>",
    ] {
        assert_eq!(
            header(format!("From: {from}").as_bytes()).sender(),
            None,
            "{from}"
        );
    }
    let two = header(b"From: Doe, John <john@guest.example>\r\nFrom: Eve <eve@x.test>");
    assert_eq!(two.sender(), None);
}

#[test]
fn raw_bytes_in_a_header_are_read_in_the_charset_of_the_letter() {
    for (label, subject, text) in [
        (
            "iso-8859-1",
            b"Gr\xfc\xdfe aus K\xf6ln".as_slice(),
            "Grüße aus Köln",
        ),
        ("windows-1252", b"5 \x80 f\xfcr dich", "5 € für dich"),
        ("windows-1251", b"\xcf\xf0\xe8\xe2\xe5\xf2", "Привет"),
        ("koi8-r", b"\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"),
        ("iso-8859-2", b"\xafy\xb3", "Żył"),
        ("shift_jis", b"\x82\xb2\x97\\\x96\xf1", "ご予約"),
        ("gb2312", b"\xce\xd2\xcf\xeb", "我想"),
        ("utf-8", "Grüße".as_bytes(), "Grüße"),
        // Bytes that are UTF-8 are that, whatever the text calls itself.
        ("iso-8859-1", "Grüße".as_bytes(), "Grüße"),
        ("us-ascii", b"Gr\xfc\xdfe", "Grüße"),
        ("x-unknown", b"Gr\xfc\xdfe", "Grüße"),
        ("iso-8859-1", b"=?utf-8?q?K=C3=B6ln?= \xfc", "Köln ü"),
    ] {
        let kind = format!("\r\nContent-Type: text/plain; charset={label}");
        let lines = [
            b"From: ".as_slice(),
            subject,
            b" <a@b.test>\r\nSubject: ",
            subject,
            kind.as_bytes(),
        ];
        let email = header(&lines.concat());
        assert_eq!(email.subject, text, "{label}");
        assert_eq!(
            email.sender().map(|a| a.to_string()).as_deref(),
            Some("a@b.test"),
            "{label}"
        );
        if !subject.contains(&b'\\') {
            assert_eq!(email.from[0].name, text, "{label}");
        }
    }
    // Of a letter in parts the first text tells it.
    let parts = b"From: a@b.test\r\nSubject: \xcf\xf0\xe8\xe2\xe5\xf2\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
                  Content-Type: text/plain; charset=windows-1251\r\n\r\n\xc4\xe0\r\n--b--\r\n";
    assert_eq!(
        (email(parts).subject.as_str(), email(parts).text.as_str()),
        ("Привет", "Да")
    );
}

fn file_name(parameters: &str) -> String {
    let letter = format!(
        "From: a@b.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: application/octet-stream\r\n\
         Content-Disposition: attachment; {parameters}\r\n\r\nx\r\n--b--\r\n"
    );
    email(letter.as_bytes()).attachments[0].filename.clone()
}

#[test]
fn names_of_files_are_whole_in_whatever_pieces_they_come() {
    for (parameters, name) in [
        (
            "filename*0*=windows-1251''%EF%F0%EE%E3%F0%E0%EC%EC%E8%F0%EE%E2%E0;\r\n filename*1*=%ED%E8%E5.txt",
            "программирование.txt",
        ),
        (
            "filename*1*=%ED%E8%E5.txt; filename*0*=windows-1251''%EF%F0",
            "прние.txt",
        ),
        ("filename*0*=utf-8''a%C3; filename*1*=%BCb.txt", "aüb.txt"),
        (
            "filename*0=\"long \"; filename*1=\"name.pdf\"",
            "long name.pdf",
        ),
        (
            "filename*0*=iso-8859-1''K%F6ln; filename*1=\" 2.txt\"",
            "Köln 2.txt",
        ),
        ("filename*=utf-8''%e2%82%ac%20rates.txt", "€ rates.txt"),
        (
            "filename=\"EUR rates.txt\"; filename*=utf-8''%e2%82%ac%20rates.txt",
            "€ rates.txt",
        ),
        ("filename*=''plain.txt", "plain.txt"),
        (
            "FileName*0*=UTF-8'de'Gr%C3%BC; FILENAME*1*=%C3%9Fe.txt",
            "Grüße.txt",
        ),
        (
            "filename=\"=?utf-8?q?Pr?=\t=?utf-8?q?eise.txt?=\"",
            "Preise.txt",
        ),
        (
            "filename=\"=?utf-8?b?w7w=?=\r\n\t=?utf-8?q?ber.tx?=\r\n\t=?utf-8?q?t?=\"",
            "über.txt",
        ),
        (
            "filename=\"=?utf-8?q?M=C3?= =?utf-8?q?=BCnchen.pdf?=\"",
            "München.pdf",
        ),
        ("filename==?utf-8?q?M=C3=BCnchen.pdf?=", "München.pdf"),
        (
            "filename*0==?utf-8?q?M=C3=BC?=; filename*1==?utf-8?q?nchen.pdf?=",
            "München.pdf",
        ),
        ("filename=\"a;b=c.txt\"", "a;b=c.txt"),
        ("filename*0*=utf-8''a%3B%22b.txt", "a;_b.txt"),
    ] {
        assert_eq!(file_name(parameters), name, "{parameters}");
    }
    // Gaps, nonsense and great numbers end nothing.
    for parameters in [
        "filename*0=a; filename*7=b",
        "filename*x=a",
        "filename*=",
        "*0=a",
        "filename*99999999999=a",
        "filename*0*=%",
    ] {
        let _bounded = file_name(parameters);
    }
    assert_eq!(file_name("filename*0=a.txt; filename*7=b"), "a.txt");
}

#[test]
fn lines_that_were_wrapped_without_a_fold_end_no_header() {
    const REST: &str = "From: Anna <anna@guest.example>\r\nSubject: Hello bot\r\nMessage-ID: <u@guest.example>\r\n\r\nGood morning\r\n";
    for wrapped in [
        "Received: from a.example (a.example [192.0.2.1])\r\nby b.example with SMTP id 1;\r\nSat, 28 Nov 2026 10:00:00 +0000",
        "DKIM-Signature: v=1; a=rsa-sha256; b=abcd\r\nefgh+ijk/lmn\r\nopqr==",
        "X-Spam-Report: a\r\nline two\r\nline three\r\nline four\r\nline five\r\nline six",
        "References: <a@x.test>\r\n<b@x.test>\r\n<c@x.test>",
        "To: ada@engine.test,\r\nben@engine.test,\r\ncy@engine.test",
        "X-Json: {\r\n\"a\": 1,\r\n\"b\": 2\r\n}",
        "Authentication-Results: mx.x.test;\r\nspf=pass smtp.mailfrom=x.test;\r\ndkim=none (no signature)",
        "X-Long: one\r\n\ttwo\r\nthree four\r\nfive six",
        "Received: by x.test\r\nid 7\r\nReceived: by y.test\r\nid 8\r\nfor <ada@engine.test>",
        "Comments: a\r\n-- \r\nb",
        "X-Uuencoded: M\r\nM9F]R(&%N=&]N\r\n`",
    ] {
        let email = email(format!("{wrapped}\r\n{REST}").as_bytes());
        assert_eq!(
            (email.subject.as_str(), email.text.as_str()),
            ("Hello bot", "Good morning"),
            "{wrapped:?}"
        );
        assert_eq!(
            email.sender().map(|a| a.key()).as_deref(),
            Some("anna@guest.example"),
            "{wrapped:?}"
        );
    }
    // The words of a letter whose empty line was lost are no header, nor those of one without a header.
    let lost = email(b"From: a@b.test\r\nSubject: x\r\nHi Ada,\r\nplease see below\r\nFrom: Carla\r\n\r\nthe room\r\n");
    assert!(lost.text.starts_with("Hi Ada,"), "{:?}", lost.text);
    assert_eq!(lost.from.len(), 1);
}
