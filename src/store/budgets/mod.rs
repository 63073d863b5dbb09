//! Money: reservations, the two ledgers and their sums.

pub(in crate::store) mod usage_row;
pub(in crate::store) mod money;
pub(in crate::store) mod usage;
pub(in crate::store) mod embedding_calls;
pub(in crate::store) mod account_lines;
pub(in crate::store) mod exhausted_notice;
