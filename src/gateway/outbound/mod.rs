//! Mail out: claims committed deliveries, hands each to the transport, records what became of every recipient.
//!
//! At least once, with a stable Message-ID and the same bytes every time. A second copy can arise only when something
//! broke between the end of the data and our commit of the answer, and then the delivery says so
//! (`possible_duplicate`). Nothing stronger exists in SMTP (RFC 1047).
//!
//! Absent on purpose: composing mail, signing it, choosing recipients; all of that is frozen when a delivery is stored.

pub mod retry;
pub mod worker;

mod folder;
mod smtp;

/// Every transport, asked in turn which of them the settings mean.
static TRANSPORTS: &[Build] = &[smtp::build, folder::build];

pub use smtp::{Options, SmtpTransport, Timeouts};
pub use worker::Outbound;

use crate::clock::Clock;
use crate::config::settings;
use crate::store::{ClaimedDelivery, RecipientState, StoreError};
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Answers `None` when the settings mean another transport.
type Build = fn(&Setup<'_>) -> Option<Result<Arc<dyn Transport>, SetupError>>;

/// What a transport may be built from.
pub struct Setup<'a> {
    pub transport: &'a settings::Transport,
    /// Our name in EHLO.
    pub host_name: &'a str,
    pub clock: &'a Arc<dyn Clock>,
}

/// Why a transport cannot be built; an operator reads it at start.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("cannot use the outbound folder `{path}`")]
    Folder {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot set up TLS towards `{host}`")]
    Tls {
        host: String,
        #[source]
        source: rustls::Error,
    },
    #[error("`{host}` is not this machine: outbound mail without TLS is for loopback hosts only")]
    ClearText { host: String },
    #[error("no transport knows these settings")]
    Unknown,
}

/// Builds the transport that the settings name.
pub fn transport(setup: &Setup<'_>) -> Result<Arc<dyn Transport>, SetupError> {
    TRANSPORTS.iter().find_map(|build| build(setup)).unwrap_or(Err(SetupError::Unknown))
}

/// One way out for mail.
///
/// Send the frozen bytes as they are. Give a verdict for every recipient of the mail, none of them twice. Bound every
/// wait. Never retry by yourself once the peer may have the mail: when, how often and until when is the worker's
/// affair. Log nothing; the caller does.
pub trait Transport: Send + Sync {
    /// What people call it: a host, a folder.
    fn name(&self) -> String;

    /// Mails that may be on their way at once; at least 1.
    fn connections_max(&self) -> usize;

    /// Tries to hand over one mail.
    ///
    /// Passes `point` right before the step after which the peer may have the mail, and stops when it fails.
    fn send<'a>(
        &'a self,
        mail: &'a ClaimedDelivery,
        point: &'a dyn PointOfNoReturn,
    ) -> BoxFuture<'a, Attempt>;

    /// Goes the way as far as one can without sending anything, once with each of these envelope senders.
    fn check<'a>(&'a self, senders: &'a [String]) -> BoxFuture<'a, Result<Checked, Obstacle>>;

    /// Closes connections that nobody used for some seconds; `all` closes every unused one.
    fn close_idle(&self, all: bool) -> BoxFuture<'_, ()> {
        let _nothing_is_open = all;
        Box::pin(std::future::ready(()))
    }
}

/// A way out that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Where it leads, such as host and port.
    pub to: String,
    /// What was seen on the way, in order.
    pub seen: Vec<String>,
}

/// Where the way out ends, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    pub to: String,
    pub at: Phase,
    /// The peer's words, or ours when it said nothing; bounded, without control characters.
    pub reply: String,
}

/// How far a mail would come. What to do about it depends on this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The folder cannot be written to.
    Folder,
    /// No connection.
    Connect,
    /// Greeting and EHLO.
    Greeting,
    /// STARTTLS or the handshake.
    Tls,
    Login,
    /// MAIL FROM.
    Sender,
}

impl Phase {
    /// What an operator can do about a way out that ends here.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Folder => "make the folder writable, or name another one in `outbound.path`",
            Self::Connect => {
                "see `host` and `port` under `outbound` in configs/gateway.json, and whether a firewall or the provider \
                 of this machine closes that port"
            }
            Self::Greeting => {
                "a server that waits for TLS from the first byte says nothing: `\"tls\": \"implicit\"` is for port 465, \
                 `starttls` for 587"
            }
            Self::Tls => {
                "`host` must be the name in the server's certificate; `\"tls\": \"implicit\"` is for port 465, \
                 `starttls` for 587; SSL_CERT_FILE names an authority of your own"
            }
            Self::Login => {
                "see `user` and its password in `.secrets`; many providers want a password that is made for one program \
                 (an app password)"
            }
            Self::Sender => {
                "the server takes no mail from this address: allow it there as an alias of `user`, or write \
                 `\"bounce_address\": \"plain\"` under `outbound` if it refuses only addresses with `+`"
            }
        }
    }
}

/// The commit that says: from here on the peer may have the mail.
pub trait PointOfNoReturn: Send + Sync {
    /// Resolves after the commit. After an error the mail must not be completed.
    fn pass(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// What one try came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Recipient and verdict, one for each open recipient of the mail.
    pub verdicts: Vec<(String, Verdict)>,
    /// The peer may have the mail although it never said so.
    pub possible_duplicate: bool,
    pub health: Health,
}

/// What one try came to for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// `Delivered`, `Deferred` or `Failed`.
    pub state: RecipientState,
    /// The peer's reply code, when the peer replied.
    pub code: Option<u16>,
    /// The peer's words, or ours when it said nothing: at most [`REPLY_CHARS_MAX`] characters, none of them control.
    pub reply: String,
}

/// How the transport itself is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Well,
    /// No service: no connection, no TLS, no greeting, or 421.
    Unreachable,
    /// The peer wants other credentials than ours.
    CredentialsRefused,
}

/// Characters of a peer's reply that are kept.
pub const REPLY_CHARS_MAX: usize = 500;

impl Attempt {
    fn same_for_all(mail: &ClaimedDelivery, verdict: &Verdict) -> Self {
        let verdicts = mail.recipients.iter().map(|recipient| (recipient.clone(), verdict.clone())).collect();
        Self { verdicts, possible_duplicate: false, health: Health::Well }
    }
}

impl Verdict {
    pub fn delivered(code: Option<u16>, reply: &str) -> Self {
        Self { state: RecipientState::Delivered, code, reply: printable(reply) }
    }
    pub fn deferred(code: Option<u16>, reply: &str) -> Self {
        Self { state: RecipientState::Deferred, code, reply: printable(reply) }
    }
    pub fn failed(code: Option<u16>, reply: &str) -> Self {
        Self { state: RecipientState::Failed, code, reply: printable(reply) }
    }
}

/// A stranger's words, fit for a terminal and a column: no control characters, bounded.
fn printable(reply: &str) -> String {
    reply.chars().map(|c| if c.is_control() { ' ' } else { c }).take(REPLY_CHARS_MAX).collect()
}
