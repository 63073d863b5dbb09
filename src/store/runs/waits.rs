//! Runs that wait for the owner's budget or file: parked without an attempt that counts, and woken when that may be there.

use crate::domain::RunId;
use crate::store::budgets::money::{WAKE_WAITING, leave};
use crate::store::db::{self, Scope};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::runs::fence::fenced;
use crate::store::runs::queue::RunFailure;
use crate::store::{Result, Store};

/// Such a wait is no failure: the attempt does not count.
const PARK_UNSPENT: &str = "
    UPDATE runs SET state = 'waiting_retry', attempt = max(attempt - 1, 0), next_attempt_at = $3,
      error_class = $4, error_message = $5, worked_ms = $6, state_at = $7
    WHERE id = $1 AND epoch = $2 AND state = 'running'";

impl Store {
    /// Parks a claimed run until its retry, however often, and notifies the owner, in one commit.
    ///
    /// Errors: [`StoreError::WrongState`](crate::store::StoreError::WrongState) when the run is no longer this engine's.
    pub async fn park_unspent(
        &self,
        run: &RunId,
        wait: RunFailure,
        notice: Option<NewNotice>,
    ) -> Result<()> {
        let (epoch, id, now) = (self.epoch(), run.as_str().to_owned(), self.clock().now());
        transact!(self, Scope::of_run(run), |conn| {
            let parked = conn
                .exec(
                    PARK_UNSPENT,
                    (
                        &id,
                        epoch,
                        wait.retry_at,
                        &wait.class,
                        &wait.message,
                        wait.worked,
                        now,
                    ),
                )
                .await?;
            fenced(parked, &id)?;
            leave(conn, &id, &now.to_string()).await?;
            if let Some(notice) = &notice {
                emit(conn, notice, now).await?;
            }
            Ok(())
        })
        .await
    }

    /// Wakes the runs that wait for a budget or a file, because there may be others now.
    pub async fn wake_waits(&self) -> Result<()> {
        self.write(Scope::Engine, |conn| {
            Box::pin(async move {
                db::query(WAKE_WAITING).exec(conn).await?;
                Ok(())
            })
        })
        .await
    }
}
