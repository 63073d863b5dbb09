//! What a responsibility file says, and when it comes due. Pure: bytes and instants in, values out.
//!
//! It has a floor of its own, so that a tool can write such a file and know that it will be understood. Absent on purpose:
//! rows, folders, clocks.

pub mod cron;
pub mod timing;
pub mod front;
mod nearest;
mod sheet;
pub mod offer;
mod terms;
pub mod file;
pub mod prompt;
mod tags;
mod inbox;
pub mod schema;

pub use file::{Responsibility, SchemaPath};
pub use front::FileError;
pub use offer::{Bounds, Offer};
