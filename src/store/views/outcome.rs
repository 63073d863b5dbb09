//! What has become of threads: the same answer for the mark of a list and for its filter.

use crate::domain::{RunState, ThreadId, ThreadOutcome};
use crate::store::db::Row;
use crate::store::sql::json_list;
use crate::store::{Result, Store};
use std::collections::HashMap;

/// The first condition on open runs is the one of the index `runs_open_by_thread`.
const OUTCOMES: &str = "
    SELECT t.id,
      (SELECT max(CASE r.state WHEN 'waiting_approval' THEN 2 ELSE 1 END) FROM runs r WHERE r.thread_id = t.id
        AND r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')) AS open,
      (SELECT r.state FROM runs r WHERE r.thread_id = t.id AND r.trigger <> 'summary' ORDER BY r.seq DESC LIMIT 1)
        AS run_state,
      n.direction, n.disposition,
      EXISTS (SELECT 1 FROM approvals a WHERE a.draft_id = n.id AND a.state = 'open') AS is_open_draft,
      (SELECT d.state FROM deliveries d WHERE d.message_id = n.id ORDER BY d.seq DESC LIMIT 1) AS mail_state
    FROM threads t
    LEFT JOIN messages n ON n.seq = (SELECT m.seq FROM messages m WHERE m.thread_id = t.id ORDER BY m.seq DESC LIMIT 1)
    WHERE t.id IN (SELECT value FROM jsonb_each($1))";

impl Store {
    /// Returns the outcome of each of these threads.
    pub(in crate::store) async fn thread_outcomes(
        &self,
        ids: &[ThreadId],
    ) -> Result<HashMap<ThreadId, ThreadOutcome>> {
        let ids = json_list(ids.iter().map(ThreadId::as_str));
        let rows = self.rows(OUTCOMES, ids);
        let rows = rows.await?;
        let found = rows
            .iter()
            .map(|row| (ThreadId::new(row.get::<String>("id")), outcome(row)));
        Ok(found.collect())
    }
}

/// Decides by what a person must know first: what waits for them, then what goes on, then how it ended.
fn outcome(row: &Row) -> ThreadOutcome {
    let word = |column: &str| row.get::<Option<String>>(column).unwrap_or_default();
    let (run_state, disposition, mail) = (
        RunState::parse(&word("run_state")),
        word("disposition"),
        word("mail_state"),
    );
    let open: Option<i64> = row.get("open");
    match (open, run_state, mail.as_str()) {
        (Some(2), ..) => ThreadOutcome::Waiting,
        _ if row.get("is_open_draft") => ThreadOutcome::Waiting,
        (Some(_), ..) => ThreadOutcome::AtWork,
        _ if disposition.starts_with("filed:") => ThreadOutcome::Filed,
        (None, Some(RunState::Failed), _) => ThreadOutcome::Failed,
        (None, Some(RunState::Cancelled), _) => ThreadOutcome::Cancelled,
        _ if disposition.starts_with("withheld:") => ThreadOutcome::NotSent,
        (.., "failed") => ThreadOutcome::Undelivered,
        (.., "cancelled") => ThreadOutcome::NotSent,
        (.., "queued" | "sending" | "committing" | "held") => ThreadOutcome::Leaving,
        _ if word("direction") == "outbound" => ThreadOutcome::Answered,
        _ => ThreadOutcome::Quiet,
    }
}
