//! Dialogs from files, run three ways: in whole segments, byte at a time, over a real socket.

use super::client::{Client, PATIENCE, Way, connect, describe, glob, house};
use crate::corpora::files;
use crate::recording_intake::RecordingDoor;
use attache::config::{Limits, ListenerKind};
use attache::gateway::ingress::smtp::SmtpSettings;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use tokio::time::timeout;

#[derive(Default)]
struct Dialog {
    name: String,
    limits: Limits,
    kind: ListenerKind,
    full: bool,
    refuses: String,
    stored: Option<usize>,
    confirmed: Option<usize>,
    letters: Vec<Vec<u8>>,
    envelopes: Vec<String>,
    steps: Vec<Step>,
}

enum Step {
    Send(Vec<u8>),
    Expect(String),
    /// The client closes its side.
    HangUp,
    /// The server has closed the connection.
    Closed,
}

impl Dialog {
    fn read(path: &Path) -> Self {
        let mut dialog = Self {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            ..Self::default()
        };
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match key {
                "C" => dialog
                    .steps
                    .push(Step::Send([unescape(value), b"\r\n".to_vec()].concat())),
                "C-raw" => dialog.steps.push(Step::Send(unescape(value))),
                "C-eof" => dialog.steps.push(Step::HangUp),
                "S" => dialog.steps.push(Step::Expect(value.to_owned())),
                "S-closed" => dialog.steps.push(Step::Closed),
                "# expect stored" => dialog.stored = Some(value.parse().unwrap()),
                "# expect confirmed" => dialog.confirmed = Some(value.parse().unwrap()),
                "# expect letter" => dialog.letters.push(unescape(value)),
                "# expect envelope" => dialog.envelopes.push(value.to_owned()),
                "# kind" if value == "lmtp" => dialog.kind = ListenerKind::Lmtp,
                "# limit" => dialog.limit(value),
                "# door" if value == "full" => dialog.full = true,
                "# door refuses" => value.clone_into(&mut dialog.refuses),
                _ => assert!(
                    line.is_empty()
                        || line == "#"
                        || (line.starts_with("# ") && !line.starts_with("# expect")),
                    "{}: cannot read `{line}`",
                    dialog.name
                ),
            }
        }
        assert!(
            dialog.stored.is_some(),
            "{}: say `# expect stored: N`",
            dialog.name
        );
        dialog
    }

    fn limit(&mut self, text: &str) {
        let (name, value) = text.split_once('=').unwrap();
        let value = value.parse().unwrap();
        let limits = &mut self.limits;
        *match name {
            "letter_bytes_max" => &mut limits.letter_bytes_max,
            "line_bytes_max" => &mut limits.line_bytes_max,
            "command_line_bytes_max" => &mut limits.command_line_bytes_max,
            "recipients_max" => &mut limits.recipients_max,
            "session_errors_max" => &mut limits.session_errors_max,
            other => panic!("no limit `{other}`"),
        } = value;
    }
}

/// `\r \n \t \0 \\ \xHH`, and `\{text*count}` for a repetition.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let used = match escape.as_bytes()[0] {
            b'r' => push(&mut out, b'\r'),
            b'n' => push(&mut out, b'\n'),
            b't' => push(&mut out, b'\t'),
            b'0' => push(&mut out, 0),
            b'\\' => push(&mut out, b'\\'),
            b'x' => {
                out.push(u8::from_str_radix(&escape[1..3], 16).unwrap());
                3
            }
            b'{' => {
                let end = escape.find('}').unwrap();
                let (unit, count) = escape[1..end].rsplit_once('*').unwrap();
                out.extend(unescape(unit).repeat(count.parse().unwrap()));
                end + 1
            }
            other => panic!("no escape `\\{}`", other as char),
        };
        rest = &escape[used..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn push(out: &mut Vec<u8>, byte: u8) -> usize {
    out.push(byte);
    1
}

async fn run(dialog: &Dialog, way: Way) {
    let intake = Arc::new(RecordingDoor::new());
    intake.room.store(!dialog.full, SeqCst);
    dialog
        .refuses
        .clone_into(&mut intake.refuses.lock().unwrap());
    let mut house = house(&intake, dialog.limits.clone());
    house.settings = Arc::new(SmtpSettings {
        kind: dialog.kind,
        ..(*house.settings).clone()
    });
    let stop = house.stop.clone();
    let (stream, server) = connect(way, house).await;
    let mut client = Client::new(stream);
    let place = |n: usize| format!("{} ({way:?}), step {}", dialog.name, n + 1);
    let mut pending = Vec::new();
    for (n, step) in dialog.steps.iter().enumerate() {
        if let Step::Send(bytes) = step {
            pending.extend_from_slice(bytes); // lines in a row are one segment
            continue;
        }
        client.send(&std::mem::take(&mut pending)).await;
        match step {
            Step::Send(_) => unreachable!(),
            Step::HangUp => client.hang_up().await,
            Step::Closed => assert_eq!(client.line().await, None, "{}", place(n)),
            Step::Expect(pattern) => {
                let line = client.line().await;
                let fits = line.as_deref().is_some_and(|line| glob(pattern, line));
                assert!(fits, "{}: expected `{pattern}`, got {line:?}", place(n));
            }
        }
    }
    client.send(&pending).await;
    client.hang_up().await;
    assert_eq!(
        client.line().await,
        None,
        "{}: the server said more",
        dialog.name
    );
    if way == Way::Socket {
        stop.cancel();
    }
    timeout(PATIENCE, server)
        .await
        .expect("the session ends")
        .unwrap();
    check(dialog, &intake, way);
}

fn check(dialog: &Dialog, intake: &RecordingDoor, way: Way) {
    let letters = intake.letters.lock().unwrap();
    let name = format!("{} ({way:?})", dialog.name);
    assert_eq!(Some(letters.len()), dialog.stored, "{name}: letters stored");
    for (letter, bytes) in letters.iter().zip(&dialog.letters) {
        assert_eq!(
            String::from_utf8_lossy(&letter.bytes),
            String::from_utf8_lossy(bytes),
            "{name}"
        );
    }
    for (letter, envelope) in letters.iter().zip(&dialog.envelopes) {
        assert_eq!(&describe(letter), envelope, "{name}");
        assert_eq!(letter.envelope.peer.is_some(), way == Way::Socket, "{name}");
        assert_eq!(letter.envelope.via.as_str(), dialog.kind.as_str(), "{name}");
    }
    if let Some(confirmed) = dialog.confirmed {
        assert_eq!(
            intake.confirmed.load(SeqCst),
            confirmed,
            "{name}: letters confirmed"
        );
    }
}

fn dialogs() -> Vec<Dialog> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dialogs");
    files(&folder, "smtp")
        .iter()
        .map(|path| Dialog::read(path))
        .collect()
}

#[tokio::test]
async fn dialogs_go_as_written_in_whole_segments() {
    for dialog in dialogs() {
        run(&dialog, Way::Segments).await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn dialogs_go_as_written_byte_at_a_time() {
    for dialog in dialogs() {
        run(&dialog, Way::ByteAtATime).await;
    }
}

#[tokio::test]
async fn dialogs_go_as_written_over_a_real_socket() {
    for dialog in dialogs() {
        run(&dialog, Way::Socket).await;
    }
}
