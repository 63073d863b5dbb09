//! The files of a workspace as settings that are complete and checked, the rules about calls, and the guarded way to addresses
//! that settings name.
//!
//! Rooms stand in the order of their floors: one imports only those named before it (`tests/tidy/floors.rs`).

pub mod web;
pub mod policy;
pub mod config;
pub mod schedule_file;

pub use attache_base::{domain, mutants, text};
pub use attache_letter::mime;
