//! Runs: the tools that a model may call, the context that it is given, the loop, and its replay.
//!
//! Rooms stand in the order of their floors: one imports only those named before it (`tests/tidy/floors.rs`).

pub mod shell;
pub mod tools;
pub mod context;
pub mod mcp_client;
pub mod embeddings;
pub mod runs;
pub mod replay;
pub mod keeping;

pub use attache_base::{clock, crash, domain, mutants, text};
pub use attache_letter::{calendar, extract, mime};
pub use attache_providers::providers;
pub use attache_settings::{config, policy, schedule_file, web};
pub use attache_store::store;
