//! Files as typed -> settings as meant. Only [`settings`] leaves this folder.

mod load;
mod problem;
pub mod settings;

pub use load::{Vocabulary, load};
pub use problem::{ConfigErrors, Problem};
pub use settings::{
    Access, Budget, Config, ContextProfile, ContextStep, Gateway, Inference, Limits, ListenerKind, Persona,
    Personas, ProviderSettings, ReplyMode, RetryPolicy, Security, Smarthost, SmarthostTls, SmtpListener,
    Transport, WatchedFolder,
};
