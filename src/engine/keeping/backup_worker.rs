//! Makes the backups of `configs/keeping.json` beside the engine's work, and keeps so many of them.

use super::due::is_due;
use super::failure::KeepingError;
use super::manifest::BackupManifest;
use super::whole_backup::{WholeBackup, back_up};
use crate::config::{Config, ScheduledBackup};
use crate::domain::{NoticeId, NoticeKind, NoticeSubject, Timestamp};
use crate::store::{BackupEnd, NewNotice, Result, Store};
use crate::text::with_causes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between two looks at the clock.
const LOOK: Duration = Duration::from_secs(30);
/// Begin of the name of a backup's folder.
const NAME: &str = "attache-";

/// Makes backups by the clock.
pub struct BackupWorker {
    store: Store,
    config: Arc<Config>,
}

impl BackupWorker {
    pub fn new(store: &Store, config: &Arc<Config>) -> Self {
        Self {
            store: store.clone(),
            config: config.clone(),
        }
    }

    /// Works until `shutdown`; a backup that is under way then is given up, and its folder removed by the next.
    pub async fn run(self, shutdown: CancellationToken) {
        if self.config.keeping.backup.is_none() {
            return;
        }
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                made = self.work_once() => {
                    if let Err(error) = made {
                        tracing::error!(%error, "a backup cannot be noted; trying again");
                    }
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Makes a backup if one is due; `true`: one was tried.
    ///
    /// Errors: the database takes no writes. A backup that fails is no error: it is noted, and the owner is told.
    pub async fn work_once(&self) -> Result<bool> {
        let Some(settings) = &self.config.keeping.backup else {
            return Ok(false);
        };
        let now = self.store.clock().now();
        let last = self.store.last_scheduled_backup().await?;
        if !is_due(settings, last, now) {
            return Ok(false);
        }
        let folder = free_folder(&settings.folder, now);
        let path = folder.display().to_string();
        let number = self.store.begin_backup(path.clone(), true).await?;
        let made = self.make(settings, &folder, now).await;
        let (bytes, failure) = match &made {
            Ok(backup) => (backup.manifest.bytes(), not_sound(&backup.manifest)),
            Err(error) => (0, Some(with_causes(error))),
        };
        let about = settings.folder.display().to_string();
        let notice = failure
            .as_ref()
            .map(|why| self.notice(about, &path, why, now));
        match &failure {
            None => tracing::info!(path, bytes, "a backup was made and checked"),
            Some(why) => tracing::error!(path, why, "no good backup was made"),
        }
        let is_good = failure.is_none();
        let end = BackupEnd {
            path,
            bytes,
            failure,
        };
        self.store.end_backup(number, end, notice).await?;
        if is_good {
            remove_oldest(&settings.folder, settings.count);
        }
        Ok(true)
    }

    async fn make(
        &self,
        settings: &ScheduledBackup,
        folder: &Path,
        now: Timestamp,
    ) -> std::result::Result<WholeBackup, KeepingError> {
        remove_unfinished(&settings.folder);
        back_up(&self.config.workspace, folder, now).await
    }

    /// Returns the notice of a backup that failed: one a day, however often it is tried.
    fn notice(&self, folder: String, path: &str, why: &str, now: Timestamp) -> NewNotice {
        let day = now.to_utc().format("%Y-%m-%d");
        NewNotice {
            id: NoticeId::new(self.store.clock().new_id()),
            persona: None,
            kind: NoticeKind::BackupFailed,
            detail: String::new(),
            subject: NoticeSubject::Backup,
            subject_id: folder,
            occurrence: day.to_string(),
            summary: format!("the backup `{path}` could not be made: {why}"),
            hint: "see that the folder of `backup` in `configs/keeping.json` is there, has room and belongs to the engine's \
                   user; it is tried again within an hour, and `attache backup DIR/` makes one at once. If the checks of the \
                   database found something, `attache doctor --audit` says more"
                .to_owned(),
        }
    }
}

/// Returns a folder that is not there yet: an engine that died behind the rename may be started again in the same second.
fn free_folder(below: &Path, now: Timestamp) -> PathBuf {
    let name = format!("{NAME}{}", now.to_utc().format("%Y%m%dT%H%M%SZ"));
    let first = below.join(&name);
    let mut others = (2..).map(|count: u32| below.join(format!("{name}_{count}")));
    match first.exists() {
        false => first,
        true => others.find(|folder| !folder.exists()).unwrap_or(first),
    }
}

/// Returns what the checks of the copied database found.
fn not_sound(manifest: &BackupManifest) -> Option<String> {
    let broken = &manifest.broken_checks;
    (!broken.is_empty()).then(|| format!("the database is not sound: {}", broken.join(", ")))
}

/// Lists the backups in a folder, the oldest first, with whether they are good by their manifest.
pub fn backups_in(folder: &Path) -> Vec<(PathBuf, bool)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| name(path).starts_with(NAME));
    found.sort();
    let manifests = found.into_iter().filter_map(|path| {
        let manifest = BackupManifest::read(&path).ok()?;
        Some((path, manifest.broken_checks.is_empty()))
    });
    manifests.collect()
}

/// Returns the newest whole backup in these folders that is good by its manifest.
pub fn newest_good_backup(folders: &[&Path]) -> Option<PathBuf> {
    let backups = folders.iter().flat_map(|folder| backups_in(folder));
    let good = backups.filter(|(_, is_good)| *is_good);
    good.map(|(path, _)| path).max_by_key(|path| name(path))
}

/// Removes the oldest beyond `count` good ones. One that is not sound does not push out a good one, and goes when as many good
/// ones are younger.
fn remove_oldest(folder: &Path, count: usize) {
    let backups = backups_in(folder);
    let good = backups.iter().rev().filter(|(_, is_good)| *is_good);
    let Some((oldest_kept, _)) = good.take(count).last() else {
        return;
    };
    for (path, _) in backups.iter().filter(|(path, _)| path < oldest_kept) {
        if let Err(error) = std::fs::remove_dir_all(path) {
            tracing::warn!(path = %path.display(), %error, "an old backup cannot be removed");
        }
    }
}

/// Removes what an engine left that ended while it made a backup.
fn remove_unfinished(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let file = name(&entry.path());
        if file.starts_with(&format!(".{NAME}")) && file.ends_with(".tmp") {
            let _next_time = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
