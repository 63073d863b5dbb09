//! The whole engine against the strict `gemini` and `ollama`: runs with tool calls, and one thread by both in turn.

use super::KEY;
use super::strict::{Strict, Turn, say};
use super::{strict_gemini, strict_ollama};
use crate::app::{Workspace, note};
use attache::domain::RunId;
use serde_json::{Value, json};

const NATIVES: &[&str] = &["gemini", "ollama"];

async fn server(provider: &str, turns: Vec<Turn>) -> Strict {
    match provider {
        "gemini" => strict_gemini::server(turns).await,
        _ => strict_ollama::server(turns).await,
    }
}

/// A workspace whose letters are answered by the first of these servers.
fn workspace(servers: &[(&str, &Strict)]) -> Workspace {
    use std::os::unix::fs::PermissionsExt;
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    workspace.write(".secrets", &format!("GEMINI_API_KEY={KEY}\n"));
    let secrets = workspace.path().join(".secrets");
    std::fs::set_permissions(secrets, std::fs::Permissions::from_mode(0o600)).expect("our own file");
    let mut blocks = json!({});
    for (provider, server) in servers {
        blocks[*provider] = json!({ "base_url": server.url() });
    }
    blocks["ollama"]["keep_alive"] = json!("30m");
    blocks["ollama"]["context_tokens"] = json!(32768);
    workspace.set("configs/inference.json", "/providers", blocks);
    serve_by(&workspace, servers[0].0);
    workspace
}

fn serve_by(workspace: &Workspace, provider: &str) {
    workspace.set("configs/inference.json", "/provider", json!(provider));
    workspace.set("configs/inference.json", "/model", json!(format!("model-of-{provider}")));
}

fn look() -> Value {
    json!({ "path": "knowledge/house.md" })
}

/// One call, three calls at once of which two fail, text beside calls, then words.
fn long_run() -> Vec<Turn> {
    vec![
        say("").call("read_file", look()),
        say("Let me see more.")
            .call("read_file", json!({ "path": "nowhere.md" }))
            .call("list_files", json!({}))
            .call("no_such_tool", json!({ "n": [1, { "deep": null }] })),
        say("").call("read_file", look()),
        say("From seven to ten."),
    ]
}

#[tokio::test]
async fn runs_of_several_turns_are_never_refused_by_the_natives() {
    for provider in NATIVES {
        let server = server(provider, long_run()).await;
        let app = workspace(&[(provider, &server)]).start().await;
        let run = app.run_of(&note("q1@guest.example", "", "When is breakfast?")).await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        assert_eq!(app.outcome(&run).await.1.as_deref(), Some("answered"), "{provider}");
        assert_eq!(server.accepted(), app.prompts(&run).await, "{provider}: what was stored was sent");
        let trace = app.trace(&run).await;
        assert_eq!(trace.iter().filter(|line| line.starts_with("call ")).count(), 5, "{provider} {trace:?}");
        // A second letter, over a history with calls and failures that are nobody's own any more.
        let answer = app.sent().remove(0).message_id.expect("an id");
        let reply = note("q2@guest.example", &format!("In-Reply-To: <{answer}>\n"), "And on Sundays?");
        let second = app.run_of(&reply).await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        assert_eq!(app.outcome(&second).await.0, "succeeded", "{provider}");
        app.check().await;
    }
}

#[tokio::test]
async fn signatures_and_thoughts_go_back_within_the_run_that_has_them() {
    let server = server("gemini", long_run()).await;
    let app = workspace(&[("gemini", &server)]).start().await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?")).await;
    app.drain().await;
    let last = server.accepted().pop().expect("a request").to_string();
    assert_eq!(last.matches("\"thoughtSignature\":\"c2ln").count(), 4, "three calls and a text: {last}");
    assert!(last.contains("\"id\":\"fc-") && !last.contains("skip_thought"), "{last}");
    let server = self::server("ollama", long_run()).await;
    let app = workspace(&[("ollama", &server)]).start().await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?")).await;
    app.drain().await;
    let last = server.accepted().pop().expect("a request");
    assert_eq!(last.to_string().matches("\"thinking\":\"Let me think.\"").count(), 3, "{last}");
    assert_eq!((&last["options"]["num_ctx"], &last["keep_alive"]), (&json!(32768), &json!("30m")));
}

