//! Structured answers of runs. The schema of a run is in its options (`run_options.rs`).

use crate::domain::{PersonaId, RunId, Timestamp};
use crate::store::db::Connection;
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
const INSERT_OUTPUT: &str = "
    INSERT INTO run_outputs (run_id, persona_id, schema_sha256, json, repairs, created_at)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (run_id) DO UPDATE SET schema_sha256 = excluded.schema_sha256, json = excluded.json,
      repairs = excluded.repairs, created_at = excluded.created_at";
const OUTPUT_OF_RUN: &str = "SELECT schema_sha256, json, repairs, created_at FROM run_outputs WHERE run_id = $1 AND persona_id = $2";

impl PersonaStore {
    /// Returns the structured answer of a run.
    pub async fn output_of_run(&self, run: &RunId) -> Result<Option<StoredOutput>> {
        let Some(row) = self.maybe_row(OUTPUT_OF_RUN, (run, &self.persona)).await? else {
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
pub async fn insert(
    conn: &mut Connection,
    (run, persona): (&RunId, &PersonaId),
    output: &NewOutput,
    now: Timestamp,
) -> Result<()> {
    conn.exec(
        INSERT_OUTPUT,
        (
            &run,
            &persona,
            &output.schema_sha256,
            &output.json,
            output.repairs,
            now,
        ),
    )
    .await?;
    Ok(())
}
