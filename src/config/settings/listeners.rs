//! Sockets that accept mail, and the users that may submit there.

use crate::domain::{Address, Network};
use secrecy::SecretString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Protocol of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenerKind {
    #[default]
    Smtp,
    /// LMTP (RFC 2033), for a mail server in front of us.
    Lmtp,
}

impl ListenerKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ListenerKind::Smtp => "smtp",
            ListenerKind::Lmtp => "lmtp",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmtpListener {
    pub kind: ListenerKind,
    pub address: ListenAddress,
    pub tls: ListenerTls,
    /// `true`: offers AUTH, under TLS, to [`Submitter`]s.
    pub auth: bool,
    /// Proxies that may connect and must name the client by the PROXY protocol; empty: clients
    /// connect directly.
    pub proxy_protocol: Vec<Network>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    Unix {
        /// Absolute path.
        path: PathBuf,
        /// Permission bits of the socket file.
        mode: u32,
    },
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerTls {
    None,
    StartTls,
    Implicit,
}

impl ListenerTls {
    pub fn as_str(self) -> &'static str {
        match self {
            ListenerTls::None => "none",
            ListenerTls::StartTls => "starttls",
            ListenerTls::Implicit => "implicit",
        }
    }
}

/// Absolute paths of PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate first, then its intermediate certificates.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// An owner that may log in with AUTH.
#[derive(Debug, Clone)]
pub struct Submitter {
    pub user: String,
    /// One of the owners, on whose behalf the user's letters are submitted.
    pub address: Address,
    pub password: SecretString,
}
