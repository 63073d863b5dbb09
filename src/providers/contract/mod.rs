//! What every adapter keeps to: the contract, requests in normal form, retries, what is hidden.

pub mod traits;
pub mod capabilities;
pub mod options;
pub mod capture;
pub mod accumulate;
pub mod normalise;
pub mod retry;
pub(in crate::providers) mod redact;
pub(in crate::providers) mod scrub;
pub(in crate::providers) mod estimate;
