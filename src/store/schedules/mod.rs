//! Responsibilities and their slots.
//!
//! - `responsibility`: a responsibility as a value, with its version and its next slot.
//! - `run_options`: the options of a run and of a slot, as JSON columns.
//! - `responsibilities`: rows of files, and those that are due.
//! - `file_changes`: changes of files, applied to their rows.
//! - `slot`: a slot as a value, with its work and its result.
//! - `slot_rows`: rows of slots, and the start of a run.
//! - `firing`: due slots become runs.
//! - `waiting`: slots that wait for their turn.
//! - `pauses`: responsibilities that are paused.
//! - `slot_events`: events of slots for the owner.
//! - `slots`: the history of slots.
//!
//! Not here: due times and cron expressions (`scheduler`), the files themselves.

pub mod responsibility;
pub mod run_options;
pub mod responsibilities;
pub mod file_changes;
pub mod slot;
pub mod slot_rows;
pub mod firing;
pub mod waiting;
pub mod pauses;
pub mod slot_events;
pub mod slots;
