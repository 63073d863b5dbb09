//! Letters inside of other formats: opaque S/MIME, Outlook's `winmail.dat`, and what is encrypted.

use attache::domain::Email;
use attache::mime::{ParseLimits, parse};
use proptest::prelude::*;

const ENCRYPTED: &str = "(the letter is encrypted and cannot be read here)";

pub fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let lines: Vec<&str> = (0..text.len())
        .step_by(76)
        .map(|at| &text[at..text.len().min(at + 76)])
        .collect();
    lines.join("\r\n")
}

fn email(letter: &str) -> Email {
    parse(letter.as_bytes(), &ParseLimits::default()).expect("an email")
}

/// A letter that is one part.
fn only(fields: &str, bytes: &[u8]) -> Email {
    email(&format!(
        "From: a@b.test\r\nSubject: x\r\n{fields}\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n",
        base64(bytes)
    ))
}

/// A letter with a text and one file.
fn beside(text: &str, fields: &str, bytes: &[u8]) -> Email {
    email(&format!(
        "From: a@b.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n{text}\r\n--b\r\n\
         {fields}\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n--b--\r\n",
        base64(bytes)
    ))
}

fn names(email: &Email) -> Vec<&str> {
    email
        .attachments
        .iter()
        .map(|file| file.filename.as_str())
        .collect()
}

const SIGNED_TYPE: &str = "Content-Type: application/pkcs7-mime; smime-type=signed-data; name=\"smime.p7m\"\r\n\
                           Content-Disposition: attachment; filename=\"smime.p7m\"";

/// A value of ASN.1 with a length of the shortest form.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let inside = parts.concat();
    let mut out = vec![tag];
    match inside.len() {
        short @ 0..=127 => out.push(short as u8),
        long => {
            out.push(0x84);
            out.extend((long as u32).to_be_bytes());
        }
    }
    out.extend(inside);
    out
}

/// The same with an indefinite length.
fn ber(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![tag, 0x80];
    out.extend(parts.concat());
    out.extend([0, 0]);
    out
}

fn object_id(last: &[u8]) -> Vec<u8> {
    der(6, &[b"\x2a\x86\x48\x86\xf7\x0d\x01", last])
}

/// Signed data around an entity, by two writers of values: `wrap` for what holds others, `text` for the content.
fn signed(entity: &str, wrap: fn(u8, &[&[u8]]) -> Vec<u8>, text: fn(&str) -> Vec<u8>) -> Vec<u8> {
    let content = wrap(
        0x30,
        &[&object_id(b"\x07\x01"), &wrap(0xa0, &[&text(entity)])],
    );
    let signers = wrap(0x31, &[]);
    let data = wrap(
        0x30,
        &[&der(2, &[&[1]]), &wrap(0x31, &[]), &content, &signers],
    );
    wrap(0x30, &[&object_id(b"\x07\x02"), &wrap(0xa0, &[&data])])
}

fn whole(entity: &str) -> Vec<u8> {
    der(4, &[entity.as_bytes()])
}

fn in_pieces(entity: &str) -> Vec<u8> {
    let pieces: Vec<Vec<u8>> = entity
        .as_bytes()
        .chunks(10)
        .map(|piece| der(4, &[piece]))
        .collect();
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    ber(0x24, &pieces)
}

fn in_pieces_of_known_length(entity: &str) -> Vec<u8> {
    let pieces: Vec<Vec<u8>> = entity
        .as_bytes()
        .chunks(7)
        .map(|piece| der(4, &[piece]))
        .collect();
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    der(0x24, &pieces)
}

const ENTITY: &str = "Content-Type: multipart/mixed; boundary=i\r\n\r\n--i\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
                      Dear bot, the word is TIGER-55. Grüße\r\n--i\r\nContent-Type: text/csv; name=\"prices.csv\"\r\n\r\n1;2\r\n--i--\r\n";

