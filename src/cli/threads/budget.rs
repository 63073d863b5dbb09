//! `attache threads budget ID`: the budget of one thread.

use crate::cli::args::lookup::not_found;
use crate::cli::{CommandContext, Exit, Failure};
use crate::config::{dollars, micros_of};
use crate::domain::{Allowance, ThreadBudget, ThreadId};
use serde::Serialize;

/// Show or set what a thread may cost, besides the budgets of its persona and of all
#[derive(clap::Args)]
pub struct BoundThread {
    /// Its id, or the last or first characters of it
    id: String,
    /// All its runs in a day, in dollars
    #[arg(long, value_name = "USD")]
    day_usd: Option<String>,
    /// All its runs in a day, in tokens
    #[arg(long, value_name = "N")]
    day_tokens: Option<String>,
    /// Each of its runs, in dollars
    #[arg(long, value_name = "USD")]
    run_usd: Option<String>,
    /// Each of its runs, in tokens
    #[arg(long, value_name = "N")]
    run_tokens: Option<String>,
    /// Take all of it back
    #[arg(long, conflicts_with_all = ["day_usd", "day_tokens", "run_usd", "run_tokens"])]
    clear: bool,
}

impl BoundThread {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let id = store
            .find_thread(&self.id)
            .await
            .map_err(|error| not_found(error, "`attache threads list`"))?;
        let before = store.thread_budget(&id).await?;
        let typed = ThreadBudget {
            run: Allowance {
                cost_micros_max: self.run_usd.map(money).transpose()?,
                tokens_max: self.run_tokens.map(count).transpose()?,
            },
            day: Allowance {
                cost_micros_max: self.day_usd.map(money).transpose()?,
                tokens_max: self.day_tokens.map(count).transpose()?,
            },
        };
        let either = |typed: Allowance, before: Allowance| Allowance {
            cost_micros_max: typed.cost_micros_max.or(before.cost_micros_max),
            tokens_max: typed.tokens_max.or(before.tokens_max),
        };
        let wanted = match self.clear {
            true => ThreadBudget::default(),
            false => ThreadBudget {
                run: either(typed.run, before.run),
                day: either(typed.day, before.day),
            },
        };
        if wanted != before {
            let is_nothing = wanted == ThreadBudget::default();
            store
                .set_thread_budget(&id, (!is_nothing).then_some(wanted))
                .await?;
        }
        if context.json() {
            context.screen.json(&ThreadBudgetRecord {
                thread: &id,
                run_micros_max: wanted.run.cost_micros_max,
                run_tokens_max: wanted.run.tokens_max,
                day_micros_max: wanted.day.cost_micros_max,
                day_tokens_max: wanted.day.tokens_max,
            })?;
            return Ok(Exit::Ok);
        }
        let usd = |micros: Option<i64>| {
            micros.map_or_else(
                || "-".to_owned(),
                |micros| format!("{} usd", dollars(micros)),
            )
        };
        let tokens = |n: Option<i64>| n.map_or_else(|| "-".to_owned(), |n| format!("{n} tokens"));
        let spell =
            |of: Allowance| format!("{}, {}", usd(of.cost_micros_max), tokens(of.tokens_max));
        context.screen.fields(&[
            ("thread", id.to_string()),
            ("each run", spell(wanted.run)),
            ("a day", spell(wanted.day)),
        ])?;
        Ok(Exit::Ok)
    }
}

fn money(typed: String) -> Result<i64, Failure> {
    micros_of(&typed).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{typed}` is no sum of money"))
            .hint("write US dollars such as `0.25`")
    })
}

fn count(typed: String) -> Result<i64, Failure> {
    let count = typed.parse().ok().filter(|count: &i64| *count > 0);
    count.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{typed}` is no number of tokens"))
            .hint("write a whole number such as `200000`")
    })
}

/// The budget of one thread.
#[derive(Serialize)]
struct ThreadBudgetRecord<'a> {
    thread: &'a ThreadId,
    run_micros_max: Option<i64>,
    run_tokens_max: Option<i64>,
    day_micros_max: Option<i64>,
    day_tokens_max: Option<i64>,
}
