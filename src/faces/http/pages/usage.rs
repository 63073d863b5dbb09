//! Usage: what calls cost, by day, persona and model, and what budgets still allow.

use super::strip::StripBar;
use crate::domain::first_day;
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::templates::grouped;
use crate::store::{AccountLine, BudgetRecord, UsageBy, UsageSince, UsageSum};
use axum::response::Response;
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

/// Most lines of a table.
const LINES_MAX: usize = 200;
/// Longest span, in days.
const DAYS_MAX: u64 = 400;
const DAYS: u64 = 30;

#[derive(Serialize)]
struct SumLine {
    #[serde(flatten)]
    sum: UsageSum,
    read_tokens: i64,
    bar: StripBar,
}

#[derive(Serialize)]
struct BudgetLine {
    #[serde(flatten)]
    record: BudgetRecord,
    whose: String,
    spent_words: String,
    left_words: Option<String>,
    max_words: Option<String>,
    bar: Option<StripBar>,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let (store, config) = (&call.context.store, &call.context.config);
    let now = call.context.now();
    let days = call
        .query("days")
        .parse::<u64>()
        .unwrap_or(DAYS)
        .clamp(1, DAYS_MAX);
    let since = UsageSince::Day(first_day(days, now, &config.inference.budgets.zone));
    let mut tables = Vec::new();
    for by in [UsageBy::Day, UsageBy::Persona, UsageBy::Model] {
        let sums = store.usage_since(&since, Some(by), LINES_MAX).await?;
        tables.push(json!({
            "by": by.as_str(),
            "sums": lines(sums),
        }));
    }
    let accounts = store
        .account_lines(&config.inference, &config.personas, now)
        .await?;
    let is_listed = |line: &&AccountLine| line.bound.is_some() || line.spent + line.reserved > 0;
    let listed: Vec<BudgetLine> = accounts.iter().filter(is_listed).map(budget).collect();
    let page = json!({
        "days": days,
        "spans": [1, 7, 30, 365],
        "total": store.usage_total(&since).await?,
        "tables": tables,
        "budgets_idle": accounts.len() - listed.len(),
        "budgets": listed,
        "zone": config.inference.budgets.zone.name(),
        "runs_waiting": store.runs_waiting_for_money().await?,
        "runs_without_answer": store
            .runs_without_answer(now.minus(Duration::from_secs(days * 86_400)))
            .await?,
    });
    call.page("usage.html", &page).await
}

fn lines(sums: Vec<UsageSum>) -> Vec<SumLine> {
    let most = sums
        .iter()
        .filter_map(|sum| sum.cost_micros)
        .max()
        .unwrap_or(0);
    let line = |sum: UsageSum| SumLine {
        read_tokens: sum.input_tokens + sum.cache_read_tokens + sum.cache_write_tokens,
        bar: share(sum.cost_micros.unwrap_or(0), most),
        sum,
    };
    sums.into_iter().map(line).collect()
}

fn budget(line: &AccountLine) -> BudgetLine {
    let bound = line.bound.map(|bound| bound.value);
    let spell = |amount: i64| match line.unit {
        "usd" => format!("${}", line.spell(amount)),
        _ => format!("{} tokens", grouped(amount)),
    };
    BudgetLine {
        record: BudgetRecord::from(line),
        whose: line.account.whose(),
        spent_words: spell(line.spent + line.reserved),
        left_words: line.left().map(spell),
        max_words: bound.map(spell),
        bar: bound.map(|bound| share(line.spent + line.reserved, bound)),
    }
}

/// Returns the bar of an amount beside the largest one.
fn share(amount: i64, most: i64) -> StripBar {
    let share = amount.max(0).saturating_mul(1_000) / most.max(1);
    StripBar {
        from: 0,
        width: u64::try_from(share).unwrap_or(0).min(1_000),
    }
}
