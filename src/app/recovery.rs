//! What a new engine does about the one before it, before it works: agents' processes, changed files, open runs.

use crate::config::Config;
use crate::providers::child::marker;
use crate::runs::chat::answer_stream;
use crate::runs::env::file_guards;
use crate::store::{ROW_AHEAD_MAX, RecoveredRuns, Store, StoreError};
use anyhow::Context;
use std::time::Duration;

/// Age since its last call after which an agent's session is removed.
const SESSION_UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Brings back what the previous engine left: its agents' processes, changed files, open runs.
pub(super) async fn recover(store: &Store, config: &Config) -> anyhow::Result<()> {
    // Before anything is stored by this clock.
    look_at_clock(store)
        .await
        .context("looking for the newest row")?;
    // The epoch is ours: the engine that started these agents is gone, and nothing records
    // their work.
    let left = marker::sweep(&config.workspace);
    if left > 0 {
        tracing::warn!(
            processes = left,
            "an agent's processes had outlived their engine; they were killed"
        );
    }
    answer_stream::clear(&config.workspace);
    file_guards::recover(store, config)
        .await
        .context("putting back what agents changed")?;
    let recovered = store.recover_runs().await.context("recovering runs")?;
    let RecoveredRuns {
        queued,
        poison_runs,
        quarantined,
    } = recovered;
    if queued + quarantined > 0 {
        tracing::info!(
            queued,
            poison_runs,
            "an engine stopped in the middle; its runs are queued again"
        );
    }
    if quarantined > 0 {
        tracing::error!(
            runs = quarantined,
            "runs that stop every engine at the same step were quarantined"
        );
    }
    let closed = store
        .close_questions_of_copy()
        .await
        .context("closing questions of a restored backup")?;
    if closed > 0 {
        tracing::warn!(
            closed,
            "this database is a restored backup: the questions that were open are closed, and their runs go on without an approval; drafts that \
             waited are not sent, and their letters stay without an answer until somebody writes one"
        );
    }
    store
        .forget_sessions(SESSION_UNUSED_MAX)
        .await
        .context("forgetting sessions of agents")?;
    Ok(())
}

/// Warns where the clock is earlier than what was stored by it.
async fn look_at_clock(store: &Store) -> Result<(), StoreError> {
    let now = store.clock().now();
    let newest = store.newest_instant().await?;
    if let Some(newest) = newest.filter(|at| *at > now.plus(ROW_AHEAD_MAX)) {
        tracing::warn!(
            %now,
            newest_row = %newest,
            "the clock is earlier than the newest row of the database: it went back, or was ahead; set it and start the engine \
             anew, which brings forward what waits"
        );
    }
    Ok(())
}
