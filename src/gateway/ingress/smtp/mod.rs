//! The mail server: SMTP (RFC 5321) and LMTP (RFC 2033) with PIPELINING, SIZE, 8BITMIME,
//! ENHANCEDSTATUSCODES, STARTTLS and AUTH.
//!
//! `listener` accepts connections on a `socket`; `tls` has our certificate; `proxy` reads the client's address;
//! `connection_limiter` counts connections; `memory` divides the memory for their letters;
//! `session` is the dialogue, with `transaction` and `login` as its parts; `connection` reads lines
//! and batches replies over a `link`; `command`, `data` and `auth` are the grammars; `reply` has
//! every reply.
//!
//! Absent on purpose: CHUNKING (502), since a second way to end a letter is a second way to smuggle
//! one; relaying, for any client. No `Received` field is written in front of a letter: its bytes
//! are stored as they arrived, and the field is stored separately.

mod auth;
mod command;
mod data;
mod link;
mod listener;
mod connection_limiter;
mod login;
mod memory;
mod proxy;
mod reply;
mod session;
mod socket;
mod tls;
mod transaction;
mod connection;

pub use auth::Submitters;
pub use connection_limiter::ConnectionLimiter;
pub use listener::serve;
pub use memory::MemoryShares;
pub use session::{ServerContext, serve_session};
pub use socket::BoundSocket;
pub use tls::{Certificates, Tls, TlsError};

use crate::clock::Clock;
use crate::config::{Gateway, Limits, ListenerKind, MailTls, SmtpListener, TrustedRelay};
use crate::domain::Network;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a listener's sessions.
#[derive(Clone)]
pub struct SmtpSettings {
    pub kind: ListenerKind,
    /// Host name in the greeting and in the reply to EHLO.
    pub host_name: String,
    /// Domain of `RCPT TO:<postmaster>`, the only recipient without one (RFC 5321 section 4.1.1.3).
    pub mail_domain: String,
    pub limits: Limits,
    /// `None`: TLS is not offered.
    pub tls: Option<Tls>,
    /// `None`: AUTH is not offered.
    pub submitters: Option<Arc<Submitters>>,
    /// Proxies that may connect, with a PROXY header; empty: any client may connect, without one.
    pub proxies: Vec<Network>,
    /// Shared by all listeners.
    pub connection_limiter: Arc<ConnectionLimiter>,
}

impl SmtpSettings {
    /// SMTP in plain text, without AUTH and without a proxy.
    pub fn plain(
        host_name: &str,
        mail_domain: &str,
        limits: Limits,
        connection_limiter: Arc<ConnectionLimiter>,
    ) -> Self {
        Self {
            kind: ListenerKind::Smtp,
            host_name: host_name.to_owned(),
            mail_domain: mail_domain.to_owned(),
            limits,
            tls: None,
            submitters: None,
            proxies: Vec::new(),
            connection_limiter,
        }
    }
}

/// Settings that a limiter of connections was built from.
#[derive(PartialEq, Eq)]
struct ConnectionBounds {
    connections: (usize, usize),
    letter_bytes_max: usize,
    logins: (usize, Duration),
    relays: Vec<Network>,
}

impl ConnectionBounds {
    fn new(limits: &Limits, relays: &[Network]) -> Self {
        Self {
            connections: (limits.connections_max, limits.connections_per_address_max),
            letter_bytes_max: limits.letter_bytes_max,
            logins: (limits.login_failures_max, limits.login_delay),
            relays: relays.to_vec(),
        }
    }
}

/// Settings that all listeners share.
pub struct ListenerFactory {
    plain: SmtpSettings,
    certificates: Option<Arc<Certificates>>,
    submitters: Arc<Submitters>,
    bounds: ConnectionBounds,
}

impl ListenerFactory {
    /// Builds the factory. `relays`: networks that forward mail of all senders in any amount.
    /// Errors: the certificate cannot be used.
    pub fn open(
        gateway: &Gateway,
        limits: &Limits,
        relays: &[TrustedRelay],
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, TlsError> {
        let relays: Vec<Network> = relays
            .iter()
            .flat_map(|relay| relay.peers.iter().copied())
            .collect();
        let bounds = ConnectionBounds::new(limits, &relays);
        let shares = MemoryShares::for_letters(limits.letter_bytes_max, relays);
        let connection_limiter = ConnectionLimiter::new(limits, shares, clock.clone());
        let plain = SmtpSettings::plain(
            &gateway.host_name,
            &gateway.mail_domain,
            limits.clone(),
            connection_limiter,
        );
        let load = |files| Certificates::load(files, clock.clone());
        let certificates = gateway.tls.clone().map(load).transpose()?;
        Ok(Self {
            plain,
            certificates,
            submitters: Arc::new(Submitters::new(&gateway.submission)),
            bounds,
        })
    }

    /// Builds the factory of another configuration of the same engine. What has not changed is shared: places of connections,
    /// failed logins, a certificate and its renewals. Errors: the certificate cannot be used.
    pub fn renewed(
        &self,
        gateway: &Gateway,
        limits: &Limits,
        relays: &[TrustedRelay],
    ) -> Result<Self, TlsError> {
        let limiter = &self.plain.connection_limiter;
        let mut renewed = Self::open(
            &Gateway {
                tls: None,
                ..gateway.clone()
            },
            limits,
            relays,
            &limiter.clock,
        )?;
        if renewed.bounds == self.bounds {
            renewed.plain.connection_limiter = limiter.clone();
        }
        renewed.certificates = match (&gateway.tls, &self.certificates) {
            (Some(files), Some(known)) if known.files() == files => Some(known.clone()),
            (files, _) => {
                let load = |files| Certificates::load(files, limiter.clock.clone());
                files.clone().map(load).transpose()?
            }
        };
        Ok(renewed)
    }

    pub fn settings(&self, listener: &SmtpListener) -> SmtpSettings {
        let tls = |is_implicit| {
            self.certificates.clone().map(|certificates| Tls {
                certificates,
                is_implicit,
            })
        };
        SmtpSettings {
            kind: listener.kind,
            tls: match listener.tls {
                MailTls::None => None,
                MailTls::StartTls => tls(false),
                MailTls::Implicit => tls(true),
            },
            submitters: listener.auth.then(|| self.submitters.clone()),
            proxies: listener.proxy_protocol.clone(),
            ..self.plain.clone()
        }
    }
}
