//! What a call may reach: exactly the capabilities that its tool declared.
//!
//! A tool that uses one it did not declare gets an error, so the declaration that the policy
//! decides by cannot be less than the truth.

use super::attachment_documents;
use super::commands::CommandRunner;
use super::error::{ToolError, refuse};
use super::mail_policy::MailPolicy;
use super::memory::{MemoryAccess, MemoryPlace};
use super::services::{McpServers, OwnerPrograms, QuestionVectors};
use super::workspace::{KeptWorkspace, WorkspaceWriter};
use crate::domain::{Address, MessageId, RunId, ThreadId, Timestamp};
use crate::extract::{ExtractError, Extracted, Extractor};
use crate::shell::CommandSandbox;
use crate::store::{
    AttachmentRef, CalendarNote, FoundMessage, MessageSearch, OpenedMessage, PersonaStore,
    ReadersRule, StoreError, StoredEvent, WholeMemory,
};
use crate::tools::SkillReader;
use crate::web::{RedirectRule, WebFetcher, WebSearcher};
use cap_std::fs_utf8::Dir;
use chrono_tz::Tz;

/// Capabilities that a tool declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolCapabilities {
    /// The persona's folder.
    pub files: bool,
    /// The owner's page, `active.md`, to write in.
    pub page: bool,
    /// The recipients that the run may write to.
    pub mail: bool,
    /// The search over the persona's messages.
    pub search: bool,
    /// The owner, who may be asked.
    pub owner: bool,
    /// Messages of the persona whole, with their attachments, under the rule of readers.
    pub letters: bool,
    /// The persona's folder, and writing in its workspace.
    pub workspace: bool,
    /// The reader of documents.
    pub documents: bool,
    /// Pages of the web.
    pub web: bool,
    /// The search of the web.
    pub web_search: bool,
    /// Events of the persona, under the rule of readers.
    pub calendar: bool,
    /// Programs of the owner.
    pub programs: bool,
    /// Commands in a sandbox, with the workspace.
    pub commands: bool,
    /// The persona's approved skills.
    pub skills: bool,
    /// Servers of the Model Context Protocol.
    pub mcp: bool,
    /// Memory of the people around the run.
    pub memory: bool,
    /// Memory of all people; only a duty that names its tool is offered it.
    pub whole_memory: bool,
}

impl ToolCapabilities {
    /// A tool that computes on its arguments alone.
    pub const NONE: Self = Self {
        files: false,
        page: false,
        mail: false,
        search: false,
        owner: false,
        letters: false,
        workspace: false,
        documents: false,
        web: false,
        web_search: false,
        calendar: false,
        programs: false,
        commands: false,
        skills: false,
        mcp: false,
        memory: false,
        whole_memory: false,
    };
}

/// Capabilities of a tool: these, and no other.
macro_rules! uses {
    ($($capability:ident),*) => {
        ToolCapabilities {
            $($capability: true,)*
            ..ToolCapabilities::NONE
        }
    };
}
pub(in crate::tools) use uses;

/// Everything that a run can give to a tool.
#[derive(Clone, Copy)]
pub struct ToolResources<'a> {
    /// The persona's folder, as a capability: no path outside it can be opened.
    pub folder: &'a Dir,
    pub mail: &'a MailPolicy,
    /// The persona's rows.
    pub store: &'a PersonaStore,
    /// Message that the run answers.
    pub trigger: &'a MessageId,
    /// Thread of the run.
    pub thread: &'a ThreadId,
    /// Versions of the workspace; `None`: the folder is a copy.
    pub workspace: Option<KeptWorkspace<'a>>,
    pub documents: &'a Extractor,
    /// `None`: the run opens no connection.
    pub web: Option<&'a WebFetcher>,
    /// Decides on each further host to which a page redirects.
    pub redirects: &'a dyn RedirectRule,
    /// `None`: the run searches nothing.
    pub web_search: Option<&'a WebSearcher>,
    /// Time zone of the persona.
    pub zone: Tz,
    /// `None`: the run starts no program.
    pub programs: Option<&'a dyn OwnerPrograms>,
    /// `None`: the run runs no command.
    pub commands: Option<&'a CommandSandbox>,
    pub skills: SkillReader<'a>,
    /// `None`: the run reaches no server.
    pub mcp: Option<&'a dyn McpServers>,
    /// `None`: searches go by words alone.
    pub question_vectors: Option<&'a dyn QuestionVectors>,
    /// `None`: the run answers nobody whose address is proved.
    pub memory: Option<&'a MemoryPlace>,
}

