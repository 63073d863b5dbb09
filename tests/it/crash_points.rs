//! Crash points: their names, and the sweep that lets the real binary die at each of them, restarts it, and compares
//! what is there in the end with what is there when nothing dies.
//!
//! `ATTACHE_CRASH_HITS=all` also dies at every later time that a point is met, not only at the first and a middle one.

mod answers;
mod controls;
mod engine;
pub mod letters;
mod model;
mod names;
mod state;
mod sweep;
mod workloads;
