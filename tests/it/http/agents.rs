//! Other agents over HTTP: what their keys let them do, whose threads they see, and that the library checks names itself.

use super::door::{Door, events};
use super::site::Page;
use attache::mcp::{AgentAccess, AgentServer, answer_request};
use axum::body::Body;
use axum::http::Request;
use reqwest::Method;
use serde_json::{Value, json};

pub const FIELDS: [(&str, &str); 3] = [
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
    ("mcp-protocol-version", "2025-06-18"),
];

/// What a key of the scope `read` may do.
pub const READS: [&str; 9] = [
    "list_threads",
    "read_run",
    "read_thread",
    "search_mail",
    "list_runs",
    "explain_run",
    "context_of",
    "list_schedule",
    "usage",
];

pub fn script() -> Value {
    json!({ "rules": [{ "when": { "contains": "seats" }, "say": "Forty seats." }, { "say": "Good day." }] })
}

pub fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// The result of a request, or its error.
pub fn result(page: &Page) -> Value {
    assert_eq!(page.status, 200, "{}", page.body);
    let told = events(&page.body);
    let last = told
        .last()
        .unwrap_or_else(|| panic!("no event: {}", page.body));
    last.get("result").unwrap_or(&last["error"]).clone()
}

pub async fn tools(door: &Door) -> Vec<String> {
    let listed = door
        .post("/mcp", &FIELDS, &request("tools/list", &json!({})))
        .await;
    let listed = result(&listed);
    let tools = listed["tools"].as_array().expect("tools").iter();
    tools
        .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
        .collect()
}

/// Calls a tool: whether it failed, and its text.
pub async fn calls(door: &Door, tool: &str, args: Value) -> (bool, String) {
    let params = json!({ "name": tool, "arguments": args });
    let called = door
        .post("/mcp", &FIELDS, &request("tools/call", &params))
        .await;
    let called = result(&called);
    let text = called["content"][0]["text"].as_str();
    let text = text
        .unwrap_or_else(|| panic!("no text: {called}"))
        .to_owned();
    (called["isError"] == true, text)
}

#[tokio::test]
async fn a_key_asks_the_personas_it_names_and_reads_what_came_of_it() {
    let mut door = Door::prepared(&script(), |workspace| workspace.persona("bert", "Bert")).await;
    door.secret = door.site.key(&["send:ada"]).await;
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = result(
        &door
            .post("/mcp", &FIELDS, &request("initialize", &hello))
            .await,
    );
    assert_eq!(hello["serverInfo"]["name"], "attache");
    assert_eq!(
        tools(&door).await,
        ["ask", "list_threads", "read_run", "read_thread"]
    );
    let (failed, text) = calls(
        &door,
        "ask",
        json!({ "persona": "ada", "text": "How many seats?" }),
    )
    .await;
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((failed, &answer["answer"]), (false, &json!("Forty seats.")));
    let sql = "SELECT m.trust, m.sender FROM messages m JOIN runs r ON r.trigger_message_id = m.id WHERE r.id = $1";
    let row = door
        .app()
        .row(sql, answer["run"].as_str().expect("a run"))
        .await;
    assert_eq!(
        row,
        [
            Some("unknown".to_owned()),
            Some("agent@mcp.invalid".to_owned())
        ]
    );
    let again = json!({ "persona": "ada", "text": "And chairs?", "thread": answer["thread"] });
    assert!(!calls(&door, "ask", again.clone()).await.0);
    assert!(
        calls(&door, "ask", json!({ "persona": "bert", "text": "Hello" }))
            .await
            .0
    );
    assert!(
        !calls(&door, "read_thread", json!({ "id": answer["thread"] }))
            .await
            .0
    );
    let own = door.secret.clone();
    door.secret = door.site.key(&["send:ada", "send:bert"]).await;
    for (tool, args) in [
        ("read_thread", json!({ "id": answer["thread"] })),
        ("read_run", json!({ "id": answer["run"] })),
        ("ask", again),
    ] {
        let (failed, text) = calls(&door, tool, args).await;
        assert!(failed, "{tool} shows a thread of another key: {text}");
    }
    let (_, threads) = calls(&door, "list_threads", json!({ "persona": "ada" })).await;
    assert!(threads.contains("\"threads\": []"), "{threads}");
    door.secret = own;
    let (_, threads) = calls(&door, "list_threads", json!({ "persona": "ada" })).await;
    assert!(
        threads.contains(answer["thread"].as_str().expect("an id")),
        "{threads}"
    );
    assert_eq!(door.count("runs").await, "2");
}

