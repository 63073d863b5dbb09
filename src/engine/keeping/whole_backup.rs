//! A backup of a whole workspace: a folder with the database and the plain files beside it, each with its digest.
//!
//! It gets its name when it is whole: what has no manifest, or a name that begins with a dot, is no backup.

use super::contents::{self, BackupFile, Contents, DATABASE};
use super::failure::KeepingError;
use super::manifest::{BackupManifest, FORM};
use crate::crash::crash_point;
use crate::domain::Timestamp;
use crate::store::sqlite::backup::{LOG_BYTES_MAX, content, copy_database};
use crate::store::sqlite::files::free_disk_bytes;
use crate::store::{DatabasePlace, SPARE_BYTES, THIS_VERSION, verify_database};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A backup that was made.
#[derive(Debug)]
pub struct WholeBackup {
    pub folder: PathBuf,
    pub manifest: BackupManifest,
    /// Number of checks of its database.
    pub checks: usize,
}

/// Makes a backup in a new or empty folder, also while an engine works.
///
/// Errors: among others, that the database cannot be copied now ([`KeepingError::Open`]).
pub async fn back_up(
    workspace: &Path,
    folder: &Path,
    now: Timestamp,
) -> Result<WholeBackup, KeepingError> {
    if let Ok(place) = DatabasePlace::of(workspace)
        && place.file().is_none()
    {
        let place = place.shown();
        return Err(KeepingError::OnServer { place });
    }
    let database = workspace.join(DATABASE);
    if !database.is_file() {
        let path = database.display().to_string();
        return Err(KeepingError::NoDatabase { path });
    }
    let parent = folder.parent().unwrap_or(Path::new("/"));
    require_free_name(folder)?;
    let found = Contents::of(workspace).map_err(KeepingError::at(workspace))?;
    require_room(&database, &found, parent)?;
    let unfinished = UnfinishedBackup::beside(folder)?;
    let copied = copy_whole(workspace, &unfinished.path, found, now).await?;
    crash_point!("K1");
    unfinished.finish(folder)?;
    crash_point!("K5");
    Ok(WholeBackup {
        folder: folder.to_owned(),
        ..copied
    })
}

async fn copy_whole(
    workspace: &Path,
    to: &Path,
    found: Contents,
    now: Timestamp,
) -> Result<WholeBackup, KeepingError> {
    let copy = to.join(DATABASE);
    contents::make_folders(to, DATABASE).map_err(KeepingError::at(&copy))?;
    let mut made = OpenOptions::new();
    let made = made.write(true).create_new(true).mode(0o600).open(&copy);
    made.map_err(KeepingError::at(&copy))?;
    copy_database(&workspace.join(DATABASE), &copy, LOG_BYTES_MAX).await?;
    let verdict = verify_database(&copy).await?;
    let counts = content(&copy).await?;
    let (from, below) = (workspace.to_owned(), to.to_owned());
    let copying = tokio::task::spawn_blocking(move || copy_files(&from, &below, found));
    let (files, left_out) = copying.await.map_err(|error| KeepingError::File {
        path: to.display().to_string(),
        source: error.into(),
    })??;
    let manifest = BackupManifest {
        form: FORM,
        program: THIS_VERSION.to_owned(),
        made_at: now,
        migration: verdict.migration,
        messages: counts.messages,
        runs: counts.runs,
        deliveries: counts.deliveries,
        broken_checks: verdict.broken,
        files,
        left_out,
    };
    manifest.write(to)?;
    contents::sync_folders(to).map_err(KeepingError::at(to))?;
    Ok(WholeBackup {
        folder: to.to_owned(),
        manifest,
        checks: verdict.checks,
    })
}

/// Copies the plain files, and describes the copy of the database.
fn copy_files(
    from: &Path,
    to: &Path,
    found: Contents,
) -> Result<(Vec<BackupFile>, Vec<String>), KeepingError> {
    let database = contents::describe(to, DATABASE).map_err(KeepingError::at(to))?;
    let (mut files, mut left_out) = (vec![database], found.left_out);
    for path in found.files {
        crash_point!("K4");
        match contents::copy(from, to, &path) {
            Ok(file) => files.push(file),
            // An agent removed it, or a page replaced it, since it was found.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => left_out.push(path),
            Err(error) => return Err(KeepingError::at(&from.join(path))(error)),
        }
    }
    Ok((files, left_out))
}

/// Refuses a name that is taken, unless by an empty folder.
fn require_free_name(folder: &Path) -> Result<(), KeepingError> {
    let path = folder.display().to_string();
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(KeepingError::NotEmpty { path }),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            Err(KeepingError::Exists { path })
        }
        Err(error) => Err(KeepingError::at(folder)(error)),
    }
}

/// Refuses a backup that would fill the disk.
fn require_room(database: &Path, found: &Contents, parent: &Path) -> Result<(), KeepingError> {
    let mut there = parent;
    while let (false, Some(above)) = (there.exists(), there.parent()) {
        there = above;
    }
    let bytes = fs::metadata(database).map_err(KeepingError::at(database))?;
    let needed = bytes.len() + found.bytes + SPARE_BYTES;
    let free = free_disk_bytes(there).map_err(KeepingError::at(there))?;
    match free < needed {
        false => Ok(()),
        true => Err(KeepingError::NoRoom {
            needed,
            free,
            folder: there.display().to_string(),
        }),
    }
}

/// A folder under a temporary name, removed on drop unless it is finished.
struct UnfinishedBackup {
    path: PathBuf,
    is_finished: bool,
}

impl UnfinishedBackup {
    fn beside(folder: &Path) -> Result<Self, KeepingError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let path = folder.with_file_name(format!(".{name}.tmp"));
        // A process was killed while it made this backup.
        let _nothing_was_left = fs::remove_dir_all(&path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(KeepingError::at(&path))?;
        Ok(Self {
            path,
            is_finished: false,
        })
    }

    fn finish(mut self, folder: &Path) -> Result<(), KeepingError> {
        // `rename` replaces an empty folder, and no other.
        fs::rename(&self.path, folder).map_err(KeepingError::at(folder))?;
        self.is_finished = true;
        let parent = folder.parent().unwrap_or(Path::new("/"));
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(KeepingError::at(parent))
    }
}

impl Drop for UnfinishedBackup {
    fn drop(&mut self) {
        if !self.is_finished {
            let _nothing_to_do = fs::remove_dir_all(&self.path);
        }
    }
}
