//! Environment of a live engine: its store, its folders, its tools.

use super::file_guards::{AgentChanges, GuardOrder, Guards};
use super::{AssembledRun, ContextOrder};
use crate::clock::Clock;
use crate::config::Persona;
use crate::context::resolvers::good_prompts::GoodPrompts;
use crate::context::resolvers::knowledge::{DocumentReader, KnowledgeSync};
use crate::context::resolvers::live::Live;
use crate::context::resolvers::reads::{Folders, is_passing, read_text};
use crate::context::{self, Sources};
use crate::domain::{ErrorClass, PersonaId, RunId, Trigger};
use crate::embeddings::{Embedder, QuestionEmbedder};
use crate::extract::Extractor;
use crate::mcp_client::McpClients;
use crate::runs::chat::answer_stream::AnswerStream;
use crate::runs::error::RunError;
use crate::runs::programs::LocalPrograms;
use crate::runs::tool_calls::execution::{self, CallOrder, Workplace};
use crate::runs::tool_calls::verdict::ToolVerdict;
use crate::shell::CommandSandbox;
use crate::store::files::workspace::WorkspaceQuota;
use crate::store::{ClaimedRun, PersonaStore, RunKey, Store};
use crate::tools::{McpServers, OwnerPrograms, QuestionVectors};
use crate::web::{WebFetcher, WebSearcher};
use cap_std::fs_utf8::Dir;
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PERSONA_TEXT_BYTES_MAX: u64 = 128 * 1024;

/// Environment of the runs of a live engine.
pub struct LiveEnv {
    pub store: Store,
    clock: Arc<dyn Clock>,
    /// The workspace as a capability.
    workspace: Arc<Dir>,
    /// Folder of the only persona of a fork, where that is not the workspace's.
    sandbox: Option<Arc<Dir>>,
    /// Files that agents at work may not change, and the number of agents by persona.
    guards: Guards,
    /// Last good prompts.
    pub prompts: Arc<GoodPrompts>,
    /// Index of knowledge files, kept up to date.
    knowledge: Arc<KnowledgeSync>,
    documents: Extractor,
    /// `None`: no connection is opened.
    web: Option<WebFetcher>,
    /// `None`: nothing is searched.
    web_search: Option<WebSearcher>,
    /// `None`: no program of the owner is started.
    programs: Option<LocalPrograms>,
    /// `None`: no command is run.
    commands: Option<CommandSandbox>,
    /// Folder of the workspace, below which answers show while they are made; `None`: they show nowhere.
    streams_below: Option<PathBuf>,
    /// `None`: no server is reached.
    mcp: Option<Arc<McpClients>>,
    /// `None`: searches go by words alone.
    question_vectors: Option<QuestionEmbedder>,
}

impl LiveEnv {
    pub fn new(store: Store, workspace: Dir, documents: Extractor) -> Self {
        let clock = store.clock().clone();
        Self {
            store,
            clock,
            workspace: Arc::new(workspace),
            sandbox: None,
            guards: Guards::default(),
            prompts: Arc::default(),
            knowledge: Arc::new(KnowledgeSync::reading(DocumentReader::new(
                documents.clone(),
            ))),
            documents,
            web: None,
            web_search: None,
            programs: Some(LocalPrograms),
            commands: None,
            mcp: None,
            question_vectors: None,
            streams_below: None,
        }
    }

    /// Shares what outlives a configuration with the environment before: guards of agents' files, good prompts, the
    /// index of knowledge, sessions with MCP servers.
    pub fn share(&mut self, before: &Self) {
        self.guards = before.guards.clone();
        self.prompts = before.prompts.clone();
        self.knowledge = before.knowledge.clone();
        self.mcp.clone_from(&before.mcp);
    }

    /// Shows answers below the folder of this workspace while they are made.
    #[must_use]
    pub fn with_streams(self, workspace: &Path) -> Self {
        Self {
            streams_below: Some(workspace.to_path_buf()),
            ..self
        }
    }

    /// Adds the way to pages of the web, and to the search of it.
    #[must_use]
    pub fn with_web(self, web: Option<WebFetcher>, web_search: Option<WebSearcher>) -> Self {
        Self {
            web,
            web_search,
            ..self
        }
    }

    /// Sets the sandbox in which commands are run.
    pub fn set_commands(&mut self, commands: CommandSandbox) {
        self.commands = Some(commands);
    }

    /// Returns the sandbox in which commands are run.
    pub fn commands(&self) -> Option<&CommandSandbox> {
        self.commands.as_ref()
    }

    /// Adds the way to MCP servers.
    #[must_use]
    pub fn with_mcp(self, mcp: Arc<McpClients>) -> Self {
        Self {
            mcp: Some(mcp),
            ..self
        }
    }

    /// Adds the maker of vectors of questions.
    #[must_use]
    pub fn with_vectors(self, embedder: Option<Arc<Embedder>>) -> Self {
        Self {
            question_vectors: embedder.map(QuestionEmbedder::new),
            ..self
        }
    }

    /// Ends what a run has kept open: its sessions with MCP servers.
    pub async fn run_ended(&self, run: &RunId) {
        if let Some(mcp) = &self.mcp {
            mcp.close(run).await;
        }
    }

    /// Builds an environment for one persona whose folder is a copy, so that its changes reach no
    /// real memory. Only this folder is given, so nothing else of a workspace can be read or
    /// written.
    pub fn in_sandbox(store: Store, folder: Dir, documents: Extractor) -> Self {
        let folder = Arc::new(folder);
        let clock = store.clock().clone();
        Self {
            store,
            clock,
            workspace: folder.clone(),
            sandbox: Some(folder),
            guards: Guards::default(),
            prompts: Arc::default(),
            knowledge: Arc::default(),
            documents,
            web: None,
            web_search: None,
            programs: None,
            commands: None,
            mcp: None,
            question_vectors: None,
            streams_below: None,
        }
    }

