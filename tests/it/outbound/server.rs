//! A scripted smarthost: real sockets, faults on demand, everything it heard kept.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Connect,
    Ehlo,
    StartTls,
    Auth,
    Mail,
    Rcpt,
    Data,
    EndOfData,
    Quit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// 451
    Temporary,
    /// 550
    Permanent,
    /// 421 and the connection closes.
    Shutdown,
    /// The connection closes without a word.
    Drop,
    /// No answer ever.
    Stall,
    /// The good answer, a byte at a time.
    Slow,
    /// The good answer, as soon as the test lets it go.
    Late,
}

#[derive(Clone)]
pub struct Script {
    pub fault: Option<(Verb, Fault)>,
    /// Whole replies, by the start of the command they answer (`RCPT TO:<bob@…>`); they win over everything.
    pub replies: HashMap<&'static str, String>,
    /// In place of the greeting.
    pub greeting: Option<String>,
    /// Lines of the EHLO reply after the first.
    pub offers: Vec<&'static str>,
    /// A second EHLO on a connection is refused.
    pub one_ehlo: bool,
    /// Sent in the same segment after the reply to STARTTLS, with the line end that goes before it.
    pub injected: &'static str,
    pub tls: Option<TlsAcceptor>,
    /// TLS from the first byte.
    pub implicit: bool,
    /// Connections close after so many mails, when they are idle.
    pub mails_per_connection: usize,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            fault: None,
            replies: HashMap::new(),
            greeting: None,
            offers: vec!["SIZE 10000000", "8BITMIME"],
            one_ehlo: false,
            injected: "",
            tls: None,
            implicit: false,
            mails_per_connection: usize::MAX,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    /// Between 354 and the final dot, dot-stuffed as it came.
    pub wire: Vec<u8>,
    /// The server said yes.
    pub accepted: bool,
}

impl Mail {
    fn of(from: String) -> Self {
        Self {
            from,
            to: Vec::new(),
            wire: Vec::new(),
            accepted: false,
        }
    }
}

impl Mail {
    /// The mail without the dots that were stuffed in.
    pub fn bytes(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        for line in self.wire.split_inclusive(|b| *b == b'\n') {
            plain.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        }
        plain
    }
}

#[derive(Debug, Default)]
pub struct Heard {
    pub commands: Vec<String>,
    pub mails: Vec<Mail>,
    pub connections: usize,
    pub open: usize,
    pub open_max: usize,
}

impl Heard {
    pub fn count(&self, verb: &str) -> usize {
        self.commands
            .iter()
            .filter(|command| command.to_uppercase().starts_with(verb))
            .count()
    }
    pub fn accepted(&self) -> Vec<&Mail> {
        self.mails.iter().filter(|mail| mail.accepted).collect()
    }
}

pub struct Server {
    pub address: SocketAddr,
    script: Arc<Mutex<Script>>,
    heard: Arc<Mutex<Heard>>,
    /// Something was heard.
    pub news: Arc<Notify>,
    /// Lets go what is late.
    pub release: Arc<Notify>,
    accepting: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    pub async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let (script, heard) = (
            Arc::new(Mutex::new(script)),
            Arc::new(Mutex::new(Heard::default())),
        );
        let (news, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let accepting = tokio::spawn({
            let (script, heard, news, release) =
                (script.clone(), heard.clone(), news.clone(), release.clone());
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    stream.set_nodelay(true).expect("a socket option");
                    let session = Session {
                        script: script.clone(),
                        heard: heard.clone(),
                        news: news.clone(),
                        release: release.clone(),
                    };
                    tokio::spawn(session.serve(stream));
                }
            }
        });
        Self {
            address,
            script,
            heard,
            news,
            release,
            accepting,
        }
    }

    pub fn set(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap());
    }

    pub fn heard<T>(&self, read: impl FnOnce(&Heard) -> T) -> T {
        read(&self.heard.lock().unwrap())
    }

    /// Waits until what was heard satisfies `enough`.
    pub async fn until(&self, enough: impl Fn(&Heard) -> bool) {
        loop {
            let news = self.news.notified();
            if self.heard(&enough) {
                return;
            }
            news.await;
        }
    }
}

/// `Err` ends the connection.
type Go<T> = Result<T, ()>;

struct Session {
    script: Arc<Mutex<Script>>,
    heard: Arc<Mutex<Heard>>,
    news: Arc<Notify>,
    release: Arc<Notify>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}
type Wire = BufReader<Box<dyn Stream>>;

impl Session {
    fn script(&self) -> Script {
        self.script.lock().unwrap().clone()
    }

