//! Answers in a form that was asked for. Which form that is, the terms of the run say (`terms.rs`).

use super::history::timestamp;
use super::{PersonaStore, Result};
use crate::domain::{PersonaId, RunId, Timestamp};
use sqlx::{Row, SqliteConnection};

/// A value that fits its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOutput {
    pub schema_sha256: String,
    /// Canonical: keys in order, nothing between.
    pub json: String,
    /// Times that the model was asked again.
    pub repairs: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutput {
    pub output: NewOutput,
    pub created_at: Timestamp,
}

/// A run that is done again replaces what it said before.
pub(super) const INSERT_OUTPUT: &str = "
    INSERT INTO run_outputs (run_id, persona_id, schema_sha256, json, repairs, created_at)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (run_id) DO UPDATE SET schema_sha256 = excluded.schema_sha256, json = excluded.json,
      repairs = excluded.repairs, created_at = excluded.created_at";
pub(super) const OUTPUT_OF_RUN: &str =
    "SELECT schema_sha256, json, repairs, created_at FROM run_outputs WHERE run_id = $1 AND persona_id = $2";

impl PersonaStore {
    /// What a run answered in the form that was asked for.
    pub async fn output_of_run(&self, run: &RunId) -> Result<Option<StoredOutput>> {
        let output = sqlx::query(OUTPUT_OF_RUN).bind(run.as_str()).bind(self.persona.as_str());
        let Some(row) = output.fetch_optional(self.store.readers()).await? else { return Ok(None) };
        let (schema_sha256, json, repairs) = (row.get(0), row.get(1), row.get(2));
        let output = NewOutput { schema_sha256, json, repairs };
        Ok(Some(StoredOutput { output, created_at: timestamp(&row, "created_at")? }))
    }
}

/// One row; the caller's transaction holds the fence.
pub(super) async fn insert(
    conn: &mut SqliteConnection,
    (run, persona): (&RunId, &PersonaId),
    output: &NewOutput,
    now: Timestamp,
) -> Result<()> {
    let insert = sqlx::query(INSERT_OUTPUT).bind(run.as_str()).bind(persona.as_str());
    let insert = insert.bind(&output.schema_sha256).bind(&output.json).bind(output.repairs);
    insert.bind(now.to_string()).execute(conn).await?;
    Ok(())
}
