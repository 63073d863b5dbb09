//! `attache upgrade`: brings the database up to date without starting an engine, or says what that would do.

mod check;

use super::{Command, CommandContext, Exit, screen};
use crate::clock::SystemClock;
use crate::store::{DatabasePlace, Store, THIS_VERSION, UpgradeBackup, newest_known_migration};
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

pub struct UpgradeCommand;

impl Command for UpgradeCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("upgrade")
            .about("Bring the database up to date with this program, or say what that would do")
            .after_help(
                "The start of an engine does the same. The database is copied before, to `data/backups`.\n\n\
                 Exit codes of --check: 0 this program can work here; 1 the database is newer; 65 the configuration is wrong, or the database is damaged; \
                 66 there is no such database; 73 there is no room for the copy.",
            )
            .arg(
                Arg::new("check")
                    .long("check")
                    .action(ArgAction::SetTrue)
                    .help("Change nothing: say who wrote the database, what would be done to it, and what is in the way"),
            )
            .arg(
                Arg::new("from")
                    .long("from")
                    .value_name("FILE")
                    .requires("check")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Look at another database than that of the workspace, such as a copy"),
            )
            .arg(
                Arg::new("without-backup")
                    .long("without-backup")
                    .action(ArgAction::SetTrue)
                    .conflicts_with("check")
                    .help("Make no copy before: there is no way back but a copy of your own"),
            )
    }
    fn default_log(&self) -> &'static str {
        "attache::store=info,warn"
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            if args.get_flag("check") {
                return check::check(context, args.get_one::<PathBuf>("from")).await;
            }
            let backup = match args.get_flag("without-backup") {
                true => UpgradeBackup::Without,
                false => UpgradeBackup::Made,
            };
            upgrade(context, backup).await
        })
    }
}

/// An upgrade that was done.
#[derive(Serialize)]
struct UpgradeRecord {
    version: &'static str,
    migration: i64,
}

async fn upgrade(context: &CommandContext, backup: UpgradeBackup) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let place = DatabasePlace::of(workspace)?;
    if !place.is_made() {
        screen::remark("there is no database yet: the first start of an engine makes it");
        return Ok(Exit::Ok);
    }
    let store = Store::upgrade(workspace, Arc::new(SystemClock::new()), backup).await?;
    store.close().await;
    let record = UpgradeRecord {
        version: THIS_VERSION,
        migration: newest_known_migration(),
    };
    match context.json() {
        true => context.screen.json(&record)?,
        false => context.screen.line(format!(
            "the database is that of attache {THIS_VERSION}, up to migration {}",
            record.migration
        ))?,
    }
    Ok(Exit::Ok)
}
