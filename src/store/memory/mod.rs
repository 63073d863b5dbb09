//! Entries of a persona's memory. A run reaches them through [`audience::AudienceMemory`], which is bound to a persona and to
//! the people around the run, so that no path can forget either; only a duty of the owner's that tidies them reads all
//! ([`proposals::WholeMemory`]).
//!
//! - `record`: entries, and changes by a run, as values
//! - `write`: the same inside the transaction that records a call's result
//! - `audience`: what a run may read
//! - `aliases`: which addresses belong to one person
//! - `ranked`: which of these entries are about a query
//! - `proposals`: what a duty of the owner's may read, and has proposed
//! - `change`: what the owner does with an entry
//! - `replacement`: another row in the place of one
//! - `uses`: which entries were used; `expiry`: which are used no longer
//! - `digest`: entries that wait, shown to the owners by mail and decided by their answers
//! - `listing`: entries as the owner sees them
//! - `erase`: their text goes from every row; `redaction`: from the records of runs; `rewrite`: and from the file
//!
//! Not here: which entries a run may write (`tools::memory`).

pub mod record;
pub mod uses;
pub mod write;
pub mod audience;
pub mod aliases;
pub mod ranked;
pub mod listing;
pub mod proposals;
pub mod change;
pub mod replacement;
pub mod expiry;
pub mod digest;
pub mod erase;
pub mod redaction;
pub mod rewrite;
