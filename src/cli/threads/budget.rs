//! `attache threads budget ID`: the budget of one thread.

use crate::cli::args::lookup::not_found;
use crate::cli::args::{id_arg, text};
use crate::cli::{CommandContext, Exit, Failure};
use crate::config::{dollars, micros_of};
use crate::domain::{Allowance, ThreadBudget, ThreadId};
use clap::{Arg, ArgAction, ArgMatches};
use serde::Serialize;

pub fn command() -> clap::Command {
    let bound = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    clap::Command::new("budget")
        .about("Show or set what a thread may cost, besides the budgets of its persona and of all")
        .arg(id_arg())
        .arg(bound("day-usd", "USD", "All its runs in a day, in dollars"))
        .arg(bound("day-tokens", "N", "All its runs in a day, in tokens"))
        .arg(bound("run-usd", "USD", "Each of its runs, in dollars"))
        .arg(bound("run-tokens", "N", "Each of its runs, in tokens"))
        .arg(
            Arg::new("clear")
                .long("clear")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["day-usd", "day-tokens", "run-usd", "run-tokens"])
                .help("Take all of it back"),
        )
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let id = store
        .find_thread(text(args, "id"))
        .await
        .map_err(|error| not_found(error, "`attache threads list`"))?;
    let before = store.thread_budget(&id).await?;
    let (usd, tokens) = (
        |name: &str| money(args, name),
        |name: &str| count(args, name),
    );
    let typed = ThreadBudget {
        run: Allowance {
            cost_micros_max: usd("run-usd")?,
            tokens_max: tokens("run-tokens")?,
        },
        day: Allowance {
            cost_micros_max: usd("day-usd")?,
            tokens_max: tokens("day-tokens")?,
        },
    };
    let either = |typed: Allowance, before: Allowance| Allowance {
        cost_micros_max: typed.cost_micros_max.or(before.cost_micros_max),
        tokens_max: typed.tokens_max.or(before.tokens_max),
    };
    let wanted = match args.get_flag("clear") {
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
    let spell = |of: Allowance| format!("{}, {}", usd(of.cost_micros_max), tokens(of.tokens_max));
    context.screen.fields(&[
        ("thread", id.to_string()),
        ("each run", spell(wanted.run)),
        ("a day", spell(wanted.day)),
    ])?;
    Ok(Exit::Ok)
}

fn money(args: &ArgMatches, name: &str) -> Result<Option<i64>, Failure> {
    let Some(typed) = args.get_one::<String>(name) else {
        return Ok(None);
    };
    micros_of(typed).map(Some).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{typed}` is no sum of money"))
            .hint("write US dollars such as `0.25`")
    })
}

fn count(args: &ArgMatches, name: &str) -> Result<Option<i64>, Failure> {
    let Some(typed) = args.get_one::<String>(name) else {
        return Ok(None);
    };
    let count = typed.parse().ok().filter(|count: &i64| *count > 0);
    count.map(Some).ok_or_else(|| {
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
