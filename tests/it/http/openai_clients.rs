//! Clients of OpenAI's API as they are: the requests of front ends, in the form in which these send them (`tests/fixtures/openai/`), and
//! clients that are gone at any byte of their answer.

use super::door::{Door, events, messages};
use super::site::Page;
use crate::app::db;
use crate::app::{cuts, glance};
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn seats() -> Value {
    json!({ "rules": [{ "when": { "contains": "chairs" }, "say": "{\"chairs\": 12}" }, { "say": "Forty seats." }] })
}

/// The text of an answer, whole or in events, of either form.
fn said(page: &Page) -> String {
    assert_eq!(page.status, 200, "{}", page.body);
    if !page.header("content-type").starts_with("text/event-stream") {
        let whole = page.json();
        let text = whole["choices"][0]["message"]["content"].as_str();
        let text = text.or(whole["output"][0]["content"][0]["text"].as_str());
        return text
            .unwrap_or_else(|| panic!("no text: {whole}"))
            .to_owned();
    }
    let told = events(&page.body);
    let deltas = told.iter().filter_map(|event| {
        let of_chunk = event["choices"][0]["delta"]["content"].as_str();
        of_chunk.or_else(|| event["delta"].as_str())
    });
    deltas.collect()
}

#[tokio::test]
async fn the_requests_of_front_ends_are_answered_as_they_send_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openai");
    let door = Door::start(&seats()).await;
    let (mut files, mut runs) = (0, 0);
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.display();
        let recorded = std::fs::read(&path).expect("a file");
        let recorded: Value = serde_json::from_slice(&recorded).expect("JSON");
        let fields = recorded["headers"].as_object().expect("fields");
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().expect("a text")))
            .collect();
        let to = recorded["path"].as_str().expect("a path");
        let answer = door.post(to, &fields, &recorded["body"]).await;
        assert_eq!(
            said(&answer),
            recorded["said"].as_str().expect("a text"),
            "{name}"
        );
        files += 1;
        runs += recorded["runs"].as_u64().expect("a number");
        assert_eq!(door.count("runs").await, runs.to_string(), "{name}");
    }
    assert_eq!((files, runs), (7, 6));
    door.app().check().await;
}

/// A client that reads so many bytes of its answer and is gone; all of it without a bound.
struct CutClient<'d> {
    door: &'d Door,
    path: &'static str,
    body: String,
    rows: db::Connection,
    runs: i64,
}

impl<'d> CutClient<'d> {
    async fn new(door: &'d Door, path: &'static str, body: &Value) -> Self {
        Self {
            door,
            path,
            body: body.to_string(),
            rows: door.app().workspace.rows().await,
            runs: 0,
        }
    }

    async fn count(&mut self, sql: &'static str) -> i64 {
        let count = db::query_scalar(sql).fetch_one(&mut self.rows);
        count.await.expect("a number")
    }

    /// Asks once; gives how many bytes there were.
    async fn asks(&mut self, bytes_max: usize) -> usize {
        let address = self.door.site.address;
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
            self.path,
            self.door.secret,
            self.body.len(),
            self.body
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        self.runs += 1;
        while self.count("SELECT count(*) FROM runs").await < self.runs {
            glance().await;
        }
        let reading = tokio::spawn(async move {
            let mut answer = Vec::new();
            let mut limited = stream.take(u64::try_from(bytes_max).unwrap_or(u64::MAX));
            limited.read_to_end(&mut answer).await.expect("bytes");
            answer.len()
        });
        self.door.app().drain().await;
        reading.await.expect("no panic")
    }
}

/// Cuts a stream behind every eleventh byte of it; behind every byte where that is wanted.
async fn cut_everywhere(path: &'static str, body: &Value) {
    let door = Door::start(&seats()).await;
    let mut client = CutClient::new(&door, path, body).await;
    let whole = client.asks(usize::MAX).await;
    assert!(whole > 500, "{whole} bytes are no stream");
    for bytes in cuts(whole, 11) {
        assert_eq!(client.asks(bytes).await, bytes);
    }
    let runs = client.runs;
    assert_eq!(client.count("SELECT count(*) FROM runs").await, runs);
    let answered = "SELECT count(*) FROM runs r WHERE r.state = 'succeeded' AND 1 = (SELECT count(*) FROM messages m
        WHERE m.run_id = r.id AND m.text_body = 'Forty seats.')";
    assert_eq!(client.count(answered).await, runs, "each is answered once");
    let asked = "SELECT count(*) FROM run_turns";
    assert_eq!(client.count(asked).await, runs, "no model was asked twice");
    let after = door.says(&["How many seats?"]).await;
    assert_eq!(said(&after), "Forty seats.", "the engine is well");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_stream_that_is_cut_behind_any_byte_is_one_run_with_one_answer() {
    let body =
        json!({ "model": "ada", "messages": messages(&["How many seats?"]), "stream": true });
    cut_everywhere("/v1/chat/completions", &body).await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_response_that_is_cut_behind_any_byte_is_one_run_with_one_answer() {
    let body = json!({ "model": "ada", "input": "How many seats?", "stream": true });
    cut_everywhere("/v1/responses", &body).await;
}
