//! Runs: claim, context, loop of model and tools, commit of the outcome.

pub mod error;
pub mod label;
pub mod record;
pub mod provider_health;
pub mod tool_calls;
pub mod env;
pub mod deps;
pub mod budget;
pub mod send_limits;
pub mod destination;
pub mod mail;
pub mod fallback;
pub mod request_size;
pub mod stubs;
pub mod state;
pub mod checkpoint;
pub mod assembly;
pub mod trim;
pub mod recovery;
pub mod start;
pub mod execute;
pub mod agents;
pub mod model_call;
pub mod preflight;
pub mod worker;
