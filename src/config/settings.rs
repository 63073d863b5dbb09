//! Settings as meant: complete, typed, checked against each other. How they were typed is the loader's affair.

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

/// Everything an engine is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Absolute path of the workspace.
    pub workspace: PathBuf,
    /// This program, absolute, for agents to start once more; empty where the system does not say.
    pub program: PathBuf,
    pub gateway: Gateway,
    pub inference: Inference,
    /// Empty without `configs/prices.json`.
    pub prices: Prices,
    /// Profile name -> steps; `thread` and `responsibility` always exist.
    pub context: BTreeMap<String, ContextProfile>,
    pub security: Security,
    pub limits: Limits,
    pub personas: Personas,
    /// The key that engines share to know each other's mail; `None`: each database has its own.
    pub loop_key: Option<LoopKey>,
    /// What is legal and surely unmeant.
    pub warnings: Vec<Problem>,
    /// The value of everything secret that the configuration names, for taking them out of what is written down.
    pub secrets: Vec<SecretString>,
    /// The files that all this was read from.
    pub snapshot: Arc<Snapshot>,
}

/// `configs/gateway.json`.
#[derive(Debug, Clone)]
pub struct Gateway {
    /// Domain of every persona whose address names none, and of our Message-IDs.
    pub mail_domain: String,
    /// The name in our banner and EHLO.
    pub host_name: String,
    pub owners: Vec<Address>,
    pub listeners: Vec<SmtpListener>,
    /// The certificate that listeners show.
    pub tls: Option<TlsFiles>,
    /// Owners who may log in where a listener offers AUTH.
    pub submission: Vec<Submitter>,
    pub folders: Vec<WatchedFolder>,
    pub mailboxes: Vec<ImapMailbox>,
    /// `None`: nothing can be sent; a mail that should be sent ends the run with `outbound_not_configured`.
    pub outbound: Option<Transport>,
    /// Keys that sign what goes out; none, or at least one for the domain of every persona.
    pub signers: Signers,
    /// Whether the envelope senders of our mail tell which mail comes back.
    pub bounce_address: BounceAddress,
    pub retry: RetryPolicy,
    pub notices: Notices,
}

/// A folder whose `*.eml` files are letters.
#[derive(Debug, Clone)]
pub struct WatchedFolder {
    /// Absolute.
    pub path: PathBuf,
    /// Who gets letters that name no persona in `Delivered-To`, `X-Original-To`, `To` or `Cc`.
    pub fallback: Option<PersonaId>,
    pub poll: Duration,
}

/// The envelope sender of a persona's mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BounceAddress {
    /// `persona+b.TOKEN@domain`: a bounce is known by its recipient and believed.
    #[default]
    Tagged,
    /// The persona's address, for smarthosts that accept no other: bounces are noted and change nothing.
    Plain,
}

#[derive(Debug, Clone)]
pub enum Transport {
    Smarthost(Smarthost),
    /// Writes each mail as an `.eml` file; for demos, tests and air gaps. Absolute path.
    Folder(PathBuf),
}

#[derive(Debug, Clone)]
pub struct Smarthost {
    pub host: String,
    pub port: u16,
    pub tls: SmarthostTls,
    /// User name and password, for AUTH.
    pub credentials: Option<(String, SecretString)>,
    /// Connections that may be open at once.
    pub connections_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmarthostTls {
    /// Plain text; allowed for loopback hosts only.
    None,
    StartTls,
    Implicit,
}

/// When an outbound mail is tried again.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// After this age a recipient fails.
    pub give_up_after: Duration,
    pub on_unknown: OnUnknown,
}

/// What becomes of a mail that the server may have although it never said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnknown {
    /// It is sent again: at least once, at worst twice, and marked.
    #[default]
    Resend,
    /// It is held until somebody decides.
    Hold,
}

/// How the owner is told what went wrong.
#[derive(Debug, Clone)]
pub struct Notices {
    /// In whose name the engine speaks for itself; `None`: the first persona.
    pub persona: Option<PersonaId>,
    /// Least time between two mails about one cause.
    pub interval: Duration,
    /// Age at which a mail that still waits is worth a notice.
    pub delayed_after: Duration,
    /// Least time between two mails about letters to a persona that were filed; zero is never.
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
    /// Whom to ask, in this order, when the provider fails.
    pub fallback: Vec<ModelChoice>,
    /// A refusal is taken to the next of them too.
    pub fallback_on_refusal: bool,
    pub max_output_tokens: u32,
    pub temperature: Option<f32>,
    pub budget: Budget,
    /// What days and months may cost.
    pub budgets: Budgets,
    /// Longest silence of a provider.
    pub idle_timeout: Duration,
    /// Longest provider call.
    pub call_timeout: Duration,
    /// Tries of one provider call inside a run.
    pub call_attempts_max: u32,
    /// Tries of one run before it fails for good.
    pub run_attempts_max: u32,
    /// A wait longer than this parks the run.
    pub inline_wait_max: Duration,
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Runs at once, over all personas.
    pub concurrent_runs_max: usize,
    /// Runs at once of one persona.
    pub concurrent_runs_per_persona_max: usize,
}

