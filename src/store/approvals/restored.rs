//! Questions of a database that is a restored backup: what was asked then may have been decided since, and what was approved
//! may have happened.

use super::decide::decide;
use super::record::{ApprovalVerdict, NewDecision};
use crate::store::db::Scope;
use crate::store::memory::digest;
use crate::store::{Result, Store};

const IS_COPY: &str = "SELECT 1 FROM engine WHERE id = 1 AND is_copy = 1";
const NO_COPY: &str = "UPDATE engine SET is_copy = 0 WHERE id = 1";
const OPEN_QUESTIONS: &str = "SELECT id FROM approvals WHERE state = 'open' ORDER BY expires_at";
/// A call that is approved and not begun is asked about anew. A mail is none: it was queued in the commit of its approval.
const CLOSE_UNUSED: &str = "
    UPDATE approvals SET state = 'cancelled', via = 'restored' WHERE state = 'approved' AND parks = 1 AND begun_at IS NULL
      AND mail_json IS NULL AND kind = 'call' AND run_id IN (SELECT id FROM runs
        WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry'))";

impl Store {
    /// Closes what is open in a database that is a copy, once; returns the number of questions. Their runs go on and learn
    /// of it.
    pub async fn close_questions_of_copy(&self) -> Result<usize> {
        let (clock, now) = (self.clock().clone(), self.clock().now());
        let is_copy = self.maybe_row(IS_COPY, ()).await?.is_some();
        if !is_copy {
            return Ok(0);
        }
        transact!(self, Scope::Engine, |conn| {
            let open: Vec<String> = conn.all(OPEN_QUESTIONS, ()).await?;
            for id in &open {
                let step = clock.new_id();
                decide(conn, id, &closed(), (now, &step)).await?;
            }
            conn.exec(CLOSE_UNUSED, ()).await?;
            digest::close_all(conn, now).await?;
            conn.exec(NO_COPY, ()).await?;
            Ok(open.len())
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
