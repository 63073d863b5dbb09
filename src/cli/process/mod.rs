//! The process as the system sees it: its protection, its log lines, its exit code; other processes; addresses.

pub mod addresses;
pub mod exit;
pub mod log_writer;
pub mod logging;
pub mod other;
pub mod protection;
