//! The row of an erasure: by it one that was interrupted is finished.

use crate::domain::Timestamp;
use crate::store::db::{Row, Scope};
use crate::store::sql::to_json;
use crate::store::{Result, Store};
use std::collections::{BTreeMap, BTreeSet};

const BEGIN_ERASURE: &str = "
    INSERT INTO erasures (id, contact_sha256, addresses_json, with_quotes, state, started_by, started_at)
    VALUES ($1, $2, $3, $4, 'begun', $5, $6)";
const OPEN_ERASURES: &str = "
    SELECT id, contact_sha256, addresses_json, with_quotes, state, started_by, started_at, counts_json FROM erasures
    WHERE state <> 'done' ORDER BY id";
pub const ROWS_ERASED: &str =
    "UPDATE erasures SET state = 'rows_erased', counts_json = $2 WHERE id = $1";
const END_ERASURE: &str = "
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
        transact!(self, Scope::Engine, |conn| {
            conn.exec(
                BEGIN_ERASURE,
                (
                    new.id,
                    new.contact_sha256,
                    addresses,
                    new.with_quotes,
                    new.started_by,
                    new.started,
                ),
            )
            .await?;
            Ok(())
        })
        .await
    }

    /// Returns the erasures that were interrupted.
    pub async fn open_erasures(&self) -> Result<Vec<OpenErasure>> {
        let rows = self.rows(OPEN_ERASURES, ());
        rows.await?.iter().map(Row::to).collect()
    }

    /// Records that an erasure is finished; the addresses go from its row, too.
    pub async fn end_erasure(&self, id: &str) -> Result<()> {
        let (id, now) = (id.to_owned(), self.clock().now().to_string());
        transact!(self, Scope::Engine, |conn| {
            conn.exec(END_ERASURE, (id, now)).await?;
            Ok(())
        })
        .await
    }
}

from_row!(|row| OpenErasure {
    id,
    contact_sha256,
    addresses: { row.json("addresses_json", "addresses of an erasure")? },
    with_quotes,
    is_past_rows: { row.get::<&str>("state") == "rows_erased" },
    started_by,
    started: "started_at",
    counts: { row.json("counts_json", "counts of an erasure")? }
});
