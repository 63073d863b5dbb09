//! A listener of mail: an open socket, with the settings of its sessions.

use super::SmtpSettings;
use crate::config::{Current, ListenAddress};
use crate::gateway::ingress::listen_socket::{Caller, ListenSocket};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// A listener with an open socket, and the settings of its sessions.
pub struct BoundSocket {
    socket: ListenSocket,
    /// Each session takes them once, at its beginning.
    settings: Arc<Current<SmtpSettings>>,
}

impl BoundSocket {
    pub async fn open(address: &ListenAddress, settings: SmtpSettings) -> io::Result<Self> {
        let socket = ListenSocket::open(address).await?;
        let settings = Arc::new(Current::new(Arc::new(settings)));
        Ok(Self { socket, settings })
    }

    /// The address that is bound, in the configuration's syntax.
    pub fn address(&self) -> String {
        self.socket.address()
    }

    /// The bound TCP address; `None` for a Unix socket.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.socket.tcp_address()
    }

    /// Returns the settings of its sessions, which may be replaced.
    pub fn settings(&self) -> &Arc<Current<SmtpSettings>> {
        &self.settings
    }

    pub(super) async fn accept(&self) -> io::Result<Caller> {
        self.socket.accept().await
    }
}
