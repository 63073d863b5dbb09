//! Loopback servers that refuse what the real API refuses, in its own words: what they share, and what runs against them.
//!
//! A vendor is a [`Check`] of requests and a rendering of [`Turn`]s; `strict_anthropic.rs` and `strict_openai.rs` are two.

use super::server::{Reply, Seen, Server};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Why a request is not taken: status, body in the vendor's shape, and the same in a sentence.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub status: u16,
    pub body: Value,
    pub why: String,
}

/// Reads a request as the real API would. Errors: what it would answer.
pub type Check = fn(&Seen) -> Result<Value, Refusal>;

/// What the model says in one answer.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub text: String,
    pub calls: Vec<(String, Value)>,
}

pub fn say(text: &str) -> Turn {
    Turn {
        text: text.to_owned(),
        calls: Vec::new(),
    }
}

impl Turn {
    pub fn call(mut self, tool: &str, args: Value) -> Self {
        self.calls.push((tool.to_owned(), args));
        self
    }
}

/// A server that takes sound requests only, and remembers which it took and why it refused others.
pub struct Strict {
    server: Server,
    accepted: Arc<Mutex<Vec<Value>>>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Strict {
    /// Answers the n-th sound request with the n-th turn, and all later ones with the last; `render` also gets a number
    /// of its own for each answer.
    pub async fn start(check: Check, render: fn(&Turn, usize) -> Reply, turns: Vec<Turn>) -> Self {
        let accepted = Arc::<Mutex<Vec<Value>>>::default();
        let refused = Arc::<Mutex<Vec<String>>>::default();
        let (takes, refuses, count) = (accepted.clone(), refused.clone(), AtomicUsize::new(0));
        let server = Server::answering(move |seen, _| match check(seen) {
            Ok(body) => {
                let number = count.fetch_add(1, Ordering::SeqCst);
                takes.lock().expect("no test panicked here").push(body);
                render(&turns[number.min(turns.len() - 1)], number)
            }
            Err(refusal) => {
                refuses
                    .lock()
                    .expect("no test panicked here")
                    .push(refusal.why.clone());
                let json = [("content-type", "application/json")];
                Reply::new(refusal.status, &json, &refusal.body.to_string())
            }
        })
        .await;
        Self {
            server,
            accepted,
            refused,
        }
    }

    pub fn url(&self) -> &str {
        &self.server.url
    }
    /// Every request, taken or not.
    pub fn seen(&self) -> Vec<Seen> {
        self.server.seen()
    }
    pub fn accepted(&self) -> Vec<Value> {
        self.accepted.lock().expect("no test panicked here").clone()
    }
    pub fn refused(&self) -> Vec<String> {
        self.refused.lock().expect("no test panicked here").clone()
    }
}

/// `^[a-zA-Z0-9_-]{1,max}$`
pub fn is_name(text: &str, max: usize) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=max).contains(&text.len()) && text.chars().all(legal)
}

/// Whether a text is base64 of an image of this type, by its first bytes.
pub fn is_image(data: &Value, media_type: &Value) -> bool {
    let magic: &[u8] = match media_type.as_str() {
        Some("image/png") => b"\x89PNG\r\n\x1a\n",
        Some("image/jpeg") => b"\xff\xd8\xff",
        Some("image/gif") => b"GIF8",
        Some("image/webp") => b"RIFF",
        _ => return false,
    };
    let bytes = BASE64_STANDARD.decode(data.as_str().unwrap_or_default());
    bytes.is_ok_and(|bytes| bytes.starts_with(magic))
}

/// Whether a text is base64 of a PDF file.
pub fn is_pdf(data: &str) -> bool {
    BASE64_STANDARD
        .decode(data)
        .is_ok_and(|bytes| bytes.starts_with(b"%PDF-"))
}

/// Whether OpenAI would take these members for a PDF file.
pub fn is_pdf_part(file: &Value) -> bool {
    let data = file["file_data"].as_str().unwrap_or_default();
    let data = data.strip_prefix("data:application/pdf;base64,");
    let is_named = file["filename"]
        .as_str()
        .is_some_and(|name| !name.is_empty());
    is_named && data.is_some_and(is_pdf) && stranger(file, &["filename", "file_data"]).is_none()
}

/// Whether the key stands where logs and stores would keep it: in the line of the request, or in the body.
pub fn leaks(seen: &Seen, key: &str) -> bool {
    let line = seen.head.lines().next().unwrap_or_default();
    !key.is_empty() && (line.contains(key) || seen.body.contains(key))
}

/// The first member of an object that the vendor does not know.
pub fn stranger<'a>(object: &'a Value, known: &[&str]) -> Option<&'a str> {
    let keys = object.as_object().into_iter().flat_map(|map| map.keys());
    keys.map(String::as_str).find(|key| !known.contains(key))
}
