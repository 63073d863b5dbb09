//! Memory: entries about a correspondent or a thread, each with the letter that it rests on.
//!
//! - `write_rules`: what may be written
//! - `remember`, `correct`, `forget`, `recall`
//! - `list_memory`, `propose_memory_change`: all entries, for a duty of the owner's that tidies them
//!
//! Absent on purpose: the owner's page `active.md` (`update_memory`).

mod write_rules;
pub mod remember;
pub mod correct;
pub mod forget;
pub mod recall;
pub mod list_memory;
pub mod propose_memory_change;
