//! One file or folder per tool, and the list of them.
//!
//! A tool returns its intended effects; it opens no socket and writes no row. The run loop commits
//! its result and its effects in one transaction. In reading order:
//!
//! - `contract`: what a tool is, declares, is given and returns; the registry
//! - `files`, `mail`, `calendar`: tools on the persona's folder, on its mail, on its events
//! - `web_fetch`, `web_search`, `update_memory`, `schedule_create`
//! - `memory`: entries about correspondents
//! - `no_answer`: silence on purpose; `ask_owner`, `propose_plan`: what the owner is asked
//! - `shell`: a command in the sandbox; `skills`: instructions of the owner
//! - `own_tool`: a program of the owner's as a tool; `mcp_tool`: a tool of an MCP server
//!
//! Not here: who may call a tool, and what becomes of a call (`runs`).

mod contract;
mod files;
mod mail;
mod calendar;
mod no_answer;
mod ask_owner;
mod propose_plan;
mod schedule_create;
mod update_memory;
mod memory;
mod web_fetch;
mod web_search;
mod shell;
mod skills;
pub mod own_tool;
mod mcp_tool;

use crate::config::Config;
use contract::typed::tool;

pub use contract::attachment_documents;
pub use contract::env::{MessageSearcher, ToolCapabilities, ToolEnv, ToolResources};
pub use contract::error::ToolError;
pub use contract::mail_policy::{Answered, MailPolicy};
pub use contract::memory::{MemoryPlace, QuotableText};
pub use contract::registry::{RegisteredTool, RegistryError, ToolRegistry};
pub use contract::services::{
    McpCall, McpResult, McpServers, OwnerPrograms, ProgramFailure, QuestionVectors,
};
pub use contract::tool::{
    CallTrace, DraftAttachment, DraftCalendar, Effects, MailDraft, OwnerQuestion, Reader,
    ResultWords, Tool, ToolCall, ToolClass, ToolDeclaration, ToolLimits, ToolNeed, ToolOutcome,
    WriteOrigin,
};
pub use contract::workspace::KeptWorkspace;
pub use mail::search_email::SEARCH_EMAIL;
pub use mail::send_email::{
    MAIL_LIMIT_REACHED, RecipientPlace, no_more_mails, recipient_no_reader, recipient_not_allowed,
};
pub use mail::visibility::SCOPE_OF_THREAD;
pub use no_answer::NO_ANSWER;
pub use propose_plan::{PROPOSE_PLAN, ProposePlan};
pub use skills::skill_file::{SkillFile, parse as parse_skill};
pub use skills::skill_folder::{digests as skill_digests, text as skill_text};
pub use skills::skill_reader::SkillReader;
pub use skills::use_skill::USE_SKILL;

/// Returns the tools of this engine, in the order the model sees them.
pub fn builtin() -> ToolRegistry {
    ToolRegistry::of(vec![
        tool::<mail::send_email::SendEmail>(),
        tool::<mail::search_email::SearchEmail>(),
        tool::<mail::read_email::ReadEmail>(),
        tool::<mail::read_attachment::ReadAttachment>(),
        tool::<mail::forward_email::ForwardEmail>(),
        tool::<files::read_file::ReadFile>(),
        tool::<files::list_files::ListFiles>(),
        tool::<files::glob::Glob>(),
        tool::<files::grep::Grep>(),
        tool::<files::write_file::WriteFile>(),
        tool::<files::edit_file::EditFile>(),
        tool::<shell::Shell>(),
        tool::<skills::use_skill::UseSkill>(),
        tool::<calendar::answer_invitation::AnswerInvitation>(),
        tool::<calendar::invite::Invite>(),
        tool::<calendar::list_events::ListEvents>(),
        tool::<web_fetch::WebFetch>(),
        tool::<web_search::WebSearch>(),
        tool::<update_memory::UpdateMemory>(),
        tool::<memory::remember::Remember>(),
        tool::<memory::correct::Correct>(),
        tool::<memory::forget::Forget>(),
        tool::<memory::recall::Recall>(),
        tool::<memory::list_memory::ListMemory>(),
        tool::<memory::propose_memory_change::ProposeMemoryChange>(),
        tool::<schedule_create::ScheduleCreate>(),
        tool::<no_answer::EndWithoutAnswer>(),
        tool::<ask_owner::AskOwner>(),
        tool::<propose_plan::ProposePlan>(),
    ])
}

/// Returns the tools of this engine and those of the configuration's owner: programs, and approved tools of MCP servers.
pub fn of_config(config: &Config) -> ToolRegistry {
    let own = config.own_tools.iter().cloned();
    let own = own.map(|tool| Box::new(own_tool::OwnerTool(tool)) as Box<dyn Tool>);
    let of_servers = config.mcp.iter().flat_map(mcp_tool::of_server);
    own.chain(of_servers).fold(builtin(), |registry, tool| {
        let name = tool.declaration().name;
        match registry.with(vec![tool]) {
            Ok(more) => more,
            Err(error) => {
                // The check of the configuration refuses such a tool; one that was recorded may be older than the check.
                tracing::warn!(tool = name, %error, "a tool of the owner's is left out");
                registry
            }
        }
    })
}