#[tokio::test]
async fn a_key_that_reads_asks_nobody_and_other_keys_do_nothing() {
    let mut door = Door::start(&script()).await;
    let run = door
        .site
        .scene
        .writes(crate::approvals::scene::CONTACT, "l1", "")
        .await;
    door.secret = door.site.key(&["read"]).await;
    assert_eq!(tools(&door).await, READS);
    let (failed, read) = calls(&door, "read_run", json!({ "id": run })).await;
    assert!(!failed && read.contains("succeeded"), "{read}");
    assert!(
        calls(&door, "ask", json!({ "persona": "ada", "text": "Hello" }))
            .await
            .0
    );
    for tool in ["approve", "decide", "set_policy"] {
        let (failed, text) = calls(&door, tool, json!({})).await;
        assert!(failed && text.starts_with("no such tool"), "{tool}: {text}");
    }
    for scopes in [["chat:ada"], ["ingest:ada"]] {
        door.secret = door.site.key(&scopes).await;
        let refused = door
            .post("/mcp", &FIELDS, &request("tools/list", &json!({})))
            .await;
        assert_eq!(refused.status, 403, "{scopes:?}");
    }
    door.secret = "att_0".to_owned();
    let refused = door
        .post("/mcp", &FIELDS, &request("tools/list", &json!({})))
        .await;
    assert_eq!(refused.status, 401);
    for method in [Method::GET, Method::DELETE] {
        let refused = door.site.send(method.clone(), "/mcp", &[], &[]).await;
        assert_eq!(refused.status, 405, "there are no sessions: {method}");
    }
    assert_eq!(door.count("runs").await, "1");
}

/// Our own checks refuse such requests first; this is what stands behind them.
#[tokio::test]
async fn the_library_refuses_other_names_and_origins_by_itself() {
    let door = Door::start(&script()).await;
    let engine = &door.app().engine;
    let key = engine
        .store
        .web_token(&door.secret)
        .await
        .expect("read")
        .expect("a key");
    let access = AgentAccess::of_key(&key, &engine.config);
    let server = AgentServer::new(engine.store.clone(), engine.config.clone(), access);
    for (host, origin, status) in [
        ("127.0.0.1:8025", None, 200),
        ("127.0.0.1:8025", Some("http://127.0.0.1:8025"), 200),
        ("127.0.0.1:8026", None, 403),
        ("evil.test", None, 403),
        ("127.0.0.1:8025", Some("http://evil.test"), 403),
        ("127.0.0.1:8025", Some("http://127.0.0.1:1"), 403),
        ("127.0.0.1:8025", Some("null"), 403),
    ] {
        let mut builder = Request::post("/mcp").header("host", host);
        for (name, value) in FIELDS {
            builder = builder.header(name, value);
        }
        if let Some(origin) = origin {
            builder = builder.header("origin", origin);
        }
        let body = Body::from(request("tools/list", &json!({})).to_string());
        let (host, origin) = ("127.0.0.1:8025", "http://127.0.0.1:8025");
        let answer = answer_request(
            server.clone(),
            host,
            origin,
            builder.body(body).expect("a request"),
        )
        .await;
        assert_eq!(answer.status().as_u16(), status, "{host} {origin:?}");
    }
}

/// What keeps an answer from an agent is said by its rule, and the answer is not given out.
#[tokio::test]
async fn an_answer_that_a_rule_keeps_back_says_which() {
    let mut door = Door::prepared(&script(), |workspace| {
        workspace.write_json(
            "configs/policy.json",
            &json!({ "rules": [{ "id": "silent", "effect": "deny", "tool": "reply" }] }),
        );
    })
    .await;
    door.secret = door.site.key(&["send:ada"]).await;
    let question = json!({ "persona": "ada", "text": "How many seats?" });
    let (_, text) = calls(&door, "ask", question).await;
    assert!(text.contains("a rule of the policy refuses it"), "{text}");
    assert!(text.contains("not_approved"), "{text}");
    assert!(!text.contains("Forty"), "{text}");
    for rule in attache::domain::Withheld::ALL {
        let words = rule.why();
        assert!(
            words.len() > 20 && !words.contains("agents may not read"),
            "{rule}: {words}"
        );
    }
}

/// R13: an agent waits for an answer as long as its key is good.
#[tokio::test]
async fn a_question_ends_with_its_key() {
    for is_answered in [true, false] {
        let mut door = Door::start(&script()).await;
        door.secret = door.site.key(&["send:ada"]).await;
        let args = json!({ "persona": "ada", "text": "How many seats?" });
        let params = json!({ "name": "ask", "arguments": args });
        let asked = door.sends("/mcp", &FIELDS, &request("tools/call", &params));
        while door.count("runs").await == "0" {
            crate::app::glance().await;
        }
        door.revoked().await;
        let page = match is_answered {
            true => door.answer(asked).await,
            false => asked.await.expect("no panic"),
        };
        let called = result(&page);
        assert_eq!(called["isError"], true, "{called}");
        let text = called["content"][0]["text"].as_str().expect("a text");
        assert!(text.contains("your key is not good any more"), "{text}");
    }
}
