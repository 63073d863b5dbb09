//! Floods of commands, and letters that break off: nobody else waits for them, and nothing of them is stored.

use super::client::{Client, Server};
use attache::config::Limits;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const LINES: usize = 20_000;
const ENVELOPE: &[u8] = b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n";

async fn bring_a_letter(client: &mut Client) {
    client.greet().await;
    for (line, reply) in [
        ("MAIL FROM:<a@b.test>", "250 *"),
        ("RCPT TO:<ada@engine.test>", "250 *"),
        ("DATA", "354 *"),
        ("Subject: Hi\r\n\r\nHi\r\n.", "250 *"),
    ] {
        client.say(line, reply).await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_flood_of_commands_keeps_nobody_from_bringing_letters() {
    let server = Server::start(Limits::default()).await;
    for (line, is_error) in [
        ("NOOP", false),
        ("RSET", false),
        ("HELO x.test", false),
        ("VRFY ada", false),
        ("JUNK", true),
    ] {
        let mut flood = server.connect().await;
        flood.expect("220 *").await;
        let stored = server.intake.stored();
        let sent = async {
            flood
                .send(format!("{line}\r\n").repeat(LINES).as_bytes())
                .await;
            flood.hang_up().await;
            let mut replies = Vec::new();
            while let Some(reply) = flood.line().await {
                replies.push(reply);
            }
            replies
        };
        let mut other = server.connect().await;
        let (replies, ()) = tokio::join!(sent, bring_a_letter(&mut other));
        assert_eq!(
            server.intake.stored(),
            stored + 1,
            "{line}: the other's letter, and nothing else"
        );
        match is_error {
            true => {
                assert!(
                    replies.len() < 100,
                    "{line}: {} errors are answered",
                    replies.len()
                );
                assert!(
                    replies.last().is_some_and(|last| last.starts_with("421 ")),
                    "{replies:?}"
                );
            }
            false => assert_eq!(replies.len(), LINES, "{line}: {:?}", replies.last()),
        }
    }
    server.stop().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn who_writes_and_never_reads_is_not_read_any_more_and_then_cut() {
    let server = Server::start(Limits {
        session_idle_max: Duration::from_millis(300),
        ..Limits::default()
    })
    .await;
    let mut deaf = TcpStream::connect(server.address)
        .await
        .expect("a connection");
    let (lines, mut taken) = (b"NOOP\r\n".repeat(4_000), 0);
    // What both sockets buffer, and what of it fits into ours.
    const TAKEN_MAX: usize = 64 << 20;
    while deaf.write_all(&lines).await.is_ok() {
        taken += lines.len();
        assert!(taken < TAKEN_MAX, "it is read for ever");
    }
    bring_a_letter(&mut server.connect().await).await;
    server.stop().await;
}

#[tokio::test]
async fn letters_broken_off_anywhere_are_not_stored_and_keep_no_place() {
    let limits = Limits {
        connections_per_address_max: 2,
        ..Limits::default()
    };
    let server = Server::start(limits).await;
    let whole = [ENVELOPE, b"Subject: Hi\r\n\r\nHi\r\n.\r\n"].concat();
    let (mut aborted, mut end) = (0, 0);
    // The letter is whole with its last byte.
    while end < whole.len() - 1 {
        for is_reset in [false, true] {
            let mut peer = TcpStream::connect(server.address)
                .await
                .expect("a connection");
            if peer
                .write_all(&[b"HELO x.test\r\n", &whole[..end]].concat())
                .await
                .is_err()
            {
                // Both places were still taken: this one comes again.
                continue;
            }
            if is_reset {
                peer.set_zero_linger().expect("an option of sockets");
            }
            drop(peer);
            aborted += 1;
        }
        end += 1;
    }
    assert!(aborted > 100, "{aborted}");
    // Places come back, just after their connections are gone.
    loop {
        let mut client = server.connect().await;
        match client.line().await.expect("a greeting") {
            line if line.starts_with("220 ") => {
                client.hang_up().await;
                break;
            }
            _full => {}
        }
    }
    assert_eq!(server.intake.stored(), 0);
    server.stop().await;
}
