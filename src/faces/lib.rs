//! What people and programs see over HTTP: pages, the API, and the server for agents.
//!
//! Rooms stand in the order of their floors: one imports only those named before it (`tests/tidy/floors.rs`).

pub mod mcp;
pub mod http;

pub use attache_base::{clock, domain, text};
pub use attache_engine::{context, replay, runs, tools};
pub use attache_gateway::{gateway, scheduler};
pub use attache_letter::mime;
pub use attache_providers::providers;
pub use attache_settings::{config, schedule_file};
pub use attache_store::store;
