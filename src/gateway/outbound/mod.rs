//! Outgoing mail: claims committed deliveries, passes each to the transport, records the outcome
//! for every recipient.
//!
//! At least once, with a stable Message-ID and equal bytes every time. A second copy can arise only
//! when an error occurred between the end of the data and our commit of the reply, and then the
//! delivery is marked (`possible_duplicate`). SMTP offers nothing stronger (RFC 1047).
//!
//! Absent on purpose: composing mail, signing it, choosing recipients; all of that is final when a
//! delivery is stored.

pub mod retry;
pub mod worker;

mod folder;
mod smtp;

/// Every transport, tried in turn until one matches the settings.
static TRANSPORTS: &[Build] = &[smtp::build, folder::build];

pub use smtp::{Options, SmtpTimeouts, SmtpTransport};
pub use worker::Outbound;

use crate::clock::Clock;
use crate::config::TransportSettings;
use crate::gateway::authentication::certificate_remedy;
use crate::store::{ClaimedDelivery, RecipientState, StoreError};
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Returns `None` when the settings name another transport.
type Build = fn(&Setup<'_>) -> Option<Result<Arc<dyn Transport>, SetupError>>;

/// Arguments for building a transport.
pub struct Setup<'a> {
    pub transport: &'a TransportSettings,
    /// Host name in our EHLO.
    pub host_name: &'a str,
    pub clock: &'a Arc<dyn Clock>,
}

/// Error of a transport that cannot be built; an operator reads it at start.
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
    TRANSPORTS
        .iter()
        .find_map(|build| build(setup))
        .unwrap_or(Err(SetupError::Unknown))
}

/// A transport for outgoing mail.
///
/// Send the final bytes unchanged. Return one verdict for every recipient of the mail. Use a
/// timeout for every wait. Never retry once the peer may have the mail: the worker decides on
/// retries. Log nothing; the caller does.
pub trait Transport: Send + Sync {
    /// Name for display: a host, a folder.
    fn name(&self) -> String;

    /// Maximum concurrent mails; at least 1.
    fn connections_max(&self) -> usize;

    /// Tries to send one mail.
    ///
    /// Passes `point` right before the step after which the peer may have the mail, and stops when
    /// it fails.
    fn send<'a>(
        &'a self,
        mail: &'a ClaimedDelivery,
        point: &'a dyn PointOfNoReturn,
    ) -> BoxFuture<'a, TransportAttempt>;

    /// Goes through all phases that are possible without sending mail, once with each of these
    /// envelope senders.
    fn check<'a>(&'a self, senders: &'a [String]) -> BoxFuture<'a, Result<Checked, Obstacle>>;

    /// Closes connections that were unused for some seconds; `all` closes every unused one.
    fn close_idle(&self, all: bool) -> BoxFuture<'_, ()> {
        let _nothing_is_open = all;
        Box::pin(std::future::ready(()))
    }
}

/// Result of a successful check of the transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Destination, such as host and port.
    pub to: String,
    /// Observations of the check, in order.
    pub seen: Vec<String>,
}

/// Destination, phase and reason of a failed check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    pub to: String,
    pub at: TransportPhase,
    /// Text of the peer, or ours without a reply; bounded, without control characters.
    pub reply: String,
}

impl Obstacle {
    /// Remedy for the operator.
    pub fn remedy(&self) -> &'static str {
        certificate_remedy(&self.reply).unwrap_or_else(|| self.at.remedy())
    }
}

/// Phase that a mail reaches. The remedy depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportPhase {
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

impl TransportPhase {
    /// Remedy for the operator when a check fails in this phase.
    fn remedy(self) -> &'static str {
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

/// The commit after which the peer may have the mail.
pub trait PointOfNoReturn: Send + Sync {
    /// Resolves after the commit. After an error the mail must not be completed.
    fn pass(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportAttempt {
    /// Recipients and verdicts, one for each open recipient of the mail.
    pub verdicts: Vec<(String, RecipientResult)>,
    /// `true`: the peer may have the mail although it did not acknowledge it.
    pub possible_duplicate: bool,
    pub health: TransportCondition,
}

/// Result of one attempt for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientResult {
    /// `Delivered`, `Deferred` or `Failed`.
    pub state: RecipientState,
    /// The peer's reply code, if it replied.
    pub code: Option<u16>,
    /// Text of the peer, or ours without a reply: at most [`REPLY_CHARS_MAX`] characters, no
    /// control characters.
    pub reply: String,
}

/// Health of the transport itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportCondition {
    Well,
    /// No service: no connection, no TLS, no greeting, or 421.
    Unreachable,
    /// The peer refuses our credentials.
    CredentialsRefused,
}

/// Maximum characters of a peer's reply that are stored.
pub const REPLY_CHARS_MAX: usize = 500;

impl TransportAttempt {
    fn same_for_all(mail: &ClaimedDelivery, verdict: &RecipientResult) -> Self {
        let verdicts = mail
            .recipients
            .iter()
            .map(|recipient| (recipient.clone(), verdict.clone()))
            .collect();
        Self {
            verdicts,
            possible_duplicate: false,
            health: TransportCondition::Well,
        }
    }
}

impl RecipientResult {
    pub fn delivered(code: Option<u16>, reply: &str) -> Self {
        Self {
            state: RecipientState::Delivered,
            code,
            reply: printable(reply),
        }
    }
    pub fn deferred(code: Option<u16>, reply: &str) -> Self {
        Self {
            state: RecipientState::Deferred,
            code,
            reply: printable(reply),
        }
    }
    pub fn failed(code: Option<u16>, reply: &str) -> Self {
        Self {
            state: RecipientState::Failed,
            code,
            reply: printable(reply),
        }
    }
}

/// Makes a peer's text fit for a terminal and a column: no control characters, bounded.
fn printable(reply: &str) -> String {
    reply
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(REPLY_CHARS_MAX)
        .collect()
}
