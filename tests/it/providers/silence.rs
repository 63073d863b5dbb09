//! What leaves the engine beside the call itself: nothing of it stands in the log, and nothing goes by a proxy of the
//! environment's.

use super::KEY;
use super::server::{Reply, Server};
use super::strict::{Strict, say};
use super::threads::{KEYS, serve_from, server};
use crate::app::{Workspace, note};
use serde_json::json;
use std::process::{Command, Output};

const LETTER: &str = "a-canary-in-the-letter";
const PERSONA: &str = "a-canary-in-the-persona";
const ANSWER: &str = "a-canary-in-the-answer";

/// The real binary, with everything that it can log and with a proxy on offer.
async fn attache(workspace: &Workspace, proxy: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .current_dir(workspace.path())
        .args(["--log", "trace"])
        .args(args);
    for variable in [
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ] {
        command.env(variable, proxy);
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("no panic")
        .expect("it starts")
}

/// A letter that this server answers; what the engine logged meanwhile.
async fn answered(provider: &str, server: &Strict, proxy: &Server) -> String {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    serve_from(&workspace, &[(provider, server)]);
    workspace.write("personas/ada/PERSONA.md", PERSONA);
    workspace.write("letter.eml", &note("q1@guest.example", "", LETTER));
    let mut log = String::new();
    for args in [&["ingest", "letter.eml"][..], &["drain"]] {
        let output = attache(&workspace, &proxy.url, args).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{provider}: {said}");
        log.push_str(&said);
    }
    assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
    let [body] = server.accepted().try_into().expect("one call");
    assert!(
        body.to_string().contains(LETTER) && body.to_string().contains(PERSONA),
        "{provider}: {body}"
    );
    log
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_log_and_no_proxy_of_the_environment_sees_a_call() {
    let proxy = Server::start(vec![Reply::new(502, &[], "")]).await;
    for (provider, _) in KEYS {
        let server = server(provider, vec![say(ANSWER)]).await;
        let log = answered(provider, &server, &proxy).await;
        assert!(
            log.contains("TRACE") && log.contains("hyper"),
            "{provider}: nothing was logged: {log}"
        );
        for canary in [LETTER, PERSONA, ANSWER, KEY] {
            let place = log.lines().find(|line| line.contains(canary));
            assert_eq!(place, None, "{provider}: `{canary}` was logged");
        }
    }
    assert_eq!(proxy.connections(), 0, "nobody was asked through the proxy");
}
