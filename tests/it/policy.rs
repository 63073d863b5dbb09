//! Rules of calls: which decides, what it opens and what it cannot, and what it would have done.

mod files;
pub mod interference;
mod preview;
mod rules;
mod sinks;
