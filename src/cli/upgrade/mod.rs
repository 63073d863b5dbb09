//! `attache upgrade`: brings the database up to date without starting an engine, or says what that would do.

mod check;

use super::{CommandContext, Exit, screen};
use crate::clock::SystemClock;
use crate::store::{DatabasePlace, Store, THIS_VERSION, UpgradeBackup, newest_known_migration};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Bring the database up to date with this program, or say what that would do
#[derive(clap::Args)]
#[command(
    after_help = "The start of an engine does the same. The database is copied before, to `data/backups`.\n\n\
                  Exit codes of --check: 0 this program can work here; 1 the database is newer; 65 the configuration is wrong, or the database is damaged; \
                  66 there is no such database; 73 there is no room for the copy."
)]
pub struct UpgradeCommand {
    /// Change nothing: say who wrote the database, what would be done to it, and what is in the way
    #[arg(long)]
    check: bool,
    /// Look at another database than that of the workspace, such as a copy
    #[arg(long, value_name = "FILE", requires = "check")]
    from: Option<PathBuf>,
    /// Make no copy before: there is no way back but a copy of your own
    #[arg(long, conflicts_with = "check")]
    without_backup: bool,
}

impl UpgradeCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        if self.check {
            return check::check(context, self.from.as_ref()).await;
        }
        let backup = match self.without_backup {
            true => UpgradeBackup::Without,
            false => UpgradeBackup::Made,
        };
        upgrade(context, backup).await
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
