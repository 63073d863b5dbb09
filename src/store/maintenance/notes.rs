//! The row that says when a kind of maintenance was done last.

use crate::store::db::Scope;
use crate::store::{Result, Store};

const NOTE_MAINTENANCE: &str = "
    INSERT INTO maintenance (kind, at, detail) VALUES ($1, $2, $3)
    ON CONFLICT (kind) DO UPDATE SET at = excluded.at, detail = excluded.detail";

impl Store {
    /// Records that maintenance was done: `gc`.
    pub async fn note_maintenance(&self, kind: &'static str, detail: String) -> Result<()> {
        let now = self.clock().now().to_string();
        transact!(self, Scope::Engine, |conn| {
            conn.exec(NOTE_MAINTENANCE, (kind, now, detail)).await?;
            Ok(())
        })
        .await
    }
}
