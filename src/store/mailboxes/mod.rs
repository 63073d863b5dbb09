//! Mailboxes that are fetched, and letters that are quarantined.

pub mod cursors;
pub mod quarantine;
