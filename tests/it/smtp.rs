//! The SMTP server: dialogs from files, run three ways; smuggling; limits of time and number; real clients.

use crate::recording_door::RecordingDoor;
use attache::config::Limits;
use attache::domain::{Address, Letter};
use attache::gateway::ingress::smtp::{House, SmtpSettings, converse, serve};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Nothing here takes long; a wait that reaches this is a hang.
const PATIENCE: Duration = Duration::from_secs(20);

fn settings(limits: Limits) -> SmtpSettings {
    SmtpSettings {
        host_name: "mx.engine.test".into(),
        mail_domain: "engine.test".into(),
        letters_in_memory_bytes_max: limits.letter_bytes_max.saturating_mul(8).max(1 << 20),
        limits,
    }
}

fn house(door: &Arc<RecordingDoor>, limits: Limits) -> House {
    House::new(door.clone(), settings(limits), CancellationToken::new())
}

// ---------------------------------------------------------------------------------------------------------------
// Dialog files
// ---------------------------------------------------------------------------------------------------------------

#[derive(Default)]
struct Dialog {
    name: String,
    limits: Limits,
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
        let mut dialog =
            Self { name: path.file_name().unwrap().to_string_lossy().into_owned(), ..Self::default() };
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match key {
                "C" => dialog.steps.push(Step::Send([unescape(value), b"\r\n".to_vec()].concat())),
                "C-raw" => dialog.steps.push(Step::Send(unescape(value))),
                "C-eof" => dialog.steps.push(Step::HangUp),
                "S" => dialog.steps.push(Step::Expect(value.to_owned())),
                "S-closed" => dialog.steps.push(Step::Closed),
                "# expect stored" => dialog.stored = Some(value.parse().unwrap()),
                "# expect confirmed" => dialog.confirmed = Some(value.parse().unwrap()),
                "# expect letter" => dialog.letters.push(unescape(value)),
                "# expect envelope" => dialog.envelopes.push(value.to_owned()),
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
        assert!(dialog.stored.is_some(), "{}: say `# expect stored: N`", dialog.name);
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

fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && glob(tail, &rest[at..]))
        }),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Segments,
    ByteAtATime,
    Socket,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A server and a client's end of a connection to it.
async fn connect(way: Way, house: House) -> (Box<dyn Stream>, JoinHandle<()>) {
    match way {
        Way::Segments | Way::ByteAtATime => {
            let buffer = if way == Way::Segments { 64 * 1024 } else { 1 };
            let (client, server) = duplex(buffer);
            let server = tokio::spawn(async move { converse(server, None, &house).await });
            (Box::new(client), server)
        }
        Way::Socket => {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let settings = (*house.settings).clone();
            let stop = house.stop.clone();
            let server = tokio::spawn(serve(listener, house.door.clone(), settings, stop));
            (Box::new(TcpStream::connect(address).await.unwrap()), server)
        }
    }
}

/// The client's end: what it reads is collected all the time, so that neither side can block the other.
struct Client {
    writer: Option<WriteHalf<Box<dyn Stream>>>,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Client {
    fn new(stream: Box<dyn Stream>) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (sender, lines) = mpsc::unbounded_channel();
        tokio::spawn(Self::collect(reader, sender));
        Self { writer: Some(writer), lines }
    }

    async fn collect(mut reader: ReadHalf<Box<dyn Stream>>, lines: mpsc::UnboundedSender<String>) {
        let mut text = Vec::new();
        while let Ok(1..) = reader.read_buf(&mut text).await {
            while let Some(end) = text.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = text.drain(..end + 2).collect();
                let _gone = lines.send(String::from_utf8(line[..end].to_vec()).unwrap());
            }
        }
        assert!(text.is_empty(), "the server stopped in the middle of a line: {text:?}");
    }

    /// A server that has hung up is noticed when its lines are compared.
    async fn send(&mut self, bytes: &[u8]) {
        if let Some(writer) = &mut self.writer {
            let _closed = timeout(PATIENCE, writer.write_all(bytes)).await.expect("the server reads");
            let _closed = writer.flush().await;
        }
    }

    async fn line(&mut self) -> Option<String> {
        timeout(PATIENCE, self.lines.recv()).await.expect("the server answers or closes")
    }

    async fn hang_up(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            let _closed = writer.shutdown().await;
        }
    }

    /// Sends one line and expects a reply that matches.
    async fn say(&mut self, line: &str, pattern: &str) {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.expect(pattern).await;
    }

    async fn expect(&mut self, pattern: &str) {
        let line = self.line().await;
        assert!(
            line.as_deref().is_some_and(|line| glob(pattern, line)),
            "expected `{pattern}`, got {line:?}"
        );
    }

    /// Greeting and EHLO.
    async fn greet(&mut self) {
        self.expect("220 *").await;
        self.send(b"EHLO client.example\r\n").await;
        while !self.line().await.expect("an answer to EHLO").starts_with("250 ") {}
    }
}

