//! `attache upgrade`: brings the database up to date without starting an engine, or says what that would do.

use super::{CommandContext, Exit, refuse, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::Problem;
use crate::runs::preflight;
use crate::store::{
    DatabasePlace, OpenError, PendingMigration, ProgramVersion, Store, THIS_VERSION, UpgradeBackup,
    UpgradeForecast, newest_known_migration, refuse_leftovers, working_engine,
};
use crate::text::plural;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
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
            return check(context, self.from.as_ref()).await;
        }
        let backup = match self.without_backup {
            true => UpgradeBackup::Without,
            false => UpgradeBackup::Made,
        };
        upgrade(context, backup).await
    }
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
    let migration = newest_known_migration();
    let record = json!({ "version": THIS_VERSION, "migration": migration });
    context.report(&record, |screen| {
        Ok(screen.line(format!(
            "the database is that of attache {THIS_VERSION}, up to migration {migration}"
        ))?)
    })
}

/// Findings of the check, as `--json` prints them.
#[derive(Serialize)]
struct UpgradeReport<'a> {
    program: &'static str,
    database: &'a Path,
    /// Versions that have written the database, the last writer last.
    written_by: &'a [ProgramVersion],
    migration: i64,
    /// Why this program cannot work there: a newer one has changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    newer: Option<String>,
    pending: &'a [PendingMigration],
    room_bytes: u64,
    free_bytes: Option<u64>,
    /// An estimate.
    seconds: u64,
    /// What it is estimated from.
    seconds_from: String,
    /// Problems of the configuration.
    problems: Vec<Problem>,
    /// Process of the engine that works here.
    engine: Option<String>,
    next: String,
}

async fn check(context: &CommandContext, from: Option<&PathBuf>) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let database = match from {
        Some(file) => std::path::absolute(file)?,
        None => context.database_file()?,
    };
    if from.is_none() {
        refuse_leftovers(&workspace.join("data"))?;
    }
    if !database.is_file() {
        return refuse(
            Exit::NoInput,
            format!("there is no database `{}`", database.display()),
            "the first start of an engine makes `data/attache.db`; there is nothing to upgrade before",
        );
    }
    let found = UpgradeForecast::of(&database).await?;
    let newer = found.pending.as_ref().err().map(OpenError::to_string);
    let pending = found.pending.as_deref().unwrap_or_default();
    let problems = config_problems(context);
    let engine = working_engine(workspace);
    let exit = match () {
        () if newer.is_some() => Exit::Failed,
        () if !problems.is_empty() => Exit::BadData,
        () if !pending.is_empty() && !found.has_room() => Exit::CannotCreate,
        () => Exit::Ok,
    };
    let report = UpgradeReport {
        program: THIS_VERSION,
        database: &database,
        written_by: &found.versions,
        migration: found.migration,
        next: next_step(exit, &found, pending, engine.as_deref()),
        newer,
        pending,
        room_bytes: found.room_bytes,
        free_bytes: found.free_bytes,
        seconds: found.duration().as_secs(),
        seconds_from: origin(&found),
        problems,
        engine,
    };
    match context.json() {
        true => context.screen.json(&report)?,
        false => report.print(context)?,
    }
    Ok(exit)
}

/// Says what the estimate of the time rests on.
fn origin(found: &UpgradeForecast) -> String {
    match found.measured {
        Some(measured) => format!(
            "the engine's last backup here took {} s for {} bytes",
            measured.seconds, measured.bytes
        ),
        None => "at 40 MB a second, as on a slow disk: the engine has made no backup here that would say more".to_owned(),
    }
}

/// Problems that this program has with the configuration.
fn config_problems(context: &CommandContext) -> Vec<Problem> {
    match context.config() {
        Ok(config) => preflight::examine(&config, SystemClock::new().now()).0,
        Err(errors) => errors.problems,
    }
}

/// Sentence that says what to do.
fn next_step(
    exit: Exit,
    found: &UpgradeForecast,
    pending: &[PendingMigration],
    engine: Option<&str>,
) -> String {
    let start = match engine {
        Some(pid) => format!("stop the engine (process {pid}) and start it as this program"),
        None => "start the engine".to_owned(),
    };
    match exit {
        Exit::Failed => {
            let writer = found.versions.last();
            let writer = writer.map_or("that was here last", |last| last.version.as_str());
            format!(
                "use attache {writer} here, or put a copy from before in the place of the database, without the `-wal` and \
                 `-shm` beside it"
            )
        }
        Exit::BadData => {
            "mend the configuration, or write it for this version: `attache config check` says more".to_owned()
        }
        Exit::CannotCreate => {
            "make room for the copy, or make `data/backups` a link to a folder on another disk; `attache upgrade \
             --without-backup` goes without a copy"
                .to_owned()
        }
        _ if pending.is_empty() => format!("nothing has to be changed: {start}"),
        _ => format!("{start}: it copies the database to `data/backups` and brings it up to date"),
    }
}

impl UpgradeReport<'_> {
    fn print(&self, context: &CommandContext) -> anyhow::Result<()> {
        let writer = match self.written_by.last() {
            Some(last) => format!("attache {} since {}", last.version, last.first_seen),
            None => "a version that did not say its name".to_owned(),
        };
        let numbers = self.pending.iter();
        let numbers: Vec<String> = numbers.map(|one| one.number.to_string()).collect();
        let migrations = match (&self.newer, self.pending.len()) {
            (Some(newer), _) => newer.clone(),
            (None, 0) => "none is lacking".to_owned(),
            (None, count) => format!(
                "{} to apply: {}",
                plural(count, "migration"),
                numbers.join(", ")
            ),
        };
        let free = self.free_bytes;
        let free = free.map_or("the disk does not say what is free".to_owned(), |bytes| {
            format!("{bytes} bytes are free")
        });
        let mut fields = vec![
            ("program", format!("attache {}", self.program)),
            ("database", self.database.display().to_string()),
            (
                "written by",
                format!("{writer}, up to migration {}", self.migration),
            ),
            ("migrations", migrations),
        ];
        if !self.pending.is_empty() {
            fields.push((
                "room",
                format!("{} bytes for a copy; {free}", self.room_bytes),
            ));
            fields.push((
                "time",
                format!(
                    "about {} s, by an estimate: {}",
                    self.seconds, self.seconds_from
                ),
            ));
        }
        fields.push((
            "configuration",
            match self.problems.len() {
                0 => "good".to_owned(),
                count => plural(count, "problem"),
            },
        ));
        let engine = self.engine.as_ref();
        let engine = engine.map_or("none works here".to_owned(), |pid| {
            format!("process {pid} works here")
        });
        fields.push(("engine", engine));
        fields.push(("next", self.next.clone()));
        context.screen.fields(&fields)?;
        for problem in &self.problems {
            context.screen.line(problem.to_string())?;
        }
        Ok(())
    }
}
