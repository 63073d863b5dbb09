//! `attache backup FILE|DIR/`: a consistent copy of the database, or of the whole workspace, also while an engine works.
//!
//! A file holds the whole of `data/attache.db`. A folder holds the plain files of the workspace, too, each with its digest, and
//! `attache restore` makes a workspace of it.

use super::screen::progress;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::SystemClock;
use crate::domain::Timestamp;
use crate::keeping;
use crate::keeping::{BackupManifest, BackupVerdict, KeepingError};
use crate::store::audit::{Audit, AuditScope};
use crate::store::sqlite::backup::CopyFile;
use crate::store::sqlite::files::free_disk_bytes;
use crate::store::sqlite::{backup, files};
use crate::store::{BackupEnd, SPARE_BYTES, Store};
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
            return verify(context, &backup).await;
        }
        match self.file {
            Some(folder) if is_folder(&folder) => back_up_whole(context, &folder).await,
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
    progress::growing(context, copy.path(), size, "copied", copying).await.map_err(|cause| {
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
    note_backup(&store, &file, bytes, &broken).await;
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
    refuse(
        Exit::Failed,
        format!("the database is not sound: {}", broken.join(", ")),
        "the copy was made all the same; `attache doctor --audit` says more",
    )
}

/// Refuses a copy without a database, in its place, or over another file.
fn check_target(database: &Path, file: &Path, force: bool) -> anyhow::Result<()> {
    if !database.is_file() {
        return refuse(
            Exit::NoInput,
            "there is no database yet",
            "the first start of an engine makes it",
        );
    }
    if files::is_of_database(file, database) {
        return refuse(
            Exit::Usage,
            "a backup in the place of the database itself would take its mail with it",
            "name another file, best on another disk",
        );
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
    refuse(
        Exit::CannotCreate,
        format!("there is no folder `{}`", parent.display()),
        "see that its disk is mounted, or make the folder first",
    )
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
        return refuse(
            Exit::CannotCreate,
            format!("the copy may need {needed} bytes, and {room} are free there"),
            "name a file on another disk",
        );
    }
    Ok(())
}

async fn verify(context: &CommandContext, path: &Path) -> anyhow::Result<Exit> {
    let path = std::path::absolute(path)?;
    let checking = keeping::check(&path);
    let verdict = progress::turning(context, "looking it over", checking).await;
    let verdict = verdict.map_err(refusal)?;
    match context.json() {
        true => context.screen.json(&verdict)?,
        false => print_verdict(context, &path.display().to_string(), &verdict)?,
    }
    if verdict.found.is_empty() {
        return Ok(Exit::Ok);
    }
    refuse(
        Exit::BadData,
        "the backup is not as it was made",
        "take another one; what is wrong stands above",
    )
}

fn print_verdict(
    context: &CommandContext,
    path: &str,
    verdict: &BackupVerdict,
) -> anyhow::Result<()> {
    for found in &verdict.found {
        context.screen.line(found)?;
    }
    let made = match &verdict.manifest {
        Some(manifest) => format!(
            "attache {} made it at {}: {} bytes in {}",
            manifest.program,
            manifest.made_at,
            manifest.bytes,
            plural(manifest.files, "file")
        ),
        None => "a copy of the database alone".to_owned(),
    };
    let age = match verdict.is_older {
        true => format!(
            ", of an earlier version (migration {}): of its database only the pages were checked",
            verdict.migration
        ),
        false => String::new(),
    };
    let found = match verdict.found.len() {
        0 => "nothing is wrong".to_owned(),
        count => plural(count, "fault"),
    };
    let checks = plural(verdict.checks, "check");
    context
        .screen
        .line(format!("{path}: {made}{age}; {checks}, {found}"))?;
    Ok(())
}

/// A backup that was made.
#[derive(Serialize)]
struct WholeBackupRecord<'a> {
    folder: &'a Path,
    at: Timestamp,
    bytes: u64,
    files: usize,
    messages: u64,
    runs: u64,
    deliveries: u64,
    left_out: &'a [String],
    broken_checks: &'a [String],
}

/// Folders of a workspace in which no backup belongs.
const COPIED: [&str; 5] = [
    "configs",
    "personas",
    "skills",
    "data/tokens",
    "data/workspaces",
];

async fn back_up_whole(context: &CommandContext, folder: &Path) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let absolute = std::path::absolute(folder).context("no such path")?;
    // Without the slash at its end the name of the folder is its last part.
    let folder: std::path::PathBuf = absolute.components().collect();
    let database = context.database_file()?;
    if !database.is_file() {
        return refuse(
            Exit::NoInput,
            "there is no database yet",
            "the first start of an engine makes it",
        );
    }
    require_parent(&folder, &database)?;
    let mut parts = COPIED.iter().map(|part| workspace.join(part));
    if folder == workspace || parts.any(|part| folder.starts_with(part)) {
        return refuse(
            Exit::Usage,
            "this folder is part of what is copied",
            "name a folder elsewhere, best on another disk",
        );
    }
    let store = Store::open_shared(workspace, Arc::new(SystemClock::new())).await?;
    let now = store.clock().now();
    let making = keeping::back_up(workspace, &folder, now);
    let made = progress::turning(context, "copying and checking", making).await;
    let made = made.map_err(refusal)?;
    let broken: Vec<&str> = made
        .manifest
        .broken_checks
        .iter()
        .map(String::as_str)
        .collect();
    note_backup(&store, &folder, made.manifest.bytes(), &broken).await;
    print_whole(context, &folder, &made.manifest, made.checks)?;
    if broken.is_empty() {
        return Ok(Exit::Ok);
    }
    refuse(
        Exit::Failed,
        format!("the database is not sound: {}", broken.join(", ")),
        "the copy was made all the same; `attache doctor --audit` says more",
    )
}

