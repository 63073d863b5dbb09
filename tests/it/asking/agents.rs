//! Other agents that ask over `attache mcp serve`: what they get, what they may read, and that they get nothing unasked.

use crate::app::{TestApp, Workspace, glance, proven_note};
use crate::guest_house::attache;
use crate::mcp::client::{Client, PROGRAM};
use crate::own_tools::own_tool;
use attache::store::working_engine;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// An engine at work, and an agent that asks beside it.
struct Scene {
    workspace: Workspace,
    stop: CancellationToken,
    serving: JoinHandle<anyhow::Result<()>>,
    agent: Client,
}

fn offers(workspace: &Workspace, more: &Value) {
    let mut section =
        json!({ "personas": ["ada"], "tools": ["ask", "list_threads", "read_run", "read_thread"] });
    let members = more.as_object().expect("members").clone();
    section.as_object_mut().expect("an object").extend(members);
    workspace.set("configs/security.json", "/mcp_server", section);
}

async fn agent_of(workspace: &Workspace) -> Client {
    let path = workspace.path().display().to_string();
    let args = ["mcp", "serve", "--workspace", &path].map(str::to_owned);
    let mut agent = Client::start(PROGRAM, &args);
    agent.introduce().await;
    agent
}

impl Scene {
    async fn start(script: &Value, set: impl FnOnce(&Workspace)) -> Self {
        let workspace = Workspace::new(script);
        workspace.persona("bert", "Bert");
        offers(&workspace, &json!({}));
        set(&workspace);
        Self::of(workspace.start().await).await
    }

    async fn of(app: TestApp) -> Self {
        let TestApp { workspace, engine } = app;
        let stop = CancellationToken::new();
        let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
        let agent = agent_of(&workspace).await;
        Self {
            workspace,
            stop,
            serving,
            agent,
        }
    }

    /// Calls a tool: whether it failed, and its text.
    async fn call(&mut self, tool: &str, args: Value) -> (bool, String) {
        let params = json!({ "name": tool, "arguments": args });
        let said = self.agent.request("tools/call", params).await;
        let result = &said["result"];
        let text = result["content"][0]["text"].as_str();
        (
            result["isError"] == true,
            text.unwrap_or_else(|| panic!("no text in {said}"))
                .to_owned(),
        )
    }

