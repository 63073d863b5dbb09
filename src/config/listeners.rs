//! `listeners`, `tls` and `submission` in `configs/gateway.json`: sockets that take mail, and who may log in there.

use super::check::Page;
use super::document::child;
use super::gateway::{self, below};
use super::load::Desk;
use super::settings::{ListenAddress, ListenerKind, ListenerTls, SmtpListener, Submitter, TlsFiles};
use crate::domain::{Address, Network};
use schemars::JsonSchema;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Longest path of a socket: what `sockaddr_un` holds on Linux, less its end mark and what a name in the making adds.
const SOCKET_PATH_BYTES_MAX: usize = 102;
/// For the mail server in front and for us, if we share a group; for nobody else.
const SOCKET_MODE: &str = "0660";

/// A socket that takes mail.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    #[serde(default)]
    kind: TypedKind,
    /// IP address and port, such as `127.0.0.1:2525` or `[::1]:2525`, or `unix:` and a path relative to the workspace.
    address: String,
    /// Permissions of a Unix socket, in octal digits. Default: 0660.
    mode: Option<String>,
    /// Default: `starttls` where there is a certificate, `none` on Unix sockets and without one.
    tls: Option<TypedMode>,
    /// Offer AUTH, under TLS, to those in `submission`. Default: false.
    auth: Option<bool>,
    /// Addresses or networks that may connect, and begin each connection with a PROXY protocol v2 header.
    proxy_protocol: Option<Vec<String>>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypedKind {
    #[default]
    Smtp,
    /// RFC 2033, for a mail server in front.
    Lmtp,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedMode {
    None,
    StartTls,
    Implicit,
}

/// The certificate that listeners show.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedTls {
    /// PEM file, relative to the workspace: our certificate, then those that vouch for it.
    #[schemars(length(min = 1))]
    certificate: String,
    /// PEM file of its private key, relative to the workspace.
    #[schemars(length(min = 1))]
    key: String,
}

/// An owner who may log in with AUTH.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedSubmitter {
    #[schemars(length(min = 1, max = 255))]
    user: String,
    /// One of `owners`.
    address: String,
    /// The variable, in the environment or in `.secrets`, that holds the password.
    #[schemars(length(min = 1))]
    pub password_variable: String,
}

/// What the file says of sockets.
pub struct Sockets<'t> {
    pub listeners: &'t [Typed],
    pub tls: Option<&'t TypedTls>,
    pub submission: &'t [TypedSubmitter],
}

/// What it means.
pub struct Settled {
    pub listeners: Vec<SmtpListener>,
    pub tls: Option<TlsFiles>,
    pub submission: Vec<Submitter>,
}

type GatewayPage = Page<gateway::Typed>;

/// Problems go to the desk; the result counts only if there were none.
pub fn settle(page: &GatewayPage, typed: &Sockets<'_>, owners: &[Address], desk: &mut Desk<'_>) -> Settled {
    let mut listeners: Vec<SmtpListener> = Vec::new();
    for (index, one) in typed.listeners.iter().enumerate() {
        let pointer = format!("/listeners/{index}");
        let Some(listener) = settle_listener(page, &pointer, one, desk) else { continue };
        let is_taken = listeners.iter().any(|other| is_same(&other.address, &listener.address));
        if is_taken {
            let message = format!("`{}` is listened on twice", one.address);
            desk.report(page.blame(&child(&pointer, "address"), message));
        }
        listeners.push(listener);
    }
    let submission = settle_submission(page, typed.submission, owners, desk);
    let is_read = !typed.listeners.is_empty() || !page.has("/listeners");
    if is_read && page.has("/submission") && !typed.listeners.iter().any(|one| one.auth == Some(true)) {
        let problem = page.blame_key("/submission", "nobody can log in: no listener has `\"auth\": true`");
        desk.report(problem.hint("add it to a listener with TLS, or leave `submission` out"));
    }
    Settled { listeners, tls: typed.tls.map(|tls| settle_tls(page, tls, desk)), submission }
}

fn settle_listener(
    page: &GatewayPage,
    pointer: &str,
    typed: &Typed,
    desk: &mut Desk<'_>,
) -> Option<SmtpListener> {
    let address = settle_address(page, pointer, typed, desk)?;
    let is_unix = matches!(address, ListenAddress::Unix { .. });
    let kind = match typed.kind {
        TypedKind::Smtp => ListenerKind::Smtp,
        TypedKind::Lmtp => ListenerKind::Lmtp,
    };
    let has_certificate = page.has("/tls");
    let tls = match typed.tls {
        Some(TypedMode::None) => ListenerTls::None,
        Some(TypedMode::StartTls) => ListenerTls::StartTls,
        Some(TypedMode::Implicit) => ListenerTls::Implicit,
        None if has_certificate && !is_unix => ListenerTls::StartTls,
        None => ListenerTls::None,
    };
    let auth = typed.auth.unwrap_or(false);
    let mut complain = |key: &str, message: &str, hint: &str| {
        let problem = page.blame(&child(pointer, key), message.to_owned());
        desk.report(if hint.is_empty() { problem } else { problem.hint(hint) });
    };
    if tls != ListenerTls::None && !has_certificate {
        complain("tls", "there is no certificate", "name its files in `tls` beside `listeners`");
    }
    if auth && kind == ListenerKind::Lmtp {
        complain("auth", "has no meaning for kind `lmtp`", "");
    } else if auth && tls == ListenerTls::None {
        let hint = match has_certificate {
            true => "set `tls` of this listener to `starttls` or `implicit`",
            false => "name certificate and key in `tls` beside `listeners`",
        };
        complain("auth", "passwords need TLS", hint);
    } else if auth && !page.has("/submission") {
        complain("auth", "nobody may log in", "name users in `submission` beside `listeners`");
    }
    if is_unix && page.has(&child(pointer, "proxy_protocol")) {
        complain("proxy_protocol", "has no meaning for a Unix socket", "");
    }
    if let (ListenerKind::Lmtp, ListenAddress::Tcp(tcp)) = (kind, &address)
        && tcp.port() == 25
    {
        complain(
            "address",
            "LMTP must not stand on port 25",
            "RFC 2033 forbids it; take another, such as 24",
        );
    }
    let proxy_protocol = settle_proxies(page, pointer, typed, desk);
    Some(SmtpListener { kind, address, tls, auth, proxy_protocol })
}

