//! Runs that wait for a budget account, when its bounds become others.

use super::money::WAKE_WAITING;
use crate::store::{Result, Store};

impl Store {
    /// Wakes runs that wait for a budget account, because the bounds may be others now.
    pub async fn wake_budget_waits(&self) -> Result<()> {
        self.write(|conn| {
            Box::pin(async move {
                sqlx::query(WAKE_WAITING).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}
