#![doc = include_str!("ARCHITECTURE.md")]

pub mod app;
pub mod cli;

pub use attache_base::{clock, crash, domain, mutants, text};
pub use attache_engine::{context, embeddings, keeping, mcp_client, replay, runs, shell, tools};
pub use attache_faces::{http, mcp};
pub use attache_gateway::{gateway, scheduler, telemetry, webhooks};
pub use attache_letter::{calendar, extract, mime};
pub use attache_providers::providers;
pub use attache_settings::{config, policy, schedule_file, web};
pub use attache_store::store;
