//! One file or folder per tool, and the list of them.
//!
//! A tool returns its intended effects; it opens no socket and writes no row. The run loop commits
//! its result and its effects in one transaction. In reading order:
//!
//! - `error`, `mail_policy`: values that both a tool and its caller know
//! - `contract`: the trait, the declaration, the inputs and the outcome of a call
//! - `env`: the capabilities that a call is given
//! - `registry`: tools as one value, those of run time included
//! - `schema`: the JSON Schema of typed arguments
//! - `arguments`: the check of arguments, with errors worded for the model
//! - `folder`: the persona's folder as tools may use it
//! - `list_files`: the smallest tool; copy it to start a new one
//! - `read_file`, `search_email`, `send_email`, `update_memory`, `schedule_create`
//!
//! Not here: who may call a tool, and what becomes of a call (`runs`).

mod error;
mod mail_policy;
mod contract;
mod env;
mod registry;
mod schema;
mod arguments;
mod folder;
mod list_files;
mod read_file;
mod schedule_create;
mod search_email;
mod send_email;
mod update_memory;

pub use contract::{
    CallTrace, DraftAttachment, Effects, MailDraft, Reader, Tool, ToolCall, ToolClass,
    ToolDeclaration, ToolLimits, ToolOutcome, WriteOrigin,
};
pub use env::{MessageSearcher, ToolCapabilities, ToolEnv, ToolResources};
pub use error::ToolError;
pub use mail_policy::{Answered, MailPolicy};
pub use registry::{RegisteredTool, RegistryError, ToolRegistry};
pub use schema::arguments_schema;
pub use search_email::SCOPE_OF_THREAD;
pub use send_email::{MAIL_LIMIT_REACHED, is_listed, no_more_mails};

/// Returns the tools of this engine, in the order the model sees them.
pub fn builtin() -> ToolRegistry {
    ToolRegistry::of(vec![
        Box::new(send_email::SendEmail),
        Box::new(search_email::SearchEmail),
        Box::new(read_file::ReadFile),
        Box::new(list_files::ListFiles),
        Box::new(update_memory::UpdateMemory),
        Box::new(schedule_create::ScheduleCreate),
    ])
}
