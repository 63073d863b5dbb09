//! Object stores: bytes under names, in a bucket of an S3 service or in a folder.
//!
//! - `error`: reasons why bytes could not be put or read.
//! - `name`: names of objects.
//! - `http`: requests of a bucket, over the engine's own HTTP client.
//! - `client`: puts, reads, deletes and lists, each within a bound of time.
//!
//! Absent on purpose: which bytes become objects and which rows name them; that is the store's.

mod error;
mod name;
mod http;
mod client;

pub use client::{ListedObject, ObjectClient};
pub use error::{LOST_REMEDY, ObjectError};
pub use name::ObjectName;
