//! Which bound is in force and where it was said: responsibility, thread, persona, all.

use crate::app::{START, Workspace};
use attache::config::spending;
use attache::config::{Config, Spending, load};
use attache::domain::{
    Allowance, BudgetScope, OnBudget, Origin, PersonaId, ThreadBudget, ThreadId, Timestamp,
};
use serde_json::json;

fn config(all: serde_json::Value, own: serde_json::Value) -> Config {
    let workspace = Workspace::new(&json!({}));
    workspace.set("configs/inference.json", "/budget", all);
    workspace.set("personas/ada/persona.json", "/budget", own);
    load(workspace.path(), &attache::cli::name_catalog()).expect("a good configuration")
}

fn resolved(config: &Config, thread: ThreadBudget, duty: Option<i64>) -> Spending {
    let ada = config
        .personas
        .get(&PersonaId::parse("ada").expect("an id"))
        .expect("ada");
    let now = Timestamp::parse(START).expect("an instant");
    spending(
        (&config.inference, ada),
        (&ThreadId::new("t1"), thread),
        duty,
        now,
    )
}

fn run(spending: &Spending) -> Option<(i64, Origin)> {
    spending
        .run_cost_micros_max
        .map(|bound| (bound.value, bound.origin))
}

#[test]
fn a_run_has_the_nearest_bound_said_even_where_it_is_wider() {
    let all = json!({ "cost_usd_max": 1, "tokens_max": 1000 });
    let own = json!({ "cost_usd_max": 2.5, "tokens_max": 2000 });
    let thread = |cost_micros_max, tokens_max| ThreadBudget {
        run: Allowance {
            cost_micros_max,
            tokens_max,
        },
        day: Allowance::default(),
    };
    let none = ThreadBudget::default();
    #[rustfmt::skip]
    let cases = [
        (json!({}), json!({}), none, None, None, (500_000, Origin::Default)),
        (all.clone(), json!({}), none, None, Some((1_000_000, Origin::Global)), (1000, Origin::Global)),
        (all.clone(), own.clone(), none, None, Some((2_500_000, Origin::Persona)), (2000, Origin::Persona)),
        (
            all.clone(),
            own.clone(),
            thread(Some(7), None),
            None,
            Some((7, Origin::Thread)),
            (2000, Origin::Persona),
        ),
        (
            all.clone(),
            own.clone(),
            thread(Some(7), Some(9)),
            Some(3_000_000),
            Some((3_000_000, Origin::Responsibility)),
            (9, Origin::Thread),
        ),
        (json!({}), json!({}), none, Some(0), Some((0, Origin::Responsibility)), (500_000, Origin::Default)),
    ];
    for (all, own, thread, duty, cost, tokens) in cases {
        let said = format!("{all} {own} {thread:?} {duty:?}");
        let found = resolved(&config(all, own), thread, duty);
        assert_eq!(run(&found), cost, "{said}");
        assert_eq!(
            (found.run_tokens_max.value, found.run_tokens_max.origin),
            tokens,
            "{said}"
        );
    }
}

#[test]
fn every_day_and_month_is_a_purse_of_its_own_and_all_hold() {
    let all = json!({ "day_usd_max": 10, "month_tokens_max": 900, "persona_day_usd_max": 4, "persona_month_usd_max": 40,
        "thread_day_usd_max": 1, "on_budget": "answer", "timezone": "Pacific/Auckland" });
    let found = resolved(
        &config(all.clone(), json!({})),
        ThreadBudget::default(),
        None,
    );
    let accounts = |spending: &Spending| {
        let line = |account: &attache::domain::BudgetAccount| {
            let bound = |bound: Option<attache::domain::Bound>| {
                bound.map(|b| format!("{} {}", b.value, b.origin))
            };
            let (cost, tokens) = (bound(account.cost_micros_max), bound(account.tokens_max));
            format!(
                "{}/{}/{} {cost:?} {tokens:?}",
                account.id.scope, account.id.owner, account.id.period
            )
        };
        spending.accounts.iter().map(line).collect::<Vec<_>>()
    };
    // It is ten in the evening there.
    assert_eq!(
        accounts(&found),
        [
            "engine//2026-11-20 Some(\"10000000 global\") None",
            "engine//2026-11 None Some(\"900 global\")",
            "persona/ada/2026-11-20 Some(\"4000000 global\") None",
            "persona/ada/2026-11 Some(\"40000000 global\") None",
            "thread/t1/2026-11-20 Some(\"1000000 global\") None",
        ]
    );
    assert_eq!(found.on_budget, OnBudget::Answer);

    let own = json!({ "day_usd_max": 20, "thread_day_tokens_max": 5, "on_budget": "wait" });
    let thread = ThreadBudget {
        run: Allowance::default(),
        day: Allowance {
            cost_micros_max: Some(2),
            tokens_max: None,
        },
    };
    let found = resolved(&config(all, own), thread, None);
    assert_eq!(
        accounts(&found)[2..],
        [
            "persona/ada/2026-11-20 Some(\"20000000 persona\") None",
            "persona/ada/2026-11 Some(\"40000000 global\") None",
            "thread/t1/2026-11-20 Some(\"2 thread\") Some(\"5 persona\")",
        ]
    );
    assert_eq!(found.on_budget, OnBudget::Wait);
    assert!(
        found.counts_money()
            && found
                .accounts
                .iter()
                .all(|account| account.id.scope != BudgetScope::Run)
    );
}
