//! The fence of a run: every change of a running run names the engine that claimed it, and a change
//! by another engine touches no row.

use crate::domain::{MessageId, RunId};
use crate::store::{Result, StoreError};

/// Checks that a change touched a row; otherwise the engine no longer owns the run.
pub fn fenced(rows_affected: u64, run: &str) -> Result<()> {
    match rows_affected {
        0 => Err(StoreError::WrongState {
            kind: "run",
            id: run.to_owned(),
            state: "no longer ours".to_owned(),
            hint: "another engine or a cancellation took it over",
        }),
        _ => Ok(()),
    }
}

/// Run of the entries, and the message of its steps.
#[derive(Debug, Clone)]
pub struct RunKey {
    pub run: RunId,
    pub trigger_message: MessageId,
}

/// Common fields of the entries of one transaction.
pub struct Frame<'a> {
    pub key: &'a RunKey,
    pub persona: &'a str,
    pub epoch: i64,
    pub now: &'a str,
}
