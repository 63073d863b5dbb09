//! Money for vectors: reserved before the call, settled with it, counted by `attache usage` and the audit, lost with an engine.

use super::embedding_server::{EmbeddingServer, Mood};
use super::{MODEL, column, workspace, writes};
use crate::app::{TestApp, Workspace};
use attache::store::{UsageBy, UsageSince};
use serde_json::{Value, json};
use std::process::Command;

const CALLS: &str = "SELECT purpose || ' ' || state || ' ' || texts || ' ' || tokens || ' ' || coalesce(CAST(cost_micros AS TEXT), 'unknown') || ' ' \
    || cost_source || ' ' || coalesce(CAST(held_micros AS TEXT), '-') FROM embedding_calls ORDER BY created_at, id";
const ACCOUNTS: &str = "SELECT scope || ' ' || period || ' ' || sum(spent_micros) || ' ' || sum(spent_tokens) || ' ' \
    || sum(reserved_micros) || ' ' || sum(reserved_tokens) FROM budget_accounts WHERE scope IN ('engine', 'persona') \
    GROUP BY scope, period ORDER BY scope, period";

fn priced(workspace: &Workspace) {
    let price = |provider: &str, input: u32| json!({ "provider": provider, "model": "*", "input": input, "output": 1 });
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "v1", "prices": [price("compat:local", 1_000_000), price("scripted", 0)] }),
    );
}

async fn model_tokens(app: &TestApp) -> i64 {
    let sql = "SELECT CAST(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) AS TEXT) FROM usage_ledger";
    column(app, sql).await[0].parse().expect("a number")
}

#[tokio::test]
async fn an_answered_call_costs_what_the_table_says() {
    let server = EmbeddingServer::start().await;
    let workspace = workspace(&server);
    priced(&workspace);
    let app = workspace.start().await;
    writes(&app, "a", "The boiler is broken.").await;
    let calls = column(&app, CALLS).await;
    // Breakfast, The boiler is broken; Re: Breakfast, Done: at a dollar a token.
    assert_eq!(calls, ["letters answered 2 8 8000000 price_table -"]);
    let of_model = model_tokens(&app).await;
    let accounts = column(&app, ACCOUNTS).await;
    assert_eq!(accounts.len(), 4, "{accounts:?}");
    for account in &accounts {
        let end = format!(" {} 0 0", 8 + of_model);
        assert!(
            account.contains("80000") && account.ends_with(&end),
            "{account}: {end}"
        );
    }
    let sums = app
        .engine
        .store
        .usage_since(
            &UsageSince::Day("2026-01-01".to_owned()),
            Some(UsageBy::Model),
            10,
        )
        .await;
    let sums = sums.expect("sums");
    let of_vectors = sums.iter().find(|sum| sum.what == MODEL).expect("a sum");
    assert_eq!(
        (
            of_vectors.calls,
            of_vectors.input_tokens,
            of_vectors.cost_micros
        ),
        (1, 8, Some(8_000_000))
    );
    let by_thread = app
        .engine
        .store
        .usage_since(
            &UsageSince::Day("2026-01-01".to_owned()),
            Some(UsageBy::Thread),
            10,
        )
        .await;
    assert!(
        by_thread
            .expect("sums")
            .iter()
            .any(|sum| sum.what == "none")
    );
    app.check().await;
}

#[tokio::test]
async fn without_a_price_the_cost_is_unknown_and_with_a_budget_the_engine_does_not_start() {
    let server = EmbeddingServer::start().await;
    let workspace = workspace(&server);
    let app = workspace.start().await;
    writes(&app, "a", "The boiler is broken.").await;
    assert_eq!(
        column(&app, CALLS).await,
        ["letters answered 2 8 unknown unknown 0"]
    );
    app.check().await;
    let TestApp { workspace, engine } = app;
    drop(engine);
    workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "day_usd_max": 5 }),
    );
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "v1", "prices": [{ "provider": "scripted", "model": "*", "input": 0, "output": 0 }] }),
    );
    let checked = Command::new(env!("CARGO_BIN_EXE_attache"))
        .arg("--workspace")
        .arg(workspace.path())
        .args(["config", "check"])
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(65), "{said}");
    assert!(
        said.contains("nobody knows what `topics` of `compat:local` costs"),
        "{said}"
    );
}

