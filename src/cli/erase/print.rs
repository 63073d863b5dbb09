//! An erasure on the screen: what would go, and what went.

use crate::cli::CommandContext;
use crate::keeping::{ERASURE_REPORTS, ErasureForecast, ErasureReport, NamedBackup};
use crate::store::QuotingMessage;
use crate::text::plural;
use serde::Serialize;
use std::collections::BTreeMap;

/// What would go, as `--json` prints it.
#[derive(Serialize)]
struct ForecastRecord<'a> {
    dry_run: bool,
    addresses: usize,
    counts: BTreeMap<String, u64>,
    memory_entries: usize,
    held_letters: u64,
    files_changed: &'a [String],
    files_removed: &'a [String],
    files_left: &'a [String],
    quoting: Vec<&'a QuotingMessage>,
    quoting_held: Vec<&'a QuotingMessage>,
    still_open: &'a [String],
    backups: &'a [NamedBackup],
    /// Erasures that were begun before and are not finished.
    interrupted: usize,
}

pub(super) fn forecast(
    context: &CommandContext,
    (found, interrupted): (&ErasureForecast, usize),
    is_dry: bool,
) -> anyhow::Result<()> {
    let scope = &found.scope;
    if context.json() {
        return context.screen.json(&ForecastRecord {
            dry_run: true,
            addresses: scope.addresses.len(),
            counts: scope.counts(),
            memory_entries: found.memory,
            held_letters: found.scope.held.len() as u64,
            files_changed: &found.files.changed,
            files_removed: &found.files.removed,
            files_left: &found.files.left,
            quoting: scope.quoting.iter().collect(),
            quoting_held: scope.quoting_held.iter().collect(),
            still_open: &scope.open,
            backups: &found.backups,
            interrupted,
        });
    }
    let screen = &context.screen;
    screen.line(format!("would be erased: {}", in_short(found)))?;
    for (what, files) in [
        ("would lose lines", &found.files.changed),
        ("would be removed", &found.files.removed),
        ("quotes and stays", &found.files.left),
    ] {
        for file in files {
            screen.line(format!("{what}: {file}"))?;
        }
    }
    for QuotingMessage { id, persona } in &scope.quoting {
        screen.line(format!(
            "quotes and stays without --quotes: message {id} of {persona}"
        ))?;
    }
    held_that_stay(context, &scope.quoting_held)?;
    for id in &scope.open {
        screen.line(format!("still open, and in the way: {id}"))?;
    }
    backups(context, &found.backups)?;
    if interrupted > 0 {
        screen.line(
            "an erasure was interrupted: `attache erase --resume` finishes it, and comes first",
        )?;
    }
    screen.line(match is_dry {
        true => "nothing was changed",
        false => "nothing was changed; say --yes to do it",
    })?;
    Ok(())
}

/// Counts what would go.
fn in_short(found: &ErasureForecast) -> String {
    let scope = &found.scope;
    let held = match found.scope.held.len() {
        0 => String::new(),
        held => format!(", {}", plural(held, "held letter")),
    };
    format!(
        "{} of {}, {} in all, {}, the records of {}, {} of memory{held}",
        plural(scope.letters.len(), "letter"),
        match scope.addresses.len() {
            1 => "1 address".to_owned(),
            count => format!("{count} addresses"),
        },
        plural(scope.messages.len(), "message"),
        plural(scope.whole_threads.len(), "whole thread"),
        plural(scope.runs.len(), "run"),
        match found.memory {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        },
    )
}

pub(super) fn report(context: &CommandContext, report: &ErasureReport) -> anyhow::Result<()> {
    let screen = &context.screen;
    let rows: Vec<Vec<String>> = report
        .counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| vec![kind.clone(), count.to_string()])
        .collect();
    screen.table(&["ERASED", "COUNT"], &rows)?;
    for QuotingMessage { id, persona } in &report.quoting {
        screen.line(format!("quotes and stays: message {id} of {persona}"))?;
    }
    held_that_stay(context, &report.quoting_held)?;
    for (what, files) in [
        ("lost lines", &report.files_changed),
        ("was removed", &report.files_removed),
        ("quotes and stays", &report.files_left),
    ] {
        for file in files {
            screen.line(format!("{what}: {file}"))?;
        }
    }
    if report.remains.is_none() {
        screen.line("it was interrupted, and not searched again for words of the person")?;
    }
    for (place, rows) in report.remains.iter().flatten() {
        screen.line(format!(
            "words still stand in {} of {place}",
            plural(*rows, "row")
        ))?;
    }
    backups(context, &report.backups)?;
    if !report.is_rewritten {
        screen.line("the file was not written anew: another program uses it; end it, and say `attache erase --resume`")?;
    }
    screen.line(format!(
        "report: {ERASURE_REPORTS}/{}.json, signed",
        report.id
    ))?;
    Ok(())
}

fn held_that_stay<'a>(
    context: &CommandContext,
    letters: impl IntoIterator<Item = &'a QuotingMessage>,
) -> anyhow::Result<()> {
    for QuotingMessage { id, persona } in letters {
        context.screen.line(format!(
            "quotes or names and stays: held letter {id} to {persona}"
        ))?;
    }
    Ok(())
}

fn backups(context: &CommandContext, backups: &[NamedBackup]) -> anyhow::Result<()> {
    for backup in backups {
        context.screen.line(format!(
            "holds it still: {}; it goes {}",
            backup.path.display(),
            backup.goes
        ))?;
    }
    Ok(())
}
