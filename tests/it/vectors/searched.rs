//! What vectors change in a search, and when nothing is asked.

use super::embedding_server::{EmbeddingServer, Mood};
use super::{MODEL, column, workspace, writes};
use crate::app::{START, TestApp};
use attache::domain::{PersonaId, Timestamp};
use attache::store::{PersonaStore, VectorSwitch};
use serde_json::{Value, json};

const QUESTION: &str = "heating broken kitchen";
const PARAPHRASE: &str = "The boiler is broken.";

fn persona(app: &TestApp) -> PersonaStore {
    app.engine
        .store
        .persona(&PersonaId::parse("ada").expect("an id"))
}

pub fn switch(model: &str) -> VectorSwitch {
    VectorSwitch {
        provider: "compat:local".to_owned(),
        model: model.to_owned(),
        gain_points: 5.0,
        letters: 10,
        measured_at: Timestamp::parse(START).expect("an instant"),
    }
}

/// Letters of which words find that of the boiler last, and vectors first.
async fn with_letters(server: &EmbeddingServer) -> TestApp {
    let workspace = workspace(server);
    workspace.set(
        "configs/inference.json",
        "/timeouts",
        json!({ "idle": "300ms" }),
    );
    let app = workspace.start().await;
    writes(&app, "boiler", PARAPHRASE).await;
    for number in 0..8 {
        let body = format!("The radiator hums softly since day {number}.");
        writes(&app, &format!("hum{number}"), &body).await;
    }
    for number in 0..12 {
        let body = format!("Greetings from the sea, card {number}.");
        writes(&app, &format!("sea{number}"), &body).await;
    }
    writes(&app, "door", "The door of the kitchen is broken.").await;
    writes(&app, "tap", "In the kitchen the tap is broken.").await;
    app
}

/// The pieces of letters that a search of Bob's found, in order; and the run.
async fn found(app: &TestApp, id: &str, question: &str) -> (Vec<String>, Value) {
    let run = writes(app, id, &format!("Please look.\nsearch: {question}")).await;
    let sql = "SELECT payload_json FROM thread_tool_events WHERE run_id = $1 AND event_type = 'tool_result'";
    let payload = app.row(sql, &run).await[0].clone().expect("a result");
    let payload: Value = serde_json::from_str(&payload).expect("json");
    let messages = payload["result"]["messages"].as_array().expect("a list");
    // Only Bob's letters that tell something: no question, and no answer to one.
    let is_told = |message: &&Value| {
        let snippet = message["snippet"].as_str().unwrap_or_default();
        message["direction"] == "inbound" && !snippet.contains("search:")
    };
    let told = messages.iter().filter(is_told);
    let snippets = told.map(|message| message["snippet"].as_str().unwrap_or_default().to_owned());
    (snippets.collect(), payload["result"].clone())
}

fn was_asked(server: &EmbeddingServer, question: &str) -> usize {
    server
        .asked()
        .concat()
        .iter()
        .filter(|text| *text == question)
        .count()
}

#[tokio::test]
#[ignore = "second tier"]
async fn configured_alone_nothing_changes_and_no_question_is_sent() {
    let server = EmbeddingServer::start().await;
    let app = with_letters(&server).await;
    let (snippets, _) = found(&app, "q1", QUESTION).await;
    assert_eq!(
        snippets.last().map(String::as_str),
        Some(PARAPHRASE),
        "{snippets:?}"
    );
    assert_eq!(snippets.len(), 3, "{snippets:?}");
    // A switch counts for its model only, and for its provider.
    for other in [
        switch("compat:local/other"),
        VectorSwitch {
            provider: "openai".to_owned(),
            ..switch(MODEL)
        },
    ] {
        persona(&app)
            .set_vector_switch(Some(other))
            .await
            .expect("stored");
        found(&app, &format!("q{}", server.asked().len()), QUESTION).await;
    }
    assert_eq!(was_asked(&server, QUESTION), 0);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_paraphrase_that_words_rank_last_comes_first() {
    let server = EmbeddingServer::start().await;
    let app = with_letters(&server).await;
    persona(&app)
        .set_vector_switch(Some(switch(MODEL)))
        .await
        .expect("stored");
    let (snippets, result) = found(&app, "q1", QUESTION).await;
    assert_eq!(snippets[0], PARAPHRASE, "{snippets:?}");
    // The result says nothing of how it came about.
    assert!(!result.to_string().contains("vector"), "{result}");
    assert_eq!(was_asked(&server, QUESTION), 1);
    let (again, _) = found(&app, "q2", QUESTION).await;
    assert_eq!(again[0], PARAPHRASE);
    assert_eq!(
        was_asked(&server, QUESTION),
        1,
        "the vector of a question is kept"
    );
    // Executed again, a run is given its recorded result.
    let before = server.asked().len();
    app.check().await;
    assert_eq!(server.asked().len(), before);
    let purposes = column(
        &app,
        "SELECT purpose FROM embedding_calls WHERE run_id IS NOT NULL",
    )
    .await;
    assert_eq!(purposes, ["question"]);
}

#[tokio::test]
#[ignore = "second tier"]
async fn where_words_find_nothing_nothing_is_asked_and_nothing_found() {
    let server = EmbeddingServer::start().await;
    let app = with_letters(&server).await;
    persona(&app)
        .set_vector_switch(Some(switch(MODEL)))
        .await
        .expect("stored");
    let (snippets, result) = found(&app, "q1", "furnace warmth zither").await;
    assert_eq!(snippets, Vec::<String>::new());
    // But for the letter that asks, which has the words.
    assert_eq!(result["count"], 1, "{result}");
    assert_eq!(was_asked(&server, "furnace warmth zither"), 0);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_provider_that_fails_or_keeps_silent_leaves_the_search_to_the_words() {
    for mood in [Mood::Refuses(500), Mood::Refuses(401), Mood::Silent] {
        let server = EmbeddingServer::start().await;
        let app = with_letters(&server).await;
        let (by_words, plain) = found(&app, "q1", QUESTION).await;
        persona(&app)
            .set_vector_switch(Some(switch(MODEL)))
            .await
            .expect("stored");
        server.set(mood);
        let (with_failure, result) = found(&app, "q2", QUESTION).await;
        assert_eq!(with_failure, by_words);
        let members = |result: &Value| -> Vec<String> {
            result
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect()
        };
        assert_eq!(members(&result), members(&plain), "the model is not told");
        server.set(Mood::Answers);
        let (after, _) = found(&app, "q3", QUESTION).await;
        assert_eq!(after[0], PARAPHRASE);
        app.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "second tier"]
async fn a_fork_asks_as_a_live_run_does() {
    let server = EmbeddingServer::start().await;
    let app = with_letters(&server).await;
    persona(&app)
        .set_vector_switch(Some(switch(MODEL)))
        .await
        .expect("stored");
    let run = writes(&app, "q1", &format!("Please look.\nsearch: {QUESTION}")).await;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    command.arg("--workspace").arg(app.workspace.path());
    command.args(["replay", "fork", &run, "--at-turn", "0", "--json"]);
    let forked = tokio::task::spawn_blocking(move || command.output().expect("a process"));
    let forked = forked.await.expect("joined");
    assert_eq!(forked.status.code(), Some(0), "{forked:?}");
    assert_eq!(was_asked(&server, QUESTION), 2);
    let states = column(
        &app,
        "SELECT state FROM embedding_calls WHERE purpose = 'question'",
    )
    .await;
    assert_eq!(states, ["answered", "answered"]);
}
