//! Questions to owners by mail: asked, reminded of, answered.
//!
//! An owner answers by writing back: to an address that only their own question has, in a letter that is known to be
//! theirs, with a verdict in its first line. No web server is needed, and no link that a scanner could follow.
//!
//! - `words`: verdicts in twenty languages; `entry_words`: on numbered entries. `answer`: a letter as an answer.
//! - `letter`: the texts of questions, reminders and explanations. `station`: queues them; `digest`: entries of memory that wait.
//!
//! Absent on purpose: what a decision does (`store::approvals::decide`).

pub mod words;
mod entry_words;
pub mod answer;
mod letter;
pub mod station;
mod digest;
