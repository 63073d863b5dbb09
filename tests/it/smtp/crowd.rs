//! Peers who hold what others need, and send nothing: memory for letters, and places. Each guard has its control.

use super::client::{Client, PATIENCE, Server, settings};
use crate::recording_intake::RecordingDoor;
use attache::clock::ManualClock;
use attache::config::{Limits, ListenerKind};
use attache::domain::{Network, Timestamp};
use attache::gateway::ingress::smtp::{
    ConnectionLimiter, MemoryShares, ServerContext, serve_session,
};
use attache::gateway::intake_contract::Shortage;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::duplex;
use tokio::net::TcpSocket;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const MIB: usize = 1024 * 1024;
const LETTER_BYTES_MAX: usize = 2 * MIB;
/// Of a letter that may have two.
const LARGE_BYTES: usize = 3 * MIB / 2;

struct Crowd {
    intake: Arc<RecordingDoor>,
    house: ServerContext,
    clock: Arc<ManualClock>,
}

impl Crowd {
    /// Letters of at most 2 MiB, in memory that is shared out so.
    fn sharing(shares: MemoryShares) -> Self {
        let limits = Limits {
            letter_bytes_max: LETTER_BYTES_MAX,
            greeting_delay: Duration::ZERO,
            ..Limits::default()
        };
        let (intake, clock) = (
            Arc::new(RecordingDoor::new()),
            Arc::new(ManualClock::at(Timestamp::from_millis(0))),
        );
        let mut settings = settings(limits);
        settings.connection_limiter =
            ConnectionLimiter::new(&settings.limits, shares, clock.clone());
        Self {
            house: ServerContext::new(intake.clone(), settings, CancellationToken::new()),
            intake,
            clock,
        }
    }

    fn guarded() -> Self {
        Self::sharing(MemoryShares::for_letters(LETTER_BYTES_MAX, Vec::new()))
    }

    async fn visit(&self, peer: [u8; 4]) -> Client {
        let (client, server) = duplex(64 * 1024);
        let house = self.house.clone();
        tokio::spawn(async move {
            serve_session(server, Some(Ipv4Addr::from(peer).into()), &house).await;
        });
        let mut client = Client::new(Box::new(client));
        if self.house.settings.kind == ListenerKind::Smtp {
            client.greet().await;
            return client;
        }
        client.expect("220 *").await;
        client.send(b"LHLO client.example\r\n").await;
        while !client
            .line()
            .await
            .expect("an answer to LHLO")
            .starts_with("250 ")
        {}
        client
    }

    async fn begin(&self, peer: [u8; 4]) -> Client {
        let mut client = self.visit(peer).await;
        client
            .send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n")
            .await;
        for reply in ["250 *", "250 *", "354 *"] {
            client.expect(reply).await;
        }
        client
    }

    /// So much of a letter and no end; all but the last 64 KiB is in the server's hands.
    async fn hold(&self, peer: [u8; 4], bytes: usize) -> Client {
        let mut client = self.begin(peer).await;
        client.send(&lines(bytes)).await;
        client
    }

    /// A whole letter, and the answer to it.
    async fn bring(&self, peer: [u8; 4], bytes: usize) -> String {
        let mut client = self.begin(peer).await;
        client
            .send(&[lines(bytes).as_slice(), b".\r\n"].concat())
            .await;
        client.line().await.expect("an answer")
    }
}

fn lines(bytes: usize) -> Vec<u8> {
    [[b'x'; 62].as_slice(), b"\r\n"].concat().repeat(bytes / 64)
}

const ATTACKER: [u8; 4] = [192, 0, 2, 7];
const OTHER: [u8; 4] = [192, 0, 2, 8];
const STORED: &str = "250 2.0.0 stored";
const NO_ROOM: &str = "452 4.3.1 no room for letters, try again later";

