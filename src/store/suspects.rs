//! Who may be claimed while some runs are suspected of killing engines, and for how long others wait for that.
//!
//! A suspect waits until the engine has lived for a while without it. Then it is tried: nobody else is claimed until
//! nobody is at work, and it works alone. Only an engine that lived without it and dies in its trial accuses it; kills
//! from outside come in the wait as well, and there they clear it (`crashes.rs`). Trials are short and others go on after
//! them, so a suspect that hangs keeps nobody; who then still is there at the next death gets a longer one.

use super::Result;
use sqlx::{Row, SqliteConnection};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Crashes in a row at the same place that make a run a suspect; the index `runs_suspect` has the same number.
pub(super) const SUSPECT: i64 = 2;
/// Longest time that others wait until a suspect can be alone, and again until its trial is over; doubled for each
/// further crash, so many times at most.
const TRIAL: Duration = Duration::from_secs(15);
const DOUBLINGS_MAX: i64 = 4;
/// An engine must have lived so many times as long without the suspect.
const WAITS: u32 = 4;

pub(super) const SUSPECTS: &str = "
    SELECT
      EXISTS (SELECT 1 FROM runs WHERE crashes >= 2 AND state IN ('queued', 'running')) AS some,
      (SELECT crashes FROM runs WHERE crashes >= 2 AND state IN ('queued', 'running') AND state = 'queued' AND behind = 0
         AND crashes <= $2 ORDER BY seq LIMIT 1) AS due,
      EXISTS (SELECT 1 FROM runs INDEXED BY runs_running WHERE state = 'running' AND epoch = $1) AS busy,
      EXISTS (SELECT 1 FROM runs r WHERE crashes >= 2 AND state IN ('queued', 'running') AND state = 'running'
        AND epoch = $1 AND alone = 1 AND crashed_at >=
          (SELECT count(*) FROM run_turns t WHERE t.run_id = r.id AND t.state = 'answered')
            + (SELECT count(*) FROM thread_tool_events e WHERE e.run_id = r.id AND e.tool_call_id GLOB 'c[0-9]*')) AS on_trial";
pub(super) const END_TRIAL: &str = "
    UPDATE runs SET alone = 0 WHERE state = 'running' AND epoch = $1 AND alone = 1";

/// What one engine knows of its suspects. In memory: its next one begins anew, because the wait is of its own life.
#[derive(Clone)]
pub(super) struct Suspects(Arc<Memory>);

struct Memory {
    /// There may be some; without, a claim costs nothing more.
    some: AtomicBool,
    times: Mutex<Times>,
}

/// Monotonic.
struct Times {
    /// The engine lives without suspects since; `None`: it has lived long enough.
    without: Option<Duration>,
    /// Nobody is claimed since, so that a suspect can be alone.
    held: Option<Duration>,
    /// When the trial at hand is over.
    trial_until: Duration,
}

/// Who may be claimed now.
pub(super) enum Turn {
    /// Whoever is no suspect.
    Innocents,
    Nobody,
    /// One of those with up to so many crashes.
    Suspect {
        crashes_max: i64,
        alone: bool,
    },
}

/// What a claim may take.
pub(super) struct Allowed {
    pub runs_max: usize,
    pub crashes_min: i64,
    pub crashes_max: i64,
    pub alone: bool,
}

impl Suspects {
    /// Of an engine that begins its life now.
    pub fn of_engine(now: Duration) -> Self {
        let times = Mutex::new(Times { without: Some(now), held: None, trial_until: now });
        Self(Arc::new(Memory { some: AtomicBool::new(false), times }))
    }

    pub fn there_may_be_some(&self) {
        self.0.some.store(true, Ordering::Relaxed);
    }

    /// Ends the wait, for an engine that has worked off everything else. Whether somebody may have waited.
    pub fn end_wait(&self) -> bool {
        self.times().without = None;
        self.0.some.load(Ordering::Relaxed)
    }

    /// Looks who may be claimed; the caller claims in the same transaction.
    pub async fn turn(&self, conn: &mut SqliteConnection, epoch: i64, now: Duration) -> Result<Turn> {
        if !self.0.some.load(Ordering::Relaxed) {
            return Ok(Turn::Innocents);
        }
        let crashes_max = self.times().crashes_max(now);
        let row = sqlx::query(SUSPECTS).bind(epoch).bind(crashes_max).fetch_one(&mut *conn).await?;
        let (some, due): (bool, Option<i64>) = (row.get("some"), row.get("due"));
        self.0.some.store(some, Ordering::Relaxed);
        if row.get("on_trial") {
            if now < self.times().trial_until {
                return Ok(Turn::Nobody);
            }
            sqlx::query(END_TRIAL).bind(epoch).execute(conn).await?;
            self.times().wait_anew(now);
            return Ok(Turn::Innocents);
        }
        let turn = match due {
            None => Turn::Innocents,
            Some(crashes) => self.times().try_one(crashes, crashes_max, row.get("busy"), now),
        };
        if !matches!(turn, Turn::Nobody) {
            self.times().held = None;
        }
        Ok(turn)
    }

    /// None of those who might have been claimed was free: others are not to wait for them.
    pub fn nobody_came(&self, now: Duration) {
        self.times().wait_anew(now);
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Times {
    /// Of how many crashes suspects may be that are due.
    fn crashes_max(&self, now: Duration) -> i64 {
        let Some(without) = self.without else { return i64::MAX };
        let lived = now.saturating_sub(without);
        let most = SUSPECT + DOUBLINGS_MAX;
        match (SUSPECT..=most).take_while(|crashes| trial(*crashes) * WAITS <= lived).last() {
            None => 0,
            Some(crashes) if crashes == most => i64::MAX,
            Some(crashes) => crashes,
        }
    }

    fn try_one(&mut self, crashes: i64, crashes_max: i64, busy: bool, now: Duration) -> Turn {
        if !busy {
            self.trial_until = now.saturating_add(trial(crashes));
            return Turn::Suspect { crashes_max, alone: true };
        }
        let held = *self.held.get_or_insert(now);
        if now.saturating_sub(held) < trial(crashes) {
            return Turn::Nobody;
        }
        // Whoever is still at work may be for long; beside them it proves nothing, but it is answered.
        self.wait_anew(now);
        Turn::Suspect { crashes_max, alone: false }
    }

    fn wait_anew(&mut self, now: Duration) {
        self.without = Some(now);
    }
}

/// How long a suspect of so many crashes is tried.
fn trial(crashes: i64) -> Duration {
    let doublings = (crashes - SUSPECT).clamp(0, DOUBLINGS_MAX);
    TRIAL * (1 << doublings)
}

impl Turn {
    /// What a claim of up to `limit` runs may take; `None` when it may take nothing.
    pub fn allows(&self, limit: usize) -> Option<Allowed> {
        match *self {
            Turn::Innocents => {
                Some(Allowed { runs_max: limit, crashes_min: 0, crashes_max: SUSPECT - 1, alone: false })
            }
            Turn::Nobody => None,
            Turn::Suspect { crashes_max, alone } => {
                Some(Allowed { runs_max: limit.min(1), crashes_min: SUSPECT, crashes_max, alone })
            }
        }
    }
}
