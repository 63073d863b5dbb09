//! One file or folder per tool, and the list of them.
//!
//! A tool returns its intended effects; it opens no socket and writes no row. The run loop commits
//! its result and its effects in one transaction. In reading order:
//!
//! - `contract`: what a tool is, declares, is given and returns; the registry
//! - `folder`: the persona's folder as tools may use it
//! - `list_files`: the smallest tool; copy it to start a new one
//! - `read_file`, `search_email`, `send_email`, `update_memory`, `schedule_create`
//! - `ask_owner`, `propose_plan`: what the owner is asked
//!
//! Not here: who may call a tool, and what becomes of a call (`runs`).

mod folder;
mod contract;
mod ask_owner;
mod list_files;
mod propose_plan;
mod read_file;
mod schedule_create;
mod search_email;
mod send_email;
mod update_memory;

pub use contract::env::{MessageSearcher, ToolCapabilities, ToolEnv, ToolResources};
pub use contract::error::ToolError;
pub use contract::mail_policy::{Answered, MailPolicy};
pub use contract::registry::{RegisteredTool, RegistryError, ToolRegistry};
pub use contract::schema::arguments_schema;
pub use contract::tool::{
    CallTrace, DraftAttachment, Effects, MailDraft, OwnerQuestion, Reader, ResultWords, Tool,
    ToolCall, ToolClass, ToolDeclaration, ToolLimits, ToolOutcome, WriteOrigin,
};
pub use propose_plan::{PROPOSE_PLAN, PlanArgs};
pub use search_email::SCOPE_OF_THREAD;
pub use send_email::{
    MAIL_LIMIT_REACHED, RecipientPlace, is_listed, no_more_mails, recipient_no_reader,
    recipient_not_allowed,
};

/// Returns the tools of this engine, in the order the model sees them.
pub fn builtin() -> ToolRegistry {
    ToolRegistry::of(vec![
        Box::new(send_email::SendEmail),
        Box::new(search_email::SearchEmail),
        Box::new(read_file::ReadFile),
        Box::new(list_files::ListFiles),
        Box::new(update_memory::UpdateMemory),
        Box::new(schedule_create::ScheduleCreate),
        Box::new(ask_owner::AskOwner),
        Box::new(propose_plan::ProposePlan),
    ])
}
