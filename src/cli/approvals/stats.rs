//! `attache approvals stats`: how often owners are asked, and how they decide.

use super::super::args::number;
use super::super::{CommandContext, Exit};
use clap::{Arg, ArgMatches, value_parser};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub fn command() -> clap::Command {
    clap::Command::new("stats")
        .about("Show how often owners are asked, how soon they decide, and how")
        .arg(
            Arg::new("days")
                .long("days")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=3650))
                .default_value("30")
                .help("Count the last so many days"),
        )
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let since = store.clock().now().minus(DAY * number(args, "days"));
    let stats = store.approval_stats(since).await?;
    if context.json() {
        context.screen.json(&stats)?;
        return Ok(Exit::Ok);
    }
    let seconds =
        |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0} s"));
    context.screen.fields(&[
        ("questions", stats.questions.to_string()),
        ("runs", stats.runs.to_string()),
        ("per 100 runs", format!("{:.1}", stats.per_100_runs)),
        ("open", stats.open.to_string()),
        ("approved", stats.approved.to_string()),
        ("rejected", stats.rejected.to_string()),
        ("edited", stats.edited.to_string()),
        ("expired", stats.expired.to_string()),
        ("other ends", stats.other.to_string()),
        ("median time to decide", seconds(stats.median_seconds)),
        ("decided within 3 s", stats.hasty.to_string()),
    ])?;
    Ok(Exit::Ok)
}
