//! Rules of claiming while there are poison runs, which are suspected of killing engines, and
//! limits of the delay that they cause to other runs.
//!
//! A poison run waits until the engine has lived for a while without it. Then it is on probation:
//! no other run is claimed until none is at work, and it works alone. Only an engine that lived
//! without it and dies in its probation is evidence against it; kills from outside come in the wait
//! as well, and there they clear it (`crashes.rs`). Probations are short and other runs go on after
//! them, so a poison run that hangs delays no other run for long; a run that is still at work at
//! the next crash gets a longer probation.

use crate::store::Result;
use crate::store::db::{Connection, Sql};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Crashes in a row at the same step that make a run a poison run; the index `runs_poison` has the
/// same number.
pub const POISON_CRASHES_MIN: i64 = 2;
/// Longest time that other runs wait until a poison run can be alone, and again until its probation
/// is over; doubled for each further crash, at most [`DOUBLINGS_MAX`] times.
const PROBATION: Duration = Duration::from_secs(15);
const DOUBLINGS_MAX: i64 = 4;
/// Multiple of the probation that an engine must have lived without the poison run.
const WAITS: u32 = 4;

const POISON_RUNS: Sql = Sql::pair(
    "
    SELECT
      EXISTS (SELECT 1 FROM runs WHERE crashes >= 2 AND state IN ('queued', 'running')) AS some,
      (SELECT crashes FROM runs WHERE crashes >= 2 AND state IN ('queued', 'running') AND state = 'queued' AND behind = 0
         AND crashes <= $2 ORDER BY seq LIMIT 1) AS due,
      EXISTS (SELECT 1 FROM runs INDEXED BY runs_running WHERE state = 'running' AND epoch = $1) AS busy,
      EXISTS (SELECT 1 FROM runs r WHERE crashes >= 2 AND state IN ('queued', 'running') AND state = 'running'
        AND epoch = $1 AND alone = 1 AND crashed_at >=
          (SELECT count(*) FROM run_turns t WHERE t.run_id = r.id AND t.state = 'answered')
            + (SELECT count(*) FROM thread_tool_events e WHERE e.run_id = r.id AND e.tool_call_id GLOB 'c[0-9]*')) AS on_probation",
    "
    SELECT
      EXISTS (SELECT 1 FROM runs WHERE crashes >= 2 AND state IN ('queued', 'running')) AS some,
      (SELECT crashes FROM runs WHERE crashes >= 2 AND state IN ('queued', 'running') AND state = 'queued' AND behind = 0
         AND crashes <= $2 ORDER BY seq LIMIT 1) AS due,
      EXISTS (SELECT 1 FROM runs WHERE state = 'running' AND epoch = $1) AS busy,
      EXISTS (SELECT 1 FROM runs r WHERE crashes >= 2 AND state IN ('queued', 'running') AND state = 'running'
        AND epoch = $1 AND alone = 1 AND crashed_at >=
          (SELECT count(*) FROM run_turns t WHERE t.run_id = r.id AND t.state = 'answered')
            + (SELECT count(*) FROM thread_tool_events e WHERE e.run_id = r.id AND e.tool_call_id ~ '^c[0-9]')) AS on_probation",
);
const END_PROBATION: &str = "
    UPDATE runs SET alone = 0 WHERE state = 'running' AND epoch = $1 AND alone = 1";

/// State of one engine's poison runs. In memory: the next engine begins anew, because the wait
/// counts within its own life.
#[derive(Clone)]
pub struct PoisonRuns(Arc<Memory>);

struct Memory {
    /// `true`: there may be poison runs; without any, a claim costs nothing more.
    some: AtomicBool,
    times: Mutex<Times>,
}

/// Instants on the monotonic clock.
struct Times {
    /// Begin of the engine's life without poison runs; `None`: it has lived long enough.
    without: Option<Duration>,
    /// Instant since which no run is claimed, so that a poison run can be alone.
    held: Option<Duration>,
    /// End of the current probation.
    probation_until: Duration,
}

/// Kind of run that may be claimed now.
pub enum ClaimTurn {
    /// Every run that is no poison run.
    Healthy,
    Nobody,
    /// One poison run with at most this many crashes.
    Poison {
        crashes_max: i64,
        alone: bool,
    },
}

/// Selection and number of runs that a claim may take.
pub struct Allowed {
    pub runs_max: usize,
    pub crashes_min: i64,
    pub crashes_max: i64,
    pub alone: bool,
}

