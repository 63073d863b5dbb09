//! As of then: every context that a run was given is assembled again, byte for byte, whatever has changed since; and
//! when it comes out otherwise, the resolver that made the difference is named.

mod asked_again;
mod differences;
mod edits;
mod workspace;
mod keeping;
mod sweep;
