//! What a call costs: patterns, days, rounding, several models, and what nobody knows.

use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use attache::config::{Prices, load};
use attache::domain::{Rates, Timestamp, TokenUsage};
use attache::store::{UsageBy, UsageSince};
use chrono::NaiveDate;
use serde_json::{Value, json};

fn table(prices: &Value) -> Prices {
    let workspace = Workspace::new(&json!({}));
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "v7", "prices": prices }),
    );
    load(workspace.path(), &attache::cli::name_catalog())
        .expect("a good configuration")
        .prices
}

fn day(text: &str) -> NaiveDate {
    text.parse().expect("a day")
}

#[test]
fn the_most_specific_name_that_has_begun_prices_a_model() {
    let price = |provider: &str, model: &str, input: f64, since: Option<&str>| json!({ "provider": provider, "model": model, "input": input, "output": 0, "since": since });
    let prices = table(&json!([
        price("anthropic", "claude-sonnet-4*", 3.0, None),
        price("anthropic", "claude-sonnet-4-5*", 4.0, None),
        price("anthropic", "claude-sonnet-4-5*", 5.0, Some("2026-12-01")),
        price("anthropic", "claude-sonnet-4-5-20250929", 6.0, None),
        price("*", "claude*", 9.0, None),
        price("compat:*", "tiny", 0.075, None),
    ]));
    let cases = [
        (
            "anthropic",
            "claude-sonnet-4-20250514",
            "2026-11-21",
            Some(3_000_000),
        ),
        (
            "anthropic",
            "claude-sonnet-4-5",
            "2026-11-30",
            Some(4_000_000),
        ),
        (
            "anthropic",
            "claude-sonnet-4-5",
            "2026-12-01",
            Some(5_000_000),
        ),
        (
            "anthropic",
            "claude-sonnet-4-5-20250929",
            "2026-12-01",
            Some(6_000_000),
        ),
        (
            "openrouter",
            "claude-sonnet-4-5",
            "2026-12-01",
            Some(9_000_000),
        ),
        ("compat:groq", "tiny", "2026-12-01", Some(75_000)),
        ("compat:groq", "tiny-2", "2026-12-01", None),
        ("openai", "gpt", "2026-12-01", None),
    ];
    for (provider, model, on, wanted) in cases {
        let found = prices
            .find(provider, model, day(on))
            .map(|rates| rates.input);
        assert_eq!(found, wanted, "{provider}/{model} on {on}");
    }
}

/// What the sample prices know, by the day of the sample.
fn shipped() -> Prices {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/prices.json");
    let text = std::fs::read_to_string(file).expect("the sample");
    table(&serde_json::from_str::<Value>(&text).expect("JSON")["prices"])
}

#[test]
fn sample_prices_know_the_readmes_models_and_current_families() {
    let prices = shipped();
    let found = |provider: &str, model: &str| {
        let rates = prices.find(provider, model, day("2026-11-22"));
        rates.map(|rates| (rates.input / 10_000, rates.output / 10_000))
    };
    // Cents per million tokens.
    for (model, cents) in [
        ("claude-sonnet-4-5", (300, 1500)),
        ("claude-sonnet-4-5-20250929", (300, 1500)),
        ("claude-sonnet-4-20250514", (300, 1500)),
        ("claude-sonnet-5", (200, 1000)),
        ("claude-opus-4-20250514", (1500, 7500)),
        ("claude-opus-4-1-20250805", (1500, 7500)),
        ("claude-opus-4-8", (500, 2500)),
        ("claude-opus-5", (500, 2500)),
        ("claude-opus-5-5", (400, 2000)),
        ("claude-haiku-4-5-20251001", (100, 500)),
        ("claude-haiku-5-5", (10, 50)),
        ("claude-fable-5-1", (1000, 5000)),
    ] {
        assert_eq!(found("anthropic", model), Some(cents), "{model}");
    }
    for (model, cents) in [
        ("gpt-5", (125, 1000)),
        ("gpt-5-mini", (25, 200)),
        ("gpt-5-nano-2025-08-07", (5, 40)),
        ("gpt-5.1", (125, 1000)),
        ("gpt-4.1-2025-04-14", (200, 800)),
        ("gpt-4.1-nano", (10, 40)),
    ] {
        assert_eq!(found("openai", model), Some(cents), "{model}");
    }
    // A name that no family covers is unknown, not what a cheaper one costs.
    assert_eq!(
        (
            found("openai", "gpt-5-pro"),
            found("openai", "gpt-4o-2024-05-13")
        ),
        (None, None)
    );
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"))
        .expect("it is there");
    let models: Vec<&str> = readme
        .lines()
        .filter_map(|line| line.trim().strip_prefix("\"model\": \"")?.split('"').next())
        .filter(|model| model.starts_with("claude-"))
        .collect();
    assert!(!models.is_empty(), "README names no model");
    for model in models {
        assert!(
            found("anthropic", model).is_some(),
            "{model} of README has no price"
        );
    }
}

