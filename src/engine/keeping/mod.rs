//! What the engine does by itself so that a workspace lasts for years.
//!
//! - `contents`: the plain files of a workspace. `manifest`: those of a backup, with their digests.
//! - `whole_backup`: a backup is made. `backup_check`: it is checked. `restore`: it becomes a workspace.
//! - `due`: when one is to be made. `backup_worker`: makes them, and keeps so many.
//! - `retention_worker`: throws away by age.
//! - `erasure`: what a person wrote goes. `erasure_files`: from files.
//!   `erasure_backups`: what holds it still. `erasure_report`: the signed report.
//! - `failure`: errors of these.
//!
//! Absent on purpose: rows, which are the store's, and anything that reads or sends mail.

mod contents;
mod manifest;
mod failure;
mod whole_backup;
mod backup_check;
mod restore;
mod due;
mod backup_worker;
mod erasure_files;
mod erasure_backups;
mod erasure_report;
mod erasure;
mod retention_worker;

pub use backup_check::{BackupVerdict, ManifestSummary, check};
pub use backup_worker::{BackupWorker, backups_in, newest_good_backup};
pub use contents::MANIFEST;
pub use erasure::{ErasureForecast, erase, finish as finish_erasure, forecast};
pub use erasure_report::{ErasureReport, NamedBackup, REPORTS as ERASURE_REPORTS};
pub use failure::KeepingError;
pub use manifest::BackupManifest;
pub use restore::{Restored, restore};
pub use retention_worker::{RetentionPause, RetentionWorker};
pub use whole_backup::{WholeBackup, back_up};

use crate::config::Config;
use crate::store::Store;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Makes backups and throws away by age, until `shutdown`.
pub fn work(
    store: &Store,
    config: &Arc<Config>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let backups = BackupWorker::new(store, config);
    let retention = RetentionWorker::new(store, config);
    let store = store.clone();
    async move {
        if store
            .open_erasures()
            .await
            .is_ok_and(|open| !open.is_empty())
        {
            tracing::warn!(
                "an erasure was interrupted: stop the engine, and `attache erase --resume` finishes it"
            );
        }
        drop(store);
        tokio::join!(backups.run(shutdown.clone()), retention.run(shutdown));
    }
}
