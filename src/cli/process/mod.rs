//! The process as the system sees it: its protection, its log lines, its exit code; other processes, a wait for one; addresses.

pub mod addresses;
pub mod engine_wait;
pub mod exit;
pub mod log_writer;
pub mod logging;
pub mod other;
pub mod protection;
