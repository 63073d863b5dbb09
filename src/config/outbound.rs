//! `outbound` in `configs/gateway.json`: how mail goes out, and the keys that sign it.

use super::check::Page;
use super::document::child;
use super::gateway::{self, below};
use super::load::Desk;
use super::net::{domain, is_loopback_host};
use super::problem::Problem;
use super::secrets;
use super::settings::{BounceAddress, OnUnknown, Smarthost, SmarthostTls, Transport};
use crate::mime::{Signer, Signers};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use std::io::Read;

/// Where the smarthost's password is looked up unless the file names another variable.
pub const PASSWORD_VARIABLE: &str = "ATTACHE_SMTP_PASSWORD";
/// A key file is far smaller.
const KEY_BYTES_MAX: u64 = 64 * 1024;

/// How mail goes out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    kind: TypedKind,
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
    /// Keys that sign every mail from their domain (DKIM). Once there is one, every persona's domain needs one.
    dkim: Option<Vec<TypedDkim>>,
    /// What becomes of a mail that the server may have although it never said so. Default: `resend`.
    on_unknown: Option<TypedOnUnknown>,
    /// Envelope sender of personas' mail: `tagged` is `name+b.TOKEN@domain`, by which a bounce is recognised and believed;
    /// `plain` is the persona's address, for smarthosts that accept no other. Default: `tagged`.
    bounce_address: Option<TypedBounceAddress>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypedBounceAddress {
    Tagged,
    Plain,
}

/// A key that signs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedDkim {
    /// The domain of the senders whose mail it signs.
    domain: String,
    /// Its public half is published at `<selector>._domainkey.<domain>`; see `attache outbox dkim`.
    selector: String,
    /// Its file in PEM, RSA or Ed25519, relative to the workspace; nobody but its owner may read it.
    #[schemars(length(min = 1))]
    key: String,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedOnUnknown {
    /// Sent again, with the same bytes: at least once, at worst twice.
    Resend,
    /// Kept back until somebody decides: at most once by itself.
    Hold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypedKind {
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

impl Typed {
    /// The variable of the smarthost's password.
    pub fn password_variable(&self) -> &str {
        self.password_variable.as_deref().unwrap_or(PASSWORD_VARIABLE)
    }
    pub fn on_unknown(&self) -> OnUnknown {
        match self.on_unknown {
            None | Some(TypedOnUnknown::Resend) => OnUnknown::Resend,
            Some(TypedOnUnknown::Hold) => OnUnknown::Hold,
        }
    }
    pub fn bounce_address(&self) -> BounceAddress {
        match self.bounce_address {
            None | Some(TypedBounceAddress::Tagged) => BounceAddress::Tagged,
            Some(TypedBounceAddress::Plain) => BounceAddress::Plain,
        }
    }
}

/// The transport. Problems go to the desk.
pub fn settle(page: &Page<gateway::Typed>, typed: &Typed, desk: &mut Desk<'_>) -> Option<Transport> {
    let (kind, foreign): (_, &[&str]) = match typed.kind {
        TypedKind::Folder => {
            ("folder", &["host", "port", "tls", "user", "password_variable", "connections_max"])
        }
        TypedKind::Smarthost => ("smarthost", &["path"]),
    };
    for pointer in foreign.iter().map(|key| child("/outbound", key)) {
        if page.has(&pointer) {
            desk.report(page.blame_key(&pointer, format!("has no meaning for kind `{kind}`")));
        }
    }
    match typed.kind {
        TypedKind::Folder => {
            let path = required(page, typed.path.as_deref(), "path", kind, desk)?;
            Some(Transport::Folder(below(desk.workspace, path)))
        }
        TypedKind::Smarthost => settle_smarthost(page, typed, desk).map(Transport::Smarthost),
    }
}

fn settle_smarthost(page: &Page<gateway::Typed>, typed: &Typed, desk: &mut Desk<'_>) -> Option<Smarthost> {
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
        credentials: typed.user.clone().zip(settle_password(page, typed, desk)),
        connections_max: usize::from(typed.connections_max.unwrap_or(4)),
    })
}

