//! `attache erase --contact ADDRESS`: what a person wrote goes from every row and file, and a signed report says so.

mod print;

use super::args::user;
use super::backup::refusal::refusal;
use super::{CommandContext, Exit, Failure, screen};
use crate::clock::SystemClock;
use crate::domain::Address;
use crate::keeping::{self, ErasureReport, KeepingError};
use crate::store::Store;
use clap::ArgGroup;
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
    let address = Address::parse(typed)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?
        .key();
    let what = (address.as_str(), asked.quotes);
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
    let found = keeping::forecast(&store, &config, what)
        .await
        .map_err(refusal)?;
    if found.is_empty() {
        // It may be the one that took this person's rows.
        if interrupted > 0 {
            return Err(unfinished().into());
        }
        let failure = Failure::new(Exit::NoInput, "nothing of this person is there");
        let hint =
            "`attache threads list` shows correspondents; what was erased before has no words left";
        return Err(failure.hint(hint).into());
    }
    if is_dry {
        print::forecast(context, (&found, interrupted), asked.dry_run)?;
        return Ok(Exit::Ok);
    }
    if !found.scope.open.is_empty() {
        let ids = found.scope.open;
        return Err(refusal(KeepingError::StillOpen { ids }));
    }
    let report = keeping::erase(&store, &config, what, &user())
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
        false => print::report(context, report)?,
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
    if context.json() {
        context.screen.json(&report)?;
    } else {
        context.screen.line(format!(
            "signed by this workspace: the erasure {}, finished at {}",
            report.id, report.finished_at
        ))?;
    }
    Ok(Exit::Ok)
}
