//! Letters that were built to hurt: each is refused or read within a bound, and quickly.

use attache::mime::{ParseError, ParseLimits, html_to_text, parse, split_quotes, with_unknown};
use proptest::prelude::*;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Generous for a debug build on a busy machine; a quadratic reader needs minutes for the same letters.
const QUICK: Duration = Duration::from_secs(10);

/// CPU time of this thread so far, because other work of the machine is not the reader's; where the system does not tell it,
/// the time.
fn busy() -> Duration {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = spent.and_then(|line| line.split(' ').next()?.parse().ok());
    spent.map_or_else(|| BEGUN.elapsed(), Duration::from_nanos)
}

fn parsed(letter: &[u8]) -> Result<attache::domain::Email, ParseError> {
    let started = busy();
    let result = parse(letter, &ParseLimits::default());
    assert!(busy() - started < QUICK, "took {:?}", busy() - started);
    result
}

#[track_caller]
fn refused(letter: &[u8]) -> &'static str {
    match parsed(letter) {
        Err(ParseError::Hostile(why)) => why,
        other => panic!(
            "expected a refusal, got {:?}",
            other.map(|email| (
                email.text,
                email.attachments.first().map(|a| a.content_type.clone())
            ))
        ),
    }
}

#[test]
fn a_bomb_of_nested_messages_is_refused_however_it_is_spelled() {
    let bomb = |formatted: &str| format!("Content-Type: {formatted}\r\n\r\n").repeat(50_000);
    for formatted in [
        "message/rfc822",
        "MESSAGE/RFC822",
        " Message/Rfc822 ; x=y",
        "message/\r\n rfc822",
        "message/global",
    ] {
        assert_eq!(
            refused(bomb(formatted).as_bytes()),
            "body parts are nested too deeply",
            "{formatted:?}"
        );
    }
    // Spellings that one reader takes for a message and another for text: read, but never nested without being counted.
    for formatted in [
        "message / rfc822",
        "(x)message/(y)rfc822",
        "\"message/rfc822\"",
    ] {
        assert!(
            !matches!(
                parsed(bomb(formatted).as_bytes()),
                Err(ParseError::NotAnEmail(_))
            ),
            "{formatted:?}"
        );
    }
}

#[test]
fn a_bomb_of_nested_digests_is_refused() {
    let mut bomb = String::new();
    for level in 0..20_000 {
        bomb.push_str(&format!(
            "Content-Type: multipart/digest; boundary=b{level}\r\n\r\n--b{level}\r\n\r\n"
        ));
    }
    assert_eq!(refused(bomb.as_bytes()), "body parts are nested too deeply");
}

#[test]
fn deep_multiparts_and_many_parts_are_refused() {
    let mut deep = String::new();
    for level in 0..1_500 {
        deep.push_str(&format!(
            "Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n"
        ));
    }
    assert_eq!(refused(deep.as_bytes()), "body parts are nested too deeply");
    let many = format!(
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n{}",
        "--b\r\n\r\nx\r\n".repeat(50_000)
    );
    assert_eq!(refused(many.as_bytes()), "too many body parts");
}

#[test]
fn the_limits_themselves_are_allowed() {
    let limits = ParseLimits {
        depth_max: 3,
        parts_max: 4,
        ..ParseLimits::default()
    };
    let nested = |levels: usize| {
        let mut letter = String::new();
        for level in 0..levels {
            letter.push_str(&format!(
                "Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n"
            ));
        }
        letter + "\r\nhello\r\n"
    };
    assert_eq!(
        parse(nested(3).as_bytes(), &limits).map(|e| e.text),
        Ok("hello".into())
    );
    assert!(matches!(
        parse(nested(4).as_bytes(), &limits),
        Err(ParseError::Hostile(_))
    ));
}

#[test]
fn large_headers_and_many_hops_are_refused() {
    let long = format!("Subject: {}\r\n\r\nhi", "x".repeat(300 * 1024));
    assert_eq!(refused(long.as_bytes()), "header section is too large");
    let hops = format!(
        "{}From: a@b.test\r\n\r\nhi",
        "Received: from a by b\r\n".repeat(51)
    );
    assert_eq!(refused(hops.as_bytes()), "too many hops");
    let allowed = format!(
        "{}From: a@b.test\r\n\r\nhi",
        "Received: from a by b\r\n".repeat(50)
    );
    assert_eq!(
        parsed(allowed.as_bytes()).map(|e| e.automatic.received_count),
        Ok(50)
    );
}

