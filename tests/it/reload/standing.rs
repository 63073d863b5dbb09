//! Pages, folders and the way out follow the configuration of a serving engine.

use super::{Caller, PATIENCE, Serving, answering};
use crate::app::{Workspace, glance};
use serde_json::json;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Asks the pages by a name on an open connection; gives the status.
async fn status(pages: &mut TcpStream, host: &str) -> String {
    let request = format!("GET /login HTTP/1.1\r\nHost: {host}\r\n\r\n");
    pages.write_all(request.as_bytes()).await.expect("sent");
    let mut read = String::new();
    let answer = async {
        let mut bytes = [0; 4096];
        loop {
            let count = pages.read(&mut bytes).await.expect("an answer");
            read.push_str(&String::from_utf8_lossy(&bytes[..count]));
            let Some((head, body)) = read.split_once("\r\n\r\n") else {
                continue;
            };
            let lines = head.lines().map(str::to_ascii_lowercase);
            let mut length =
                lines.filter_map(|line| line.strip_prefix("content-length: ").map(str::to_owned));
            let length: usize = length
                .next()
                .map_or(0, |text| text.parse().expect("a number"));
            if body.len() >= length {
                return head.split(' ').nth(1).unwrap_or_default().to_owned();
            }
        }
    };
    tokio::time::timeout(PATIENCE, answer)
        .await
        .expect("in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_answer_each_request_by_the_configuration_in_force() {
    let workspace = Workspace::new(&answering());
    let listeners = |origins: serde_json::Value| {
        json!([
            { "kind": "smtp", "address": "127.0.0.1:0" },
            { "kind": "http", "address": "127.0.0.1:0", "origins": origins },
        ])
    };
    workspace.set("configs/gateway.json", "/listeners", listeners(json!([])));
    let house = Serving::start(workspace).await;
    let (_, port) = house.pages[0].rsplit_once(':').expect("a port");
    let port: u16 = port.parse().expect("a port");
    let mut open = TcpStream::connect(("127.0.0.1", port)).await.expect("open");
    let own = format!("127.0.0.1:{port}");
    assert_eq!(status(&mut open, &own).await, "200");
    let origins = listeners(json!([
        format!("http://localhost:{}", port ^ 1),
        "http://127.0.0.1:9"
    ]));
    house
        .workspace
        .set("configs/gateway.json", "/listeners", origins);
    let refused = house.reload().await.refused;
    assert!(refused.is_empty(), "{refused:?}");
    // On the connection that was open before.
    assert_eq!(status(&mut open, "127.0.0.1:9").await, "200");
    let origins = listeners(json!([]));
    house
        .workspace
        .set("configs/gateway.json", "/listeners", origins);
    house.reload().await;
    assert_ne!(status(&mut open, "127.0.0.1:9").await, "200");
    house.ended().await;
}

async fn mails_in(folder: &Path, wanted: usize) {
    let filled = async {
        loop {
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mails =
                files.filter(|file| file.path().extension().is_some_and(|end| end == "eml"));
            if mails.count() == wanted {
                return;
            }
            glance().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, filled).await;
    assert!(waited.is_ok(), "{} does not get {wanted}", folder.display());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn folders_and_the_way_out_are_exchanged_and_others_go_on() {
    let house = Serving::start(Workspace::new(&answering())).await;
    let place = house.workspace.path().to_path_buf();
    let mut caller = Caller::of(house.mail).await;
    caller.bring("ada@engine.test", "w1").await;
    mails_in(&place.join("data/outbox"), 1).await;
    let gateway = "configs/gateway.json";
    let outbound = json!({ "kind": "folder", "path": "data/other-way" });
    house.workspace.set(gateway, "/outbound", outbound);
    let folders = json!([{ "path": "letters", "poll": "1s" }]);
    house.workspace.set(gateway, "/folders", folders);
    assert!(house.reload().await.refused.is_empty());
    caller.bring("ada@engine.test", "w2").await;
    mails_in(&place.join("data/other-way"), 1).await;
    let letter = "From: bob@guest.example\nTo: ada@engine.test\nSubject: Tea\nMessage-ID: <w3@guest.example>\n\nWhen?\n";
    house.workspace.write("letters/tea.eml", letter);
    mails_in(&place.join("data/other-way"), 2).await;
    mails_in(&place.join("letters/processed"), 1).await;
    house.workspace.set(gateway, "/folders", json!([]));
    house.reload().await;
    house.workspace.write("letters/late.eml", letter);
    caller.bring("ada@engine.test", "w4").await;
    mails_in(&place.join("data/other-way"), 3).await;
    assert!(place.join("letters/late.eml").exists(), "nobody watches it");
    mails_in(&place.join("data/outbox"), 1).await;
    house.ended().await;
}
