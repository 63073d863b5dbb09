//! A commit that fails: nobody is told yes, the engine ends, and the next one goes on as if nothing had been.

use crate::app::{TestApp, Workspace, note};
use attache::store::{PowerCut, StoreError};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

fn script() -> serde_json::Value {
    json!({ "turns": [{ "say": "From seven to ten." }] })
}

async fn dialogue(address: std::net::SocketAddr) -> String {
    let letter = note("q1@guest.example", "", "When is breakfast?").replace('\n', "\r\n");
    let words = format!(
        "EHLO guest.example\r\nMAIL FROM:<bob@guest.example>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n{letter}.\r\nQUIT\r\n"
    );
    let mut said = String::new();
    // A closed connection is as good a no as 451, whenever it closes.
    let Ok(mut client) = TcpStream::connect(address).await else { return said };
    let _reset = client.write_all(words.as_bytes()).await;
    let _reset = client.read_to_string(&mut said).await;
    said
}

#[tokio::test]
async fn an_engine_whose_commit_fails_says_no_to_everybody_and_ends_with_an_error_within_a_second() {
    for commit in 1..=3 {
        let app = Workspace::new(&script()).start().await;
        let listeners = app.engine.bind().await.expect("a port");
        let address = listeners[0].tcp_address().expect("an address");
        let TestApp { workspace, engine } = app;
        let store = engine.store.clone();
        let serving = tokio::spawn(engine.serve(listeners, CancellationToken::new()));
        store.cut_power(PowerCut::BrokenDisk(commit));
        let said = dialogue(address).await;
        let ended = tokio::time::timeout(Duration::from_secs(1), serving).await.expect("it ends at once");
        let error = ended.expect("no panic").expect_err("an engine whose disk failed does not end well");
        assert!(matches!(error.downcast_ref(), Some(StoreError::CommitFailed(_))), "{error:?}");
        let after = store.claim_runs(1, 1).await;
        assert!(matches!(after, Err(StoreError::CommitFailed(_))), "{after:?}");
        drop(store);

        let app = workspace.start().await;
        let yes = said.lines().filter(|line| line.starts_with("250 ") && line.contains("accepted")).count();
        let stored = app.row("SELECT CAST(count(*) AS TEXT) FROM messages WHERE $1 = $1", "").await;
        assert!(stored[0].as_deref() >= Some(if yes > 0 { "1" } else { "0" }), "{said}");
        app.receive(&note("q1@guest.example", "", "When is breakfast?")).await.expect("taken");
        app.drain().await;
        app.check().await;
        assert_eq!(app.sent().len(), 1, "after commit {commit}");
    }
}
