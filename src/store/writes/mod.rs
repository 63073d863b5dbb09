//! Writes, whichever database executes them.
//!
//! - `refusal`: results of a transaction that was not stored.
//! - `job`: a write, as a queue holds it.
//! - `batch`: writes of one kind that share their statements.
//! - `piggyback`: claims that the transaction makes which queues the work.
//! - `commit_signal`: tells that something was committed.
//! - `power_cut`: a simulated power cut, for tests.
//!
//! Not here: transactions and their commit, which are in `sqlite` and `postgres`.

pub mod refusal;
pub mod job;
pub mod batch;
pub mod piggyback;
pub mod commit_signal;
pub mod power_cut;
