//! Runs: claims one, assembles its context, loops model and tools, commits the outcome.

pub mod providers;
