//! The pulse of a listener: reads the feed once for all who follow it.
//!
//! It looks when something was committed, by this process or another, and gives every follower the same events, already
//! written. A follower reads by itself only what it missed before. It has no timer of its own either: the pulse says when a
//! silent stream is to say something, and when the right of its caller is to be looked at.

use crate::store::{CommitReceiver, FeedEvent, FeedFilter, FeedPage, Store, StoreError};
use rustix::process::{Resource, getrlimit};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Most streams of a listener: an organisation's browsers, one tab each. A stream costs a connection and 35 kB.
const STREAMS_MAX: usize = 1_000;
/// Shortest time between two looks at the feed, so that a burst of commits is one piece.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest time between two looks, where nobody watches for commits of other processes.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// Looks without a commit after which the rights of callers are looked at all the same.
const RIGHTS_QUIET_MAX: u32 = 3;
/// Most events of one piece of a stream.
pub(in crate::http) const PIECE_MAX: u32 = 256;
/// Time after which a stream says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns the most streams of a listener. Half of the descriptors of this process are for everything else.
pub fn streams_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    STREAMS_MAX.min(usize::try_from(descriptors / 2).unwrap_or(STREAMS_MAX))
}

/// What all followers hear.
#[derive(Clone, Default)]
pub(in crate::http) struct PulseBeat {
    pub events: Arc<SharedEvents>,
    /// Grows when the rights of callers are to be looked at.
    pub rights: u64,
    /// Grows when a silent stream is to say something.
    pub words: u64,
    /// Callers whose right was found good since the events were read: many streams have one key.
    pub good: Arc<Mutex<HashSet<Vec<u8>>>>,
}

/// A page of the feed, which is read and written once.
#[derive(Default)]
pub(in crate::http) struct SharedEvents {
    /// Number after which the page begins, and the last that it covers.
    after: i64,
    through: i64,
    events: Vec<(FeedEvent, String)>,
}

impl SharedEvents {
    /// A page without events, which nobody is before.
    fn none(through: i64) -> Self {
        Self {
            after: through,
            through,
            events: Vec::new(),
        }
    }

    fn of(after: i64, page: FeedPage) -> Self {
        if page.has_gap {
            // Each reader has another gap.
            return Self::none(page.through);
        }
        let written = page.events.into_iter().map(|event| {
            let text = written(&event);
            (event, text)
        });
        Self {
            after,
            through: page.through,
            events: written.collect(),
        }
    }

    /// Returns the events behind number `seen` for a reader with this filter, and the number up to which these are all; `None`:
    /// it has to read by itself.
    pub fn behind(&self, seen: i64, filter: &FeedFilter) -> Option<(String, i64)> {
        if seen < self.after {
            return None;
        }
        let is_wanted = |event: &FeedEvent| {
            let FeedFilter {
                persona,
                run,
                thread,
            } = filter;
            event.seq > seen
                && (persona.is_none() || event.persona == *persona)
                && (run.is_none() || event.run == *run)
                && (thread.is_none() || event.thread == *thread)
        };
        let wanted = self.events.iter().filter(|(event, _)| is_wanted(event));
        let piece = wanted.map(|(_, text)| text.as_str()).collect();
        Some((piece, seen.max(self.through)))
    }
}

/// Writes an event for a stream.
pub(in crate::http) fn written(event: &FeedEvent) -> String {
    let data = serde_json::to_string(event).unwrap_or_default();
    format!("id: {}\ndata: {data}\n\n", event.seq)
}

/// The newest events of the feed, as followers see it.
pub(in crate::http) struct FeedPulse {
    beats: watch::Sender<PulseBeat>,
    streams: Arc<Semaphore>,
    followed: Notify,
    closing: CancellationToken,
}

/// Place of a follower, with what wakes it.
pub(in crate::http) struct Follower {
    pub beats: watch::Receiver<PulseBeat>,
    pub closing: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl FeedPulse {
    pub(in crate::http) fn new() -> Self {
        Self {
            beats: watch::Sender::default(),
            streams: Arc::new(Semaphore::new(streams_max())),
            followed: Notify::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Takes a place for a follower; `None`: there is none.
    pub(in crate::http) fn follow(&self) -> Option<Follower> {
        let permit = self.streams.clone().try_acquire_owned().ok()?;
        let beats = self.beats.subscribe();
        self.followed.notify_one();
        Some(Follower {
            beats,
            closing: self.closing.clone(),
            _permit: permit,
        })
    }

    /// Looks at the feed while somebody follows it, until `shutdown`; then every stream ends.
    pub(in crate::http) async fn beat(&self, store: &Store, shutdown: CancellationToken) {
        let _ends_streams = self.closing.clone().drop_guard();
        let mut commits = store.commits();
        shutdown
            .run_until_cancelled(async {
                loop {
                    while self.beats.receiver_count() == 0 {
                        self.followed.notified().await;
                    }
                    if let Err(error) = self.follow_feed(store, &mut commits).await {
                        tracing::debug!(%error, "the feed could not be looked at");
                        tokio::time::sleep(LOOK_AT_LEAST_EVERY).await;
                    }
                }
            })
            .await;
    }

    /// Gives followers what happens until there are none.
    async fn follow_feed(
        &self,
        store: &Store,
        commits: &mut CommitReceiver,
    ) -> Result<(), StoreError> {
        let mut through = store.feed_newest().await?;
        // Whoever has looked before this has to look once more.
        self.beats
            .send_modify(|beat| beat.events = Arc::new(SharedEvents::none(through)));
        let (mut words, mut looks) = (ticking(KEEP_ALIVE), ticking(LOOK_AT_LEAST_EVERY));
        let (mut has_committed, mut quiet, mut has_more) = (false, 0, false);
        while self.beats.receiver_count() > 0 {
            let mut beat = self.beats.borrow().clone();
            beat.good = Arc::default();
            let before = (beat.rights, beat.words);
            if !has_more {
                tokio::select! {
                    changed = commits.changed() => has_committed |= changed.is_ok(),
                    _ = words.tick() => beat.words += 1,
                    _ = looks.tick() => {
                        quiet += 1;
                        // A right that is taken away is a commit; one may also end by itself.
                        if std::mem::take(&mut has_committed) || quiet >= RIGHTS_QUIET_MAX {
                            (quiet, beat.rights) = (0, beat.rights + 1);
                        }
                    }
                }
            }
            let has_events = store.feed_glance().await? != through;
            if has_events {
                let page = store
                    .feed_after(through, &FeedFilter::default(), PIECE_MAX)
                    .await?;
                has_more = page.has_more();
                let after = std::mem::replace(&mut through, page.through);
                beat.events = Arc::new(SharedEvents::of(after, page));
            }
            let is_another = has_events || before != (beat.rights, beat.words);
            if is_another {
                self.beats.send_replace(beat);
            }
            if !has_more {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }
}

/// Returns a clock whose first tick is one period from now.
fn ticking(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}