#[test]
fn what_has_no_header_is_no_email() {
    for letter in [
        &b""[..],
        b"\r\n",
        b"\r\nhello",
        b"hello there\r\n",
        b"\0\xff\xfe",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        assert!(
            matches!(parsed(letter), Err(ParseError::NotAnEmail(_))),
            "{letter:?}"
        );
    }
}

#[test]
fn header_values_that_make_decoders_look_twice_are_read_quickly() {
    let fields = [
        format!("Subject: {}", "=?utf-8?q?".repeat(20_000)),
        format!("Subject: {}", "=?utf-8?b?YQ==?= ".repeat(12_000)),
        format!("To: {}", "(".repeat(200_000)),
        format!("To: {}", "\"\\".repeat(100_000)),
        format!("To: {}", "a@b.test,".repeat(25_000)),
        format!("To: {}", "=?x".repeat(60_000)),
        format!("To: {}", "g:".repeat(100_000)),
        format!("References: {}", "<".repeat(200_000)),
        format!("References: {}", "<a@b.test> ".repeat(20_000)),
        format!(
            "Content-Type: text/plain; {}",
            (0..20_000)
                .map(|n| format!("a{n}*1=b;"))
                .collect::<String>()
        ),
        format!(
            "Content-Type: text/plain; {}",
            (0..20_000).map(|n| format!("a*{n}=b;")).collect::<String>()
        ),
        format!("X: {}", "\r\n ".repeat(60_000)),
        "A:\r\n".repeat(60_000).trim_end().to_owned(),
    ];
    for field in fields {
        let email = parsed(format!("From: a@b.test\r\n{field}\r\n\r\nhi").as_bytes());
        assert_eq!(email.map(|e| e.text), Ok("hi".into()), "{}", &field[..20]);
    }
}

#[test]
fn references_keep_the_first_and_the_last_and_long_ids_survive() {
    let many: String = (0..5_000).map(|n| format!("<{n}@x.test>\r\n ")).collect();
    let long = format!("{}@x.test", "A".repeat(392));
    let letter = format!("From: a@b.test\r\nMessage-ID: <{long}>\r\nReferences: {many}\r\n\r\nhi");
    let email = parsed(letter.as_bytes()).expect("an email");
    assert_eq!(email.message_id.as_deref(), Some(long.as_str()));
    assert_eq!(
        email.references.len(),
        ParseLimits::default().references_max
    );
    assert_eq!(
        email.references.first().map(String::as_str),
        Some("0@x.test")
    );
    assert_eq!(
        email.references.last().map(String::as_str),
        Some("4999@x.test")
    );
}

#[test]
#[ignore = "second tier"]
fn html_bombs_are_read_quickly_and_their_words_survive() {
    let bombs = [
        "<div>".repeat(100_000) + "hello",
        "<div></b>".repeat(50_000) + "hello",
        "<div><table><tr><td></div>".repeat(19_000) + "hello",
        "<b><i><u><font size=1>".repeat(120) + &"<p>x".repeat(60_000) + "hello",
        "<a href=http://a.test/>".repeat(20_000) + "hello",
        "<a \"".repeat(100_000) + ">hello",
        "<!--".repeat(100_000) + "-->hello",
        "<blockquote>".repeat(500) + "hello",
        "<svg><style>".repeat(40_000) + "</style>hello",
        "<li>".repeat(120_000) + "hello",
        "<script>".repeat(1_000) + "</script>hello",
        "&".repeat(500_000) + "hello",
        "<".repeat(500_000) + " hello",
        "<p>hello</p>".to_owned() + &" ".repeat(600 * 1024),
    ];
    for bomb in bombs {
        let started = busy();
        let text = html_to_text(&bomb);
        let head: String = bomb.chars().take(30).collect();
        assert!(
            busy() - started < QUICK,
            "{head} took {:?}",
            busy() - started
        );
        assert!(text.contains("hello"), "{head} lost its words");
    }
}

#[test]
#[ignore = "second tier"]
fn html_beside_a_short_plain_text_is_compared_quickly() {
    for piece in ["[", "[cid:", "[image", "a ", "\u{4e00}", "]["] {
        let html = piece.repeat(1_000_000 / piece.len());
        let letter = format!(
            "From: a@b.test\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n\
             View this email in your browser\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html} and so on\r\n--b--\r\n"
        );
        let email = parsed(letter.as_bytes()).expect("an email");
        assert!(!email.text.is_empty(), "{piece}");
    }
}

