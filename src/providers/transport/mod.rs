//! HTTP as vendors speak it: streams, errors, limits.

pub(in crate::providers) mod guard;
pub(in crate::providers) mod wait;
pub(in crate::providers) mod vendor_error;
pub(in crate::providers) mod overflow;
pub(in crate::providers) mod refusal;
pub mod classify;
pub(in crate::providers) mod sse;
pub mod lines;
pub mod decode;
pub(in crate::providers) mod client;
pub(in crate::providers) mod body;
pub(in crate::providers) mod http;
