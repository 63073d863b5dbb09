//! `attache backup FILE`: one consistent copy of the database, also while an engine works.
//!
//! The copy holds the whole of `data/attache.db`. `configs/`, `personas/` and `.secrets` are plain
//! files and are copied as such: the last lines of the output name the files to copy and the steps
//! to restore them.

use super::screen::progress;
use super::{Command, CommandContext, Exit, Failure, screen};
use crate::clock::SystemClock;
use crate::domain::Timestamp;
use crate::gateway::intake::free_disk_bytes;
use crate::store::Store;
use crate::store::audit::{Audit, AuditScope};
use crate::store::sqlite::backup;
use crate::store::sqlite::files;
use crate::text::plural;
use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct Backup;

/// Bytes that must stay free on the disk beside the copy.
const SPARE_BYTES: u64 = 64 * 1024 * 1024;

impl Command for Backup {
    fn clap(&self) -> clap::Command {
        clap::Command::new("backup")
            .about(
                "Copy the database into one file, also while an engine works, and check the copy",
            )
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .required(true)
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("The copy; it must not exist yet"),
            )
            .arg(
                Arg::new("force")
                    .long("force")
                    .action(ArgAction::SetTrue)
                    .help("Replace FILE if it exists"),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            match args.get_one::<PathBuf>("file") {
                Some(file) => back_up(context, file, args.get_flag("force")).await,
                None => Ok(Exit::Usage),
            }
        })
    }
}

async fn back_up(context: &CommandContext, file: &Path, force: bool) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let database = workspace.join("data/attache.db");
    let file = std::path::absolute(file).context("no such path")?;
    check_target(&database, &file, force)?;
    let copy = Unfinished::beside(&file)?;
    require_room(&database, &copy.path)?;
    let size = std::fs::metadata(&database)?.len();
    let copying = backup::copy_database(&database, &copy.path, backup::LOG_BYTES_MAX);
    progress::growing(context, (&copy.path, size), "copied", copying).await.map_err(|cause| {
        let failure = Failure::new(Exit::TryAgain, "the database cannot be copied");
        failure
            .hint("`interrupted` means that the engine's log grew to 1 GB meanwhile: try again at a quieter time")
            .because(cause)
    })?;
    let mut audit = Audit::open(&copy.path).await?;
    let looking = audit.examine(AuditScope {
        bytes: true,
        at_rest: false,
    });
    let findings = progress::turning(context, "looking the copy over", looking).await?;
    let content = backup::content(&copy.path).await?;
    let bytes = std::fs::metadata(&copy.path)
        .context("the copy is gone")?
        .len();
    copy.finish(&file, force)?;
    let store = Store::open_shared(workspace, Arc::new(SystemClock::new())).await?;
    // The copy exists even when its disk accepts nothing more of the database.
    if let Err(error) = store
        .note_maintenance("backup", file.display().to_string())
        .await
    {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the copy is not noted in the database"
        );
    }
    let broken: Vec<&str> = findings.broken.iter().map(|broken| broken.name).collect();
    let record = BackupRecord {
        file: &file,
        bytes,
        at: store.clock().now(),
        messages: content.messages,
        runs: content.runs,
        deliveries: content.deliveries,
        open_runs: content.open_runs,
        open_deliveries: content.open_deliveries,
        broken_checks: &broken,
    };
    if context.json() {
        context.screen.json(&record)?;
    } else {
        record.print(context, findings.made)?;
    }
    if broken.is_empty() {
        return Ok(Exit::Ok);
    }
    let failure = Failure::new(
        Exit::Failed,
        format!("the database is not sound: {}", broken.join(", ")),
    );
    Err(failure
        .hint("the copy was made all the same; `attache doctor --audit` says more")
        .into())
}

/// Refuses a copy without a database, in its place, or over another file.
fn check_target(database: &Path, file: &Path, force: bool) -> anyhow::Result<()> {
    if !database.is_file() {
        let failure = Failure::new(Exit::NoInput, "there is no database yet");
        return Err(failure.hint("the first start of an engine makes it").into());
    }
    if files::is_of_database(file, database) {
        let failure = Failure::new(
            Exit::Usage,
            "a backup in the place of the database itself would take its mail with it",
        );
        return Err(failure
            .hint("name another file, best on another disk")
            .into());
    }
    if file.exists() && !force {
        return Err(exists(file).into());
    }
    Ok(())
}

/// A finished copy.
#[derive(Serialize)]
struct BackupRecord<'a> {
    file: &'a Path,
    bytes: u64,
    at: Timestamp,
    messages: u64,
    runs: u64,
    deliveries: u64,
    open_runs: u64,
    open_deliveries: u64,
    broken_checks: &'a [&'a str],
}

impl BackupRecord<'_> {
    fn print(&self, context: &CommandContext, checks: usize) -> anyhow::Result<()> {
        context.screen.line(format!(
            "{}: {} bytes, {}, {}, {}; {} made on the copy",
            self.file.display(),
            self.bytes,
            plural(self.messages, "message"),
            plural(self.runs, "run"),
            plural(self.deliveries, "mail"),
            plural(checks, "check")
        ))?;
        screen::remark(
            "copy `configs`, `personas` and `.secrets` too: they are plain files and not in it. To restore, put them into \
             a new folder with this file as `data/attache.db`, and ask `attache doctor --audit` there",
        );
        Ok(())
    }
}

fn exists(file: &Path) -> Failure {
    let failure = Failure::new(Exit::CannotCreate, format!("`{}` exists", file.display()));
    failure.hint("name another file, or replace it with --force")
}

/// Refuses a copy that would fill the disk under the engine.
fn require_room(database: &Path, copy: &Path) -> anyhow::Result<()> {
    let needed = std::fs::metadata(database)?
        .len()
        .saturating_add(SPARE_BYTES);
    let room = free_disk_bytes(copy).context("how much room there is")?;
    if room < needed {
        let message = format!("the copy may need {needed} bytes, and {room} are free there");
        return Err(Failure::new(Exit::CannotCreate, message)
            .hint("name a file on another disk")
            .into());
    }
    Ok(())
}

/// A copy under a temporary name, removed on drop unless it is finished.
struct Unfinished {
    path: PathBuf,
    is_finished: bool,
}

impl Unfinished {
    /// Chooses the temporary name and creates the file with a mode for its owner alone: it holds
    /// all the mail.
    fn beside(file: &Path) -> anyhow::Result<Self> {
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let path = file.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        made.map_err(|cause| {
            Failure::new(
                Exit::CannotCreate,
                format!("cannot write `{}`", path.display()),
            )
            .because(cause)
        })?;
        Ok(Self {
            path,
            is_finished: false,
        })
    }
    /// Renames the copy to its final name, so that a file of that name is always complete.
    fn finish(mut self, file: &Path, force: bool) -> anyhow::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let flags = if force {
            RenameFlags::empty()
        } else {
            RenameFlags::NOREPLACE
        };
        match renameat_with(CWD, &self.path, CWD, file, flags) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(exists(file).into()),
            // This file system has no rename that fails on an existing name (`RENAME_NOREPLACE`).
            Err(_) if force || !file.exists() => std::fs::rename(&self.path, file)?,
            Err(_) => return Err(exists(file).into()),
        }
        self.is_finished = true;
        // The name is durable only after an `fsync` of the folder.
        let folder = file.parent().unwrap_or(Path::new("/"));
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .context("the copy's folder is not on disk")
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            let _nothing_to_do = std::fs::remove_file(&self.path);
        }
    }
}
