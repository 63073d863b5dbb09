//! Files as typed -> settings as meant. Only [`settings`] leaves this folder.

pub mod settings;

pub use settings::{
    Access, Budget, Config, ContextProfile, ContextStep, Gateway, Inference, Limits, ListenerKind, Persona,
    Personas, ProviderSettings, ReplyMode, RetryPolicy, Security, Smarthost, SmarthostTls, SmtpListener,
    Transport, WatchedFolder,
};
