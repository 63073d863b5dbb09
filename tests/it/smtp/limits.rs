//! Limits of time, number and memory, and an orderly stop.

use super::client::{Client, Server, Way, clock, connect, house, settings, speak};
use crate::recording_intake::RecordingDoor;
use attache::config::Limits;
use attache::gateway::ingress::smtp::{
    ConnectionLimiter, MemoryShares, ServerContext, serve_session,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, duplex};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_silent_peer_is_told_and_cut_in_commands_and_in_a_letter() {
    let limits = Limits {
        session_idle_max: Duration::from_millis(60),
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut silent = server.connect().await;
    silent.greet().await;
    silent.expect("421 4.4.2 *").await;
    assert_eq!(silent.line().await, None);

    let mut unfinished = server.connect().await;
    unfinished.greet().await;
    unfinished
        .send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nSubject: half\r\n")
        .await;
    for reply in ["250 *", "250 *", "354 *", "421 4.4.2 *"] {
        unfinished.expect(reply).await;
    }
    assert_eq!(unfinished.line().await, None);
    assert_eq!(server.intake.stored(), 0);
    server.stop().await;
}

#[tokio::test]
async fn a_peer_that_drips_bytes_is_cut_when_its_time_is_over() {
    let limits = Limits {
        session_duration_max: Duration::from_millis(150),
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut dripping = server.connect().await;
    dripping.expect("220 *").await;
    let said = loop {
        dripping.send(b"NOOP\r\n").await;
        match dripping.line().await {
            Some(line) if line.starts_with("250 ") => {}
            other => break other,
        }
    };
    assert_eq!(said.as_deref().map(|line| &line[..9]), Some("421 4.4.2"));
    server.stop().await;
}

#[tokio::test]
async fn one_address_cannot_take_every_place_and_a_place_comes_back() {
    let server = Server::start(Limits {
        connections_per_address_max: 2,
        ..Limits::default()
    })
    .await;
    let (mut first, mut second) = (server.connect().await, server.connect().await);
    first.expect("220 *").await;
    second.expect("220 *").await;
    let mut third = server.connect().await;
    third.expect("421 4.7.0 *").await;
    assert_eq!(third.line().await, None);
    first.say("QUIT", "221 *").await;
    first.hang_up().await;
    assert_eq!(first.line().await, None);
    // The server frees the place just after it closed; knock until it has.
    while !server
        .connect()
        .await
        .line()
        .await
        .expect("a greeting")
        .starts_with("220 ")
    {}
    server.stop().await;
}

#[tokio::test]
async fn connections_over_the_total_are_turned_away() {
    let server = Server::start(Limits {
        connections_max: 1,
        ..Limits::default()
    })
    .await;
    let mut first = server.connect().await;
    first.expect("220 *").await;
    server.connect().await.expect("421 4.7.0 *").await;
    first.say("NOOP", "250 *").await;
    server.stop().await;
}

#[tokio::test]
async fn two_hundred_idle_peers_do_not_keep_a_new_one_waiting() {
    let limits = Limits {
        connections_per_address_max: 300,
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream
            .write_all(b"EHLO slow.example\r\nMAIL FROM:<a@")
            .await
            .unwrap();
        idle.push(stream);
    }
    let mut client = server.connect().await;
    client.greet().await;
    client.say("MAIL FROM:<a@b.test>", "250 2.1.0 *").await;
    client.say("RCPT TO:<ada@engine.test>", "250 2.1.5 *").await;
    client.say("DATA", "354 *").await;
    client
        .say("Subject: served\r\n\r\n.", "250 2.0.0 stored")
        .await;
    assert_eq!(server.intake.stored(), 1);
    drop(idle);
    server.stop().await;
}

#[tokio::test]
async fn an_idle_session_is_small() {
    let intake = Arc::new(RecordingDoor::new());
    let house = house(&intake, Limits::default());
    let (_client, server) = duplex(1);
    let session = serve_session(server, None, &house);
    let bytes = std::mem::size_of_val(&session);
    assert!(
        bytes <= 4096,
        "{bytes} bytes of state, and 8 kB of input buffer besides"
    );
}

#[tokio::test]
async fn stopping_says_421_to_idle_peers_and_lets_a_letter_finish() {
    let server = Server::start(Limits::default()).await;
    let (mut idle, mut busy) = (server.connect().await, server.connect().await);
    idle.greet().await;
    busy.greet().await;
    busy.say("MAIL FROM:<a@b.test>", "250 *").await;
    busy.say("RCPT TO:<ada@engine.test>", "250 *").await;
    busy.say("DATA", "354 *").await;
    server.stop.cancel();
    idle.expect("421 4.3.2 *").await;
    assert_eq!(idle.line().await, None);
    busy.say("Subject: last\r\n\r\n.", "250 2.0.0 stored").await;
    busy.expect("421 4.3.2 *").await;
    assert_eq!(busy.line().await, None);
    let (address, intake) = (server.address, server.intake.clone());
    idle.hang_up().await;
    busy.hang_up().await;
    server.stop().await;
    assert_eq!(intake.stored(), 1);
    assert!(
        TcpStream::connect(address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn a_letter_that_does_not_end_cannot_hold_up_the_stop() {
    let limits = Limits {
        drain_max: Duration::from_millis(200),
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut endless = server.connect().await;
    endless.greet().await;
    endless
        .send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nSubject: half\r\n")
        .await;
    for reply in ["250 *", "250 *", "354 *"] {
        endless.expect(reply).await;
    }
    server.stop.cancel();
    endless.expect("421 4.3.2 *").await;
    let intake = server.intake.clone();
    server.stop().await;
    assert_eq!(intake.stored(), 0);
}

#[tokio::test]
async fn all_connections_together_hold_bounded_letter_bytes() {
    let intake = Arc::new(RecordingDoor::new());
    let mut settings = settings(Limits::default());
    let step = 64 * 1024;
    let shares = MemoryShares {
        bytes: step,
        network_bytes_max: step,
        kept_for_small_bytes: 0,
        relays: Vec::new(),
    };
    settings.connection_limiter = ConnectionLimiter::new(&settings.limits, shares, clock());
    let house = ServerContext::new(intake.clone(), settings, CancellationToken::new());
    let (stream, _session) = connect(Way::Segments, house.clone()).await;
    let mut holder = Client::new(stream);
    holder.greet().await;
    holder
        .send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nSubject: held\r\n")
        .await;
    for reply in ["250 *", "250 *", "354 *"] {
        holder.expect(reply).await;
    }
    holder.send(b"more\r\n").await;

    let letter = b"EHLO c\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nx\r\n.\r\nQUIT\r\n";
    // The holder's bytes may not be read yet; they are soon, and from then on there is no room.
    while !speak(&house, letter, usize::MAX)
        .await
        .contains("\r\n452 4.3.1 ")
    {}
    let before = intake.stored();
    holder.say(".", "250 2.0.0 stored").await;
    holder.say("QUIT", "221 *").await;
    assert_eq!(intake.stored(), before + 1);
    assert!(
        speak(&house, letter, usize::MAX)
            .await
            .contains("\r\n250 2.0.0 stored\r\n")
    );
}

#[tokio::test]
async fn fifty_clients_at_once_store_every_letter() {
    let server = Server::start(Limits::default()).await;
    let mut tasks = Vec::new();
    for n in 0..50 {
        let mut client = server.connect().await;
        tasks.push(tokio::spawn(async move {
            client.greet().await;
            for k in 0..10 {
                let letter = format!(
                    "MAIL FROM:<c{n}@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nSubject: {n}/{k}\r\n\r\nhi\r\n.\r\n"
                );
                client.send(letter.as_bytes()).await;
            }
            for _ in 0..10 {
                for reply in ["250 2.1.0 *", "250 2.1.5 *", "354 *", "250 2.0.0 stored"] {
                    client.expect(reply).await;
                }
            }
            client.say("QUIT", "221 *").await;
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(server.intake.stored(), 500);
    server.stop().await;
}
