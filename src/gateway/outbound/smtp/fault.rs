//! Replies of the smarthost and the faults of a phase: what lettre returns, sorted by what is still
//! usable afterwards (connection, credentials, service).

use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::response::Response;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Reply of the server, or our text without a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerReply {
    pub code: Option<u16>,
    pub text: String,
}

impl fmt::Display for ServerReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{code} {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// Error of a phase that did not end with the expected reply.
#[derive(Debug)]
pub(super) enum SmtpFault {
    /// 4xx or 5xx to this command; the connection stays usable.
    Refused(ServerReply),
    /// No service: no connection, no TLS, no greeting, 421.
    Unavailable(ServerReply),
    /// The server refuses our credentials.
    Credentials(ServerReply),
    /// Connection lost, timeout of a reply, or a reply that cannot be parsed.
    Broken(ServerReply),
}

impl SmtpFault {
    pub fn reply(&self) -> &ServerReply {
        match self {
            Self::Refused(reply)
            | Self::Unavailable(reply)
            | Self::Credentials(reply)
            | Self::Broken(reply) => reply,
        }
    }
    pub fn broken(text: impl Into<String>) -> Self {
        Self::Broken(ServerReply {
            code: None,
            text: text.into(),
        })
    }
    /// Turns a fault before the first mail into one of the service, whatever its code.
    pub fn into_unavailable(self) -> Self {
        match self {
            Self::Refused(reply) | Self::Broken(reply) => Self::Unavailable(reply),
            other => other,
        }
    }
}

impl From<SmtpError> for SmtpFault {
    fn from(error: SmtpError) -> Self {
        let Some(code) = error.status().map(u16::from) else {
            return Self::broken(error.to_string());
        };
        let text = error.source().map(ToString::to_string).unwrap_or_default();
        let reply = ServerReply {
            code: Some(code),
            text,
        };
        match code {
            421 => Self::Unavailable(reply),
            // RFC 4954 section 6: both concern our authentication, after any command.
            530 | 535 => Self::Credentials(reply),
            _ => Self::Refused(reply),
        }
    }
}

impl From<Response> for ServerReply {
    fn from(response: Response) -> Self {
        let text = response.message().collect::<Vec<_>>().join(" ");
        Self {
            code: Some(response.code().into()),
            text,
        }
    }
}

/// Fault of a reply that the phase does not expect.
pub(super) fn unexpected(response: Response) -> SmtpFault {
    let reply = ServerReply::from(response);
    SmtpFault::broken(format!(
        "unexpected reply: {} {}",
        reply.code.unwrap_or_default(),
        reply.text
    ))
}

pub(super) fn too_slow(limit: Duration) -> SmtpFault {
    SmtpFault::broken(format!("no reply within {limit:?}"))
}
