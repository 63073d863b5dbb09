//! Contract between the runs and every language model or command-line agent.
//!
//! In reading order:
//! - `traits`: the two traits of an adapter, and the events of a call
//! - `capabilities`: what an adapter declares about itself, and the result of its check
//! - `request`: one round trip, with the parts that not every provider reads
//! - `message`: typed parts of a message
//! - `content`: images and references to files
//! - `response`: the answer, the reason for its end, its usage
//! - `error`: a failed call
//! - `substitute`: sentences for parts that a provider does not take
//! - `capture`: the recorded bytes of one call
//! - `accumulate`: the order of events, folded into a response
//! - `thoughts`: reasoning in the text of an answer
//! - `normalise`: any history in the form that the strictest vendor takes
//! - `retry`: the decision after a failed call
//! - `scrub`: secrets removed from bytes that are written to files
//! - `estimate`: token counts where a vendor gives none
//!
//! Absent: bytes of vendors (`transport`), their formats (`api`, `agents`), and calls themselves,
//! which the runs make.

pub mod traits;
pub mod capabilities;
pub mod request;
pub mod message;
pub mod content;
pub mod response;
pub mod error;
pub(in crate::providers) mod substitute;
pub mod capture;
pub mod accumulate;
pub mod thoughts;
pub mod normalise;
pub mod retry;
pub(in crate::providers) mod scrub;
pub(in crate::providers) mod estimate;
