//! What nodes that are gone left, taken over by one that lives.

use crate::store::db::{self, Scope};
use crate::store::deliveries::queue::{RecoveredDeliveries, requeue_deliveries};
use crate::store::runs::crashes::{RecoveredRuns, requeue_runs};
use crate::store::{Result, Store};

/// Nodes whose lease has expired, by the server's clock. One of them that still works finds that it has no row, and stores
/// nothing any more.
static BURY: &str = "DELETE FROM nodes WHERE expires_ms <= server_ms() AND epoch <> $1 RETURNING epoch, host, workspace";
const DROP_LEASES: &str = "DELETE FROM leases WHERE epoch NOT IN (SELECT epoch FROM nodes)";

/// Result of [`Store::take_over_work`].
#[derive(Debug, Default)]
pub struct TakenOver {
    /// Nodes that this call found gone, as `HOST:WORKSPACE`.
    pub nodes: Vec<String>,
    pub runs: RecoveredRuns,
    pub deliveries: RecoveredDeliveries,
}

impl Store {
    /// Removes nodes whose lease has expired, and queues again what nodes that are gone had in hand. With `hold`, a mail
    /// that a peer may have waits for an operator. On PostgreSQL only.
    pub async fn take_over_work(&self, hold: bool) -> Result<TakenOver> {
        let (epoch, clock) = (self.epoch(), self.clock().clone());
        // No other write goes on, so that what a node had begun is stored, or will be refused.
        let taken = transact!(self, Scope::Engine, |conn| {
            let gone = conn.rows(BURY, epoch).await?;
            conn.exec(DROP_LEASES, ()).await?;
            let named = |row: &db::Row| {
                format!(
                    "{}:{}",
                    row.get::<&str>("host"),
                    row.get::<&str>("workspace")
                )
            };
            Ok(TakenOver {
                nodes: gone.iter().map(named).collect(),
                runs: requeue_runs(conn, clock.as_ref()).await?,
                deliveries: requeue_deliveries(conn, hold, clock.as_ref()).await?,
            })
        });
        let taken = taken.await?;
        self.poison_runs().there_may_be_some();
        Ok(taken)
    }
}
