//! Charsets as mail programs name them, and texts that name none or a wrong one.

use attache::mime::{ParseLimits, parse};

fn text(charset: &str, content: &[u8]) -> String {
    let label = match charset {
        "" => String::new(),
        charset => format!("Content-Type: text/plain; charset=\"{charset}\"\r\n"),
    };
    let header = format!("From: a@b.test\r\n{label}Content-Transfer-Encoding: 8bit\r\n\r\n");
    let letter = [header.as_bytes(), content].concat();
    parse(&letter, &ParseLimits::default())
        .expect("an email")
        .text
}

/// Labels that programs write, with bytes of that charset.
const LABELLED: &[(&[&str], &[u8], &str)] = &[
    (
        &[
            "cp932",
            "csWindows31J",
            "windows-932",
            "ibm-943",
            "cp943",
            "MS932",
            "x-ms-cp932",
            "shift-jis",
            "CP-932",
            "windows-31j",
        ],
        b"\x82\xb2\x97\\\x96\xf1\x82\xcc\x8c\x8f",
        "ご予約の件",
    ),
    (
        &[
            "eucJP-ms",
            "eucjp",
            "x-euc-jp",
            "cp51932",
            "ujis",
            "EUC-JP",
            "eucJP-win",
        ],
        b"\xa4\xb4\xcd\xbd\xcc\xf3\xa4\xce\xb7\xef",
        "ご予約の件",
    ),
    (
        &[
            "cp949",
            "ms949",
            "uhc",
            "x-windows-949",
            "ks_c_5601",
            "windows-949",
            "KSC5601",
            "euckr",
            "ks_c_5601-1987",
            "ibm-949",
        ],
        b"\xb9\xe6\xc0\xbb \xbf\xb9\xbe\xe0\xc7\xd5\xb4\xcf\xb4\xd9",
        "방을 예약합니다",
    ),
    (
        &["johab", "cp1361", "x-johab", "ms1361"],
        b"\xa4w\xb7i \xb5\x81",
        "방을 예",
    ),
    (
        &["iso-2022-kr", "csISO2022KR", "ISO-2022-KR"],
        b"\x1b$)C\x0e9f@;\x0f \x0e?9>`GU4O4Y\x0f",
        "방을 예약합니다",
    ),
    (
        &[
            "euc-cn",
            "cp936",
            "gb2312",
            "EUCCN",
            "x-euc-cn",
            "ms936",
            "windows-936",
            "GB_2312-80",
        ],
        b"\xce\xd2\xcf\xeb\xd4\xa4\xb6\xa9\xb7\xbf\xbc\xe4",
        "我想预订房间",
    ),
    (
        &["hz-gb-2312", "HZ", "hz-gb2312"],
        b"~{NROkT$6)7?<d~} A~~B",
        "我想预订房间 A~B",
    ),
    (
        &[
            "cp950",
            "ms950",
            "windows-950",
            "big5-eten",
            "x-windows-950",
            "Big5",
            "bigfive",
        ],
        b"\xa7\xda\xb7Q\xb9w\xadq\xa9\xd0\xb6\xa1",
        "我想預訂房間",
    ),
    (
        &[
            "win-1251",
            "cp-1251",
            "windows1251",
            "ms-1251",
            "cp1251",
            "WIN1251",
            "x-cp1251",
            "ansi-1251",
            "cswindows1251",
        ],
        b"\xc7\xe4\xf0\xe0\xe2\xf1\xf2\xe2\xf3\xe9\xf2\xe5",
        "Здравствуйте",
    ),
    (
        &["koi8r", "KOI8_R", "koi8"],
        b"\xf0\xd2\xc9\xd7\xc5\xd4",
        "Привет",
    ),
    (
        &[
            "latin9",
            "latin-9",
            "iso8859-15",
            "8859-15",
            "ISO_8859-15",
            "l9",
            "iso885915",
            "csISOLatin9",
        ],
        b"Gr\xfc\xdfe, 5 \xa4",
        "Grüße, 5 €",
    ),
    (
        &["latin2", "iso8859_2", "8859-2", "l2", "latin-2"],
        b"\xafy\xb3",
        "Żył",
    ),
    (
        &[
            "cp437", "ibm437", "437", "dos-437", "cspc437", "IBM-437", "cp-437", "oem437",
        ],
        b"Gr\x81\xe1e aus K\x94ln",
        "Grüße aus Köln",
    ),
    (
        &["cp850", "ibm850", "850", "dos850"],
        b"Gr\x81\xe1e, \xd5",
        "Grüße, ı",
    ),
    (
        &["cp858", "ibm00858", "CP00858", "ibm-858"],
        b"Gr\x81\xe1e, 5 \xd5",
        "Grüße, 5 €",
    ),
    (
        &["cp852", "ibm852", "852", "cp-852"],
        b"\xbd\xa2\xabta",
        "Żóźta",
    ),
    (
        &["cp866", "ibm866", "dos866"],
        b"\x8f\xe0\xa8\xa2\xa5\xe2",
        "Привет",
    ),
    (
        &["cp737", "ibm737"],
        b"\x89\x98\xa2\x9e\xa3\xe2\xa8\x98",
        "Καλημέρα",
    ),
    (
        &["utf-32", "utf-32be", "UCS-4"],
        b"\0\0\0K\0\0\0\xf6\0\0\0l\0\0\0n",
        "Köln",
    ),
    (
        &["utf-32", "utf-32le"],
        b"\xff\xfe\0\0K\0\0\0\xf6\0\0\0l\0\0\0n\0\0\0",
        "Köln",
    ),
    (&["utf-7", "UTF7", "unicode-1-1-utf-7"], b"K+APY-ln", "Köln"),
    (
        &["utf8", "UTF_8", "utf8mb4", "cp65001", "unicode-1-1-utf-8"],
        b"K\xc3\xb6ln",
        "Köln",
    ),
];

