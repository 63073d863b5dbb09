//! The only SQL: one store, on SQLite or PostgreSQL.

#[path = "mod.rs"]
pub mod store;

pub use attache_base::{clock, crash, domain, mutants, text};
pub use attache_letter::{calendar, mime};
pub use attache_settings::config;
