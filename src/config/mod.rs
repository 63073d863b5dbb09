//! Turns the typed files into resolved settings. Only [`settings`] is used outside this folder.
//!
//! Every file has one module with both stages: `Typed` (serde, `deny_unknown_fields`, `Option`s,
//! the source of its JSON Schema) and `resolve`, which builds the settings. No value falls back
//! silently.

pub mod settings;
mod load;
mod snapshot;
pub mod in_force;
mod check;
mod document;
mod syntax;
mod text_file;
mod problem;
mod gateway;
mod outbound;
mod inference;
mod providers;
mod fallback;
mod budgets;
mod prices;
mod context;
mod security;
mod authentication;
mod globs;
mod persona;
mod limits;
mod mailboxes;
mod listeners;
mod notices;
mod secrets;
mod step;
mod warnings;
mod zones;
mod span;
mod net;
pub mod schema;
mod show;

pub use authentication::{Authentication, ResolverSettings, TrustedRelay};
pub use budgets::{Budgets, PersonaBudget, Spending, dollars, micros_of, spending};
pub use load::{
    NameCatalog, load, load_for_one, load_foreign, load_snapshot, load_with, load_without_secrets,
};
pub use mailboxes::{AfterStored, ImapMailbox, MailboxLogin, MailboxTls, OAuth};
pub use net::may_speak_http;
pub use persona::{BadName, check_name, description, is_untouched};
pub use prices::Prices;
pub use problem::{ConfigErrors, Problem};
pub use settings::{
    AGENT_FOLDER, Access, AgentSettings, BounceAddress, Budget, ChatSwitches, Config,
    ContextProfile, ContextStep, DataCollection, Decision, Effort, Gateway, Inference, Limits,
    ListenAddress, ListenerKind, ListenerTls, Mode, ModelChoice, OnUnknown, OutOfService, Persona,
    Personas, ProviderSettings, ReplyMode, RetryPolicy, Security, Smarthost, SmarthostTls,
    SmtpListener, StructuredOutput, Submitter, Think, Tier, TlsFiles, Transport, WatchedFolder,
    is_protected,
};
pub use show::{effective, show_persona};
pub use snapshot::Snapshot;
pub use span::{Span, spell};
pub use step::PLACEHOLDERS;
pub use zones::zone_hint;
