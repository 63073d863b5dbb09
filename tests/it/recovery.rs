//! Engines that survive, and engines that must not: two on one workspace, a disk that fails, runs that kill, and the
//! ten seconds after SIGTERM.

mod fencing;
mod failing;
mod poison;
mod killed;
mod in_flight;
pub mod classes;
mod ending;
mod log;
mod log_lines;
mod signals;
mod once;
mod opening;
mod groups;
pub mod place;
