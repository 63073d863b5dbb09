//! `outbound` in `configs/gateway.json`: the transport of outgoing mail and its DKIM keys.

use crate::config::file::{Document, Problem, below, child};
use crate::config::secrets;
use crate::config::values::check_context::CheckContext;
use crate::config::values::net::{domain, is_loopback_host};
use crate::domain::Address;
use crate::mime::{Signer, Signers};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::PathBuf;

/// Default variable of the smarthost's password.
pub const PASSWORD_VARIABLE: &str = "ATTACHE_SMTP_PASSWORD";
/// Maximum bytes of a key file; real ones are far smaller.
const KEY_BYTES_MAX: u64 = 64 * 1024;

/// The transport of outgoing mail.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedOutbound {
    /// Transport: `folder` or `smarthost`.
    kind: TypedTransportKind,
    /// `folder`: folder for the `.eml` files of mails, relative to the workspace.
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// `smarthost`: host name.
    host: Option<String>,
    /// `smarthost`: port. Default: 587 for `starttls`, 465 for `implicit`, 25 for `none`.
    #[schemars(range(min = 1))]
    port: Option<u16>,
    /// `smarthost`: TLS mode. Default: `starttls`; `none` is for loopback hosts only.
    tls: Option<TypedSmarthostTls>,
    /// `smarthost`: user name for AUTH. Its password comes from the environment or `.secrets`.
    user: Option<String>,
    /// `smarthost`: the variable that holds the password. Default: `ATTACHE_SMTP_PASSWORD`.
    password_variable: Option<String>,
    /// `smarthost`: maximum concurrent connections.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 100))]
    connections_max: u16,
    /// Keys that sign every mail from their domain (DKIM). With at least one key, every persona's
    /// domain needs one.
    dkim: Option<Vec<TypedDkim>>,
    /// Handling of a mail whose acceptance by the server is unknown.
    #[serde(default)]
    pub on_unknown: OnUnknown,
    /// Envelope sender of personas' mail.
    #[serde(default)]
    pub bounce_address: BounceAddress,
}

const fn default_connections() -> u16 {
    4
}

/// A DKIM key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedDkim {
    /// Domain of the senders whose mail it signs.
    domain: String,
    /// Selector: the public key is published at `<selector>._domainkey.<domain>`; see
    /// `attache outbox dkim`.
    selector: String,
    /// PEM file of the private key, RSA or Ed25519, relative to the workspace; its mode must
    /// exclude other users.
    #[schemars(length(min = 1))]
    key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypedTransportKind {
    Folder,
    Smarthost,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedSmarthostTls {
    None,
    StartTls,
    Implicit,
}

/// The envelope sender of a persona's mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BounceAddress {
    /// `persona+b.TOKEN@domain`: a bounce is recognised and authenticated by its recipient.
    #[default]
    Tagged,
    /// The persona's address, for smarthosts that accept no other: bounces are recorded and change
    /// nothing.
    Plain,
}

impl BounceAddress {
    /// Returns the envelope sender of a mail that the engine writes itself: none, by which no program answers it, unless the
    /// smarthost takes mail from the persona's address alone.
    pub fn of_engine_mail(self, persona: &Address) -> String {
        match self {
            Self::Tagged => String::new(),
            Self::Plain => persona.to_string(),
        }
    }
}

#[derive(Debug, Clone)]
pub enum TransportSettings {
    Smarthost(Smarthost),
    /// Writes each mail as an `.eml` file; for demos, tests and air-gapped machines. Absolute path.
    Folder(PathBuf),
}

#[derive(Debug, Clone)]
pub struct Smarthost {
    pub host: String,
    pub port: u16,
    pub tls: SmarthostTls,
    /// User name and password, for AUTH.
    pub credentials: Option<(String, SecretString)>,
    /// Maximum concurrent connections.
    pub connections_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmarthostTls {
    /// Plain text; allowed for loopback hosts only.
    None,
    StartTls,
    Implicit,
}

/// Handling of a mail whose acceptance by the server is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// Sends the mail once more, marked: at least once, at worst twice. If that ends in doubt, too, holds the mail until an
    /// operator decides.
    #[default]
    ResendOnce,
    /// Sends the mail once more, marked. If that ends in doubt, too, closes the mail and tells the owner.
    Resend,
    /// Holds the mail at the first doubt until an operator decides.
    Hold,
}

impl TypedOutbound {
    /// Name of the variable with the smarthost's password.
    pub fn password_variable(&self) -> &str {
        self.password_variable
            .as_deref()
            .unwrap_or(PASSWORD_VARIABLE)
    }
}

/// Resolves the transport. Problems go to the context.
pub fn resolve(
    file: &Document,
    typed: &TypedOutbound,
    ctx: &mut CheckContext<'_>,
) -> Option<TransportSettings> {
    let (kind, foreign): (_, &[&str]) = match typed.kind {
        TypedTransportKind::Folder => (
            "folder",
            &[
                "host",
                "port",
                "tls",
                "user",
                "password_variable",
                "connections_max",
            ],
        ),
        TypedTransportKind::Smarthost => ("smarthost", &["path"]),
    };
    for pointer in foreign.iter().map(|key| child("/outbound", key)) {
        if file.has(&pointer) {
            ctx.report(file.problem_at_key(&pointer, format!("has no meaning for kind `{kind}`")));
        }
    }
    match typed.kind {
        TypedTransportKind::Folder => {
            let path = required(file, typed.path.as_deref(), "path", kind, ctx)?;
            Some(TransportSettings::Folder(below(ctx.workspace, path)))
        }
        TypedTransportKind::Smarthost => {
            resolve_smarthost(file, typed, ctx).map(TransportSettings::Smarthost)
        }
    }
}