async fn run(dialog: &Dialog, way: Way) {
    let door = Arc::new(RecordingDoor::new());
    door.room.store(!dialog.full, SeqCst);
    dialog.refuses.clone_into(&mut door.refuses.lock().unwrap());
    let house = house(&door, dialog.limits.clone());
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
    assert_eq!(client.line().await, None, "{}: the server said more", dialog.name);
    if way == Way::Socket {
        stop.cancel();
    }
    timeout(PATIENCE, server).await.expect("the session ends").unwrap();
    check(dialog, &door, way);
}

fn check(dialog: &Dialog, door: &RecordingDoor, way: Way) {
    let letters = door.letters.lock().unwrap();
    let name = format!("{} ({way:?})", dialog.name);
    assert_eq!(Some(letters.len()), dialog.stored, "{name}: letters stored");
    for (letter, bytes) in letters.iter().zip(&dialog.letters) {
        assert_eq!(String::from_utf8_lossy(&letter.bytes), String::from_utf8_lossy(bytes), "{name}");
    }
    for (letter, envelope) in letters.iter().zip(&dialog.envelopes) {
        assert_eq!(&describe(letter), envelope, "{name}");
        assert_eq!(letter.envelope.peer.is_some(), way == Way::Socket, "{name}");
    }
    if let Some(confirmed) = dialog.confirmed {
        assert_eq!(door.confirmed.load(SeqCst), confirmed, "{name}: letters confirmed");
    }
}

fn describe(letter: &Letter) -> String {
    let envelope = &letter.envelope;
    let mut text = format!(
        "{} <{}>",
        envelope.helo,
        envelope.mail_from.as_ref().map_or(String::new(), Address::to_string)
    );
    for recipient in &envelope.rcpt_to {
        write!(text, " {recipient}").unwrap();
    }
    text
}

fn dialogs() -> Vec<Dialog> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dialogs");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "smtp")).collect();
    files.sort();
    files.iter().map(|path| Dialog::read(path)).collect()
}

#[tokio::test]
async fn dialogs_go_as_written_in_whole_segments() {
    for dialog in dialogs() {
        run(&dialog, Way::Segments).await;
    }
}

#[tokio::test]
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

// ---------------------------------------------------------------------------------------------------------------
// Smuggling, and independence of how bytes are cut
// ---------------------------------------------------------------------------------------------------------------

/// Sends everything, closes, returns all that the server said.
async fn speak(house: &House, input: &[u8], piece: usize) -> String {
    let (client, server) = duplex(64 * 1024);
    let (mut reader, mut writer) = tokio::io::split(client);
    let talk = async {
        for piece in input.chunks(piece) {
            if writer.write_all(piece).await.is_err() {
                break;
            }
            // Lets the server read the piece before the next one is there.
            tokio::task::yield_now().await;
        }
        let _closed = writer.shutdown().await;
    };
    let mut output = String::new();
    let all = async { tokio::join!(talk, converse(server, None, house), reader.read_to_string(&mut output)) };
    timeout(PATIENCE, all).await.expect("the session ends").2.unwrap();
    output
}

