//! Why a mailbox cannot be attended to now, in words for its operator.

use super::token::TokenError;
use crate::gateway::vouching::why_no_tls;
use crate::store::{StoreError, TroubleCause};
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    #[error("cannot reach the server")]
    Unreachable(#[source] io::Error),
    #[error("cannot speak TLS with the server: {}", why_no_tls(.0))]
    Tls(io::Error),
    #[error("the connection was lost")]
    Lost(#[source] Option<io::Error>),
    /// A step took longer than it may.
    #[error("the server fell silent")]
    Silent,
    #[error("the server hung up: {0}")]
    Bye(String),
    /// What it sent is not IMAP.
    #[error("the server sends what cannot be read")]
    Garbled,
    #[error("an answer of the server is longer than any letter that is taken")]
    TooMuch,
    #[error("the server refuses `{command}`: {text}")]
    Refused { command: &'static str, text: String, try_create: bool },
    #[error("the server refuses the login: {0}")]
    LoginRefused(String),
    #[error("there is no access token")]
    Token(#[from] TokenError),
    /// The server lacks something that we cannot do without.
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
    /// Nothing will change until a person acts, and servers lock accounts that knock too often.
    pub fn is_login_refused(&self) -> bool {
        matches!(self, Self::LoginRefused(_) | Self::Token(TokenError::Refused { .. }))
    }

    /// Who can end it.
    pub fn cause(&self) -> TroubleCause {
        match self {
            _ if self.is_login_refused() => TroubleCause::Login,
            Self::NotStored(_) | Self::NoRoom | Self::Unverifiable | Self::OutOfService => {
                TroubleCause::Ourselves
            }
            _ => TroubleCause::Server,
        }
    }

    /// The whole chain on one line.
    pub fn in_words(&self) -> String {
        let mut words = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            words = format!("{words}: {next}");
            cause = next.source();
        }
        words
    }
}

/// What a server says, as one short line: it goes to a terminal and into the log.
pub(super) fn server_text(text: Option<&str>) -> String {
    const CHARS_MAX: usize = 200;
    let text = text.unwrap_or("(no reason given)").trim();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARS_MAX).collect()
}
