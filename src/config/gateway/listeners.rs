//! `listeners` and `tls` in `configs/gateway.json`: sockets that accept mail. Listeners of pages stand in the same list:
//! `http_listeners`.

use super::submission::{self, Submitter, TypedSubmitter};
use crate::config::file::{Document, below, child};
use crate::config::values::check_context::CheckContext;
use crate::domain::{Address, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
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
    pub(super) tls: Option<TypedListenerTls>,
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

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum TypedListenerTls {
    None,
    StartTls,
    Implicit,
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

/// Typed sections about sockets.
pub struct Sockets<'t> {
    pub listeners: &'t [TypedListener],
    pub tls: Option<&'t TypedCertificate>,
    pub submission: &'t [TypedSubmitter],
}

/// Resolved sections about sockets.
pub struct Resolved {
    pub listeners: Vec<SmtpListener>,
    pub tls: Option<TlsFiles>,
    pub submission: Vec<Submitter>,
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

/// Resolves the sections. Problems go to the context; the result is valid only without problems.
pub fn resolve(
    file: &Document,
    typed: &Sockets<'_>,
    owners: &[Address],
    ctx: &mut CheckContext<'_>,
) -> Resolved {
    let mut listeners: Vec<SmtpListener> = Vec::new();
    for (index, one) in typed.listeners.iter().enumerate() {
        let Some(listener) = resolve_listener(file, index, one, ctx) else {
            continue;
        };
        let pointer = format!("/listeners/{index}");
        let is_taken = listeners
            .iter()
            .any(|other| is_same(&other.address, &listener.address));
        if is_taken {
            let message = format!("`{}` is listened on twice", one.address);
            ctx.complain(file, child(&pointer, "address"), message);
        }
        listeners.push(listener);
    }
    let submission = submission::resolve(file, typed.submission, owners, ctx);
    let is_read = !typed.listeners.is_empty() || !file.has("/listeners");
    if is_read && file.has("/submission") && !typed.listeners.iter().any(|one| one.auth) {
        ctx.report(
            file.problem_at_key(
                "/submission",
                "nobody can log in: no listener has `\"auth\": true`",
            )
            .hint("add it to a listener with TLS, or leave `submission` out"),
        );
    }
    Resolved {
        listeners,
        tls: typed.tls.map(|tls| resolve_tls(file, tls, ctx)),
        submission,
    }
}

/// `None`: its address is no address, or it serves pages.
fn resolve_listener(
    file: &Document,
    position: usize,
    typed: &TypedListener,
    ctx: &mut CheckContext<'_>,
) -> Option<SmtpListener> {
    let kind = match typed.kind {
        TypedListenerKind::Smtp => ListenerKind::Smtp,
        TypedListenerKind::Lmtp => ListenerKind::Lmtp,
        TypedListenerKind::Http => return None,
    };
    let pointer = &format!("/listeners/{position}");
    let address = resolve_address(file, pointer, typed, ctx)?;
    let is_unix = matches!(address, ListenAddress::Unix { .. });
    let has_certificate = file.has("/tls");
    let tls = match typed.tls {
        Some(TypedListenerTls::None) => ListenerTls::None,
        Some(TypedListenerTls::StartTls) => ListenerTls::StartTls,
        Some(TypedListenerTls::Implicit) => ListenerTls::Implicit,
        None if has_certificate && !is_unix => ListenerTls::StartTls,
        None => ListenerTls::None,
    };
    let listener = SmtpListener {
        position,
        kind,
        address,
        tls,
        auth: typed.auth,
        proxy_protocol: resolve_proxies(
            file,
            &child(pointer, "proxy_protocol"),
            typed.proxy_protocol.as_ref(),
            ctx,
        ),
    };
    check_listener(file, pointer, &listener, ctx);
    Some(listener)
}

/// Reports settings of a listener that contradict each other.
fn check_listener(
    file: &Document,
    pointer: &str,
    listener: &SmtpListener,
    ctx: &mut CheckContext<'_>,
) {
    let (has_certificate, has_tls) = (file.has("/tls"), listener.tls != ListenerTls::None);
    let mut complain = |key: &str, message: &str, hint: &str| {
        let problem = file.problem_at(&child(pointer, key), message.to_owned());
        ctx.report(if hint.is_empty() {
            problem
        } else {
            problem.hint(hint)
        });
    };
    for key in ["origins", "proxies"] {
        if file.has(&child(pointer, key)) {
            complain(key, "has a meaning for kind `http` alone", "");
        }
    }
    if has_tls && !has_certificate {
        complain(
            "tls",
            "there is no certificate",
            "name its files in `tls` beside `listeners`",
        );
    }
    if listener.auth && listener.kind == ListenerKind::Lmtp {
        complain("auth", "has no meaning for kind `lmtp`", "");
    } else if listener.auth && !has_tls {
        let hint = match has_certificate {
            true => "set `tls` of this listener to `starttls` or `implicit`",
            false => "name certificate and key in `tls` beside `listeners`",
        };
        complain("auth", "passwords need TLS", hint);
    } else if listener.auth && !file.has("/submission") {
        complain(
            "auth",
            "nobody may log in",
            "name users in `submission` beside `listeners`",
        );
    }
    if matches!(listener.address, ListenAddress::Unix { .. })
        && file.has(&child(pointer, "proxy_protocol"))
    {
        complain("proxy_protocol", "has no meaning for a Unix socket", "");
    }
    if let (ListenerKind::Lmtp, ListenAddress::Tcp(tcp)) = (listener.kind, &listener.address)
        && tcp.port() == 25
    {
        complain(
            "address",
            "LMTP must not stand on port 25",
            "RFC 2033 forbids it; take another, such as 24",
        );
    }
}

pub(super) fn resolve_address(
    file: &Document,
    pointer: &str,
    typed: &TypedListener,
    ctx: &mut CheckContext<'_>,
) -> Option<ListenAddress> {
    let at = child(pointer, "address");
    let Some(path) = typed.address.strip_prefix("unix:") else {
        if file.has(&child(pointer, "mode")) {
            let message = "has no meaning for an IP address";
            ctx.report(file.problem_at_key(&child(pointer, "mode"), message));
        }
        let Ok(address) = typed.address.parse::<SocketAddr>() else {
            ctx.refuse(
                file,
                &at,
                format!("`{}` is not an address to listen on", typed.address),
                "write an IP address and a port, such as `127.0.0.1:2525`, or `unix:PATH`",
            );
            return None;
        };
        return Some(ListenAddress::Tcp(address));
    };
    let whole = below(ctx.workspace, path);
    if path.is_empty() || whole.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        let message = format!(
            "a socket's path has 1 to {SOCKET_PATH_BYTES_MAX} bytes, the workspace's included"
        );
        ctx.complain(file, &at, message);
    }
    let default = match typed.kind {
        TypedListenerKind::Smtp | TypedListenerKind::Lmtp => MAIL_SOCKET_MODE,
        TypedListenerKind::Http => PAGES_SOCKET_MODE,
    };
    let digits = typed.mode.as_deref().unwrap_or(default);
    let mode = u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o777);
    if mode.is_none() {
        ctx.refuse(
            file,
            child(pointer, "mode"),
            format!("`{digits}` are no permissions"),
            "write octal digits, such as `0660`",
        );
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
    file: &Document,
    at: &str,
    typed: Option<&Vec<String>>,
    ctx: &mut CheckContext<'_>,
) -> Vec<Network> {
    if typed.is_some_and(Vec::is_empty) {
        // An empty list would mean "every peer, without a header", which is not the intention of an
        // operator who writes the key.
        ctx.refuse(
            file,
            at,
            "must not be empty",
            "name the proxies, or leave the key out",
        );
    }
    let mut proxies = Vec::new();
    for (index, text) in typed.into_iter().flatten().enumerate() {
        match Network::parse(text) {
            Ok(network) => proxies.push(network),
            Err(error) => {
                ctx.refuse(
                    file,
                    child(at, index),
                    error.to_string(),
                    "write one such as `192.0.2.7` or `2001:db8::/32`",
                );
            }
        }
    }
    proxies
}

fn resolve_tls(file: &Document, typed: &TypedCertificate, ctx: &mut CheckContext<'_>) -> TlsFiles {
    let mut file = |key: &str, typed: &str| {
        let path = below(ctx.workspace, typed);
        if ctx.source.has_world() && !path.is_file() {
            ctx.refuse(file, child("/tls", key), format!("there is no file `{typed}`"), "name the PEM file that the program which renews your certificate writes, or take `tls` out");
        }
        path
    };
    TlsFiles {
        certificate: file("certificate", &typed.certificate),
        key: file("key", &typed.key),
    }
}

/// JSON of the listeners for `attache config show`.
pub fn show(listeners: &[SmtpListener]) -> Vec<Value> {
    let shown = |listener: &SmtpListener| {
        json!({
            "kind": listener.kind.as_str(),
            "address": listener.address.to_string(),
            "mode": listener.address.formatted_mode(),
            "tls": listener.tls.as_str(),
            "auth": listener.auth,
            "proxy_protocol": listener.proxy_protocol.iter().map(Network::to_string).collect::<Vec<_>>(),
        })
    };
    listeners.iter().map(shown).collect()
}
