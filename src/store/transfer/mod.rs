//! All rows of a database go to one of the other kind: of SQLite to PostgreSQL, or back.
//!
//! - `error`: reasons why rows were not moved.
//! - `place`: where rows come from, and where they go to.
//! - `shape`: tables with their columns and keys, as both catalogues have them.
//! - `canonical`: the form of rows that is compared, and its digest.
//! - `source`: the database that rows come from, of which nobody else changes a row meanwhile.
//! - `target`: the database that they go to: that it is empty, and its mark.
//! - `triggers`: triggers of the target, which rest meanwhile.
//! - `load`: rows of a table, from one to the other.
//! - `numbers`: numbers of new rows go on.
//! - `steps`: a transfer, step by step.
//!
//! A transfer that dies is begun anew. Until it ends, the target has a mark by which no engine works there; the source gets its own
//! before the target loses it, so at no instant do engines work on both. Not here: what the operator reads, and `.secrets`.

mod error;
mod place;
mod shape;
mod canonical;
mod source;
mod target;
mod triggers;
mod load;
mod numbers;
mod steps;

pub use canonical::{ReplacedNul, TableDigest};
pub use error::TransferError;
#[cfg(test)]
pub use shape::columns_of_schema;
pub use steps::{BegunTransfer, Transfer};
