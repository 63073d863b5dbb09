//! The process as the system sees it: its protection, its log lines, its exit code.

pub mod exit;
pub mod log_writer;
pub mod logging;
pub mod protection;
