//! AUTH PLAIN and LOGIN: who may, when, how often, and what it does not give.

use super::client::Client;
use super::secure::{Authority, read_until};
use super::{client, client::Way};
use crate::recording_intake::RecordingDoor;
use attache::config::Limits;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

/// The first wait after a failed login.
const SHORT: Duration = Duration::from_millis(10);

fn plain(user: &str, password: &str) -> String {
    STANDARD.encode(format!("\0{user}\0{password}"))
}

async fn greeted(authority: &Authority, intake: &Arc<RecordingDoor>, limits: Limits) -> Client {
    let mut client = authority.visit(authority.house(intake, limits, true)).await;
    client.greet().await;
    client
}

#[tokio::test]
async fn an_owner_logs_in_each_way_and_their_letter_says_so() {
    let authority = Authority::new();
    let (user, password) = (STANDARD.encode("olga"), STANDARD.encode("secret"));
    let whole = plain("olga", "secret");
    let ways: [&[(&str, &str)]; 4] = [
        &[(&format!("AUTH PLAIN {whole}"), "235 2.7.0 *")],
        &[("auth plain", "334 "), (&whole, "235 2.7.0 *")],
        &[
            ("AUTH LOGIN", "334 VXNlcm5hbWU6"),
            (&user, "334 UGFzc3dvcmQ6"),
            (&password, "235 2.7.0 *"),
        ],
        &[
            (&format!("AUTH LOGIN {user}"), "334 UGFzc3dvcmQ6"),
            (&password, "235 2.7.0 *"),
        ],
    ];
    for way in ways {
        let intake = Arc::new(RecordingDoor::new());
        let mut client = greeted(&authority, &intake, Limits::default()).await;
        for (line, reply) in way {
            client.say(line, reply).await;
        }
        client
            .say(&format!("AUTH PLAIN {whole}"), "503 5.5.1 *")
            .await;
        client.say("RSET", "250 *").await;
        client
            .say("MAIL FROM:<olga@home.test> AUTH=olga@home.test", "250 *")
            .await;
        client
            .say("RCPT TO:<victim@other.test>", "550 5.7.1 *")
            .await;
        client
            .say("RCPT TO:<victim%other.test@engine.test>", "550 5.7.1 *")
            .await;
        client.say("RCPT TO:<olga@home.test>", "550 5.7.1 *").await;
        client
            .say("RCPT TO:<nobody@engine.test>", "550 5.1.1 *")
            .await;
        client.say("RCPT TO:<ada@engine.test>", "250 *").await;
        client.say("DATA", "354 *").await;
        client.say("hi\r\n.", "250 2.0.0 stored").await;
        client.say("QUIT", "221 *").await;
        let letters = intake.letters.lock().unwrap();
        let by = letters[0]
            .envelope
            .arrival
            .submitted_by
            .as_ref()
            .map(ToString::to_string);
        assert_eq!((letters.len(), by.as_deref()), (1, Some("olga@home.test")));
    }
}

