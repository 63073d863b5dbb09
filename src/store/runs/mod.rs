//! Runs: the queue, the journal of turns and steps, sessions of agents, crashes and poison runs.

pub mod agent_files;
pub(in crate::store) mod queue;
pub(in crate::store) mod poison_runs;
pub(in crate::store) mod crashes;
pub(in crate::store) mod journal;
pub(in crate::store) mod turns;
pub(in crate::store) mod steps;
pub(in crate::store) mod sessions;
pub(in crate::store) mod history;
pub(in crate::store) mod record;
pub(in crate::store) mod contents;
pub(in crate::store) mod run_control;
pub(in crate::store) mod providers;
pub(in crate::store) mod outputs;
pub(in crate::store) mod forks;
