//! Letters to emails and back: agreement with other parsers, hostile letters, and what goes over the wire.

mod composing;
mod consensus;
mod damaged;
mod hostile;
mod own_answers;
mod reading;
mod replies;
