//! The row of an erasure: by it one that was interrupted is finished.

use crate::domain::Timestamp;
use crate::store::db::{self, Row, Scope};
use crate::store::sql::{from_json, timestamp, to_json};
use crate::store::{Result, Store};
use std::collections::{BTreeMap, BTreeSet};

pub(in crate::store) const BEGIN_ERASURE: &str = "
    INSERT INTO erasures (id, contact_sha256, addresses_json, with_quotes, state, started_by, started_at)
    VALUES ($1, $2, $3, $4, 'begun', $5, $6)";
pub(in crate::store) const OPEN_ERASURES: &str = "
    SELECT id, contact_sha256, addresses_json, with_quotes, state, started_by, started_at, counts_json FROM erasures
    WHERE state <> 'done' ORDER BY id";
pub(in crate::store) const ROWS_ERASED: &str =
    "UPDATE erasures SET state = 'rows_erased', counts_json = $2 WHERE id = $1";
pub(in crate::store) const END_ERASURE: &str = "
    UPDATE erasures SET state = 'done', addresses_json = '[]', finished_at = $2 WHERE id = $1";

/// An erasure that was begun.
#[derive(Debug, Clone)]
pub struct OpenErasure {
    pub id: String,
    pub contact_sha256: String,
    pub addresses: BTreeSet<String>,
    pub with_quotes: bool,
    /// The rows are done; the file is to be written anew, and the report to be written.
    pub is_past_rows: bool,
    pub started_by: String,
    pub started: Timestamp,
    /// Rows by kind; empty before they are erased.
    pub counts: BTreeMap<String, u64>,
}

impl Store {
    /// Records that an erasure begins.
    pub async fn begin_erasure(&self, new: OpenErasure) -> Result<()> {
        let addresses = to_json(&new.addresses)?;
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                db::query(BEGIN_ERASURE)
                    .bind(new.id)
                    .bind(new.contact_sha256)
                    .bind(addresses)
                    .bind(new.with_quotes)
                    .bind(new.started_by)
                    .bind(new.started.to_string())
                    .execute(conn)
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// Returns the erasures that were interrupted.
    pub async fn open_erasures(&self) -> Result<Vec<OpenErasure>> {
        let rows = db::query(OPEN_ERASURES).fetch_all(self.readers());
        rows.await?.iter().map(open_erasure).collect()
    }

    /// Records that an erasure is finished; the addresses go from its row, too.
    pub async fn end_erasure(&self, id: &str) -> Result<()> {
        let (id, now) = (id.to_owned(), self.clock().now().to_string());
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                let end = db::query(END_ERASURE).bind(id).bind(now);
                end.execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}

fn open_erasure(row: &Row) -> Result<OpenErasure> {
    Ok(OpenErasure {
        id: row.get("id"),
        contact_sha256: row.get("contact_sha256"),
        addresses: from_json(row.get("addresses_json"), "addresses of an erasure")?,
        with_quotes: row.get("with_quotes"),
        is_past_rows: row.get::<&str>("state") == "rows_erased",
        started_by: row.get("started_by"),
        started: timestamp(row, "started_at")?,
        counts: from_json(row.get("counts_json"), "counts of an erasure")?,
    })
}
