//! `"tools": "basic"`: a run is offered what its sender, its letter and its thread have a use for, and a thread keeps what it has
//! used.

use crate::app::{TestApp, Workspace, behind_relay, proven};
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use crate::calendar::parts::part;
use crate::run_options::{ready, work};
use serde_json::{Value, json};

const PLAIN: [&str; 8] = [
    "send_email",
    "search_email",
    "read_email",
    "read_file",
    "grep",
    "remember",
    "no_answer",
    "ask_owner",
];

/// A workspace as `init` makes it, as far as tools go; the model makes these calls, and says something after each.
fn workspace(tools: Option<Value>, calls: &[(&str, Value)]) -> Workspace {
    let turns: Vec<Value> = calls
        .iter()
        .flat_map(|(tool, args)| {
            let call = json!({ "call": [{ "tool": tool, "args": args }] });
            [call, json!({ "say": "Done." })]
        })
        .collect();
    let script = match turns.is_empty() {
        true => json!({ "rules": [{ "say": "Done." }] }),
        false => json!({ "turns": turns }),
    };
    let workspace = Workspace::new(&script);
    workspace.set(
        "personas/ada/persona.json",
        "/tools",
        tools.unwrap_or(json!("basic")),
    );
    workspace.write_json("configs/security.json", &behind_relay());
    workspace
}

fn letter(from: &str, id: &str, more: &str, body: &str) -> String {
    let domain = from.split('@').nth(1).expect("a domain");
    format!(
        "From: {from}\nTo: ada@engine.test\nSubject: Breakfast\nMessage-ID: <{id}@{domain}>\nDate: {}\n{}{more}\n{body}\n",
        crate::app::NOTE_DATE,
        proven(domain)
    )
}

/// Names of the tools in the first request of a run.
async fn offered(app: &TestApp, run: &str) -> Vec<String> {
    let request = app.prompts(run).await.swap_remove(0);
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
    tools.iter().filter_map(name).collect()
}

async fn offered_for(app: &TestApp, eml: &str) -> Vec<String> {
    let run = app.run_of(eml).await;
    app.drain().await;
    offered(app, &run).await
}

/// The plain tools and these, in the order of the registry.
fn plain_and(more: &[&str]) -> Vec<String> {
    let all = attache::tools::builtin();
    let is_there = |name: &&str| PLAIN.contains(name) || more.contains(name);
    all.names().filter(is_there).map(str::to_owned).collect()
}

