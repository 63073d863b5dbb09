//! Webhooks: how far each has read the feed, and one row for each event that it is told.
//!
//! - `record`: the rows
//! - `follow`: from the feed to rows, cursor and rows in one commit
//! - `attempts`: what is due, and what became of an attempt
//! - `change`: what an operator does
//!
//! Not here: the body of an event and everything that is sent (`webhooks`).

pub mod record;
pub mod follow;
pub mod attempts;
pub mod change;
