//! What everything stands on: words, values with names, the clock, and the places at which tests kill the engine or switch a
//! guard off.
//!
//! Rooms stand in the order of their floors: one imports only those named before it (`tests/tidy/floors.rs`).

pub mod crash;
pub mod mutants;
pub mod text;
pub mod domain;
pub mod clock;
