//! Letters to emails and back: agreement with other parsers, hostile letters, and what goes over the wire.

mod cases;
mod charsets;
mod composing;
mod consensus;
pub mod containers;
mod dialect;
mod damaged;
mod hostile;
mod own_answers;
mod reading;
mod replies;
mod senders;
mod stubs;
