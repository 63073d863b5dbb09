//! `attache backup DIR/`: the whole workspace in a folder.

use super::refusal::refusal;
use super::require_parent;
use crate::cli::screen::progress;
use crate::cli::{CommandContext, Exit, Failure, screen};
use crate::clock::SystemClock;
use crate::domain::Timestamp;
use crate::keeping::{self, BackupManifest};
use crate::store::{BackupEnd, Store};
use crate::text::plural;
use anyhow::Context as _;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

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

pub(super) async fn back_up(context: &CommandContext, folder: &Path) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let absolute = std::path::absolute(folder).context("no such path")?;
    // Without the slash at its end the name of the folder is its last part.
    let folder: std::path::PathBuf = absolute.components().collect();
    let database = context.database_file()?;
    if !database.is_file() {
        let failure = Failure::new(Exit::NoInput, "there is no database yet");
        return Err(failure.hint("the first start of an engine makes it").into());
    }
    require_parent(&folder, &database)?;
    let mut parts = COPIED.iter().map(|part| workspace.join(part));
    if folder == workspace || parts.any(|part| folder.starts_with(part)) {
        let failure = Failure::new(Exit::Usage, "this folder is part of what is copied");
        return Err(failure
            .hint("name a folder elsewhere, best on another disk")
            .into());
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
    note(&store, &folder, made.manifest.bytes(), &broken).await;
    print(context, &folder, &made.manifest, made.checks)?;
    if broken.is_empty() {
        return Ok(Exit::Ok);
    }
    let message = format!("the database is not sound: {}", broken.join(", "));
    let failure = Failure::new(Exit::Failed, message);
    Err(failure
        .hint("the copy was made all the same; `attache doctor --audit` says more")
        .into())
}

/// Notes a backup; it exists even when its disk accepts nothing more of the database.
pub(super) async fn note(store: &Store, made: &Path, bytes: u64, broken: &[&str]) {
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

fn print(
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
