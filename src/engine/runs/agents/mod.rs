//! Calls of providers that own their loop: preparation, and supervision.

pub mod options;
pub mod notes;
pub mod partial;
pub mod session;
pub mod observed_calls;
pub mod supervisor;
