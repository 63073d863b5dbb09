//! An erasure from its beginning to its report, in an order in which each step can be made again.
//!
//! Memory and files go first, because the letters say what to look for; then all rows in one transaction; then the file is written
//! anew. One that was interrupted before the rows begins anew, one after them is finished.

use super::erasure_backups::named_backups;
use super::erasure_files::{ErasedFiles, erase_files};
use super::erasure_report::{ErasureReport, NamedBackup};
use super::failure::KeepingError;
use crate::config::{Config, TransportSettings};
use crate::crash::crash_point;
use crate::domain::sha256_hex;
use crate::store::{ErasureScope, OpenErasure, QuotingMessage, Store, THIS_VERSION};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What an erasure would take.
#[derive(Debug)]
pub struct ErasureForecast {
    pub scope: ErasureScope,
    pub files: ErasedFiles,
    pub memory: usize,
    pub backups: Vec<NamedBackup>,
}

impl ErasureForecast {
    /// Reports whether nothing of the person is there.
    pub fn is_empty(&self) -> bool {
        self.scope.is_empty() && self.memory == 0
    }
}

/// Returns what an erasure of a person would take. Changes nothing.
pub async fn forecast(
    store: &Store,
    config: &Config,
    address: &str,
    with_quotes: bool,
) -> Result<ErasureForecast, KeepingError> {
    let addresses = store.addresses_of_person(address).await?;
    let scope = store.erasure_scope(addresses, with_quotes).await?;
    let files = files_of(config, &scope, true)?;
    Ok(ErasureForecast {
        memory: store.count_memory_of_scope(&scope).await?,
        files,
        backups: named_backups(store, config).await?,
        scope,
    })
}

/// Begins an erasure, and finishes it. `by`: the user.
pub async fn erase(
    store: &Store,
    config: &Config,
    address: &str,
    with_quotes: bool,
    by: &str,
) -> Result<ErasureReport, KeepingError> {
    let begun = OpenErasure {
        id: store.clock().new_id(),
        contact_sha256: sha256_hex(&[address.as_bytes()]),
        addresses: store.addresses_of_person(address).await?,
        with_quotes,
        is_past_rows: false,
        started_by: by.to_owned(),
        started: store.clock().now(),
        counts: BTreeMap::new(),
    };
    store.begin_erasure(begun.clone()).await?;
    crash_point!("E1");
    finish(store, config, begun, false).await
}

/// Finishes an erasure that was begun.
pub async fn finish(
    store: &Store,
    config: &Config,
    begun: OpenErasure,
    was_interrupted: bool,
) -> Result<ErasureReport, KeepingError> {
    let mut done = Done {
        counts: begun.counts.clone(),
        ..Done::default()
    };
    if !begun.is_past_rows {
        done = erase_rows_and_files(store, config, &begun).await?;
    }
    crash_point!("E3");
    let texts = store.erase_unnamed_texts().await?;
    *done
        .counts
        .entry("texts_of_requests".to_owned())
        .or_default() += texts;
    let is_rewritten = store.rewrite_file().await?;
    let remains = match done.scope {
        Some(scope) => Some(store.quoting_places(&scope.quotations).await?),
        None => None,
    };
    let report = ErasureReport {
        form: 1,
        id: begun.id.clone(),
        program: THIS_VERSION.to_owned(),
        contact_sha256: begun.contact_sha256,
        addresses: begun.addresses.len(),
        with_quotes: begun.with_quotes,
        by: begun.started_by,
        started_at: begun.started,
        finished_at: store.clock().now(),
        counts: done.counts,
        quoting: done.quoting.into_iter().collect(),
        quoting_held: done.quoting_held.into_iter().collect(),
        files_changed: done.files.changed,
        files_removed: done.files.removed,
        files_left: done.files.left,
        remains,
        is_rewritten,
        backups: named_backups(store, config).await?,
        was_interrupted,
        signature: String::new(),
    };
    let report = report.signed(store.loop_key());
    report.write(&config.workspace)?;
    // What is still in the file's free pages is taken off by `--resume`.
    if is_rewritten {
        store.end_erasure(&begun.id).await?;
    }
    Ok(report)
}

/// What was done until the rows were gone.
#[derive(Default)]
struct Done {
    counts: BTreeMap<String, u64>,
    quoting: BTreeSet<QuotingMessage>,
    quoting_held: BTreeSet<QuotingMessage>,
    files: ErasedFiles,
    scope: Option<ErasureScope>,
}

async fn erase_rows_and_files(
    store: &Store,
    config: &Config,
    begun: &OpenErasure,
) -> Result<Done, KeepingError> {
    let scope = store
        .erasure_scope(begun.addresses.clone(), begun.with_quotes)
        .await?;
    if !scope.open.is_empty() {
        return Err(KeepingError::StillOpen {
            ids: scope.open.clone(),
        });
    }
    let entries = store
        .erase_memory_of_scope(&scope, &begun.started_by)
        .await?;
    let files = files_of(config, &scope, false)?;
    crash_point!("E2");
    let mut counts = scope.counts();
    let further = [
        ("memory_entries", entries),
        ("files_changed", files.changed.len()),
        ("files_removed", files.removed.len()),
        ("files_left", files.left.len()),
    ];
    counts.extend(further.map(|(kind, count)| (kind.to_owned(), count as u64)));
    let counts = store.erase_scope(&begun.id, &scope, counts).await?;
    Ok(Done {
        counts,
        quoting: scope.quoting.clone(),
        quoting_held: scope.quoting_held.clone(),
        files,
        scope: Some(scope),
    })
}

fn files_of(config: &Config, scope: &ErasureScope, dry: bool) -> Result<ErasedFiles, KeepingError> {
    // Letters and mails that a program wrote, wherever they are.
    let mut others: Vec<PathBuf> = Vec::new();
    if let Some(TransportSettings::Folder(folder)) = &config.gateway.outbound {
        others.push(folder.clone());
    }
    let watched = config.gateway.folders.iter();
    others.extend(watched.map(|folder| folder.path.clone()));
    let workspace = &config.workspace;
    erase_files(workspace, &others, scope, dry).map_err(KeepingError::at(workspace))
}
