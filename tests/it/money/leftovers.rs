//! Nothing stays set aside that no call needs, and no bill is so absurd that the books cannot hold it.

use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use crate::fallback::workspace;
use crate::providers::server::{Reply, Server};
use attache::domain::{
    Bound, BudgetAccount, BudgetAccountId, BudgetBalance, BudgetScope, CostSource, ErrorClass,
    Origin, Timestamp, TokenUsage, UsageLine,
};
use attache::store::{
    CallReservation, ClaimedRun, JournalEntry, RunFailure, RunKey, TurnAnswered, TurnStarted,
};
use serde_json::{Value, json};
use std::time::Duration;

const DAY: &str = "2026-11-20";

fn account(scope: BudgetScope, owner: &str) -> BudgetAccountId {
    BudgetAccountId {
        scope,
        owner: owner.to_owned(),
        period: DAY.to_owned(),
    }
}

async fn engine_purse(app: &TestApp) -> BudgetBalance {
    app.engine
        .store
        .account(&account(BudgetScope::Engine, ""))
        .await
        .expect("a purse")
}

async fn journal(app: &TestApp, run: &ClaimedRun, entry: JournalEntry) {
    let key = RunKey {
        run: run.id.clone(),
        trigger_message: run.trigger_message.clone(),
    };
    app.engine
        .store
        .persona(&run.persona)
        .journal(&key, vec![entry])
        .await
        .expect("committed");
}

/// A call that takes 40 micro-dollars and as many tokens from these budget accounts.
fn begins(turn_index: u32, accounts: Vec<BudgetAccountId>) -> JournalEntry {
    let bound = Some(Bound {
        value: 1000,
        origin: Origin::Global,
    });
    let accounts = accounts.into_iter().map(|id| BudgetAccount {
        id,
        cost_micros_max: bound,
        tokens_max: bound,
    });
    JournalEntry::TurnStarted(Box::new(TurnStarted {
        begun_json: None,
        config: None,
        turn_index,
        attempt: 1,
        request_json: "{}".into(),
        request_sha256: String::new(),
        earlier: None,
        provider: "scripted".to_owned(),
        model: "test".to_owned(),
        context: None,
        reservation: Some(CallReservation {
            micros: 40,
            tokens: 40,
            accounts: accounts.collect(),
            left_in_run: 0,
            left_elsewhere: 0,
        }),
    }))
}

fn ends(turn_index: u32, cost: i64) -> JournalEntry {
    let usage = TokenUsage {
        output_tokens: 1,
        cost_micros: Some(cost),
        ..TokenUsage::default()
    };
    let (model, source) = ("test".to_owned(), CostSource::Provider);
    let line = UsageLine {
        model,
        usage,
        source,
        price_version: None,
    };
    JournalEntry::TurnAnswered(TurnAnswered {
        ended_json: None,
        turn_index,
        attempt: 1,
        response_json: "{}".to_owned(),
        usage,
        lines: vec![line],
        worked: Duration::ZERO,
    })
}

#[tokio::test]
async fn a_run_that_leaves_a_call_behind_leaves_nothing_set_aside() {
    let app = Workspace::new(&json!({})).talkative().start().await;
    for n in 0..4 {
        app.run_of(&note(&format!("{n}@guest.example"), "", "Hello?"))
            .await;
    }
    let store = &app.engine.store;
    let runs = store.claim_runs(4, 4).await.expect("claimed");
    for run in &runs {
        journal(&app, run, begins(0, vec![account(BudgetScope::Engine, "")])).await;
    }
    assert_eq!(engine_purse(&app).await.reserved_micros, 160);
    let failure = |retry_at| RunFailure {
        class: ErrorClass::Store,
        message: "the disk was full".to_owned(),
        retry_at,
        worked: Duration::ZERO,
    };
    store
        .fail_run(&runs[0].id, failure(None))
        .await
        .expect("failed");
    let later = Timestamp::parse("2026-11-21T09:00:00.000Z");
    store
        .fail_run(&runs[1].id, failure(later))
        .await
        .expect("parked");
    store
        .requeue_run(&runs[2].id, Duration::ZERO)
        .await
        .expect("put back");
    store
        .park_unspent(&runs[3].id, failure(later), None)
        .await
        .expect("waits");
    // Nobody can prove that the calls were free.
    let BudgetBalance {
        spent_micros,
        reserved_micros,
        reserved_tokens,
        ..
    } = engine_purse(&app).await;
    assert_eq!(
        (spent_micros, reserved_micros, reserved_tokens),
        (160, 0, 0)
    );
}

#[tokio::test]
async fn a_thread_that_is_folded_into_another_takes_its_calls_along() {
    let app = Workspace::new(&json!({})).talkative().start().await;
    let letter = |n, more: &str| note(&format!("{n}@guest.example"), more, "Hello?");
    app.run_of(&letter(1, "")).await;
    app.run_of(&letter(2, "")).await;
    let runs = app.engine.store.claim_runs(2, 2).await.expect("claimed");
    let [old, young] = &runs[..] else {
        panic!("two runs")
    };
    assert_ne!(old.thread, young.thread);
    let of = |run: &ClaimedRun| account(BudgetScope::Thread, run.thread.as_str());
    let everybody = || vec![account(BudgetScope::Engine, ""), of(young)];
    journal(&app, young, begins(0, everybody())).await;
    app.run_of(&letter(
        3,
        "References: <1@guest.example> <2@guest.example>\n",
    ))
    .await;
    let state = async |run| app.engine.store.account(&of(run)).await.expect("a purse");
    assert_eq!(
        (
            state(old).await.reserved_micros,
            state(young).await.reserved_micros
        ),
        (40, 0)
    );
    journal(&app, young, ends(0, 7)).await;
    // The run does not know of it, and its next call counts where its thread is now.
    journal(&app, young, begins(1, everybody())).await;
    journal(&app, young, ends(1, 5)).await;
    let expected = BudgetBalance {
        spent_micros: 12,
        spent_tokens: 2,
        ..BudgetBalance::default()
    };
    assert_eq!(
        (state(old).await, state(young).await),
        (expected, BudgetBalance::default())
    );
    assert_eq!(engine_purse(&app).await, expected);
}

