//! What an agent may do, and with which personas: as the configuration says, or as its key does.

use crate::config::{AgentReads, AgentTool, AgentTrust, Config, McpServerSettings};
use crate::domain::PersonaId;
use crate::store::{KeyRight, WebToken};

/// Rights of one agent.
#[derive(Debug, Clone)]
pub struct AgentAccess {
    /// Personas that it may ask.
    pub asks: Vec<PersonaId>,
    /// Personas of which it may read.
    pub reads_of: Vec<PersonaId>,
    pub tools: Vec<AgentTool>,
    pub trust: AgentTrust,
    pub reads: AgentReads,
    /// Id of its key; `None`: the agents of the configuration have none, and share their threads.
    pub key: Option<String>,
}

impl From<McpServerSettings> for AgentAccess {
    fn from(settings: McpServerSettings) -> Self {
        Self {
            asks: settings.personas.clone(),
            reads_of: settings.personas,
            tools: settings.tools,
            trust: settings.trust,
            reads: settings.reads,
            key: None,
        }
    }
}

impl AgentAccess {
    /// Returns the rights of a key: with `read` it reads what the pages show, with `send:PERSONA` it asks that persona, and reads
    /// what became of it.
    pub fn of_key(key: &WebToken, config: &Config) -> Self {
        let all = || config.personas.iter().map(|persona| &persona.id);
        let asks: Vec<PersonaId> = all()
            .filter(|id| key.may_for(KeyRight::Send, id))
            .cloned()
            .collect();
        let reads = match key.may(KeyRight::Read) {
            true => AgentReads::All,
            false => AgentReads::Asked,
        };
        let tools = [
            (AgentTool::Ask, !asks.is_empty()),
            (AgentTool::ListThreads, true),
            (AgentTool::ReadRun, true),
            (AgentTool::ReadThread, true),
        ];
        let of_readers = AgentTool::OF_READERS.map(|tool| (tool, reads == AgentReads::All));
        let tools = tools.into_iter().chain(of_readers);
        let tools = tools.filter(|(_, is_offered)| *is_offered);
        Self {
            reads_of: match reads {
                AgentReads::All => all().cloned().collect(),
                AgentReads::Asked => asks.clone(),
            },
            asks,
            tools: tools.map(|(tool, _)| tool).collect(),
            // What an agent says comes from wherever it reads, whoever gave it the key.
            trust: config
                .security
                .mcp_server
                .as_ref()
                .map_or_else(AgentTrust::default, |settings| settings.trust),
            reads,
            key: Some(key.id.clone()),
        }
    }
}