/// Five letters of one network that stop in the middle, and what a small and a large letter of another are told then.
async fn beside_five_unfinished_letters(crowd: &Crowd) -> [String; 2] {
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(crowd.hold(ATTACKER, LARGE_BYTES).await);
    }
    [
        crowd.bring(OTHER, 64).await,
        crowd.bring(OTHER, LARGE_BYTES).await,
    ]
}

#[tokio::test]
async fn five_unfinished_letters_of_one_network_keep_out_nobody_else() {
    let crowd = Crowd::guarded();
    assert_eq!(
        beside_five_unfinished_letters(&crowd).await,
        [STORED, STORED]
    );
}

#[tokio::test]
async fn the_control_without_shares_five_letters_refuse_everybodys() {
    let bytes = 3 * LETTER_BYTES_MAX;
    let shares = MemoryShares {
        bytes,
        network_bytes_max: bytes,
        kept_for_small_bytes: 0,
        relays: Vec::new(),
    };
    let crowd = Crowd::sharing(shares);
    assert_eq!(beside_five_unfinished_letters(&crowd).await[1], NO_ROOM);
    assert!(
        crowd
            .intake
            .shortages
            .lock()
            .unwrap()
            .contains(&Shortage::LetterMemory)
    );
}

/// Letters of four networks that hold all but what is kept for small ones.
async fn hold_all(crowd: &Crowd) -> Vec<Client> {
    let mut held = Vec::new();
    for network in 1..=4 {
        held.push(crowd.hold([198, 51, 100, network], LARGE_BYTES).await);
    }
    held
}

#[tokio::test]
async fn small_letters_come_in_while_large_ones_hold_everything_else() {
    let crowd = Crowd::guarded();
    let _held = hold_all(&crowd).await;
    for _ in 0..20 {
        assert_eq!(crowd.bring(OTHER, 64 * 1024).await, STORED);
    }
    assert_eq!(crowd.bring(OTHER, LARGE_BYTES).await, NO_ROOM);
}

#[tokio::test]
async fn a_stalled_letter_is_cut_off_when_another_needs_its_memory() {
    let crowd = Crowd::guarded();
    let mut held = hold_all(&crowd).await;
    crowd.clock.advance(Duration::from_secs(10));
    held[1].send(&lines(512 * 1024)).await;
    assert_eq!(crowd.bring(OTHER, LARGE_BYTES).await, STORED);
    held[0]
        .expect("421 4.4.2 the letter comes too slowly")
        .await;
    for mut letter in held.drain(1..) {
        letter.send(b".\r\n").await;
        letter.expect(STORED).await;
    }
}

/// Three unfinished letters of one peer, and what a fourth of the same is told.
async fn a_fourth_letter(crowd: &Crowd) -> String {
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(crowd.hold(ATTACKER, LARGE_BYTES).await);
    }
    crowd.bring(ATTACKER, LARGE_BYTES).await
}

#[tokio::test]
async fn letters_of_a_relay_and_by_lmtp_share_all_the_memory() {
    assert_eq!(a_fourth_letter(&Crowd::guarded()).await, NO_ROOM);
    let relays = vec![Network::parse("192.0.2.7").unwrap()];
    let relay = Crowd::sharing(MemoryShares::for_letters(LETTER_BYTES_MAX, relays));
    assert_eq!(a_fourth_letter(&relay).await, STORED);
    let mut lmtp = Crowd::guarded();
    let mut settings = (*lmtp.house.settings).clone();
    settings.kind = ListenerKind::Lmtp;
    lmtp.house = ServerContext::new(lmtp.intake.clone(), settings, CancellationToken::new());
    assert_eq!(a_fourth_letter(&lmtp).await, STORED);
}

/// A client of that address of the loopback network.
async fn connect(server: &Server, host: u8) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind((Ipv4Addr::new(127, 0, 0, host), 0).into())
        .unwrap();
    Client::new(Box::new(socket.connect(server.address).await.unwrap()))
}