#[test]
fn costs_are_whole_micro_dollars_rounded_up_and_never_overflow() {
    let rates = Rates {
        input: 75_000,
        output: 300_000,
        cache_read: 18_750,
        cache_write: 93_750,
    };
    let used = |input_tokens, cache_read_tokens, cache_write_tokens, output_tokens| TokenUsage {
        input_tokens,
        cache_read_tokens,
        cache_write_tokens,
        output_tokens,
        ..TokenUsage::default()
    };
    assert_eq!(rates.cost_micros(used(0, 0, 0, 0)), 0);
    // 0.075 micro-dollars are one.
    assert_eq!(rates.cost_micros(used(1, 0, 0, 0)), 1);
    assert_eq!(rates.cost_micros(used(1_000_000, 0, 0, 1_000_000)), 375_000);
    // 1,000 * (0.075 + 0.01875 + 0.09375 + 0.3) = 487.5
    assert_eq!(rates.cost_micros(used(1000, 1000, 1000, 1000)), 488);
    let dear = Rates {
        input: 1_000_000_000_000,
        output: 1_000_000_000_000,
        ..rates
    };
    assert_eq!(
        dear.cost_micros(used(u64::MAX, u64::MAX, u64::MAX, u64::MAX)),
        i64::MAX
    );
    assert_eq!(rates.dearest_input(), 93_750);
}

#[test]
fn a_price_that_cannot_be_meant_is_a_problem_with_a_place() {
    let workspace = Workspace::new(&json!({}));
    let mut price = json!({ "provider": "a*b", "model": "m", "input": 0.000_000_1, "output": 1, "since": "soon" });
    price["outptu"] = json!(1);
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "v", "prices": [price] }),
    );
    let errors = load(workspace.path(), &attache::cli::name_catalog())
        .expect_err("four mistakes")
        .to_string();
    for said in ["outptu", "prices[0]"] {
        assert!(errors.contains(said), "{errors}");
    }
    price.as_object_mut().expect("an object").remove("outptu");
    workspace.set("configs/prices.json", "/prices", json!([price]));
    let errors = load(workspace.path(), &attache::cli::name_catalog())
        .expect_err("three mistakes")
        .to_string();
    for said in [
        "has a `*` that is not its end",
        "more than six decimals",
        "`soon` is not a day",
    ] {
        assert!(errors.contains(said), "{errors}");
    }
}

/// Model, input tokens, cost and where it is from, in the ledger of a run.
async fn ledger(
    app: &TestApp,
    run: &str,
) -> Vec<(String, i64, Option<i64>, String, Option<String>)> {
    let sql =
        "SELECT model, input_tokens, cost_micros, cost_source, price_version FROM usage_ledger
        WHERE run_id = $1 ORDER BY turn_index, attempt, model";
    db::query_as(sql)
        .bind(run)
        .fetch_all(&mut app.workspace.rows().await)
        .await
        .expect("a ledger")
}

#[tokio::test]
async fn a_call_is_priced_by_the_provider_else_the_table_else_not() {
    let usage = json!({ "input_tokens": 1_000_000, "output_tokens": 1 });
    let script = json!({ "rules": [
        { "when": { "contains": "reported" }, "say": "Yes.", "usage": { "input_tokens": 5, "cost_micros": 77 } },
        { "say": "Yes.", "usage": usage },
    ] });
    let workspace = Workspace::new(&script).talkative();
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "v7", "prices": [{ "provider": "scripted", "model": "te*", "input": 0.5, "output": 10 }] }),
    );
    let app = workspace.start().await;
    let reported = app.run_of(&note("a@guest.example", "", "reported")).await;
    let priced = app.run_of(&note("b@guest.example", "", "priced")).await;
    app.drain().await;
    app.workspace
        .set("configs/inference.json", "/model", json!("mystery"));
    let app = app.restart().await;
    let unknown = app.run_of(&note("c@guest.example", "", "unknown")).await;
    app.drain().await;
    app.check().await;
    let text = str::to_owned;
    assert_eq!(
        ledger(&app, &reported).await,
        [(text("test"), 5, Some(77), text("provider"), None)]
    );
    let by_table = (
        text("test"),
        1_000_000,
        Some(500_010),
        text("price_table"),
        Some(text("v7")),
    );
    assert_eq!(ledger(&app, &priced).await, [by_table]);
    assert_eq!(
        ledger(&app, &unknown).await,
        [(text("mystery"), 1_000_000, None, text("unknown"), None)]
    );
    let sums = "SELECT CAST(sum(cost_micros) AS TEXT) FROM runs WHERE $1 = $1";
    assert_eq!(app.row(sums, "").await[0].as_deref(), Some("500087"));
    let groupings = UsageBy::ALL.iter().copied().map(Some).chain([None]);
    for by in groupings {
        let of_days = UsageSince::Day("2026-11-01".to_owned());
        let of_calls = UsageSince::Instant(Timestamp::from_millis(0));
        let store = &app.engine.store;
        let of_days = store.usage_since(&of_days, by, 10).await.expect("sums");
        let of_calls = store.usage_since(&of_calls, by, 10).await.expect("sums");
        assert!(!of_days.is_empty());
        assert_eq!(of_days, of_calls, "the sums of days by {by:?}");
    }
}
