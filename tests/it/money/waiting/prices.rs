//! Budgets where a price is missing or not needed.

use super::*;
use attache::domain::Email;

#[tokio::test]
async fn a_budget_in_tokens_needs_no_price() {
    let workspace = workspace(json!({ "thread_day_tokens_max": 1, "on_budget": "answer" }));
    std::fs::remove_file(workspace.path().join("configs/prices.json")).expect("it was there");
    let app = workspace.start().await;
    let run = letters(&app, 1).await.remove(0);
    app.drain().await;
    assert_eq!(app.outcome(&run).await.1.as_deref(), Some("limit_cost"));
    let told = app.notices();
    let is_about = |mail: &&Email| mail.text.contains("is 1 tokens: 0 are spent");
    assert_eq!(told.iter().filter(is_about).count(), 1, "{told:?}");
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_at_start_and_never_free() {
    let workspace = workspace(json!({ "day_usd_max": 1 }));
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "v1", "prices": [] }),
    );
    let config = || {
        attache::config::load(workspace.path(), &attache::cli::name_catalog()).expect("good files")
    };
    let open = || Engine::open(config(), workspace.clock.clone());
    let error = open().await.err().expect("refused");
    let said = error
        .downcast_ref::<ConfigErrors>()
        .expect("a problem of the configuration")
        .to_string();
    for words in [
        "configs/prices.json",
        "nobody knows what `test` of `scripted` costs",
        "reserve_usd_per_call",
    ] {
        assert!(said.contains(words), "{said}");
    }
    // Where the model is named, and the line to write.
    let inference = std::fs::read_to_string(workspace.path().join("configs/inference.json"))
        .expect("it is there");
    let line = 1 + inference
        .lines()
        .position(|line| line.contains("\"model\""))
        .expect("a model");
    let place = format!("configs/inference.json:{line}:");
    for words in [
        place.as_str(),
        r#"{"provider": "scripted", "model": "test", "input": "#,
    ] {
        assert!(said.contains(words), "{said}");
    }
    let check = Command::new(env!("CARGO_BIN_EXE_attache"))
        .args(["config", "check"])
        .current_dir(workspace.path())
        .output()
        .expect("the binary runs");
    assert!(
        String::from_utf8_lossy(&check.stdout).contains("nobody knows what"),
        "{check:?}"
    );

    // Scripts may say what a call cost; this one does not, so the whole reserve counts as spent.
    workspace.set(
        "configs/inference.json",
        "/budget/reserve_usd_per_call",
        json!(0.4),
    );
    let app = workspace.start().await;
    letters(&app, 4).await;
    app.drain().await;
    assert_eq!(succeeded(&app).await, 2);
    app.check().await;
}

#[tokio::test]
async fn a_later_budget_lets_no_model_without_a_price_be_asked() {
    let workspace = workspace(json!({}));
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "v1", "prices": [] }),
    );
    let app = workspace.start().await;
    let run = letters(&app, 1).await.remove(0);
    let thread = app
        .row("SELECT thread_id FROM runs WHERE id = $1", &run)
        .await[0]
        .clone()
        .expect("a thread");
    let day = Allowance {
        cost_micros_max: Some(1_000_000),
        tokens_max: None,
    };
    let budget = ThreadBudget {
        run: Allowance::default(),
        day,
    };
    app.engine
        .store
        .set_thread_budget(&ThreadId::new(thread), Some(budget))
        .await
        .expect("set");
    app.drain().await;
    assert_eq!(app.outcome(&run).await.2.as_deref(), Some("config"));
    let why = app
        .row("SELECT error_message FROM runs WHERE id = $1", &run)
        .await;
    assert!(
        why[0]
            .as_deref()
            .is_some_and(|why| why.contains("nobody knows what `test`")),
        "{why:?}"
    );
    assert_eq!(app.prompts(&run).await.len(), 0);
}
