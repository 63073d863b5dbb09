//! `authentication` in `configs/security.json`: the verification of senders, and the relays and ARC
//! signers that are trusted for it.
//!
//! Absent on purpose: a switch that turns verification off. `monitor` refuses nothing, and still
//! grants no trust without proof.

use super::values::check_context::CheckContext;
use super::values::net::domain;
use crate::config::file::duration::{TypedDuration, spell};
use crate::config::file::{Document, child};
use crate::domain::Network;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Port of a name server without an explicit port.
const DNS_PORT: u16 = 53;
/// Maximum timeout of one answer of a name server; the whole verification is limited too, to ten
/// seconds.
const TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// Mode of a rule: refuse, or only record the letters that it would have refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    #[default]
    Enforce,
    Monitor,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Monitor => "monitor",
        }
    }
}

/// Verification of senders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authentication {
    pub mode: Mode,
    pub resolver: ResolverSettings,
    pub trusted_relays: Vec<TrustedRelay>,
    /// Domains whose ARC seals are trusted, lower case.
    pub trusted_arc_signers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolverSettings {
    /// Empty: the system's name servers.
    pub servers: Vec<SocketAddr>,
    /// Timeout of one answer.
    pub timeout: Duration,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Duration::from_secs(3),
        }
    }
}

/// A mail server of the operator whose `Authentication-Results` are trusted (RFC 8601 section 7.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedRelay {
    pub peers: Vec<Network>,
    /// Lower case.
    pub authserv_id: String,
}

/// Verification of senders.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedAuthentication {
    /// Handling of letters that fail the policy of their alleged sender's domain. `enforce`:
    /// refused or withheld as that policy requests; `monitor`: accepted, and the verdict is written
    /// to the log and `audit_log`.
    #[serde(default)]
    mode: Mode,
    /// Name servers for the verification.
    resolver: Option<TypedResolver>,
    /// Mail servers in front of this one whose `Authentication-Results` are trusted.
    trusted_relays: Option<Vec<TypedRelay>>,
    /// Domains of forwarders and mailing lists whose ARC seals are trusted.
    trusted_arc_signers: Option<Vec<String>>,
}

/// Name servers for the verification.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedResolver {
    /// Addresses with or without a port, such as `127.0.0.1:5353`. Default: the system's.
    servers: Option<Vec<String>>,
    /// Timeout of one answer, at most 10s. Default: 3s.
    timeout: Option<TypedDuration>,
}

/// A mail server in front of this one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedRelay {
    /// Its addresses, or networks such as `10.0.0.0/8`.
    #[schemars(length(min = 1))]
    peers: Vec<String>,
    /// The authserv-id with which its `Authentication-Results` begin.
    authserv_id: String,
}

/// Resolves the section. Problems go to the context.
pub fn resolve(
    file: &Document,
    typed: Option<&TypedAuthentication>,
    ctx: &mut CheckContext<'_>,
) -> Authentication {
    let none = TypedAuthentication::default();
    let typed = typed.unwrap_or(&none);
    let no_resolver = TypedResolver::default();
    let resolver = typed.resolver.as_ref().unwrap_or(&no_resolver);
    let mut servers = Vec::new();
    for (index, text) in resolver.servers.iter().flatten().enumerate() {
        match server(text) {
            Some(server) => servers.push(server),
            None => {
                let pointer = child("/authentication/resolver/servers", index);
                ctx.refuse(
                    file,
                    &pointer,
                    format!("`{text}` is not a server's address"),
                    "write one such as `127.0.0.1:5353` or `[::1]:5353`",
                );
            }
        }
    }
    let timeout = resolver
        .timeout
        .map_or(ResolverSettings::default().timeout, |span| span.0);
    if timeout.is_zero() || timeout > TIMEOUT_MAX {
        let limit = spell(TIMEOUT_MAX);
        let problem = file.problem_at(
            "/authentication/resolver/timeout",
            format!("must be from 1ms to {limit}"),
        );
        ctx.report(problem);
    }
    Authentication {
        mode: typed.mode,
        resolver: ResolverSettings { servers, timeout },
        trusted_relays: resolve_relays(file, typed, ctx),
        trusted_arc_signers: resolve_arc_signers(file, typed, ctx),
    }
}

fn resolve_relays(
    file: &Document,
    typed: &TypedAuthentication,
    ctx: &mut CheckContext<'_>,
) -> Vec<TrustedRelay> {
    let mut relays = Vec::new();
    for (index, relay) in typed.trusted_relays.iter().flatten().enumerate() {
        let pointer = child("/authentication/trusted_relays", index);
        let mut peers = Vec::new();
        for (at, text) in relay.peers.iter().enumerate() {
            match Network::parse(text) {
                Ok(network) => peers.push(network),
                Err(_) => {
                    let pointer = child(&format!("{pointer}/peers"), at);
                    ctx.refuse(
                        file,
                        &pointer,
                        format!("`{text}` is no address and no network"),
                        "write one such as `192.0.2.1` or `10.0.0.0/8`",
                    );
                }
            }
        }
        match domain(&relay.authserv_id) {
            Some(authserv_id) => relays.push(TrustedRelay { peers, authserv_id }),
            None => {
                let pointer = format!("{pointer}/authserv_id");
                ctx.complain(
                    file,
                    &pointer,
                    format!("`{}` is not a host name", relay.authserv_id),
                );
            }
        }
    }
    relays
}

fn resolve_arc_signers(
    file: &Document,
    typed: &TypedAuthentication,
    ctx: &mut CheckContext<'_>,
) -> Vec<String> {
    let mut arc_signers = Vec::new();
    for (index, text) in typed.trusted_arc_signers.iter().flatten().enumerate() {
        match domain(text) {
            Some(name) => arc_signers.push(name),
            None => {
                let pointer = child("/authentication/trusted_arc_signers", index);
                ctx.complain(file, &pointer, format!("`{text}` is not a domain name"));
            }
        }
    }
    arc_signers
}

fn server(text: &str) -> Option<SocketAddr> {
    let bare = || {
        text.parse::<IpAddr>()
            .ok()
            .map(|ip| SocketAddr::new(ip, DNS_PORT))
    };
    text.parse()
        .ok()
        .or_else(bare)
        .filter(|server: &SocketAddr| server.port() != 0)
}

/// JSON for `attache config show`.
pub fn show(settings: &Authentication) -> Value {
    let relays = settings.trusted_relays.iter().map(|relay| {
        let peers = relay
            .peers
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        json!({"peers": peers, "authserv_id": relay.authserv_id})
    });
    let servers = settings
        .resolver
        .servers
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    json!({
        "mode": settings.mode.as_str(),
        "resolver": {"servers": servers, "timeout": spell(settings.resolver.timeout)},
        "trusted_relays": relays.collect::<Vec<_>>(),
        "trusted_arc_signers": settings.trusted_arc_signers,
    })
}
