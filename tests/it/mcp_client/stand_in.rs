//! A server for tests, as a program or at an address: both are what the files of one folder say.

use crate::app::Workspace;
use attache::cli::name_catalog;
use attache::config::{McpPins, McpServer, McpServerPin, McpToolPin, load_with, lock_text};
use attache::mcp_client::pinned_files;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Folder of the server in a workspace.
pub const FOLDER: &str = "met";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Stdio,
    Http,
}

/// Two tools: one that a test changes, and one that it leaves alone.
pub fn tools() -> Vec<Value> {
    let tool = |name: &str, description: &str| {
        json!({
            "name": name,
            "title": "A title",
            "description": description,
            "inputSchema": { "type": "object", "properties": { "city": { "type": "string" } } },
        })
    };
    vec![
        tool("forecast", "Says what the weather will be in a city."),
        tool("tide", "Says how high the water is in a city."),
    ]
}

/// What is declared of a server; `more` replaces members.
pub fn declared(way: &Value, more: &Value) -> Value {
    let plain = json!({ "class": "repeatable", "effects": {} });
    let mut server = json!({
        "tools": { "forecast": plain, "tide": plain },
        "audience": "everyone",
    });
    let server_members = server.as_object_mut().expect("an object");
    for part in [way, more] {
        server_members.extend(part.as_object().expect("members").clone());
    }
    server
}

/// Writes the program and its folder, declares the server `met`, and approves its tools as they are.
pub fn approved(workspace: &Workspace, way: &Value, more: &Value) {
    write_folder(workspace);
    workspace.write_json(
        "configs/mcp.json",
        &json!({ "servers": { "met": declared(way, more) } }),
    );
    pin(workspace, &tools());
}

pub fn write_folder(workspace: &Workspace) {
    workspace.write("met/server.sh", include_str!("server.sh"));
    write_tools(&workspace.path().join(FOLDER), &tools());
    let answer = json!({ "content": [{ "type": "text", "text": "mild and dry" }] });
    workspace.write("met/call.json", &answer.to_string());
}

pub fn write_tools(folder: &Path, tools: &[Value]) {
    let draft = folder.join("tools.json.tmp");
    std::fs::write(&draft, json!(tools).to_string()).expect("written");
    std::fs::rename(draft, folder.join("tools.json")).expect("renamed");
}

pub fn stdio() -> Value {
    json!({ "command": ["sh", "met/server.sh", "met"] })
}

/// Pins these tools of `met`, as `attache mcp approve` does.
pub fn pin(workspace: &Workspace, tools: &[Value]) {
    let server = loaded(workspace);
    let name = |tool: &Value| tool["name"].as_str().expect("a name").to_owned();
    let pinned = tools.iter();
    let pinned = pinned.map(|tool| {
        (
            name(tool),
            McpToolPin::from_definition(tool, "2027-01-01".to_owned()),
        )
    });
    let of_server = McpServerPin {
        command: server.command.clone(),
        files: pinned_files(&server).expect("digests"),
        url: server.url.clone(),
        tools: pinned.collect(),
    };
    let pins = McpPins {
        servers: [("met".to_owned(), of_server)].into(),
    };
    workspace.write("configs/mcp.lock.json", &lock_text(&pins));
}

pub fn loaded(workspace: &Workspace) -> McpServer {
    let config = load_with(workspace.path(), &name_catalog(), &|_| None);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    config.mcp.first().expect("a server").clone()
}

/// Lines of a file of the folder; none where it does not exist.
pub fn lines(folder: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Calls of a tool that reached the server.
pub fn calls_of(folder: &Path, tool: &str) -> usize {
    let name = format!("\"name\":\"{tool}\"");
    lines(folder, "calls")
        .iter()
        .filter(|line| line.contains(&name))
        .count()
}

/// A server at an address of loopback, which does what the folder says until the test is over.
pub struct HttpServer {
    pub port: u16,
    listener: Option<TcpListener>,
}

impl HttpServer {
    pub async fn bound() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        Self {
            port,
            listener: Some(listener),
        }
    }

    pub fn way(&self) -> Value {
        json!({ "url": format!("http://127.0.0.1:{}/mcp", self.port) })
    }

    pub fn serve(&mut self, folder: PathBuf) {
        let listener = self.listener.take().expect("served once");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answered(stream, folder.clone()));
            }
        });
    }
}

/// Reads one request: its head and its body.
pub async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 65536];
    loop {
        let read = stream.read(&mut piece).await.unwrap_or(0);
        if read == 0 {
            return None;
        }
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}

/// Result of a message; `None`: it wants none.
pub fn result(message: &Value, body: &str, folder: &Path) -> Option<Value> {
    let json_of = |file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).expect(file);
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    match message["method"].as_str()? {
        "initialize" => {
            let server = json!({ "name": "stand-in", "version": "1" });
            Some(
                json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": server }),
            )
        }
        "tools/list" => Some(json!({ "tools": json_of("tools.json") })),
        "tools/call" => {
            append(folder, "calls", body);
            let result = json_of("call.json");
            let then = folder.join("then.json");
            if then.exists() {
                std::fs::rename(then, folder.join("tools.json")).expect("swapped");
            }
            Some(result)
        }
        _ => None,
    }
}

async fn answered(mut stream: TcpStream, folder: PathBuf) {
    let Some((head, body)) = request(&mut stream).await else {
        return;
    };
    append(&folder, "requests", &head.replace("\r\n", "|"));
    let read = |file: &str| std::fs::read_to_string(folder.join(file));
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let close = "Connection: close\r\n";
    let Some(result) = result(&message, &body, &folder) else {
        let text = format!("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n{close}\r\n");
        let _gone = stream.write_all(text.as_bytes()).await;
        return;
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    // With a notification before it, the answer is a stream of events.
    let text = match read("before.json") {
        Ok(before) => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{close}\r\nevent: message\ndata: {}\n\ndata: {answer}\n\n",
            before.trim()
        ),
        Err(_) => {
            let answer = read("raw.json").unwrap_or_else(|_| answer.to_string());
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s-1\r\n";
            format!(
                "{head}Content-Length: {}\r\n{close}\r\n{answer}",
                answer.len()
            )
        }
    };
    let _gone = stream.write_all(text.as_bytes()).await;
}

fn append(folder: &Path, file: &str, line: &str) {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .create(true)
        .append(true)
        .open(folder.join(file))
        .expect("a file");
    writeln!(file, "{line}").expect("written");
}
