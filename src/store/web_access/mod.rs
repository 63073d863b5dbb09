//! Access to the pages and the API: one-time codes, sessions of browsers, keys of programs, requests that happen once.
//!
//! Only digests of secrets are stored. Absent on purpose: cookies, headers, and what a session may do (`http`).

pub mod calls;
pub mod sessions;
pub mod tokens;
