//! Letters that need an ability each: answered by a script that can only be right if it was shown what the ability found, and
//! executed again by a program that has no network, whose system calls are watched; D-9.

use crate::app::database::is_sqlite_only;
use crate::app::{TestApp, Workspace};
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use crate::attacks::network;
use crate::calendar::parts::{self, part};
use crate::extract::made::pdf;
use crate::mcp_client::stand_in::{FOLDER, approved, calls_of, stdio};
use crate::own_tools::own_tool;
use crate::providers::photographs;
use crate::web::servers::Site;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::process::Command;

/// Words that only what an ability finds holds, by the word of the letter.
const SHOWN: [(&str, &str); 6] = [
    ("invoice", "Total: 1,234.50"),
    ("page", "Open from seven to ten."),
    ("search", "lands at seven"),
    ("weather", "minus 4 degrees"),
    ("events", "Jour fixe"),
    ("forecast", "mild and dry"),
];

/// Calls one tool, chosen by the letter, and answers with what it was told.
fn script(page: &Site) -> Value {
    let asks = |word: &str, tool: &str, args: Value| json!({ "when": { "turn": 0, "contains": format!("about the {word}") }, "call": [{ "tool": tool, "args": args }] });
    json!({ "rules": [
        asks("invoice", "read_attachment", json!({ "name": "invoice.pdf" })),
        asks("page", "web_fetch", json!({ "url": page.url("/hours") })),
        asks("search", "web_search", json!({ "query": "ferry" })),
        asks("weather", "weather", json!({ "city": "Oslo" })),
        asks("events", "list_events", json!({ "from": "2026-12-01T00:00:00Z", "days": 3 })),
        asks("forecast", "met__forecast", json!({ "city": "Oslo" })),
        { "when": { "turn": 0, "contains": "Microsoft Teams-Besprechung" }, "call": [{ "tool": "answer_invitation", "args":
            { "answer": "accept", "uid": "{{header:uid}}", "comment": "For: {{header:event}}" } }] },
        { "when": { "turn": 0 }, "say": "I was shown nothing." },
        { "say": "It says: {{result}}" },
    ] })
}

/// A workspace in which every ability has been used, its engine gone; the sites that it asked, with how often.
async fn used() -> (Workspace, Vec<(Site, usize)>) {
    let page = Site::page("text/html", "<p>Open from seven to ten.</p>").await;
    let hits = json!({ "results": [{ "url": "https://ferry.example/", "title": "Ferry", "content": "It lands at seven." }] });
    let search = Site::page("application/json", &hits.to_string()).await;
    let scene = Scene::with(&script(&page), |workspace| {
        let web = json!({ "fetch": { "private_targets": [page.target()] },
            "search": { "service": "searxng", "base_url": search.url("") } });
        workspace.write_json("configs/web.json", &web);
        own_tool(
            workspace,
            "weather",
            "grep -q Oslo && echo 'minus 4 degrees'",
            &json!({}),
        );
        approved(workspace, &stdio(), &json!({}));
    })
    .await;
    let app = &scene.world.app;
    let invitation = parts::letter(&scene, CONTACT, "o1", &part("outlook_request.ics"));
    let mut letters = vec![invitation];
    for (word, _) in SHOWN {
        letters.push(asking(&scene, word));
    }
    for letter in letters {
        scene
            .deliver(&letter, "ada@engine.test")
            .await
            .expect("taken");
        app.drain().await;
    }
    let sent = app.sent();
    assert!(
        sent[0].text.contains("Accepted: Jour fixe") && sent[0].text.contains("For: Jour fixe"),
        "{}",
        sent[0].text
    );
    for ((word, shown), mail) in SHOWN.iter().zip(&sent[1..]) {
        assert!(mail.text.contains(shown), "{word}: {}", mail.text);
    }
    let counts = [page.requests().len(), search.requests().len()];
    assert_eq!(counts, [1, 1]);
    assert_eq!(forecasts(&app.workspace), 1);
    (closed(scene.world.app).await, vec![(page, 1), (search, 1)])
}

