//! Connections that a proxy passes on, with the PROXY protocol in front.

use super::client::{Client, PATIENCE, Server, settings};
use attache::config::Limits;
use attache::domain::Network;
use attache::gateway::ingress::smtp::SmtpSettings;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

fn header(client: [u8; 4]) -> Vec<u8> {
    let addresses = [client, [198, 51, 100, 1]].concat();
    [
        b"\r\n\r\n\0\r\nQUIT\n".as_slice(),
        &[0x21, 0x11, 0, 12],
        &addresses,
        &[0x12, 0x34, 0, 25],
    ]
    .concat()
}

async fn server(proxy: &str, limits: Limits) -> Server {
    let limits = Limits {
        greeting_delay: Duration::from_millis(1),
        ..limits
    };
    let proxies = vec![Network::parse(proxy).unwrap()];
    Server::with(SmtpSettings {
        proxies,
        ..settings(limits)
    })
    .await
}

async fn knock(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

async fn said_to(server: &Server, bytes: &[u8]) -> String {
    let mut said = Vec::new();
    let mut stream = knock(server, bytes).await;
    let _reset = timeout(PATIENCE, stream.read_to_end(&mut said))
        .await
        .expect("it is cut");
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn a_letter_comes_from_whom_the_proxy_says_no_tlv_is_a_command() {
    let server = server("127.0.0.0/8", Limits::default()).await;
    let mut with_tlv = header([203, 0, 113, 9]);
    with_tlv[15] = 12 + 9;
    with_tlv.extend_from_slice(b"\x04\x00\x06NOOP\r\n");
    for header in [header([203, 0, 113, 9]), with_tlv] {
        let mut client = Client::new(Box::new(knock(&server, &header).await));
        client.greet().await;
        client.say("MAIL FROM:<a@b.test>", "250 *").await;
        client.say("RCPT TO:<ada@engine.test>", "250 *").await;
        client.say("DATA", "354 *").await;
        client.say(".", "250 2.0.0 stored").await;
        client.hang_up().await;
    }
    for letter in server.intake.letters.lock().unwrap().iter() {
        assert_eq!(
            letter.envelope.peer,
            Some(Ipv4Addr::new(203, 0, 113, 9).into())
        );
    }
    assert_eq!(server.intake.stored(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_client_behind_a_proxy_is_a_stranger_the_proxy_is_not() {
    let server = server(
        "127.0.0.1",
        Limits {
            greeting_delay: Duration::from_secs(5),
            ..Limits::default()
        },
    )
    .await;
    let early = [header([203, 0, 113, 9]), b"EHLO bot\r\n".to_vec()].concat();
    assert!(said_to(&server, &early).await.starts_with("554 5.5.1 "));
    // The proxy for itself, looking whether we are alive.
    let mut alive = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00".to_vec();
    alive.extend_from_slice(b"QUIT\r\n");
    assert!(said_to(&server, &alive).await.starts_with("220 "));
    server.stop().await;
}

#[tokio::test]
async fn whoever_is_no_proxy_or_does_not_speak_as_one_hears_nothing() {
    let limits = Limits {
        handshake_max: Duration::from_millis(100),
        ..Limits::default()
    };
    let server = server("127.0.0.1", limits).await;
    let refused: [&[u8]; 6] = [
        b"EHLO c\r\n",
        b"PROXY TCP4 203.0.113.9 198.51.100.1 4660 25\r\nEHLO c\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x00\x00\x00EHLO c\r\n", // a client that it cannot name
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\x01\x02", // and nothing more
        b"",
    ];
    for bytes in refused {
        assert_eq!(said_to(&server, bytes).await, "", "{bytes:?}");
    }
    server.stop().await;
    let elsewhere = self::server("192.0.2.0/24", Limits::default()).await;
    assert_eq!(said_to(&elsewhere, &header([203, 0, 113, 9])).await, "");
    elsewhere.stop().await;
}

#[tokio::test]
async fn connections_are_counted_by_client_and_not_by_proxy() {
    let limits = Limits {
        connections_per_address_max: 1,
        connections_max: 3,
        ..Limits::default()
    };
    let server = server("127.0.0.1", limits).await;
    let mut first = Client::new(Box::new(knock(&server, &header([203, 0, 113, 9])).await));
    first.expect("220 *").await;
    assert!(
        said_to(&server, &header([203, 0, 113, 9]))
            .await
            .starts_with("421 4.7.0 ")
    );
    let mut other = Client::new(Box::new(knock(&server, &header([203, 0, 113, 10])).await));
    other.expect("220 *").await;
    // A header that is still to come takes a place as well.
    let _silent = knock(&server, b"\r\n").await;
    let mut full = String::new();
    while !full.starts_with("421 4.7.0 ") {
        full = said_to(&server, &header([203, 0, 113, 11])).await;
    }
    server.stop().await;
}
