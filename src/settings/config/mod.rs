//! Turns the typed files into resolved settings.
//!
//! Every section of a file has one module. Where the typed values are the settings, it has one struct, and `check` or
//! `resolve` reports what its schema cannot say. Where resolving changes the shape (secrets, references to personas,
//! addresses, lists that may be `null`), it has a second one, `Typed…`, the source of its JSON Schema. No value falls back
//! silently. Sections import `file`, `values` and each other downwards; `load` imports them, and nothing imports `load`.
//!
//! - `file`: one file with its text, positions, problems and schema
//! - `values`: host names, time zones, address patterns, names, shared checks
//! - `step`: the grammar of a pipeline step; `secrets`: `.secrets` and the environment
//! - `gateway`: `configs/gateway.json`
//! - `inference`: `configs/inference.json` and `configs/prices.json`
//! - `context`: `configs/context.json`
//! - `security`: `configs/security.json`, with `authentication` and `mcp_server`
//! - `policy`: `configs/policy.json` and `personas/<id>/policy.json`
//! - `hooks`: `configs/hooks.json`
//! - `skills`: `configs/skills.json`; `keeping`: `configs/keeping.json`
//! - `web`: `configs/web.json`; `own_tools`: `configs/tools/NAME/tool.json`; `mcp`: `configs/mcp.json`
//! - `persona`: `personas/<id>/persona.json`; `letters`: its options of letters by their address;
//!   `personas` holds all of them
//! - `settings`: the settings of an engine; `warnings`: valid values that are probably unintended
//! - `load`: reads and checks every file
//! - `schema`: the JSON Schemas of the files; `show`: the effective settings as JSON
//! - `in_force`: the settings in force, replaced by a reload, and files edited since they were read
//!
//! Absent on purpose: standing texts and responsibilities, which are read for each run.

mod file;
mod step;
mod secrets;
mod values;
mod gateway;
mod inference;
mod context;
mod security;
mod authentication;
mod policy;
mod hooks;
mod web;
mod keeping;
mod skills;
mod own_tools;
mod mcp;
mod letters;
mod persona;
mod personas;
mod settings;
mod warnings;
mod load;
pub mod schema;
mod show;
pub mod in_force;

pub use authentication::{Authentication, Mode, ResolverSettings, TrustedRelay};
pub use context::{ContextProfile, ContextStep};
pub use file::{
    ConfigErrors, Document, GATEWAY_FILE, KeptFiles, MCP_FILE, MCP_LOCK_FILE, Problem, SKILLS_FILE,
    Snapshot, TypedDuration, WritableFile, nearest as nearest_name, spell, writable_files,
    writable_part, write_private,
};
pub use gateway::http_listeners::{HttpListener, WebOrigin};
pub use gateway::ingest::HttpIngest;
pub use gateway::limits::Limits;
pub use gateway::listeners::{ListenAddress, ListenerKind, SmtpListener, TlsFiles};
pub use gateway::mailboxes::{AfterStored, ImapMailbox, MailboxLogin, OAuth};
pub use gateway::notices::NoticeSettings;
pub use gateway::outbound::{BounceAddress, OnUnknown, Smarthost, TransportSettings};
pub use gateway::submission::Submitter;
pub use gateway::telemetry::{PingTarget, Telemetry, TraceTarget};
pub use gateway::webhooks::{Webhook, WebhookKey};
pub use gateway::{Gateway, MailRetry, WatchedFolder};
pub use hooks::Hook;
pub use in_force::current::Current;
pub use inference::Inference;
pub use inference::agents::{
    AGENT_FOLDER, AgentBounds, AgentSettings, CORRESPONDENTS_FOLDER, Tier, is_for_owner_alone,
    is_protected,
};
pub use inference::budgets::{Budget, Budgets, PersonaBudget, dollars, micros_of};
pub use inference::chat::{ChatApi, ChatSwitches, DataCollection, Effort, StructuredOutput};
pub use inference::embeddings::EmbeddingSettings;
pub use inference::fallback::ModelChoice;
pub use inference::headers::{HeaderText, ProviderHeader};
pub use inference::prices::Prices;
pub use inference::providers::ProviderSettings;
pub use inference::settings_in_force::{Setting, SettingsInForce};
pub use inference::spending::{Spending, spending};
pub use inference::think::Think;
pub use inference::tool_timeouts::{TOOL_TIMEOUT, TOOL_TIMEOUT_MAX, ToolTimeouts};
pub use keeping::{KeepingSettings, RetentionAges, ScheduledBackup};
pub use letters::outgoing::PersonaMail;
pub use letters::{LetterRule, LetterRules};
pub use load::{
    ReadAgain, load, load_again, load_beside_secrets, load_for_one, load_foreign, load_snapshot,
    load_staged, load_staged_without_secrets, load_with, load_without_secrets,
};
pub use mcp::{
    ApprovedTool, DESCRIPTION_BYTES_MAX, McpHeader, McpOAuth, McpPins, McpServer, McpServerPin,
    McpTool, McpToolPin, PinnedFile, SCHEMA_BYTES_MAX, definition_sha256, lock_text, origin,
};
pub use own_tools::{OwnTool, OwnToolClass, OwnToolEffects, ToolSenders};
pub use persona::{BadName, Persona, PersonaTools, check_name, description, is_untouched};
pub use personas::{OutOfService, Personas};
pub use policy::{ApprovalSettings, PolicySettings, REPLY};
pub use secrets::{
    DATABASE_VARIABLE, FILE as SECRETS_FILE, environment, has_secret, is_stand_in, secret,
};
pub use security::mcp_server::{AgentReads, AgentTool, AgentTrust, McpServerSettings};
pub use security::{Access, Decision, Security};
pub use settings::Config;
pub use show::{effective, show_persona};
pub use skills::{
    EXECUTABLE, PinnedSkill, SKILL_FILE, SKILL_FILE_BYTES_MAX, SKILLS_FOLDER, TypedSkills,
    is_skill_name,
};
pub use step::PLACEHOLDERS;
pub use values::answer_schema;
pub use values::name_catalog::NameCatalog;
pub use values::net::{MailTls, address_hint, domain_hint, is_loopback_host, may_speak_http};
pub use values::zones::zone_hint;
pub use web::{FetchSettings, SearchSettings, WebSettings};
