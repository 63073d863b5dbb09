//! Money: reservations, the two ledgers and their sums.
//!
//! - `usage_row`: columns of a usage. `engine_parts`: the account of the engine, in parts on PostgreSQL.
//! - `money`: reservations of calls, and what becomes of them. `engine_grants`: what each part may spend.
//! - `usage`: sums of the ledger. `embedding_calls`: the second ledger, of calls that make vectors.
//! - `account_lines`: accounts with their bounds, for display. `exhausted_notice`: what the owner is told.
//!
//! Not here: what a call may cost at most, and what a run does without money (`runs/budget`).

pub(in crate::store) mod usage_row;
pub(in crate::store) mod engine_parts;
pub(in crate::store) mod money;
pub(in crate::store) mod engine_grants;
pub(in crate::store) mod usage;
pub(in crate::store) mod embedding_calls;
pub(in crate::store) mod account_lines;
pub(in crate::store) mod exhausted_notice;
