//! `listeners`, `tls` and `submission` in `configs/gateway.json`: sockets that accept mail, and the
//! users that may log in there.

use crate::config::file::{Document, below, child};
use crate::config::values::check_context::CheckContext;
use crate::domain::{Address, Network};
use schemars::JsonSchema;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Maximum bytes of a socket's path: the size of `sockaddr_un` on Linux minus the terminating NUL
/// and the suffix of a temporary name.
const SOCKET_PATH_BYTES_MAX: usize = 102;
/// Default mode: for the user and the group, which the mail server in front may share; for no other
/// user.
const SOCKET_MODE: &str = "0660";

/// A socket that accepts mail.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedListener {
    /// Protocol: `smtp` or `lmtp`.
    #[serde(default)]
    kind: TypedListenerKind,
    /// IP address and port, such as `127.0.0.1:2525` or `[::1]:2525`, or `unix:` and a path
    /// relative to the workspace.
    address: String,
    /// Permissions of a Unix socket, in octal digits. Default: 0660.
    mode: Option<String>,
    /// TLS mode. Default: `starttls` with a certificate, `none` on Unix sockets and without a
    /// certificate.
    tls: Option<TypedListenerTls>,
    /// Offer AUTH, under TLS, to the users in `submission`.
    #[serde(default)]
    auth: bool,
    /// Addresses or networks that may connect; each connection must begin with a PROXY protocol v2
    /// header.
    proxy_protocol: Option<Vec<String>>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypedListenerKind {
    #[default]
    Smtp,
    /// LMTP (RFC 2033), for a mail server in front.
    Lmtp,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedListenerTls {
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

/// An owner that may log in with AUTH.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedSubmitter {
    /// User name of at most 255 bytes.
    #[schemars(length(min = 1, max = 255))]
    user: String,
    /// One of `owners`.
    address: String,
    /// The variable, in the environment or in `.secrets`, that holds the password.
    #[schemars(length(min = 1))]
    pub password_variable: String,
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

/// Resolves the sections. Problems go to the context; the result is valid only without problems.
pub fn resolve(
    file: &Document,
    typed: &Sockets<'_>,
    owners: &[Address],
    ctx: &mut CheckContext<'_>,
) -> Resolved {
    let mut listeners: Vec<SmtpListener> = Vec::new();
    for (index, one) in typed.listeners.iter().enumerate() {
        let pointer = format!("/listeners/{index}");
        let Some(listener) = resolve_listener(file, &pointer, one, ctx) else {
            continue;
        };
        let is_taken = listeners
            .iter()
            .any(|other| is_same(&other.address, &listener.address));
        if is_taken {
            let message = format!("`{}` is listened on twice", one.address);
            ctx.report(file.problem_at(&child(&pointer, "address"), message));
        }
        listeners.push(listener);
    }
    let submission = resolve_submission(file, typed.submission, owners, ctx);
    let is_read = !typed.listeners.is_empty() || !file.has("/listeners");
    if is_read && file.has("/submission") && !typed.listeners.iter().any(|one| one.auth) {
        let problem = file.problem_at_key(
            "/submission",
            "nobody can log in: no listener has `\"auth\": true`",
        );
        ctx.report(problem.hint("add it to a listener with TLS, or leave `submission` out"));
    }
    Resolved {
        listeners,
        tls: typed.tls.map(|tls| resolve_tls(file, tls, ctx)),
        submission,
    }
}

fn resolve_listener(
    file: &Document,
    pointer: &str,
    typed: &TypedListener,
    ctx: &mut CheckContext<'_>,
) -> Option<SmtpListener> {
    let address = resolve_address(file, pointer, typed, ctx)?;
    let is_unix = matches!(address, ListenAddress::Unix { .. });
    let kind = match typed.kind {
        TypedListenerKind::Smtp => ListenerKind::Smtp,
        TypedListenerKind::Lmtp => ListenerKind::Lmtp,
    };
    let has_certificate = file.has("/tls");
    let tls = match typed.tls {
        Some(TypedListenerTls::None) => ListenerTls::None,
        Some(TypedListenerTls::StartTls) => ListenerTls::StartTls,
        Some(TypedListenerTls::Implicit) => ListenerTls::Implicit,
        None if has_certificate && !is_unix => ListenerTls::StartTls,
        None => ListenerTls::None,
    };
    let listener = SmtpListener {
        kind,
        address,
        tls,
        auth: typed.auth,
        proxy_protocol: resolve_proxies(file, pointer, typed, ctx),
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

fn resolve_address(
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
            let problem = file.problem_at(
                &at,
                format!("`{}` is not an address to listen on", typed.address),
            );
            ctx.report(
                problem.hint(
                    "write an IP address and a port, such as `127.0.0.1:2525`, or `unix:PATH`",
                ),
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
        ctx.report(file.problem_at(&at, message));
    }
    let digits = typed.mode.as_deref().unwrap_or(SOCKET_MODE);
    let mode = u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o777);
    if mode.is_none() {
        let problem = file.problem_at(
            &child(pointer, "mode"),
            format!("`{digits}` are no permissions"),
        );
        ctx.report(problem.hint("write octal digits, such as `0660`"));
    }
    Some(ListenAddress::Unix {
        path: whole,
        mode: mode?,
    })
}

/// Compares addresses; port 0 is a different port each time.
fn is_same(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::Tcp(one), ListenAddress::Tcp(other)) => one == other && one.port() != 0,
        (ListenAddress::Unix { path: one, .. }, ListenAddress::Unix { path: other, .. }) => {
            one == other
        }
        _ => false,
    }
}

fn resolve_proxies(
    file: &Document,
    pointer: &str,
    typed: &TypedListener,
    ctx: &mut CheckContext<'_>,
) -> Vec<Network> {
    let at = child(pointer, "proxy_protocol");
    if typed.proxy_protocol.as_ref().is_some_and(Vec::is_empty) {
        // An empty list would mean "every peer, without a header", which is not the intention of an
        // operator who writes the key.
        ctx.report(
            file.problem_at(&at, "must not be empty")
                .hint("name the proxies, or leave the key out"),
        );
    }
    let mut proxies = Vec::new();
    for (index, text) in typed.proxy_protocol.iter().flatten().enumerate() {
        match Network::parse(text) {
            Ok(network) => proxies.push(network),
            Err(error) => {
                let problem = file.problem_at(&child(&at, index), error.to_string());
                ctx.report(problem.hint("write one such as `192.0.2.7` or `2001:db8::/32`"));
            }
        }
    }
    proxies
}

fn resolve_tls(file: &Document, typed: &TypedCertificate, ctx: &mut CheckContext<'_>) -> TlsFiles {
    let mut file = |key: &str, typed: &str| {
        let path = below(ctx.workspace, typed);
        if ctx.source.has_world() && !path.is_file() {
            ctx.report(file.problem_at(&child("/tls", key), format!("there is no file `{typed}`")));
        }
        path
    };
    TlsFiles {
        certificate: file("certificate", &typed.certificate),
        key: file("key", &typed.key),
    }
}

fn resolve_submission(
    file: &Document,
    typed: &[TypedSubmitter],
    owners: &[Address],
    ctx: &mut CheckContext<'_>,
) -> Vec<Submitter> {
    let mut submission: Vec<Submitter> = Vec::new();
    for (index, one) in typed.iter().enumerate() {
        let pointer = format!("/submission/{index}");
        if submission.iter().any(|other| other.user == one.user) {
            ctx.report(file.problem_at(
                &child(&pointer, "user"),
                format!("`{}` is named twice", one.user),
            ));
        }
        let address = Address::parse(&one.address).ok();
        let owner =
            address.and_then(|address| owners.iter().find(|owner| owner.key() == address.key()));
        if owner.is_none() {
            let problem = file.problem_at(
                &child(&pointer, "address"),
                format!("`{}` is no owner", one.address),
            );
            ctx.report(problem.hint("only addresses in `owners` may log in"));
        }
        let password = ctx.secrets.get(&one.password_variable);
        if password
            .as_ref()
            .is_none_or(|password| password.expose_secret().is_empty())
        {
            let variable = &one.password_variable;
            let message = format!("this user's password is not in `{variable}`");
            let problem = file.problem_at(&child(&pointer, "password_variable"), message);
            ctx.report(problem.hint(format!(
                "set {variable} in the environment or in `.secrets`"
            )));
        }
        let user = one.user.clone();
        submission.extend(
            owner
                .cloned()
                .zip(password)
                .map(|(address, password)| Submitter {
                    user,
                    address,
                    password,
                }),
        );
    }
    submission
}

/// JSON of the listeners for `attache config show`.
pub fn show(listeners: &[SmtpListener]) -> Vec<Value> {
    let shown = |listener: &SmtpListener| {
        let mode = match &listener.address {
            ListenAddress::Tcp(_) => None,
            ListenAddress::Unix { mode, .. } => Some(format!("{mode:04o}")),
        };
        json!({
            "kind": listener.kind.as_str(),
            "address": listener.address.to_string(),
            "mode": mode,
            "tls": listener.tls.as_str(),
            "auth": listener.auth,
            "proxy_protocol": listener.proxy_protocol.iter().map(Network::to_string).collect::<Vec<_>>(),
        })
    };
    listeners.iter().map(shown).collect()
}

/// JSON of the submission users, without their passwords.
pub fn show_submission(submission: &[Submitter]) -> Vec<Value> {
    let shown = |one: &Submitter| json!({"user": one.user, "address": one.address.to_string(), "password": "[set]"});
    submission.iter().map(shown).collect()
}
