//! The whole engine against servers that judge each request: runs of several turns, and one thread by many providers.

use super::KEY;
use super::strict::{Strict, Turn, say};
use super::{strict_anthropic, strict_gemini, strict_ollama, strict_openai, strict_responses};
use crate::app::{TestApp, Workspace, note};
use serde_json::{Value, json};

/// Every model API, and the variable with its key.
pub const KEYS: &[(&str, &str)] = &[
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("openai", "OPENAI_API_KEY"),
    ("grok", "XAI_API_KEY"),
    ("openrouter", "OPENROUTER_API_KEY"),
    ("compat:house", "HOUSE_KEY"),
    ("compat:answers", "ANSWERS_KEY"),
    ("gemini", "GEMINI_API_KEY"),
    ("ollama", "OLLAMA_KEY"),
];

pub async fn server(provider: &str, turns: Vec<Turn>) -> Strict {
    match provider {
        "anthropic" => strict_anthropic::server(turns).await,
        "gemini" => strict_gemini::server(turns).await,
        "ollama" => strict_ollama::server(turns).await,
        "compat:answers" => strict_responses::server(provider, turns).await,
        _ => strict_openai::server(provider, turns).await,
    }
}

/// A workspace whose letters are answered by the first of these servers.
pub fn workspace(servers: &[(&str, &Strict)]) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    serve_from(&workspace, servers);
    workspace
}

/// Names these servers and their keys, and lets the first one answer.
pub fn serve_from(workspace: &Workspace, servers: &[(&str, &Strict)]) {
    // Only what some block or adapter names may stand there.
    let is_named = |provider: &str| {
        provider != "ollama" && !provider.starts_with("compat:")
            || servers.iter().any(|(served, _)| *served == provider)
    };
    let named = KEYS.iter().filter(|(provider, _)| is_named(provider));
    let secrets: String = named
        .map(|(_, variable)| format!("{variable}={KEY}\n"))
        .collect();
    workspace.write(".secrets", &secrets);
    restrict(&workspace.path().join(".secrets"));
    let mut blocks = json!({});
    for (provider, server) in servers {
        blocks[*provider] = match *provider {
            "compat:house" => json!({ "base_url": server.url(), "api_key_variable": "HOUSE_KEY" }),
            "compat:answers" => json!({
                "base_url": server.url(), "api_key_variable": "ANSWERS_KEY", "api": "responses"
            }),
            "ollama" => json!({
                "base_url": server.url(), "api_key_variable": "OLLAMA_KEY",
                "keep_alive": "30m", "context_tokens": 32768
            }),
            _ => json!({ "base_url": server.url() }),
        };
    }
    workspace.set("configs/inference.json", "/providers", blocks);
    serve_by(workspace, servers[0].0);
}

fn serve_by(workspace: &Workspace, provider: &str) {
    workspace.set("configs/inference.json", "/provider", json!(provider));
    workspace.set(
        "configs/inference.json",
        "/model",
        json!(format!("model-of-{}", provider.replace(':', "-"))),
    );
}

pub fn restrict(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("our own file");
}

pub fn look() -> Value {
    json!({ "path": "knowledge/house.md" })
}

