//! What a responsibility file says, and when it comes due. Pure: bytes and instants in, values out.
//!
//! It has a floor of its own, so that a tool can write such a file and know that it will be understood. Absent on purpose:
//! rows, folders, clocks.

pub mod cron;
pub mod file;
pub mod prompt;
pub mod schema;
pub mod timing;
