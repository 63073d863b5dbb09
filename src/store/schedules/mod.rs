//! Responsibilities and their slots.

pub(in crate::store) mod responsibilities;
pub(in crate::store) mod run_options;
pub(in crate::store) mod firing;
pub(in crate::store) mod waiting;
pub(in crate::store) mod pauses;
pub(in crate::store) mod slot_events;
pub(in crate::store) mod slots;