/// The declared capabilities of one call.
#[derive(Clone, Copy)]
pub struct ToolEnv<'a> {
    granted: ToolCapabilities,
    resources: ToolResources<'a>,
}

/// The resources of a call, if its tool declared that capability.
macro_rules! granted {
    ($env:ident.$capability:ident) => {
        match $env.granted.$capability {
            true => $env.resources,
            false => {
                let uses = stringify!($capability);
                return refuse(
                    "not_declared",
                    format!("this tool did not declare that it uses `{uses}`, so it cannot work"),
                );
            }
        }
    };
}

impl<'a> ToolEnv<'a> {
    pub fn new(granted: ToolCapabilities, resources: ToolResources<'a>) -> Self {
        Self { granted, resources }
    }

    /// Returns the persona's folder. Errors: `not_declared`.
    pub fn files(self) -> Result<&'a Dir, ToolError> {
        Ok(granted!(self.files).folder)
    }

    /// Returns the persona's folder, to write the owner's page. Errors: `not_declared`.
    pub fn page(self) -> Result<&'a Dir, ToolError> {
        Ok(granted!(self.page).folder)
    }

    /// Returns the recipients that the run may write to. Errors: `not_declared`.
    pub fn mail(self) -> Result<&'a MailPolicy, ToolError> {
        Ok(granted!(self.mail).mail)
    }

    /// Returns the search over the persona's messages. Errors: `not_declared`.
    pub fn search(self) -> Result<MessageSearcher<'a>, ToolError> {
        Ok(MessageSearcher(granted!(self.search)))
    }

    /// Returns the workspace, to write in. Errors: `not_declared`.
    pub fn workspace(self) -> Result<WorkspaceWriter<'a>, ToolError> {
        let ToolResources {
            folder, workspace, ..
        } = granted!(self.workspace);
        Ok(WorkspaceWriter {
            folder,
            kept: workspace,
        })
    }

    /// Returns the reader of documents. Errors: `not_declared`.
    pub fn documents(self) -> Result<&'a Extractor, ToolError> {
        Ok(granted!(self.documents).documents)
    }

    /// Returns the rule of a page's redirects.
    pub fn redirects(self) -> &'a dyn RedirectRule {
        self.resources.redirects
    }

    /// Returns the way to pages of the web. Errors: `not_declared`, `no_connections`.
    pub fn web(self) -> Result<&'a WebFetcher, ToolError> {
        let why = "this run opens no connection; finish without the page";
        given(granted!(self.web).web, "no_connections", why)
    }

    /// Returns the search of the web. Errors: `not_declared`, `no_connections`.
    pub fn web_search(self) -> Result<&'a WebSearcher, ToolError> {
        let why = "this run opens no connection; finish without a search";
        given(granted!(self.web_search).web_search, "no_connections", why)
    }

    /// Returns the way to programs of the owner. Errors: `not_declared`, `no_programs`.
    pub fn programs(self) -> Result<&'a dyn OwnerPrograms, ToolError> {
        given(granted!(self.programs).programs, "no_programs", NO_PROGRAM)
    }

    /// Returns the way to run commands in the workspace. Errors: `not_declared`, `no_programs`.
    pub fn commands(self) -> Result<CommandRunner<'a>, ToolError> {
        let resources = granted!(self.commands);
        let both = resources.commands.zip(resources.workspace);
        let (sandbox, workspace) = given(both, "no_programs", NO_PROGRAM)?;
        Ok(CommandRunner {
            sandbox,
            workspace,
            skills: resources.skills,
        })
    }

    /// Returns the persona's approved skills. Errors: `not_declared`.
    pub fn skills(self) -> Result<SkillReader<'a>, ToolError> {
        Ok(granted!(self.skills).skills)
    }

    /// Returns the way to MCP servers. Errors: `not_declared`, `no_servers`.
    pub fn mcp(self) -> Result<&'a dyn McpServers, ToolError> {
        let why = "this run reaches no server; finish without it";
        given(granted!(self.mcp).mcp, "no_servers", why)
    }

    /// Returns the memory of the people around the run. Errors: `not_declared`, `nobody_to_remember`.
    pub fn memory(self) -> Result<MemoryAccess<'a>, ToolError> {
        let resources = granted!(self.memory);
        let why = "this run answers nobody whose address is proved, so nothing is remembered of them; finish without it";
        let place = given(resources.memory, "nobody_to_remember", why)?;
        Ok(MemoryAccess {
            entries: resources.store.memory(&place.circle),
            place,
        })
    }

    /// Returns all entries of the persona's memory. Errors: `not_declared`.
    pub fn whole_memory(self) -> Result<WholeMemory, ToolError> {
        Ok(granted!(self.whole_memory).store.whole_memory())
    }

    /// Returns the events of the persona. Errors: `not_declared`.
    pub fn calendar(self) -> Result<EventReader<'a>, ToolError> {
        Ok(EventReader(granted!(self.calendar)))
    }

    /// Returns the messages of the persona. Errors: `not_declared`.
    pub fn letters(self) -> Result<MessageReader<'a>, ToolError> {
        Ok(MessageReader(granted!(self.letters)))
    }
}

