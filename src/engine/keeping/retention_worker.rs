//! Throws away by age what `configs/keeping.json` says, a bounded step at a time, beside the engine's work.

use crate::config::Config;
use crate::domain::Timestamp;
use crate::replay::fork;
use crate::store::gc::{KINDS, PrunedKind};
use crate::store::{Result, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between the beginnings of two passes over a kind.
const PASS_EVERY: Duration = Duration::from_secs(24 * 3600);
/// Pause between two steps, and while the engine has work; and between two looks when nothing is to be done.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_PRESSED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(60);

/// What is to be waited for after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionPause {
    /// There is more to do.
    NextStep,
    /// There is more to do, and the engine has work of its own.
    Pressed,
    /// Nothing is to be done today.
    Idle,
}

/// Applies the ages of retention.
pub struct RetentionWorker {
    store: Store,
    config: Arc<Config>,
}

impl RetentionWorker {
    pub fn new(store: &Store, config: &Arc<Config>) -> Self {
        Self {
            store: store.clone(),
            config: config.clone(),
        }
    }

    /// Works until `shutdown`. What a pass has done stays; the next engine goes on behind it.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut ages = self.config.keeping.retention.kinds().into_iter();
        if ages.all(|(_, age)| age.is_none()) {
            return;
        }
        loop {
            let pause = match self.work_once().await {
                Ok(RetentionPause::NextStep) => PAUSE,
                Ok(RetentionPause::Pressed) => PAUSE_PRESSED,
                Ok(RetentionPause::Idle) => LOOK,
                Err(error) => {
                    tracing::error!(%error, "retention cannot go on; trying again");
                    LOOK
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Makes one step, which is one transaction of a few hundred rows at most.
    pub async fn work_once(&self) -> Result<RetentionPause> {
        for (name, age) in self.config.keeping.retention.kinds() {
            let kind = KINDS.iter().find(|kind| kind.name == name);
            let (Some(kind), Some(age)) = (kind, age) else {
                continue;
            };
            if self.step(kind, age).await? {
                return Ok(match self.store.is_pressed().await? {
                    true => RetentionPause::Pressed,
                    false => RetentionPause::NextStep,
                });
            }
        }
        Ok(RetentionPause::Idle)
    }

    /// Makes the next step of a kind; `false`: its pass of today is over.
    async fn step(&self, kind: &'static PrunedKind, age: Duration) -> Result<bool> {
        let now = self.store.clock().now();
        let before = now.minus(age);
        let pass = self.store.retention_pass(kind.name).await?;
        // The clock was set back: a beginning that is to come says nothing.
        let is_new_day = pass
            .as_ref()
            .is_none_or(|pass| pass.started > now || now.since(pass.started) >= PASS_EVERY);
        let open = pass.and_then(|pass| Some((pass.before, pass.position?)));
        let (before, after) = match open {
            // An age that was raised since counts at once.
            Some((begun_with, position)) => (begun_with.min(before), position),
            None if is_new_day => {
                self.store.begin_retention(kind, before).await?;
                (before, i64::MIN)
            }
            None => return Ok(false),
        };
        let step = self.store.retention_step(kind, before, after).await?;
        if step.is_last {
            self.end(kind, before).await;
        }
        Ok(true)
    }

    /// Removes the folders that belong to pruned rows, and says what went.
    async fn end(&self, kind: &'static PrunedKind, before: Timestamp) {
        if kind.has_folders()
            && let Ok(kept) = self.store.forks_kept(before).await
            && let Err(error) = fork::sweep(&self.config.workspace, &kept, before, false)
        {
            tracing::warn!(%error, "folders of forks cannot be removed");
        }
        if let Ok(Some(pass)) = self.store.retention_pass(kind.name).await
            && pass.pass_rows > 0
        {
            tracing::info!(
                kind = kind.name,
                rows = pass.pass_rows,
                bytes = pass.pass_bytes,
                %before,
                "old data was thrown away"
            );
        }
    }
}
