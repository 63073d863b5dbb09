//! The journal of a run: turns, steps, mails and the end, in the order in which they commit.
//!
//! - `step`: a call or a result of a tool, as a value.
//! - `writer`: entries of one transaction, and the end of a run.
//! - `packed`: bodies of calls, compressed. `packed_context`: columns of a context.
//! - `turns`: calls of a provider, with their reservation and their cost.
//! - `contents`: texts of assembled contexts, by their digests.
//! - `steps`: rows of steps, and open calls that are closed.
//! - `outbound`: mails of a run.
//! - `outputs`: structured answers.
//! - `resume`: the journal read back after a crash.
//!
//! Not here: the row of the run itself (`runs`), and its record for readers (`views/record`).

pub mod step;
pub mod writer;
pub mod packed;
pub mod packed_context;
pub mod turns;
pub mod contents;
pub mod steps;
pub mod outbound;
pub mod outputs;
pub mod resume;
