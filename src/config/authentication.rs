//! `authentication` in `configs/security.json`: how much is believed of who sent a letter, and by whose word.
//!
//! Absent on purpose: a switch that turns verification off. `monitor` refuses nothing, and still trusts nobody more.

use super::check::Page;
use super::document::child;
use super::load::Desk;
use super::net::domain;
use super::security::Typed as SecurityFile;
use super::settings::Mode;
use super::span::{Span, spell};
use crate::domain::Network;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Port of a name server that names none.
const DNS_PORT: u16 = 53;
/// Longest wait for one answer of a name server; the whole verification is bounded too, at ten seconds.
const TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// How senders are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authentication {
    pub mode: Mode,
    pub resolver: ResolverSettings,
    pub trusted_relays: Vec<TrustedRelay>,
    /// Domains whose ARC seals are believed, lower case.
    pub trusted_sealers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolverSettings {
    /// Empty: those of the system.
    pub servers: Vec<SocketAddr>,
    /// For one answer.
    pub timeout: Duration,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self { servers: Vec::new(), timeout: Duration::from_secs(3) }
    }
}

/// A mail server of the operator's whose `Authentication-Results` are believed (RFC 8601 section 7.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedRelay {
    pub peers: Vec<Network>,
    /// Lower case.
    pub authserv_id: String,
}

/// How senders are verified.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    /// What becomes of letters that their alleged sender disowns. `enforce` (the default): refused or held as the
    /// sender's domain asks; `monitor`: taken, and what would have been is written to the log and `audit_log`.
    mode: Option<TypedMode>,
    resolver: Option<TypedResolver>,
    /// Mail servers in front of this one whose `Authentication-Results` are believed.
    trusted_relays: Option<Vec<TypedRelay>>,
    /// Domains of forwarders and mailing lists whose ARC seals are believed.
    trusted_sealers: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TypedMode {
    Enforce,
    Monitor,
}

impl From<Option<TypedMode>> for Mode {
    fn from(typed: Option<TypedMode>) -> Self {
        match typed {
            None | Some(TypedMode::Enforce) => Mode::Enforce,
            Some(TypedMode::Monitor) => Mode::Monitor,
        }
    }
}

/// Which name servers are asked.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedResolver {
    /// Addresses with or without a port, such as `127.0.0.1:5353`. Default: the system's.
    servers: Option<Vec<String>>,
    /// Longest wait for one answer, at most 10s. Default: 3s.
    timeout: Option<Span>,
}

/// A mail server in front of this one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedRelay {
    /// Its addresses, or networks such as `10.0.0.0/8`.
    #[schemars(length(min = 1))]
    peers: Vec<String>,
    /// The name with which its `Authentication-Results` begin.
    authserv_id: String,
}

/// What the section means. Problems go to the desk.
pub fn settle(page: &Page<SecurityFile>, desk: &mut Desk<'_>) -> Authentication {
    let none = Typed::default();
    let typed = page.typed.authentication().unwrap_or(&none);
    let no_resolver = TypedResolver::default();
    let resolver = typed.resolver.as_ref().unwrap_or(&no_resolver);
    let mut servers = Vec::new();
    for (index, text) in resolver.servers.iter().flatten().enumerate() {
        match server(text) {
            Some(server) => servers.push(server),
            None => {
                let pointer = child("/authentication/resolver/servers", index);
                let problem = page.blame(&pointer, format!("`{text}` is not a server's address"));
                desk.report(problem.hint("write one such as `127.0.0.1:5353` or `[::1]:5353`"));
            }
        }
    }
    let timeout = resolver.timeout.map_or(ResolverSettings::default().timeout, |span| span.0);
    if timeout.is_zero() || timeout > TIMEOUT_MAX {
        let limit = spell(TIMEOUT_MAX);
        let problem = page.blame("/authentication/resolver/timeout", format!("must be from 1ms to {limit}"));
        desk.report(problem);
    }
    Authentication {
        mode: typed.mode.into(),
        resolver: ResolverSettings { servers, timeout },
        trusted_relays: settle_relays(page, typed, desk),
        trusted_sealers: settle_sealers(page, typed, desk),
    }
}

fn settle_relays(page: &Page<SecurityFile>, typed: &Typed, desk: &mut Desk<'_>) -> Vec<TrustedRelay> {
    let mut relays = Vec::new();
    for (index, relay) in typed.trusted_relays.iter().flatten().enumerate() {
        let pointer = child("/authentication/trusted_relays", index);
        let mut peers = Vec::new();
        for (at, text) in relay.peers.iter().enumerate() {
            match Network::parse(text) {
                Ok(network) => peers.push(network),
                Err(_) => {
                    let pointer = child(&format!("{pointer}/peers"), at);
                    let problem = page.blame(&pointer, format!("`{text}` is no address and no network"));
                    desk.report(problem.hint("write one such as `192.0.2.1` or `10.0.0.0/8`"));
                }
            }
        }
        match domain(&relay.authserv_id) {
            Some(authserv_id) => relays.push(TrustedRelay { peers, authserv_id }),
            None => {
                let pointer = format!("{pointer}/authserv_id");
                desk.report(page.blame(&pointer, format!("`{}` is not a host name", relay.authserv_id)));
            }
        }
    }
    relays
}

fn settle_sealers(page: &Page<SecurityFile>, typed: &Typed, desk: &mut Desk<'_>) -> Vec<String> {
    let mut sealers = Vec::new();
    for (index, text) in typed.trusted_sealers.iter().flatten().enumerate() {
        match domain(text) {
            Some(name) => sealers.push(name),
            None => {
                let pointer = child("/authentication/trusted_sealers", index);
                desk.report(page.blame(&pointer, format!("`{text}` is not a domain name")));
            }
        }
    }
    sealers
}

fn server(text: &str) -> Option<SocketAddr> {
    let bare = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DNS_PORT));
    text.parse().ok().or_else(bare).filter(|server: &SocketAddr| server.port() != 0)
}

/// For `attache config show`.
pub fn show(settings: &Authentication) -> Value {
    let relays = settings.trusted_relays.iter().map(|relay| {
        let peers = relay.peers.iter().map(ToString::to_string).collect::<Vec<_>>();
        json!({"peers": peers, "authserv_id": relay.authserv_id})
    });
    let servers = settings.resolver.servers.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "mode": settings.mode.as_str(),
        "resolver": {"servers": servers, "timeout": spell(settings.resolver.timeout)},
        "trusted_relays": relays.collect::<Vec<_>>(),
        "trusted_sealers": settings.trusted_sealers,
    })
}
