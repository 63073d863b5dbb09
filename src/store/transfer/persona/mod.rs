//! The rows of one persona go to the database of another cell, with its folder (D-134).
//!
//! - `error`: reasons why a persona was not moved.
//! - `numbers`: numbers of the new rows, and where others name them.
//! - `cell`: a workspace with its database, which nobody else has meanwhile.
//! - `record`: what both databases say of a move. `checks`: what would refuse one.
//! - `objects`: bytes of rows in object stores. `rows`: rows of a table, read, translated, written and compared.
//! - `texts`: texts that runs name and other personas may share.
//! - `money`: the persona's share of the engine's account. `removal`: the rows of a persona go.
//! - `folder`: its files.
//! - `steps`: a move, step by step. `preview`: what a move would do.
//!
//! A move that dies is begun anew by the next one, from rows that are in the old cell until the last step but one. Not here:
//! the configuration of the other cell beyond its files, and what the operator reads.

mod error;
mod numbers;
mod cell;
mod record;
mod checks;
mod objects;
mod rows;
mod texts;
mod money;
mod removal;
mod folder;
mod steps;
mod preview;

pub use error::PersonaMoveError;
pub use preview::PersonaMovePreview;
pub use steps::{PersonaMove, PersonaMoveReport};
