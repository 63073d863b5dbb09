//! `listeners` and `tls` in `configs/gateway.json`: sockets that accept mail. Listeners of pages stand in the same list:
//! `http_listeners`.

use crate::config::values::net::MailTls;
use crate::config::values::section::*;
use crate::domain::Network;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Maximum bytes of a socket's path: the size of `sockaddr_un` on Linux minus the terminating NUL
/// and the suffix of a temporary name.
const SOCKET_PATH_BYTES_MAX: usize = 102;
/// Default mode of a socket for mail: for the user and the group, which the mail server in front may share; for no other
/// user.
const MAIL_SOCKET_MODE: &str = "0660";
/// Default mode of a socket for pages: whoever may connect may try codes and keys.
const PAGES_SOCKET_MODE: &str = "0600";

/// A socket that accepts mail, or serves the pages.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedListener {
    /// Protocol: `smtp`, `lmtp` or `http`.
    #[serde(default)]
    pub(super) kind: TypedListenerKind,
    /// IP address and port, such as `127.0.0.1:2525` or `[::1]:2525`, or `unix:` and a path
    /// relative to the workspace.
    pub(super) address: String,
    /// Permissions of a Unix socket, in octal digits. Default: 0660, and 0600 for kind `http`.
    mode: Option<String>,
    /// TLS mode. Default: `starttls` with a certificate, `none` on Unix sockets, without a
    /// certificate and for kind `http`.
    pub(super) tls: Option<MailTls>,
    /// Offer AUTH, under TLS, to the users in `submission`.
    #[serde(default)]
    auth: bool,
    /// Addresses or networks that may connect; each connection must begin with a PROXY protocol v2
    /// header.
    proxy_protocol: Option<Vec<String>>,
    /// Kind `http`: addresses by which browsers reach the pages through a proxy or by a name, such as
    /// `https://attache.example.org`. Without them a Unix socket answers to `http://localhost` alone.
    pub(super) origins: Option<Vec<String>>,
    /// Kind `http`: addresses or networks of the proxies in front, which alone may connect; on a Unix socket `unix:`, when
    /// it is a proxy that connects.
    pub(super) proxies: Option<Vec<String>>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TypedListenerKind {
    #[default]
    Smtp,
    /// LMTP (RFC 2033), for a mail server in front.
    Lmtp,
    /// The pages and the API.
    Http,
}

/// The certificate of the listeners.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedCertificate {
    /// PEM file, relative to the workspace: the certificate, then its intermediate certificates.
    #[schemars(length(min = 1))]
    certificate: String,
    /// PEM file of its private key, relative to the workspace.
    #[schemars(length(min = 1))]
    key: String,
}

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
    /// Position in `listeners`, counted from 0.
    pub position: usize,
    pub kind: ListenerKind,
    pub address: ListenAddress,
    pub tls: MailTls,
    /// `true`: offers AUTH, under TLS, to users of `submission`.
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

impl ListenAddress {
    /// Reports whether only programs of this machine reach it.
    pub fn is_of_this_machine(&self) -> bool {
        match self {
            ListenAddress::Tcp(address) => address.ip().is_loopback(),
            ListenAddress::Unix { .. } => true,
        }
    }

