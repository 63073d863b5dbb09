//! Money: reservations, the two ledgers and their sums.
//!
//! - `usage_row`: columns of a usage. `engine_parts`: the account of the engine, in parts on PostgreSQL.
//! - `money`: reservations of calls, and what becomes of them. `engine_grants`: what each part may spend.
//! - `usage`: sums of the ledger. `embedding_calls`: the second ledger, of calls that make vectors.
//! - `account_lines`: accounts with their bounds, for display. `exhausted_notice`: what the owner is told.
//!
//! Not here: what a call may cost at most, and what a run does without money (`runs/budget`).

pub mod usage_row;
pub mod engine_parts;
pub mod money;
pub mod engine_grants;
pub mod usage;
pub mod embedding_calls;
pub mod account_lines;
pub mod exhausted_notice;
