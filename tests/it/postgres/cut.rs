//! A connection to the database that is cut: before a commit, between a commit and its answer, or while nothing goes on.

use super::is_skipped;
use crate::app::{TestApp, Workspace, database, db, note};
use serde_json::json;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// What becomes of the next COMMIT; the answers to all others pass.
const PASSES: u8 = 0;
const NEVER_COMES: u8 = 1;
const IS_NOT_ANSWERED: u8 = 2;
/// It reaches the server, and from there on nothing passes.
const IS_THE_LAST: u8 = 3;

/// A proxy between the engine and the server.
pub(super) struct Proxy {
    next_commit: Arc<AtomicU8>,
    /// `true`: connections stay as they are, and no byte passes, as with a server that is stopped.
    pub silent: watch::Sender<bool>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    _listening: JoinSet<()>,
}

impl Proxy {
    /// Puts a proxy in front of the database of a workspace.
    pub async fn before(workspace: &Workspace, more: &str) -> Self {
        database::provide(workspace.path()).await;
        let url = database::url_of(workspace.path()).expect("a database");
        let (head, tail) = url.split_once('@').expect("a role");
        let (server, name) = tail.split_once('/').expect("a name");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let line =
            format!("ATTACHE_DATABASE_URL={head}@127.0.0.1:{port}/{name}?sslmode=disable{more}\n");
        std::fs::write(workspace.path().join(".secrets"), line).expect("a file");
        let next_commit = Arc::new(AtomicU8::new(PASSES));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let mut listening = JoinSet::new();
        let (silent, _) = watch::channel(false);
        let (fault, open, server) = (next_commit.clone(), connections.clone(), server.to_owned());
        let sender = silent.clone();
        listening.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.expect("the server");
                let passing = tokio::spawn(pass(client, server, fault.clone(), sender.clone()));
                open.lock().expect("free").push(passing.abort_handle());
            }
        });
        Self {
            next_commit,
            silent,
            connections,
            _listening: listening,
        }
    }

    /// Cuts all connections that are there.
    fn cut(&self) {
        let mut open = self.connections.lock().expect("free");
        open.drain(..).for_each(|passing| passing.abort());
    }
}

/// Passes bytes on in both directions, until one side ends or the fault strikes.
async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    fault: Arc<AtomicU8>,
    silent: watch::Sender<bool>,
) {
    let mut heard = silent.subscribe();
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                heard.wait_for(|silent| !silent).await.expect("a proxy");
                let is_commit = asked[..length].windows(7).any(|bytes| bytes == b"COMMIT\0");
                let strikes = if is_commit { fault.swap(PASSES, Ordering::SeqCst) } else { PASSES };
                if strikes == NEVER_COMES {
                    return;
                }
                server.write_all(&asked[..length]).await.expect("passed on");
                if strikes == IS_THE_LAST {
                    silent.send_replace(true);
                }
                if strikes == IS_NOT_ANSWERED {
                    let answer = server.read(&mut answered).await;
                    assert!(answer.is_ok_and(|length| length > 0), "the server commits");
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                heard.wait_for(|silent| !silent).await.expect("a proxy");
                if client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

pub(super) async fn behind_a_proxy(more: &str) -> (TestApp, Proxy) {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let proxy = Proxy::before(&workspace, more).await;
    (workspace.start().await, proxy)
}

pub(super) async fn runs(app: &TestApp) -> i64 {
    let mut rows = app.workspace.rows().await;
    let runs = db::query_scalar("SELECT count(*) FROM runs").fetch_one(&mut rows);
    runs.await.expect("a count")
}

#[tokio::test]
async fn a_letter_whose_commit_has_no_answer_is_refused_for_now_and_known_when_it_comes_again() {
    if is_skipped() {
        return;
    }
    let (app, proxy) = behind_a_proxy("").await;
    // What is stored when the letter has heard its refusal.
    for (number, (fault, stored)) in [(NEVER_COMES, 0), (IS_NOT_ANSWERED, 1)]
        .into_iter()
        .enumerate()
    {
        let before = runs(&app).await;
        let eml = note(&format!("cut{number}"), "", "Hello.");
        proxy.next_commit.store(fault, Ordering::SeqCst);
        let refused = app.receive(&eml).await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(runs(&app).await - before, stored);
        app.receive(&eml).await.expect("it comes again");
        assert_eq!(runs(&app).await - before, 1, "one run");
    }
}

#[tokio::test]
async fn a_connection_that_was_cut_meanwhile_costs_no_letter_a_refusal() {
    if is_skipped() {
        return;
    }
    let (app, proxy) = behind_a_proxy("").await;
    for number in 0..3 {
        proxy.cut();
        let eml = note(&format!("idle{number}"), "", "Hello.");
        app.receive(&eml).await.expect("taken by a new connection");
    }
    assert_eq!(runs(&app).await, 3);
}

#[tokio::test]
async fn a_commit_after_which_the_server_is_silent_is_given_up_and_the_letter_known_when_it_comes_again()
 {
    if is_skipped() {
        return;
    }
    let (app, proxy) = behind_a_proxy("&answer_timeout=1&connect_timeout=1").await;
    let eml = note("last", "", "Hello.");
    proxy.next_commit.store(IS_THE_LAST, Ordering::SeqCst);
    let began = Instant::now();
    let refused = app.receive(&eml).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
    proxy.silent.send_replace(false);
    app.receive(&eml).await.expect("it comes again");
    assert_eq!(runs(&app).await, 1, "one run");
}
