//! Runs: claim, context, loop of model and tools, commit of the outcome. In reading order:
//!
//! - `worker`: claims due runs; `deps`: what every run needs; `error`: why a run did not complete
//! - `chat`: questions that are answered where they are asked
//! - `start`, `recovery`, `checkpoint`: begin an attempt, or continue one
//! - `assembly`: the context; `label`: what its texts permit
//! - `missing_text`: a standing text is gone, and the run waits for it
//! - `execute`, `state`: the loop and its state; `stubs`: results that requests
//!   leave out
//! - `model_call`: one call of the model; `agents`: providers that own their loop
//! - `tool_calls`: permission, execution, results
//! - `reply`: the answer as a mail; `approvals`: questions to the owner; `hooks`: programs of the owner that are asked
//! - `programs`: how programs of the owner run; `offered`: which tools a run is offered
//! - `env`: rows, journal, files and tools of a live, forked or recorded run
//! - `record`: inputs of decisions, kept for replay
//! - `budget`: bounds, reservations, cost
//! - `provider_health`, `preflight`: adapters at rest, problems found before the first run

pub mod reply;
pub mod error;
pub mod label;
pub mod record;
pub mod provider_health;
pub mod tool_calls;
pub mod env;
pub mod deps;
pub mod budget;
pub mod stubs;
pub mod state;
pub mod checkpoint;
pub mod assembly;
pub mod programs;
pub mod offered;
pub mod hooks;
pub mod approvals;
pub mod recovery;
pub mod chat;
pub mod start;
pub mod execute;
pub mod agents;
pub mod model_call;
pub mod said;
pub mod preflight;
mod missing_text;
pub mod worker;