/// Notes a backup; it exists even when its disk accepts nothing more of the database.
async fn note_backup(store: &Store, made: &Path, bytes: u64, broken: &[&str]) {
    let path = made.display().to_string();
    let end = BackupEnd {
        path: path.clone(),
        bytes,
        failure: (!broken.is_empty()).then(|| broken.join(", ")),
    };
    let noted = async {
        let number = store.begin_backup(path, false).await?;
        store.end_backup(number, end, None).await
    };
    if let Err(error) = noted.await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the backup is not noted in the database"
        );
    }
}

fn print_whole(
    context: &CommandContext,
    folder: &Path,
    manifest: &BackupManifest,
    checks: usize,
) -> anyhow::Result<()> {
    if context.json() {
        return context.screen.json(&WholeBackupRecord {
            folder,
            at: manifest.made_at,
            bytes: manifest.bytes(),
            files: manifest.files.len(),
            messages: manifest.messages,
            runs: manifest.runs,
            deliveries: manifest.deliveries,
            left_out: &manifest.left_out,
            broken_checks: &manifest.broken_checks,
        });
    }
    context.screen.line(format!(
        "{}: {} bytes in {}, {}, {}, {}; {} made on the copy",
        folder.display(),
        manifest.bytes(),
        plural(manifest.files.len(), "file"),
        plural(manifest.messages, "message"),
        plural(manifest.runs, "run"),
        plural(manifest.deliveries, "mail"),
        plural(checks, "check")
    ))?;
    for path in &manifest.left_out {
        screen::remark(&format!("not in it: {path}"));
    }
    screen::remark(
        "it holds all keys and all mail: keep it where nobody else reads. `attache restore` makes a workspace of it",
    );
    Ok(())
}

/// Makes a failure for the operator.
pub fn refusal(error: KeepingError) -> anyhow::Error {
    let (exit, hint) = match &error {
        // They have their own.
        KeepingError::Open(_) | KeepingError::Store(_) => return error.into(),
        KeepingError::NoRoom { .. } => (Exit::CannotCreate, "name a folder on another disk"),
        KeepingError::Exists { .. } | KeepingError::NotEmpty { .. } => (
            Exit::CannotCreate,
            "name a folder that is new or empty; what an interrupted restore left may be removed",
        ),
        KeepingError::OnServer { .. } => (
            Exit::Usage,
            "`pg_dump` and pgBackRest copy it; the folders of the workspace are copied beside it",
        ),
        KeepingError::NoDatabase { .. } => (
            Exit::NoInput,
            "the first start of an engine makes the database of a workspace; a backup is a file or a folder that `attache backup` made",
        ),
        KeepingError::NoManifest { .. } => (
            Exit::BadData,
            "name the folder that `attache backup` made, or the database file in it",
        ),
        KeepingError::Leftover { .. } => (
            Exit::Workspace,
            "restore into a new folder, or move `data/attache.db` away with its `-wal`, `-shm` and `-journal`: an old log would undo \
             the restore. A database with a log beside it is no backup: `attache backup` makes one",
        ),
        KeepingError::EngineWorks { .. } => (
            Exit::Workspace,
            "restore into a new folder, or stop that engine and move its folder `data` away",
        ),
        KeepingError::NotAsMade { .. } => (
            Exit::BadData,
            "take another backup; nothing was restored. `attache backup verify` says the same of any",
        ),
        KeepingError::StillOpen { .. } => (
            Exit::TryAgain,
            "nothing was erased: `attache drain` lets them end, `attache runs cancel` and `attache outbox cancel` end them, `attache approvals` decides questions; then say it \
             again",
        ),
        KeepingError::File { .. } => (
            Exit::CannotCreate,
            "see that the path is there and belongs to this user",
        ),
    };
    Failure::new(exit, error.to_string())
        .hint(hint)
        .because(error)
        .into()
}
