//! `attache erase --contact ADDRESS`: what a person wrote goes from every row and file, and a signed report says so.

mod print;

use super::args::user;
use super::backup::refusal::refusal;
use super::{Command, CommandContext, Exit, Failure, screen};
use crate::clock::SystemClock;
use crate::domain::Address;
use crate::keeping::{self, ErasureReport, KeepingError};
use crate::store::Store;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches};
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;

pub struct EraseCommand;

impl Command for EraseCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("erase")
            .about("Erase what a person wrote, from every row and file, and sign a report of it")
            .after_help(
                "Goes: letters of all addresses of the person with attachments, whole threads in which nobody else wrote, mails that went \
                 to nobody else, answers to their letters, memory, summaries, records of every run that was told of them, approvals and \
                 drafts, earlier versions of files. Rows stay without words, with instant, address and digest, so that threads and sums hold.\n\n\
                 Stays unless --quotes: what others wrote that quotes the person; the report lists it. Backups, exports and what providers \
                 keep are not touched; the report names the backups here. The engine must be stopped: the file is written anew.",
            )
            .arg(
                Arg::new("contact")
                    .long("contact")
                    .value_name("ADDRESS")
                    .help("Address of the person; aliases of `attache memory alias` are followed"),
            )
            .arg(
                Arg::new("resume")
                    .long("resume")
                    .action(ArgAction::SetTrue)
                    .help("Finish erasures that were interrupted"),
            )
            .arg(
                Arg::new("verify")
                    .long("verify")
                    .value_name("REPORT")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Say whether this workspace signed the report, and nothing was changed in it"),
            )
            .arg(
                Arg::new("quotes")
                    .long("quotes")
                    .action(ArgAction::SetTrue)
                    .requires("contact")
                    .help("Letters and mails of others that quote the person lose their words, too"),
            )
            .arg(
                Arg::new("dry-run")
                    .long("dry-run")
                    .action(ArgAction::SetTrue)
                    .requires("contact")
                    .help("Only say what would go"),
            )
            .arg(
                Arg::new("yes")
                    .long("yes")
                    .action(ArgAction::SetTrue)
                    .requires("contact")
                    .help("Do it"),
            )
            .group(ArgGroup::new("what").args(["contact", "resume", "verify"]).required(true))
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            if let Some(report) = args.get_one::<PathBuf>("verify") {
                return verify(context, report).await;
            }
            if args.get_flag("resume") {
                return resume(context).await;
            }
            erase(context, args).await
        })
    }
}

/// Opens the database as an engine does: nobody else may work meanwhile.
async fn alone(context: &CommandContext) -> anyhow::Result<Store> {
    let workspace = context.require_workspace()?;
    Ok(Store::open(workspace, Arc::new(SystemClock::new())).await?)
}

async fn erase(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let typed = args.get_one::<String>("contact").map_or("", String::as_str);
    let address = Address::parse(typed)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?
        .key();
    let what = (address.as_str(), args.get_flag("quotes"));
    let config = context.config()?;
    let is_dry = args.get_flag("dry-run") || !args.get_flag("yes");
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
        print::forecast(context, (&found, interrupted), args.get_flag("dry-run"))?;
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
