//! Mailboxes that are fetched, and letters that are quarantined.

pub(in crate::store) mod cursors;
pub(in crate::store) mod quarantine;