    fn note(&self, change: impl FnOnce(&mut Heard)) {
        change(&mut self.heard.lock().unwrap());
        self.news.notify_waiters();
    }

    async fn serve(self, stream: tokio::net::TcpStream) {
        self.note(|heard| {
            heard.connections += 1;
            heard.open += 1;
            heard.open_max = heard.open_max.max(heard.open);
        });
        let _ended = self.talk(stream).await;
        self.note(|heard| heard.open -= 1);
    }

    fn extensions(&self) -> String {
        let script = self.script();
        let all: Vec<&str> = std::iter::once("smarthost.test")
            .chain(script.offers.iter().copied())
            .collect();
        let last = all.len() - 1;
        let lines = all.iter().enumerate();
        let reply: Vec<String> = lines
            .map(|(i, l)| format!("250{}{l}", if i == last { ' ' } else { '-' }))
            .collect();
        reply.join("\r\n")
    }

    async fn upgraded(&self, mut wire: Wire, line: &str) -> Go<Wire> {
        let script = self.script();
        let good = format!("220 go ahead{}", script.injected);
        if !self
            .answer(&mut wire, Verb::StartTls, line, &good)
            .await?
            .starts_with('2')
        {
            return Ok(wire);
        }
        let tls = script.tls.ok_or(())?;
        Ok(BufReader::new(Box::new(
            tls.accept(wire.into_inner()).await.map_err(drop)?,
        )))
    }

    async fn talk(&self, stream: tokio::net::TcpStream) -> Go<()> {
        let script = self.script();
        let mut wire: Wire = match (&script.tls, script.implicit) {
            (Some(tls), true) => BufReader::new(Box::new(tls.accept(stream).await.map_err(drop)?)),
            _ => BufReader::new(Box::new(stream)),
        };
        self.answer(&mut wire, Verb::Connect, "", "220 smarthost.test ready")
            .await?;
        let mut mail = Mail::of(String::new());
        let (mut mails, mut greeted) = (0, false);
        loop {
            let line = self.line(&mut wire).await?;
            let upper = line.to_uppercase();
            match upper.split([' ', ':']).next().unwrap_or_default() {
                "EHLO" if greeted && self.script().one_ehlo => {
                    self.answer(&mut wire, Verb::Ehlo, &line, "503 duplicate EHLO")
                        .await?;
                }
                "EHLO" => {
                    greeted = true;
                    self.answer(&mut wire, Verb::Ehlo, &line, &self.extensions())
                        .await?;
                }
                "STARTTLS" => {
                    wire = self.upgraded(wire, &line).await?;
                }
                "AUTH" => {
                    self.answer(&mut wire, Verb::Auth, &line, "235 2.7.0 welcome")
                        .await?;
                }
                "MAIL" => {
                    mail = Mail::of(line.clone());
                    self.answer(&mut wire, Verb::Mail, &line, "250 2.1.0 ok")
                        .await?;
                }
                "RCPT" => {
                    let code = self
                        .answer(&mut wire, Verb::Rcpt, &line, "250 2.1.5 ok")
                        .await?;
                    if code.starts_with('2') {
                        let (_, rest) = line.split_once('<').unwrap_or_default();
                        mail.to.push(rest.trim_end_matches('>').to_owned());
                    }
                }
                "DATA" => {
                    let code = self
                        .answer(&mut wire, Verb::Data, &line, "354 go on")
                        .await?;
                    if code.starts_with('3') {
                        self.end_of_data(&mut wire, &mut mail).await?;
                        mails += 1;
                        if mails >= self.script().mails_per_connection {
                            return Err(());
                        }
                    }
                }
                "RSET" => self.plain(&mut wire, &line, "250 2.0.0 ok").await?,
                "QUIT" => {
                    self.answer(&mut wire, Verb::Quit, &line, "221 2.0.0 bye")
                        .await?;
                    return Ok(());
                }
                _ => self.plain(&mut wire, &line, "500 5.5.1 what").await?,
            }
        }
    }

    async fn end_of_data(&self, wire: &mut Wire, mail: &mut Mail) -> Go<()> {
        mail.wire.clear();
        loop {
            let mut line = Vec::new();
            if wire.read_until(b'\n', &mut line).await.map_err(drop)? == 0 {
                return Err(());
            }
            if line == b".\r\n" {
                break;
            }
            mail.wire.extend_from_slice(&line);
        }
        // Noted before the reply, so that the client's next step finds it.
        let planned = self.planned(Verb::EndOfData, ".", "250 2.0.0 queued as 7");
        mail.accepted = match &planned {
            Planned::Reply(reply) | Planned::Slow(reply) | Planned::Late(reply) => {
                reply.starts_with('2')
            }
            Planned::Drop | Planned::Stall => false,
        };
        self.note(|heard| heard.mails.push(mail.clone()));
        self.act(wire, Verb::EndOfData, planned).await?;
        Ok(())
    }