fn settle_address(
    page: &GatewayPage,
    pointer: &str,
    typed: &Typed,
    desk: &mut Desk<'_>,
) -> Option<ListenAddress> {
    let at = child(pointer, "address");
    let Some(path) = typed.address.strip_prefix("unix:") else {
        if page.has(&child(pointer, "mode")) {
            let message = "has no meaning for an IP address";
            desk.report(page.blame_key(&child(pointer, "mode"), message));
        }
        let Ok(address) = typed.address.parse::<SocketAddr>() else {
            let problem = page.blame(&at, format!("`{}` is not an address to listen on", typed.address));
            desk.report(
                problem.hint("write an IP address and a port, such as `127.0.0.1:2525`, or `unix:PATH`"),
            );
            return None;
        };
        return Some(ListenAddress::Tcp(address));
    };
    let whole = below(desk.workspace, path);
    if path.is_empty() || whole.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        let message =
            format!("a socket's path has 1 to {SOCKET_PATH_BYTES_MAX} bytes, the workspace's included");
        desk.report(page.blame(&at, message));
    }
    let digits = typed.mode.as_deref().unwrap_or(SOCKET_MODE);
    let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777);
    if mode.is_none() {
        let problem = page.blame(&child(pointer, "mode"), format!("`{digits}` are no permissions"));
        desk.report(problem.hint("write octal digits, such as `0660`"));
    }
    Some(ListenAddress::Unix { path: whole, mode: mode? })
}

/// Port 0 is a different port each time.
fn is_same(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::Tcp(one), ListenAddress::Tcp(other)) => one == other && one.port() != 0,
        (ListenAddress::Unix { path: one, .. }, ListenAddress::Unix { path: other, .. }) => one == other,
        _ => false,
    }
}

fn settle_proxies(page: &GatewayPage, pointer: &str, typed: &Typed, desk: &mut Desk<'_>) -> Vec<Network> {
    let at = child(pointer, "proxy_protocol");
    if typed.proxy_protocol.as_ref().is_some_and(Vec::is_empty) {
        // Empty would mean "everybody, without a header", which is not what somebody who types the key wants.
        desk.report(page.blame(&at, "must not be empty").hint("name the proxies, or leave the key out"));
    }
    let mut proxies = Vec::new();
    for (index, text) in typed.proxy_protocol.iter().flatten().enumerate() {
        match Network::parse(text) {
            Ok(network) => proxies.push(network),
            Err(error) => {
                let problem = page.blame(&child(&at, index), error.to_string());
                desk.report(problem.hint("write one such as `192.0.2.7` or `2001:db8::/32`"));
            }
        }
    }
    proxies
}

fn settle_tls(page: &GatewayPage, typed: &TypedTls, desk: &mut Desk<'_>) -> TlsFiles {
    let mut file = |key: &str, typed: &str| {
        let path = below(desk.workspace, typed);
        if desk.shelf.has_world() && !path.is_file() {
            desk.report(page.blame(&child("/tls", key), format!("there is no file `{typed}`")));
        }
        path
    };
    TlsFiles { certificate: file("certificate", &typed.certificate), key: file("key", &typed.key) }
}

fn settle_submission(
    page: &GatewayPage,
    typed: &[TypedSubmitter],
    owners: &[Address],
    desk: &mut Desk<'_>,
) -> Vec<Submitter> {
    let mut submission: Vec<Submitter> = Vec::new();
    for (index, one) in typed.iter().enumerate() {
        let pointer = format!("/submission/{index}");
        if submission.iter().any(|other| other.user == one.user) {
            desk.report(page.blame(&child(&pointer, "user"), format!("`{}` is named twice", one.user)));
        }
        let address = Address::parse(&one.address).ok();
        let owner = address.and_then(|address| owners.iter().find(|owner| owner.key() == address.key()));
        if owner.is_none() {
            let problem = page.blame(&child(&pointer, "address"), format!("`{}` is no owner", one.address));
            desk.report(problem.hint("only addresses in `owners` may log in"));
        }
        let password = desk.secrets.get(&one.password_variable);
        if password.as_ref().is_none_or(|password| password.expose_secret().is_empty()) {
            let variable = &one.password_variable;
            let message = format!("this user's password is not in `{variable}`");
            let problem = page.blame(&child(&pointer, "password_variable"), message);
            desk.report(problem.hint(format!("set {variable} in the environment or in `.secrets`")));
        }
        let user = one.user.clone();
        submission.extend(owner.cloned().zip(password).map(|(address, password)| Submitter {
            user,
            address,
            password,
        }));
    }
    submission
}

/// Listeners as `attache config show` has them.
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

/// Who may log in, without their passwords.
pub fn show_submission(submission: &[Submitter]) -> Vec<Value> {
    let shown =
        |one: &Submitter| json!({"user": one.user, "address": one.address.to_string(), "password": "[set]"});
    submission.iter().map(shown).collect()
}
