//! `embeddings` in the configuration: what is refused, and what its owner is told.

use super::embedding_server::EmbeddingServer;
use super::searched::switch;
use super::workspace;
use crate::app::Workspace;
use attache::domain::PersonaId;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

fn run(workspace: &Workspace, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.arg("--workspace").arg(workspace.path()).args(args);
    command
        .env("OPENAI_API_KEY", "none")
        .output()
        .expect("a process")
}

fn with(embeddings: Value) -> Workspace {
    let workspace = Workspace::new(&json!({}));
    workspace.set("configs/inference.json", "/embeddings", embeddings);
    workspace
}

#[test]
fn a_provider_that_makes_no_vectors_is_a_problem_with_what_would_work() {
    for (embeddings, words) in [
        (
            json!({ "provider": "anthropic", "model": "m" }),
            "`anthropic` makes no vectors of texts",
        ),
        (
            json!({ "provider": "scripted", "model": "m" }),
            "these do: openai, openrouter, compat, ollama, gemini",
        ),
        (
            json!({ "provider": "opnai", "model": "m" }),
            "no provider `opnai`",
        ),
        (
            json!({ "provider": "gemini", "model": "m" }),
            "provider `gemini` has no key",
        ),
        (
            json!({ "provider": "openai", "model": "" }),
            "embeddings/model",
        ),
        (
            json!({ "provider": "openai", "model": "m", "dimensions": 0 }),
            "embeddings/dimensions",
        ),
    ] {
        let checked = run(&with(embeddings.clone()), &["config", "check"]);
        let said = String::from_utf8_lossy(&checked.stdout).replace('.', "/");
        assert_eq!(checked.status.code(), Some(65), "{embeddings}: {said}");
        assert!(
            said.contains(&words.replace('.', "/")),
            "{embeddings}: {said}"
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_owner_is_told_where_letters_go_and_that_another_model_was_measured() {
    let leaves = with(json!({ "provider": "openai", "model": "text-embedding-3-small" }));
    let secrets = leaves.path().join(".secrets");
    std::fs::write(&secrets, "OPENAI_API_KEY=none\n").expect("a file");
    std::fs::set_permissions(&secrets, Permissions::from_mode(0o600)).expect("private");
    drop(leaves.engine().await);
    for command in [&["config", "check"][..], &["doctor"]] {
        let told = run(&leaves, command);
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&told.stdout),
            String::from_utf8_lossy(&told.stderr)
        );
        assert!(
            said.contains("the beginning of every letter is sent to `openai`"),
            "{command:?}: {said}"
        );
    }
    let server = EmbeddingServer::start().await;
    let app = workspace(&server).start().await;
    let persona = app
        .engine
        .store
        .persona(&PersonaId::parse("ada").expect("an id"));
    for (model, is_told) in [("compat:local/older", true), (super::MODEL, false)] {
        persona
            .set_vector_switch(Some(switch(model)))
            .await
            .expect("stored");
        for command in [&["config", "check"][..], &["doctor"]] {
            let told = run(&app.workspace, command);
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&told.stdout),
                String::from_utf8_lossy(&told.stderr)
            );
            assert_eq!(
                said.contains("were measured with `compat:local/older`"),
                is_told,
                "{command:?}: {said}"
            );
            assert!(
                !said.contains("is sent to"),
                "a server on this machine: {said}"
            );
        }
    }
}
