//! Deletes objects whose rows went, and once a day those that never had a row, a bounded look at a time.

use crate::domain::Timestamp;
use crate::store::{OrphanPass, Result, Store, StoreError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between the beginnings of two passes over all objects.
const PASS_EVERY: Duration = Duration::from_secs(24 * 3600);
/// Interval between two new tokens of this database in the object store.
const RENEW_EVERY: Duration = Duration::from_secs(3600);
/// Pause between two steps, and between two looks when nothing is to be done.
const PAUSE: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_secs(60);

/// Keeps the object store free of what no row names.
pub struct ObjectWorker {
    store: Store,
    pass: OrphanPass,
    began: Option<Timestamp>,
    renewed: Option<Timestamp>,
}

impl ObjectWorker {
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            pass: OrphanPass::default(),
            began: None,
            renewed: None,
        }
    }

    /// Works until `shutdown`; ends at once where no object store is configured.
    pub async fn run(mut self, shutdown: CancellationToken) {
        if !self.store.has_objects() {
            return;
        }
        loop {
            let pause = match self.work_once().await {
                Ok(true) => PAUSE,
                Ok(false) => LOOK,
                Err(error) => {
                    let remedy = match &error {
                        StoreError::Object(error) => error.remedy(),
                        _ => String::new(),
                    };
                    tracing::warn!(%error, remedy, "objects without rows cannot be deleted; trying again");
                    LOOK
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Makes one step; `false`: nothing more is to be done now.
    pub async fn work_once(&mut self) -> Result<bool> {
        let now = self.store.clock().now();
        if is_due(self.renewed, RENEW_EVERY, now) {
            self.store.renew_object_token().await?;
            self.renewed = Some(now);
        }
        if self.store.delete_dropped_objects().await? {
            return Ok(true);
        }
        if self.pass.is_over() || self.began.is_none() {
            if !is_due(self.began, PASS_EVERY, now) {
                return Ok(false);
            }
            (self.pass, self.began) = (OrphanPass::default(), Some(now));
        }
        self.store.sweep_orphans(&mut self.pass).await?;
        if self.pass.is_over() && self.pass.deleted > 0 {
            tracing::info!(
                objects = self.pass.looked_at,
                deleted = self.pass.deleted,
                "objects without rows were deleted"
            );
        }
        Ok(true)
    }
}

/// Reports whether something that was done at an instant, or never, is to be done again; also after the clock went back.
fn is_due(done: Option<Timestamp>, every: Duration, now: Timestamp) -> bool {
    done.is_none_or(|done| done > now || now.since(done) >= every)
}