#[test]
fn the_text_and_the_files_of_a_signed_container_are_the_letters() {
    let plain = "Content-Type: text/plain\r\n\r\nDear bot, the word is TIGER-55.\r\n";
    let html = "Content-Type: text/html\r\n\r\n<p>Dear bot, the word is <b>TIGER-55</b>.</p>\r\n";
    let quoted =
        "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nVElHRVItNTU=\r\n";
    let again = format!(
        "{SIGNED_TYPE}\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n",
        base64(&signed(plain, der, whole))
    );
    let detached = "Content-Type: multipart/signed; protocol=\"application/pkcs7-signature\"; boundary=s\r\n\r\n--s\r\n\r\nTIGER-55\r\n\
                    --s\r\nContent-Type: application/pkcs7-signature; name=smime.p7s\r\n\r\nx\r\n--s--\r\n";
    for (name, bytes) in [
        ("plain", signed(plain, der, whole)),
        ("lengths that are not known", signed(plain, ber, whole)),
        ("a text in pieces", signed(plain, ber, in_pieces)),
        (
            "pieces of known length",
            signed(plain, der, in_pieces_of_known_length),
        ),
        ("HTML", signed(html, der, whole)),
        ("base64 inside", signed(quoted, der, whole)),
        ("files", signed(ENTITY, der, whole)),
        ("signed twice", signed(&again, ber, whole)),
        ("signed apart inside", signed(detached, der, whole)),
        // Its end with certificates and signers is lost.
        ("cut", {
            let mut bytes = signed(plain, ber, whole);
            bytes.truncate(bytes.len() - 14);
            bytes
        }),
    ] {
        let email = only(SIGNED_TYPE, &bytes);
        assert!(email.text.contains("TIGER-55"), "{name}: {email:?}");
        assert!(
            email
                .defects
                .iter()
                .any(|defect| defect.starts_with("read out of a signed")),
            "{name}"
        );
        assert!(!names(&email).contains(&"smime.p7m"), "{name}");
    }
    let with_files = only(SIGNED_TYPE, &signed(ENTITY, der, whole));
    assert_eq!(names(&with_files), ["prices.csv"]);
    assert_eq!(with_files.text, "Dear bot, the word is TIGER-55. Grüße");
    for fields in [
        "Content-Type: application/x-pkcs7-mime; name=smime.p7m",
        "Content-Type: application/octet-stream; name=smime.p7m",
        "Content-Type: application/pkcs7-mime",
    ] {
        let email = only(fields, &signed(plain, der, whole));
        assert!(email.text.contains("TIGER-55"), "{fields}");
    }
    // A container among other parts, and in a letter that was sent on.
    let email = beside("see inside", SIGNED_TYPE, &signed(plain, der, whole));
    assert_eq!(email.text, "see inside\n\nDear bot, the word is TIGER-55.");
    // What is inside is no header of the letter.
    let forged =
        "From: owner@home.test\r\nAuto-Submitted: auto-replied\r\nSubject: y\r\n\r\nTIGER-55\r\n";
    let email = only(SIGNED_TYPE, &signed(forged, der, whole));
    assert_eq!(
        (
            email.subject.as_str(),
            email.automatic.auto_submitted.as_deref()
        ),
        ("x", None)
    );
    assert_eq!(email.sender().map(|a| a.key()).as_deref(), Some("a@b.test"));
}

