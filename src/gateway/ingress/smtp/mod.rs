//! The mail server: SMTP (RFC 5321) and LMTP (RFC 2033) with PIPELINING, SIZE, 8BITMIME,
//! ENHANCEDSTATUSCODES, STARTTLS and AUTH.
//!
//! `listener` accepts connections on a `socket`; `proxy` tells whom they are from; `lobby` counts them; `memory` shares
//! out what their letters need; `session` is the dialogue, with `transaction` and `login` as its parts; `wire` reads lines
//! and batches replies over a `link`; `command`, `data` and `auth` are the grammars; `reply` is everything that a peer can
//! ever read.
//!
//! Absent on purpose: CHUNKING (502), since a second way to end a letter is a second way to smuggle one; relaying, for
//! anybody. No `Received` field is written in front of a letter: its bytes are stored as they came, the field beside
//! them.

mod auth;
mod command;
mod data;
mod link;
mod listener;
mod lobby;
mod login;
mod memory;
mod proxy;
mod reply;
mod session;
mod socket;
mod tls;
mod transaction;
mod wire;

pub use auth::Submitters;
pub use listener::serve;
pub use lobby::Lobby;
pub use memory::MemoryShares;
pub use session::{House, converse};
pub use socket::Bound;
pub use tls::{Certificates, Tls, TlsError};

use crate::clock::Clock;
use crate::config::{Gateway, Limits, ListenerKind, ListenerTls, SmtpListener, TrustedRelay};
use crate::domain::Network;
use std::sync::Arc;

/// What a listener's sessions are told.
#[derive(Clone)]
pub struct SmtpSettings {
    pub kind: ListenerKind,
    /// Our name in the greeting and in the answer to EHLO.
    pub host_name: String,
    /// Where `RCPT TO:<postmaster>`, the one address without a domain, is at home (RFC 5321 section 4.1.1.3).
    pub mail_domain: String,
    pub limits: Limits,
    /// `None`: TLS is not offered.
    pub tls: Option<Tls>,
    /// `None`: AUTH is not offered.
    pub submitters: Option<Arc<Submitters>>,
    /// Who may connect, with a PROXY header; empty: everybody, without one.
    pub proxies: Vec<Network>,
    /// Shared by all listeners.
    pub lobby: Arc<Lobby>,
}

impl SmtpSettings {
    /// SMTP in the clear, without AUTH and without a proxy.
    pub fn plain(host_name: &str, mail_domain: &str, limits: Limits, lobby: Arc<Lobby>) -> Self {
        Self {
            kind: ListenerKind::Smtp,
            host_name: host_name.to_owned(),
            mail_domain: mail_domain.to_owned(),
            limits,
            tls: None,
            submitters: None,
            proxies: Vec::new(),
            lobby,
        }
    }
}

/// What all listeners have in common.
pub struct Reception {
    plain: SmtpSettings,
    certificates: Option<Arc<Certificates>>,
    submitters: Arc<Submitters>,
}

impl Reception {
    /// `relays`: who brings the mail of others, whatever its amount. Errors: the certificate cannot be used.
    pub fn open(
        gateway: &Gateway,
        limits: &Limits,
        relays: &[TrustedRelay],
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, TlsError> {
        let relays = relays.iter().flat_map(|relay| relay.peers.iter().copied()).collect();
        let shares = MemoryShares::for_letters(limits.letter_bytes_max, relays);
        let lobby = Lobby::new(limits, shares, clock.clone());
        let plain = SmtpSettings::plain(&gateway.host_name, &gateway.mail_domain, limits.clone(), lobby);
        let load = |files| Certificates::load(files, clock.clone());
        let certificates = gateway.tls.clone().map(load).transpose()?;
        Ok(Self { plain, certificates, submitters: Arc::new(Submitters::new(&gateway.submission)) })
    }

    pub fn settings(&self, listener: &SmtpListener) -> SmtpSettings {
        let tls =
            |is_implicit| self.certificates.clone().map(|certificates| Tls { certificates, is_implicit });
        SmtpSettings {
            kind: listener.kind,
            tls: match listener.tls {
                ListenerTls::None => None,
                ListenerTls::StartTls => tls(false),
                ListenerTls::Implicit => tls(true),
            },
            submitters: listener.auth.then(|| self.submitters.clone()),
            proxies: listener.proxy_protocol.clone(),
            ..self.plain.clone()
        }
    }
}
