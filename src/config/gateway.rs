//! `configs/gateway.json`: how mail comes in and goes out.

use super::check::Page;
use super::document::child;
use super::limits;
use super::load::Desk;
use super::mailboxes;
use super::net::{domain, is_loopback_host};
use super::settings::{
    Gateway, Limits, ListenerKind, RetryPolicy, Smarthost, SmarthostTls, SmtpListener, Transport,
    WatchedFolder,
};
use super::span::Span;
use crate::domain::{Address, PersonaId};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

pub const FILE: &str = "configs/gateway.json";
/// Where the smarthost's password is looked up unless the file names another variable.
pub const PASSWORD_VARIABLE: &str = "ATTACHE_SMTP_PASSWORD";

/// How mail comes in and goes out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/gateway.json")]
pub struct Typed {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Domain of every persona whose address names none, and of our Message-IDs.
    #[schemars(required)]
    mail_domain: Option<String>,
    /// The name in our banner and EHLO. Default: `mail_domain`.
    host_name: Option<String>,
    /// Addresses of the person whose engine this is.
    owners: Option<Vec<String>>,
    /// Sockets that take mail.
    listeners: Option<Vec<TypedListener>>,
    /// Folders whose `*.eml` files are letters.
    folders: Option<Vec<TypedFolder>>,
    /// IMAP mailboxes that letters are fetched from.
    mailboxes: Option<Vec<mailboxes::Typed>>,
    /// How mail goes out. Without it nothing can be sent.
    outbound: Option<TypedOutbound>,
    retry: Option<TypedRetry>,
    /// Bounds, each with its default where it is left out.
    limits: Option<limits::Typed>,
}

/// A socket that takes mail.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedListener {
    #[serde(default)]
    kind: TypedListenerKind,
    /// IP address and port, such as `127.0.0.1:2525` or `[::1]:2525`.
    address: String,
}

#[derive(Debug, Default, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypedListenerKind {
    #[default]
    Smtp,
}

/// A folder whose `*.eml` files are letters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedFolder {
    /// Relative to the workspace.
    #[schemars(length(min = 1))]
    path: String,
    /// Persona that gets letters that name nobody here.
    fallback: Option<String>,
    /// How often to look. Default: 2s.
    poll: Option<Span>,
}

/// How mail goes out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedOutbound {
    kind: TypedOutboundKind,
    /// `folder`: where each mail becomes an `.eml` file, relative to the workspace.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// `smarthost`: its host name.
    host: Option<String>,
    /// `smarthost`: default 587 for `starttls`, 465 for `implicit`, 25 for `none`.
    #[schemars(range(min = 1))]
    port: Option<u16>,
    /// `smarthost`: default `starttls`; `none` is for loopback hosts only.
    tls: Option<TypedTls>,
    /// `smarthost`: user name for AUTH. Its password comes from the environment or `.secrets`.
    user: Option<String>,
    /// `smarthost`: the variable that holds the password. Default: `ATTACHE_SMTP_PASSWORD`.
    password_variable: Option<String>,
    /// `smarthost`: connections that may be open at once. Default: 4.
    #[schemars(range(min = 1, max = 100))]
    connections_max: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypedOutboundKind {
    Folder,
    Smarthost,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedTls {
    None,
    StartTls,
    Implicit,
}

/// When an outbound mail is tried again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedRetry {
    /// After this age a recipient fails. Default: 5d.
    give_up_after: Option<Span>,
}

impl Typed {
    /// The mail domain, when it is one: addresses of personas need it before anything else is settled.
    pub fn mail_domain(&self) -> Option<String> {
        domain(self.mail_domain.as_deref()?)
    }
    /// JSON pointer of an owner's address.
    pub fn owner_pointer(&self, owner: &Address) -> String {
        let is_owner = |text: &String| Address::parse(text).is_ok_and(|address| address == *owner);
        let index = self.owners.iter().flatten().position(is_owner);
        index.map_or("/owners".to_owned(), |index| child("/owners", index))
    }
    /// The variable of the smarthost's password.
    pub fn password_variable(&self) -> &str {
        let named = self.outbound.as_ref().and_then(|outbound| outbound.password_variable.as_deref());
        named.unwrap_or(PASSWORD_VARIABLE)
    }
    /// The variables that the mailboxes read.
    pub fn mailbox_variables(&self) -> impl Iterator<Item = &str> {
        self.mailboxes.iter().flatten().flat_map(mailboxes::Typed::variables)
    }
}