    async fn gets(&mut self, tool: &str, args: Value) -> Value {
        let (failed, text) = self.call(tool, args).await;
        assert!(!failed, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    async fn ask(&mut self, text: &str) -> Value {
        self.gets("ask", json!({ "persona": "ada", "text": text }))
            .await
    }

    /// Names of the tools that the agent is offered.
    async fn tools(&mut self) -> Vec<String> {
        let listed = self.agent.request("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().expect("tools");
        let names = tools.iter().filter_map(|tool| tool["name"].as_str());
        names.map(str::to_owned).collect()
    }

    async fn end(self) -> TestApp {
        self.stop.cancel();
        self.serving.await.expect("no panic").expect("a clean stop");
        self.agent.end().await;
        self.workspace.start().await
    }
}

const TOOLS: [&str; 4] = ["ask", "list_threads", "read_run", "read_thread"];

#[tokio::test]
#[ignore = "second tier"]
async fn an_agent_asks_and_reads_what_became_of_it_and_nothing_else() {
    let script = json!({ "rules": [
        { "when": { "contains": "seats" }, "say": "Forty seats." },
        { "when": { "contains": "again" }, "say": "As I said." },
        { "say": "Breakfast is at seven." },
    ] });
    let workspace = Workspace::new(&script);
    workspace.persona("bert", "Bert");
    offers(&workspace, &json!({}));
    let app = workspace.start().await;
    app.run_of(&proven_note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let mut scene = Scene::of(app).await;
    assert_eq!(scene.tools().await, TOOLS);
    let first = scene.ask("How many seats?").await;
    assert_eq!(
        (first["state"].as_str(), first["answer"].as_str()),
        (Some("succeeded"), Some("Forty seats."))
    );
    let more = json!({ "persona": "ada", "text": "Once again?", "thread": first["thread"] });
    let second = scene.gets("ask", more).await;
    assert_eq!(
        (&second["answer"], &second["thread"]),
        (&json!("As I said."), &first["thread"])
    );
    let read = scene.gets("read_run", json!({ "id": first["run"] })).await;
    assert_eq!(read, first);
    let thread = scene
        .gets("read_thread", json!({ "id": first["thread"] }))
        .await;
    let texts: Vec<&str> = thread["letters"]
        .as_array()
        .expect("letters")
        .iter()
        .filter_map(|letter| letter["text"].as_str())
        .collect();
    let said = [
        "How many seats?",
        "Forty seats.",
        "Once again?",
        "As I said.",
    ];
    assert_eq!(texts, said);
    assert_eq!(
        (&thread["runs"][0], thread["runs"][1]["id"] == second["run"]),
        (&json!({ "id": first["run"], "state": "succeeded" }), true)
    );
    let newest = json!({ "id": first["thread"], "limit": 1 });
    let newest = scene.gets("read_thread", newest).await;
    assert_eq!(
        (newest["letters"][0]["text"].as_str(), &newest["more"]),
        (Some("As I said."), &json!(true))
    );
    let page = scene
        .gets("list_threads", json!({ "persona": "ada" }))
        .await;
    let threads = page["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 1, "{page}");
    assert_eq!(threads[0]["id"], first["thread"]);
    let app = scene.end().await;
    let row = app
        .row("SELECT m.trust, m.metadata_json ->> '$.sender' FROM runs r JOIN messages m ON m.id = r.trigger_message_id WHERE r.id = $1", first["run"].as_str().expect("a run"))
        .await;
    assert_eq!(
        (row[0].as_deref(), row[1].as_deref()),
        (Some("unknown"), Some("agent@mcp.invalid"))
    );
    app.check().await;
}

#[tokio::test]
async fn what_is_not_offered_is_refused_in_a_sentence() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Noted." }] }));
    workspace.persona("bert", "Bert");
    offers(&workspace, &json!({}));
    let app = workspace.start().await;
    let of_mail = app
        .run_of(&proven_note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let thread_of_mail = app
        .row("SELECT thread_id FROM runs WHERE id = $1", &of_mail)
        .await
        .remove(0);
    let mut scene = Scene::of(app).await;
    for (tool, args, why) in [
        ("read_run", json!({ "id": of_mail }), "no such run"),
        ("read_run", json!({ "id": "nope" }), "no such run"),
        (
            "read_thread",
            json!({ "id": thread_of_mail }),
            "no such thread",
        ),
        ("read_thread", json!({ "id": "nope" }), "no such thread"),
        (
            "ask",
            json!({ "persona": "bert", "text": "x" }),
            "no such persona; there are: ada",
        ),
        (
            "ask",
            json!({ "persona": "ada", "text": " " }),
            "`text` is empty",
        ),
        ("ask", json!({ "persona": "ada" }), "missing field `text`"),
        (
            "ask",
            json!({ "persona": "ada", "text": "x", "trust": "owner" }),
            "unknown field `trust`",
        ),
        (
            "ask",
            json!({ "persona": "ada", "text": "x".repeat(70_000) }),
            "at most 65536",
        ),
        (
            "ask",
            json!({ "persona": "ada", "text": "x", "thread": "t-1" }),
            "no such thread",
        ),
        (
            "list_threads",
            json!({ "persona": "ada", "cursor": "x" }),
            "`cursor` is none of ours",
        ),
        (
            "list_threads",
            json!({ "persona": "ada", "limit": 0 }),
            "`limit` is 1 to 100",
        ),
        (
            "approve",
            json!({}),
            "no such tool; there are: ask, list_threads, read_run, read_thread",
        ),
    ] {
        let (failed, text) = scene.call(tool, args).await;
        assert!(failed && text.contains(why), "{tool}: {text}");
    }
    scene.end().await.check().await;
}

#[tokio::test]
async fn mail_is_read_where_the_owner_opened_it_and_of_no_other_persona() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Noted." }] }));
    workspace.persona("bert", "Bert");
    let readers = [
        "search_mail",
        "list_runs",
        "explain_run",
        "context_of",
        "list_schedule",
        "usage",
    ];
    offers(&workspace, &json!({ "tools": readers }));
    let path = workspace.path().display().to_string();
    let serve = ["mcp", "serve", "--workspace", &path].map(str::to_owned);
    let (code, said) = Client::start(PROGRAM, &serve).end().await;
    assert!(
        code == Some(65) && said.contains("`reads` must be `all`"),
        "{code:?}: {said}"
    );
    offers(&workspace, &json!({ "tools": readers, "reads": "all" }));
    let app = workspace.start().await;
    let run = app
        .run_of(&proven_note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let mut scene = Scene::of(app).await;
    assert_eq!(scene.tools().await, readers);
    let all = json!({ "persona": "ada", "query": "breakfast" });
    let found = scene.gets("search_mail", all).await;
    assert!(found.to_string().contains("When is breakfast?"), "{found}");
    let why = scene.gets("explain_run", json!({ "id": run })).await;
    assert!(why["text"].to_string().contains("Noted."), "{why}");
    let used = scene.gets("usage", json!({})).await;
    assert_eq!(used["sums"][0]["what"], "ada", "{used}");
    for (tool, args, why) in [
        (
            "search_mail",
            json!({ "persona": "bert" }),
            "there are: ada",
        ),
        (
            "list_schedule",
            json!({ "persona": "bert" }),
            "there are: ada",
        ),
        (
            "usage",
            json!({ "by": "day" }),
            "not all personas may be read",
        ),
    ] {
        let (failed, text) = scene.call(tool, args).await;
        assert!(failed && text.contains(why), "{tool}: {text}");
    }
    scene.end().await.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_agent_sees_no_mail_of_others_and_sends_none() {
    let script = json!({ "rules": [
        { "when": { "contains": "Please search", "turn": 0 }, "call": [{ "tool": "search_email", "args": { "query": "breakfast" } }] },
        { "when": { "contains": "Please write", "turn": 0 }, "call": [
            { "tool": "send_email", "args": { "to": ["eve@evil.test"], "subject": "x", "body": "y" } }] },
        { "when": { "contains": "Please reply", "turn": 0 }, "call": [
            { "tool": "send_email", "args": { "to": ["agent@mcp.invalid"], "subject": "x", "body": "y" } }] },
        { "when": { "after_tool": "search_email" }, "say": "{{result}}" },
        { "when": { "after_tool": "send_email" }, "say": "{{result}}" },
        { "say": "Noted." },
    ] });
    let workspace = Workspace::new(&script);
    offers(&workspace, &json!({}));
    let app = workspace.start().await;
    app.run_of(&proven_note(
        "q1@guest.example",
        "",
        "The breakfast secret is SEVEN.",
    ))
    .await;
    app.drain().await;
    let before = app.sent().len();
    let mut scene = Scene::of(app).await;
    let found = scene.ask("Please search.").await["answer"].to_string();
    assert!(
        !found.contains("SEVEN") && found.contains("messages"),
        "{found}"
    );
    // The control: whoever sits at the terminal sees all mail.
    let mut asking: tokio::process::Command =
        attache(scene.workspace.path(), &["ask", "ada", "Please search."]).into();
    let said = asking.output().await.expect("the binary runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("SEVEN"), "{said}");
    let refused = scene.ask("Please write.").await["answer"].to_string();
    assert!(refused.contains("recipient_not_allowed"), "{refused}");
    let refused = scene.ask("Please reply.").await["answer"].to_string();
    assert!(refused.contains("bad_address"), "{refused}");
    let app = scene.end().await;
    assert_eq!(app.sent().len(), before);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_answer_that_holds_what_agents_may_not_read_is_kept_from_them() {
    let script = json!({ "rules": [
        { "when": { "turn": 0, "contains": "weather" }, "call": [{ "tool": "weather", "args": { "city": "Oslo" } }] },
        { "when": { "after_tool": "weather" }, "say": "It is so: {{result}}" },
        { "say": "Noted." },
    ] });
    let private = json!({ "effects": { "reads_private": true }, "senders": "unknown" });
    for (definition, is_kept) in [(private, true), (json!({}), false)] {
        let mut scene = Scene::start(&script, |workspace| {
            own_tool(workspace, "weather", "echo SEVEN degrees", &definition);
        })
        .await;
        let asked = scene.ask("How is the weather?").await;
        assert_eq!(asked["state"], "succeeded", "{asked}");
        assert_eq!(asked["answer"].is_null(), is_kept, "{asked}");
        assert_eq!(asked.to_string().contains("SEVEN"), !is_kept, "{asked}");
        let read = scene.gets("read_run", json!({ "id": asked["run"] })).await;
        assert_eq!(read, asked);
        let thread = json!({ "id": asked["thread"] });
        let thread = scene.gets("read_thread", thread).await;
        assert_eq!(thread.to_string().contains("SEVEN"), !is_kept, "{thread}");
        scene.end().await.check().await;
    }
}

#[tokio::test]
async fn an_agent_is_refused_where_nothing_is_offered_or_nobody_works() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Noted." }] }));
    let path = workspace.path().display().to_string();
    let serve = ["mcp", "serve", "--workspace", &path].map(str::to_owned);
    let (code, said) = Client::start(PROGRAM, &serve).end().await;
    assert!(
        code == Some(2) && said.contains("nothing is offered") && said.contains("mcp_server"),
        "{said}"
    );
    offers(&workspace, &json!({ "personas": ["nobody"] }));
    let (code, said) = Client::start(PROGRAM, &serve).end().await;
    assert!(
        code == Some(65) && said.contains("no persona `nobody`; there are: ada"),
        "{said}"
    );
    offers(&workspace, &json!({}));
    let TestApp { workspace, engine } = workspace.start().await;
    drop(engine);
    // Its last task ends in its own time.
    while working_engine(workspace.path()).is_some() {
        glance().await;
    }
    let mut agent = agent_of(&workspace).await;
    let params = json!({ "name": "ask", "arguments": { "persona": "ada", "text": "Hello?" } });
    let said = agent.request("tools/call", params).await;
    assert_eq!(said["result"]["isError"], true, "{said}");
    assert!(said.to_string().contains("attache serve"), "{said}");
    let app = workspace.start().await;
    let runs = app.engine.store.count_open_runs().await.expect("a count");
    assert_eq!(runs, 0, "nothing was left behind");
}

#[tokio::test]
async fn an_agent_that_floods_or_talks_nonsense_is_bounded() {
    let scene = Scene::start(&json!({ "rules": [{ "say": "Noted." }] }), |_| {}).await;
    let path = scene.workspace.path().display().to_string();
    let mut command = attache(
        std::path::Path::new("/"),
        &["mcp", "serve", "--workspace", &path],
    );
    let child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let flooding = tokio::task::spawn_blocking(move || {
        use std::io::Write;
        let mut child = child;
        let mut stdin = child.stdin.take().expect("a pipe");
        let block = vec![b'x'; 1024 * 1024];
        // It hangs up long before.
        let sent = (0..64)
            .take_while(|_| stdin.write_all(&block).is_ok())
            .count();
        drop(stdin);
        (sent, child.wait_with_output().expect("it ends"))
    });
    let (sent, output) = flooding.await.expect("no panic");
    assert!(sent < 32, "{sent} MB were taken: {output:?}");
    scene.end().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_page_of_threads_is_empty_while_there_is_one_to_read() {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Noted." }] }));
    workspace.persona("bert", "Bert");
    offers(&workspace, &json!({}));
    let mut scene = Scene::of(workspace.start().await).await;
    let first = scene.ask("One?").await["thread"].clone();
    let second = scene.ask("Two?").await["thread"].clone();
    let app = scene.end().await;
    // Later letters, so that pages of them come first.
    for number in 0..3 {
        let id = format!("q{number}@guest.example");
        app.run_of(&proven_note(&id, "", "When is breakfast?"))
            .await;
    }
    app.drain().await;
    let mut scene = Scene::of(app).await;
    let mut args = json!({ "persona": "ada", "limit": 1 });
    for thread in [second, first] {
        let page = scene.gets("list_threads", args.clone()).await;
        assert_eq!(page["threads"][0]["id"], thread, "{page}");
        args["cursor"] = page["next"].clone();
    }
    assert_eq!(args["cursor"], json!(null), "it was the last");
    scene.end().await.check().await;
}
