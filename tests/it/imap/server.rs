//! An IMAP server that does as it is told: enough of RFC 9051 for one mailbox, and a fault at any of its answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

pub const USER: &str = "ada@engine.test";
pub const PASSWORD: &str = "open \"sesame\" \\o/";

/// What happens at one answer, counted from 1 over all connections; then never again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before the answer.
    HangUp,
    /// It ends in the middle of the answer.
    HangUpHalfway,
    /// It ends after the answer.
    HangUpAfter,
    /// `BYE` instead of the answer.
    Bye,
    /// Nothing more is said.
    Stall,
}

pub struct Letter {
    pub uid: u32,
    pub bytes: Vec<u8>,
    pub flags: BTreeSet<String>,
    pub arrived: String,
}

pub struct State {
    pub capabilities: Vec<&'static str>,
    pub greeting: &'static str,
    pub uid_validity: u32,
    pub next_uid: u32,
    pub letters: Vec<Letter>,
    /// Other folders and the letters that were moved there.
    pub folders: BTreeMap<String, Vec<Vec<u8>>>,
    pub fault: Option<(usize, Fault)>,
    pub answers: usize,
    /// Every command without its tag; secrets included.
    pub commands: Vec<String>,
    /// Each letter of a FETCH is sent twice.
    pub repeats: bool,
    /// `RFC822.SIZE` of every letter, whatever is true.
    pub claims_bytes: Option<usize>,
    /// Letters whose bytes are `NIL` in every FETCH.
    pub withholds: Vec<u32>,
    /// A letter that is deleted when its bytes are asked for.
    pub vanishes: Option<u32>,
    /// Verbs that are answered with NO.
    pub refuses: Vec<&'static str>,
    /// IDLE is offered and answered with NO.
    pub idle_is_refused: bool,
    /// Every IDLE is told of a letter that is not there.
    pub cries_wolf: bool,
    /// Access tokens that are good.
    pub tokens: Vec<String>,
    /// UIDs in the order in which they were flagged or moved.
    pub marked: Vec<u32>,
}

#[derive(Clone)]
pub struct Server {
    pub port: u16,
    pub state: Arc<Mutex<State>>,
    /// Something changed: a letter came, or a letter was marked.
    pub changed: Arc<Notify>,
}

impl Server {
    pub async fn start() -> Self {
        Self::listen(None).await
    }

    pub async fn start_tls(acceptor: TlsAcceptor) -> Self {
        Self::listen(Some(acceptor)).await
    }