    pub fn answer_stream(&self, run: &ClaimedRun) -> AnswerStream {
        match &self.streams_below {
            Some(workspace) if run.trigger == Trigger::Chat => {
                AnswerStream::create(workspace, &run.id)
            }
            _ => AnswerStream::default(),
        }
    }

    /// Returns the reader of documents.
    pub fn documents(&self) -> &Extractor {
        &self.documents
    }

    pub fn rows(&self, run: &ClaimedRun) -> PersonaStore {
        self.store.persona(&run.persona)
    }

    /// Opens the folder of a persona. Errors: [`RunError::Machine`] when it is gone: the persona was taken away in the middle of
    /// the run, which waits for it as its other runs do.
    fn folder(&self, persona: &PersonaId) -> Result<Dir, RunError> {
        let folder = match &self.sandbox {
            Some(folder) => folder.try_clone(),
            None => self.workspace.open_dir(format!("personas/{persona}")),
        };
        let what = format!("folder of persona `{persona}`");
        folder.map_err(|error| match error.kind() {
            ErrorKind::NotFound => RunError::Machine {
                message: format!("{what}: {error}"),
            },
            _ => unread(&what, &error),
        })
    }
}

fn unread(what: &str, error: &std::io::Error) -> RunError {
    let message = format!("{what}: {error}");
    match is_passing(error) {
        true => RunError::Machine { message },
        false => RunError::Fatal {
            class: ErrorClass::Config,
            message,
        },
    }
}

/// Returns the key of the run in its journal.
pub fn key(run: &ClaimedRun) -> RunKey {
    RunKey {
        run: run.id.clone(),
        trigger_message: run.trigger_message.clone(),
    }
}

/// Files and tools.
impl LiveEnv {
    pub async fn assemble(&self, order: ContextOrder<'_>) -> Result<AssembledRun, RunError> {
        let (rows, folder) = (self.rows(order.run), self.folder(&order.run.persona)?);
        if let Err(error) = self
            .knowledge
            .refresh(&rows, &folder, self.clock.as_ref())
            .await
        {
            // An old index is better than a failed run.
            tracing::warn!(persona = %order.run.persona, %error, "knowledge files cannot be indexed");
        }
        let folders = Folders {
            workspace: &self.workspace,
            persona: &folder,
        };
        let left_out = self.knowledge.left_out(&order.run.persona);
        let reads = Live::new(folders, &rows, order.now)
            .without(left_out)
            .with_prompts(&self.prompts, order.persona);
        let sources = Sources {
            persona: order.persona,
            reads: &reads,
            subject: order.subject,
            now: order.now,
        };
        let profile = (order.run.profile.as_str(), order.profile);
        let (context, report, unoffered) = context::assemble_beside(
            sources,
            profile,
            order.allowed_tokens,
            order.budget_tokens,
            order.spare,
        )
        .await?;
        Ok(AssembledRun {
            context,
            report,
            unoffered,
            seen: reads.into_seen(),
        })
    }

    pub fn persona_text(&self, run: &ClaimedRun) -> Result<String, RunError> {
        let folder = self.folder(&run.persona)?;
        match read_text(&folder, "PERSONA.md", PERSONA_TEXT_BYTES_MAX) {
            // A run without its PERSONA.md would act as another persona.
            Err(error) if is_passing(&error) => Err(unread("PERSONA.md", &error)),
            text => Ok(text.ok().flatten().unwrap_or_default()),
        }
    }

    pub async fn guard(
        &self,
        run: &ClaimedRun,
        persona: &Persona,
        order: &GuardOrder,
    ) -> Result<(), RunError> {
        self.guards.begin(&self.store, run, persona, order).await
    }

    pub async fn release(
        &self,
        run: &ClaimedRun,
        persona: &Persona,
        quota: WorkspaceQuota,
    ) -> Result<AgentChanges, RunError> {
        self.guards.end(&self.store, run, persona, quota).await
    }

    pub async fn expected_effects(&self, order: &CallOrder<'_>) -> Option<Value> {
        let folder = self.folder(&order.run.persona).ok()?;
        let rows = self.rows(order.run);
        execution::expected_effects(order, self.workplace(&rows, &folder)).await
    }

    pub async fn call(&self, order: &CallOrder<'_>) -> Result<ToolVerdict, RunError> {
        let folder = self.folder(&order.run.persona)?;
        let rows = self.rows(order.run);
        execution::carry_out(order, self.workplace(&rows, &folder)).await
    }

    fn workplace<'a>(&'a self, store: &'a PersonaStore, folder: &'a Dir) -> Workplace<'a> {
        Workplace {
            store,
            folder,
            clock: self.clock.as_ref(),
            documents: &self.documents,
            web: self.web.as_ref(),
            web_search: self.web_search.as_ref(),
            programs: self
                .programs
                .as_ref()
                .map(|programs| programs as &dyn OwnerPrograms),
            commands: self.commands.as_ref(),
            shared: self.sandbox.is_none().then_some(self.workspace.as_ref()),
            mcp: self.mcp.as_deref().map(|mcp| mcp as &dyn McpServers),
            question_vectors: self
                .question_vectors
                .as_ref()
                .map(|vectors| vectors as &dyn QuestionVectors),
            keeps_versions: self.sandbox.is_none(),
        }
    }
}