fn smuggling_attempt(filler: &[u8], sequence: &[u8]) -> Vec<u8> {
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
fn smuggling_sequences() -> Vec<Vec<u8>> {
    let around: [&[u8]; 8] = [b"\r\n", b"\n", b"\r", b"\n\r", b"\r\r\n", b"\r\n\0", b"\0\r\n", b"\r\0\n"];
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
async fn no_letter_is_smuggled_and_nothing_of_the_attempt_is_stored() {
    let sequences = smuggling_sequences();
    assert!(sequences.len() >= 40);
    for sequence in sequences {
        for (filler, letter_bytes_max) in [(b"".as_slice(), 1000), (&[b'x'; 200], 100)] {
            let attempt = smuggling_attempt(filler, &sequence);
            for piece in [attempt.len(), 1] {
                let door = Arc::new(RecordingDoor::new());
                let limits = Limits { letter_bytes_max, ..Limits::default() };
                let said = speak(&house(&door, limits), &attempt, piece).await;
                let context = format!("{sequence:?} after {} bytes, pieces of {piece}: {said}", filler.len());
                assert_eq!(door.stored(), 0, "{context}");
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
            let door = Arc::new(RecordingDoor::new());
            let attempt = smuggling_attempt(b"", sequence);
            let said = speak(&house(&door, Limits::default()), &attempt, piece).await;
            assert_eq!(door.stored(), 1, "{sequence:?}: {said}");
            assert_eq!(said.matches("\r\n354 ").count(), 1, "{sequence:?}: {said}");
            let letters = door.letters.lock().unwrap();
            let text = String::from_utf8_lossy(&letters[0].bytes);
            assert!(text.contains("MAIL FROM:<evil@evil.test>\r\n"), "{sequence:?}: {text}");
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
    let start = b"EHLO c.example\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n".as_slice();
    (any::<bool>(), prop::collection::vec(word, 0..40))
        .prop_map(move |(started, words)| [if started { start } else { b"" }, &words.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replies_and_letters_do_not_depend_on_how_the_bytes_are_cut(input in any_input(), piece in 1_usize..9) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let limits = Limits { letter_bytes_max: 60, line_bytes_max: 20, command_line_bytes_max: 40, ..Limits::default() };
        let heard = |piece: usize| {
            let door = Arc::new(RecordingDoor::new());
            let said = runtime.block_on(speak(&house(&door, limits.clone()), &input, piece));
            let letters = std::mem::take(&mut *door.letters.lock().unwrap());
            (said, letters)
        };
        prop_assert_eq!(heard(usize::MAX), heard(piece));
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Time, numbers, stopping
// ---------------------------------------------------------------------------------------------------------------

struct Server {
    address: SocketAddr,
    door: Arc<RecordingDoor>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(limits: Limits) -> Self {
        let door = Arc::new(RecordingDoor::new());
        let stop = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(serve(listener, door.clone(), settings(limits), stop.clone()));
        Self { address, door, stop, task }
    }

    async fn connect(&self) -> Client {
        Client::new(Box::new(TcpStream::connect(self.address).await.unwrap()))
    }

    async fn stop(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("the listener ends").unwrap();
    }
}

#[tokio::test]
async fn a_silent_peer_is_told_and_cut_among_commands_and_inside_a_letter() {
    let limits = Limits { session_idle_max: Duration::from_millis(60), ..Limits::default() };
    let server = Server::start(limits).await;
    let mut silent = server.connect().await;
    silent.greet().await;
    silent.expect("421 4.4.2 *").await;
    assert_eq!(silent.line().await, None);

    let mut unfinished = server.connect().await;
    unfinished.greet().await;
    unfinished.send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nSubject: half\r\n").await;
    for reply in ["250 *", "250 *", "354 *", "421 4.4.2 *"] {
        unfinished.expect(reply).await;
    }
    assert_eq!(unfinished.line().await, None);
    assert_eq!(server.door.stored(), 0);
    server.stop().await;
}

#[tokio::test]
async fn a_peer_that_drips_bytes_is_cut_when_its_time_is_over() {
    let limits = Limits { session_duration_max: Duration::from_millis(150), ..Limits::default() };
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
    let server = Server::start(Limits { connections_per_address_max: 2, ..Limits::default() }).await;
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
    while !server.connect().await.line().await.expect("a greeting").starts_with("220 ") {}
    server.stop().await;
}

#[tokio::test]
async fn connections_over_the_total_are_turned_away() {
    let server = Server::start(Limits { connections_max: 1, ..Limits::default() }).await;
    let mut first = server.connect().await;
    first.expect("220 *").await;
    server.connect().await.expect("421 4.7.0 *").await;
    first.say("NOOP", "250 *").await;
    server.stop().await;
}

#[tokio::test]
async fn two_hundred_idle_peers_do_not_keep_a_new_one_waiting() {
    let limits = Limits { connections_per_address_max: 300, ..Limits::default() };
    let server = Server::start(limits).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"EHLO slow.example\r\nMAIL FROM:<a@").await.unwrap();
        idle.push(stream);
    }
    let mut client = server.connect().await;
    client.greet().await;
    client.say("MAIL FROM:<a@b.test>", "250 2.1.0 *").await;
    client.say("RCPT TO:<ada@engine.test>", "250 2.1.5 *").await;
    client.say("DATA", "354 *").await;
    client.say("Subject: served\r\n\r\n.", "250 2.0.0 stored").await;
    assert_eq!(server.door.stored(), 1);
    drop(idle);
    server.stop().await;
}

#[tokio::test]
async fn an_idle_session_is_small() {
    let door = Arc::new(RecordingDoor::new());
    let house = house(&door, Limits::default());
    let (_client, server) = duplex(1);
    let session = converse(server, None, &house);
    let bytes = std::mem::size_of_val(&session);
    assert!(bytes <= 4096, "{bytes} bytes of state, and 8 kB of input buffer besides");
}

#[tokio::test]
async fn stopping_says_421_to_idle_peers_and_lets_a_letter_in_flight_finish() {
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
    let (address, door) = (server.address, server.door.clone());
    idle.hang_up().await;
    busy.hang_up().await;
    server.stop().await;
    assert_eq!(door.stored(), 1);
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_letter_that_does_not_end_cannot_hold_up_the_stop() {
    let limits = Limits { drain_max: Duration::from_millis(200), ..Limits::default() };
    let server = Server::start(limits).await;
    let mut endless = server.connect().await;
    endless.greet().await;
    endless.send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nSubject: half\r\n").await;
    for reply in ["250 *", "250 *", "354 *"] {
        endless.expect(reply).await;
    }
    server.stop.cancel();
    endless.expect("421 4.3.2 *").await;
    let door = server.door.clone();
    server.stop().await;
    assert_eq!(door.stored(), 0);
}

#[tokio::test]
async fn all_connections_together_hold_a_bounded_number_of_letter_bytes() {
    let door = Arc::new(RecordingDoor::new());
    let mut settings = settings(Limits::default());
    settings.letters_in_memory_bytes_max = 64 * 1024;
    let house = House::new(door.clone(), settings, CancellationToken::new());
    let (stream, _session) = connect(Way::Segments, house.clone()).await;
    let mut holder = Client::new(stream);
    holder.greet().await;
    holder.send(b"MAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nSubject: held\r\n").await;
    for reply in ["250 *", "250 *", "354 *"] {
        holder.expect(reply).await;
    }
    holder.send(b"more\r\n").await;

    let letter = b"EHLO c\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\nx\r\n.\r\nQUIT\r\n";
    // The holder's bytes may not be read yet; they are soon, and from then on there is no room.
    while !speak(&house, letter, usize::MAX).await.contains("\r\n452 4.3.1 ") {}
    let before = door.stored();
    holder.say(".", "250 2.0.0 stored").await;
    holder.say("QUIT", "221 *").await;
    assert_eq!(door.stored(), before + 1);
    assert!(speak(&house, letter, usize::MAX).await.contains("\r\n250 2.0.0 stored\r\n"));
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
    assert_eq!(server.door.stored(), 500);
    server.stop().await;
}

// ---------------------------------------------------------------------------------------------------------------
// Real clients
// ---------------------------------------------------------------------------------------------------------------

const PYTHON_CLIENT: &str = r#"
import smtplib, sys
from email.message import EmailMessage
m = EmailMessage()
m["From"], m["To"], m["Subject"] = "Zo\u00eb <zoe@client.example>", "ada@engine.test", "Gr\u00fc\u00dfe"
m.set_content("first line\n.hidden dot\n..two dots\n.\nlast line \u20ac\n")
m.add_attachment(bytes(range(256)) * 40, maintype="application", subtype="octet-stream", filename="all.bin")
with smtplib.SMTP("127.0.0.1", int(sys.argv[1]), local_hostname="py.example", timeout=20) as s:
    refused = s.send_message(m, to_addrs=["ada@engine.test", "nobody@engine.test", "x@other.test"])
    assert {k: v[0] for k, v in refused.items()} == {"nobody@engine.test": 550, "x@other.test": 550}, refused
    assert s.verify("ada")[0] == 252 and s.noop()[0] == 250
    try:
        s.sendmail("a@b.test", ["nobody@engine.test"], b"x")
        raise SystemExit("a letter to nobody was taken")
    except smtplib.SMTPRecipientsRefused:
        pass
    s.sendmail("", ["bob@engine.test"], b"Subject: null sender\r\n\r\n.\r\n", mail_options=["BODY=8BITMIME", "SMTPUTF8"])
"#;

/// Runs a program beside the server; `None`, said aloud, when it is not installed.
async fn run_client(mut command: Command) -> Option<Output> {
    let name = command.get_program().to_owned();
    match tokio::task::spawn_blocking(move || command.output()).await.unwrap() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("SKIPPED: {name:?} cannot be run here: {error}");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pythons_smtplib_is_served() {
    let server = Server::start(Limits::default()).await;
    let mut python = Command::new("python3");
    python.arg("-c").arg(PYTHON_CLIENT).arg(server.address.port().to_string());
    let Some(output) = run_client(python).await else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let letters = std::mem::take(&mut *server.door.letters.lock().unwrap());
    let envelopes: Vec<String> = letters.iter().map(describe).collect();
    assert_eq!(
        envelopes,
        ["py.example <zoe@client.example> ada@engine.test", "py.example <> bob@engine.test"]
    );
    assert_eq!(letters[1].bytes, b"Subject: null sender\r\n\r\n.\r\n");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaks_is_served() {
    let server = Server::start(Limits::default()).await;
    let mut swaks = Command::new("swaks");
    let address = server.address.to_string();
    swaks.args(["--server", &address, "--from", "s@client.example", "--to", "ada@engine.test", "--pipeline"]);
    swaks.args(["--ehlo", "swaks.example", "--body", "one\n.\n..two"]);
    let Some(output) = run_client(swaks).await else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(server.door.stored(), 1);
    let text = String::from_utf8_lossy(&server.door.letters.lock().unwrap()[0].bytes).into_owned();
    assert!(text.contains("\r\none\r\n.\r\n..two\r\n"), "{text}");
    server.stop().await;
}