/// What the file means. Problems go to the desk; the result counts only if there were none.
pub fn settle(page: &Page<Typed>, desk: &mut Desk<'_>) -> (Gateway, Limits) {
    let typed = &page.typed;
    let mail_domain = typed.mail_domain().unwrap_or_else(|| "unknown.invalid".to_owned());
    let named = [("/mail_domain", &typed.mail_domain), ("/host_name", &typed.host_name)];
    for (pointer, name) in named {
        if let Some(name) = name.as_deref().filter(|name| domain(name).is_none()) {
            desk.report(page.blame(pointer, format!("`{name}` is not a domain name")));
        }
    }
    let host_name = typed.host_name.as_deref().and_then(domain).unwrap_or_else(|| mail_domain.clone());
    let folders = settle_folders(page, desk);
    let outbound = typed.outbound.as_ref().and_then(|outbound| settle_outbound(page, outbound, desk));
    if let Some(Transport::Folder(out)) = &outbound {
        let loops = folders.iter().position(|folder| folder.path == *out);
        if let Some(index) = loops {
            let message = "this is also the outbound folder: every mail sent would come back in";
            desk.report(page.blame(&format!("/folders/{index}/path"), message));
        }
    }
    let give_up_after = typed.retry.as_ref().and_then(|retry| retry.give_up_after);
    let gateway = Gateway {
        mail_domain,
        host_name,
        owners: settle_owners(page, desk),
        listeners: settle_listeners(page, desk),
        folders,
        mailboxes: mailboxes::settle(page, typed.mailboxes.as_deref().unwrap_or_default(), desk),
        outbound,
        retry: RetryPolicy {
            give_up_after: give_up_after.map_or(Duration::from_secs(5 * 24 * 3600), |s| s.0),
        },
    };
    (gateway, typed.limits.as_ref().map_or_else(Limits::default, limits::settle))
}

fn settle_owners(page: &Page<Typed>, desk: &mut Desk<'_>) -> Vec<Address> {
    let mut owners = Vec::new();
    for (index, text) in page.typed.owners.iter().flatten().enumerate() {
        match Address::parse(text) {
            Ok(address) => owners.push(address),
            Err(error) => desk.report(page.blame(&child("/owners", index), error.to_string())),
        }
    }
    owners
}

fn settle_listeners(page: &Page<Typed>, desk: &mut Desk<'_>) -> Vec<SmtpListener> {
    let mut listeners: Vec<SmtpListener> = Vec::new();
    for (index, typed) in page.typed.listeners.iter().flatten().enumerate() {
        let pointer = format!("/listeners/{index}/address");
        let Ok(address) = typed.address.parse::<SocketAddr>() else {
            let problem = page.blame(&pointer, format!("`{}` is not an address to listen on", typed.address));
            desk.report(problem.hint("write an IP address and a port, such as `127.0.0.1:2525`"));
            continue;
        };
        if address.port() != 0 && listeners.iter().any(|other| other.address == address) {
            desk.report(page.blame(&pointer, format!("`{address}` is listened on twice")));
        }
        let kind = match typed.kind {
            TypedListenerKind::Smtp => ListenerKind::Smtp,
        };
        listeners.push(SmtpListener { kind, address });
    }
    listeners
}