    async fn listen(acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = Self {
            port: listener.local_addr().expect("an address").port(),
            state: Arc::new(Mutex::new(State::new())),
            changed: Arc::new(Notify::new()),
        };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (server, acceptor) = (serving.clone(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => server.serve(tcp).await,
                        Some(acceptor) => match acceptor.accept(tcp).await {
                            Ok(tls) => server.serve(tls).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        server
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test failed in here")
    }

    /// Puts a letter into the mailbox, and tells who idles.
    pub fn deliver(&self, text: &str) -> u32 {
        self.deliver_at(text, "20-Nov-2026 09:00:00 +0000")
    }

    pub fn deliver_at(&self, text: &str, arrived: &str) -> u32 {
        let mut state = self.state();
        let uid = state.next_uid;
        state.next_uid += 1;
        let bytes = text
            .replace("\r\n", "\n")
            .replace('\n', "\r\n")
            .into_bytes();
        state.letters.push(Letter {
            uid,
            bytes,
            flags: BTreeSet::new(),
            arrived: arrived.to_owned(),
        });
        self.changed.notify_waiters();
        uid
    }

    /// Resolves when `done` says so; looks after every change.
    pub async fn until(&self, done: impl Fn(&State) -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if done(&self.state()) {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await;
        waited.unwrap_or_else(|_| panic!("it never happened: {:?}", self.state().commands));
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(self, stream: S) -> Option<()> {
        let mut stream = BufReader::new(stream);
        // The UID that the next letter would have had when this client last heard of letters.
        let mut told = 0;
        let greeting = self.state().greeting;
        self.say(&mut stream, greeting.as_bytes()).await?;
        loop {
            let line = read_line(&mut stream).await?;
            let (tag, command) = line.split_once(' ')?;
            self.state().commands.push(command.to_owned());
            if command.starts_with("AUTHENTICATE") {
                stream.write_all(b"+ \r\n").await.ok()?;
                let answer = read_line(&mut stream).await?;
                let mut verdict = self.state().judge_sasl(command, &answer);
                if verdict.is_none() && command.ends_with("XOAUTH2") {
                    stream
                        .write_all(b"+ eyJzdGF0dXMiOiI0MDAifQ==\r\n")
                        .await
                        .ok()?;
                    read_line(&mut stream).await.filter(String::is_empty)?;
                }
                let verdict = verdict
                    .take()
                    .unwrap_or("NO [AUTHENTICATIONFAILED] go away");
                self.say(&mut stream, format!("{tag} {verdict}\r\n").as_bytes())
                    .await?;
            } else if command == "IDLE" {
                self.idle(&mut stream, tag, &mut told).await?;
            } else {
                if command.starts_with("SELECT") {
                    told = self.next_uid_and_exists().0;
                }
                let answer = self.state().answer(tag, command);
                self.say(&mut stream, &answer).await?;
                self.changed.notify_waiters();
                if command == "LOGOUT" {
                    return None;
                }
            }
        }
    }

    fn next_uid_and_exists(&self) -> (u32, usize) {
        let state = self.state();
        (state.next_uid, state.letters.len())
    }

    /// How many commands began so.
    pub fn count(&self, beginning: &str) -> usize {
        self.state().count(beginning)
    }

    /// One answer, unless a fault strikes; `None` ends the connection.
    async fn say<S: AsyncWrite + Unpin>(&self, stream: &mut S, answer: &[u8]) -> Option<()> {
        let fault = {
            let mut state = self.state();
            state.answers += 1;
            let now = state.answers;
            state
                .fault
                .take_if(|(at, _)| *at == now)
                .map(|(_, fault)| fault)
        };
        match fault {
            None => stream.write_all(answer).await.ok()?,
            Some(Fault::HangUp) => return None,
            Some(Fault::HangUpHalfway) => {
                stream.write_all(&answer[..answer.len() / 2]).await.ok()?;
                return None;
            }
            Some(Fault::HangUpAfter) => {
                stream.write_all(answer).await.ok()?;
                return None;
            }
            Some(Fault::Bye) => {
                stream.write_all(b"* BYE going down\r\n").await.ok()?;
                return None;
            }
            Some(Fault::Stall) => std::future::pending().await,
        }
        Some(())
    }

    async fn idle<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufReader<S>,
        tag: &str,
        told: &mut u32,
    ) -> Option<()> {
        if self.state().idle_is_refused {
            return self
                .say(stream, format!("{tag} NO not for you\r\n").as_bytes())
                .await;
        }
        self.say(stream, b"+ idling\r\n").await?;
        self.changed.notify_waiters();
        if self.state().cries_wolf {
            let exists = self.next_uid_and_exists().1 + 1;
            self.say(stream, format!("* {exists} EXISTS\r\n").as_bytes())
                .await?;
        }
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (next_uid, exists) = self.next_uid_and_exists();
            if next_uid > *told {
                *told = next_uid;
                self.say(
                    stream,
                    format!("* OK Still here\r\n* {exists} EXISTS\r\n").as_bytes(),
                )
                .await?;
            }
            tokio::select! {
                line = read_line(stream) => {
                    assert_eq!(line?, "DONE");
                    return self.say(stream, format!("{tag} OK idled\r\n").as_bytes()).await;
                }
                () = changed => {}
            }
        }
    }
}

async fn read_line<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufReader<S>) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await.ok()?;
    (read > 0).then(|| line.trim_end_matches("\r\n").to_owned())
}

impl State {
    fn new() -> Self {
        Self {
            capabilities: vec!["IMAP4rev1", "IDLE", "MOVE", "UIDPLUS"],
            greeting: "* OK ready\r\n",
            uid_validity: 7,
            next_uid: 1,
            letters: Vec::new(),
            folders: BTreeMap::new(),
            fault: None,
            answers: 0,
            commands: Vec::new(),
            repeats: false,
            claims_bytes: None,
            withholds: Vec::new(),
            vanishes: None,
            refuses: Vec::new(),
            idle_is_refused: false,
            cries_wolf: false,
            tokens: Vec::new(),
            marked: Vec::new(),
        }
    }

    pub fn count(&self, beginning: &str) -> usize {
        self.commands
            .iter()
            .filter(|command| command.starts_with(beginning))
            .count()
    }

    fn judge_sasl(&self, command: &str, answer: &str) -> Option<&'static str> {
        use base64::Engine;
        let said = base64::engine::general_purpose::STANDARD
            .decode(answer)
            .ok()?;
        let said = String::from_utf8(said).ok()?;
        let good = match command {
            "AUTHENTICATE PLAIN" => said == format!("\0{USER}\0{PASSWORD}"),
            _ => {
                let fits =
                    |token: &String| said == format!("user={USER}\x01auth=Bearer {token}\x01\x01");
                self.tokens.iter().any(fits)
            }
        };
        good.then_some("OK in you come")
    }

    /// The whole answer to one command.
    /// Copies letters to a folder; `false`: there is no such folder.
    fn copy(&mut self, set: &str, target: &str, is_move: bool) -> bool {
        let uids = self.chosen(set);
        let Some(folder) = self.folders.get_mut(target) else {
            return false;
        };
        let copies = self
            .letters
            .iter()
            .filter(|letter| uids.contains(&letter.uid));
        folder.extend(copies.map(|letter| letter.bytes.clone()));
        self.marked.extend(&uids);
        if is_move {
            self.letters.retain(|letter| !uids.contains(&letter.uid));
        }
        true
    }

