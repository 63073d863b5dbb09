//! A receiver of webhooks on a real socket, and a verifier of signatures that shares no code with the engine.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a receiver does with a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Answers this status, with these further header lines.
    Status(u16, &'static str),
    /// Reads the request and never answers.
    Silence,
    /// Closes the connection without a word.
    Close,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub head: String,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found
            .unwrap_or_else(|| panic!("no {name} in {}", self.head))
            .1
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }

    pub fn event(&self) -> String {
        self.json()["type"].as_str().expect("a type").to_owned()
    }

    /// Reports which of the signatures is right for this key.
    pub fn is_signed_by(&self, key: &[u8]) -> bool {
        let content = format!(
            "{}.{}.{}",
            self.header("webhook-id"),
            self.header("webhook-timestamp"),
            self.body
        );
        let right = format!(
            "v1,{}",
            STANDARD.encode(hmac_sha256(key, content.as_bytes()))
        );
        self.header("webhook-signature")
            .split(' ')
            .any(|signature| signature == right)
    }
}

pub struct Receiver {
    pub port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    answers: Arc<Mutex<Vec<Answer>>>,
    serving: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Receiver {
    /// Answers the n-th request with the n-th answer, and all later ones with the last.
    pub async fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let answers = Arc::new(Mutex::new(answers.to_vec()));
        let (seen, planned) = (received.clone(), answers.clone());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, seen.clone(), planned.clone()));
            }
        });
        Self {
            port,
            received,
            answers,
            serving,
        }
    }

    /// Answers all requests from now on alike.
    pub fn answer(&self, answer: Answer) {
        *self.answers.lock().expect("no panic") = vec![answer];
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no panic").clone()
    }

    pub fn events(&self) -> Vec<String> {
        self.received().iter().map(Received::event).collect()
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: Arc<Mutex<Vec<Received>>>,
    planned: Arc<Mutex<Vec<Answer>>>,
) {
    let Some(request) = request(&mut stream).await else {
        return;
    };
    seen.lock().expect("no panic").push(request);
    let answer = {
        let mut planned = planned.lock().expect("no panic");
        match planned.len() {
            1 => planned[0].clone(),
            _ => planned.remove(0),
        }
    };
    match answer {
        Answer::Status(status, more) => {
            let text = format!(
                "HTTP/1.1 {status} X\r\n{more}content-length: 0\r\nconnection: close\r\n\r\n"
            );
            let _gone = stream.write_all(text.as_bytes()).await;
        }
        Answer::Silence => {
            let _gone = stream.read(&mut [0; 1]).await;
        }
        Answer::Close => {}
    }
}

async fn request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.ok()?;
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8(bytes.clone()).ok()?;
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (key, value) = line.split_once(": ")?;
                key.eq_ignore_ascii_case("content-length")
                    .then(|| value.parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(Received {
                    head: head.to_owned(),
                    body: body.to_owned(),
                });
            }
        }
        if read == 0 {
            return None;
        }
    }
}

/// HMAC-SHA256 as RFC 2104 writes it, from the digest alone.
pub fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = match key.len() {
        0..=64 => key.to_vec(),
        _ => Sha256::digest(key).to_vec(),
    };
    block.resize(64, 0);
    let with = |pad: u8| block.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
    let inner = Sha256::digest([with(0x36), text.to_vec()].concat());
    Sha256::digest([with(0x5c), inner.to_vec()].concat()).to_vec()
}
