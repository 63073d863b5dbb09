//! `attache policy test` and `attache policy preview`: the rules in the files, applied to recorded calls.

use super::super::args::lookup::record_of;
use super::super::screen::Columns;
use super::super::{CommandContext, Exit, Failure};
use crate::config::{Config, load_snapshot};
use crate::replay::policy_preview::{
    PolicyComparison, RuleEffects, preview, recorded_calls, sum_up,
};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

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

pub async fn run(
    context: &CommandContext,
    days: u32,
    rules: Option<String>,
) -> anyhow::Result<Exit> {
    let config = match rules {
        Some(file) => with_rules(context, &file)?,
        None => context.config()?,
    };
    let store = context.shared_store().await?;
    let since = store.clock().now().minus(DAY * days);
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

pub async fn test(
    context: &CommandContext,
    run: &str,
    call: Option<String>,
) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let store = context.shared_store().await?;
    let record = record_of(&store, run).await?;
    let begun = crate::domain::Timestamp::parse(&record.run.created_at);
    let since = begun.unwrap_or(crate::domain::Timestamp::from_millis(0));
    let (mut calls, _without) = recorded_calls(&store, since).await?;
    calls.retain(|(row, _)| {
        row.run.as_str() == record.run.id
            && call
                .as_ref()
                .is_none_or(|call| call.is_empty() || row.call_id == *call)
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
