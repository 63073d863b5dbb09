//! Client of the Model Context Protocol: the tools of servers that the owner has approved.
//!
//! In reading order:
//!
//! - `failure`: why a server gave no answer
//! - `message`: messages of JSON-RPC; pure
//! - `oauth`: login at an address
//! - `stdio`, `http`: one connection to a program or an address; `connection`: a request over either
//! - `session`: handshake, list of tools, call
//! - `pin`: tools as they are beside tools as they were approved; `files`: the program and its scripts
//! - `answer`: what the model reads of a result
//! - `clients`: sessions of runs, restarts, what the owner is told
//!
//! Absent on purpose: which run may call what (`runs`), the approved definitions (`config`), our own server (`mcp`). The
//! messages are read as plain JSON and not by `rmcp`: a pin holds every member that a server sends, known to us or not.

mod failure;
mod message;
mod stdio;
mod oauth;
mod http;
mod connection;
mod session;
mod pin;
mod files;
mod answer;
mod clients;

pub use clients::McpClients;
pub use failure::McpFailure;
pub use files::{FilesError, pinned_files};
pub use oauth::{
    CallbackListener, LogOut, LoginAttempt, LoginError, LoginState, RedirectVerdict, ServerLogin,
    kept_secrets, log_out,
};
pub use pin::{PinState, state_of, unusable};
pub use session::{ListedTools, McpSession};
