//! Parses responsibility files and computes their slots. Pure: bytes and instants in, values out.
//!
//! A separate unit, so that a tool can write such a file and know that it will be accepted. Absent
//! on purpose: rows, folders, clocks.
//!
//! - `file`: a file in its two parts; `front`, `front_matter`: YAML to keys
//! - `timing`, `cron`: the slots; `options`, `run_settings`: the other keys
//! - `names`, `nearest`: names that exist, suggestions for those that do not
//! - `prompt`, `tags`, `prompt_error`, `inbox`: the template, its limits, the letters in it

pub mod cron;
pub mod timing;
pub mod front;
mod nearest;
mod front_matter;
pub mod names;
mod options;
mod run_settings;
pub mod file;
pub mod prompt;
mod prompt_error;
mod tags;
mod inbox;

pub use file::{Responsibility, SchemaPath};
pub use front::FileError;
pub use names::{ParseContext, WorkspaceNames};