const NO_PROGRAM: &str = "this run starts no program; finish without it";

fn given<T>(resource: Option<T>, code: &'static str, why: &str) -> Result<T, ToolError> {
    resource.ok_or_else(|| ToolError::mendable(code, why))
}

/// Search over the persona's messages, and nothing else of its rows.
#[derive(Clone, Copy)]
pub struct MessageSearcher<'a>(ToolResources<'a>);

impl MessageSearcher<'_> {
    /// Searches by words, and where they find something by vectors, too.
    pub async fn messages(
        self,
        search: &MessageSearch,
        run: &RunId,
    ) -> Result<Vec<FoundMessage>, StoreError> {
        let ToolResources { store, trigger, .. } = self.0;
        let question = async {
            let question = search.query.as_deref()?;
            self.0.question_vectors?.vector(store, run, question).await
        };
        store
            .search_with_vector(search, Some(trigger), question)
            .await
    }
}

/// Messages of the persona with their attachments, and nothing else of its rows.
#[derive(Clone, Copy)]
pub struct MessageReader<'a>(ToolResources<'a>);

impl<'a> MessageReader<'a> {
    /// Returns the message that the run answers.
    pub fn trigger(self) -> &'a MessageId {
        self.0.trigger
    }

    /// Returns the thread of the run.
    pub fn thread(self) -> &'a ThreadId {
        self.0.thread
    }

    pub async fn open(
        self,
        id: &MessageId,
        rule: ReadersRule<'_>,
    ) -> Result<Option<OpenedMessage>, StoreError> {
        self.0.store.open_message(id, rule).await
    }

    /// Returns the attachments of the run's thread, of the newest message first.
    pub async fn thread_attachments(
        self,
        rule: ReadersRule<'_>,
    ) -> Result<Vec<(MessageId, AttachmentRef)>, StoreError> {
        self.0.store.thread_attachments(rule).await
    }

    /// Returns the bytes of an attachment; `None`: there is no such attachment.
    pub async fn attachment_bytes(self, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.store.attachment_bytes(id).await
    }

    /// Returns what was read from an attachment before.
    pub async fn kept_document(self, id: &str) -> Result<Option<Extracted>, StoreError> {
        attachment_documents::kept(self.0.store, id).await
    }

    /// Reads an attachment, by its id and the media type that its sender declared.
    pub async fn read_document(
        self,
        documents: &Extractor,
        id: &str,
        claimed: &str,
        bytes: &[u8],
    ) -> Result<Extracted, ExtractError> {
        attachment_documents::read(self.0.store, documents, id, claimed, bytes).await
    }
}

/// Events of the persona, and invitations in the run's thread; nothing else of its rows.
#[derive(Clone, Copy)]
pub struct EventReader<'a>(ToolResources<'a>);

impl<'a> EventReader<'a> {
    /// Returns the message that the run answers.
    pub fn trigger(self) -> &'a MessageId {
        self.0.trigger
    }

    /// Returns the time zone of the persona.
    pub fn zone(self) -> Tz {
        self.0.zone
    }

    /// Returns the calendar parts of letters in the run's thread, newest first.
    pub async fn thread_parts(
        self,
        rule: ReadersRule<'_>,
    ) -> Result<Vec<(MessageId, CalendarNote)>, StoreError> {
        self.0.store.thread_calendars(rule).await
    }

    pub async fn event(
        self,
        of: (&str, &Address),
        recurrence_id: &str,
    ) -> Result<Option<StoredEvent>, StoreError> {
        self.0.store.event(of, recurrence_id).await
    }

    /// Returns events that may have an instance between two instants.
    pub async fn between(
        self,
        span: (Timestamp, Timestamp),
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.0.store.events_between(span).await
    }
}
