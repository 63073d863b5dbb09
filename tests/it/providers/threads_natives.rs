//! What only the natives keep: `gemini`'s signatures and `ollama`'s thoughts within a run, and the bound of its memory.

use super::strict::say;
use super::threads::{long_run, server, workspace};
use crate::app::note;
use attache::domain::RunId;
use serde_json::json;

#[tokio::test]
async fn signatures_and_thoughts_go_back_within_the_run_that_has_them() {
    let server = server("gemini", long_run()).await;
    let app = workspace(&[("gemini", &server)]).start().await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let last = server.accepted().pop().expect("a request").to_string();
    assert_eq!(
        last.matches("\"thoughtSignature\":\"c2ln").count(),
        4,
        "three calls and a text: {last}"
    );
    assert!(
        last.contains("\"id\":\"fc-") && !last.contains("skip_thought"),
        "{last}"
    );
    let server = super::threads::server("ollama", long_run()).await;
    let app = workspace(&[("ollama", &server)]).start().await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    let last = server.accepted().pop().expect("a request");
    assert_eq!(
        last.to_string()
            .matches("\"thinking\":\"Let me think.\"")
            .count(),
        3,
        "{last}"
    );
    assert_eq!(
        (&last["options"]["num_ctx"], &last["keep_alive"]),
        (&json!(32768), &json!("30m"))
    );
}

#[tokio::test]
async fn a_letter_that_is_too_long_for_the_memory_is_never_sent_cut() {
    let server = server("ollama", vec![say("From seven to ten.")]).await;
    let workspace = workspace(&[("ollama", &server)]);
    workspace.set(
        "configs/inference.json",
        "/providers/ollama/context_tokens",
        json!(8192),
    );
    let app = workspace.start().await;
    let run = app
        .run_of(&note("q1@guest.example", "", &"many words ".repeat(8000)))
        .await;
    app.drain().await;
    let overflow = (
        "failed".into(),
        Some("failed".into()),
        Some("context_overflow".into()),
    );
    assert_eq!(
        app.outcome(&run).await,
        overflow,
        "half a letter is no letter to answer"
    );
    assert_eq!(server.accepted().len(), 0, "and nothing of it was sent");
    assert_eq!(server.refused(), Vec::<String>::new());
    // The same letter where there is room for it.
    app.workspace.set(
        "configs/inference.json",
        "/providers/ollama/context_tokens",
        json!(65_536),
    );
    let app = app.restart().await;
    app.engine
        .store
        .retry_run(&RunId::new(&run))
        .await
        .expect("queued");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let sent = server.accepted();
    assert_eq!(sent[0].to_string().matches("many words").count(), 8000);
}
