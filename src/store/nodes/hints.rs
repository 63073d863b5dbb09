//! Hints to other nodes that a queue has work which this node leaves to them.

use crate::store::db;
use crate::store::postgres::heartbeat::LeaseHeartbeat;
use crate::store::postgres::hints::{HintedQueue, NOTIFY, QueueHints};
use crate::store::{Result, Store};

impl Store {
    /// Returns the hints of other nodes; `None`: this engine is alone.
    pub fn queue_hints(&self) -> Option<QueueHints> {
        self.heartbeat().map(LeaseHeartbeat::hints)
    }

    /// Tells the other nodes that a queue has new work. Nothing depends on it: they look for themselves every second.
    pub async fn hint(&self, queue: HintedQueue) -> Result<()> {
        if self.has_nodes() {
            db::query(NOTIFY)
                .bind(queue.payload(self.epoch()))
                .exec(self.readers())
                .await?;
        }
        Ok(())
    }
}