#[test]
fn what_is_encrypted_says_so_and_nothing_else() {
    let enveloped = der(
        0x30,
        &[&object_id(b"\x07\x03"), &der(0xa0, &[&der(0x30, &[])])],
    );
    let authenticated = der(
        0x30,
        &[
            &object_id(b"\x09\x10\x01\x17"),
            &der(0xa0, &[&der(0x30, &[])]),
        ],
    );
    let inside = format!(
        "Content-Type: application/pkcs7-mime; smime-type=enveloped-data\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n",
        base64(&enveloped)
    );
    let kind = |kind: &str| {
        format!("Content-Type: application/pkcs7-mime; smime-type={kind}; name=smime.p7m")
    };
    for (name, email) in [
        ("enveloped", only(&kind("enveloped-data"), &enveloped)),
        ("with a wrong label", only(&kind("signed-data"), &enveloped)),
        (
            "authenticated",
            only(&kind("authEnveloped-data"), &authenticated),
        ),
        (
            "without a label",
            only("Content-Type: application/x-pkcs7-mime", &enveloped),
        ),
        (
            "as any file",
            only(
                "Content-Type: application/octet-stream; name=\"smime.p7m\"",
                &enveloped,
            ),
        ),
        ("broken", only(&kind("enveloped-data"), b"\xff\xff")),
        (
            "signed around it",
            only(SIGNED_TYPE, &signed(&inside, der, whole)),
        ),
        (
            "PGP/MIME",
            email(
                "From: a@b.test\r\nContent-Type: multipart/encrypted; protocol=\"application/pgp-encrypted\"; boundary=b\r\n\r\n--b\r\n\
                   Content-Type: application/pgp-encrypted\r\n\r\nVersion: 1\r\n--b\r\nContent-Type: application/octet-stream; name=\"e.asc\"\r\n\r\n\
                   -----BEGIN PGP MESSAGE-----\r\n\r\nhQ\r\n-----END PGP MESSAGE-----\r\n--b--\r\n",
            ),
        ),
        (
            "PGP in the text",
            email(
                "From: a@b.test\r\n\r\n-----BEGIN PGP MESSAGE-----\r\n\r\nhQEMA0\r\n=abcd\r\n-----END PGP MESSAGE-----\r\n",
            ),
        ),
        (
            "PGP that never ends",
            email("From: a@b.test\r\n\r\n-----BEGIN PGP MESSAGE-----\r\n\r\nhQEMA0\r\n"),
        ),
    ] {
        assert_eq!(email.text, ENCRYPTED, "{name}");
    }
    let both = email(
        "From: a@b.test\r\n\r\nHi!\r\n-----BEGIN PGP MESSAGE-----\r\n\r\nhQ\r\n-----END PGP MESSAGE-----\r\nAnna\r\n",
    );
    assert_eq!(both.text, format!("Hi!\n{ENCRYPTED}\nAnna"));
    // Readable, though it is about it.
    for text in [
        "-----BEGIN PGP SIGNED MESSAGE-----",
        "My key: -----BEGIN PGP MESSAGE----- ...",
    ] {
        assert_eq!(
            email(&format!("From: a@b.test\r\n\r\n{text}\r\n")).text,
            text
        );
    }
}

#[test]
fn certificates_alone_are_a_file() {
    let certificates = der(
        0x30,
        &[
            &object_id(b"\x07\x02"),
            &der(
                0xa0,
                &[&der(
                    0x30,
                    &[
                        &der(2, &[&[1]]),
                        &der(0x31, &[]),
                        &der(0x30, &[&object_id(b"\x07\x01")]),
                        &der(0x31, &[]),
                    ],
                )],
            ),
        ],
    );
    let fields = "Content-Type: application/pkcs7-mime; smime-type=certs-only; name=smime.p7m";
    let email = only(fields, &certificates);
    assert_eq!(
        (email.text.as_str(), names(&email)),
        ("", vec!["smime.p7m"])
    );
}