    async fn line(&self, wire: &mut Wire) -> Go<String> {
        let mut line = Vec::new();
        if wire.read_until(b'\n', &mut line).await.map_err(drop)? == 0 {
            return Err(());
        }
        assert!(line.ends_with(b"\r\n"), "a bare LF came: {line:?}");
        let line = String::from_utf8(line)
            .expect("commands are ASCII")
            .trim_end()
            .to_owned();
        self.note(|heard| heard.commands.push(line.clone()));
        Ok(line)
    }

    async fn plain(&self, wire: &mut Wire, line: &str, reply: &str) -> Go<()> {
        let script = self.script();
        let scripted = script
            .replies
            .iter()
            .find(|(start, _)| line.starts_with(**start));
        let reply = scripted.map_or(reply.to_owned(), |(_, reply)| reply.clone());
        wire.write_all(format!("{reply}\r\n").as_bytes())
            .await
            .map_err(drop)
    }

    /// What the script wants here.
    fn planned(&self, verb: Verb, line: &str, good: &str) -> Planned {
        let script = self.script();
        let fault = script
            .fault
            .filter(|(at, _)| *at == verb)
            .map(|(_, fault)| fault);
        let replies = script.replies.iter();
        let scripted = replies
            .filter(|(start, _)| !line.is_empty() && line.starts_with(**start))
            .map(|(_, r)| r);
        let scripted = scripted
            .chain(script.greeting.iter().filter(|_| verb == Verb::Connect))
            .next();
        match (scripted, fault) {
            (Some(reply), _) => Planned::Reply(reply.clone()),
            (None, None) => Planned::Reply(good.to_owned()),
            (None, Some(Fault::Temporary)) => Planned::Reply("451 4.3.0 later".to_owned()),
            (None, Some(Fault::Permanent)) => Planned::Reply("550 5.7.0 never".to_owned()),
            (None, Some(Fault::Shutdown)) => Planned::Reply("421 4.3.2 closing".to_owned()),
            (None, Some(Fault::Drop)) => Planned::Drop,
            (None, Some(Fault::Stall)) => Planned::Stall,
            (None, Some(Fault::Slow)) => Planned::Slow(good.to_owned()),
            (None, Some(Fault::Late)) => Planned::Late(good.to_owned()),
        }
    }

    async fn act(&self, wire: &mut Wire, verb: Verb, planned: Planned) -> Go<String> {
        let reply = match planned {
            Planned::Reply(reply) => reply,
            Planned::Slow(reply) => {
                for byte in format!("{reply}\r\n").into_bytes() {
                    wire.write_all(&[byte]).await.map_err(drop)?;
                    wire.flush().await.map_err(drop)?;
                    tokio::task::yield_now().await;
                }
                return Ok(reply);
            }
            Planned::Late(reply) => {
                self.release.notified().await;
                reply
            }
            Planned::Drop => return Err(()),
            Planned::Stall => {
                let mut rest = Vec::new();
                let _until_the_client_goes = wire.read_to_end(&mut rest).await;
                return Err(());
            }
        };
        wire.write_all(&on_the_wire(&reply)).await.map_err(drop)?;
        let closes = reply.ends_with("\0\0")
            || reply.starts_with("421")
            || (verb == Verb::Connect && !reply.starts_with('2'));
        if closes { Err(()) } else { Ok(reply) }
    }

    /// Replies, or does what the script wants here. Returns the reply that was sent.
    async fn answer(&self, wire: &mut Wire, verb: Verb, line: &str, good: &str) -> Go<String> {
        self.act(wire, verb, self.planned(verb, line, good)).await
    }
}

/// A reply as bytes; characters up to U+00FF stand for one byte each, and two NULs in the end for no line end, after
/// which the connection closes.
fn on_the_wire(reply: &str) -> Vec<u8> {
    let whole = match reply.strip_suffix("\0\0") {
        Some(open) => open.to_owned(),
        None => format!("{reply}\r\n"),
    };
    whole
        .chars()
        .map(|c| u8::try_from(u32::from(c)).expect("one byte"))
        .collect()
}

enum Planned {
    Reply(String),
    Drop,
    Stall,
    Slow(String),
    Late(String),
}
