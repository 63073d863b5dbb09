//! `attache backup FILE|DIR/`: a consistent copy of the database, or of the whole workspace, also while an engine works.
//!
//! A file holds the whole of `data/attache.db`. A folder holds the plain files of the workspace, too, each with its digest, and
//! `attache restore` makes a workspace of it.

pub mod refusal;
mod verify;
mod whole;

use super::screen::progress;
use super::{CommandContext, Exit, Failure, screen};
use crate::clock::SystemClock;
use crate::domain::Timestamp;
use crate::store::audit::{Audit, AuditScope};
use crate::store::sqlite::backup::{self, CopyFile};
use crate::store::sqlite::files::{self, free_disk_bytes};
use crate::store::{SPARE_BYTES, Store};
use crate::text::plural;
use anyhow::Context as _;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Copy the database, or the whole workspace, also while an engine works, and check the copy
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Backup {
    #[command(subcommand)]
    check: Option<BackupCheck>,
    /// File for a copy of the database, which must not exist yet; or, ending in `/`, a new or empty folder for a copy of the whole
    /// workspace, `.secrets` included
    #[arg(value_name = "PATH", required = true)]
    file: Option<PathBuf>,
    /// Replace a file of that name
    #[arg(long)]
    force: bool,
}

#[derive(clap::Subcommand)]
enum BackupCheck {
    /// Check a backup: every file by its digest, the database by every check
    Verify {
        /// The folder, or the copy of a database
        #[arg(value_name = "PATH")]
        backup: PathBuf,
    },
}

impl Backup {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        if let Some(BackupCheck::Verify { backup }) = self.check {
            return verify::verify(context, &backup).await;
        }
        match self.file {
            Some(folder) if is_folder(&folder) => whole::back_up(context, &folder).await,
            Some(file) => back_up(context, &file, self.force).await,
            None => Ok(Exit::Usage),
        }
    }
}

/// Reports whether a folder is meant.
fn is_folder(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir()
}

async fn back_up(context: &CommandContext, file: &Path, force: bool) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let database = context.database_file()?;
    let file = std::path::absolute(file).context("no such path")?;
    check_target(&database, &file, force)?;
    let copy = CopyFile::beside(&file).map_err(|cause| unwritable(&file, cause))?;
    require_room(&database, copy.path())?;
    let size = std::fs::metadata(&database)?.len();
    let copying = backup::copy_database(&database, copy.path(), backup::LOG_BYTES_MAX);
    progress::growing(context, (copy.path(), size), "copied", copying).await.map_err(|cause| {
        let failure = Failure::new(Exit::TryAgain, "the database cannot be copied");
        failure
            .hint("`interrupted` means that the engine's log grew to 1 GB meanwhile: try again at a quieter time")
            .because(cause)
    })?;
    let mut audit = Audit::open(copy.path()).await?;
    let looking = audit.examine(AuditScope {
        bytes: true,
        at_rest: false,
    });
    let findings = progress::turning(context, "looking the copy over", looking).await?;
    let content = backup::content(copy.path()).await?;
    let bytes = std::fs::metadata(copy.path())
        .context("the copy is gone")?
        .len();
    copy.finish(&file, force)
        .map_err(|cause| match cause.kind() {
            std::io::ErrorKind::AlreadyExists => exists(&file),
            _ => unwritable(&file, cause),
        })?;
    let store = Store::open_shared(workspace, Arc::new(SystemClock::new())).await?;
    let broken: Vec<&str> = findings.broken.iter().map(|broken| broken.name).collect();
    whole::note(&store, &file, bytes, &broken).await;
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
    Ok(require_parent(file, database)?)
}

/// Refuses a copy in a folder that is not there: on a disk that is not mounted, for example. One beside the database, as
/// `data/backups`, is made.
fn require_parent(copy: &Path, database: &Path) -> Result<(), Failure> {
    let parent = copy.parent().unwrap_or(Path::new("/"));
    if parent.is_dir() || parent.parent() == database.parent() {
        return Ok(());
    }
    let message = format!("there is no folder `{}`", parent.display());
    Err(Failure::new(Exit::CannotCreate, message)
        .hint("see that its disk is mounted, or make the folder first"))
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
            "it is the database alone: `attache backup DIR/` copies `configs`, `personas`, `.secrets` and the other plain files, \
             too; `attache restore` brings either back",
        );
        Ok(())
    }
}

fn exists(file: &Path) -> Failure {
    let failure = Failure::new(Exit::CannotCreate, format!("`{}` exists", file.display()));
    failure.hint("name another file, or replace it with --force")
}

fn unwritable(file: &Path, cause: std::io::Error) -> Failure {
    let message = format!("cannot write `{}`", file.display());
    Failure::new(Exit::CannotCreate, message).because(cause)
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
