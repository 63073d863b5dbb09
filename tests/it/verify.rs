//! Runs executed once more over their records: each request is the recorded one, whoever changed a record is found, and
//! nothing happens meanwhile. `TestApp::check` verifies the runs of every test that calls it.

mod archive;
pub mod kinds;
mod mutations;
mod shown;
mod silence;

use attache::replay::verify::{Outcome, Verified};

/// How many are identical; all must be.
pub fn identical(verified: &[Verified]) -> usize {
    let is_identical = |run: &&Verified| matches!(run.outcome, Outcome::Identical { .. });
    let other: Vec<_> = verified.iter().filter(|run| !is_identical(run)).collect();
    assert!(other.is_empty(), "not identical: {other:#?}");
    verified.len()
}