/// Places for twenty, two of which are kept, and who says nothing is waited for that long.
async fn crowded(session_idle_max: Duration) -> (Server, Vec<Client>) {
    let limits = Limits {
        connections_max: 20,
        session_idle_max,
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let mut known = connect(&server, 9).await;
    known.greet().await;
    known
        .send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nHi\r\n.\r\nQUIT\r\n")
        .await;
    for reply in ["250 *", "250 *", "354 *", STORED, "221 *"] {
        known.expect(reply).await;
    }
    known.hang_up().await;
    assert_eq!(known.line().await, None);
    let mut silent = Vec::new();
    while silent.len() < 18 {
        let mut client = connect(&server, 2).await;
        // The place of the first one is free just after it has gone.
        if client.line().await.expect("a greeting").starts_with("220 ") {
            silent.push(client);
        }
    }
    (server, silent)
}

#[tokio::test]
async fn the_last_places_are_kept_for_who_has_brought_letters_before() {
    let (server, _silent) = crowded(Duration::from_secs(300)).await;
    connect(&server, 8).await.expect("421 4.7.0 *").await;
    connect(&server, 9).await.expect("220 *").await;
    assert!(
        server
            .intake
            .shortages
            .lock()
            .unwrap()
            .contains(&Shortage::Connections)
    );
    server.stop().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn silent_connections_that_hold_all_places_are_cut_off_early() {
    let (server, mut silent) = crowded(Duration::from_secs(30)).await;
    // A thirtieth of the time that they had: a second.
    let served = async {
        while !connect(&server, 8)
            .await
            .line()
            .await
            .expect("a greeting")
            .starts_with("220 ")
        {
            crate::app::glance().await;
        }
    };
    timeout(Duration::from_secs(15), served)
        .await
        .expect("a place");
    silent[0].expect("421 4.4.2 idle for too long").await;
    server.stop().await;
}

#[tokio::test]
async fn who_talks_without_a_letter_leaves_a_crowd_or_else_may_stay() {
    for (connections_max, said) in [
        (1, "421 4.4.2 connected for too long"),
        (100, "250 2.0.0 ok"),
    ] {
        let mut crowd = Crowd::guarded();
        let mut settings = (*crowd.house.settings).clone();
        let limits = Limits {
            connections_max,
            ..settings.limits.clone()
        };
        let shares = MemoryShares::for_letters(LETTER_BYTES_MAX, Vec::new());
        settings.connection_limiter = ConnectionLimiter::new(&limits, shares, crowd.clock.clone());
        crowd.house = ServerContext::new(crowd.intake.clone(), settings, CancellationToken::new());
        let _place = crowd
            .house
            .settings
            .connection_limiter
            .open_connections
            .enter()
            .ok();
        let mut client = crowd.visit(OTHER).await;
        client.say("NOOP", "250 *").await;
        crowd.clock.advance(Duration::from_secs(61));
        client.say("NOOP", said).await;
    }
}

#[tokio::test]
async fn what_came_fast_at_first_does_not_pay_for_a_drip_afterwards() {
    let idle = Duration::from_millis(600);
    let mut crowd = Crowd::guarded();
    let mut settings = (*crowd.house.settings).clone();
    settings.limits.session_idle_max = idle;
    crowd.house = ServerContext::new(crowd.intake.clone(), settings, CancellationToken::new());
    let mut client = crowd.hold(ATTACKER, MIB).await;
    let dripping = async {
        loop {
            client.send(b"x").await;
            if let Ok(line) = timeout(idle / 20, client.line()).await {
                return line;
            }
        }
    };
    // At 256 bytes a second, a megabyte would be worth more than an hour.
    let said = timeout(PATIENCE / 2, dripping)
        .await
        .expect("it is cut off");
    assert_eq!(
        said.as_deref(),
        Some("421 4.4.2 the letter comes too slowly")
    );
}