fn resolve_smarthost(
    file: &Document,
    typed: &TypedOutbound,
    ctx: &mut CheckContext<'_>,
) -> Option<Smarthost> {
    let (tls, port) = match typed.tls {
        None | Some(TypedSmarthostTls::StartTls) => (SmarthostTls::StartTls, 587),
        Some(TypedSmarthostTls::Implicit) => (SmarthostTls::Implicit, 465),
        Some(TypedSmarthostTls::None) => (SmarthostTls::None, 25),
    };
    let host = required(file, typed.host.as_deref(), "host", "smarthost", ctx)?;
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    if !is_address && domain(host).is_none() {
        ctx.complain(
            file,
            "/outbound/host",
            format!("`{host}` is not a host name"),
        );
    }
    if tls == SmarthostTls::None && !is_loopback_host(host) {
        ctx.refuse(
            file,
            "/outbound/tls",
            format!("`none` would send mail in plain text to `{host}`"),
            "use `starttls` or `implicit`; `none` is for this machine only",
        );
    }
    if typed.user.is_none() && file.has("/outbound/password_variable") {
        ctx.complain(
            file,
            "/outbound/password_variable",
            "there is a password but no `user`",
        );
    }
    Some(Smarthost {
        host: host.to_owned(),
        port: typed.port.unwrap_or(port),
        tls,
        credentials: typed.user.clone().zip(resolve_password(file, typed, ctx)),
        connections_max: usize::from(typed.connections_max),
    })
}

/// Resolves the password of the smarthost's user, who must have one.
fn resolve_password(
    file: &Document,
    typed: &TypedOutbound,
    ctx: &mut CheckContext<'_>,
) -> Option<SecretString> {
    typed.user.as_ref()?;
    let variable = typed.password_variable();
    let password = ctx.secrets.get(variable);
    if password.is_none() {
        ctx.refuse(
            file,
            "/outbound/user",
            format!("this user's password is not in `{variable}`"),
            ctx.how_to_set(variable),
        );
    }
    password
}

/// Returns a member that this kind of transport requires.
fn required<'t>(
    file: &Document,
    value: Option<&'t str>,
    key: &str,
    kind: &str,
    ctx: &mut CheckContext<'_>,
) -> Option<&'t str> {
    if value.is_none() && !file.has(&child("/outbound", key)) {
        ctx.refuse(
            file,
            "/outbound",
            format!("kind `{kind}` needs `{key}`"),
            format!("write `\"{key}\": …` beside `kind`"),
        );
    }
    value
}

/// Reads the DKIM keys. Problems go to the context.
pub fn resolve_dkim(file: &Document, typed: &TypedOutbound, ctx: &mut CheckContext<'_>) -> Signers {
    let mut signers: Vec<Signer> = Vec::new();
    // Keys are no configuration: a snapshot is loaded without signing keys.
    let keys = typed
        .dkim
        .iter()
        .flatten()
        .filter(|_| ctx.source.has_world())
        .collect::<Vec<_>>();
    for (index, typed) in keys.into_iter().enumerate() {
        let pointer = child("/outbound/dkim", index);
        let before = signers.len();
        for (key, name) in [("domain", &typed.domain), ("selector", &typed.selector)] {
            // A selector has the syntax of a domain (RFC 6376 section 3.1).
            if domain(name).is_none() {
                ctx.complain(
                    file,
                    child(&pointer, key),
                    format!("`{name}` is not a domain name"),
                );
            }
        }
        match read_key(ctx.workspace, typed) {
            Ok(signer) => signers.push(signer),
            Err((message, hint)) => {
                let problem = file.problem_at(&child(&pointer, "key"), message);
                ctx.report(hint.into_iter().fold(problem, Problem::hint));
            }
        }
        let same = |a: &Signer, b: &Signer| a.record().name == b.record().name;
        let (others, new) = signers.split_at(before);
        if new
            .iter()
            .any(|signer| others.iter().any(|other| same(signer, other)))
        {
            let message = format!(
                "`{}` has two keys in this domain: its record holds one",
                typed.selector
            );
            ctx.complain(file, child(&pointer, "selector"), message);
        }
    }
    Signers::new(signers)
}

fn read_key(
    workspace: &std::path::Path,
    typed: &TypedDkim,
) -> Result<Signer, (String, Option<String>)> {
    let (path, name) = (below(workspace, &typed.key), &typed.key);
    let make = format!("`openssl genpkey -algorithm ed25519 -out {name}` makes one");
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => (format!("there is no file `{name}`"), Some(make.clone())),
        _ => (format!("`{name}` cannot be read: {error}"), None),
    };
    let file = std::fs::File::open(&path).map_err(unreadable)?;
    if let Some(mode) = secrets::open_to_others(&path) {
        let hint = format!("run `chmod 600 {name}`, and make a new key if others had access");
        return Err((
            format!("others may read `{name}`: its mode is {mode:04o}"),
            Some(hint),
        ));
    }
    let mut pem = Vec::new();
    file.take(KEY_BYTES_MAX)
        .read_to_end(&mut pem)
        .map_err(unreadable)?;
    Signer::from_pem(&typed.domain, &typed.selector, &pem)
        .map_err(|error| (format!("`{name}` {error}"), Some(make.clone())))
}
