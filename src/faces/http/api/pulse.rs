//! The pulse of a listener: says when something has happened, to all who follow the feed, from one look at its newest number.
//!
//! The engine's own commits, those of commands beside it and those of agents' tools are told by the same look, since
//! nothing wakes a reader in another process (decision D-104).

use crate::store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Most streams of a listener, so that connections are left for pages.
const STREAMS_MAX: usize = 64;
/// Time between two looks while somebody follows.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Newest number of the feed, as followers see it.
pub(in crate::http) struct FeedPulse {
    newest: watch::Sender<i64>,
    streams: Arc<Semaphore>,
    closing: CancellationToken,
}

/// Place of a follower, with what wakes it.
pub(in crate::http) struct Follower {
    pub newest: watch::Receiver<i64>,
    pub closing: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl FeedPulse {
    pub(in crate::http) fn new() -> Self {
        Self {
            newest: watch::Sender::new(0),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            closing: CancellationToken::new(),
        }
    }

    /// Takes a place for a follower; `None`: there is none.
    pub(in crate::http) fn follow(&self) -> Option<Follower> {
        let permit = self.streams.clone().try_acquire_owned().ok()?;
        Some(Follower {
            newest: self.newest.subscribe(),
            closing: self.closing.clone(),
            _permit: permit,
        })
    }

    /// Looks at the feed while somebody follows it, until `shutdown`; then every stream ends.
    pub(in crate::http) async fn beat(&self, store: &Store, shutdown: CancellationToken) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let _ends_streams = self.closing.clone().drop_guard();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = looks.tick() => {}
            }
            if self.newest.receiver_count() == 0 {
                continue;
            }
            match store.feed_glance().await {
                Ok(newest) => {
                    self.newest
                        .send_if_modified(|known| std::mem::replace(known, newest) != newest);
                }
                Err(error) => tracing::debug!(%error, "the feed could not be looked at"),
            }
        }
    }
}
