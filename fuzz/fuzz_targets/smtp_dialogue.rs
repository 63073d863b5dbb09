//! Any bytes as one side of an SMTP conversation (LMTP when they begin with `L`), over the session that listeners run.
//!
//! Whatever comes in: no panic, every reply a well-formed line, no letter with a bare CR or LF, a lone dot or a NUL, and
//! never more letters than there were ends of data in what was sent.
#![no_main]

#[path = "../../tests/it/recording_door.rs"]
#[expect(dead_code, reason = "the tests of the crate use more of it")]
mod recording_door;

use attache::clock::SystemClock;
use attache::config::{Limits, ListenerKind};
use attache::gateway::ingress::smtp::{House, Lobby, MemoryShares, SmtpSettings, converse};
use libfuzzer_sys::fuzz_target;
use recording_door::RecordingDoor;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(talk(bytes));
});

async fn talk(bytes: &[u8]) {
    let door = Arc::new(RecordingDoor::new());
    let limits = Limits::default();
    let shares = MemoryShares::for_letters(limits.letter_bytes_max, Vec::new());
    let lobby = Lobby::new(&limits, shares, Arc::new(SystemClock::new()));
    let mut settings = SmtpSettings::plain("mail.engine.test", "engine.test", limits, lobby);
    if bytes.starts_with(b"L") {
        settings.kind = ListenerKind::Lmtp;
    }
    let house = House::new(door.clone(), settings, CancellationToken::new());
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (mut replies, mut commands) = tokio::io::split(theirs);
    let send = async {
        // The session may hang up at any point; what was not read is not a fault.
        let _sent = commands.write_all(bytes).await;
        let _closed = commands.shutdown().await;
    };
    let mut said = Vec::new();
    let listen = replies.read_to_end(&mut said);
    let ((), (), heard) = tokio::join!(converse(ours, None, &house), send, listen);
    heard.expect("a duplex does not fail");
    check(bytes, &said, &door);
}

fn check(sent: &[u8], said: &[u8], door: &RecordingDoor) {
    let text = std::str::from_utf8(said).expect("replies are ASCII");
    for line in text.split_terminator("\r\n") {
        assert!(line.len() <= 510 && !line.contains(['\r', '\n', '\0']), "reply {line:?}");
        assert!(line.len() >= 4 && line.as_bytes()[..3].iter().all(u8::is_ascii_digit), "reply {line:?}");
    }
    let letters = door.letters.lock().expect("a lock");
    let ends = sent.windows(3).filter(|window| window == b".\r\n").count();
    assert!(letters.len() <= ends, "{} letters from {ends} ends of data", letters.len());
    for letter in letters.iter() {
        let bytes = &letter.bytes;
        assert!(!bytes.contains(&0));
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'\r' => assert_eq!(bytes.get(at + 1), Some(&b'\n'), "bare CR"),
                b'\n' => assert_eq!(at.checked_sub(1).map(|before| bytes[before]), Some(b'\r'), "bare LF"),
                _ => {}
            }
        }
        assert!(!letter.envelope.rcpt_to.is_empty());
    }
}
