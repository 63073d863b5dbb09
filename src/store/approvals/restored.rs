//! Questions of a database that is a restored backup: what was asked then may have been decided since, and what was approved
//! may have happened.

use super::decide::decide;
use super::record::{ApprovalVerdict, NewDecision};
use crate::store::db::{self, Scope};
use crate::store::memory::digest;
use crate::store::{Result, Store};

pub(in crate::store) const IS_COPY: &str = "SELECT 1 FROM database_copies WHERE id = 1";
pub(in crate::store) const NO_COPY: &str = "DELETE FROM database_copies WHERE id = 1";
pub(in crate::store) const OPEN_QUESTIONS: &str =
    "SELECT id FROM approvals WHERE state = 'open' ORDER BY expires_at";
/// A call that is approved and not begun is asked about anew. A mail is none: it was queued in the commit of its approval.
pub(in crate::store) const CLOSE_UNUSED: &str = "
    UPDATE approvals SET state = 'cancelled', via = 'restored' WHERE state = 'approved' AND parks = 1 AND begun_at IS NULL
      AND mail_json IS NULL AND kind = 'call' AND run_id IN (SELECT id FROM runs
        WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))";

impl Store {
    /// Closes what is open in a database that is a copy, once; returns the number of questions. Their runs go on and learn
    /// of it.
    pub async fn close_questions_of_copy(&self) -> Result<usize> {
        let (clock, now) = (self.clock().clone(), self.clock().now());
        let is_copy = db::query(IS_COPY)
            .fetch_optional(self.readers())
            .await?
            .is_some();
        if !is_copy {
            return Ok(0);
        }
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                let open: Vec<String> = db::query_scalar(OPEN_QUESTIONS)
                    .fetch_all(&mut *conn)
                    .await?;
                for id in &open {
                    let step = clock.new_id();
                    decide(conn, id, &closed(), (now, &step)).await?;
                }
                db::query(CLOSE_UNUSED).execute(&mut *conn).await?;
                digest::close_all(conn, now).await?;
                db::query(NO_COPY).execute(conn).await?;
                Ok(open.len())
            })
        })
        .await
    }
}

fn closed() -> NewDecision {
    NewDecision {
        verdict: ApprovalVerdict::Close,
        by: String::new(),
        via: "restored",
        words: String::new(),
        evidence_json: "{}".to_owned(),
        sha256: None,
    }
}
