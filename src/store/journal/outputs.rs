//! Structured answers of runs. The schema of a run is in its options (`run_options.rs`).

use crate::domain::{PersonaId, RunId, Timestamp};
use crate::store::db::{self, Connection};
use crate::store::sql::timestamp;
use crate::store::{PersonaStore, Result};

/// A value that matches its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOutput {
    pub schema_sha256: String,
    /// Canonical JSON: keys in order, no white space.
    pub json: String,
    /// Number of repair requests to the model.
    pub repairs: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutput {
    pub output: NewOutput,
    pub created_at: Timestamp,
}

/// A repeated run replaces its earlier output.
pub(in crate::store) const INSERT_OUTPUT: &str = "
    INSERT INTO run_outputs (run_id, persona_id, schema_sha256, json, repairs, created_at)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (run_id) DO UPDATE SET schema_sha256 = excluded.schema_sha256, json = excluded.json,
      repairs = excluded.repairs, created_at = excluded.created_at";
pub(in crate::store) const OUTPUT_OF_RUN: &str = "SELECT schema_sha256, json, repairs, created_at FROM run_outputs WHERE run_id = $1 AND persona_id = $2";

impl PersonaStore {
    /// Returns the structured answer of a run.
    pub async fn output_of_run(&self, run: &RunId) -> Result<Option<StoredOutput>> {
        let output = db::query(OUTPUT_OF_RUN)
            .bind(run.as_str())
            .bind(self.persona.as_str());
        let Some(row) = output.fetch_optional(self.store.readers()).await? else {
            return Ok(None);
        };
        let (schema_sha256, json, repairs) = (
            row.get("schema_sha256"),
            row.get("json"),
            row.get("repairs"),
        );
        let output = NewOutput {
            schema_sha256,
            json,
            repairs,
        };
        Ok(Some(StoredOutput {
            output,
            created_at: timestamp(&row, "created_at")?,
        }))
    }
}

/// Inserts one row; the caller's transaction holds the fence.
pub(in crate::store) async fn insert(
    conn: &mut Connection,
    (run, persona): (&RunId, &PersonaId),
    output: &NewOutput,
    now: Timestamp,
) -> Result<()> {
    let insert = db::query(INSERT_OUTPUT)
        .bind(run.as_str())
        .bind(persona.as_str());
    let insert = insert
        .bind(&output.schema_sha256)
        .bind(&output.json)
        .bind(output.repairs);
    insert.bind(now.to_string()).execute(conn).await?;
    Ok(())
}