#[tokio::test]
async fn a_run_at_its_last_turn_closes_the_tools_of_the_natives() {
    for provider in NATIVES {
        let server = server(provider, vec![say("").call("list_files", json!({}))]).await;
        let workspace = workspace(&[(provider, &server)]);
        workspace.set("configs/inference.json", "/max_tool_turns", json!(2));
        let app = workspace.start().await;
        app.run_of(&note("q1@guest.example", "", "When is breakfast?")).await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        let last = server.accepted().pop().expect("a request");
        match *provider {
            "gemini" => assert_eq!(last["toolConfig"]["functionCallingConfig"]["mode"], "NONE"),
            _ => assert_eq!(last.get("tools"), None),
        }
        app.check().await;
    }
}

#[tokio::test]
async fn one_thread_is_continued_by_gemini_and_ollama_in_turn() {
    let order = ["gemini", "ollama", "gemini", "ollama"];
    let turns = |name: &str| {
        vec![
            say("Looking.").call("read_file", look()).call("list_files", json!({})),
            say(&format!("So says {name}.")),
            say("").call("read_file", look()),
            say(&format!("Once more says {name}.")),
        ]
    };
    let (gemini, ollama) = (server("gemini", turns("gemini")).await, server("ollama", turns("ollama")).await);
    let mut app = workspace(&[("gemini", &gemini), ("ollama", &ollama)]).start().await;
    for (at, provider) in order.iter().enumerate() {
        serve_by(&app.workspace, provider);
        app = app.restart().await;
        let more = match app.sent().last() {
            Some(mail) => format!("In-Reply-To: <{}>\n", mail.message_id.as_ref().expect("an id")),
            None => String::new(),
        };
        let letter = note(&format!("q{at}@guest.example"), &more, &format!("Question number {at}?"));
        let run = app.run_of(&letter).await;
        app.workspace.clock.advance(std::time::Duration::from_secs(60));
        app.drain().await;
        assert_eq!(app.outcome(&run).await.0, "succeeded", "{provider}");
        let server = if *provider == "gemini" { &gemini } else { &ollama };
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        let last = server.accepted().pop().expect("a request").to_string();
        for earlier in 0..=at {
            assert!(last.contains(&format!("Question number {earlier}?")), "{provider}: {last}");
        }
        assert_eq!(app.sent().len(), at + 1);
    }
    app.check().await;
}

#[tokio::test]
async fn a_letter_that_is_too_long_for_the_memory_is_never_sent_cut() {
    let server = server("ollama", vec![say("From seven to ten.")]).await;
    let workspace = workspace(&[("ollama", &server)]);
    workspace.set("configs/inference.json", "/providers/ollama/context_tokens", json!(8192));
    let app = workspace.start().await;
    let run = app.run_of(&note("q1@guest.example", "", &"many words ".repeat(8000))).await;
    app.drain().await;
    let overflow = ("failed".into(), Some("failed".into()), Some("context_overflow".into()));
    assert_eq!(app.outcome(&run).await, overflow, "half a letter is no letter to answer");
    assert_eq!(server.accepted().len(), 0, "and nothing of it was sent");
    assert_eq!(server.refused(), Vec::<String>::new());
    // The same letter where there is room for it.
    app.workspace.set("configs/inference.json", "/providers/ollama/context_tokens", json!(65_536));
    let app = app.restart().await;
    app.engine.store.retry_run(&RunId::new(&run)).await.expect("queued");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let sent = server.accepted();
    assert_eq!(sent[0].to_string().matches("many words").count(), 8000);
}
