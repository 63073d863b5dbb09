//! Use of entries: what a context was given, and what a search has found.

use crate::store::Result;
use crate::store::db::Connection;
use crate::store::sql::json_list;

const USE_MEMORY: &str = "
    UPDATE memory SET uses = uses + 1, last_used_at = $2 WHERE id IN (SELECT value FROM jsonb_each($1))";

/// Counts entries as used, in the transaction that records what they were used for.
pub async fn count_use(conn: &mut Connection, ids: &[String], stamp: &str) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }

    conn.exec(USE_MEMORY, (json_list(ids.iter()), stamp))
        .await?;
    Ok(())
}
