//! The pages and the API: what the store holds, in a browser and as JSON, and the owner's answers to what waits.
//!
//! Everything that is served is in the binary. Pages work without scripts; the one script adds keys and a refresh. A letter
//! never becomes markup of a page: its text is escaped, its HTML stands in a sandboxed frame with a policy that loads nothing.
//!
//! - `listener`: sockets, connections and their bounds (`connections`, `timed_stream`)
//! - `routes`: the one table of paths, each a `route`, from which router and tests are made
//! - `checks`: everything that is looked at before a handler runs, in order (`attempts`: failed ones)
//! - `context`: what handlers share; `call`: a checked request; `reply`: answers and their headers;
//!   `failure`: errors; `refusal`: the pages and records that say so
//! - `templates`, `assets`, `words`: pages as text; `pages`: their handlers;
//!   `hostile`: HTML of letters
//! - `api`: the records as JSON; `ingest`: letters that other programs hand in
//! - `metrics`: numbers for Prometheus; `openai`: questions of programs that speak OpenAI's API
//!
//! Absent on purpose: requests to anything that a letter names, SQL, and decisions about permission: a page calls the same
//! methods of the store as the command line.

mod api;
mod assets;
mod attempts;
mod call;
mod checks;
mod connections;
mod context;
mod failure;
mod hostile;
mod ingest;
mod listener;
mod metrics;
mod openai;
mod pages;
mod refusal;
mod reply;
mod route;
mod routes;
mod templates;
mod timed_stream;
mod words;

pub use api::pulse::streams_max;
pub use context::{WebContext, WebParts};
pub use listener::{BoundPages, PagesInForce, serve};
pub use pages::workspace::installation::{
    ExaminedInstallation, InstallationExaminer, InstallationFinding, InstallationWatch,
};
pub use route::{RouteAccess, RouteBody, RouteMethod, WebRoute};
pub use routes::ROUTES;
