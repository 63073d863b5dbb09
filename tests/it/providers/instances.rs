//! Several instances of one adapter, each with its own server, key, headers, model and price; and that no header's secret is
//! written down.

use super::server::{Reply, Server};
use crate::app::database::is_sqlite_only;
use crate::app::{TestApp, Workspace, proven_note as note};
use crate::fallback::{says, tries};
use serde_json::{Value, json};

const SECRET: &str = "org-token-4711-0815-xyz";

/// An answer of Anthropic's API, with this usage.
pub fn answer(text: &str, usage: &Value) -> Reply {
    let events = [
        json!({ "type": "message_start", "message": { "id": "m", "model": "claude-x", "usage": usage } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 10 } }),
        json!({ "type": "message_stop" }),
    ];
    let line = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap_or_default()
        )
    };
    Reply::stream(&events.iter().map(line).collect::<String>())
}

fn usage() -> Value {
    json!({ "input_tokens": 100, "output_tokens": 1 })
}

fn secrets(workspace: &Workspace, lines: &str) {
    use std::os::unix::fs::PermissionsExt;
    workspace.write(".secrets", lines);
    let path = workspace.path().join(".secrets");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
}

/// Letters are answered by `anthropic:work`, then by `openai:eu`; `anthropic` is a third server.
fn workspace(work: &Server, eu: &Server, plain: &Server) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    let inference = json!({
        "provider": "anthropic:work", "model": "claude-x", "retry": { "call_attempts_max": 1 },
        "fallback": [{ "provider": "openai:eu" }],
        "providers": {
            "anthropic": { "base_url": plain.url },
            "anthropic:work": {
                "base_url": work.url, "api_key_variable": "WORK_KEY",
                "headers": { "X-Org": "house", "X-Team-Token": { "variable": "TEAM_TOKEN" } },
            },
            "openai:eu": { "base_url": eu.url, "model": "gpt-eu", "legacy_max_tokens": true },
        },
    });
    workspace.write_json("configs/inference.json", &inference);
    let price = |provider: &str, input: u32| json!({ "provider": provider, "model": "claude-*", "input": input, "output": 0 });
    let prices =
        json!({ "version": "test", "prices": [price("anthropic", 1), price("anthropic:dear", 9)] });
    workspace.write_json("configs/prices.json", &prices);
    secrets(
        &workspace,
        &format!(
            "WORK_KEY=key-of-work-12345\nOPENAI_API_KEY=key-of-openai-12345\nTEAM_TOKEN={SECRET}\n"
        ),
    );
    workspace
}

/// Everything that is kept: the whole database and its log, as bytes.
fn kept(app: &TestApp) -> Vec<u8> {
    let data = app.workspace.path().join("data");
    let files = std::fs::read_dir(data).expect("the data").flatten();
    let files = files.filter_map(|file| std::fs::read(file.path()).ok());
    files.flatten().collect()
}

fn is_secret_kept_nowhere(app: &TestApp) {
    // The server quoted the secret, and nothing that is kept has it.
    let kept = kept(app);
    assert!(
        !kept
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes())
    );
    assert!(
        kept.windows(10).any(|part| part == b"[redacted]"),
        "the control: the quote was there"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn each_instance_has_its_own_server_key_headers_model_and_price() {
    if is_sqlite_only("bytes of its file") {
        return;
    }
    let work = Server::start(vec![
        answer("By work.", &usage()),
        Reply::new(
            500,
            &[],
            &format!("{{\"error\":{{\"message\":\"bad token {SECRET}\"}}}}"),
        ),
    ])
    .await;
    let eu = Server::start(vec![says("By EU.")]).await;
    let plain = Server::start(vec![answer("By the plain one.", &usage())]).await;
    let app = workspace(&work, &eu, &plain).start().await;
    let first = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        tries(&app, &first).await,
        ["0 anthropic:work/claude-x answered"]
    );
    let asked = &work.seen()[0];
    let header = |name: &str| asked.header(name).map(str::to_owned);
    assert_eq!(
        ["x-api-key", "x-org", "x-team-token", "anthropic-version"].map(header),
        ["key-of-work-12345", "house", SECRET, "2023-06-01"].map(|text| Some(text.to_owned()))
    );
    // The family's price holds for an instance without its own.
    let row = app
        .row(
            "SELECT CAST(cost_micros AS TEXT) FROM runs WHERE id = $1",
            &first,
        )
        .await;
    assert_eq!(row, [Some("100".to_owned())]);

    let second = app
        .run_of(&note("r@guest.example", "", "And dinner?"))
        .await;
    app.drain().await;
    assert_eq!(
        tries(&app, &second).await,
        [
            "0 anthropic:work/claude-x transient",
            "0 openai:eu/gpt-eu answered"
        ],
        "a fallback without a model asks that of its block"
    );
    let asked = &eu.seen()[0];
    assert_eq!(
        asked.header("authorization"),
        Some("Bearer key-of-openai-12345"),
        "the family's key"
    );
    assert_eq!((asked.header("x-org"), plain.seen().len()), (None, 0));
    is_secret_kept_nowhere(&app);
    app.check().await;
}

#[tokio::test]
async fn a_breaker_of_one_instance_leaves_the_other_alone() {
    let down = Server::start(vec![Reply::new(
        401,
        &[],
        "{\"error\":{\"message\":\"no\"}}",
    )])
    .await;
    let up = Server::start(vec![answer("Up.", &usage())]).await;
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    let inference = json!({
        "provider": "anthropic:a", "model": "claude-x", "retry": { "call_attempts_max": 1 },
        "fallback": [{ "provider": "anthropic:b", "model": "claude-x" }],
        "providers": { "anthropic:a": { "base_url": down.url }, "anthropic:b": { "base_url": up.url } },
    });
    workspace.write_json("configs/inference.json", &inference);
    secrets(&workspace, "ANTHROPIC_API_KEY=key-of-both-12345\n");
    let app = workspace.start().await;
    for id in ["a@guest.example", "b@guest.example"] {
        let run = app.run_of(&note(id, "", "When is breakfast?")).await;
        app.drain().await;
        assert_eq!(app.outcome(&run).await.0, "succeeded");
    }
    assert_eq!(
        (down.seen().len(), up.seen().len()),
        (1, 2),
        "the account that was refused is not asked again"
    );
    app.check().await;
}
