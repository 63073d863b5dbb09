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

pub(in crate::store) mod responsibility;
pub(in crate::store) mod run_options;
pub(in crate::store) mod responsibilities;
pub(in crate::store) mod file_changes;
pub(in crate::store) mod slot;
pub(in crate::store) mod slot_rows;
pub(in crate::store) mod firing;
pub(in crate::store) mod waiting;
pub(in crate::store) mod pauses;
pub(in crate::store) mod slot_events;
pub(in crate::store) mod slots;