/// The password of the smarthost's user, who must have one.
fn settle_password(page: &Page<gateway::Typed>, typed: &Typed, desk: &mut Desk<'_>) -> Option<SecretString> {
    typed.user.as_ref()?;
    let variable = typed.password_variable();
    let password = desk.secrets.get(variable);
    if password.is_none() {
        let problem = page.blame("/outbound/user", format!("this user's password is not in `{variable}`"));
        desk.report(problem.hint(format!("set {variable} in the environment or in `.secrets`")));
    }
    password
}

/// A member that its kind cannot do without.
fn required<'t>(
    page: &Page<gateway::Typed>,
    value: Option<&'t str>,
    key: &str,
    kind: &str,
    desk: &mut Desk<'_>,
) -> Option<&'t str> {
    if value.is_none() && !page.has(&child("/outbound", key)) {
        let problem = page.blame("/outbound", format!("kind `{kind}` needs `{key}`"));
        desk.report(problem.hint(format!("write `\"{key}\": …` beside `kind`")));
    }
    value
}

/// Reads the keys that sign. Problems go to the desk.
pub fn settle_dkim(page: &Page<gateway::Typed>, typed: &Typed, desk: &mut Desk<'_>) -> Signers {
    let mut signers: Vec<Signer> = Vec::new();
    // Keys are no configuration: whoever reads a configuration of the past signs nothing.
    let keys = typed.dkim.iter().flatten().filter(|_| desk.shelf.has_world()).collect::<Vec<_>>();
    for (index, typed) in keys.into_iter().enumerate() {
        let pointer = child("/outbound/dkim", index);
        let before = signers.len();
        for (key, name) in [("domain", &typed.domain), ("selector", &typed.selector)] {
            // A selector is written like a domain (RFC 6376 section 3.1).
            if domain(name).is_none() {
                desk.report(page.blame(&child(&pointer, key), format!("`{name}` is not a domain name")));
            }
        }
        match read_key(desk.workspace, typed) {
            Ok(signer) => signers.push(signer),
            Err((message, hint)) => {
                let problem = page.blame(&child(&pointer, "key"), message);
                desk.report(hint.into_iter().fold(problem, Problem::hint));
            }
        }
        let same = |a: &Signer, b: &Signer| a.record().name == b.record().name;
        let (others, new) = signers.split_at(before);
        if new.iter().any(|signer| others.iter().any(|other| same(signer, other))) {
            let message = format!("`{}` has two keys in this domain: its record holds one", typed.selector);
            desk.report(page.blame(&child(&pointer, "selector"), message));
        }
    }
    Signers::new(signers)
}

fn read_key(workspace: &std::path::Path, typed: &TypedDkim) -> Result<Signer, (String, Option<String>)> {
    let (path, name) = (below(workspace, &typed.key), &typed.key);
    let make = format!("`openssl genpkey -algorithm ed25519 -out {name}` makes one");
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => (format!("there is no file `{name}`"), Some(make.clone())),
        _ => (format!("`{name}` cannot be read: {error}"), None),
    };
    let file = std::fs::File::open(&path).map_err(unreadable)?;
    if let Some(mode) = secrets::open_to_others(&path) {
        let hint = format!("run `chmod 600 {name}`, and make a new key if others had access");
        return Err((format!("others may read `{name}`: its mode is {mode:04o}"), Some(hint)));
    }
    let mut pem = Vec::new();
    file.take(KEY_BYTES_MAX).read_to_end(&mut pem).map_err(unreadable)?;
    Signer::from_pem(&typed.domain, &typed.selector, &pem)
        .map_err(|error| (format!("`{name}` {error}"), Some(make.clone())))
}
