//! Pages on a Unix socket: its file, the names by which it is called, and peers that cannot be told apart.

use super::site::key;
use crate::approvals::scene::{Scene, asks};
use attache::config::HttpListener;
use attache::http::{BoundPages, serve};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Pages on a socket in their workspace.
pub struct Pages {
    pub scene: Scene,
    pub path: PathBuf,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Pages {
    pub async fn start(more: &Value) -> Self {
        let mut listener = json!({ "kind": "http", "address": "unix:data/pages.sock" });
        for (key, value) in more.as_object().expect("keys") {
            listener[key] = value.clone();
        }
        let scene = Scene::with(&asks(), |workspace| {
            workspace.set("configs/gateway.json", "/listeners", json!([listener]));
        })
        .await;
        let path = scene.world.app.workspace.path().join("data/pages.sock");
        let bound = open(&scene).await.expect("a socket");
        assert_eq!(bound.address(), format!("unix:{}", path.display()));
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(bound, stop.clone()));
        Self {
            scene,
            path,
            stop,
            serving,
        }
    }

    /// Sends a request on a connection of its own; gives the status and the rest of the answer.
    async fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let mut socket = UnixStream::connect(&self.path).await.expect("a connection");
        let length = body.len();
        let request = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        socket.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("text");
        let status = answer.get(9..12).and_then(|code| code.parse().ok());
        (status.expect("a status"), answer)
    }

    /// Makes a key that may read; gives its secret.
    pub async fn key(&self) -> String {
        key(&self.scene.world.app.engine.store, &["read"]).await
    }

    async fn called(&self, host: &str) -> u16 {
        let head = format!("GET /livez HTTP/1.1\r\nHost: {host}\r\n");
        self.ask(&head, "").await.0
    }

    /// Types a wrong code, for a client of this address if it is a proxy that asks.
    async fn guesses(&self, client: &str) -> u16 {
        let head = format!(
            "POST /login HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {client}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n"
        );
        self.ask(&head, "code=000000000000&next=/").await.0
    }

    async fn end(self) -> (Scene, PathBuf) {
        self.stop.cancel();
        self.serving.await.expect("no panic");
        (self.scene, self.path)
    }
}

fn listener(scene: &Scene) -> &HttpListener {
    &scene.world.app.engine.config.gateway.http_listeners[0]
}

async fn open(scene: &Scene) -> anyhow::Result<BoundPages> {
    BoundPages::open(listener(scene), &scene.world.app.engine.web_parts()).await
}

fn mode(path: &Path) -> u32 {
    let about = std::fs::metadata(path).expect("a file");
    about.permissions().mode() & 0o777
}

#[tokio::test]
async fn a_socket_is_its_owners_alone_and_goes_with_its_engine() {
    let pages = Pages::start(&json!({})).await;
    assert_eq!(mode(&pages.path), 0o600);
    assert_eq!(pages.called("localhost").await, 200);
    let refused = open(&pages.scene).await.err().expect("it is taken");
    assert!(
        refused.to_string().contains("another program listens"),
        "{refused}"
    );
    assert_eq!(pages.called("localhost").await, 200, "and goes on");
    let (scene, path) = pages.end().await;
    assert!(!path.exists(), "a clean end takes the file away");
    // What an engine leaves that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists());
    drop(open(&scene).await.expect("nobody listens there"));
    assert!(!path.exists());
    // Nobody's files are replaced.
    std::fs::write(&path, "a note").expect("written");
    let refused = open(&scene).await.err().expect("a file");
    assert!(refused.to_string().contains("no socket"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).expect("kept"), "a note");
}

#[tokio::test]
async fn a_socket_is_called_by_localhost_and_the_names_that_are_configured() {
    let pages = Pages::start(&json!({})).await;
    assert_eq!(listener(&pages.scene).url(), "http://localhost");
    for wrong in ["attache.example.org", "127.0.0.1", "localhost:80", ""] {
        assert_eq!(pages.called(wrong).await, 403, "{wrong}");
    }
    pages.end().await;
    let more = json!({ "origins": ["https://attache.example.org"], "mode": "0660" });
    let pages = Pages::start(&more).await;
    assert_eq!(mode(&pages.path), 0o660);
    assert_eq!(listener(&pages.scene).url(), "https://attache.example.org");
    assert_eq!(pages.called("attache.example.org").await, 200);
    assert_eq!(pages.called("localhost").await, 200);
    assert_eq!(pages.called("evil.example.org").await, 403);
    // Forms are compared with the name that the proxy passes on.
    let post = |origin: &str| {
        format!(
            "POST /login HTTP/1.1\r\nHost: attache.example.org\r\nOrigin: {origin}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n"
        )
    };
    let form = "code=000000000000&next=/";
    let own = pages.ask(&post("https://attache.example.org"), form).await;
    assert_eq!(own.0, 400, "a wrong code: {}", own.1);
    let foreign = pages.ask(&post("https://evil.example.org"), form).await;
    assert_eq!(foreign.0, 403, "{}", foreign.1);
    pages.end().await;
}

#[tokio::test]
async fn peers_of_a_socket_count_as_one_unless_a_proxy_tells_them_apart() {
    let pages = Pages::start(&json!({})).await;
    for number in 0..10 {
        let client = format!("192.0.2.{number}");
        assert_eq!(
            pages.guesses(&client).await,
            400,
            "whatever it calls itself"
        );
    }
    assert_eq!(pages.guesses("192.0.2.99").await, 429);
    pages.end().await;
    let pages = Pages::start(&json!({ "proxies": ["unix:"] })).await;
    for _ in 0..10 {
        assert_eq!(pages.guesses("192.0.2.1").await, 400);
    }
    assert_eq!(pages.guesses("192.0.2.1").await, 429);
    // The last address is the one that the proxy itself has added.
    assert_eq!(pages.guesses("192.0.2.2, 192.0.2.1").await, 429);
    assert_eq!(pages.guesses("192.0.2.1, 192.0.2.2").await, 400);
    pages.end().await;
}
