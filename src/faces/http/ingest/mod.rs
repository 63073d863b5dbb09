//! Letters that other programs hand in: each route yields the raw bytes and an envelope, and ends at the intake of all letters.
//!
//! - `by_key`: programs with a key, Cloudflare's workers among them
//! - `handed_in`: from a route to the intake; `outcome`: what the caller is answered
//!
//! A caller is no SMTP client of the sender's: its address says nothing about the sender, so SPF is not asked. Signatures are
//! verified over the bytes, and the results of a server are believed where the configuration names it (decision D-148). Absent on
//! purpose: forms of single providers (D-148).

mod handed_in;
mod outcome;
mod by_key;

pub(super) use by_key::by_key;
