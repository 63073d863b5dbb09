//! Age: entries whose time is over, or that no run has needed for long, expire in small steps.
//!
//! An expired entry is shown to no run. Its row stays, so contexts of the past are assembled again as they were.

use super::write::{MemoryAuthor, event};
use crate::domain::{MEMORY_UNUSED_MAX, Timestamp};
use crate::store::db::{self, Connection, ConnectionSource, Scope};
use crate::store::{Result, Store};

/// Most entries of one kind that one pass expires.
const PASS_MAX: i64 = 100;

/// Entries whose last day is before `$1`, and those that were last used before `$2`.
const OVERDUE_MEMORY: &str = "
    SELECT * FROM (SELECT id, status, 'its last day is over' AS why FROM memory
      WHERE status IN ('proposed', 'active') AND valid_to <= $1 ORDER BY valid_to LIMIT $3) AS over
    UNION ALL
    SELECT * FROM (SELECT id, status, 'no run has needed it for 180 days' AS why FROM memory
      WHERE status = 'active' AND pinned = 0 AND coalesce(last_used_at, created_at) <= $2
      ORDER BY coalesce(last_used_at, created_at) LIMIT $3) AS unused";
const EXPIRE_MEMORY: &str = "UPDATE memory SET status = 'expired' WHERE id = $1 AND status = $2";

/// An entry that is to expire.
struct OverdueEntry {
    id: String,
    status: String,
    why: String,
}

impl Store {
    /// Expires entries whose last day is over, and those that no run has needed for long; returns their number. What one pass
    /// leaves over is for the next.
    pub async fn expire_memory(&self) -> Result<usize> {
        let now = self.clock().now();
        if overdue(self.readers(), now).await?.is_empty() {
            return Ok(0);
        }
        transact!(self, Scope::Engine, |conn| {
            // Asked again: an entry may have been used since.
            let found = overdue(&mut *conn, now).await?;
            let mut expired = 0;
            for entry in &found {
                expired += usize::from(expire(conn, entry, now).await?);
            }
            Ok(expired)
        })
        .await
    }
}

async fn overdue(
    conn: impl Into<ConnectionSource<'_>>,
    now: Timestamp,
) -> Result<Vec<OverdueEntry>> {
    let unused = now.minus(MEMORY_UNUSED_MAX);
    db::query(OVERDUE_MEMORY)
        .bind((now, unused, PASS_MAX))
        .all(conn)
        .await
}

from_row!(OverdueEntry { id, status, why });

/// Expires an entry; `false`: it has expired already.
async fn expire(conn: &mut Connection, entry: &OverdueEntry, now: Timestamp) -> Result<bool> {
    if conn.exec(EXPIRE_MEMORY, (&entry.id, &entry.status)).await? == 0 {
        return Ok(false);
    }
    let before = serde_json::json!({ "status": entry.status }).to_string();
    let engine = MemoryAuthor {
        actor: "engine",
        who: "",
        why: &entry.why,
    };
    event(conn, &entry.id, ("expired", Some(before)), engine, now).await?;
    Ok(true)
}
