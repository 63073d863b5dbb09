//! `authentication` in `configs/security.json`: the verification of senders, and the relays and ARC
//! signers that are trusted for it.
//!
//! Absent on purpose: a switch that turns verification off. `monitor` refuses nothing, and still
//! grants no trust without proof.

use super::values::net::domain;
use crate::config::values::section::*;
use crate::domain::Network;
use std::net::{IpAddr, SocketAddr};

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

/// Verification of senders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Authentication {
    pub mode: Mode,
    pub resolver: ResolverSettings,
    pub trusted_relays: Vec<TrustedRelay>,
    /// Domains whose ARC seals are trusted, lower case.
    pub trusted_arc_signers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResolverSettings {
    /// Empty: the system's name servers.
    pub servers: Vec<SocketAddr>,
    /// Timeout of one answer.
    #[serde(with = "TypedDuration")]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    typed: Option<&TypedAuthentication>,
    place: &mut CheckPlace<'_, '_>,
) -> Authentication {
    let (none, no_resolver) = (TypedAuthentication::default(), TypedResolver::default());
    let typed = typed.unwrap_or(&none);
    let resolver = typed.resolver.as_ref().unwrap_or(&no_resolver);
    let servers = resolver.servers.as_deref().unwrap_or_default();
    let servers = place.each("resolver/servers", servers, |text| {
        let hint = "write one such as `127.0.0.1:5353` or `[::1]:5353`";
        server(text).ok_or((
            format!("`{text}` is not a server's address"),
            hint.to_owned(),
        ))
    });
    let usual = ResolverSettings::default().timeout;
    let timeout = resolver.timeout.map_or(usual, |span| span.0);
    if timeout.is_zero() || timeout > TIMEOUT_MAX {
        let limit = spell(TIMEOUT_MAX);
        place.complain("resolver/timeout", format!("must be from 1ms to {limit}"));
    }
    let mut trusted_relays = Vec::new();
    for (index, relay) in typed.trusted_relays.iter().flatten().enumerate() {
        let mut place = place.under("trusted_relays");
        let place = &mut place.under(index);
        let peers = place.each("peers", &relay.peers, |text| {
            let hint = "write one such as `192.0.2.1` or `10.0.0.0/8`";
            let message = format!("`{text}` is no address and no network");
            Network::parse(text).map_err(|_| (message, hint.to_owned()))
        });
        let typed = &relay.authserv_id;
        match domain(typed) {
            Some(authserv_id) => trusted_relays.push(TrustedRelay { peers, authserv_id }),
            None => place.complain("authserv_id", format!("`{typed}` is not a host name")),
        }
    }
    let signers = typed.trusted_arc_signers.as_deref().unwrap_or_default();
    let trusted_arc_signers = place.each("trusted_arc_signers", signers, |text| {
        domain(text).ok_or((format!("`{text}` is not a domain name"), String::new()))
    });
    Authentication {
        mode: typed.mode,
        resolver: ResolverSettings { servers, timeout },
        trusted_relays,
        trusted_arc_signers,
    }
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
