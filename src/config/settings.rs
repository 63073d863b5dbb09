//! Resolved settings: complete, typed, checked against each other. The typed files are the
//! loader's.

mod listeners;
mod agents;
mod chat;
mod think;
mod personas;

pub use agents::{AGENT_FOLDER, AgentSettings, Tier, is_protected};
pub use chat::{ChatSwitches, DataCollection, Effort, StructuredOutput};
pub use listeners::{ListenAddress, ListenerKind, ListenerTls, SmtpListener, Submitter, TlsFiles};
pub use personas::{OutOfService, Persona, Personas, ReplyMode, SharedAddress};
pub use think::Think;

use super::authentication::Authentication;
use super::budgets::Budgets;
use super::mailboxes::ImapMailbox;
use super::prices::Prices;
use super::problem::Problem;
use super::snapshot::Snapshot;
use crate::domain::{Address, LoopKey, PersonaId};
use crate::mime::Signers;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// All settings of an engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Absolute path of the workspace.
    pub workspace: PathBuf,
    /// Absolute path of this program, which agents start for the tool server; empty where the
    /// system does not tell.
    pub program: PathBuf,
    pub gateway: Gateway,
    pub inference: Inference,
    /// Empty without `configs/prices.json`.
    pub prices: Prices,
    /// Steps by profile name; `thread` and `responsibility` always exist.
    pub context: BTreeMap<String, ContextProfile>,
    pub security: Security,
    pub limits: Limits,
    pub personas: Personas,
    /// Key by which several engines recognise each other's mail; `None`: each database has its own.
    pub loop_key: Option<LoopKey>,
    /// Values that are valid but probably unintended.
    pub warnings: Vec<Problem>,
    /// Values of all secrets that the configuration names, for masking them in records.
    pub secrets: Vec<SecretString>,
    /// The files from which these settings were read.
    pub snapshot: Arc<Snapshot>,
}

/// `configs/gateway.json`.
#[derive(Debug, Clone)]
pub struct Gateway {
    /// Domain of persona addresses that name no domain, and of generated Message-IDs.
    pub mail_domain: String,
    /// Host name in the SMTP banner and EHLO.
    pub host_name: String,
    pub owners: Vec<Address>,
    pub listeners: Vec<SmtpListener>,
    /// The listeners' certificate.
    pub tls: Option<TlsFiles>,
    /// Owners that may log in where a listener offers AUTH.
    pub submission: Vec<Submitter>,
    pub folders: Vec<WatchedFolder>,
    pub mailboxes: Vec<ImapMailbox>,
    /// `None`: no mail can be sent; a mail to be sent ends the run with `outbound_not_configured`.
    pub outbound: Option<Transport>,
    /// DKIM keys for outgoing mail; none, or at least one for the domain of every persona.
    pub signers: Signers,
    /// Form of the envelope sender, by which bounces are recognised.
    pub bounce_address: BounceAddress,
    pub retry: RetryPolicy,
    pub notices: Notices,
}

/// A folder whose `*.eml` files are letters.
#[derive(Debug, Clone)]
pub struct WatchedFolder {
    /// Absolute path.
    pub path: PathBuf,
    /// Persona that gets letters without a persona in `Delivered-To`, `X-Original-To`, `To` or
    /// `Cc`.
    pub fallback: Option<PersonaId>,
    pub poll: Duration,
}

/// The envelope sender of a persona's mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BounceAddress {
    /// `persona+b.TOKEN@domain`: a bounce is recognised and authenticated by its recipient.
    #[default]
    Tagged,
    /// The persona's address, for smarthosts that accept no other: bounces are recorded and change
    /// nothing.
    Plain,
}

#[derive(Debug, Clone)]
pub enum Transport {
    Smarthost(Smarthost),
    /// Writes each mail as an `.eml` file; for demos, tests and air-gapped machines. Absolute path.
    Folder(PathBuf),
}

#[derive(Debug, Clone)]
pub struct Smarthost {
    pub host: String,
    pub port: u16,
    pub tls: SmarthostTls,
    /// User name and password, for AUTH.
    pub credentials: Option<(String, SecretString)>,
    /// Maximum concurrent connections.
    pub connections_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmarthostTls {
    /// Plain text; allowed for loopback hosts only.
    None,
    StartTls,
    Implicit,
}

/// Retries of outgoing mail.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Age of a mail after which its unfinished recipients fail.
    pub give_up_after: Duration,
    pub on_unknown: OnUnknown,
}