/// Nothing, one call, three calls at once of which one fails, text beside calls, then words.
pub fn long_run() -> Vec<Turn> {
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
#[ignore = "second tier"]
async fn runs_of_several_turns_are_never_refused_by_any_vendor() {
    for (provider, _) in KEYS {
        let server = server(provider, long_run()).await;
        let app = workspace(&[(provider, &server)]).start().await;
        let run = app
            .run_of(&note("q1@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        assert_eq!(
            app.outcome(&run).await.1.as_deref(),
            Some("answered"),
            "{provider}"
        );
        assert_eq!(server.accepted().len(), 4, "{provider}");
        assert_eq!(
            server.accepted(),
            app.prompts(&run).await,
            "{provider}: what was stored was sent"
        );
        let trace = app.trace(&run).await;
        assert_eq!(
            trace
                .iter()
                .filter(|line| line.starts_with("call "))
                .count(),
            5,
            "{provider} {trace:?}"
        );
        // A second letter, over a history with calls and failures.
        let answer = app.sent().remove(0).message_id.expect("an id");
        let reply = note(
            "q2@guest.example",
            &format!("In-Reply-To: <{answer}>\n"),
            "And on Sundays?",
        );
        let second = app.run_of(&reply).await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        assert_eq!(app.outcome(&second).await.0, "succeeded", "{provider}");
        app.check().await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_run_at_its_last_turn_closes_the_tools_for_every_vendor() {
    for (provider, _) in KEYS {
        let server = server(provider, vec![say("").call("list_files", json!({}))]).await;
        let workspace = workspace(&[(provider, &server)]);
        workspace.set("configs/inference.json", "/max_tool_turns", json!(2));
        let app = workspace.start().await;
        app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
            .await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        let last = server.accepted().pop().expect("a request");
        let closed = match *provider {
            "anthropic" => last["tool_choice"]["type"] == "none",
            "gemini" => last["toolConfig"]["functionCallingConfig"]["mode"] == "NONE",
            "ollama" => last.get("tools").is_none(),
            _ => last["tool_choice"] == "none",
        };
        assert!(closed, "{provider}: {last}");
        app.check().await;
    }
}

/// Providers in the order in which they continue the thread.
const ORDER: [&str; 10] = [
    "anthropic",
    "gemini",
    "openai",
    "ollama",
    "openrouter",
    "grok",
    "compat:house",
    "compat:answers",
    "gemini",
    "anthropic",
];

/// The header that answers the last mail, if there is one.
fn answering(app: &TestApp) -> String {
    match app.sent().last() {
        Some(mail) => format!(
            "In-Reply-To: <{}>\n",
            mail.message_id.as_ref().expect("an id")
        ),
        None => String::new(),
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn one_thread_is_continued_by_provider_after_provider() {
    let every = &ORDER[..KEYS.len()];
    let mut servers = Vec::new();
    for provider in every {
        // Each looks something up before it answers, in its own way.
        let name = provider.replace(':', "-");
        let turns = vec![
            say("Looking.")
                .call("read_file", look())
                .call("list_files", json!({})),
            say(&format!("So says {name}.")),
            say("").call("read_file", look()),
            say(&format!("Once more says {name}.")),
        ];
        servers.push((*provider, server(provider, turns).await));
    }
    let list: Vec<(&str, &Strict)> = servers
        .iter()
        .map(|(name, server)| (*name, server))
        .collect();
    let mut app = workspace(&list).start().await;
    let mut said: Vec<String> = Vec::new();
    for (at, provider) in ORDER.iter().enumerate() {
        serve_by(&app.workspace, provider);
        app = app.restart().await;
        let more = answering(&app);
        let question = format!("Question number {at}?");
        let run = app
            .run_of(&note(&format!("q{at}@guest.example"), &more, &question))
            .await;
        app.workspace
            .clock
            .advance(std::time::Duration::from_secs(60));
        app.drain().await;
        assert_eq!(app.outcome(&run).await.0, "succeeded", "{provider}");
        let (_, server) = servers
            .iter()
            .find(|(name, _)| name == provider)
            .expect("one of them");
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        let last = server.accepted().pop().expect("a request").to_string();
        said.push(question);
        for earlier in &said {
            assert!(
                last.contains(earlier.as_str()),
                "{provider} was not told `{earlier}`: {last}"
            );
        }
        assert!(
            last.contains("read_file") && last.contains("From seven to ten"),
            "{provider}: {last}"
        );
        let words = if at < every.len() {
            "So says"
        } else {
            "Once more says"
        };
        said.push(format!("{words} {}.", provider.replace(':', "-")));
        assert_eq!(app.sent().len(), at + 1);
    }
    let sql = "SELECT CAST(count(DISTINCT thread_id) AS TEXT) FROM messages WHERE $1 = $1";
    let threads = app.row(sql, "").await;
    assert_eq!(threads[0].as_deref(), Some("1"), "it is one thread");
    app.check().await;
}
