//! Runs: the queue, their end, crashes and poison runs.
//!
//! - `fence`: the check that a run is this engine's.
//! - `queue`: runs queued, claimed, parked and failed. `waits`: runs that wait for a budget or a file.
//! - `crashes`: recovery of the runs of an engine that died.
//! - `poison_runs`: runs that end the engine, tried alone.
//! - `run_control`: cancellations and retries of operators.
//! - `halts`: the kill switch. `hook_calls`: answers of the owner's programs.
//! - `providers`: statistics of provider calls.
//! - `forks`: runs made again from a turn of a run.
//!
//! Not here: turns, steps and mails of a run (`journal`), and its listings (`views/runs`).

pub(in crate::store) mod fence;
pub(in crate::store) mod queue;
pub(in crate::store) mod waits;
pub(in crate::store) mod crashes;
pub(in crate::store) mod poison_runs;
pub(in crate::store) mod run_control;
pub(in crate::store) mod halts;
pub(in crate::store) mod hook_calls;
pub(in crate::store) mod providers;
pub(in crate::store) mod forks;