    fn answer(&mut self, tag: &str, command: &str) -> Vec<u8> {
        let ok = format!("{tag} OK done\r\n");
        let mut out = Vec::new();
        if self.refuses.iter().any(|verb| command.starts_with(verb)) {
            return format!("{tag} NO not today\r\n").into_bytes();
        }
        let words: Vec<&str> = command.split(' ').collect();
        match words.as_slice() {
            ["CAPABILITY"] => {
                out.extend(format!("* CAPABILITY {}\r\n", self.capabilities.join(" ")).bytes());
            }
            ["ID", ..] => {}
            ["LOGIN", ..] => {
                let good = format!("LOGIN \"{USER}\" \"open \\\"sesame\\\" \\\\o/\"");
                if command != good {
                    return format!("{tag} NO [AUTHENTICATIONFAILED] go away\r\n").into_bytes();
                }
            }
            ["SELECT" | "EXAMINE", ..] => {
                let (exists, next, validity) =
                    (self.letters.len(), self.next_uid, self.uid_validity);
                out.extend(
                    format!(
                        "* {exists} EXISTS\r\n* 0 RECENT\r\n* OK [UIDVALIDITY {validity}] good\r\n\
                         * OK [UIDNEXT {next}] next\r\n* XODD thing\r\n"
                    )
                    .bytes(),
                );
            }
            ["UID", "SEARCH", "UID", range] => {
                let found: Vec<String> =
                    self.chosen(range).iter().map(ToString::to_string).collect();
                out.extend(format!("* SEARCH {}\r\n", found.join(" ")).bytes());
            }
            ["UID", "FETCH", set, what @ ..] => self.fetch(set, &what.join(" "), &mut out),
            ["UID", "STORE", set, "+FLAGS.SILENT", flag] => {
                let flag = flag.trim_matches(['(', ')']).to_owned();
                for uid in self.chosen(set) {
                    if flag != "\\Deleted" {
                        self.marked.push(uid);
                    }
                    let letter = self
                        .letters
                        .iter_mut()
                        .find(|letter| letter.uid == uid)
                        .expect("chosen");
                    letter.flags.insert(flag.clone());
                }
            }
            ["UID", verb @ ("COPY" | "MOVE"), set, target] => {
                if !self.copy(set, target, *verb == "MOVE") {
                    return format!("{tag} NO [TRYCREATE] no such folder\r\n").into_bytes();
                }
            }
            ["UID", "EXPUNGE", set] => {
                let uids = self.chosen(set);
                self.letters
                    .retain(|l| !(uids.contains(&l.uid) && l.flags.contains("\\Deleted")));
            }
            ["CREATE", name] => drop(self.folders.insert((*name).to_owned(), Vec::new())),
            ["LOGOUT"] => out.extend(b"* BYE see you\r\n"),
            _ => return format!("{tag} BAD what?\r\n").into_bytes(),
        }
        out.extend(ok.bytes());
        out
    }

    fn fetch(&mut self, set: &str, what: &str, out: &mut Vec<u8>) {
        if what.contains("BODY.PEEK[]")
            && let Some(gone) = self.vanishes.take()
        {
            self.letters.retain(|letter| letter.uid != gone);
        }
        let uids = self.chosen(set);
        for (index, letter) in self
            .letters
            .iter()
            .enumerate()
            .filter(|(_, l)| uids.contains(&l.uid))
        {
            for _ in 0..if self.repeats { 2 } else { 1 } {
                let size = self.claims_bytes.unwrap_or(letter.bytes.len());
                let (uid, arrived) = (letter.uid, &letter.arrived);
                out.extend(format!("* {} FETCH (UID {uid} ", index + 1).bytes());
                if what.contains("BODY.PEEK[]") && self.withholds.contains(&uid) {
                    out.extend(b"BODY[] NIL");
                } else if what.contains("BODY.PEEK[]") {
                    out.extend(format!("BODY[] {{{}}}\r\n", letter.bytes.len()).bytes());
                    out.extend(&letter.bytes);
                } else {
                    out.extend(format!("RFC822.SIZE {size} INTERNALDATE \"{arrived}\"").bytes());
                }
                out.extend(b")\r\n");
            }
        }
    }

    /// The UIDs of a set that are there.
    fn chosen(&self, set: &str) -> Vec<u32> {
        let ranges: Vec<(u32, u32)> = set
            .split(',')
            .map(|range| {
                let (from, to) = range.split_once(':').unwrap_or((range, range));
                (
                    from.parse().expect("a number"),
                    to.parse().expect("a number"),
                )
            })
            .collect();
        let within = |uid: &u32| ranges.iter().any(|(from, to)| (from..=to).contains(&uid));
        self.letters
            .iter()
            .map(|letter| letter.uid)
            .filter(within)
            .collect()
    }
}
