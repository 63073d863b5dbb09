//! Clients that take their time, by limits that are short enough to wait for.

use super::client::{Client, settings};
use crate::recording_intake::RecordingDoor;
use attache::config::{Limits, ListenerKind};
use attache::gateway::ingress::smtp::{ServerContext, SmtpSettings, serve_session};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::duplex;
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;

const STRANGER: &str = "192.0.2.7";
const HOUR: Duration = Duration::from_secs(3600);

fn visit(intake: &Arc<RecordingDoor>, settings: SmtpSettings, peer: Option<&str>) -> Client {
    let house = ServerContext::new(intake.clone(), settings, CancellationToken::new());
    let (client, server) = duplex(64 * 1024);
    let peer: Option<IpAddr> = peer.map(|text| text.parse().unwrap());
    tokio::spawn(async move { serve_session(server, peer, &house).await });
    Client::new(Box::new(client))
}

async fn in_a_letter(intake: &Arc<RecordingDoor>, limits: Limits) -> Client {
    let mut client = visit(intake, settings(limits), None);
    client.greet().await;
    client
        .send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n")
        .await;
    for reply in ["250 *", "250 *", "354 *"] {
        client.expect(reply).await;
    }
    client
}

/// Sends `piece` at every tick until the server says something; gives that, and how long it took.
async fn drip(client: &mut Client, piece: &[u8], tick: Duration) -> (String, Duration) {
    let began = Instant::now();
    let mut ticks = interval(tick);
    loop {
        ticks.tick().await;
        client.send(piece).await;
        if let Ok(line) = timeout(Duration::ZERO, client.line()).await {
            return (line.expect("a last word"), began.elapsed());
        }
    }
}

#[tokio::test]
async fn a_letter_that_drips_is_cut_though_never_silent_for_long() {
    let intake = Arc::new(RecordingDoor::new());
    let idle = Duration::from_millis(1000);
    let mut client = in_a_letter(
        &intake,
        Limits {
            session_idle_max: idle,
            ..Limits::default()
        },
    )
    .await;
    let (said, took) = drip(&mut client, b"x", idle / 20).await;
    assert_eq!(said, "421 4.4.2 the letter comes too slowly");
    assert!(took >= idle);
    assert_eq!((client.line().await, intake.stored()), (None, 0));
}

#[tokio::test]
async fn a_letter_that_is_slow_but_steady_is_taken() {
    let intake = Arc::new(RecordingDoor::new());
    let idle = Duration::from_millis(300);
    let limits = Limits {
        session_idle_max: idle,
        letter_bytes_per_second_min: 1000,
        ..Limits::default()
    };
    let mut client = in_a_letter(&intake, limits).await;
    let mut ticks = interval(idle / 10);
    for _ in 0..30 {
        ticks.tick().await;
        client
            .send(&[[b'y'; 998].as_slice(), b"\r\n"].concat())
            .await;
    }
    client.say(".", "250 2.0.0 stored").await;
    assert_eq!(intake.letters.lock().unwrap()[0].bytes.len(), 30_000);
}

#[tokio::test]
async fn a_command_has_to_be_whole_in_time() {
    let intake = Arc::new(RecordingDoor::new());
    let idle = Duration::from_millis(300);
    let limits = Limits {
        session_idle_max: idle,
        ..Limits::default()
    };
    // A line that may still become a command, and one that is too long for that already.
    for beginning in [b"NOOP ".to_vec(), b"x".repeat(5000)] {
        let mut client = visit(&intake, settings(limits.clone()), None);
        client.greet().await;
        client.send(&beginning).await;
        let (said, took) = drip(&mut client, b"x", idle / 20).await;
        assert_eq!(said, "421 4.4.2 idle for too long");
        assert!(took >= idle / 2);
    }
}

#[tokio::test]
async fn a_stranger_who_speaks_before_the_greeting_is_sent_away() {
    let intake = Arc::new(RecordingDoor::new());
    let letter =
        b"EHLO bot\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nx\r\n.\r\n";
    // With no delay at all, what is there already still counts.
    for (greeting_delay, bytes) in [
        (HOUR, letter.as_slice()),
        (HOUR, b"E"),
        (Duration::ZERO, letter),
    ] {
        let limits = Limits {
            greeting_delay,
            ..Limits::default()
        };
        let mut client = visit(&intake, settings(limits), Some(STRANGER));
        client.send(bytes).await;
        client.expect("554 5.5.1 *").await;
        assert_eq!(client.line().await, None);
    }
    // A TLS handshake on the plain port is not answered in words that it cannot read.
    let mut client = visit(&intake, settings(Limits::default()), Some(STRANGER));
    client.send(b"\x16\x03\x01").await;
    assert_eq!((client.line().await, intake.stored()), (None, 0));
}

#[tokio::test]
async fn only_strangers_wait_for_the_greeting() {
    let intake = Arc::new(RecordingDoor::new());
    let smtp = |greeting_delay| {
        settings(Limits {
            greeting_delay,
            ..Limits::default()
        })
    };
    let delay = Duration::from_millis(150);
    for stranger in [STRANGER, "2001:db8::7"] {
        let began = Instant::now();
        visit(&intake, smtp(delay), Some(stranger))
            .expect("220 *")
            .await;
        assert!(began.elapsed() >= delay, "{stranger}");
    }
    for neighbour in [Some("127.0.0.1"), Some("::1"), None] {
        visit(&intake, smtp(HOUR), neighbour).expect("220 *").await;
    }
    let lmtp = SmtpSettings {
        kind: ListenerKind::Lmtp,
        ..smtp(HOUR)
    };
    visit(&intake, lmtp, Some(STRANGER)).expect("220 *").await;
}