#[test]
#[ignore = "second tier"]
fn quotations_are_told_quickly_and_take_no_room() {
    let attribution = "2026-01-01 GMT\n";
    let texts = [
        format!("hi\n{}", ">\n".repeat(100_000)),
        format!("hi\n{}", "> x\n".repeat(100_000)),
        format!(
            "{attribution}{}{}hi",
            "\n".repeat(100_000),
            attribution.repeat(6_000)
        ),
        format!(
            "{}{}> who?\nhi",
            attribution.repeat(6_000),
            "\n".repeat(100_000)
        ),
        format!("hi\n{}", format!("{attribution}\n").repeat(6_000)),
        format!("{attribution}> who?\nme\n").repeat(6_000),
        format!(
            "hi\n{}",
            "> On 1 Jan 2026 at 10:00 a@b.test wrote:\n> x\n".repeat(6_000)
        ),
    ];
    for text in texts {
        let letter = format!("From: a@b.test\r\nContent-Type: text/plain\r\n\r\n{text}");
        let email = parsed(letter.as_bytes()).expect("an email");
        let head: String = text.chars().take(40).collect();
        let started = busy();
        let (fresh, cut) = split_quotes(&email.text, "");
        let thread = ["We have a room. ".repeat(2_000), "x\n".repeat(16_000)];
        let shown = with_unknown(&fresh, &email.text, &cut, &thread);
        assert!(
            busy() - started < QUICK,
            "{head} took {:?}",
            busy() - started
        );
        assert!(
            shown.is_none_or(|shown| shown.len() <= 2 * text.len()),
            "{head}"
        );
        assert_eq!(email.quotations, cut, "{head}");
    }
}

#[test]
fn a_long_text_is_cut_before_it_is_looked_through() {
    let text = format!("hi\n{}", format!("> {}\n", "x".repeat(997)).repeat(5_000));
    let letter = format!("From: a@b.test\r\nContent-Type: text/plain\r\n\r\n{text}");
    let email = parsed(letter.as_bytes()).expect("an email");
    let cut: Vec<_> = email
        .defects
        .iter()
        .filter(|defect| defect.contains("4 MiB"))
        .collect();
    assert_eq!(cut.len(), 1, "{:?}", email.defects);
    assert_eq!(email.fresh_text, "hi");
    let lines = email.text.lines().count();
    assert!(lines < 4_300, "{lines}");
    assert!(
        email
            .quotations
            .iter()
            .all(|quotation| quotation.lines.end <= lines)
    );
}

#[test]
fn a_part_of_deep_html_is_said_to_be_a_defect() {
    let html = "<div>".repeat(600) + "hello";
    let letter = format!("From: a@b.test\r\nContent-Type: text/html\r\n\r\n{html}");
    let email = parsed(letter.as_bytes()).expect("an email");
    assert_eq!(email.text, "hello");
    assert!(
        email.defects.iter().any(|d| d.contains("HTML")),
        "{:?}",
        email.defects
    );
}

/// Bytes that are likely to mean something to a mail parser.
fn mailish() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        4 => prop::sample::select(vec![
            "From: ", "To: a@b.test", "Subject: =?utf-8?q?=", "Content-Type: multipart/mixed; boundary=b", "--b", "--b--",
            "Content-Type: message/rfc822", "Content-Type: text/html; charset=utf-16", "<div style=\"display:none", "\r\n",
            "\r\n\r\n", "\n", "\r", "\0", "Content-Transfer-Encoding: base64", "Content-Disposition: attachment; filename*0*=",
            "References: <", "Date: ", "> ", "On 1 Jan 2026 at 10:00 a@b.test wrote:", "\u{2028}", "\t", "\"", "=",
            "-----Original Message-----", "multipart/alternative;", "charset=", "<a href='", "</", "<!--",
        ]).prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "second tier"]
    fn no_bytes_panic_or_last(letter in mailish()) {
        if let Ok(email) = parsed(&letter) {
            prop_assert!(!email.text.contains(['\r', '\0']));
            prop_assert!(!email.subject.contains(['\r', '\n', '\0']));
            for attachment in &email.attachments {
                let name = &attachment.filename;
                prop_assert!(!name.is_empty() && name.chars().count() <= 120 && !name.contains(['/', '\\', '\0', '\n']));
            }
        }
    }

    #[test]
    #[ignore = "second tier"]
    fn no_html_panics_or_lasts(html in "(<(/?(div|p|a|table|tr|td|b|li|ul|style|svg|br)( (href|style|hidden)=?[\"'a-z:]{0,9})?>?|!--)|[a-z<>&;\"' ]{0,6}|é){0,80}") {
        let text = html_to_text(&html);
        prop_assert!(!text.contains('\r'));
    }
}
