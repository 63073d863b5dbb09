//! `outbound` in `configs/gateway.json`: the transport of outgoing mail and its DKIM keys.

use crate::config::secrets;
use crate::config::values::net::{MailTls, domain, is_loopback_host};
use crate::config::values::section::*;
use crate::domain::Address;
use crate::mime::{Signer, Signers};
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
    tls: Option<MailTls>,
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
    pub fn engine_mail_sender(self, persona: &Address) -> String {
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
    pub tls: MailTls,
    /// User name and password, for AUTH.
    pub credentials: Option<(String, SecretString)>,
    /// Maximum concurrent connections.
    pub connections_max: usize,
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
pub fn resolve(typed: &TypedOutbound, place: &mut CheckPlace<'_, '_>) -> Option<TransportSettings> {
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
    for key in foreign {
        if place.has(key) {
            place.refuse_key(key, format!("has no meaning for kind `{kind}`"), "");
        }
    }
    let (key, needed) = match typed.kind {
        TypedTransportKind::Folder => ("path", &typed.path),
        TypedTransportKind::Smarthost => ("host", &typed.host),
    };
    if needed.is_none() && !place.has(key) {
        let hint = format!("write `\"{key}\": …` beside `kind`");
        place.refuse("", format!("kind `{kind}` needs `{key}`"), hint);
    }
    let needed = needed.as_deref()?;
    Some(match typed.kind {
        TypedTransportKind::Folder => TransportSettings::Folder(below(place.ctx.workspace, needed)),
        TypedTransportKind::Smarthost => {
            TransportSettings::Smarthost(resolve_smarthost(typed, needed, place))
        }
    })
}

fn resolve_smarthost(
    typed: &TypedOutbound,
    host: &str,
    place: &mut CheckPlace<'_, '_>,
) -> Smarthost {
    let tls = typed.tls.unwrap_or(MailTls::StartTls);
    if host.parse::<std::net::IpAddr>().is_err() && domain(host).is_none() {
        place.complain("host", format!("`{host}` is not a host name"));
    }
    if tls == MailTls::None && !is_loopback_host(host) {
        place.refuse(
            "tls",
            format!("`none` would send mail in plain text to `{host}`"),
            "use `starttls` or `implicit`; `none` is for this machine only",
        );
    }
    let (user, variable) = (&typed.user, typed.password_variable());
    let password = match user {
        None if place.has("password_variable") => {
            place.complain("password_variable", "there is a password but no `user`");
            None
        }
        None => None,
        Some(_) => {
            let message = format!("this user's password is not in `{variable}`");
            place.secret_or("user", variable, message, place.ctx.how_to_set(variable))
        }
    };
    Smarthost {
        host: host.to_owned(),
        port: typed.port.unwrap_or(match tls {
            MailTls::StartTls => 587,
            MailTls::Implicit => 465,
            MailTls::None => 25,
        }),
        tls,
        credentials: user.clone().zip(password),
        connections_max: usize::from(typed.connections_max),
    }
}

/// Reads the DKIM keys. Problems go to the context.
pub fn resolve_dkim(typed: &TypedOutbound, place: &mut CheckPlace<'_, '_>) -> Signers {
    let mut signers: Vec<Signer> = Vec::new();
    // Keys are no configuration: a snapshot is loaded without signing keys.
    let keys = typed.dkim.iter().flatten();
    let has_world = place.ctx.source.has_world();
    for (index, typed) in keys.enumerate().filter(|_| has_world) {
        let place = &mut place.under("dkim");
        let place = &mut place.under(index);
        let selector = &typed.selector;
        for (key, name) in [("domain", &typed.domain), ("selector", selector)] {
            // A selector has the syntax of a domain (RFC 6376 section 3.1).
            if domain(name).is_none() {
                place.complain(key, format!("`{name}` is not a domain name"));
            }
        }
        match read_key(place.ctx.workspace, typed) {
            Ok(signer) => {
                let name = signer.record().name;
                if signers.iter().any(|other| other.record().name == name) {
                    let message =
                        format!("`{selector}` has two keys in this domain: its record holds one");
                    place.complain("selector", message);
                }
                signers.push(signer);
            }
            Err((message, hint)) => place.refuse("key", message, hint),
        }
    }
    Signers::new(signers)
}

/// Errors: a message, and a hint that may be empty.
fn read_key(workspace: &std::path::Path, typed: &TypedDkim) -> Result<Signer, (String, String)> {
    let (path, name) = (below(workspace, &typed.key), &typed.key);
    let make = format!("`openssl genpkey -algorithm ed25519 -out {name}` makes one");
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => (format!("there is no file `{name}`"), make.clone()),
        _ => (format!("`{name}` cannot be read: {error}"), String::new()),
    };
    let file = std::fs::File::open(&path).map_err(unreadable)?;
    if let Some(mode) = secrets::open_to_others(&path) {
        let hint = format!("run `chmod 600 {name}`, and make a new key if others had access");
        let message = format!("others may read `{name}`: its mode is {mode:04o}");
        return Err((message, hint));
    }
    let mut pem = Vec::new();
    file.take(KEY_BYTES_MAX)
        .read_to_end(&mut pem)
        .map_err(unreadable)?;
    Signer::from_pem(&typed.domain, &typed.selector, &pem)
        .map_err(|error| (format!("`{name}` {error}"), make.clone()))
}

/// JSON of the transport for `attache config show`.
pub fn show(transport: &TransportSettings) -> Value {
    match transport {
        TransportSettings::Folder(path) => json!({ "kind": "folder", "path": path }),
        TransportSettings::Smarthost(host) => json!({
            "kind": "smarthost", "host": host.host, "port": host.port, "tls": host.tls,
            "user": host.credentials.as_ref().map(|(user, _)| user),
            "password": host.credentials.as_ref().map(|_| "[set]"),
            "connections_max": host.connections_max,
        }),
    }
}
