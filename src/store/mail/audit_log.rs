//! Policy decisions about mail: table `audit_log`.

use crate::domain::{PersonaId, Timestamp};
use crate::store::Result;
use crate::store::db::Connection;

const AUDIT: &str = "
    INSERT INTO audit_log (persona_id, subject_kind, subject_id, decision, rule, detail, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// Records a policy decision in `audit_log`. `decision` is `verb:rule` or a bare verb.
pub async fn audit(
    conn: &mut Connection,
    persona: Option<&PersonaId>,
    subject: (&'static str, &str),
    decision: &str,
    now: Timestamp,
) -> Result<()> {
    let (verb, rule) = decision.split_once(':').unwrap_or((decision, ""));

    conn.exec(AUDIT, (persona, subject.0, subject.1, verb, rule, "", now))
        .await?;
    Ok(())
}
