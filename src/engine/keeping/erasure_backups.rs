//! The backups that a report of an erasure names: those that lie here, found by looking, and those that the database knows of.

use super::backup_worker::backups_in;
use super::contents::DATABASE;
use super::erasure_report::NamedBackup;
use super::failure::KeepingError;
use crate::config::{Config, spell};
use crate::store::{Store, copies_before_upgrades, folder_of_copies};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

static BY_HAND: &str = "by `rm -r`, as all that were made by hand";

/// Names the backups, each with how it goes.
pub(super) async fn named_backups(
    store: &Store,
    config: &Config,
) -> Result<Vec<NamedBackup>, KeepingError> {
    let database = config.workspace.join(DATABASE);
    let mut named = NamedBackups::default();
    for path in copies_before_upgrades(&database) {
        named.add(
            path,
            "with the third upgrade from now, or by `rm`".to_owned(),
        );
    }
    if let Some(settings) = &config.keeping.backup {
        let goes = format!(
            "when {} newer ones are there, one each {}, or by `rm -r`",
            settings.count,
            spell(settings.every)
        );
        for (path, _) in backups_in(&settings.folder) {
            named.add(path, goes.clone());
        }
    }
    // The database may know none of these: a workspace is moved and copied with them.
    let here = folder_of_copies(&database);
    for path in entries(&here) {
        named.add(path, BY_HAND.to_owned());
    }
    for (path, (is_scheduled, at)) in store.backup_paths().await? {
        if path.exists() {
            named.add(path, BY_HAND.to_owned());
        } else if !is_scheduled && !lay_in(&path, &here) {
            let goes = format!(
                "if it is somewhere yet, by `rm -r`: it was made at {at}, and is not there now"
            );
            named.add(path, goes);
        }
    }
    Ok(named.all)
}

/// Reports whether a backup was made in the folder of backups of this workspace, whatever its name was then.
fn lay_in(path: &Path, here: &Path) -> bool {
    let tail = |folder: &Path| -> Vec<PathBuf> {
        let parts = folder.components().rev().take(2);
        parts.map(|part| PathBuf::from(part.as_os_str())).collect()
    };
    path.parent()
        .is_some_and(|folder| tail(folder) == tail(here))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Backups, each named once by whatever path.
#[derive(Default)]
struct NamedBackups {
    all: Vec<NamedBackup>,
    seen: BTreeSet<PathBuf>,
}

impl NamedBackups {
    fn add(&mut self, path: PathBuf, goes: String) {
        let place = path.canonicalize().unwrap_or_else(|_| path.clone());
        if self.seen.insert(place) {
            self.all.push(NamedBackup { path, goes });
        }
    }
}
