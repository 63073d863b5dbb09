//! The intake of the configuration in force: each letter is judged and stored by one, whatever is replaced meanwhile.

use super::Intake;
use crate::config::Current;
use crate::domain::{Address, Letter};
use crate::gateway::intake_contract::{
    Accepted, LetterIntake, RecipientVerdict, Refusal, SenderVerdict, Shortage,
};
use crate::store::StoreError;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between two counts while the queue is full.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// Interval between two polls for held letters.
const HELD_POLL: Duration = Duration::from_secs(15);
/// Minimum time between two log lines about one shortage.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// The intake that is in force, and its watches.
pub struct CurrentIntake(Current<Intake>);

impl CurrentIntake {
    pub fn new(intake: Intake) -> Self {
        Self(Current::new(Arc::new(intake)))
    }

    /// Returns the intake in force now.
    pub fn get(&self) -> Arc<Intake> {
        self.0.get()
    }

    /// Puts another intake in force for letters that begin from now on.
    pub fn replace(&self, intake: Arc<Intake>) {
        self.0.replace(intake);
        // The number of runs that may be open may be another.
        self.get().allowance.count_anew();
    }

    /// Stops waiting for name servers, also in intakes that were replaced.
    pub fn stop(&self) {
        self.get().stop();
    }

    /// Verifies every held letter that is due; returns the number of letters that became messages.
    pub async fn verify_held(&self) -> Result<usize, StoreError> {
        self.get().verify_held().await
    }

    /// Watches the number of open runs until `stop`. Without it there is no bound, as for a single
    /// letter from a command.
    pub async fn watch_queue(&self, stop: CancellationToken) {
        loop {
            let intake = self.get();
            if let Err(error) = intake.count_queue().await {
                tracing::warn!(%error, "cannot count the open runs");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = intake.allowance.is_to_be_counted() => {}
            }
            if rested(COUNT_EVERY, &stop).await {
                return;
            }
        }
    }

    /// Verifies held letters as they become due, until `stop`.
    pub async fn watch_held(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.verify_held().await {
                tracing::warn!(%error, "cannot verify held letters; trying again");
            }
            if rested(HELD_POLL, &stop).await {
                return;
            }
        }
    }

    /// Reports shortages until `stop`.
    pub async fn watch_shortages(&self, stop: CancellationToken) {
        loop {
            let noted = self.get();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = noted.shortages.noted() => self.get().tell_shortages().await,
            }
            if rested(LOGGED_EVERY, &stop).await {
                return;
            }
        }
    }
}

/// Waits for that time; `true`: `stop` ended it.
async fn rested(span: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = stop.cancelled() => true,
        () = tokio::time::sleep(span) => false,
    }
}

impl LetterIntake for CurrentIntake {
    fn recipient(&self, address: &Address) -> RecipientVerdict {
        self.get().recipient(address)
    }

    fn sender(&self, mail_from: Option<&Address>) -> SenderVerdict {
        self.get().sender(mail_from)
    }

    fn accept(&self, letter: Letter) -> BoxFuture<'_, Result<Accepted, Refusal>> {
        let intake = self.get();
        Box::pin(async move { intake.accept(letter).await })
    }

    fn confirm<'a>(&'a self, accepted: &'a Accepted) -> BoxFuture<'a, ()> {
        let intake = self.get();
        Box::pin(async move { intake.confirm(accepted).await })
    }

    fn has_room(&self) -> bool {
        self.get().has_room()
    }

    fn short_of(&self, what: Shortage) {
        self.get().short_of(what);
    }

    fn current_intake(&self) -> Option<Arc<dyn LetterIntake>> {
        Some(self.get())
    }
}
