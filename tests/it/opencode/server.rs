//! A small OpenCode on loopback: sessions, messages, permissions, and an event stream that breaks where a test wants it.

use attache::config::{ProviderSettings, Tier};
use attache::domain::Timestamp;
use attache::providers::{
    self, AgentOptions, AgentSession, CallContext, Event, Message, Provider, ProviderError,
    Request, ToolChoice,
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What must have happened before the answer comes.
#[derive(Clone, Copy, PartialEq)]
pub enum When {
    AtOnce,
    /// So many event streams were asked for, and their frames sent.
    Streams(usize),
    Permission,
    Never,
}

pub struct Play {
    /// Frames of each event stream in order; all but the last end after their frames.
    pub streams: Vec<Vec<Value>>,
    /// `GET /session/:id/message` before the answer is asked for, and after.
    pub before: Value,
    pub after: Value,
    pub reply: (u16, Value),
    pub when: When,
    /// The body of the answer ends after so many bytes: told as its whole length, or missing from it.
    pub reply_cut: Option<(usize, Cut)>,
    /// The first event stream ends after so many bytes.
    pub stream_cut: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// The connection goes on as if that were all.
    Silent,
    /// The connection closes before the announced length.
    Closed,
}

impl Default for Play {
    fn default() -> Self {
        let reply = (
            200,
            answer("msg_2", &[text("prt_9", "msg_2", "From seven to ten.")]),
        );
        Self {
            streams: vec![vec![]],
            before: json!([]),
            after: json!([reply.1]),
            reply,
            when: When::AtOnce,
            reply_cut: None,
            stream_cut: None,
        }
    }
}

/// One request: method and path, head, body.
#[derive(Clone, Debug)]
pub struct Seen {
    pub line: String,
    pub head: String,
    pub body: Value,
}

pub struct OpenCode {
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

struct StepPair {
    play: Play,
    seen: Arc<Mutex<Vec<Seen>>>,
    streams: watch::Sender<usize>,
    permissions: watch::Sender<usize>,
}

impl OpenCode {
    pub async fn start(play: Play) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (streams, permissions) = (watch::Sender::new(0), watch::Sender::new(0));
        let pair = Arc::new(StepPair {
            play,
            seen: seen.clone(),
            streams,
            permissions,
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, pair.clone()));
            }
        });
        Self { url, seen }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panicked here").clone()
    }
    /// The bodies that came to this method and path.
    pub fn bodies(&self, line: &str) -> Vec<Value> {
        self.seen()
            .into_iter()
            .filter(|seen| seen.line == line)
            .map(|seen| seen.body)
            .collect()
    }
    pub fn provider(&self) -> Box<dyn Provider> {
        let settings = ProviderSettings {
            base_url: Some(self.url.clone()),
            api_key: Some("hunter2hunter2".to_owned().into()),
            ..ProviderSettings::default()
        };
        providers::build("opencode", &settings).expect("an adapter")
    }
}

async fn serve(mut stream: TcpStream, pair: Arc<StepPair>) {
    while let Some(request) = read(&mut stream).await {
        let line = request.line.clone();
        pair.seen
            .lock()
            .expect("no test panicked here")
            .push(request);
        let play = &pair.play;
        let (status, body) = match line.as_str() {
            "GET /event" => return events(stream, &pair).await,
            "POST /session" => (200, json!({ "id": "ses_1", "directory": "/x" })),
            "GET /global/health" => (200, json!({ "healthy": true, "version": "1.18.33" })),
            "GET /permission" => (200, json!([])),
            "GET /session/ses_gone/message" => (404, json!({ "name": "NotFoundError" })),
            "GET /session/ses_1/message" => {
                let seen = pair.seen.lock().expect("no test panicked here");
                let is_asked = seen
                    .iter()
                    .any(|seen| seen.line == "POST /session/ses_1/message");
                (
                    200,
                    if is_asked {
                        play.after.clone()
                    } else {
                        play.before.clone()
                    },
                )
            }
            "POST /session/ses_1/message" => {
                match play.when {
                    When::AtOnce => {}
                    When::Streams(count) => reached(&pair.streams, count).await,
                    When::Permission => reached(&pair.permissions, 1).await,
                    When::Never => std::future::pending().await,
                }
                play.reply.clone()
            }
            line if line.starts_with("POST /permission/") => {
                pair.permissions.send_modify(|count| *count += 1);
                (200, json!(true))
            }
            "POST /session/ses_1/abort" => (200, json!(true)),
            other => panic!("no such route: {other}"),
        };
        let mut body = body.to_string().into_bytes();
        let cut = play
            .reply_cut
            .filter(|_| line == "POST /session/ses_1/message");
        if let Some((length, Cut::Silent)) = cut {
            body.truncate(length);
        }
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if let Some((length, Cut::Closed)) = cut {
            body.truncate(length);
        }
        let sent = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        if sent.is_err() || matches!(cut, Some((_, Cut::Closed))) {
            return;
        }
    }
}

async fn reached(count: &watch::Sender<usize>, wanted: usize) {
    count
        .subscribe()
        .wait_for(|count| *count >= wanted)
        .await
        .expect("the stage outlives its server");
}