impl PoisonRuns {
    /// Returns the state of an engine that starts now.
    pub fn of_engine(now: Duration) -> Self {
        let times = Mutex::new(Times {
            without: Some(now),
            held: None,
            probation_until: now,
        });
        Self(Arc::new(Memory {
            some: AtomicBool::new(false),
            times,
        }))
    }

    pub fn there_may_be_some(&self) {
        self.0.some.store(true, Ordering::Relaxed);
    }

    /// Ends the wait, for an engine that has finished all other work. Reports whether a poison run
    /// may have waited.
    pub fn end_wait(&self) -> bool {
        self.times().without = None;
        self.0.some.load(Ordering::Relaxed)
    }

    /// Decides which runs may be claimed; the caller claims in the same transaction.
    pub async fn turn(
        &self,
        conn: &mut Connection,
        epoch: i64,
        now: Duration,
    ) -> Result<ClaimTurn> {
        if !self.0.some.load(Ordering::Relaxed) {
            return Ok(ClaimTurn::Healthy);
        }
        let crashes_max = self.times().crashes_max(now);
        let row = conn.row(POISON_RUNS, (epoch, crashes_max)).await?;
        let (some, due): (bool, Option<i64>) = (row.get("some"), row.get("due"));
        self.0.some.store(some, Ordering::Relaxed);
        if row.get("on_probation") {
            if now < self.times().probation_until {
                return Ok(ClaimTurn::Nobody);
            }
            conn.exec(END_PROBATION, epoch).await?;
            self.times().wait_anew(now);
            return Ok(ClaimTurn::Healthy);
        }
        let turn = match due {
            None => ClaimTurn::Healthy,
            Some(crashes) => self
                .times()
                .try_one(crashes, crashes_max, row.get("busy"), now),
        };
        if !matches!(turn, ClaimTurn::Nobody) {
            self.times().held = None;
        }
        Ok(turn)
    }

    /// Records that none of the allowed poison runs was free: other runs must not wait for them.
    pub fn nobody_came(&self, now: Duration) {
        self.times().wait_anew(now);
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Times {
    /// Returns the most crashes of a poison run that is due.
    fn crashes_max(&self, now: Duration) -> i64 {
        let Some(without) = self.without else {
            return i64::MAX;
        };
        let lived = now.saturating_sub(without);
        let most = POISON_CRASHES_MIN + DOUBLINGS_MAX;
        match (POISON_CRASHES_MIN..=most)
            .take_while(|crashes| probation(*crashes) * WAITS <= lived)
            .last()
        {
            None => 0,
            Some(crashes) if crashes == most => i64::MAX,
            Some(crashes) => crashes,
        }
    }

    fn try_one(&mut self, crashes: i64, crashes_max: i64, busy: bool, now: Duration) -> ClaimTurn {
        if !busy {
            self.probation_until = now.saturating_add(probation(crashes));
            return ClaimTurn::Poison {
                crashes_max,
                alone: true,
            };
        }
        let held = *self.held.get_or_insert(now);
        if now.saturating_sub(held) < probation(crashes) {
            return ClaimTurn::Nobody;
        }
        // Other runs are still at work and may be for long; beside them a crash is no evidence, but
        // the poison run makes progress.
        self.wait_anew(now);
        ClaimTurn::Poison {
            crashes_max,
            alone: false,
        }
    }

    fn wait_anew(&mut self, now: Duration) {
        self.without = Some(now);
    }
}

/// Returns the probation of a poison run with this many crashes.
fn probation(crashes: i64) -> Duration {
    let doublings = (crashes - POISON_CRASHES_MIN).clamp(0, DOUBLINGS_MAX);
    PROBATION * (1 << doublings)
}

impl ClaimTurn {
    /// Returns the selection for a claim of up to `limit` runs; `None` when no run may be claimed.
    pub fn allows(&self, limit: usize) -> Option<Allowed> {
        match *self {
            ClaimTurn::Healthy => Some(Allowed {
                runs_max: limit,
                crashes_min: 0,
                crashes_max: POISON_CRASHES_MIN - 1,
                alone: false,
            }),
            ClaimTurn::Nobody => None,
            ClaimTurn::Poison { crashes_max, alone } => Some(Allowed {
                runs_max: limit.min(1),
                crashes_min: POISON_CRASHES_MIN,
                crashes_max,
                alone,
            }),
        }
    }
}
