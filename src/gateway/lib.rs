//! What comes in and goes out: letters, mails, due schedules, webhooks and figures. It meets the engine in committed rows and
//! does not know it.
//!
//! Rooms stand in the order of their floors: one imports only those named before it (`tests/tidy/floors.rs`).

#[path = "mod.rs"]
pub mod gateway;
pub mod scheduler;
pub mod webhooks;
pub mod telemetry;

pub use attache_base::{clock, crash, domain, mutants, text};
pub use attache_letter::{calendar, mime};
pub use attache_settings::{config, schedule_file, web};
pub use attache_store::store;