#[test]
fn labels_of_mail_programs_name_their_charsets() {
    let mut wrong = Vec::new();
    for (labels, bytes, expected) in LABELLED {
        for label in *labels {
            let read = text(label, bytes);
            if read != *expected {
                wrong.push(format!("{label}: {read:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Bytes that nothing labels, or only a label that nobody knows, each of them by a text long enough to be told.
const UNLABELLED: &[(&[u8], &str)] = &[
    (b"\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"),
    (
        b"\xc7\xe4\xf0\xe0\xe2\xf1\xf2\xe2\xf3\xe9\xf2\xe5",
        "Здравствуйте",
    ),
    (
        b"\xf7\xa6\xd4\xc1\xc0, \xc8\xcf\xde\xd5 \xda\xc1\xcd\xcf\xd7\xc9\xd4\xc9",
        "Вітаю, хочу замовити",
    ),
    (b"\x82\xb2\x97\\\x96\xf1\x82\xcc\x8c\x8f", "ご予約の件"),
    (b"\xa4\xb4\xcd\xbd\xcc\xf3\xa4\xce\xb7\xef", "ご予約の件"),
    (
        b"\xce\xd2\xcf\xeb\xd4\xa4\xb6\xa9\xb7\xbf\xbc\xe4",
        "我想预订房间",
    ),
    (b"\xa7\xda\xb7Q\xb9w\xadq\xa9\xd0\xb6\xa1", "我想預訂房間"),
    (
        b"\xb9\xe6\xc0\xbb \xbf\xb9\xbe\xe0\xc7\xd5\xb4\xcf\xb4\xd9",
        "방을 예약합니다",
    ),
    (
        b"\xca\xe1\xeb\xe7\xec\xdd\xf1\xe1, \xe8\xdd\xeb\xf9",
        "Καλημέρα, θέλω",
    ),
    (
        b"\xf9\xec\xe5\xed, \xe0\xf0\xe9 \xf8\xe5\xf6\xe4",
        "שלום, אני רוצה",
    ),
    (
        b"Za\xbf\xf3\xb3\xe6 g\xea\x9cl\xb9 ja\x9f\xf1, prosz\xea",
        "Zażółć gęślą jaźń, proszę",
    ),
    // Western European stays what it was, however short.
    (b"Gr\xfc\xdfe aus K\xf6ln", "Grüße aus Köln"),
    (b"\x93Hi\x94 \xfc", "“Hi” ü"),
    (b"caf\xe9", "café"),
    (b"5 \x80", "5 €"),
    (
        b"na\xefve \xe0 la carte, d\xe9j\xe0 vu, l\x92\xe9t\xe9",
        "naïve à la carte, déjà vu, l’été",
    ),
    (b"Sm\xf6rg\xe5sbord p\xe5 fredag", "Smörgåsbord på fredag"),
    (
        b"S\xe3o Paulo, n\xe3o \xe9 poss\xedvel",
        "São Paulo, não é possível",
    ),
];

#[test]
fn bytes_without_a_usable_label_are_told_by_themselves_and_always_alike() {
    let mut wrong = Vec::new();
    for (bytes, expected) in UNLABELLED {
        for label in ["", "us-ascii", "x-unknown", "utf-8"] {
            let read = text(label, bytes);
            if read != *expected {
                wrong.push(format!("{label:?} {read:?}, not {expected:?}"));
            }
            assert_eq!(
                text(label, bytes),
                read,
                "the same bytes make the same text"
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_damaged_shift_ends_with_its_line() {
    assert_eq!(text("hz-gb-2312", b"~{NROk\nhello"), "我想\nhello");
    assert_eq!(
        text("iso-2022-kr", b"\x1b$)C\x0e9f@;\nhello"),
        "방을\nhello"
    );
    // One byte of a pair, an escape at the very end, and nothing at all.
    for bytes in [b"~".as_slice(), b"~{N", b"\x0e", b"\x1b$", b"\x1b$)C", b""] {
        for label in ["hz", "iso-2022-kr", "johab", "utf-32"] {
            let _bounded = text(label, bytes);
        }
    }
}
