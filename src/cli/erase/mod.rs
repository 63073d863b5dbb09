//! `attache erase --contact ADDRESS`: what a person wrote goes from every row and file, and a signed report says so.

use super::args::user;
use super::backup::refusal;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::SystemClock;
use crate::domain::Address;
use crate::keeping;
use crate::keeping::{ERASURE_REPORTS, ErasureForecast, ErasureReport, KeepingError, NamedBackup};
use crate::store::{QuotingMessage, Store};
use crate::text::plural;
use clap::ArgGroup;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Erase what a person wrote, from every row and file, and sign a report of it
#[derive(clap::Args)]
#[command(
    after_help = "Goes: letters of all addresses of the person with attachments, whole threads in which nobody else wrote, mails that went \
                  to nobody else, answers to their letters, memory, summaries, records of every run that was told of them, approvals and \
                  drafts, earlier versions of files. Rows stay without words, with instant, address and digest, so that threads and sums hold.\n\n\
                  Stays unless --quotes: what others wrote that quotes the person; the report lists it. Backups, exports and what providers \
                  keep are not touched; the report names the backups here. The engine must be stopped: the file is written anew.",
    group = ArgGroup::new("what").args(["contact", "resume", "verify"]).required(true)
)]
pub struct EraseCommand {
    /// Address of the person; aliases of `attache memory alias` are followed
    #[arg(long, value_name = "ADDRESS")]
    contact: Option<String>,
    /// Finish erasures that were interrupted
    #[arg(long)]
    resume: bool,
    /// Say whether this workspace signed the report, and nothing was changed in it
    #[arg(long, value_name = "REPORT")]
    verify: Option<PathBuf>,
    /// Letters and mails of others that quote the person lose their words, too
    #[arg(long, requires = "contact")]
    quotes: bool,
    /// Only say what would go
    #[arg(long, requires = "contact")]
    dry_run: bool,
    /// Do it
    #[arg(long, requires = "contact")]
    yes: bool,
}

impl EraseCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match &self.verify {
            Some(report) => verify(context, report).await,
            None if self.resume => resume(context).await,
            None => erase(context, &self).await,
        }
    }
}

/// Opens the database as an engine does: nobody else may work meanwhile.
async fn alone(context: &CommandContext) -> anyhow::Result<Store> {
    let workspace = context.require_workspace()?;
    Ok(Store::open(workspace, Arc::new(SystemClock::new())).await?)
}

async fn erase(context: &CommandContext, asked: &EraseCommand) -> anyhow::Result<Exit> {
    let typed = asked.contact.as_deref().unwrap_or_default();
    let address = Address::parse(typed).map_err(Failure::usage)?.key();
    let config = context.config()?;
    let is_dry = asked.dry_run || !asked.yes;
    let store = match is_dry {
        true => context.shared_store().await?,
        false => alone(context).await?,
    };
    let interrupted = store.open_erasures().await?.len();
    if !is_dry && interrupted > 0 {
        return Err(unfinished().into());
    }
    let found = keeping::forecast(&store, &config, &address, asked.quotes)
        .await
        .map_err(refusal)?;
    if found.is_empty() {
        // It may be the one that took this person's rows.
        if interrupted > 0 {
            return Err(unfinished().into());
        }
        return refuse(
            Exit::NoInput,
            "nothing of this person is there",
            "`attache threads list` shows correspondents; what was erased before has no words left",
        );
    }
    if is_dry {
        print_forecast(context, &found, interrupted, asked.dry_run)?;
        return Ok(Exit::Ok);
    }
    if !found.scope.open.is_empty() {
        let ids = found.scope.open;
        return Err(refusal(KeepingError::StillOpen { ids }));
    }
    let report = keeping::erase(&store, &config, &address, asked.quotes, &user())
        .await
        .map_err(refusal)?;
    store.close().await;
    finished(context, &report)
}

fn unfinished() -> Failure {
    let failure = Failure::new(Exit::TryAgain, "an erasure was interrupted");
    failure.hint("finish it first: `attache erase --resume`")
}

async fn resume(context: &CommandContext) -> anyhow::Result<Exit> {
    let (config, store) = (context.config()?, alone(context).await?);
    let open = store.open_erasures().await?;
    if open.is_empty() {
        screen::remark("no erasure was interrupted");
    }
    let mut exit = Exit::Ok;
    for begun in open {
        let report = keeping::finish_erasure(&store, &config, begun, true);
        let report = report.await.map_err(refusal)?;
        if finished(context, &report)? != Exit::Ok {
            exit = Exit::Failed;
        }
    }
    store.close().await;
    Ok(exit)
}

/// Prints a report; what remains is a failure, unless it was to remain.
fn finished(context: &CommandContext, report: &ErasureReport) -> anyhow::Result<Exit> {
    match context.json() {
        true => context.screen.json(report)?,
        false => print_report(context, report)?,
    }
    Ok(match report.is_rewritten {
        true => Exit::Ok,
        false => Exit::TryAgain,
    })
}

async fn verify(context: &CommandContext, path: &std::path::Path) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let report = ErasureReport::read(path).map_err(refusal)?;
    if !report.is_genuine(store.loop_key()) {
        let message = "this workspace did not sign the report, or it was changed since";
        return Err(Failure::new(Exit::BadData, message).into());
    }
    context.report(&report, |screen| {
        Ok(screen.line(format!(
            "signed by this workspace: the erasure {}, finished at {}",
            report.id, report.finished_at
        ))?)
    })
}

fn print_forecast(
    context: &CommandContext,
    found: &ErasureForecast,
    interrupted: usize,
    is_dry: bool,
) -> anyhow::Result<()> {
    let scope = &found.scope;
    if context.json() {
        return context.screen.json(&json!({
            "dry_run": true,
            "addresses": scope.addresses.len(),
            "counts": scope.counts(),
            "memory_entries": found.memory,
            "held_letters": found.scope.held.len() as u64,
            "files_changed": found.files.changed,
            "files_removed": found.files.removed,
            "files_left": found.files.left,
            "quoting": scope.quoting.iter().collect::<Vec<_>>(),
            "quoting_held": scope.quoting_held.iter().collect::<Vec<_>>(),
            "still_open": scope.open,
            "backups": found.backups,
            "interrupted": interrupted,
        }));
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

fn print_report(context: &CommandContext, report: &ErasureReport) -> anyhow::Result<()> {
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