fn attribute(level: u8, id: u32, data: &[u8]) -> Vec<u8> {
    let sum = data
        .iter()
        .fold(0_u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
    [
        &[level][..],
        &id.to_le_bytes(),
        &(data.len() as u32).to_le_bytes(),
        data,
        &sum.to_le_bytes(),
    ]
    .concat()
}

fn properties(all: &[Vec<u8>]) -> Vec<u8> {
    [&(all.len() as u32).to_le_bytes()[..], &all.concat()].concat()
}

fn property(kind: u16, id: u16, data: &[u8]) -> Vec<u8> {
    let mut padded = data.to_vec();
    padded.resize(data.len().next_multiple_of(4), 0);
    [
        &kind.to_le_bytes()[..],
        &id.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &(data.len() as u32).to_le_bytes(),
        &padded,
    ]
    .concat()
}

fn stream(attributes: &[Vec<u8>]) -> Vec<u8> {
    [
        b"\x78\x9f\x3e\x22\x01\x00".as_slice(),
        attributes.concat().as_slice(),
    ]
    .concat()
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

fn file(title: &str, long: Option<&str>, data: &[u8]) -> Vec<u8> {
    let mut out = attribute(2, 0x0006_9002, &[0; 14]);
    out.extend(attribute(2, 0x0001_8010, format!("{title}\0").as_bytes()));
    out.extend(attribute(2, 0x0006_800f, data));
    let long = long.map(|name| {
        properties(&[
            property(0x001f, 0x3707, &wide(name)),
            property(0x001e, 0x370e, b"text/csv\0"),
        ])
    });
    out.extend(
        long.map(|props| attribute(2, 0x0006_9005, &props))
            .unwrap_or_default(),
    );
    out
}

const OUTLOOK_TYPE: &str = "Content-Type: application/ms-tnef; name=\"winmail.dat\"\r\nContent-Disposition: attachment; filename=\"winmail.dat\"";

#[test]
fn what_outlook_packed_is_unpacked() {
    let version = attribute(1, 0x0008_9006, &0x0001_0000_u32.to_le_bytes());
    let page = |page: u32| attribute(1, 0x0006_9007, &[page.to_le_bytes(), [0; 4]].concat());
    let menu = file("menu.txt", None, b"The soup is called PANDA-66.\r\n");
    let long = file("PREISL~1.CSV", Some("Preisliste für 2027.csv"), b"1;2");
    let packed = stream(&[version, page(1252), menu, long]);
    let email = beside("see the menu", OUTLOOK_TYPE, &packed);
    assert_eq!(names(&email), ["menu.txt", "Preisliste für 2027.csv"]);
    assert_eq!(
        email.attachments[0].bytes,
        b"The soup is called PANDA-66.\r\n"
    );
    assert_eq!(
        (
            email.attachments[0].content_type.as_str(),
            email.attachments[1].content_type.as_str()
        ),
        ("text/plain", "text/csv")
    );
    assert_eq!(email.text, "see the menu");

    let body = |kind: u16, id: u16, data: &[u8]| {
        stream(&[
            page(1251),
            attribute(
                1,
                0x0006_9003,
                &properties(&[
                    property(0x001e, 0x0037, b"Subject\0"),
                    property(kind, id, data),
                ]),
            ),
        ])
    };
    for (name, bytes, text) in [
        (
            "an attribute",
            stream(&[
                page(1252),
                attribute(1, 0x0002_800c, b"Gr\xfc\xdfe, PANDA-66\0"),
            ]),
            "Grüße, PANDA-66",
        ),
        (
            "a property",
            body(0x001e, 0x1000, b"\xcf\xf0\xe8\xe2\xe5\xf2 PANDA-66\0"),
            "Привет PANDA-66",
        ),
        (
            "a wide property",
            body(0x001f, 0x1000, &wide("Grüße, PANDA-66")),
            "Grüße, PANDA-66",
        ),
        (
            "HTML",
            body(0x0102, 0x1013, b"<p>The soup is <b>PANDA-66</b></p>"),
            "The soup is PANDA-66",
        ),
        (
            "HTML as text",
            body(0x001f, 0x1013, &wide("<p>Süß: PANDA-66</p>")),
            "Süß: PANDA-66",
        ),
    ] {
        // Only where the letter has no words beside it.
        let email = only(OUTLOOK_TYPE, &bytes);
        assert_eq!(email.text, text, "{name}");
        assert!(
            email
                .defects
                .contains(&"read out of winmail.dat".to_owned()),
            "{name}"
        );
        assert_eq!(
            beside("hello", OUTLOOK_TYPE, &bytes).text,
            "hello",
            "{name}"
        );
    }
}

#[test]
fn what_outlook_attached_is_unpacked_and_what_cannot_be_read_stays() {
    let version = attribute(1, 0x0008_9006, &0x0001_0000_u32.to_le_bytes());
    let menu = file("menu.txt", None, b"The soup is called PANDA-66.\r\n");
    // A message that was attached, whose own file comes out too.
    let inner = stream(&[attribute(1, 0x0002_800c, b"inner words\0"), menu.clone()]);
    let object = [&[0; 16][..], &inner].concat();
    let attached = [
        attribute(2, 0x0006_9002, &[0; 14]),
        attribute(2, 0x0001_8010, b"Fwd menu\0"),
        attribute(
            2,
            0x0006_9005,
            &properties(&[property(0x000d, 0x3701, &object)]),
        ),
    ];
    let email = beside("x", OUTLOOK_TYPE, &stream(&[version, attached.concat()]));
    assert_eq!(names(&email), ["Fwd menu.txt", "menu.txt"]);
    for fields in [
        "Content-Type: application/vnd.ms-tnef",
        "Content-Type: application/octet-stream; name=\"winmail.dat\"",
        "Content-Type: application/octet-stream; name=\"WINMAIL.DAT\"",
    ] {
        assert_eq!(
            names(&beside("x", fields, &stream(std::slice::from_ref(&menu)))),
            ["menu.txt"],
            "{fields}"
        );
    }
    // What cannot be read stays what it is; of what is cut both are kept.
    for bytes in [b"".as_slice(), b"not a stream", b"\x78\x9f\x3e\x22"] {
        assert_eq!(names(&beside("x", OUTLOOK_TYPE, bytes)), ["winmail.dat"]);
    }
    let whole = stream(&[menu.clone(), menu]);
    let cut = &whole[..120];
    assert_eq!(
        names(&beside("x", OUTLOOK_TYPE, cut)),
        ["menu.txt", "winmail.dat"]
    );
}

#[test]
fn a_hostile_frame_costs_little_and_ends() {
    // Signed in signed in signed: what lies deeper stays closed.
    let mut entity = "Content-Type: text/plain\r\n\r\ndeep\r\n".to_owned();
    for _ in 0..8 {
        let inside = base64(&signed(&entity, der, whole));
        entity = format!("{SIGNED_TYPE}\r\nContent-Transfer-Encoding: base64\r\n\r\n{inside}\r\n");
    }
    let email = email(&format!("From: a@b.test\r\n{entity}"));
    assert_eq!(
        (email.text.as_str(), names(&email)),
        ("", vec!["smime.p7m"])
    );
    // Values that open and never end, lengths beyond everything, counts beyond everything.
    let begun = std::time::Instant::now();
    for bytes in [
        b"\x30\x80".repeat(200_000),
        [b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02\xa0\x80\x30\x80\x02\x01\x01\x31\x00\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01\xa0\x80".as_slice(), &b"\x24\x80".repeat(200_000)].concat(),
        [b"\x30\x84\xff\xff\xff\xff".as_slice(), &[0x30; 64]].concat(),
    ] {
        let _bounded = only(SIGNED_TYPE, &bytes);
    }
    let many = [
        &u32::MAX.to_le_bytes()[..],
        &[0x1f, 0x10, 0, 0x10],
        &u32::MAX.to_le_bytes(),
    ]
    .concat();
    for bytes in [
        stream(&[attribute(1, 0x0006_9003, &many)]),
        stream(&[attribute(2, 0x0006_9002, &[]).repeat(20_000)]),
        [
            b"\x78\x9f\x3e\x22\x01\x00\x01".as_slice(),
            &0x0002_800c_u32.to_le_bytes(),
            &u32::MAX.to_le_bytes(),
            b"xx",
        ]
        .concat(),
    ] {
        let _bounded = beside("x", OUTLOOK_TYPE, &bytes);
    }
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_container_is_read_or_not_and_never_a_panic(
        is_outlook in any::<bool>(),
        cut in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let props = properties(&[property(0x001f, 0x1000, &wide("words")), property(0x001e, 0x3707, b"a.txt\0")]);
        let mut bytes = match is_outlook {
            true => stream(&[attribute(1, 0x0006_9003, &props), file("a.txt", Some("b.csv"), b"x"), attribute(2, 0x0006_9005, &props)]),
            false => signed(ENTITY, ber, in_pieces),
        };
        for (place, byte) in damage {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let fields = if is_outlook { OUTLOOK_TYPE } else { SIGNED_TYPE };
        let email = beside("x", fields, &bytes);
        prop_assert!(email.text.contains('x'));
        prop_assert!(email.attachments.iter().all(|file| !file.filename.is_empty() && !file.filename.contains('/')));
    }
}