/// Handling of a mail whose acceptance by the server is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnknown {
    /// Sends the mail again, marked: at least once, at worst twice.
    #[default]
    Resend,
    /// Holds the mail until an operator decides.
    Hold,
}

/// Mails to the owners about failures.
#[derive(Debug, Clone)]
pub struct Notices {
    /// Persona that sends notices about the engine itself; `None`: the first persona.
    pub persona: Option<PersonaId>,
    /// Minimum time between two mails about one cause.
    pub interval: Duration,
    /// Age at which a mail that is still queued causes a notice.
    pub delayed_after: Duration,
    /// Minimum time between two mails about letters to a persona that were filed; zero sends none.
    pub filed_interval: Duration,
}

/// A provider and one of its models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    pub provider: String,
    pub model: String,
}

/// `configs/inference.json`.
#[derive(Debug, Clone)]
pub struct Inference {
    pub provider: String,
    pub model: String,
    /// Models to call, in this order, when the provider fails.
    pub fallback: Vec<ModelChoice>,
    /// `true`: the next model is also called when a model refuses to answer.
    pub fallback_on_refusal: bool,
    pub max_output_tokens: u32,
    pub temperature: Option<f32>,
    pub budget: Budget,
    /// Bounds of days and months.
    pub budgets: Budgets,
    /// Maximum time without data from a provider.
    pub idle_timeout: Duration,
    /// Maximum duration of a provider call.
    pub call_timeout: Duration,
    /// Attempts of one provider call inside a run.
    pub call_attempts_max: u32,
    /// Attempts of one run before it fails for good.
    pub run_attempts_max: u32,
    /// A retry delay longer than this parks the run.
    pub inline_wait_max: Duration,
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Maximum concurrent runs of all personas.
    pub concurrent_runs_max: usize,
    /// Maximum concurrent runs of one persona.
    pub concurrent_runs_per_persona_max: usize,
}

/// Settings of one provider. Each adapter reads the fields that concern it.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// Name in the configuration, for example `openai` or `compat:groq`.
    pub name: String,
    /// `https`, or `http` for loopback hosts and, with `plain_http`, for private networks.
    pub base_url: Option<String>,
    pub plain_http: bool,
    /// Key from the environment or `.secrets`, never from a config file.
    pub api_key: Option<SecretString>,
    /// Variable that holds the key; `None`: the provider needs none.
    pub key_variable: Option<String>,
    /// `scripted`: absolute path of the answers.
    pub script: Option<PathBuf>,
    /// Deviations of `openai`, `grok`, `openrouter` and `compat:NAME` from OpenAI's API.
    pub chat: ChatSwitches,
    /// `ollama`: tokens of question and answer together; `None` is the adapter's default.
    pub context_tokens: Option<u32>,
    /// `ollama`: time that the model stays loaded, in the vendor's syntax.
    pub keep_alive: Option<String>,
    /// `gemini`, `ollama`: `None` is the model's own default.
    pub think: Option<Think>,
    pub agent: AgentSettings,
}

/// The bounds of one run.
#[derive(Debug, Clone)]
pub struct Budget {
    pub turns_max: u32,
    pub tool_calls_max: u32,
    pub tool_failures_max: u32,
    /// Tokens of input and output together, including cached ones.
    pub tokens_max: u64,
    /// Micro-dollars; `None` means no bound.
    pub cost_micros_max: Option<i64>,
    pub duration_max: Duration,
    /// Maximum tokens of the assembled context.
    pub context_tokens_max: usize,
    pub mails_max: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ContextProfile {
    pub steps: Vec<ContextStep>,
}

/// One step of the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextStep {
    /// Name of the resolver.
    pub resolver: String,
    /// Arguments, with unreplaced placeholders such as `{persona_id}`.
    pub args: Vec<String>,
    pub budget_tokens: Option<usize>,
    /// `true`: the run fails when this step contributes nothing.
    pub required: bool,
}

/// `configs/security.json`.
#[derive(Debug, Clone)]
pub struct Security {
    pub access: Access,
    pub authentication: Authentication,
    /// Further recipients of `send_email`: exact addresses or `*@domain`.
    pub send_allow: Vec<String>,
}