/// Header lines and body of the first letter, what its run calls, and the tools that this brings.
type ThreadCase<'c> = (&'c str, &'c str, &'c [(&'c str, Value)], &'c [&'c str]);

const CAROL: &str = "carol@partner.example";

#[tokio::test]
async fn a_plain_letter_of_a_contact_has_the_plain_tools() {
    let app = workspace(None, &[]).start().await;
    let eml = letter(CAROL, "a", "", "When is breakfast?");
    assert_eq!(offered_for(&app, &eml).await, plain_and(&[]));
    app.check().await;
}

#[tokio::test]
async fn orders_have_tools_that_change_things() {
    let orders = [
        "forward_email",
        "list_files",
        "glob",
        "write_file",
        "edit_file",
        "invite",
        "list_events",
        "update_memory",
        "schedule_create",
    ];
    let app = ready(workspace(None, &[]), &json!({})).await;
    let run = work(&app).await;
    let mut due = plain_and(&orders);
    // Nobody wrote, and a duty ends with a word.
    due.retain(|name| name != "no_answer");
    assert_eq!(offered(&app, &run).await, due);
    app.check().await;
    let say = json!({ "rules": [{ "say": "Done." }] });
    let basic = |workspace: &Workspace| {
        workspace.set("personas/ada/persona.json", "/tools", json!("basic"));
    };
    let scene = Scene::with(&say, basic).await;
    let run = scene.writes(OWNER, "a", "").await;
    assert_eq!(offered(&scene.world.app, &run).await, plain_and(&orders));
    let run = scene.writes(CONTACT, "b", "").await;
    assert_eq!(offered(&scene.world.app, &run).await, plain_and(&[]));
    scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_file_an_invitation_an_entry_and_a_search_bring_their_tools_and_the_thread_keeps_them() {
    let ics = part("google_request.ics");
    let file = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n";
    let with_file = "--b\nContent-Type: text/plain\n\nSee the file.\n--b\nContent-Type: application/pdf; name=a.pdf\n\
        Content-Disposition: attachment; filename=a.pdf\n\n%PDF-1.4\n--b--";
    let event = "MIME-Version: 1.0\nContent-Type: multipart/alternative; boundary=b\n";
    let with_event = format!(
        "--b\nContent-Type: text/plain\n\nPlease come.\n--b\nContent-Type: text/calendar; charset=utf-8; method=REQUEST\n\n{ics}\n--b--"
    );
    let remember =
        json!({ "text": "Carol comes at nine.", "kind": "fact", "source_quote": "I come at nine" });
    let cases: [ThreadCase<'_>; 4] = [
        (file, with_file, &[], &["read_attachment"]),
        (
            event,
            &with_event,
            &[],
            &["answer_invitation", "invite", "list_events"],
        ),
        (
            "",
            "I come at nine",
            &[("remember", remember)],
            &["correct", "forget", "recall"],
        ),
        (
            "",
            "What did I order?",
            &[("search_email", json!({ "query": "order" }))],
            &["forward_email", "read_attachment"],
        ),
    ];
    for (more, body, calls, brought) in cases {
        let app = workspace(None, calls).start().await;
        let first = offered_for(&app, &letter(CAROL, "a", more, body)).await;
        let at_once = match calls.is_empty() {
            true => plain_and(brought),
            false => plain_and(&[]),
        };
        assert_eq!(first, at_once, "{body}");
        let reply = "In-Reply-To: <a@partner.example>\n";
        for id in ["b", "c"] {
            let eml = letter(CAROL, id, reply, "And now?");
            assert_eq!(offered_for(&app, &eml).await, plain_and(brought), "{body}");
        }
        // Another thread of the same sender knows the entry alone.
        let other = letter(CAROL, "d", "", "Something else.");
        let known = match brought.contains(&"recall") {
            true => plain_and(brought),
            false => plain_and(&[]),
        };
        assert_eq!(offered_for(&app, &other).await, known, "{body}");
        app.check().await;
    }
}

#[tokio::test]
async fn whoever_proves_nothing_gets_tools_that_read() {
    let app = workspace(None, &[]).start().await;
    let eml = letter(CAROL, "a", "", "Hello?").replace(&proven("partner.example"), "");
    let reading = [
        "search_email",
        "read_email",
        "read_file",
        "grep",
        "no_answer",
    ];
    assert_eq!(offered_for(&app, &eml).await, reading);
    app.check().await;
}

#[tokio::test]
async fn all_means_all_that_the_sender_may_use_and_a_list_means_the_list() {
    let app = workspace(Some(json!("all")), &[]).start().await;
    let eml = letter(CAROL, "a", "", "Hello?");
    let all = offered_for(&app, &eml).await;
    for tool in ["answer_invitation", "recall", "schedule_create", "glob"] {
        assert!(all.iter().any(|name| name == tool), "{tool}: {all:?}");
    }
    // A contact can never use it.
    assert!(!all.iter().any(|name| name == "write_file"), "{all:?}");
    app.check().await;
    let named = json!(["forward_email", "recall"]);
    let app = workspace(Some(named), &[]).start().await;
    assert_eq!(offered_for(&app, &eml).await, ["forward_email", "recall"]);
    app.check().await;
}

#[tokio::test]
async fn a_search_in_a_run_changes_no_tools_of_that_run() {
    let lookup = [("search_email", json!({ "query": "order" }))];
    let workspace = workspace(None, &lookup);
    let app = workspace.start().await;
    let first = letter(CAROL, "a", "", "What did I order?");
    let run = app.run_of(&first).await;
    app.drain().await;
    // The search came after the first request; a later one of the same run has the same tools.
    let prompts = app.prompts(&run).await;
    assert_eq!(prompts.len(), 2);
    assert_eq!(prompts[0]["tools"], prompts[1]["tools"]);
    app.check().await;
}