/// One provider's block. Which fields matter is the adapter's affair.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// As the configuration calls it, for example `openai` or `compat:groq`.
    pub name: String,
    /// `https`, or `http` for loopback hosts and, with `plain_http`, for private networks.
    pub base_url: Option<String>,
    pub plain_http: bool,
    /// From the environment or `.secrets`, never from a config file.
    pub api_key: Option<SecretString>,
    /// Where the key is looked for; `None`: it needs none.
    pub key_variable: Option<String>,
    /// `scripted`: the answers. Absolute path.
    pub script: Option<PathBuf>,
    /// The dialect of `openai`, `grok`, `openrouter` and `compat:NAME`.
    pub chat: ChatSwitches,
    /// `ollama`: tokens of question and answer together; `None` is the adapter's default.
    pub context_tokens: Option<u32>,
    /// `ollama`: how long the model stays loaded, in the vendor's words.
    pub keep_alive: Option<String>,
    /// `gemini`, `ollama`: `None` leaves it to the model.
    pub think: Option<Think>,
    pub agent: AgentSettings,
}

/// The bounds of one run.
#[derive(Debug, Clone)]
pub struct Budget {
    pub turns_max: u32,
    pub tool_calls_max: u32,
    pub tool_failures_max: u32,
    /// Input and output together, cached ones included.
    pub tokens_max: u64,
    /// Micro-dollars; `None` is no bound.
    pub cost_micros_max: Option<i64>,
    pub duration_max: Duration,
    /// Tokens the assembled context may take.
    pub context_tokens_max: usize,
    pub mails_max: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ContextProfile {
    pub steps: Vec<ContextStep>,
}

/// One step of the pipeline, as a string `name(arg, …)` or an object.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextStep {
    /// Resolver name.
    pub resolver: String,
    /// With `{persona_id}`-style placeholders still in them.
    pub args: Vec<String>,
    pub budget_tokens: Option<usize>,
    /// A required step that contributes nothing fails the run.
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

/// Who may write to personas; `deny` wins over `allow` wins over `default_decision`. Case-insensitive globs.
#[derive(Debug, Clone)]
pub struct Access {
    pub mode: Mode,
    pub default_decision: Decision,
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

/// Whether a rule refuses, or only writes down what it would have refused.
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

/// Every bound that is not a run's. Units end the names.
#[derive(Debug, Clone)]
pub struct Limits {
    pub letter_bytes_max: usize,
    /// RFC 5321 section 4.5.3.1.6 asks for 1,000 octets of text line; mail of real senders has longer ones.
    pub line_bytes_max: usize,
    pub header_bytes_max: usize,
    pub command_line_bytes_max: usize,
    pub recipients_max: usize,
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    pub session_errors_max: usize,
    pub session_duration_max: Duration,
    /// For one command, one silence inside a letter, one batch of replies.
    pub session_idle_max: Duration,
    /// For the PROXY header and for the TLS handshake.
    pub handshake_max: Duration,
    /// A client on another host that speaks before our greeting came is no mail server; it is listened for this long.
    pub greeting_delay: Duration,
    /// A letter that comes slower than this on the whole is cut off; its first `session_idle_max` does not count.
    pub letter_bytes_per_second_min: usize,
    /// What the answer to a first failed login waits; each further one waits twice as long, up to sixteen times.
    pub login_delay: Duration,
    /// Failed logins from one network before it is turned away for a quarter of an hour.
    pub login_failures_max: usize,
    /// Open runs above which letters are refused with 452.
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
    /// Free disk space under which letters are refused with 452.
    pub free_disk_bytes_min: u64,
    /// Automatic mails that a persona may send to one person in an hour, and in a day; verified owners do not count, and what
    /// answers letters that prove nothing is counted apart.
    pub replies_per_hour_max: usize,
    pub replies_per_day_max: usize,
    /// Changes of direction that a thread may see in a day without a letter of a verified owner.
    pub alternations_max: usize,
    /// Mails in a row that personas may write to each other.
    pub persona_hops_max: usize,
    /// A letter seen again within this time is the same letter.
    pub duplicate_window: Duration,
    /// Time from SIGTERM to the end of the process.
    pub drain_max: Duration,
}

impl Limits {
    /// Time for running work to end after SIGTERM. The rest of `drain_max` is for putting back what did not, and for
    /// closing the database.
    pub fn drain_patience(&self) -> Duration {
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
