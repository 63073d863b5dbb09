//! `mcp.json` as it is typed.

use super::ApprovedTool;
use crate::config::own_tools::{OwnToolClass, OwnToolEffects, ToolSenders};
use crate::config::values::section::*;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Servers of the Model Context Protocol whose tools the personas may use. Without this file there are none.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/mcp.json")]
pub struct TypedMcp {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Servers by name: lower-case letters, digits and single `_`. Their tools are called `SERVER__TOOL`.
    #[serde(default)]
    pub(super) servers: BTreeMap<String, TypedMcpServer>,
}

/// A server that is a program of this machine (`command`), or reached by streamable HTTP (`url`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedMcpServer {
    /// Program and its arguments, started without a shell in the workspace. A program with a slash is a path, relative to the
    /// workspace; another is looked up on `PATH`.
    #[schemars(length(min = 1))]
    pub(super) command: Option<Vec<String>>,
    /// Address of the server, such as `https://mcp.example.com/mcp`; it may be in a private network.
    pub(super) url: Option<String>,
    /// Names of further variables that the program sees, from `.secrets` or the engine's environment.
    #[serde(default)]
    pub(super) environment: Vec<String>,
    /// Header fields of every request to `url`.
    // Only the schema reads the second word: it shows no default here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) headers: Vec<McpHeader>,
    /// Login at `url` by OAuth, done with `attache mcp login`. Without it a login registers a client of its own.
    pub(super) oauth: Option<McpOAuth>,
    /// Tools that may be offered, by the server's own names. A tool that is not named here is never offered.
    pub(super) tools: BTreeMap<String, McpTool>,
    /// Who reads what is sent to the server, and may read what it answers: `everyone`, `owner`, or a list of addresses.
    pub(super) audience: TypedAudience,
    /// Personas that may have its tools. Default: all.
    #[serde(default)]
    pub(super) personas: Vec<String>,
    /// Time of one call, after which the server is stopped.
    #[serde(default = "default_timeout", with = "TypedDuration")]
    #[schemars(default = "timeout_text")]
    pub(super) timeout: Duration,
}

impl TypedMcp {
    /// Returns the names of the variables that the servers are given.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let others = self.servers.values().flat_map(|server| {
            let environment = server.environment.iter().map(String::as_str);
            let oauth = server.oauth.iter();
            let secret = oauth.filter_map(|oauth| oauth.client_secret_variable.as_deref());
            environment.chain(secret)
        });
        others.chain(self.header_variables())
    }
    /// Names of the variables that are whole values of headers, their scheme included.
    pub fn header_variables(&self) -> impl Iterator<Item = &str> {
        let headers = self.servers.values().flat_map(|server| &server.headers);
        headers.map(|header| header.variable.as_str())
    }
}

/// A client of an authorization server.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpOAuth {
    /// Issuer of the authorization server, exactly as the server names it. Default: the first that the server names. It may be
    /// in a private network.
    pub issuer: Option<String>,
    /// Client that is registered there already.
    #[schemars(length(min = 1))]
    pub client_id: Option<String>,
    /// The variable that holds the client's secret, if it has one, in `.secrets` or the engine's environment.
    pub client_secret_variable: Option<String>,
    /// `https` address of a Client ID Metadata Document, which is the client's id.
    pub client_metadata_url: Option<String>,
    /// Scope that is asked for. Default: the one that the server names.
    pub scope: Option<String>,
    #[serde(skip)]
    pub client_secret: Option<SecretString>,
}

/// A header field whose value is a secret.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpHeader {
    /// Name of the field, such as `Authorization`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Variable that holds its whole value, such as `Bearer …`, in `.secrets` or the engine's environment.
    pub variable: String,
    #[serde(skip)]
    pub value: Option<SecretString>,
}

/// What the owner declares of a tool.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpTool {
    /// Name that the model calls it by.
    #[serde(skip)]
    pub offered: String,
    /// What happens to a call that was under way when the engine ended.
    pub class: OwnToolClass,
    /// What a call does beyond its result; the policy decides by it. `{}`: nothing.
    pub effects: OwnToolEffects,
    /// Lowest trust of a sender, and of all that a run has read, with which a call that has effects is made without asking.
    #[serde(default)]
    pub senders: ToolSenders,
    /// `None`: it is not approved, so it is not offered.
    #[serde(skip)]
    pub pin: Option<ApprovedTool>,
}

/// Readers of what a server is sent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TypedAudience {
    Word(AudienceWord),
    Addresses(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AudienceWord {
    /// Nobody knows who reads it.
    Everyone,
    /// Nobody but the owner.
    Owner,
}

fn default_timeout() -> Duration {
    TIMEOUT
}

fn timeout_text() -> String {
    spell(TIMEOUT)
}
