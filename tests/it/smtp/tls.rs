//! STARTTLS, TLS from the first byte, and certificates that change.

use super::client::{Client, PATIENCE, Server, Way, connect, speak};
use super::secure::{Authority, ask_for_tls, read_until};
use super::smuggling::{smuggling_attempt, smuggling_sequences};
use crate::recording_intake::RecordingDoor;
use attache::config::Limits;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LETTER: &[u8] =
    b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nSubject: x\r\n\r\nhi\r\n.\r\nQUIT\r\n";

#[tokio::test]
async fn starttls_makes_the_session_a_new_one_and_is_offered_no_more() {
    let (authority, intake) = (Authority::new(), Arc::new(RecordingDoor::new()));
    let (mut stream, session) = connect(
        Way::Segments,
        authority.house(&intake, Limits::default(), false),
    )
    .await;
    read_until(&mut *stream, "220 ").await;
    stream
        .write_all(b"STARTTLS\r\nEHLO c.example\r\nSTARTTLS now\r\n")
        .await
        .unwrap();
    let offered = read_until(&mut *stream, "501 ").await;
    assert!(
        offered[0].starts_with("503 5.5.1 "),
        "TLS before EHLO: {offered:?}"
    );
    assert!(offered.contains(&"250-STARTTLS".to_owned()), "{offered:?}");
    assert!(
        !offered.iter().any(|line| line.contains("AUTH")),
        "AUTH in the clear: {offered:?}"
    );
    stream
        .write_all(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nSTARTTLS\r\n")
        .await
        .unwrap();
    read_until(&mut *stream, "220 ").await;
    let mut client = Client::new(Box::new(authority.shake(stream).await.unwrap()));
    client
        .say("MAIL FROM:<a@b.test>", "503 5.5.1 say EHLO first")
        .await;
    client.say("DATA", "503 5.5.1 say EHLO first").await;
    client.send(b"EHLO again.example\r\n").await;
    let mut offered = Vec::new();
    while !offered
        .last()
        .is_some_and(|line: &String| line.starts_with("250 "))
    {
        offered.push(client.line().await.unwrap());
    }
    assert!(
        !offered.iter().any(|line| line.contains("STARTTLS")),
        "{offered:?}"
    );
    assert!(
        offered.contains(&"250-AUTH PLAIN LOGIN".to_owned()),
        "{offered:?}"
    );
    client.say("STARTTLS", "503 5.5.1 *").await;
    client.send(LETTER).await;
    for reply in ["250 *", "250 *", "354 *", "250 2.0.0 stored", "221 *"] {
        client.expect(reply).await;
    }
    assert_eq!(client.line().await, None);
    session.await.unwrap();
    let letters = intake.letters.lock().unwrap();
    let arrival = &letters[0].envelope.arrival;
    assert_eq!(
        (letters.len(), arrival.encrypted, arrival.extended),
        (1, true, true)
    );
    assert_eq!(
        (letters[0].envelope.helo.as_str(), &arrival.submitted_by),
        ("again.example", &None)
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_is_injected_before_the_handshake_is_never_obeyed() {
    let authority = Authority::new();
    let injections: [&[u8]; 4] = [
        b"NOOP\r\n",
        b"NOOP\r\nMAIL FROM:<x@evil.test>\r\n",
        b"EHLO evil\r\nMAIL FROM:<x@evil.test>\r\nRC",
        LETTER,
    ];
    for injected in injections {
        let intake = Arc::new(RecordingDoor::new());
        let (mut stream, session) = connect(
            Way::Segments,
            authority.house(&intake, Limits::default(), false),
        )
        .await;
        ask_for_tls(
            &mut *stream,
            &[b"EHLO c\r\nSTARTTLS\r\n", injected].concat(),
        )
        .await;
        let mut client = Client::new(Box::new(authority.shake(stream).await.unwrap()));
        client.say("DATA", "503 5.5.1 say EHLO first").await;
        client.say("RSET", "250 *").await;
        client.say("QUIT", "221 *").await;
        assert_eq!(client.line().await, None);
        session.await.unwrap();
        assert_eq!(intake.stored(), 0, "{}", String::from_utf8_lossy(injected));
    }
}

#[tokio::test]
async fn what_is_injected_after_the_go_ahead_breaks_the_handshake() {
    let authority = Authority::new();
    for piece in [1, usize::MAX] {
        let intake = Arc::new(RecordingDoor::new());
        let (mut stream, session) = connect(
            Way::Segments,
            authority.house(&intake, Limits::default(), false),
        )
        .await;
        ask_for_tls(&mut *stream, b"EHLO c\r\nSTARTTLS\r\n").await;
        for bytes in LETTER.chunks(piece) {
            let _closed = stream.write_all(bytes).await;
        }
        assert!(authority.shake(stream).await.is_err());
        timeout(PATIENCE, session).await.expect("it ends").unwrap();
        assert_eq!(intake.stored(), 0);
    }
}

#[tokio::test]
async fn an_implicit_listener_says_nothing_in_the_clear() {
    let authority = Authority::new();
    let server = Server::with(authority.settings(Limits::default(), true)).await;
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain
        .write_all(&[b"EHLO c\r\n", LETTER].concat())
        .await
        .unwrap();
    let mut said = Vec::new();
    let _reset = timeout(PATIENCE, plain.read_to_end(&mut said))
        .await
        .expect("it is cut");
    assert!(!String::from_utf8_lossy(&said).contains("220"), "{said:?}");

    let stream: Box<dyn super::client::Stream> =
        Box::new(TcpStream::connect(server.address).await.unwrap());
    let mut client = Client::new(Box::new(authority.shake(stream).await.unwrap()));
    client.greet().await;
    client.say("STARTTLS", "503 5.5.1 *").await;
    client.send(LETTER).await;
    for reply in ["250 *", "250 *", "354 *", "250 2.0.0 stored", "221 *"] {
        client.expect(reply).await;
    }
    assert!(
        server.intake.letters.lock().unwrap()[0]
            .envelope
            .arrival
            .encrypted
    );
    client.hang_up().await;
    server.stop().await;
}

#[tokio::test]
async fn a_renewed_certificate_counts_from_the_next_handshake_if_good() {
    let authority = Authority::new();
    let intake = Arc::new(RecordingDoor::new());
    let house = authority.house(&intake, Limits::default(), true);
    let shown = async || {
        let (stream, _session) = connect(Way::Segments, house.clone()).await;
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(
                house
                    .settings
                    .tls
                    .as_ref()
                    .map(|_| current(&authority))
                    .unwrap(),
            )
            .unwrap();
        let stream = authority.shake_with(stream, roots).await.ok()?;
        Some(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
    };
    let first = shown().await.expect("the first certificate");
    let second = authority.issue();
    assert_eq!(shown().await, None, "looked at again too soon");
    authority.clock.advance(Duration::from_secs(1));
    assert_eq!(shown().await.as_deref(), Some(second.as_slice()));
    assert_ne!(first, second);

    let good = [&authority.files.certificate, &authority.files.key]
        .map(|file| std::fs::read(file).unwrap());
    let other = rcgen::generate_simple_self_signed(["mx.engine.test".to_owned()]).unwrap();
    for broken in [
        other.signing_key.serialize_pem(),
        "no key".to_owned(),
        String::new(),
    ] {
        std::fs::write(&authority.files.key, broken).unwrap();
        authority.clock.advance(Duration::from_secs(1));
        assert_eq!(
            shown().await.as_deref(),
            Some(second.as_slice()),
            "the old one stays"
        );
    }
    // A pipe that nobody writes into is not waited for.
    std::fs::remove_file(&authority.files.key).unwrap();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &authority.files.key,
        rustix::fs::FileType::Fifo,
        mode,
        0,
    )
    .unwrap();
    authority.clock.advance(Duration::from_secs(1));
    assert_eq!(shown().await.as_deref(), Some(second.as_slice()));
    std::fs::remove_file(&authority.files.key).unwrap();
    std::fs::write(&authority.files.key, &good[1]).unwrap();
    let third = authority.issue();
    authority.clock.advance(Duration::from_secs(1));
    assert_eq!(shown().await.as_deref(), Some(third.as_slice()));
}

fn current(authority: &Authority) -> rustls::pki_types::CertificateDer<'static> {
    use rustls::pki_types::pem::PemObject;
    rustls::pki_types::CertificateDer::from_pem_file(&authority.files.certificate).unwrap()
}

#[tokio::test]
async fn a_handshake_that_does_not_go_on_is_cut() {
    let authority = Authority::new();
    for is_implicit in [false, true] {
        let intake = Arc::new(RecordingDoor::new());
        let limits = Limits {
            handshake_max: Duration::from_millis(100),
            ..Limits::default()
        };
        let house = authority.house(&intake, limits, is_implicit);
        let (mut stream, session) = connect(Way::Segments, house).await;
        if !is_implicit {
            ask_for_tls(&mut *stream, b"EHLO c\r\nSTARTTLS\r\n").await;
        }
        stream.write_all(b"\x16\x03\x01\x02\x00").await.unwrap();
        timeout(PATIENCE, session)
            .await
            .expect("it is cut")
            .unwrap();
    }
}

#[tokio::test]
async fn no_letter_is_smuggled_under_tls() {
    let (authority, intake) = (Authority::new(), Arc::new(RecordingDoor::new()));
    let house = authority.house(&intake, Limits::default(), true);
    let plain = super::client::house(&intake, Limits::default());
    for sequence in smuggling_sequences() {
        let attempt = smuggling_attempt(b"", &sequence);
        let (stream, session) = connect(Way::Segments, house.clone()).await;
        let mut stream = authority.shake(stream).await.unwrap();
        for bytes in attempt.chunks(7) {
            let _cut = stream.write_all(bytes).await;
        }
        let _cut = stream.flush().await;
        let mut said = Vec::new();
        let _cut = timeout(PATIENCE, stream.read_to_end(&mut said))
            .await
            .expect("the session ends");
        drop(stream); // the server lingers for whoever does not hang up
        session.await.unwrap();
        let said = String::from_utf8(said).unwrap();
        let without_auth = said.replace("250-AUTH PLAIN LOGIN\r\n", "");
        assert_eq!(
            without_auth,
            speak(&plain, &attempt, usize::MAX).await,
            "{sequence:?}"
        );
        assert_eq!(intake.stored(), 0, "{sequence:?}");
    }
}