#[tokio::test]
async fn whatever_is_not_a_login_gives_nothing() {
    let (authority, intake) = (Authority::new(), Arc::new(RecordingDoor::new()));
    let limits = Limits {
        session_errors_max: 100,
        login_failures_max: 100,
        login_delay: SHORT,
        ..Limits::default()
    };
    let good = plain("olga", "secret");
    let other = STANDARD.encode("bob\0olga\0secret");
    let long = "A".repeat(5000);
    let cases: [&[(&str, &str)]; 17] = [
        &[("AUTH", "501 5.5.4 *")],
        &[("AUTH CRAM-MD5", "504 5.5.4 *")],
        &[("AUTH PLAIN a b", "501 5.5.4 *")],
        &[("AUTH PLAIN !!!", "501 5.5.2 *")],
        &[("AUTH PLAIN *", "501 5.5.2 *")],
        &[("AUTH PLAIN", "334 "), ("*", "501 5.7.0 *")],
        &[("AUTH LOGIN", "334 *"), ("*", "501 5.7.0 *")],
        &[("AUTH LOGIN b2xnYQ==", "334 *"), ("*", "501 5.7.0 *")],
        &[("AUTH PLAIN", "334 "), ("QUIT", "535 5.7.8 *")],
        &[("AUTH PLAIN", "334 "), ("", "535 5.7.8 *")],
        &[("AUTH PLAIN =", "535 5.7.8 *")],
        &[("AUTH LOGIN", "334 *"), (&long, "500 5.5.6 *")],
        &[("AUTH PLAIN", "334 "), ("\u{e4}", "501 5.5.2 *")],
        &[(&format!("AUTH PLAIN {other}"), "535 5.7.8 *")],
        &[
            ("MAIL FROM:<a@b.test>", "250 *"),
            (&format!("AUTH PLAIN {good}"), "503 5.5.1 *"),
        ],
        &[
            ("HELO old.example", "250 *"),
            (&format!("AUTH PLAIN {good}"), "503 5.5.1 *"),
        ],
        &[(
            &format!("AUTH PLAIN {}", plain("olga", "Secret")),
            "535 5.7.8 *",
        )],
    ];
    for case in cases {
        let mut client = greeted(&authority, &intake, limits.clone()).await;
        for (line, reply) in case {
            client.say(line, reply).await;
        }
        client
            .send(b"RSET\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n.\r\nQUIT\r\n")
            .await;
        for reply in [
            "250 *",
            "250 *",
            "250 *",
            "354 *",
            "250 2.0.0 stored",
            "221 *",
        ] {
            client.expect(reply).await;
        }
    }
    let letters = intake.letters.lock().unwrap();
    assert_eq!(letters.len(), cases.len());
    assert!(
        letters
            .iter()
            .all(|letter| letter.envelope.arrival.submitted_by.is_none())
    );
}

#[tokio::test]
async fn no_password_is_asked_for_in_the_clear_or_before_ehlo() {
    let (authority, intake) = (Authority::new(), Arc::new(RecordingDoor::new()));
    let house = authority.house(&intake, Limits::default(), false);
    let (mut stream, _session) = client::connect(Way::Segments, house).await;
    read_until(&mut *stream, "220 ").await;
    let auth = format!(
        "EHLO c\r\nAUTH PLAIN {}\r\nAUTH LOGIN\r\nQUIT\r\n",
        plain("olga", "secret")
    );
    stream.write_all(auth.as_bytes()).await.unwrap();
    let said = read_until(&mut *stream, "221 ").await;
    assert!(!said.iter().any(|line| line.contains("AUTH")), "{said:?}");
    assert_eq!(
        said.iter()
            .filter(|line| line.starts_with("538 5.7.11 "))
            .count(),
        2,
        "{said:?}"
    );

    let mut early = authority
        .visit(authority.house(&intake, Limits::default(), true))
        .await;
    early.expect("220 *").await;
    early
        .say(
            &format!("AUTH PLAIN {}", plain("olga", "secret")),
            "503 5.5.1 *",
        )
        .await;
}

#[tokio::test]
async fn a_guesser_waits_longer_each_time_and_is_shown_the_door() {
    let (authority, intake) = (Authority::new(), Arc::new(RecordingDoor::new()));
    let limits = Limits {
        login_delay: SHORT,
        ..Limits::default()
    };
    let mut client = greeted(&authority, &intake, limits).await;
    for wait in [SHORT, SHORT * 2, SHORT * 4] {
        let began = Instant::now();
        client
            .say(
                &format!("AUTH PLAIN {}", plain("olga", "guess")),
                "535 5.7.8 *",
            )
            .await;
        assert!(began.elapsed() >= wait);
    }
    client.expect("421 4.7.0 too many failed logins").await;
    assert_eq!(client.line().await, None);
}

#[tokio::test]
async fn a_network_that_failed_too_often_is_not_asked_any_more() {
    let (authority, intake) = (Authority::new(), Arc::new(RecordingDoor::new()));
    let limits = Limits {
        login_failures_max: 2,
        login_delay: SHORT,
        ..Limits::default()
    };
    let house = authority.house(&intake, limits, true);
    for _ in 0..2 {
        let mut client = authority.visit(house.clone()).await;
        client.greet().await;
        client
            .say(
                &format!("AUTH PLAIN {}", plain("olga", "guess")),
                "535 5.7.8 *",
            )
            .await;
    }
    let mut client = authority.visit(house.clone()).await;
    client.greet().await;
    client
        .say(
            &format!("AUTH PLAIN {}", plain("olga", "secret")),
            "454 4.7.0 *",
        )
        .await;
    client.say("AUTH LOGIN", "454 4.7.0 *").await;
    client.say("NOOP", "250 *").await;
}