fn settle_folders(page: &Page<Typed>, desk: &mut Desk<'_>) -> Vec<WatchedFolder> {
    let mut folders: Vec<WatchedFolder> = Vec::new();
    for (index, typed) in page.typed.folders.iter().flatten().enumerate() {
        let pointer = format!("/folders/{index}");
        let path = below(desk.workspace, &typed.path);
        if folders.iter().any(|other| other.path == path) {
            desk.report(page.blame(&child(&pointer, "path"), format!("`{}` is watched twice", typed.path)));
        }
        let poll = typed.poll.map_or(Duration::from_secs(2), |span| span.0);
        if poll.is_zero() {
            desk.report(page.blame(&child(&pointer, "poll"), "must be more than nothing"));
        }
        let fallback = typed.fallback.as_deref().and_then(|name| {
            let id = PersonaId::parse(name).ok().filter(|id| desk.persona_ids.contains(id));
            if id.is_none() {
                let problem = page.blame(&child(&pointer, "fallback"), format!("no persona `{name}`"));
                desk.report(problem.did_you_mean(name, desk.persona_ids.iter().map(PersonaId::as_str)));
            }
            id
        });
        folders.push(WatchedFolder { path, fallback, poll });
    }
    folders
}

fn settle_outbound(page: &Page<Typed>, typed: &TypedOutbound, desk: &mut Desk<'_>) -> Option<Transport> {
    let (kind, foreign): (_, &[&str]) = match typed.kind {
        TypedOutboundKind::Folder => {
            ("folder", &["host", "port", "tls", "user", "password_variable", "connections_max"])
        }
        TypedOutboundKind::Smarthost => ("smarthost", &["path"]),
    };
    for pointer in foreign.iter().map(|key| child("/outbound", key)) {
        if page.has(&pointer) {
            desk.report(page.blame_key(&pointer, format!("has no meaning for kind `{kind}`")));
        }
    }
    match typed.kind {
        TypedOutboundKind::Folder => {
            let path = required(page, typed.path.as_deref(), "path", kind, desk)?;
            Some(Transport::Folder(below(desk.workspace, path)))
        }
        TypedOutboundKind::Smarthost => settle_smarthost(page, typed, desk).map(Transport::Smarthost),
    }
}

fn settle_smarthost(page: &Page<Typed>, typed: &TypedOutbound, desk: &mut Desk<'_>) -> Option<Smarthost> {
    let (tls, port) = match typed.tls {
        None | Some(TypedTls::StartTls) => (SmarthostTls::StartTls, 587),
        Some(TypedTls::Implicit) => (SmarthostTls::Implicit, 465),
        Some(TypedTls::None) => (SmarthostTls::None, 25),
    };
    let host = required(page, typed.host.as_deref(), "host", "smarthost", desk)?;
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    if !is_address && domain(host).is_none() {
        desk.report(page.blame("/outbound/host", format!("`{host}` is not a host name")));
    }
    if tls == SmarthostTls::None && !is_loopback_host(host) {
        let problem =
            page.blame("/outbound/tls", format!("`none` would send mail in plain text to `{host}`"));
        desk.report(problem.hint("use `starttls` or `implicit`; `none` is for this machine only"));
    }
    if typed.user.is_none() && page.has("/outbound/password_variable") {
        desk.report(page.blame("/outbound/password_variable", "there is a password but no `user`"));
    }
    Some(Smarthost {
        host: host.to_owned(),
        port: typed.port.unwrap_or(port),
        tls,
        credentials: typed.user.clone().zip(settle_password(page, desk)),
        connections_max: usize::from(typed.connections_max.unwrap_or(4)),
    })
}

/// The password of the smarthost's user, who must have one.
fn settle_password(page: &Page<Typed>, desk: &mut Desk<'_>) -> Option<SecretString> {
    page.typed.outbound.as_ref()?.user.as_ref()?;
    let variable = page.typed.password_variable();
    let password = desk.secrets.get(variable);
    if password.is_none() {
        let problem = page.blame("/outbound/user", format!("this user's password is not in `{variable}`"));
        desk.report(problem.hint(format!("set {variable} in the environment or in `.secrets`")));
    }
    password
}

/// A member that its kind cannot do without.
fn required<'t>(
    page: &Page<Typed>,
    value: Option<&'t str>,
    key: &str,
    kind: &str,
    desk: &mut Desk<'_>,
) -> Option<&'t str> {
    if value.is_none() && !page.has(&child("/outbound", key)) {
        desk.report(page.blame("/outbound", format!("kind `{kind}` needs `{key}`")));
    }
    value
}

/// An absolute path, without the `.` and `..` that would hide that two paths are one.
fn below(workspace: &Path, typed: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in workspace.join(typed).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
    }
    path
}
