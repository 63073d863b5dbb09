//! The worker for what the engine writes itself: commands of owners first, then notices to owners and notes to senders.
//!
//! Each part finds its work in committed rows. A failure of one does not keep the others waiting.

use super::commands::Commands;
use super::notices::Notices;
use super::sender_notes::SenderNotes;
use crate::config::{Config, Current};
use crate::store::{Result, Store, next_commit};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Shortest time between two polls of the tables: a kill switch by mail must not wait longer.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest time between two polls while nothing is committed: some mails are due by the clock.
const POLL: Duration = Duration::from_secs(5);

/// Everything that the engine writes itself.
pub struct EngineMailWorker {
    store: Store,
    notices: Notices,
    commands: Commands,
    sender_notes: SenderNotes,
}

impl EngineMailWorker {
    pub fn new(store: &Store, config: &Arc<Config>) -> Self {
        Self {
            store: store.clone(),
            notices: Notices::new(store.clone(), config.clone()),
            commands: Commands::new(store.clone(), config.clone()),
            sender_notes: SenderNotes::new(store.clone(), config.clone()),
        }
    }

    /// Emits notices about personas out of service.
    pub async fn note_out_of_service(&self) -> Result<()> {
        self.notices.note_out_of_service().await
    }

    /// Carries out commands that are due and queues their answers; returns the number of queued mails.
    pub async fn carry_out_commands(&self) -> Result<usize> {
        self.commands.work_once().await
    }

    /// Does everything that is due now; returns the number of queued mails.
    ///
    /// Errors: the first one, after every part had its turn; a later call tries again.
    pub async fn work_once(&self) -> Result<usize> {
        let parts = [
            self.commands.work_once().await,
            self.notices.work_once().await,
            self.sender_notes.work_once().await,
        ];
        parts.into_iter().sum()
    }

    /// Works until `shutdown`, each time with the worker in force; `mail_queued` wakes the outbound worker.
    pub async fn run(in_force: &Current<Self>, mail_queued: &Notify, shutdown: CancellationToken) {
        let mut commits = in_force.get().store.commits();
        while !shutdown.is_cancelled() {
            match in_force.get().work_once().await {
                Ok(0) => {}
                Ok(_some) => mail_queued.notify_one(),
                Err(error) => {
                    tracing::error!(%error, "cannot write what the engine has to say; trying again");
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = next_commit(&mut commits, PAUSE, POLL) => {}
            }
        }
    }
}
