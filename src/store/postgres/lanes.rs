//! The queue of writes, and the lanes that work on it.
//!
//! Every write is a transaction of its own; writes of a kind that wait together share one. A caller
//! is answered after the commit.

use super::lane::{Lane, LaneEnd, LaneSettings};
use super::url::{DatabaseUrl, Session};
use crate::store::writes::job::Job;
use crate::store::writes::power_cut::PowerCut;
use crate::store::writes::refusal::{CommitRefusal, Halt};
use crate::store::{Result, StoreError};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Most writes that wait at once; further callers wait for a place, which is the store's
/// back-pressure.
const QUEUE_LENGTH_MAX: usize = 1024;
/// Number of writes that are executed at once.
const LANES: usize = 4;

#[derive(Clone)]
pub struct Lanes {
    queue: Arc<WriteQueue>,
    working: Arc<Mutex<JoinSet<()>>>,
    halt: watch::Receiver<Option<Halt>>,
}

/// Writes that wait.
struct WriteQueue {
    jobs: Mutex<VecDeque<Box<dyn Job>>>,
    /// A permit for each write that waits.
    ready: Semaphore,
    /// A permit for each write that may still come.
    places: Semaphore,
    /// Cancelled when no write is taken any more; those that wait are still done.
    closing: CancellationToken,
    /// Cancelled when those that wait are not done either.
    stopped: CancellationToken,
    halted: watch::Sender<Option<Halt>>,
    power_cut: Mutex<Option<PowerCut>>,
    commits: AtomicU64,
    settings: LaneSettings,
}

impl Lanes {
    /// Starts the lanes; they work until they are closed. An engine gives the epoch of its node, which must be in the
    /// database at every write.
    pub fn start((url, session): (&DatabaseUrl, Session), node: Option<i64>) -> Self {
        let (halted, halt) = watch::channel(None);
        let queue = Arc::new(WriteQueue {
            jobs: Mutex::default(),
            ready: Semaphore::new(0),
            places: Semaphore::new(QUEUE_LENGTH_MAX),
            closing: CancellationToken::new(),
            stopped: CancellationToken::new(),
            halted,
            power_cut: Mutex::default(),
            commits: AtomicU64::new(0),
            settings: LaneSettings {
                node,
                takes_locks: Arc::new(AtomicBool::new(true)),
                clock_off_ms: Arc::default(),
            },
        });
        let mut working = JoinSet::new();
        for _ in 0..LANES {
            working.spawn(work(
                queue.clone(),
                Lane::new((url.clone(), session), queue.settings.clone()),
            ));
        }
        let working = Arc::new(Mutex::new(working));
        Self {
            queue,
            working,
            halt,
        }
    }

    /// Submits a write and waits for its answer.
    pub async fn submit<T>(&self, job: Box<dyn Job>, answer: oneshot::Receiver<T>) -> Result<T> {
        self.queue.push(job).await.map_err(|()| self.closed())?;
        // A write that panicked is dropped without an answer, and the lane lives on.
        answer.await.map_err(|_| self.closed())
    }

    /// Resolves when no write is taken any more, with the reason. Never after an orderly shutdown.
    pub async fn halted(&self) -> StoreError {
        let mut halt = self.halt.clone();
        let halted = halt.wait_for(Option::is_some).await;
        match halted.ok().and_then(|halt| halt.clone()) {
            Some(halt) => halt.into(),
            None => std::future::pending().await,
        }
    }

    /// Arms a simulated power cut.
    pub fn cut_power(&self, cut: PowerCut) {
        *locked(&self.queue.power_cut) = Some(cut);
    }

    /// Takes no lock of a scope any more, for controls of tests.
    pub fn take_no_locks(&self) {
        let takes_locks = &self.queue.settings.takes_locks;
        takes_locks.store(false, Ordering::Relaxed);
    }

