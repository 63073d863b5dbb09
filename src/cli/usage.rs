//! `attache usage`: usage and cost of calls, and the rest of the budgets.

use super::args::instant;
use super::screen::Columns;
use super::{CommandContext, Exit};
use crate::clock::{Clock, SystemClock};
use crate::config::dollars;
use crate::domain::Timestamp;
use crate::store::{AccountLine, BudgetRecord, Store, UsageBy, UsageSince, UsageSum};
use crate::text::plural;
use clap::builder::PossibleValuesParser;
use serde_json::json;

/// Show what calls used and cost, and what may still be spent
#[derive(clap::Args)]
pub struct UsageCommand {
    /// Only calls since then: `30m`, `24h`, `7d`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z
    #[arg(long, value_name = "TIME", default_value = "30d")]
    since: String,
    /// Sum up by this
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "day",
        value_parser = PossibleValuesParser::new(UsageBy::ALL.iter().map(|by| by.as_str()))
    )]
    by: String,
    /// Show every budget instead: spent, reserved for calls in flight, left, and where it was set
    #[arg(long)]
    budgets: bool,
}

impl UsageCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        if self.budgets {
            budgets(context, &store).await?;
            return Ok(Exit::Ok);
        }
        let by = UsageBy::parse(&self.by).unwrap_or(UsageBy::Day);
        sums(context, &store, instant(&self.since)?, by).await?;
        Ok(Exit::Ok)
    }
}

/// Maximum lines of one listing.
const LINES_MAX: usize = 1000;

async fn sums(
    context: &CommandContext,
    store: &Store,
    since: Timestamp,
    by: UsageBy,
) -> anyhow::Result<()> {
    let begin = UsageSince::Instant(since);
    let sums = store.usage_since(&begin, Some(by), LINES_MAX).await?;
    let total = store.usage_total(&begin).await?;
    let waiting = store.runs_waiting_for_money().await?;
    if context.json() {
        return context.screen.json(&json!({
            "since": since,
            "by": by.as_str(),
            "sums": sums,
            "total": total,
            "runs_waiting_for_money": waiting,
        }));
    }
    let headings = [
        by.as_str().to_uppercase(),
        "CALLS".to_owned(),
        "IN".to_owned(),
        "CACHED".to_owned(),
        "OUT".to_owned(),
        "REASONING".to_owned(),
        "USD".to_owned(),
        "SOURCE".to_owned(),
        "UNKNOWN".to_owned(),
        "LOST".to_owned(),
        "ESTIMATED".to_owned(),
    ];
    let headings = headings.iter().map(String::as_str).collect::<Vec<_>>();
    let rows = sums
        .iter()
        .chain((sums.len() > 1).then_some(&total))
        .map(row);
    let columns = Columns::of(&headings).main(headings[0]).optional(&[
        "REASONING",
        "SOURCE",
        "CACHED",
        "ESTIMATED",
    ]);
    context.screen.listing(
        columns,
        &rows.collect::<Vec<_>>(),
        "no model was called since then",
    )?;
    for remark in remarks(&total, waiting) {
        context.screen.line(remark)?;
    }
    Ok(())
}

/// Remarks on what the columns omit.
fn remarks(total: &UsageSum, waiting: i64) -> Vec<String> {
    let mut remarks = Vec::new();
    if total.unknown_cost > 0 {
        let hint = "a price in `configs/prices.json` makes later ones known";
        remarks.push(format!(
            "{} answers have no known cost and are not in the sums; {hint}",
            total.unknown_cost
        ));
    }
    if total.lost > 0 {
        let held = dollars(total.held_micros);
        remarks.push(format!(
            "{} without an answer, which may be billed; budgets count {held} dollars for what is not known",
            plural(total.lost, "call")
        ));
    }
    if waiting > 0 {
        remarks.push(format!(
            "{} waiting for money; see `attache usage --budgets`",
            plural(waiting, "run")
        ));
    }
    remarks
}

fn row(sum: &UsageSum) -> Vec<String> {
    let open = if sum.unknown_cost + sum.lost > 0 {
        " + ?"
    } else {
        ""
    };
    vec![
        sum.what.clone(),
        sum.calls.to_string(),
        (sum.input_tokens + sum.cache_write_tokens).to_string(),
        sum.cache_read_tokens.to_string(),
        sum.output_tokens.to_string(),
        sum.reasoning_tokens.to_string(),
        sum.cost_micros.map_or_else(
            || "?".to_owned(),
            |micros| format!("{}{open}", dollars(micros)),
        ),
        sum.sources.join(", "),
        sum.unknown_cost.to_string(),
        sum.lost.to_string(),
        sum.estimated.to_string(),
    ]
}

/// Returns the cells of a budget account's line.
fn cells(line: &AccountLine) -> Vec<String> {
    let none = || "-".to_owned();
    vec![
        line.account.whose(),
        if line.account.period.is_empty() {
            "each run".to_owned()
        } else {
            line.account.period.clone()
        },
        line.unit.to_owned(),
        line.spell(line.spent),
        line.spell(line.reserved),
        line.left().map_or_else(none, |left| line.spell(left)),
        line.bound
            .map_or_else(|| "no bound".to_owned(), |bound| line.spell(bound.value)),
        line.bound
            .map_or_else(none, |bound| bound.origin.to_string()),
    ]
}

async fn budgets(context: &CommandContext, store: &Store) -> anyhow::Result<()> {
    let config = context.config()?;
    let now = SystemClock::new().now();
    let lines = store
        .account_lines(&config.inference, &config.personas, now)
        .await?;
    let (zone, waiting) = (
        config.inference.budgets.zone.name(),
        store.runs_waiting_for_money().await?,
    );
    if context.json() {
        return context.screen.json(&json!({
            "timezone": zone,
            "budgets": lines.iter().map(BudgetRecord::from).collect::<Vec<_>>(),
            "runs_waiting_for_money": waiting,
        }));
    }
    let headings = [
        "PURSE", "PERIOD", "UNIT", "SPENT", "RESERVED", "LEFT", "MAX", "SET BY",
    ];
    let columns = Columns::of(&headings)
        .main("PURSE")
        .optional(&["RESERVED", "SET BY"]);
    context.screen.listing(
        columns,
        &lines.iter().map(cells).collect::<Vec<_>>(),
        "no persona lives here",
    )?;
    context
        .screen
        .line(format!("days and months begin at midnight in {zone}"))?;
    if waiting > 0 {
        let hint = "raise one, or `attache threads budget ID`, and they go at once";
        context.screen.line(format!(
            "{} waiting for money; {hint}",
            plural(waiting, "run")
        ))?;
    }
    Ok(())
}
