//! The row that says when a kind of maintenance was done last.

use crate::store::db::{self, Scope};
use crate::store::{Result, Store};

pub(in crate::store) const NOTE_MAINTENANCE: &str = "
    INSERT INTO maintenance (kind, at, detail) VALUES ($1, $2, $3)
    ON CONFLICT (kind) DO UPDATE SET at = excluded.at, detail = excluded.detail";

impl Store {
    /// Records that maintenance was done: `gc`.
    pub async fn note_maintenance(&self, kind: &'static str, detail: String) -> Result<()> {
        let now = self.clock().now().to_string();
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                db::query(NOTE_MAINTENANCE)
                    .bind(kind)
                    .bind(now)
                    .bind(detail)
                    .execute(conn)
                    .await?;
                Ok(())
            })
        })
        .await
    }
}