    /// Tells the lanes how far this machine's clock is ahead of the server's, in milliseconds.
    pub fn note_clock_off(&self, off_ms: i64) {
        let clock_off_ms = &self.queue.settings.clock_off_ms;
        clock_off_ms.store(off_ms, Ordering::Relaxed);
    }

    /// Takes no write any more, because this node has no row.
    pub fn bury(&self) {
        self.queue.stop(Some(Halt::Buried));
    }

    /// Finishes the waiting writes, and closes the connections. Later writes are answered with
    /// [`StoreError::Closed`].
    pub async fn close(&self) {
        self.queue.closing.cancel();
        let mut working = std::mem::take(&mut *locked(&self.working));
        while let Some(ended) = working.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a lane of the database panicked");
            }
        }
        self.queue.empty();
    }

    fn closed(&self) -> StoreError {
        let halt = self.halt.borrow().clone();
        halt.map_or(StoreError::Closed, StoreError::from)
    }
}

impl WriteQueue {
    /// Adds a write: absorbed by one of its kind that waits, or as the last.
    ///
    /// Errors: no write is taken any more.
    async fn push(&self, mut job: Box<dyn Job>) -> std::result::Result<(), ()> {
        let place = tokio::select! {
            biased;
            () = self.closing.cancelled() => return Err(()),
            place = self.places.acquire() => place.map_err(|_| ())?,
        };
        let mut jobs = locked(&self.jobs);
        // Asked once more under the lock, so that a write that came too late is not left there.
        if self.closing.is_cancelled() {
            return Err(());
        }
        if job.is_absorbable() {
            for earlier in jobs.iter_mut() {
                match earlier.absorb(job) {
                    None => return Ok(()),
                    Some(other) => job = other,
                }
            }
        }
        jobs.push_back(job);
        place.forget();
        self.ready.add_permits(1);
        Ok(())
    }

    /// Returns the next write; `None` when no more is to be done.
    async fn next(&self) -> Option<Box<dyn Job>> {
        let ready = tokio::select! {
            biased;
            () = self.stopped.cancelled() => None,
            ready = self.ready.acquire() => ready.ok(),
            () = self.closing.cancelled() => None,
        };
        ready?.forget();
        self.places.add_permits(1);
        locked(&self.jobs).pop_front()
    }

    /// Takes no write any more, and does none of those that wait.
    fn stop(&self, halt: Option<Halt>) {
        // First the reason, for whoever finds the queue closed.
        if halt.is_some() {
            self.halted.send_replace(halt);
        }
        self.closing.cancel();
        self.stopped.cancel();
        self.empty();
    }

    /// Answers the waiting writes: nothing of them is stored, and each may be tried again.
    fn refuse_waiting(&self, refusal: &CommitRefusal) {
        let waiting = {
            let mut jobs = locked(&self.jobs);
            // Each has a permit; one that a lane has just taken finds no write, and waits for the next.
            let taken = self.ready.forget_permits(jobs.len());
            self.places.add_permits(taken);
            let kept = jobs.len() - taken;
            jobs.split_off(kept)
        };
        for job in waiting {
            job.answer(Err(refusal.clone()));
        }
    }

    /// Drops the waiting writes, so that their callers do not wait for ever.
    fn empty(&self) {
        locked(&self.jobs).clear();
    }

    fn cut_of_next(&self) -> Option<PowerCut> {
        let commit = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        locked(&self.power_cut).filter(|cut| cut.strikes(commit))
    }
}

async fn work(queue: Arc<WriteQueue>, mut lane: Lane) {
    while let Some(job) = queue.next().await {
        let cut = queue.cut_of_next();
        match lane.execute(job, cut).await {
            LaneEnd::Ready => {}
            LaneEnd::Away(refusal) => queue.refuse_waiting(&refusal),
            LaneEnd::Halted(halt) => queue.stop(Some(halt)),
            LaneEnd::PowerCut => queue.stop(None),
        }
    }
    lane.close().await;
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
