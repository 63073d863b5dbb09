//! A workspace on which the real binary serves, and a mail server that can stall.

use crate::app::db::Connection;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Takes mail. While `stalls`, it says nothing more after the reply to DATA was asked for.
#[derive(Clone, Default)]
pub struct Sink {
    pub mails: Arc<Mutex<Vec<Vec<u8>>>>,
    pub stalls: Arc<AtomicBool>,
    /// Dialogues that came as far as DATA.
    pub asked: Arc<AtomicUsize>,
}

impl Sink {
    pub fn open(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let sink = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sink = sink.clone();
                // Dialogues that break off are what these tests are about.
                std::thread::spawn(move || sink.talk(stream).ok());
            }
        });
        port
    }

    fn talk(&self, mut stream: TcpStream) -> Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?);
        stream.write_all(b"220 sink.test\r\n")?;
        let mut line = String::new();
        while {
            line.clear();
            lines.read_line(&mut line)? > 0
        } {
            if !line.starts_with("DATA") {
                stream.write_all(b"250 yes\r\n")?;
                continue;
            }
            self.asked.fetch_add(1, Ordering::SeqCst);
            while self.stalls.load(Ordering::SeqCst) {
                crate::app::blink();
            }
            stream.write_all(b"354 go on\r\n")?;
            let mut mail = Vec::new();
            while !mail.ends_with(b"\r\n.\r\n") {
                if lines.read_until(b'\n', &mut mail)? == 0 {
                    return Ok(());
                }
            }
            self.mails.lock().expect("a lock").push(mail);
            stream.write_all(b"250 taken\r\n")?;
        }
        Ok(())
    }
}

/// The guest house, whose mail goes to `sink` and whose model follows `script`.
pub fn workspace(sink: u16, script: &Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    crate::guest_house::write(dir.path());
    let write = |file: &str, value: &Value| {
        std::fs::write(dir.path().join(file), value.to_string()).expect("a written file");
    };
    write(
        "configs/gateway.json",
        &json!({
            "mail_domain": "guesthouse.example",
            "listeners": [{ "kind": "smtp", "address": "127.0.0.1:0" }],
            "outbound": { "kind": "smarthost", "host": "127.0.0.1", "port": sink, "tls": "none" },
            "limits": { "replies_per_hour_max": 1_000_000, "replies_per_day_max": 1_000_000, "domain_runs_per_day_max": 1_000_000,
                "letters_per_run_max": 1 },
        }),
    );
    write(
        "configs/security.json",
        &json!({ "access": { "allow": ["*@guest.example"] } }),
    );
    write("configs/demo-script.json", script);
    dir
}

pub fn attache(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .env_remove("ATTACHE_WORKSPACE")
        .env_remove("ATTACHE_LOG")
        .current_dir(folder)
        .args(args);
    command
}

/// A serving engine; killed when it is dropped.
pub struct Running {
    child: Child,
    pub port: u16,
}

impl Running {
    pub fn start(folder: &Path, args: &[&str]) -> Self {
        Self::logging(folder, "error", Stdio::piped(), args)
    }

    /// One whose log lines of that level go to `log`.
    pub fn logging(folder: &Path, level: &str, log: Stdio, args: &[&str]) -> Self {
        let args = [&["serve", "--log", level], args].concat();
        let mut command = attache(folder, &args);
        command.stderr(log);
        Self::of(command)
    }

    /// One that a command starts.
    pub fn of(mut command: Command) -> Self {
        let spawned = command.stdout(Stdio::piped()).spawn();
        let mut child = spawned.expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe"))
            .read_line(&mut line)
            .expect("a line");
        let port = line
            .trim()
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok());
        let Some(port) = port else {
            panic!("no port in `{line}`: {}", complaints(&mut child))
        };
        Self { child, port }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("it lives");
    }

    fn id(&self) -> Pid {
        let pid = i32::try_from(self.child.id());
        pid.ok().and_then(Pid::from_raw).expect("a process id")
    }

    /// Stops it where it writes nothing: one stopped in a transaction keeps every other process from the database.
    pub async fn stop_between_writes(&self, folder: &Path) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            self.signal(Signal::STOP);
            let stopped = waitpid(Some(self.id()), WaitOptions::UNTRACED);
            assert!(
                stopped
                    .expect("a child")
                    .is_some_and(|(_, now)| now.stopped())
            );
            // A connection of its own: one that waited in vain on PostgreSQL is left in a transaction that failed.
            if Connection::open(folder).await.may_write().await {
                return;
            }
            self.signal(Signal::CONT);
            crate::app::blink();
        }
        panic!("process {} writes without end", self.child.id());
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for its end; gives its status, what it complained of, and how long it took.
    pub fn ended(mut self) -> (ExitStatus, String, Duration) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return (status, complaints(&mut self.child), began.elapsed());
            }
            crate::app::blink();
        }
        panic!("process {} does not end", self.child.id());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended, which is as good.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// What it wrote to stderr, where the test has the other end.
fn complaints(child: &mut Child) -> String {
    let mut said = String::new();
    let pipe = child.stderr.take();
    pipe.map(|mut pipe| pipe.read_to_string(&mut said).expect("text"));
    said
}

/// A client in the middle of a dialogue.
pub struct Client(BufReader<TcpStream>);

impl Client {
    /// Up to the reply to DATA.
    pub fn begin(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut client = Self(BufReader::new(stream));
        client.append()?;
        for words in [
            "HELO guest.example",
            "MAIL FROM:<bob@guest.example>",
            "RCPT TO:<concierge@guesthouse.example>",
            "DATA",
        ] {
            client.say(&format!("{words}\r\n"))?;
        }
        Ok(client)
    }

    /// The letter and its end.
    pub fn letter(&mut self, id: &str, body: &str) -> Result<()> {
        let head =
            "From: bob@guest.example\r\nTo: concierge@guesthouse.example\r\nSubject: Breakfast";
        let letter = format!("{head}\r\nMessage-ID: <{id}>\r\n\r\n{body}\r\n.\r\n");
        self.0.get_mut().write_all(letter.as_bytes())
    }

    pub fn append(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line)
    }

    fn say(&mut self, words: &str) -> Result<String> {
        self.0.get_mut().write_all(words.as_bytes())?;
        self.append()
    }
}

/// Hands over one letter that must get a yes.
pub fn send(port: u16, id: &str, body: &str) {
    let mut client = Client::begin(port).expect("a dialogue");
    client.letter(id, body).expect("sent");
    let reply = client.append().expect("a reply");
    assert!(reply.starts_with("250"), "{reply}");
}

/// Waits until `found` holds; a plain connection beside the engine has the rows.
pub fn until(what: &str, mut found: impl FnMut() -> bool) {
    let began = Instant::now();
    while !found() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{what} did not happen"
        );
        crate::app::blink();
    }
}