/// Sends the frames in pieces of seven bytes, so that no frame comes whole.
async fn events(mut stream: TcpStream, pair: &StepPair) {
    let nth = *pair.streams.borrow();
    let frames = pair.play.streams.get(nth).cloned().unwrap_or_default();
    let is_last = nth + 1 >= pair.play.streams.len();
    let mut text =
        "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned();
    text.push_str("data: {\"type\":\"server.connected\",\"properties\":{}}\n\n");
    for frame in frames {
        text.push_str(&format!("data: {frame}\n\n"));
    }
    let head = text.find("\r\n\r\n").map_or(0, |at| at + 4);
    let end = pair
        .play
        .stream_cut
        .filter(|_| nth == 0)
        .map_or(text.len(), |cut| text.len().min(head + cut));
    for piece in text.as_bytes()[..end].chunks(7) {
        if stream.write_all(piece).await.is_err() {
            return;
        }
    }
    let _flushed = stream.flush().await;
    pair.streams.send_modify(|count| *count += 1);
    if is_last {
        while matches!(stream.read(&mut [0; 64]).await, Ok(n) if n > 0) {}
    }
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                let first = String::from_utf8_lossy(&bytes[..end])
                    .lines()
                    .next()?
                    .to_owned();
                let line = first.rsplit_once(' ')?.0.to_owned();
                let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default();
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                return Some(Seen { line, head, body });
            }
        }
        match stream.read(&mut piece).await {
            Ok(n) if n > 0 => bytes.extend_from_slice(&piece[..n]),
            _ => return None,
        }
    }
}

pub fn info(id: &str) -> Value {
    json!({ "id": id, "sessionID": "ses_1", "role": "assistant", "providerID": "acme", "modelID": "m1", "cost": 0.0125,
        "tokens": { "input": 100, "output": 20, "reasoning": 5, "cache": { "read": 7, "write": 3 } }, "finish": "stop" })
}
pub fn answer(id: &str, parts: &[Value]) -> Value {
    json!({ "info": info(id), "parts": parts })
}
pub fn text(id: &str, message: &str, text: &str) -> Value {
    json!({ "id": id, "sessionID": "ses_1", "messageID": message, "type": "text", "text": text })
}
pub fn tool(call: &str, name: &str, state: Value) -> Value {
    json!({ "id": format!("prt_{call}"), "sessionID": "ses_1", "messageID": "msg_1", "type": "tool", "callID": call,
        "tool": name, "state": state })
}
pub fn running(call: &str, name: &str) -> Value {
    tool(
        call,
        name,
        json!({ "status": "running", "input": { "filePath": "a.md" }, "time": { "start": 1 } }),
    )
}
pub fn completed(call: &str, name: &str, output: &str) -> Value {
    tool(
        call,
        name,
        json!({ "status": "completed", "input": { "filePath": "a.md" }, "output": output, "title": "t" }),
    )
}
pub fn updated(part: Value) -> Value {
    json!({ "type": "message.part.updated", "properties": { "part": part } })
}
pub fn message(info: Value) -> Value {
    json!({ "type": "message.updated", "properties": { "info": info } })
}

pub fn request(session: AgentSession, tier: Tier) -> Request {
    Request {
        model: "acme/m1".into(),
        system: vec!["You are Ada.".into()],
        messages: vec![Message::user("When is breakfast?")],
        past_messages: 0,
        cache_key: None,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 1000,
        temperature: None,
        output: None,
        without: Vec::new(),
        agent: Some(AgentOptions {
            session,
            tier,
            folder: "/tmp".into(),
            workspace: String::new(),
            turns_max: 8,
            tool_calls_max: 50,
            cost_micros_max: None,
            tool_server: None,
        }),
    }
}

pub fn context(cancel: CancellationToken) -> CallContext {
    CallContext {
        cancel,
        deadline: Duration::from_secs(20),
        idle: Duration::from_secs(20),
        run_id: "run".into(),
        turn_index: 0,
        model: "acme/m1".into(),
        cache_key: None,
        now: Timestamp::from_millis(0),
        capture: None,
    }
}

/// All events of one call.
pub async fn play(provider: &dyn Provider, request: &Request) -> Vec<Result<Event, ProviderError>> {
    let wire = provider.encode_request(request).expect("a body");
    provider
        .stream(&wire, context(CancellationToken::new()))
        .collect()
        .await
}

/// The tool calls of a play, and how they ended.
pub fn trace(events: &[Result<Event, ProviderError>]) -> Vec<String> {
    let line = |event: &Result<Event, ProviderError>| match event {
        Ok(Event::ObservedCall { name, .. }) => Some(format!("call {name}")),
        Ok(Event::ObservedResult {
            content, is_error, ..
        }) => Some(format!(
            "{} {content}",
            if *is_error { "error" } else { "ok" }
        )),
        Ok(Event::Denied { name, .. }) => Some(format!("denied {name}")),
        _ => None,
    };
    events.iter().filter_map(line).collect()
}
