//! Adapters to language models and to agents, behind one contract.

#[path = "mod.rs"]
pub mod providers;

pub use attache_base::{clock, crash, domain, text};
pub use attache_settings::{config, web};
