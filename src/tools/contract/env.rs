//! What a call may reach: exactly the capabilities that its tool declared.
//!
//! A tool that uses one it did not declare gets an error, so the declaration that the policy
//! decides by cannot be less than the truth.

use super::error::ToolError;
use super::mail_policy::MailPolicy;
use crate::store::{FoundMessage, MessageSearch, PersonaStore, StoreError};
use cap_std::fs_utf8::Dir;

/// Capabilities that a tool declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolCapabilities {
    /// The persona's folder.
    pub files: bool,
    /// The recipients that the run may write to.
    pub mail: bool,
    /// The search over the persona's messages.
    pub search: bool,
    /// The owner, who may be asked.
    pub owner: bool,
}

impl ToolCapabilities {
    /// A tool that computes on its arguments alone.
    pub const NONE: Self = Self {
        files: false,
        mail: false,
        search: false,
        owner: false,
    };
}

/// Everything that a run can give to a tool.
#[derive(Clone, Copy)]
pub struct ToolResources<'a> {
    /// The persona's folder, as a capability: no path outside it can be opened.
    pub folder: &'a Dir,
    pub mail: &'a MailPolicy,
    /// The persona's rows.
    pub store: &'a PersonaStore,
}

/// The declared capabilities of one call.
#[derive(Clone, Copy)]
pub struct ToolEnv<'a> {
    granted: ToolCapabilities,
    resources: ToolResources<'a>,
}

impl<'a> ToolEnv<'a> {
    pub fn new(granted: ToolCapabilities, resources: ToolResources<'a>) -> Self {
        Self { granted, resources }
    }

    /// Returns the persona's folder. Errors: `not_declared`.
    pub fn files(self) -> Result<&'a Dir, ToolError> {
        declared(self.granted.files, "files").map(|()| self.resources.folder)
    }

    /// Returns the recipients that the run may write to. Errors: `not_declared`.
    pub fn mail(self) -> Result<&'a MailPolicy, ToolError> {
        declared(self.granted.mail, "mail").map(|()| self.resources.mail)
    }

    /// Returns the search over the persona's messages. Errors: `not_declared`.
    pub fn search(self) -> Result<MessageSearcher<'a>, ToolError> {
        declared(self.granted.search, "search").map(|()| MessageSearcher(self.resources.store))
    }
}

fn declared(is_granted: bool, capability: &str) -> Result<(), ToolError> {
    if is_granted {
        return Ok(());
    }
    let hint = format!("this tool did not declare that it uses `{capability}`, so it cannot work");
    Err(ToolError::mendable("not_declared", hint))
}

/// Search over the persona's messages, and nothing else of its rows.
#[derive(Clone, Copy)]
pub struct MessageSearcher<'a>(&'a PersonaStore);

impl MessageSearcher<'_> {
    pub async fn messages(self, search: &MessageSearch) -> Result<Vec<FoundMessage>, StoreError> {
        self.0.search_messages(search).await
    }
}
