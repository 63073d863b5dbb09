//! `attache policy test` and `attache policy preview`: the rules in the files, applied to recorded calls.

use super::super::args::lookup::record_of;
use super::super::args::{number, text};
use super::super::screen::Columns;
use super::super::{CommandContext, Exit, Failure};
use crate::config::{Config, load_snapshot};
use crate::replay::policy_preview::{
    PolicyComparison, RuleEffects, preview, recorded_calls, sum_up,
};
use clap::{Arg, ArgMatches, value_parser};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub fn test_command() -> clap::Command {
    clap::Command::new("test")
        .about("Show which rule decided each call of a run, and which would decide now")
        .arg(
            Arg::new("run")
                .long("run")
                .value_name("ID")
                .required(true)
                .help("The run: its id, the last or first characters of it, or `last`"),
        )
        .arg(
            Arg::new("call")
                .long("call")
                .value_name("ID")
                .help("Only this call of it"),
        )
}

pub fn command() -> clap::Command {
    clap::Command::new("preview")
        .about("Show what the rules in the files would have allowed, asked about and refused")
        .after_help(
            "A working engine takes edited rules within seconds: write new ones elsewhere, look here by --rules what they would have \
             done, and copy them when you like what you see. Every call is decided on by the facts that were recorded with it.",
        )
        .arg(
            Arg::new("days")
                .long("days")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=3650))
                .default_value("30")
                .help("Look at the calls of the last so many days"),
        )
        .arg(
            Arg::new("rules")
                .long("rules")
                .value_name("FILE")
                .help("Rules of this file, in place of `configs/policy.json`"),
        )
}

/// Returns the configuration with another file of rules. Errors: the file cannot be read, its rules are faulty.
fn with_rules(context: &CommandContext, file: &str) -> anyhow::Result<Config> {
    let rules = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::NoInput, format!("cannot read `{file}`")).because(error)
    })?;
    let Config {
        workspace,
        names,
        snapshot,
        ..
    } = context.config()?;
    let snapshot = snapshot.with("configs/policy.json", &rules);
    Ok(load_snapshot(&workspace, &names, &snapshot)?)
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let config = match args.get_one::<String>("rules") {
        Some(file) => with_rules(context, file)?,
        None => context.config()?,
    };
    let store = context.shared_store().await?;
    let since = store.clock().now().minus(DAY * number(args, "days"));
    let (calls, without) = recorded_calls(&store, since).await?;
    let preview = sum_up(&preview(&config, &calls), without);
    if context.json() {
        context.screen.json(&preview)?;
        return Ok(Exit::Ok);
    }
    let rows = preview
        .by_rule
        .iter()
        .map(|(rule, effects)| row(rule, effects));
    let headings = ["RULE", "ALLOW", "ASK", "DENY", "CHANGED", "REJECTED THEN"];
    let nothing = "no call was recorded in that time";
    context.screen.listing(
        Columns::of(&headings).main("RULE"),
        &rows.collect::<Vec<_>>(),
        nothing,
    )?;
    if !preview.changed.is_empty() {
        context.screen.line("")?;
        compared(context, &preview.changed)?;
    }
    if without > 0 {
        let line = format!(
            "{without} calls have no recorded facts: of earlier versions, or refused before any rule"
        );
        context.screen.line(line)?;
    }
    Ok(Exit::Ok)
}

fn row(rule: &str, effects: &RuleEffects) -> Vec<String> {
    let counts = [
        effects.allow,
        effects.ask,
        effects.deny,
        effects.changed,
        effects.rejected_then,
    ];
    let counts = counts.iter().map(ToString::to_string);
    std::iter::once(rule.to_owned()).chain(counts).collect()
}

pub async fn test(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let store = context.shared_store().await?;
    let record = record_of(&store, text(args, "run")).await?;
    let begun = crate::domain::Timestamp::parse(&record.run.created_at);
    let since = begun.unwrap_or(crate::domain::Timestamp::from_millis(0));
    let (mut calls, _without) = recorded_calls(&store, since).await?;
    let wanted = text(args, "call");
    calls.retain(|(row, _)| {
        row.run.as_str() == record.run.id && (wanted.is_empty() || row.call_id == wanted)
    });
    let found = preview(&config, &calls);
    if context.json() {
        context.screen.json(&found)?;
    } else {
        compared(context, &found)?;
    }
    Ok(Exit::Ok)
}

fn compared(context: &CommandContext, calls: &[PolicyComparison]) -> anyhow::Result<()> {
    let by = |decision: &crate::policy::PolicyDecision| {
        let rule = decision.rule.as_deref().unwrap_or("table");
        format!("{} ({rule})", decision.effect.as_str())
    };
    let rows = calls.iter().map(|call| {
        vec![
            call.run.clone(),
            call.call.clone(),
            call.tool.clone(),
            call.at.to_string(),
            by(&call.then),
            by(&call.now),
            call.approval
                .map(|state| state.to_string())
                .unwrap_or_default(),
        ]
    });
    let headings = ["RUN", "CALL", "TOOL", "AT", "THEN", "NOW", "OWNER"];
    let columns = Columns::of(&headings)
        .main("TOOL")
        .optional(&["AT", "OWNER"]);
    let nothing = "no call with recorded facts";
    Ok(context
        .screen
        .listing(columns, &rows.collect::<Vec<_>>(), nothing)?)
}
