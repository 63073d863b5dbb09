//! Checks a backup: every file by its digest, the database by every check of the audit.

use super::contents::{self, DATABASE, MANIFEST};
use super::failure::KeepingError;
use super::manifest::BackupManifest;
use crate::store::sqlite::files::side_files;
use crate::store::verify_database;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Findings about a backup.
#[derive(Debug, Serialize)]
pub struct BackupVerdict {
    /// File of its database.
    pub database: PathBuf,
    /// `None`: it is a copy of the database alone.
    pub manifest: Option<ManifestSummary>,
    pub migration: i64,
    /// It was made by an earlier version; of the database only the pages were checked.
    pub is_older: bool,
    pub checks: usize,
    /// What is not as it was made; empty: the backup is good.
    pub found: Vec<String>,
}

/// A manifest in short.
#[derive(Debug, Serialize)]
pub struct ManifestSummary {
    pub program: String,
    pub made_at: crate::domain::Timestamp,
    pub files: usize,
    pub bytes: u64,
}

/// Checks a folder with a manifest, or a database file.
///
/// Errors: it is no backup, or it is of a newer version.
pub async fn check(backup: &Path) -> Result<BackupVerdict, KeepingError> {
    if !backup.is_dir() {
        return check_database(backup).await;
    }
    let manifest = BackupManifest::read(backup)?;
    let mut found = check_files(backup, &manifest);
    let (mut migration, mut is_older, mut checks) = (manifest.migration, false, 0);
    let database = backup.join(DATABASE);
    // A file that is not what it was may be no database at all.
    if found.is_empty() {
        let verdict = verify_database(&database).await?;
        (migration, is_older, checks) = (verdict.migration, verdict.is_older, verdict.checks);
        let broken = verdict.broken.iter();
        found.extend(broken.map(|name| format!("the check `{name}` of its database")));
    }
    Ok(BackupVerdict {
        database,
        migration,
        is_older,
        checks: checks + manifest.files.len(),
        found,
        manifest: Some(ManifestSummary {
            program: manifest.program.clone(),
            made_at: manifest.made_at,
            files: manifest.files.len(),
            bytes: manifest.bytes(),
        }),
    })
}

async fn check_database(file: &Path) -> Result<BackupVerdict, KeepingError> {
    if !file.is_file() {
        let path = file.display().to_string();
        return Err(KeepingError::NoDatabase { path });
    }
    // With a log beside it, it is the database of an engine and no copy.
    if let Some(left) = side_files(file).into_iter().find(|left| left.exists()) {
        let path = left.display().to_string();
        return Err(KeepingError::Leftover { path });
    }
    let verdict = verify_database(file).await?;
    Ok(BackupVerdict {
        database: file.to_owned(),
        manifest: None,
        migration: verdict.migration,
        is_older: verdict.is_older,
        checks: verdict.checks,
        found: verdict.broken,
    })
}

/// Compares the files of a backup with its manifest.
pub fn check_files(folder: &Path, manifest: &BackupManifest) -> Vec<String> {
    let mut found = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::from([MANIFEST]);
    for file in &manifest.files {
        known.insert(&file.path);
        match contents::describe(folder, &file.path) {
            Ok(there) if there.sha256 == file.sha256 => {}
            Ok(_other) => found.push(format!("`{}` was changed", file.path)),
            Err(error) => found.push(format!("`{}` cannot be read: {error}", file.path)),
        }
    }
    if !known.contains(DATABASE) {
        found.push(format!("`{DATABASE}` is not in its manifest"));
    }
    match contents::files_below(folder) {
        Ok(files) => {
            let unknown = files.iter().filter(|path| !known.contains(path.as_str()));
            found.extend(unknown.map(|path| format!("`{path}` was added")));
        }
        Err(error) => found.push(format!("its folders cannot be read: {error}")),
    }
    found
}