#[tokio::test]
async fn a_budget_that_cannot_pay_means_no_vectors_and_no_failure() {
    let server = EmbeddingServer::start().await;
    let workspace = workspace(&server);
    priced(&workspace);
    // A dollar a token, and a token for each byte at most: no call can be paid.
    workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "day_usd_max": 5 }),
    );
    let app = workspace.start().await;
    let run = writes(&app, "a", "The boiler is broken.\nsearch: boiler broken").await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(server.asked().len(), 0);
    assert!(column(&app, CALLS).await.is_empty());
    let persona = app
        .engine
        .store
        .persona(&attache::domain::PersonaId::parse("ada").expect("an id"));
    persona
        .set_vector_switch(Some(super::searched::switch(MODEL)))
        .await
        .expect("stored");
    let run = writes(&app, "b", "Again.\nsearch: boiler broken").await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let trace = app.trace(&run).await.join(" ");
    assert!(trace.contains("ok search_email"), "{trace}");
    assert_eq!(server.asked().len(), 0);
    app.check().await;
}

#[tokio::test]
async fn a_call_that_may_be_billed_is_lost_and_one_that_was_turned_away_is_not() {
    for (mood, calls) in [
        (Mood::Refuses(401), vec![]),
        (Mood::Refuses(504), vec!["letters lost 2 0 unknown unknown"]),
    ] {
        let server = EmbeddingServer::start().await;
        server.set(mood);
        let workspace = workspace(&server);
        priced(&workspace);
        let app = workspace.start().await;
        writes(&app, "a", "The boiler is broken.").await;
        let found = column(&app, CALLS).await;
        assert_eq!(found.len(), calls.len(), "{found:?}");
        for (found, call) in found.iter().zip(&calls) {
            assert!(
                found.starts_with(call) && !found.ends_with(" 0") && !found.ends_with('-'),
                "{found}"
            );
        }
        app.check().await;
    }
}

#[tokio::test]
async fn a_call_of_an_engine_that_is_gone_is_lost_at_the_next_start() {
    let server = EmbeddingServer::start().await;
    server.set(Mood::Silent);
    let workspace = workspace(&server);
    // The call itself outlives its engine for so long.
    workspace.set(
        "configs/inference.json",
        "/timeouts",
        json!({ "idle": "500ms" }),
    );
    priced(&workspace);
    let app = workspace.start().await;
    app.receive(&crate::app::note(
        "a@guest.example",
        crate::app::PROVEN,
        "Hello.",
    ))
    .await
    .expect("taken");
    // The engine goes while its call is open.
    let asked = async {
        while server.asked().is_empty() {
            crate::app::glance().await;
        }
    };
    tokio::select! {
        drained = app.engine.drain() => panic!("{drained:?}"),
        () = asked => {}
    }
    assert_eq!(
        column(&app, "SELECT state FROM embedding_calls").await,
        ["open"]
    );
    let TestApp { workspace, engine } = app;
    engine.store.clone().close().await;
    drop(engine);
    server.set(Mood::Answers);
    let app = workspace.start().await;
    assert_eq!(
        column(&app, "SELECT state FROM embedding_calls").await,
        ["lost"]
    );
    app.drain().await;
    let states = column(&app, "SELECT state FROM embedding_calls ORDER BY state").await;
    assert_eq!(states, ["answered", "lost"]);
    app.check().await;
}

#[tokio::test]
async fn usage_of_the_program_has_both_ledgers() {
    let server = EmbeddingServer::start().await;
    let workspace = workspace(&server);
    priced(&workspace);
    let app = workspace.start().await;
    writes(&app, "a", "The boiler is broken.").await;
    let shown = Command::new(env!("CARGO_BIN_EXE_attache"))
        .arg("--workspace")
        .arg(app.workspace.path())
        .args(["usage", "--by", "model", "--since", "2026-01-01", "--json"])
        .output()
        .expect("a process");
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("json");
    let models: Vec<&str> = shown["sums"]
        .as_array()
        .expect("sums")
        .iter()
        .filter_map(|sum| sum["what"].as_str())
        .collect();
    assert_eq!(models, [MODEL, "scripted/test"], "{shown}");
    assert_eq!(shown["total"]["calls"], 2);
}