/// Access control for letters to personas; `deny` wins over `allow` wins over `default_decision`.
/// Globs ignore case.
#[derive(Debug, Clone)]
pub struct Access {
    pub mode: Mode,
    pub default_decision: Decision,
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

/// Mode of a rule: refuse, or only record the letters that it would have refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    Monitor,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Monitor => "monitor",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny,
}

/// Every bound that is not of a run. Names end with the unit.
#[derive(Debug, Clone)]
pub struct Limits {
    pub letter_bytes_max: usize,
    /// Maximum bytes of a text line. RFC 5321 section 4.5.3.1.6 requires 1,000 octets; mail of real
    /// senders has longer lines.
    pub line_bytes_max: usize,
    pub header_bytes_max: usize,
    pub command_line_bytes_max: usize,
    pub recipients_max: usize,
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    pub session_errors_max: usize,
    pub session_duration_max: Duration,
    /// Timeout of one command, of one pause inside a letter, and of one batch of replies.
    pub session_idle_max: Duration,
    /// Timeout of the PROXY header and of the TLS handshake.
    pub handshake_max: Duration,
    /// Time to wait for early data before the greeting: a client on another host that sends before
    /// our greeting is no mail server.
    pub greeting_delay: Duration,
    /// Minimum average rate of a letter; a slower one is disconnected. The first `session_idle_max`
    /// does not count.
    pub letter_bytes_per_second_min: usize,
    /// Delay of the reply to a first failed login; it doubles with each further one, up to sixteen
    /// times.
    pub login_delay: Duration,
    /// Failed logins from one network before it is refused for 15 minutes.
    pub login_failures_max: usize,
    /// Number of open runs above which letters are refused with 452.
    pub open_runs_max: usize,
    pub mime_depth_max: usize,
    pub mime_parts_max: usize,
    pub received_headers_max: usize,
    pub html_bytes_max: usize,
    pub html_depth_max: usize,
    pub references_max: usize,
    pub tool_result_bytes_max: usize,
    pub file_bytes_max: usize,
    pub memory_bytes_max: usize,
    pub attachments_bytes_max: usize,
    /// Free disk space in bytes below which letters are refused with 452.
    pub free_disk_bytes_min: u64,
    /// Automatic mails that a persona may send to one person in an hour, and in a day; verified
    /// owners do not count, and answers to unauthenticated letters are counted separately.
    pub replies_per_hour_max: usize,
    pub replies_per_day_max: usize,
    /// Changes of direction in a thread per day without a letter of a verified owner.
    pub alternations_max: usize,
    /// Maximum consecutive mails between personas.
    pub persona_hops_max: usize,
    /// Time within which a repeated letter counts as a duplicate.
    pub duplicate_window: Duration,
    /// Time from SIGTERM to the end of the process.
    pub drain_max: Duration,
}

impl Limits {
    /// Time for running work to end after SIGTERM. The rest of `drain_max` is for requeueing
    /// unfinished work and for closing the database.
    pub fn drain_grace_period(&self) -> Duration {
        self.drain_max.mul_f32(0.8)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            letter_bytes_max: 25 * 1024 * 1024,
            line_bytes_max: 64 * 1024,
            header_bytes_max: 256 * 1024,
            command_line_bytes_max: 4096,
            recipients_max: 100,
            connections_max: 1000,
            connections_per_address_max: 100,
            session_errors_max: 20,
            session_duration_max: Duration::from_secs(60 * 60),
            session_idle_max: Duration::from_secs(300),
            handshake_max: Duration::from_secs(30),
            greeting_delay: Duration::from_millis(500),
            letter_bytes_per_second_min: 256,
            login_delay: Duration::from_millis(500),
            login_failures_max: 10,
            open_runs_max: 100_000,
            mime_depth_max: 30,
            mime_parts_max: 500,
            received_headers_max: 50,
            html_bytes_max: 512 * 1024,
            html_depth_max: 512,
            references_max: 200,
            tool_result_bytes_max: 64 * 1024,
            file_bytes_max: 1024 * 1024,
            memory_bytes_max: 16 * 1024,
            attachments_bytes_max: 10 * 1024 * 1024,
            free_disk_bytes_min: 64 * 1024 * 1024,
            replies_per_hour_max: 6,
            replies_per_day_max: 20,
            alternations_max: 10,
            persona_hops_max: 4,
            duplicate_window: Duration::from_secs(7 * 24 * 3600),
            drain_max: Duration::from_secs(10),
        }
    }
}
