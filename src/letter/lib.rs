//! Letters, events and documents, read within bounds and written.
//!
//! Rooms stand in the order of their floors: one imports only those named before it (`tests/tidy/floors.rs`).

pub mod mime;
pub mod extract;
pub mod calendar;

pub use attache_base::{domain, text};
