//! Money: reservations, the ledger and its sums.

pub(in crate::store) mod usage_row;
pub(in crate::store) mod money;
pub(in crate::store) mod usage;
