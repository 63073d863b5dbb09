//! The service manager is told what the engine does, as systemd is: by datagrams to a socket.

use super::{Workspace, attache, text};
use crate::app::database::is_sqlite_only;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, Executor, SqliteConnection};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Time within which an engine on a busy machine must say something.
const PATIENCE: Duration = Duration::from_secs(30);
/// `WatchdogSec=` of these tests.
const WATCHDOG: Duration = Duration::from_millis(900);

struct Service {
    engine: Child,
    socket: UnixDatagram,
}

impl Service {
    fn start(workspace: &Workspace) -> Self {
        // Any port: the tests run side by side.
        let gateway = workspace.path("configs/gateway.json");
        let told = std::fs::read_to_string(&gateway).expect("a file");
        std::fs::write(&gateway, told.replace("127.0.0.1:2525", "127.0.0.1:0")).expect("a file");
        std::fs::create_dir_all(workspace.path("run")).expect("a folder");
        let path = workspace.path("run/notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let engine = attache(&["--workspace", text(workspace.0.path()), "serve"])
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        Self { engine, socket }
    }

    /// The next datagram; `None`: none came within `patience`.
    fn told(&self, patience: Duration) -> Option<String> {
        let mut bytes = [0; 4096];
        self.socket
            .set_read_timeout(Some(patience))
            .expect("a timeout");
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).trim().to_owned())
    }

    fn end(&mut self) -> std::process::ExitStatus {
        let pid = Pid::from_child(&self.engine);
        kill_process(pid, Signal::TERM).expect("a signal");
        self.engine.wait().expect("it ends")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended = self.engine.kill();
        let _reaped = self.engine.wait();
    }
}

/// Takes the place of the writer, as a disk that hangs does.
async fn lock(database: &Path) -> SqliteConnection {
    let url = format!("sqlite://{}", database.display());
    let mut other = SqliteConnection::connect(&url).await.expect("a database");
    other.execute("BEGIN IMMEDIATE").await.expect("the lock");
    other
}

#[tokio::test]
async fn an_engine_says_that_it_is_ready_alive_and_stopping() {
    let workspace = Workspace::new();
    let mut service = Service::start(&workspace);
    let ready = service.told(PATIENCE).expect("an engine that is ready");
    assert!(ready.starts_with("READY=1\nSTATUS=serves "), "{ready}");
    for _ in 0..3 {
        assert_eq!(service.told(PATIENCE).as_deref(), Some("WATCHDOG=1"));
    }
    assert!(service.end().success());
    let mut last = Vec::new();
    while let Some(told) = service.told(Duration::from_millis(1)) {
        last.push(told);
    }
    assert!(last.contains(&"STOPPING=1".to_owned()), "{last:?}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_engine_whose_database_does_not_answer_is_not_alive() {
    if is_sqlite_only("another writer of a file") {
        return;
    }
    let workspace = Workspace::new();
    let service = Service::start(&workspace);
    assert!(service.told(PATIENCE).is_some());
    assert_eq!(service.told(PATIENCE).as_deref(), Some("WATCHDOG=1"));
    let other = lock(&workspace.path("data/attache.db")).await;
    // One that was under way may come, then none.
    let mut late = 0;
    while service.told(WATCHDOG).is_some() {
        late += 1;
        assert!(late < 3, "it says that it is alive, and can store nothing");
    }
    other.close().await.expect("the lock is given back");
    assert_eq!(service.told(PATIENCE).as_deref(), Some("WATCHDOG=1"));
}
