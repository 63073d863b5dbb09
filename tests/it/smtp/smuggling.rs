//! Smuggling, and that nothing depends on how the bytes are cut.

use super::client::{house, speak};
use crate::recording_intake::RecordingDoor;
use attache::config::Limits;
use proptest::prelude::*;
use std::sync::Arc;

pub fn smuggling_attempt(filler: &[u8], sequence: &[u8]) -> Vec<u8> {
    [
        b"EHLO relay.example\r\nMAIL FROM:<a@relay.example>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n".as_slice(),
        b"Subject: outer\r\n\r\nbody",
        filler,
        sequence,
        b"MAIL FROM:<evil@evil.test>\r\nRCPT TO:<bob@engine.test>\r\nDATA\r\nSubject: inner\r\n\r\nx\r\n.\r\nQUIT\r\n",
    ]
    .concat()
}

/// Everything around a dot that some server has taken for the end of a letter, except the end of a letter.
pub fn smuggling_sequences() -> Vec<Vec<u8>> {
    let around: [&[u8]; 8] = [
        b"\r\n", b"\n", b"\r", b"\n\r", b"\r\r\n", b"\r\n\0", b"\0\r\n", b"\r\0\n",
    ];
    let mut sequences = Vec::new();
    for before in around {
        for after in around {
            // After a clean CRLF, the dot and a CRLF are the end; what stands behind is the next command.
            if before != b"\r\n" || !after.starts_with(b"\r\n") {
                sequences.push([before, b".", after].concat());
            }
        }
    }
    sequences
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_letter_is_smuggled_and_nothing_of_the_attempt_is_stored() {
    let sequences = smuggling_sequences();
    assert!(sequences.len() >= 40);
    for sequence in sequences {
        for (filler, letter_bytes_max) in [(b"".as_slice(), 1000), (&[b'x'; 200], 100)] {
            let attempt = smuggling_attempt(filler, &sequence);
            for piece in [attempt.len(), 1] {
                let intake = Arc::new(RecordingDoor::new());
                let limits = Limits {
                    letter_bytes_max,
                    ..Limits::default()
                };
                let said = speak(&house(&intake, limits), &attempt, piece).await;
                let context = format!(
                    "{sequence:?} after {} bytes, pieces of {piece}: {said}",
                    filler.len()
                );
                assert_eq!(intake.stored(), 0, "{context}");
                assert_eq!(said.matches("\r\n354 ").count(), 1, "{context}");
                let last = said.lines().last().unwrap();
                assert!(last.starts_with("554 5."), "{context}");
            }
        }
    }
}

#[tokio::test]
async fn what_only_looks_like_the_end_of_a_letter_is_text() {
    let lookalikes: [&[u8]; 9] = [
        b"\r\n. \r\n",
        b"\r\n .\r\n",
        b"\r\n..\r\n",
        b"\r\n.\t\r\n",
        b"\r\n.\x0b\r\n",
        b"\r\n.\x0c\r\n",
        b"\xe2\x80\xa8.\xe2\x80\xa8",
        b"\xc2\x85.\xc2\x85",
        b"\r\n\x1a.\r\n",
    ];
    for sequence in lookalikes {
        for piece in [usize::MAX, 1] {
            let intake = Arc::new(RecordingDoor::new());
            let attempt = smuggling_attempt(b"", sequence);
            let said = speak(&house(&intake, Limits::default()), &attempt, piece).await;
            assert_eq!(intake.stored(), 1, "{sequence:?}: {said}");
            assert_eq!(said.matches("\r\n354 ").count(), 1, "{sequence:?}: {said}");
            let letters = intake.letters.lock().unwrap();
            let text = String::from_utf8_lossy(&letters[0].bytes);
            assert!(
                text.contains("MAIL FROM:<evil@evil.test>\r\n"),
                "{sequence:?}: {text}"
            );
        }
    }
}

fn any_input() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&'static [u8]> = vec![
        b"EHLO c.example\r\n",
        b"HELO c\r\n",
        b"MAIL FROM:<a@b.test>\r\n",
        b"MAIL FROM:<> SIZE=5\r\n",
        b"RCPT TO:<ada@engine.test>\r\n",
        b"RCPT TO:<nobody@engine.test>\r\n",
        b"DATA\r\n",
        b".\r\n",
        b"..\r\n",
        b"text\r\n",
        b"long long long long long\r\n",
        b"RSET\r\n",
        b"NOOP\r\n",
        b"QUIT\r\n",
        b"VRFY x\r\n",
        b"\r\n",
        b"GET / HTTP/1.1\r\n",
        b"MAIL",
        b" ",
        b"<",
        b">",
        b"@",
        b"\"",
        b"\\",
    ];
    let rare: Vec<&'static [u8]> = vec![b"\r", b"\n", b"\0", b"\x80", b"\x16"];
    let word = prop_oneof![20 => prop::sample::select(words), 1 => prop::sample::select(rare)];
    let start = b"EHLO c.example\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n"
        .as_slice();
    (any::<bool>(), prop::collection::vec(word, 0..40)).prop_map(move |(started, words)| {
        [if started { start } else { b"" }, &words.concat()].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "second tier"]
    fn replies_and_letters_do_not_depend_on_how_the_bytes_are_cut(input in any_input(), piece in 1_usize..9) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let limits = Limits { letter_bytes_max: 60, line_bytes_max: 20, command_line_bytes_max: 40, ..Limits::default() };
        let heard = |piece: usize| {
            let intake = Arc::new(RecordingDoor::new());
            let said = runtime.block_on(speak(&house(&intake, limits.clone()), &input, piece));
            let letters = std::mem::take(&mut *intake.letters.lock().unwrap());
            (said, letters)
        };
        prop_assert_eq!(heard(usize::MAX), heard(piece));
    }
}
