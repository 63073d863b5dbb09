//! Restores a backup into a new or empty folder.
//!
//! The database gets its name last, and has a temporary one before the first file is copied, so that a restore that was
//! interrupted leaves no workspace on which an engine would work, or begin anew.

use super::backup_check::check;
use super::contents::{self, DATABASE};
use super::failure::KeepingError;
use super::manifest::BackupManifest;
use crate::crash::crash_point;
use crate::store::sqlite::files::{RESTORING, side_files};
use crate::store::working_engine;
use serde::Serialize;
use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A restore that was done.
#[derive(Debug, Serialize)]
pub struct Restored {
    pub files: usize,
    pub bytes: u64,
    /// It holds configuration and personas, too.
    pub is_whole: bool,
    /// The next start brings the database up to date.
    pub is_older: bool,
}

/// Checks a backup and restores it.
///
/// Errors: [`KeepingError::EngineWorks`], [`KeepingError::Leftover`], [`KeepingError::NotEmpty`],
/// [`KeepingError::NotAsMade`]; nothing is changed then.
pub async fn restore(backup: &Path, to: &Path) -> Result<Restored, KeepingError> {
    refuse_engine(to)?;
    refuse_leftovers(to)?;
    let is_whole = backup.is_dir();
    if is_whole {
        require_empty(to)?;
    }
    let verdict = check(backup).await?;
    if !verdict.found.is_empty() {
        return Err(KeepingError::NotAsMade {
            found: verdict.found,
        });
    }
    let (from, target, is_older) = (backup.to_owned(), to.to_owned(), verdict.is_older);
    let copying = tokio::task::spawn_blocking(move || copy(&from, &target, is_older));
    copying.await.map_err(|error| KeepingError::File {
        path: to.display().to_string(),
        source: error.into(),
    })?
}

fn copy(backup: &Path, to: &Path, is_older: bool) -> Result<Restored, KeepingError> {
    let at = |path: &str| KeepingError::at(&to.join(path));
    let mut restored = Restored {
        files: 0,
        bytes: 0,
        is_whole: backup.is_dir(),
        is_older,
    };
    let place = format!("data/{RESTORING}");
    let unfinished = to.join(&place);
    let _nothing_was_left = fs::remove_file(&unfinished);
    contents::make_folders(to, DATABASE).map_err(at(DATABASE))?;
    mark(&unfinished).map_err(at(&place))?;
    let mut expected = None;
    if restored.is_whole {
        for file in BackupManifest::read(backup)?.files {
            if file.path == DATABASE {
                expected = Some(file.sha256);
                continue;
            }
            crash_point!("K6");
            let copied = contents::copy(backup, to, &file.path).map_err(at(&file.path))?;
            require_same(&copied.sha256, &file.sha256, &file.path)?;
            restored.files += 1;
            restored.bytes += copied.bytes;
        }
    }
    let database = match restored.is_whole {
        true => backup.join(DATABASE),
        false => backup.to_owned(),
    };
    restored.bytes += fs::copy(&database, &unfinished).map_err(at(&place))?;
    restored.files += 1;
    let finished = || -> io::Result<()> {
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o600))?;
        fs::File::open(&unfinished)?.sync_all()
    };
    finished().map_err(at(&place))?;
    if let Some(expected) = expected {
        let copied = contents::describe(to, &place).map_err(at(&place))?;
        require_same(&copied.sha256, &expected, DATABASE)?;
    }
    crash_point!("K2");
    fs::rename(&unfinished, to.join(DATABASE)).map_err(at(DATABASE))?;
    contents::sync_folders(to).map_err(KeepingError::at(to))?;
    Ok(restored)
}

/// Makes the empty file by which an engine knows that a restore is under way; it is on disk when the first file is.
fn mark(unfinished: &Path) -> io::Result<()> {
    let mut made = fs::OpenOptions::new();
    let made = made.write(true).create_new(true).mode(0o600);
    made.open(unfinished)?.sync_all()?;
    let folder = unfinished.parent().unwrap_or(Path::new("/"));
    fs::File::open(folder)?.sync_all()
}

fn require_same(copied: &str, expected: &str, path: &str) -> Result<(), KeepingError> {
    match copied == expected {
        true => Ok(()),
        false => Err(KeepingError::NotAsMade {
            found: vec![format!("`{path}` changed while it was copied")],
        }),
    }
}

fn refuse_engine(to: &Path) -> Result<(), KeepingError> {
    match working_engine(to) {
        None => Ok(()),
        Some(pid) => Err(KeepingError::EngineWorks {
            folder: to.display().to_string(),
            pid,
        }),
    }
}

/// Refuses a folder with a database, or with what SQLite left of one: an old log would undo the restore.
fn refuse_leftovers(to: &Path) -> Result<(), KeepingError> {
    let database = to.join(DATABASE);
    let mut left = side_files(&database);
    left.push(database);
    match left
        .into_iter()
        .find(|path| fs::symlink_metadata(path).is_ok())
    {
        None => Ok(()),
        Some(path) => Err(KeepingError::Leftover {
            path: path.display().to_string(),
        }),
    }
}

/// Refuses a folder with anything in it but what an interrupted restore left.
fn require_empty(to: &Path) -> Result<(), KeepingError> {
    let entries = match fs::read_dir(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(KeepingError::at(to))?,
    };
    match entries.flatten().next() {
        None => Ok(()),
        Some(_) => Err(KeepingError::NotEmpty {
            path: to.display().to_string(),
        }),
    }
}