    /// Returns the permissions of a socket's file, in octal digits.
    pub(super) fn formatted_mode(&self) -> Option<String> {
        match self {
            ListenAddress::Tcp(_) => None,
            ListenAddress::Unix { mode, .. } => Some(format!("{mode:04o}")),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Absolute paths of PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsFiles {
    /// The certificate first, then its intermediate certificates.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Resolves the listeners for mail. Problems go to the context; the result is valid only without problems.
pub fn resolve(typed: &[TypedListener], place: &mut CheckPlace<'_, '_>) -> Vec<SmtpListener> {
    let mut listeners: Vec<SmtpListener> = Vec::new();
    for (position, one) in typed.iter().enumerate() {
        let place = &mut place.under(position);
        let Some(listener) = resolve_listener(position, one, place) else {
            continue;
        };
        let mut others = listeners.iter();
        if others.any(|other| is_same(&other.address, &listener.address)) {
            place.complain("address", format!("`{}` is listened on twice", one.address));
        }
        listeners.push(listener);
    }
    listeners
}

/// Reports users that may log in nowhere. `place` is the file.
pub fn check_submission(typed: &[TypedListener], place: &mut CheckPlace<'_, '_>) {
    let is_read = !typed.is_empty() || !place.has("listeners");
    if is_read && place.has("submission") && !typed.iter().any(|one| one.auth) {
        place.refuse_key(
            "submission",
            "nobody can log in: no listener has `\"auth\": true`",
            "add it to a listener with TLS, or leave `submission` out",
        );
    }
}

/// `None`: its address is no address, or it serves pages.
fn resolve_listener(
    position: usize,
    typed: &TypedListener,
    place: &mut CheckPlace<'_, '_>,
) -> Option<SmtpListener> {
    let kind = match typed.kind {
        TypedListenerKind::Smtp => ListenerKind::Smtp,
        TypedListenerKind::Lmtp => ListenerKind::Lmtp,
        TypedListenerKind::Http => return None,
    };
    let address = resolve_address(typed, place)?;
    let is_unix = matches!(address, ListenAddress::Unix { .. });
    let has_certificate = place.file.has("/tls");
    let tls = typed.tls.unwrap_or(match has_certificate && !is_unix {
        true => MailTls::StartTls,
        false => MailTls::None,
    });
    let (auth, has_tls) = (typed.auth, tls != MailTls::None);
    let proxy_protocol = typed.proxy_protocol.as_deref();
    let proxy_protocol = resolve_proxies("proxy_protocol", proxy_protocol, place);
    for key in ["origins", "proxies"] {
        if place.has(key) {
            place.complain(key, "has a meaning for kind `http` alone");
        }
    }
    if has_tls && !has_certificate {
        let hint = "name its files in `tls` beside `listeners`";
        place.refuse("tls", "there is no certificate", hint);
    }
    if auth && kind == ListenerKind::Lmtp {
        place.complain("auth", "has no meaning for kind `lmtp`");
    } else if auth && !has_tls {
        let hint = match has_certificate {
            true => "set `tls` of this listener to `starttls` or `implicit`",
            false => "name certificate and key in `tls` beside `listeners`",
        };
        place.refuse("auth", "passwords need TLS", hint);
    } else if auth && !place.file.has("/submission") {
        let hint = "name users in `submission` beside `listeners`";
        place.refuse("auth", "nobody may log in", hint);
    }
    if is_unix && place.has("proxy_protocol") {
        place.complain("proxy_protocol", "has no meaning for a Unix socket");
    }
    if let (ListenerKind::Lmtp, ListenAddress::Tcp(tcp)) = (kind, &address)
        && tcp.port() == 25
    {
        place.refuse(
            "address",
            "LMTP must not stand on port 25",
            "RFC 2033 forbids it; take another, such as 24",
        );
    }
    Some(SmtpListener {
        position,
        kind,
        address,
        tls,
        auth,
        proxy_protocol,
    })
}

pub(super) fn resolve_address(
    typed: &TypedListener,
    place: &mut CheckPlace<'_, '_>,
) -> Option<ListenAddress> {
    let Some(path) = typed.address.strip_prefix("unix:") else {
        if place.has("mode") {
            place.refuse_key("mode", "has no meaning for an IP address", "");
        }
        let address = typed.address.parse();
        if address.is_err() {
            place.refuse(
                "address",
                format!("`{}` is not an address to listen on", typed.address),
                "write an IP address and a port, such as `127.0.0.1:2525`, or `unix:PATH`",
            );
        }
        return address.ok().map(ListenAddress::Tcp);
    };
    let whole = below(place.ctx.workspace, path);
    if path.is_empty() || whole.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        let message = format!(
            "a socket's path has 1 to {SOCKET_PATH_BYTES_MAX} bytes, the workspace's included"
        );
        place.complain("address", message);
    }
    let default = match typed.kind {
        TypedListenerKind::Smtp | TypedListenerKind::Lmtp => MAIL_SOCKET_MODE,
        TypedListenerKind::Http => PAGES_SOCKET_MODE,
    };
    let digits = typed.mode.as_deref().unwrap_or(default);
    let mode = u32::from_str_radix(digits, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o777);
    if mode.is_none() {
        let message = format!("`{digits}` are no permissions");
        place.refuse("mode", message, "write octal digits, such as `0660`");
    }
    Some(ListenAddress::Unix {
        path: whole,
        mode: mode?,
    })
}

/// Compares addresses; port 0 is a different port each time.
pub(super) fn is_same(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::Tcp(one), ListenAddress::Tcp(other)) => one == other && one.port() != 0,
        (ListenAddress::Unix { path: one, .. }, ListenAddress::Unix { path: other, .. }) => {
            one == other
        }
        _ => false,
    }
}

pub(super) fn resolve_proxies(
    key: &str,
    typed: Option<&[String]>,
    place: &mut CheckPlace<'_, '_>,
) -> Vec<Network> {
    if typed.is_some_and(<[_]>::is_empty) {
        // An empty list would mean "every peer, without a header", which is not the intention of an
        // operator who writes the key.
        let hint = "name the proxies, or leave the key out";
        place.refuse(key, "must not be empty", hint);
    }
    place.each(key, typed.unwrap_or_default(), |text| {
        let hint = "write one such as `192.0.2.7` or `2001:db8::/32`";
        Network::parse(text).map_err(|error| (error.to_string(), hint.to_owned()))
    })
}

pub fn resolve_tls(typed: &TypedCertificate, place: &mut CheckPlace<'_, '_>) -> TlsFiles {
    let mut file = |key: &str, typed: &str| {
        let path = below(place.ctx.workspace, typed);
        if place.ctx.source.has_world() && !path.is_file() {
            place.refuse(
                key,
                format!("there is no file `{typed}`"),
                "name the PEM file that the program which renews your certificate writes, or take `tls` out",
            );
        }
        path
    };
    TlsFiles {
        certificate: file("certificate", &typed.certificate),
        key: file("key", &typed.key),
    }
}

/// JSON of a listener for `attache config show`.
pub fn show(listener: &SmtpListener) -> Value {
    let address = &listener.address;
    json!({
        "kind": listener.kind.as_str(),
        "address": address.to_string(),
        "mode": address.formatted_mode(),
        "tls": listener.tls,
        "auth": listener.auth,
        "proxy_protocol": texts(&listener.proxy_protocol),
    })
}
