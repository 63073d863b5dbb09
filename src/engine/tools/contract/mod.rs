//! What a tool is, declares, is given and returns. In reading order:
//!
//! - `error`, `mail_policy`: values that both a tool and its caller know
//! - `tool`: the trait, the declaration, the inputs and the outcome of a call
//! - `env`: the capabilities that a call is given
//! - `workspace`: the workspace, with its quota and its versions; `memory`: entries about the people around a run
//! - `services`: programs of the owner, servers of the Model Context Protocol, vectors of questions for the search
//! - `attachment_documents`: what was read from attachments, kept
//! - `commands`: commands in the sandbox, with the workspace around them
//! - `schema`: the JSON Schema of typed arguments
//! - `arguments`: the check of arguments, with errors worded for the model
//! - `piece`: pieces of a long text
//! - `typed`: tools of this engine, whose arguments are their fields
//! - `registry`: tools as one value, those of run time included
//!
//! A tool imports all of it: `use crate::tools::contract::*`.

pub mod arguments;
pub mod attachment_documents;
pub mod commands;
pub mod env;
pub mod error;
pub mod mail_policy;
pub mod piece;
pub mod services;
pub mod memory;
pub mod registry;
pub mod schema;
pub mod tool;
pub mod typed;
pub mod workspace;

pub use arguments::{count, is_plain, read_args};
pub(in crate::tools) use env::uses;
pub use env::{EventReader, MessageReader, ToolCapabilities};
pub use error::{ToolError, refuse};
pub use mail_policy::MailPolicy;
pub use piece::{TextPiece, fitting_piece};
pub use schemars::JsonSchema;
pub use serde::Deserialize;
pub use serde_json::{Value, json};
pub use tool::*;
pub use typed::TypedTool;
