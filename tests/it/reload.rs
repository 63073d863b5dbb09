//! The configuration is read again beside a serving engine: what is good counts within seconds, what is faulty changes
//! nothing and is told once, and what has begun goes on with what it began with.

pub mod certificates;
mod command;
mod faulty;
mod load;
mod mailboxes;
mod parts;
mod personas;
mod standing;
mod told;
mod webhooks;
mod words;

use crate::app::db;
use crate::app::{Workspace, glance};
use attache::config::in_force::InForce;
use attache::store::Store;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Nothing here takes long; a wait that reaches this is a hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn answering() -> Value {
    json!({ "rules": [{ "say": "Seven." }] })
}

/// An engine that serves, and the workspace beside it.
struct Serving {
    workspace: Workspace,
    store: Store,
    mail: SocketAddr,
    pages: Vec<String>,
    wanted: Arc<Notify>,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Serving {
    async fn start(workspace: Workspace) -> Self {
        let mut engine = workspace.engine().await;
        let bound = engine.bind().await.expect("a port");
        let mail = bound[0].tcp_address().expect("TCP");
        let pages = engine.bind_pages().await.expect("a port");
        let (store, wanted) = (engine.store.clone(), engine.reload_wanted());
        let stop = CancellationToken::new();
        let task = tokio::spawn(engine.serve(bound, stop.clone()));
        Self {
            workspace,
            store,
            mail,
            pages,
            wanted,
            stop,
            task,
        }
    }

    fn in_force(&self) -> InForce {
        let own = std::process::id().to_string();
        InForce::read(self.workspace.path(), &own).expect("the engine has noted it")
    }

    /// Asks for a reload, and waits until the files have been read.
    async fn reload(&self) -> InForce {
        let reads = self.in_force().reads;
        self.wanted.notify_one();
        self.read_after(reads).await
    }

    /// Waits until the engine has read its files more than so many times.
    async fn read_after(&self, reads: u64) -> InForce {
        let read = async {
            loop {
                let now = self.in_force();
                if now.reads > reads {
                    return now;
                }
                glance().await;
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("in time")
    }

    async fn count(&self, sql: &'static str) -> i64 {
        let mut rows = self.workspace.rows().await;
        let counted = db::query_scalar(sql).fetch_one(&mut rows).await;
        counted.expect("a number")
    }

    /// Waits until a query gives a number.
    async fn until(&self, sql: &'static str, wanted: i64) {
        let counted = async {
            while self.count(sql).await != wanted {
                glance().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, counted).await;
        assert!(waited.is_ok(), "{sql} does not become {wanted}");
    }

    /// Stops the engine, and goes on as one that does not serve.
    async fn ended(self) -> Workspace {
        self.stop.cancel();
        let Self {
            workspace,
            store,
            task,
            ..
        } = self;
        drop(store);
        task.await.expect("no panic").expect("an orderly end");
        workspace
    }
}

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A client of a mail server, over whatever carries bytes.
pub struct Caller(BufReader<Box<dyn Stream>>);

impl Caller {
    /// Connects, and says EHLO.
    async fn of(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let mut caller = Self(BufReader::new(Box::new(stream)));
        caller.hear().await;
        caller.say("EHLO guest.example").await;
        caller
    }

    /// Reads a reply; gives its last line.
    async fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(PATIENCE, self.0.read_line(&mut line));
            read.await.expect("a reply in time").expect("a reply");
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }

    pub async fn say(&mut self, words: &str) -> String {
        let stream = self.0.get_mut();
        let line = format!("{words}\r\n");
        stream.write_all(line.as_bytes()).await.expect("it listens");
        stream.flush().await.expect("it listens");
        self.hear().await
    }

    /// MAIL and RCPT; gives the reply to RCPT.
    pub async fn address(&mut self, to: &str) -> String {
        let said = self.say("MAIL FROM:<bob@guest.example>").await;
        assert!(said.starts_with("250"), "{said}");
        self.say(&format!("RCPT TO:<{to}>")).await
    }

    /// DATA and a letter.
    async fn letter(&mut self, to: &str, id: &str) -> String {
        let said = self.say("DATA").await;
        assert!(said.starts_with("354"), "{said}");
        self.say(&format!(
            "From: bob@guest.example\r\nTo: {to}\r\nSubject: Breakfast\r\nMessage-ID: <{id}@guest.example>\r\n\r\nWhen?\r\n."
        ))
        .await
    }

    /// A whole letter; gives the last reply.
    async fn bring(&mut self, to: &str, id: &str) -> String {
        let said = self.address(to).await;
        if !said.starts_with("250") {
            self.say("RSET").await;
            return said;
        }
        self.letter(to, id).await
    }
}
