//! The log has one line for each letter and persona, and one for each recipient that is refused.

use crate::guest_house::{GuestHouse, attache};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// The lines about letters, of a log in JSON.
fn lines(log: &str) -> Vec<Value> {
    let values = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_ours = |line: &Value| {
        let said = line["message"].as_str().unwrap_or_default();
        ["a letter ", "a recipient ", "a sender "]
            .iter()
            .any(|start| said.starts_with(start))
    };
    values.filter(is_ours).collect()
}

struct Engine {
    child: Child,
    port: u16,
}

impl Engine {
    fn serve(house: &GuestHouse) -> Self {
        let mut command = attache(
            house.path(),
            &["serve", "--log", "info", "--log-format", "json"],
        );
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe"))
            .read_line(&mut said)
            .expect("a line");
        let (_, port) = said.trim_end().rsplit_once(':').expect("a port");
        Self {
            port: port.parse().expect("a port"),
            child,
        }
    }

    /// What it logged, once it has ended.
    fn end(mut self) -> String {
        let pid = self.child.id().to_string();
        assert!(
            std::process::Command::new("kill")
                .arg(pid)
                .status()
                .expect("kill runs")
                .success()
        );
        let mut log = String::new();
        self.child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut log)
            .expect("text");
        assert!(self.child.wait().expect("it ends").success());
        log
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ended = self.child.kill();
    }
}

/// Says each line, and collects the codes of the answers.
fn dialog(port: u16, says: &[&str]) -> Vec<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
    let mut reply = || loop {
        let line = lines.next().expect("an answer").expect("text");
        if line.as_bytes().get(3) != Some(&b'-') {
            return line[..3].to_owned();
        }
    };
    let mut codes = vec![reply()];
    for line in says {
        stream
            .write_all(format!("{}\r\n", line.replace('\n', "\r\n")).as_bytes())
            .expect("it is heard");
        codes.push(reply());
    }
    codes
}

/// The replies to two letters, two bad recipients and a bad sender.
fn codes_of(engine: &Engine) -> Vec<String> {
    let letter = |from: &str| {
        format!(
            "From: {from}\nTo: concierge@guesthouse.example\nSubject: Room\nMessage-ID: <{from}>\n\nRoom?\n."
        )
    };
    let (anna, bob) = (
        letter("anna@traveller.example"),
        letter("bob@stranger.example"),
    );
    dialog(
        engine.port,
        &[
            "EHLO client.example",
            "MAIL FROM:<anna@traveller.example>",
            "RCPT TO:<nobody@guesthouse.example>",
            "RCPT TO:<you@elsewhere.example>",
            "RCPT TO:<concierge@guesthouse.example>",
            "DATA",
            &anna,
            "MAIL FROM:<bob@stranger.example>",
            "RCPT TO:<concierge@guesthouse.example>",
            "DATA",
            &bob,
            "MAIL FROM:<pills@spam.example>",
        ],
    )
}

/// Line of a recipient that is refused.
const REFUSED: &str = "a recipient is refused";

#[test]
fn every_letter_and_refused_recipient_has_one_line_with_remedy() {
    let house = GuestHouse::new();
    house.set(
        "configs/gateway.json",
        "/listeners/0/address",
        "127.0.0.1:0".into(),
    );
    house.set(
        "configs/security.json",
        "/authentication",
        serde_json::json!({ "mode": "monitor" }),
    );
    let engine = Engine::serve(&house);
    let codes = codes_of(&engine);
    let expected = [
        "220", "250", "250", "550", "550", "250", "354", "250", "250", "250", "354", "250", "550",
    ];
    assert_eq!(codes, expected);
    let log = engine.end();
    let said = lines(&log);
    let told: Vec<_> = said
        .iter()
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap_or_default();
            let verdict = if line["reply"].is_null() {
                text("rule").to_owned()
            } else {
                line["reply"].to_string()
            };
            (
                text("message"),
                text("from"),
                format!("{}{}", text("to"), text("persona")),
                verdict,
            )
        })
        .collect();
    let row = |what, from, to: &str, verdict: &str| (what, from, to.to_owned(), verdict.to_owned());
    let (anna, bob) = ("anna@traveller.example", "bob@stranger.example");
    assert_eq!(
        told,
        [
            row(REFUSED, anna, "nobody@guesthouse.example", "550"),
            row(REFUSED, anna, "you@elsewhere.example", "550"),
            row("a letter came and is to be answered", anna, "concierge", ""),
            row(
                "a letter came and is filed",
                bob,
                "concierge",
                "unauthenticated"
            ),
            row("a sender is refused", "pills@spam.example", "", "550"),
        ],
        "{log}"
    );
    let remedies: Vec<_> = said
        .iter()
        .filter_map(|line| line["remedy"].as_str())
        .collect();
    assert!(
        remedies.len() == 4 && remedies[2].contains("`attache runs answer "),
        "{remedies:?}"
    );
}
