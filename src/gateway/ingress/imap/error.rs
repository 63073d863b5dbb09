//! Errors of a mailbox session, worded for its operator.

use crate::gateway::authentication::{certificate_remedy, why_no_tls};
use crate::store::{FailureCause, StoreError};
use crate::text::with_causes;
use crate::web::NoTokens;
use std::io;

/// Remedy where the two may not mean the same TLS.
const WRONG_TLS: &str = "see host, port and TLS: `implicit` is for port 993, `starttls` for 143";

#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    #[error("cannot reach the server")]
    Unreachable(#[source] io::Error),
    #[error("cannot speak TLS with the server: {}", why_no_tls(.0))]
    Tls(io::Error),
    #[error("the connection was lost")]
    Lost(#[source] Option<io::Error>),
    /// A step exceeded its timeout.
    #[error("the server fell silent")]
    Silent,
    #[error("the server hung up: {0}")]
    Bye(String),
    /// Received bytes are not IMAP.
    #[error("the server sends what cannot be read")]
    Garbled,
    #[error("an answer of the server is longer than any letter that is taken")]
    TooMuch,
    #[error("the server refuses `{command}`: {text}")]
    Refused {
        command: &'static str,
        text: String,
        try_create: bool,
    },
    #[error("the server refuses the login: {0}")]
    LoginRefused(String),
    #[error("there is no access token")]
    Token(#[from] NoTokens),
    /// The server lacks a feature that is required.
    #[error("{0}")]
    Unusable(&'static str),
    #[error("letters cannot be stored now")]
    NotStored(#[from] StoreError),
    #[error("who sent a letter cannot be found out now")]
    Unverifiable,
    #[error("a letter is for a persona that is out of service")]
    OutOfService,
    #[error("there is no room for another letter")]
    NoRoom,
}

impl MailboxError {
    /// Reports whether the login was refused. Retries are then spaced further, because only an
    /// operator can change it and servers lock accounts after frequent failed logins.
    pub fn is_login_refused(&self) -> bool {
        matches!(
            self,
            Self::LoginRefused(_) | Self::Token(NoTokens::Refused(_))
        )
    }

    /// Party that can end the failure.
    pub fn cause(&self) -> FailureCause {
        match self {
            _ if self.is_login_refused() => FailureCause::Login,
            Self::NotStored(_) | Self::NoRoom | Self::Unverifiable | Self::OutOfService => {
                FailureCause::Ourselves
            }
            _ => FailureCause::Server,
        }
    }

    /// Remedy for the operator.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::LoginRefused(_) | Self::Token(NoTokens::Refused(_)) => {
                "see user and password; many providers want a password that is made for one program (an app password)"
            }
            Self::Unreachable(_) => {
                "see host and port, and whether a firewall or the provider of this machine closes that port"
            }
            Self::Tls(error) => certificate_remedy(&why_no_tls(error)).unwrap_or(WRONG_TLS),
            Self::Silent | Self::Lost(_) | Self::Garbled => WRONG_TLS,
            Self::Token(_) => "see `oauth` of the mailbox, and its tokens",
            Self::Bye(_) | Self::Refused { .. } | Self::TooMuch | Self::Unusable(_) => {
                "see host, user and folder, and what the server says"
            }
            Self::NotStored(_) | Self::NoRoom | Self::Unverifiable | Self::OutOfService => {
                "`attache doctor` looks the workspace over"
            }
        }
    }

    /// The whole error chain on one line.
    pub fn in_words(&self) -> String {
        with_causes(self)
    }
}

/// A server's text as one short line: it goes to a terminal and into the log.
pub(super) fn server_text(text: Option<&str>) -> String {
    const CHARS_MAX: usize = 200;
    let text = text.unwrap_or("(no reason given)").trim();
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(CHARS_MAX)
        .collect()
}