/// A house whose calls cost nothing but 10 micro-dollars a token of output, of which they may have 100.
fn house(script: Value, budget: Value) -> Workspace {
    let workspace = Workspace::new(&script);
    workspace.set("configs/inference.json", "/max_output_tokens", json!(100));
    workspace.set("configs/inference.json", "/budget", budget);
    let price = json!({ "provider": "*", "model": "*", "input": 0, "output": 10 });
    workspace.write_json(
        "configs/prices.json",
        &json!({ "version": "v1", "prices": [price] }),
    );
    workspace.talkative()
}

#[tokio::test]
async fn runs_waiting_for_each_others_change_do_not_hold_it() {
    let paused = json!({ "when": { "turn": 0 }, "stop": "paused", "usage": { "output_tokens": 50 }, "delay_ms": 300 });
    let script =
        json!({ "rules": [paused, { "say": "Seven.", "usage": { "output_tokens": 20 } }] });
    // Two calls at once, and not a third before one of them is settled.
    let app = house(script, json!({ "day_usd_max": 0.0024 }))
        .start()
        .await;
    for n in 0..2 {
        app.run_of(&note(&format!("{n}@guest.example"), "", "When?"))
            .await;
    }
    let drained = tokio::time::timeout(Duration::from_secs(30), app.drain()).await;
    assert_eq!(drained.expect("nobody waits for ever").runs, 2);
    assert_eq!(app.sent().len(), 2);
    app.check().await;
}

#[tokio::test]
async fn what_a_refused_call_held_is_given_back_before_anybody_waits() {
    let busy =
        json!({ "class": "rate_limited", "status": 429, "retry_after_ms": 15_000, "times": 1 });
    let script = json!({ "rules": [{ "say": "Seven.", "error": busy }] });
    let app = house(script, json!({ "day_usd_max": 0.01 })).start().await;
    app.run_of(&note("q@guest.example", "", "When?")).await;
    let given_back = async {
        let mut rows = app.workspace.rows().await;
        let sql = "SELECT count(*) FROM run_turns WHERE state = 'failed'";
        while db::query_scalar::<i64>(sql)
            .fetch_one(&mut rows)
            .await
            .expect("a count")
            == 0
        {
            crate::app::glance().await;
        }
    };
    tokio::select! {
        _ = app.drain() => panic!("it waits for 15 seconds"),
        found = tokio::time::timeout(Duration::from_secs(20), given_back) => found.expect("in time"),
    }
    assert_eq!(engine_purse(&app).await, BudgetBalance::default());
}

/// An answer with this usage.
fn bills(usage: &Value) -> Reply {
    let said = json!({ "choices": [{ "index": 0, "delta": { "content": "Seven." }, "finish_reason": "stop" }] });
    let usage = json!({ "choices": [], "usage": usage });
    Reply::stream(&format!(
        "data: {said}\n\ndata: {usage}\n\ndata: [DONE]\n\n"
    ))
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_bill_that_no_sum_can_hold_is_booked_all_the_same() {
    let nonsense = [
        json!({ "prompt_tokens": u64::MAX, "completion_tokens": u64::MAX, "total_tokens": 0 }),
        json!({ "prompt_tokens": 1e300, "completion_tokens": 1e300, "cost": 1e300 }),
        json!({ "prompt_tokens": -5, "completion_tokens": -1e300, "cost": -1 }),
        json!({ "prompt_tokens": "12", "completion_tokens": null, "cost": "NaN" }),
        json!({ "prompt_tokens": { "a": 1 }, "prompt_tokens_details": [1], "completion_tokens_details": 7 }),
        json!([1, 2]),
        Value::Null,
    ];
    for usage in nonsense {
        let server = Server::start(vec![bills(&usage)]).await;
        let workspace = workspace(&server, None);
        let price = json!({ "provider": "compat:one", "model": "*", "input": 3, "output": 15 });
        workspace.write_json(
            "configs/prices.json",
            &json!({ "version": "v1", "prices": [price] }),
        );
        let app = workspace.start().await;
        for n in 0..3 {
            let run = app
                .run_of(&note(&format!("{n}@guest.example"), "", "When?"))
                .await;
            app.drain().await;
            assert_eq!(app.outcome(&run).await.0, "succeeded", "{usage}");
        }
        let BudgetBalance {
            spent_micros,
            spent_tokens,
            ..
        } = engine_purse(&app).await;
        assert!(spent_micros >= 0 && spent_tokens >= 0, "{usage}");
        app.check().await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_cost_that_no_sum_can_hold_is_booked_all_the_same() {
    for (cost, booked) in [
        (i64::MAX, 1_000_000_000_000_i64),
        (i64::MIN, 0),
        (-5, 0),
        (0, 0),
        (7, 7),
    ] {
        let script = json!({ "rules": [{ "say": "Seven.", "usage": { "output_tokens": 1, "cost_micros": cost } }] });
        let app = Workspace::new(&script).talkative().start().await;
        for n in 0..3 {
            let run = app
                .run_of(&note(&format!("{n}@guest.example"), "", "When?"))
                .await;
            app.drain().await;
            assert_eq!(app.outcome(&run).await.0, "succeeded", "{cost}");
        }
        assert_eq!(engine_purse(&app).await.spent_micros, 3 * booked, "{cost}");
        app.check().await;
    }
}
