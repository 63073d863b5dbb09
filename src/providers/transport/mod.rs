//! HTTP as vendors speak it: streams, errors, limits.
//!
//! In reading order:
//! - `client`: HTTP clients, and the URLs that they may call
//! - `http`: one call of a model API, from its headers to its events
//! - `guard`: cancellation and time limits of a call
//! - `body`: framing and size limits of a response
//! - `lines`: bytes split into lines
//! - `sse`: bytes split into server-sent events
//! - `surrogates`: characters that a server cut in two
//! - `decode`: a framed body and a vendor's decoder become events
//! - `classify`: a failed response becomes an error with its class
//! - `vendor_error`: content of a vendor's error, in any envelope
//! - `overflow`: errors of an input that is too long
//! - `refusal`: errors of a parameter that is refused
//! - `wait`: the wait that a provider asked for
//!
//! Absent: the format of any vendor's answer (`api`), retries (`contract/retry.rs`), processes
//! (`child`).

pub(in crate::providers) mod client;
pub(in crate::providers) mod http;
pub(in crate::providers) mod guard;
pub(in crate::providers) mod body;
pub mod lines;
pub mod sse;
mod surrogates;
pub mod decode;
pub mod classify;
pub(in crate::providers) mod vendor_error;
pub(in crate::providers) mod overflow;
pub(in crate::providers) mod refusal;
pub(in crate::providers) mod wait;
