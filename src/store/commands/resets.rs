//! Boundaries in threads: a run whose letter came after `/reset` does not see what was before it.
//!
//! A boundary is a row and not a deletion. Runs before it are replayed as they were, and every listing shows the whole
//! thread. `threads::history` and `threads::sessions` obey it in their statements.

use crate::domain::{ThreadId, Timestamp};
use crate::store::db::Connection;
use crate::store::{Result, Store};
use schemars::JsonSchema;
use serde::Serialize;

/// Most boundaries of a thread that are shown, the newest.
const SHOWN_MAX: i64 = 20;

pub const RESET: &str = "
    INSERT INTO thread_resets (thread_id, after_seq, reset_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
/// Two threads became one: the boundaries of both hold.
pub const FOLD_RESETS: &str = "
    INSERT INTO thread_resets (thread_id, after_seq, reset_at)
      SELECT $2, after_seq, reset_at FROM thread_resets WHERE thread_id = $1 ON CONFLICT DO NOTHING;
    DELETE FROM thread_resets WHERE thread_id = $1";
const RESETS_OF_THREAD: &str = "
    SELECT reset_at FROM thread_resets WHERE thread_id = $1 ORDER BY after_seq DESC LIMIT $2";

/// A boundary in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadReset {
    pub reset_at: Timestamp,
}

pub async fn reset(
    conn: &mut Connection,
    (thread, after_seq): (&ThreadId, i64),
    now: Timestamp,
) -> Result<()> {
    conn.exec(RESET, (&thread, after_seq, now)).await?;
    Ok(())
}

impl Store {
    /// Returns the newest boundaries of a thread, the newest first.
    pub async fn thread_resets(&self, thread: &ThreadId) -> Result<Vec<ThreadReset>> {
        self.all(RESETS_OF_THREAD, (thread, SHOWN_MAX)).await
    }
}

from_row!(ThreadReset { reset_at });