/// Calls that reached the MCP server.
fn forecasts(workspace: &Workspace) -> usize {
    calls_of(&workspace.path().join(FOLDER), "forecast")
}

/// A letter of the owner's about that, with an invoice where it needs one.
fn asking(scene: &Scene, word: &str) -> String {
    let body = format!("What do you know about the {word}?");
    if word != "invoice" {
        return scene.signed(OWNER, "ada@engine.test", word, "", &body);
    }
    let invoice = pdf(&[&["Invoice 4711"], &["Total: 1,234.50"]]);
    let parts = format!(
        "--b\r\nContent-Type: text/plain\r\n\r\n{body}\r\n--b\r\nContent-Type: application/pdf\r\n\
         Content-Disposition: attachment; filename=\"invoice.pdf\"\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n--b--",
        BASE64_STANDARD.encode(invoice)
    );
    let more = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n";
    scene.signed(OWNER, "ada@engine.test", word, more, &parts)
}

async fn closed(app: TestApp) -> Workspace {
    let TestApp { workspace, engine } = app;
    engine.store.clone().close().await;
    drop(engine);
    workspace
}

/// Executes every run of a workspace again, without a network where the system has namespaces, and under strace where it is
/// there. Gives what was said, and the lines of sockets and processes.
fn verified(workspace: &Workspace) -> (String, Option<Vec<String>>) {
    let trace = workspace.path().join("trace");
    let is_traced = Command::new("strace").arg("-V").output().is_ok();
    let program = match is_traced {
        true => "strace",
        false => env!("CARGO_BIN_EXE_attache"),
    };
    let mut command = match network::inside(program.as_ref()) {
        Ok((command, _home)) => command,
        Err(why) => {
            println!("SKIPPED: no namespace without a network: {why}");
            Command::new(program)
        }
    };
    if is_traced {
        command.args(["-f", "-qq", "-o"]).arg(&trace);
        command.args([
            "-e",
            "trace=execve,execveat,fork,vfork,socket,connect,bind,sendto,sendmsg,kill",
        ]);
        command.arg(env!("CARGO_BIN_EXE_attache"));
    } else {
        println!("SKIPPED: strace is not installed, so system calls were not watched");
    }
    command.args(["replay", "verify", "--all", "--json", "--workspace"]);
    let output = command.arg(workspace.path()).output().expect("the program");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = std::fs::read_to_string(&trace).ok();
    let lines = lines.map(|text| {
        text.lines()
            .map(str::to_owned)
            // A thread that is gone before strace can read its call has made none: those are written when they begin.
            .filter(|line| !line.contains("+++ exited") && !line.contains("???( <detached"))
            .collect()
    });
    (told, lines)
}

#[tokio::test]
#[ignore = "second tier"]
async fn letters_that_need_abilities_are_answered_and_replayed_without_network_and_processes() {
    if is_sqlite_only("a database on a server is reached by a network") {
        return;
    }
    let (workspace, sites) = used().await;
    let (told, calls) = verified(&workspace);
    assert!(told.contains("\"identical\": 7"), "{told}");
    assert_eq!(forecasts(&workspace), 1, "a replay asked");
    for (site, asked) in &sites {
        assert_eq!(site.requests().len(), *asked, "a replay asked");
    }
    if let Some(calls) = calls {
        // The first is the start of the command itself.
        assert!(
            calls.len() == 1 && calls[0].contains("execve("),
            "{calls:#?}"
        );
    }
}

#[tokio::test]
async fn a_letter_with_a_photograph_is_replayed_without_network_and_processes() {
    if is_sqlite_only("a database on a server is reached by a network") {
        return;
    }
    let (app, server) = photographs::seen().await;
    let asked = server.connections();
    let workspace = closed(app).await;
    let (told, calls) = verified(&workspace);
    assert!(told.contains("\"identical\": 1"), "{told}");
    assert_eq!(server.connections(), asked);
    if let Some(calls) = calls {
        assert!(
            calls.len() == 1 && calls[0].contains("execve("),
            "{calls:#?}"
        );
    }
}
